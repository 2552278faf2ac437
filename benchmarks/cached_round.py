"""The time of a round from cached features, relative to one that runs the backbone again."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from made_up_photos import (
    first_inputs,
    lite0_features,
    made_up,
    skipped_without_weights,
    with_noise,
)
from settings import Settings
from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.engines.local import LocalLearner
from surelabel.types import JsonObject


def main(settings: Settings) -> JsonObject:
    skipped = skipped_without_weights()
    if skipped:
        return skipped
    n = settings.size(settings.images, full=11_948, tiny=40)
    steps = settings.size(settings.steps, full=0, tiny=5)
    small = Config(net="efficientnet-lite0", tail=Tail.SMALL, views=0, steps=steps)
    config = small.in_effect(pretrained=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        catalog = with_noise(made_up(n), place)
        round_inputs = first_inputs(catalog)

        def one_round(name: str) -> tuple[float, float]:
            work = place / name
            work.mkdir()
            started, worked = time.perf_counter(), time.process_time()
            features = lite0_features(catalog, place, place / "cache")
            features.compute()
            ensemble = LocalLearner(config, features).train(round_inputs, work)
            ensemble.predict(round_inputs.problem.pool_ids)
            return time.perf_counter() - started, time.process_time() - worked

        anew, cached = one_round("anew"), one_round("cached")
    return {
        "images": n,
        "backbone_run_again_seconds": round(anew[0], 2),
        "cached_seconds": round(cached[0], 2),
        "ratio": round(cached[0] / anew[0], 4),
        "processor_ratio": round(cached[1] / anew[1], 4),
    }
