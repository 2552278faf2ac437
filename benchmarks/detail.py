"""What the tail detail costs over pooled features: maps, a round from the cache, memory, disk."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from made_up_photos import first_inputs, made_up, skipped_without_weights
from settings import Settings
from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.dataset.array_store import FeatureStore
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.local import learner_for
from surelabel.types import JsonObject, Progress
from surelabel.workflows.model_inputs import PHOTOGRAPH_NETS, open_features

WAYS = {
    "pooled": Config(net=PHOTOGRAPH_NETS, image_size=320),
    "detail": Config(net="lite0", tail=Tail.DETAIL, image_size=299, views=0, members=1),
}
"""The default for photographs, and the packaging study's."""
_SLICE = 200


def main(settings: Settings) -> JsonObject:
    skipped = skipped_without_weights()
    if skipped:
        return skipped
    n = settings.size(settings.images, full=1000, tiny=60)
    steps = settings.size(settings.steps, full=400, tiny=2)
    found = {}
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, folder, way, str(n), str(steps)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[way] = json.loads(done.stdout.splitlines()[-1])
    pooled, detail = found["pooled"], found["detail"]
    ratios = {f"{key}_ratio": round(detail[key] / pooled[key], 3) for key in pooled}
    return {"images": n, "steps": steps, **found, **ratios, "ratio": ratios["features_ms_ratio"]}


def measure(folder: Path, way: str, n: int, steps: int) -> JsonObject:
    """Processor time per image and of one round with the pool scored, anonymous memory, disk."""
    config = WAYS[way].replace(steps=steps, cache=str(folder), threads=1, device="cpu")
    config = config.in_effect(pretrained=True)
    catalog = replace(made_up(n), size=config.image_size, cross_fit=config.tail is Tail.LINEAR)
    rng, store = np.random.default_rng(0), open_pixels(catalog, folder)
    for start in range(0, n, _SLICE):
        digests = catalog.digests[start : start + _SLICE]
        shape = (len(digests), catalog.size, catalog.size, 3)
        store.add(digests, rng.integers(0, 256, shape, dtype=np.uint8))
    features = open_features(config, catalog, store)
    started = time.process_time()
    features.compute()
    computed = time.process_time() - started
    inputs, used = first_inputs(catalog), [_anonymous()]

    def record(_: Progress) -> None:
        used.append(_anonymous())

    work = folder / "work"
    work.mkdir()
    started = time.process_time()
    trained = learner_for(config, features).train(inputs, work, record)
    trained.predict(inputs.problem.pool_ids, record)
    assert isinstance(features.store, FeatureStore)
    return {
        "features_ms": round(1000 * computed / n, 1),
        "round_seconds": round(time.process_time() - started, 2),
        "memory_gb": round(max(used), 3),
        "disk_kb": round(features.store.row_bytes / 1000, 1),
    }


def _anonymous() -> float:
    """RssAnon in GB; mapped files do not count."""
    line = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert line is not None, "this system does not report anonymous memory"
    return int(line[1]) / 1e6


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
