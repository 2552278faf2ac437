"""A run on real MNIST, against the truth and in epochs of the reference net."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

import surelabel
from digits import ABSENT, have_digits, read_digits
from our_run import made_run, scored_rounds
from reference_epoch import ReferenceEpoch
from selective import curve, figures
from settings import Settings
from surelabel.engines.device import prepare


def main(settings: Settings) -> dict[str, Any]:
    from sklearn.metrics import cohen_kappa_score

    if not have_digits():
        return ABSENT
    digits = read_digits(settings, n_pool=settings.images)
    prepare(surelabel.Config())
    steps, every = (1, 1.0) if settings.tiny else (20, 45.0)
    epoch = ReferenceEpoch(digits.images, digits.truth, steps)
    epoch.measure()
    with tempfile.TemporaryDirectory() as folder:
        out = settings.out or Path(folder) / "run"
        seconds = _seconds(replace(settings, out=out), epoch, every)
        epoch.measure()
        rounds = scored_rounds(surelabel.open_run(out), digits)
    last = rounds[-1]
    taken = last.table["accepted"].to_numpy()
    kappa = cohen_kappa_score(last.truth[taken], last.guess[taken]) if taken.any() else None
    return {
        "seed": settings.seed,
        "labels_per_class": settings.labels,
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


def _seconds(settings: Settings, epoch: ReferenceEpoch, every: float) -> float:
    """What a run takes in a process of its own; the epoch is measured ``every`` so many seconds."""
    spawn = multiprocessing.get_context("spawn")
    hearing, telling = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_label, args=(settings, telling), daemon=True)
    process.start()
    telling.close()
    assert process.pid is not None
    started = hearing.recv()
    while not hearing.poll(every):
        epoch.measure_instead_of(process.pid)
    ended = hearing.recv()
    process.join()
    return float(ended - started - epoch.paused)


def _label(settings: Settings, telling: Connection) -> None:
    digits = read_digits(settings, n_pool=settings.images)
    telling.send(time.perf_counter())
    with made_run(settings, digits):
        telling.send(time.perf_counter())
