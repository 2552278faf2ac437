"""The cost of a run on any machine: images times multiply-accumulates of a forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest

import torch
from torch.utils.flop_counter import FlopCounterMode

from surelabel.config.choices import Mode, Net
from surelabel.config.settings import Config
from surelabel.engines.neighbor_search import thumbnail_length
from surelabel.models.bayesian import BayesianNet
from surelabel.models.growing_densenet import growth_rate
from surelabel.models.nets import build_net
from surelabel.selftraining.adjustments import MAX_INDEXED
from surelabel.selftraining.metrics import RoundMetrics
from surelabel_studies.mnist.rows import PAPER_POOL, ROWS, PaperRow, config_of
from surelabel_studies.mnist.split import LABELS

_SIDE, _CLASSES = 28, 10
_FLOPS_PER_MAC = 2


@dataclass(frozen=True)
class Macs:
    """Multiply-accumulates for one image; the stem runs once, the tail once per sample."""

    stem: int
    tail: int

    @property
    def forward(self) -> int:
        """One whole forward pass."""
        return self.stem + self.tail


@dataclass(frozen=True)
class Cost:
    """Multiply-accumulates of forward passes; backward passes are not included."""

    training: float
    """Training images seen times the forward pass of the net."""
    scoring: float
    """Held-out and pool images, each with all its samples; with consistency also the teacher's
    predictions, at most one for each training image seen; and all comparisons of two images by
    the neighbor search."""

    @property
    def total(self) -> float:
        """A training step with its backward pass counts as three forward passes."""
        return 3 * self.training + self.scoring


def count_macs(net: BayesianNet, channels: int, size: int) -> Macs:
    """Count those of convolutions and dense layers for one image of ``size`` x ``size``."""
    was_training = net.training
    net.eval()
    image = torch.zeros(1, channels, size, size, device=next(net.parameters()).device)
    with torch.no_grad():
        with FlopCounterMode(display=False) as stem:
            features = net.stem(image)
        with FlopCounterMode(display=False) as tail:
            net.tail(features)
    net.train(was_training)
    flops = stem.get_total_flops(), tail.get_total_flops()
    return Macs(*(n // _FLOPS_PER_MAC for n in flops))


def cost_of(rounds: list[RoundMetrics], config: Config, n_folds: int = 1) -> Cost:
    """The cost of a run's finished rounds; of ``n_folds`` folds, each net scores one."""
    training = scoring = 0.0
    for metrics in rounds:
        members = metrics.learner["members"]
        seen = sum(m["images_seen"] * _macs_of(config, m).forward for m in members)
        training += seen
        scoring += seen if config.consistency else 0
        n_scored = _n_scored(metrics, config, n_folds)
        for member in members:
            macs = _macs_of(config, member)
            scoring += n_scored * (macs.stem + config.mc_samples * macs.tail)
    scoring += _n_compared(rounds, config) * thumbnail_length(_SIDE, 1)
    return Cost(training, scoring)


def _n_compared(rounds: list[RoundMetrics], config: Config) -> int:
    """Pairs of images that the neighbor search compared.

    Images left unlabeled are searched once more for the next round, which is trained on the
    teacher's labels for them.
    """
    total = 0
    for metrics, after in zip_longest(rounds, rounds[1:]):
        n_indexed = min(metrics.n_pool, MAX_INDEXED) + metrics.n_human
        n_queries = metrics.n_held_out + metrics.n_pool
        if config.consistency and after is not None and after.inputs == metrics.inputs:
            n_queries += metrics.n_left - (metrics.n_outliers if metrics.has_outliers else 0)
        total += n_indexed * n_queries if metrics.neighbor_vote or metrics.matrix_scaled else 0
    return total


def _n_scored(metrics: RoundMetrics, config: Config, n_folds: int) -> float:
    """Images that one member scores; out of fold, each held-out label is scored by one member."""
    kept = metrics.n_pseudo if config.mode is Mode.KEEP else 0
    return metrics.n_pool - kept + metrics.n_held_out / n_folds


def _macs_of(config: Config, member: Mapping[str, int]) -> Macs:
    shape = tuple(int(member[name]) for name in ("size", "channels", "n_classes", "k"))
    return _macs_of_shape(config.net, config.width, *shape)


@cache
def _macs_of_shape(
    net: str, width: float, size: int, channels: int, n_classes: int, k: int
) -> Macs:
    built = build_net(
        Config(net=net, width=width),
        size=size,
        channels=channels,
        n_classes=n_classes,
        k=k,
        generator=torch.Generator().manual_seed(0),
    )
    return count_macs(built, channels, size)


def paper_cost(row: PaperRow) -> Cost:
    """The cost of the paper's own schedule, estimated from its table.

    The paper does not print how many labels each round had. The estimate lets the training set
    grow in equal steps from 500 to everything labeled in the end, and k by the growth rule with
    nu = 1. Most labels come early, so the estimate is rather too low.
    """
    config = config_of(row.name, Net.DENSENET, seed=0)
    n_rounds, n_labeled = row.paper.rounds, PAPER_POOL - row.paper.left
    training = scoring = 0.0
    for number in range(1, n_rounds + 1):
        macs = _paper_macs(config, number)
        labeled = n_labeled * (number - 1) / n_rounds
        n_train = LABELS * _CLASSES + labeled
        training += config.members * config.epochs * n_train * macs.forward
        n_scored = PAPER_POOL - labeled + 5000
        scoring += config.members * n_scored * (macs.stem + config.mc_samples * macs.tail)
    return Cost(training, scoring)


def cheapest_of_the_paper() -> Cost:
    """The cost of the paper's cheapest row."""
    return min((paper_cost(row) for row in ROWS), key=lambda cost: cost.total)


def _paper_macs(config: Config, number: int) -> Macs:
    k = growth_rate(config.growth_start, config.growth_max, 1, number)
    return _macs_of(config, {"size": _SIDE, "channels": 1, "n_classes": _CLASSES, "k": k})
