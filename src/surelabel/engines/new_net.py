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
    GrowingDenseNet,
    build_net,
    default_nu,
    growth_rate,
    start_from,
    widen,
)
from surelabel.selftrain import Lesson
from surelabel.types import derive_seed


def new_net(
    config: Config, images: Images | Features, lesson: Lesson, member: int, seed: int
) -> tuple[BayesianNet, dict[str, int]]:
    """With weights from ``seed``, and the facts that it takes to build it again."""
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
    warm = config.growth_warm and not lesson.problem.cross_fit
    if warm and lesson.earlier is not None and isinstance(net, GrowingDenseNet):
        before, about = load_net(weights_path(lesson.earlier, member), config)
        if isinstance(before, GrowingDenseNet) and about["n_classes"] == shape["n_classes"]:
            widen(before, net)
    return net, shape


def is_finite(net: BayesianNet) -> bool:
    """Whether all its weights are numbers."""
    return all(bool(torch.isfinite(value).all()) for value in net.state_dict().values())
