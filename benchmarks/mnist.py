"""A run on real MNIST, against the truth and in epochs of the reference net."""

from __future__ import annotations

import time
from typing import Any

import torch

import surelabel
from digits import ABSENT, have_digits, read_digits
from our_run import made_run, scored_rounds
from reference_epoch import ReferenceEpoch
from selective import curve, figures
from settings import Settings
from surelabel.engines import prepare
from surelabel.session import Listeners


def main(settings: Settings) -> dict[str, Any]:
    from sklearn.metrics import cohen_kappa_score

    if not have_digits():
        return ABSENT
    digits = read_digits(settings, n_pool=settings.images)
    prepare(surelabel.Config())
    steps, every = (3, 0.0) if settings.tiny else (20, 45.0)
    epoch = ReferenceEpoch(digits.images, digits.truth, steps, every)
    epoch.measure()
    before, started = epoch.spent, time.perf_counter()
    with made_run(settings, digits, Listeners(on_event=epoch.on_event)) as run:
        seconds = time.perf_counter() - started - (epoch.spent - before)
        epoch.measure()
        rounds = scored_rounds(run, digits.truth)
    last = rounds[-1]
    taken = last.table["accepted"].to_numpy()
    kappa = cohen_kappa_score(last.truth[taken], last.guess[taken]) if taken.any() else None
    return {
        "seed": settings.seed,
        "labels_a_class": settings.labels,
        "effort": settings.effort,
        "pool": len(last.score),
        "one_minus_kappa": None if kappa is None else round(1 - float(kappa), 5),
        "left": int((~taken).sum()),
        "rounds": len(rounds),
        "curves": {r.number: curve(r.score, r.guess, r.truth) for r in rounds},
        **figures(last.score, last.guess != last.truth),
        "seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "reference_epoch_seconds": [round(each, 2) for each in epoch.each],
        "reference_epochs": round(seconds / epoch.seconds, 2),
    }
