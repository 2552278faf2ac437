"""Peak anonymous memory while a net is trained on and scores cached features of many photos."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from made_up_photos import first_inputs, lite0_features, made_up, skipped_without_weights
from settings import Settings
from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.engines.local import LocalLearner
from surelabel.types import JsonObject, Progress

_SLICE = 5000


def main(settings: Settings) -> JsonObject:
    skipped = skipped_without_weights()
    if skipped:
        return skipped
    n = settings.size(settings.images, full=100_000, tiny=500)
    steps = settings.size(settings.steps, full=200, tiny=5)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, folder, str(n), str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: JsonObject = json.loads(done.stdout.splitlines()[-1])
    return {"images": n, **result}


def measure(folder: Path, n: int, steps: int) -> JsonObject:
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
    small = Config(net="efficientnet-lite0", tail=Tail.SMALL, views=0, steps=steps)
    config = small.in_effect(pretrained=True)
    round_inputs = first_inputs(catalog)
    used = [_anonymous()]

    def record(_: Progress) -> None:
        used.append(_anonymous())

    ensemble = LocalLearner(config, features).train(round_inputs, work, record)
    trained = max(used)
    ensemble.predict(round_inputs.problem.pool_ids, record)
    return {"anonymous_gb_trained": trained, "anonymous_gb_scored": max(used)}


def _anonymous() -> float:
    """RssAnon in GB; mapped files do not count."""
    line = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert line is not None, "this system does not report anonymous memory"
    return round(int(line[1]) / 1e6, 3)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
