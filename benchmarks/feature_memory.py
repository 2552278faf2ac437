"""Anonymous memory of training and scoring a large pool of photographs from cached features."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from made_up_photos import first_lesson, lite0_features, skipped_without_weights
from settings import Settings
from surelabel.catalog import Catalog
from surelabel.catalog.ids import item_ids, strings
from surelabel.config import Config
from surelabel.engines import LocalLearner
from surelabel.types import LabelSource, Split

_SLICE = 5000


def main(settings: Settings) -> dict[str, Any]:
    skipped = skipped_without_weights()
    if skipped:
        return skipped
    n = settings.size(settings.images, full=100_000, tiny=500)
    steps = settings.size(settings.steps, full=200, tiny=5)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, folder, str(n), str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"images": n, **result}


def made_up(n: int) -> Catalog:
    """``n`` photographs that are not there, 500 of them labelled."""
    keys = [f"{i}.jpg" for i in range(n)]
    labelled = np.arange(n) < 500
    splits = np.where(
        labelled, np.where(np.arange(n) % 5 == 0, Split.TUNE, Split.TRAIN), Split.POOL
    )
    return Catalog(
        ids=item_ids(keys),
        paths=strings(keys),
        labels=np.where(labelled, np.arange(n) % 2, -1).astype(np.int64),
        sources=np.where(labelled, str(LabelSource.GIVEN), ""),
        splits=splits.astype(np.str_),
        groups=np.zeros(n, dtype="<U1"),
        digests=strings(f"{i:032x}" for i in range(n)),
        files=strings(keys),
        classes=("a", "b"),
        size=224,
        channels=3,
        cross_fit=False,
        resize="bicubic",
    )


def measure(folder: Path, n: int, steps: int) -> dict[str, Any]:
    catalog = made_up(n)
    features = lite0_features(catalog, folder, folder)
    rng = np.random.default_rng(0)
    for start in range(0, n, _SLICE):
        digests = catalog.digests[start : start + _SLICE]
        values = rng.standard_normal((len(digests), 1280), dtype=np.float32).astype(np.float16)
        features.store.add(digests, values)
    features.compute()
    work = folder / "work"
    work.mkdir()
    config = Config(net="efficientnet-lite0", views=0, steps=steps)
    learner = LocalLearner(config, features)
    lesson = first_lesson(catalog)
    learner.learn(lesson, work)
    trained = _anonymous()
    learner.predict(lesson.problem.pool_ids)
    return {"anonymous_gb_trained": trained, "anonymous_gb_scored": _anonymous()}


def _anonymous() -> float:
    """RssAnon in GB: mapped files do not count."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "this system does not tell its anonymous memory"
    return round(int(found[1]) / 1e6, 3)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
