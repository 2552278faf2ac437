"""What a run on photographs costs after its features: time and memory, beside logistic regression.

Artificial features of 10,000 photographs in ten overlapping classes, as wide as those of the
default networks; 300 labels, two rounds, rounds and result table written to disk.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from made_up_photos import made_up, skipped_without_weights
from settings import Settings
from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.inputs import Features, Images
from surelabel.engines.local import learner_for
from surelabel.models.backbones import load_backbone
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.loop import self_train
from surelabel.types import IntArray, JsonObject, LabelSource, Split
from surelabel.workflows.label import FolderStore, write_result
from surelabel.workflows.model_inputs import PHOTOGRAPH_NETS
from surelabel.workflows.problem import problem_of

_CLASSES = 10
_LABELS = 300
_HIDDEN = 64
"""Dimensions that the features are made from: those of real networks are far from independent."""
_DISTANCE = 0.45
"""Of the class centers in each of them, in deviations within a class."""


def main(settings: Settings) -> JsonObject:
    skipped = skipped_without_weights()
    if skipped:
        return skipped
    n = settings.size(settings.images, full=10_000, tiny=600)
    command = [sys.executable, __file__, str(n), str(settings.seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: JsonObject = json.loads(done.stdout.splitlines()[-1])
    return {"images": n, **result}


def measure(n: int, seed: int, place: Path) -> JsonObject:
    truth = np.random.default_rng(seed).integers(0, _CLASSES, n)
    config = Config(net=PHOTOGRAPH_NETS, max_rounds=2, accept="tukey", seed=seed, cache=str(place))
    config = config.in_effect(pretrained=True)
    catalog = labeled(made_up(n), truth, seed)
    images = Images(catalog, open_pixels(catalog, place), in_memory=False)
    features = Features(images, load_backbone(config), place)
    fill(features, truth, seed)
    features.compute()
    folder = RunFolder.create(place / "run", config=config, catalog=catalog, about={})
    memory = PeakMemory()
    started, worked = time.monotonic(), time.process_time()
    with memory, folder.lock():
        learner = learner_for(config, features)
        self_train(lambda known: problem_of(folder, known), learner, FolderStore(folder), config)
        write_result(folder)
    seconds, processor_seconds = time.monotonic() - started, time.process_time() - worked
    guess = np.array([catalog.classes.index(g) for g in _guesses(folder)])
    pool = catalog.labels < 0
    rival, rival_seconds = logistic_regression(features, catalog)
    return {
        "features": features.store.shape[0],
        "rounds": len(FolderStore(folder).history()),
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor_seconds, 1),
        "anonymous_gb_above_features": round(memory.most - memory.first, 3),
        "regression_processor_seconds": round(rival_seconds, 1),
        "ratio": round(processor_seconds / rival_seconds, 1),
        "wrong": round(float((guess != truth[pool]).mean()), 4),
        "regression_wrong": round(float((rival != truth[pool]).mean()), 4),
    }


def labeled(catalog: Catalog, truth: IntArray, seed: int) -> Catalog:
    """``catalog`` with the true labels of 300 random images, to be cross-fitted."""
    chosen = np.zeros(len(catalog), dtype=np.bool_)
    chosen[np.random.default_rng(seed + 1).permutation(len(catalog))[:_LABELS]] = True
    return replace(
        catalog,
        labels=np.where(chosen, truth, -1).astype(np.int64),
        sources=np.where(chosen, str(LabelSource.GIVEN), ""),
        splits=np.where(chosen, str(Split.TRAIN), str(Split.POOL)),
        classes=tuple(f"class {k}" for k in range(_CLASSES)),
        cross_fit=True,
    )


def fill(features: Features, truth: IntArray, seed: int) -> None:
    """Store artificial features: positive, as after a ReLU, and different by class."""
    rng = np.random.default_rng(seed + 2)
    width = features.store.shape[0]
    centers = _DISTANCE * rng.standard_normal((_CLASSES, _HIDDEN), dtype=np.float32)
    weights = rng.standard_normal((_HIDDEN, width), dtype=np.float32) / np.sqrt(_HIDDEN)
    digests = features.catalog.digests
    for start in range(0, len(digests), 1000):
        part = slice(start, start + 1000)
        noise = rng.standard_normal((len(digests[part]), _HIDDEN), dtype=np.float32)
        values = np.maximum((noise + centers[truth[part]]) @ weights, 0).astype(np.float16)
        features.store.add(digests[part], values)


def logistic_regression(features: Features, catalog: Catalog) -> tuple[IntArray, float]:
    """Guesses (N,) of scikit-learn's defaults for the pool, and its processor seconds."""
    known = catalog.labels >= 0
    rows = features.pixels(features.rows(catalog.ids)).numpy()
    started = time.process_time()
    model = LogisticRegression(max_iter=1000).fit(
        rows[known].astype(np.float32), catalog.labels[known]
    )
    guess: IntArray = model.predict(rows[~known].astype(np.float32))
    return guess, time.process_time() - started


def _guesses(folder: RunFolder) -> list[str]:
    from surelabel.workflows.label import annotations_of

    table = annotations_of(folder).set_index("id")
    return [str(table.guess[i]) for i in folder.catalog.ids[folder.catalog.labels < 0]]


class PeakMemory:
    """Anonymous memory (RssAnon) in GB when a block begins, and the most while it runs."""

    def __init__(self) -> None:
        self.first = self.most = _anonymous()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, _anonymous())


def _anonymous() -> float:
    line = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert line is not None, "this system does not report anonymous memory"
    return int(line[1]) / 1e6


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), Path(folder))))
