"""The runs of the packaging study, which differ only in their settings.

Everything that the paper did not have is off: augmentation, relabeling, human share, weight cap,
averaged weights, the lower weight of pseudo-labels as evidence, and the search for outliers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from surelabel.config.choices import (
    ClassWeighting,
    Dropout,
    Measure,
    Net,
    Optimizer,
    Schedule,
    Tail,
    Weighting,
)
from surelabel.config.settings import Config
from surelabel_studies.runner import PAPER_LOOP, Options

_TITLES = {
    "top": "top {n:,} per round, ten rounds",
    "baseline": "deterministic, p > .999",
    "tau": "tau, plain loss",
    "penalty": "tau, entropy penalty",
    "entropy": "tau, plain loss, by H[E p] alone",
}
"""The four runs on set 4 in the order of the paper's confusion matrices, and one of our own."""
MODELS = tuple(_TITLES)
FIRST_NETS = ("baseline", "tau", "penalty")
"""Runs that differ from round 1 on: the others start with the same nets as tau."""
TOP = 500
TOP_ROUNDS = 10
MC_SAMPLES = 50

_LOOP: Options = {
    **PAPER_LOOP,
    "views": 0,
    "optimizer": Optimizer.ADAM,
    "schedule": Schedule.ONE_CYCLE,
    "members": 1,
    "mc_samples": MC_SAMPLES,
    "batch_size": 64,
    "stop_below": 0,
    "stop_after_empty": 3,
}
# Not the paper's: photographs at the size at which they were taken, moved in the maps; those with
# a label also moved, turned and relit before the backbone sees them.
_DETAIL: Options = {"image_size": 299, "augment": True, "views": 2, "weight_average": 0.999}
# The paper names no quartile here; Q2 is the one it takes with the entropy penalty on MNIST.
_TAU: Options = {"accept": "q2", "weights": Weighting.INVERSE_UNCERTAINTY}
_MODELS: Mapping[str, Options] = {
    "top": {"weights": Weighting.INVERSE_UNCERTAINTY},
    "baseline": {
        "accept": "confidence:.999",
        "weights": Weighting.NONE,
        "dropout": Dropout.FIXED,
        "dropout_p": 0.0,
        "mc_samples": 1,
        "noise_samples": 0,
        "score": Measure.LEAST_CONFIDENCE,
    },
    "tau": _TAU,
    "penalty": {**_TAU, "entropy_penalty": 1.0},
    # Without the term E[exp s] in the score and in the weights.
    "entropy": {
        **_TAU,
        "score": Measure.PREDICTIVE_ENTROPY,
        "weight_measure": Measure.PREDICTIVE_ENTROPY,
    },
}


@dataclass(frozen=True)
class Trained:
    """Which backbone with which tail, and how long it is trained."""

    net: str = str(Net.EFFICIENTNET_LITE0)
    net_weights: str = ""
    tail: Tail = Tail.SMALL
    steps: int = 400
    rounds: int = 20
    """Limit for the runs that otherwise end after three empty rounds."""
    start_from: str = ""
    """A round of another run, from whose layers the tail detail starts."""

    def settings(self, seed: int) -> dict[str, object]:
        """The settings that all runs of a seed share."""
        names = {"net": self.net, "net_weights": self.net_weights, "tail": self.tail}
        names["start_from"] = self.start_from
        own = _DETAIL if self.tail is Tail.DETAIL else {}
        return {**_LOOP, **own, **names, "steps": self.steps, "seed": seed}


def title_of(model: str, share: float) -> str:
    """The title of a run on this ``share`` of the paper's photographs."""
    return _TITLES[model].format(n=_top(share))


def _top(share: float) -> int:
    return max(1, round(TOP * share))


def self_training(model: str, trained: Trained, seed: int, share: float) -> Config:
    """The settings of a run on set 4 with this ``share`` of the paper's photographs."""
    chosen = {**trained.settings(seed), "max_rounds": trained.rounds, **_MODELS[model]}
    if model == "top":
        chosen |= {"accept": f"top:{_top(share)}", "max_rounds": TOP_ROUNDS}
    return Config.from_mapping(chosen)


def supervised(trained: Trained, seed: int) -> Config:
    """One round on all labels: the paper's transfer learning. A wide tail has fixed dropout."""
    fixed = {"dropout": Dropout.FIXED} if trained.tail is Tail.WIDE else {}
    return Config.from_mapping(
        {
            **trained.settings(seed),
            **fixed,
            "accept": "tukey",
            "max_rounds": 1,
            "class_weights": ClassWeighting.BALANCED,
        }
    )
