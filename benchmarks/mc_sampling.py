"""The cost of thirty Monte Carlo samples relative to one deterministic pass of the compact net."""

from __future__ import annotations

import numpy as np
import torch

from clock import best_times
from settings import Settings
from surelabel.config.settings import Config
from surelabel.inference.sampling import predict
from surelabel.models.nets import build_net
from surelabel.types import JsonObject


def main(settings: Settings) -> JsonObject:
    n = 512 if settings.tiny else 8192
    generator = torch.Generator().manual_seed(0)
    net = build_net(Config(), size=28, channels=1, n_classes=10, k=0, generator=generator).eval()
    images = torch.randint(0, 256, (n, 1, 28, 28), generator=generator, dtype=torch.uint8)
    rows, ids = torch.arange(n), np.arange(n).astype(np.str_)

    def score(mc_samples: int) -> object:
        return predict([net], images.__getitem__, rows, ids, mc_samples=mc_samples, seeds=[0])

    times = best_times(
        {"one": lambda: score(1), "thirty": lambda: score(30)}, repeats=2 if settings.tiny else 10
    )
    return {
        "images": n,
        "one_pass_seconds": round(times["one"], 4),
        "thirty_samples_seconds": round(times["thirty"], 4),
        "ratio": round(times["thirty"] / times["one"], 3),
    }
