"""Digits that ship with scikit-learn, as a catalog, and round inputs about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from surelabel.config.settings import Config
from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import Decoding
from surelabel.engines.ensemble import Ensemble
from surelabel.engines.inputs import Images
from surelabel.engines.local import LocalLearner
from surelabel.selftraining.round_inputs import Problem, RoundInputs
from surelabel.types import Ids, IntArray, Prediction, Progress

N_CLASSES = 3
N_HUMAN = 24
N_TUNE = 12
N_POOL = 48


def digits() -> tuple[np.ndarray[Any, np.dtype[np.uint8]], IntArray]:
    """The first 0s, 1s and 2s, (84, 8, 8), with their labels."""
    bunch = load_digits(n_class=N_CLASSES)
    n = N_HUMAN + N_TUNE + N_POOL
    images = (bunch.images[:n] * 15).astype(np.uint8)
    return images, bunch.target[:n].astype(np.int64)


def digit_images(cache: Path) -> Images:
    """The digits, the first ones with their labels; the last human one is there twice."""
    pixels, labels = digits()
    pixels[N_HUMAN - 1] = pixels[0]
    known = np.where(np.arange(len(labels)) < N_HUMAN + N_TUNE, labels, -1)
    known[N_HUMAN - 1] = known[0]
    catalog = build_catalog(pixels, known, seed=0, decoding=Decoding(8), cache=cache)
    return Images(catalog, PixelStore(cache, catalog.size, catalog.channels))


def tiny(**changes: Any) -> Config:
    """A net that trains in a blink, on one thread's worth of work."""
    plain: dict[str, Any] = {
        "seed": 1,
        "steps": 12,
        "batch_size": 16,
        "members": 1,
        "mc_samples": 3,
        "width": 0.25,
        "consistency": 0.0,
        "early_stop": 0,
        "warm_start": False,
        "device": "cpu",
    }
    return Config(**{**plain, **changes})


def make_problem(catalog: Catalog, *, cross_fit: bool = False) -> Problem:
    """The first digits are human-labeled, then come tune and pool."""
    _, labels = digits()
    labels[N_HUMAN - 1] = labels[0]
    ids = catalog.ids
    first = N_HUMAN + N_TUNE
    tune = slice(0, N_HUMAN) if cross_fit else slice(N_HUMAN, first)
    return Problem(
        classes=("0", "1", "2"),
        human_ids=ids[:N_HUMAN],
        human_labels=labels[:N_HUMAN],
        tune_ids=ids[tune],
        tune_labels=labels[tune],
        pool_ids=ids[first:],
        cross_fit=cross_fit,
        inputs="digits",
    )


def first_inputs(problem: Problem) -> RoundInputs:
    none = np.empty(0, dtype=np.int64)
    return RoundInputs(1, problem, problem.pool_ids[:0], none, np.empty(0))


def later_inputs(problem: Problem, number: int, before: Path | None = None) -> RoundInputs:
    """Inputs with the first 20 pool images under labels that are partly wrong."""
    labels = np.arange(20, dtype=np.int64) % N_CLASSES
    weights = np.linspace(0.5, 1.0, 20)
    return RoundInputs(number, problem, problem.pool_ids[:20], labels, weights, before)


def trained(
    config: Config, images: Images, round_inputs: RoundInputs, work_folder: Path
) -> Ensemble:
    work_folder.mkdir(parents=True, exist_ok=True)
    return LocalLearner(config, images).train(round_inputs, work_folder)


def weights_of(learner: Ensemble, member: int = 0) -> dict[str, Tensor]:
    return dict(learner.members[member].net.state_dict())


def same_weights(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def same_predictions(one: Prediction, other: Prediction) -> bool:
    """Bit for bit."""
    return (
        one.ids.tolist() == other.ids.tolist()
        and np.array_equal(one.probabilities, other.probabilities)
        and np.array_equal(one.expected_entropy, other.expected_entropy)
        and np.array_equal(one.aleatoric_variance, other.aleatoric_variance)
    )


def stop_at(call: int) -> Callable[[Progress], None]:
    """A listener that interrupts at its n-th call, counted from 1."""
    left = [call]

    def listen(_: Progress) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    return listen


def pick(ids: Ids, *positions: int) -> Ids:
    return ids[list(positions)]
