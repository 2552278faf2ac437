"""What one member of the ensemble is trained on, for how long, and from which weights."""

from __future__ import annotations

import math

import numpy as np
import torch

from surelabel.config.choices import Effort, Net
from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.engines.inputs import Features, Images
from surelabel.engines.members import load_net, weights_path
from surelabel.errors import TooFewLabelsError
from surelabel.models.bayesian import BayesianNet
from surelabel.models.build import build_net
from surelabel.models.compact import CompactNet
from surelabel.models.growing_densenet import GrowingDenseNet, default_nu, growth_rate, widen
from surelabel.models.heads import start_from
from surelabel.selftraining.learner import Problem, RoundInputs
from surelabel.training.trainer import TrainingSet
from surelabel.types import UNLABELED, BoolArray, IntArray, derive_seed

_MEMBERS = {Effort.LOW: 1, Effort.NORMAL: 2, Effort.HIGH: 4}
_STEPS = {Effort.LOW: 1500, Effort.NORMAL: 3000, Effort.HIGH: 8000}
_FULL_SIZE = 50_000
"""Images from which a run gets the whole number of steps; smaller ones need fewer."""
_SMALLEST_SHARE = 0.2
_FROM_PEOPLE_ALONE = 1.5
"""Times as many steps while no pool image has a label: all is learned from the pool's looks."""


def n_members(config: Config, *, cross_fit: bool) -> int:
    """Nets in the ensemble; out-of-fold predictions need two at least."""
    members = config.members or _MEMBERS[config.effort]
    return max(2, members) if cross_fit else members


def n_steps(config: Config, n_images: int, n_human: int, n_pseudo: int) -> int:
    """Training steps of one net in one round.

    ``n_images`` are all images a step may draw, the others those with a label of people and of the
    machine: epochs are passes over them, as in the paper.
    """
    if config.steps:
        return config.steps
    if config.epochs:
        return config.epochs * math.ceil((n_human + n_pseudo) / config.batch_size)
    share = min(1.0, max(_SMALLEST_SHARE, math.sqrt(n_images / _FULL_SIZE)))
    looks_alone = config.consistency and not n_pseudo and n_images > n_human
    times = _FROM_PEOPLE_ALONE if looks_alone else 1
    return round(_STEPS[config.effort] * share * times)


def fold_of(labels: IntArray, units: IntArray, n_folds: int, seed: int) -> IntArray:
    """The fold of each labeled image, (N,): classes are spread evenly over the folds.

    Images of one unit (a group, or copies of each other) are in one fold.
    """
    rng = np.random.default_rng(derive_seed(seed, "folds"))
    _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    fold_of_unit = np.empty(len(first), dtype=np.int64)
    turn = 0
    for label in np.unique(labels[first]):
        where = rng.permutation(np.flatnonzero(labels[first] == label))
        fold_of_unit[where] = (turn + np.arange(len(where))) % n_folds
        turn += len(where)
    folds: IntArray = fold_of_unit[unit]
    return folds


def folds_of(problem: Problem, catalog: Catalog, n: int, seed: int) -> IntArray:
    """(N,) the fold of each human label of ``problem``; labels of one unit only are refused."""
    units = catalog.units(problem.human_ids)
    if (units == units[0]).all():
        raise TooFewLabelsError(
            "All labeled images are of one group, so none can be held out to set a threshold: "
            "label some images of another group."
        )
    return fold_of(problem.human_labels, units, n, seed)


def taught(problem: Problem, catalog: Catalog, member: int, n: int, seed: int) -> BoolArray:
    """(N,) which human labels this member of ``n`` learns from: all, or all but its fold."""
    out = np.zeros(len(problem.human_ids), dtype=bool)
    if problem.cross_fit:
        out |= folds_of(problem, catalog, n, seed) == member
    return ~out


def training_set(
    config: Config,
    images: Images | Features,
    round_inputs: RoundInputs,
    taught: BoolArray,
    pseudo_labels: IntArray,
) -> TrainingSet:
    """The human labels that are ``taught``, (N,), and the ``pseudo_labels`` that are some, (M,).

    With cross-fitting the other human labels are held out. With consistency the rest of the pool
    is looked at without labels.
    """
    problem, rows = round_inputs.problem, images.rows
    human_ids, human_labels = problem.human_ids[taught], problem.human_labels[taught]
    tune_ids, tune_labels = problem.tune_ids, problem.tune_labels
    if problem.cross_fit:
        tune_ids, tune_labels = problem.human_ids[~taught], problem.human_labels[~taught]
    there = pseudo_labels != UNLABELED
    ids, labels = round_inputs.pseudo_ids[there], pseudo_labels[there]
    weights = round_inputs.pseudo_weights[there]
    if config.consistency:
        known = np.concatenate([ids, round_inputs.outliers])
        rest = problem.pool_ids[~np.isin(problem.pool_ids, known)]
        ids = np.concatenate([ids, rest])
        labels = np.concatenate([labels, np.full(len(rest), UNLABELED)])
        weights = np.concatenate([weights, np.zeros(len(rest))])
    return TrainingSet(
        pixels=images.pixels,
        human_rows=rows(human_ids),
        human_labels=torch.from_numpy(human_labels),
        pseudo_rows=rows(ids),
        pseudo_labels=torch.from_numpy(labels),
        pseudo_weights=torch.from_numpy(weights).float(),
        tune_rows=rows(tune_ids),
        tune_labels=torch.from_numpy(tune_labels),
        views=images.views if isinstance(images, Features) else None,
    )


_WARM_RATE = 0.4
"""Share of the learning rate for a net that goes on from the round before."""


def new_net(
    config: Config, images: Images | Features, round_inputs: RoundInputs, member: int, seed: int
) -> tuple[BayesianNet, dict[str, int], float]:
    """With weights from ``seed`` or from the round before.

    Also the facts that it takes to build it again, and the share of the learning rate that suits
    its beginning: a net that knows much already would forget it at the full rate.
    """
    nu = (
        config.growth_nu
        if config.growth_nu >= 0
        else default_nu(len(round_inputs.problem.pool_ids))
    )
    k = growth_rate(config.growth_start, config.growth_max, nu, round_inputs.number)
    shape = {
        "size": images.catalog.size,
        "channels": images.channels,
        "n_classes": len(round_inputs.problem.classes),
        "k": k if config.net == Net.DENSENET else 0,
    }
    generator = torch.Generator().manual_seed(derive_seed(seed, "weights"))
    net = build_net(config, **shape, generator=generator)
    net.pixel_mean, net.pixel_std = images.statistics(config.seed)
    if isinstance(images, Features):
        start_from(net, images.backbone)
    return net, shape, _begin_with_earlier(net, config, round_inputs, member)


def _begin_with_earlier(
    net: BayesianNet, config: Config, round_inputs: RoundInputs, member: int
) -> float:
    """Give ``net`` what its predecessor learned, where that is asked for; returns that share."""
    grows = isinstance(net, GrowingDenseNet) and config.growth_warm
    goes_on = isinstance(net, CompactNet) and config.warm_start
    if not (grows or goes_on) or round_inputs.earlier is None or round_inputs.problem.cross_fit:
        return 1.0
    path = weights_path(round_inputs.earlier, member)
    before = load_net(path, config)[0] if path.exists() else None
    if before is None or before.n_classes != net.n_classes:
        return 1.0
    if isinstance(net, GrowingDenseNet) and isinstance(before, GrowingDenseNet):
        widen(before, net)
        return 1.0
    net.load_state_dict(before.state_dict())
    return _WARM_RATE


def is_finite(net: BayesianNet) -> bool:
    """Whether all its weights are numbers."""
    return all(bool(torch.isfinite(value).all()) for value in net.state_dict().values())
