"""Most anonymous memory while cached features of many photographs are learned from and scored."""

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

from made_up_photos import first_inputs, lite0_features, made_up, skipped_without_weights
from settings import Settings
from surelabel.config.settings import Config
from surelabel.engines.local import LocalLearner
from surelabel.types import Progress

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
    round_inputs = first_inputs(catalog)
    most = [_anonymous()]

    def look(_: Progress) -> None:
        most.append(_anonymous())

    learner.learn(round_inputs, work, look)
    trained = max(most)
    learner.predict(round_inputs.problem.pool_ids, look)
    return {"anonymous_gb_trained": trained, "anonymous_gb_scored": max(most)}


def _anonymous() -> float:
    """RssAnon in GB: mapped files do not count."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "this system does not tell its anonymous memory"
    return round(int(found[1]) / 1e6, 3)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
