"""A net before it is trained."""

from __future__ import annotations

import torch

from surelabel.choices import Net
from surelabel.config import Config
from surelabel.engines.features import Features
from surelabel.engines.images import Images
from surelabel.engines.weights import load_net, weights_path
from surelabel.nets import (
    BayesianNet,
    CompactNet,
    GrowingDenseNet,
    build_net,
    default_nu,
    growth_rate,
    start_from,
    widen,
)
from surelabel.selftrain import Lesson
from surelabel.types import derive_seed

_WARM_RATE = 0.4
"""Share of the learning rate for a net that goes on from the round before."""


def new_net(
    config: Config, images: Images | Features, lesson: Lesson, member: int, seed: int
) -> tuple[BayesianNet, dict[str, int], float]:
    """With weights from ``seed`` or from the round before.

    Also the facts that it takes to build it again, and the share of the learning rate that suits
    its beginning: a net that knows much already would forget it at the full rate.
    """
    nu = config.growth_nu if config.growth_nu >= 0 else default_nu(len(lesson.problem.pool_ids))
    k = growth_rate(config.growth_start, config.growth_max, nu, lesson.number)
    shape = {
        "size": images.catalog.size,
        "channels": images.channels,
        "n_classes": len(lesson.problem.classes),
        "k": k if config.net == Net.DENSENET else 0,
    }
    generator = torch.Generator().manual_seed(derive_seed(seed, "weights"))
    net = build_net(config, **shape, generator=generator)
    net.pixel_mean, net.pixel_std = images.statistics(config.seed)
    if isinstance(images, Features):
        start_from(net, images.backbone)
    return net, shape, _begin_with_earlier(net, config, lesson, member)


def _begin_with_earlier(net: BayesianNet, config: Config, lesson: Lesson, member: int) -> float:
    """Give ``net`` what its predecessor learnt, where that is asked for; returns that share."""
    grows = isinstance(net, GrowingDenseNet) and config.growth_warm
    goes_on = isinstance(net, CompactNet) and config.warm_start
    if not (grows or goes_on) or lesson.earlier is None or lesson.problem.cross_fit:
        return 1.0
    path = weights_path(lesson.earlier, member)
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
