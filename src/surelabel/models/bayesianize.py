"""Concrete Dropout put into a net that was built without it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor, nn

from surelabel.config.choices import Dropout
from surelabel.config.settings import Config
from surelabel.models.concrete_dropout import ConcreteDropout

#: Which 2-d convolutions: a pattern that their dotted names begin with, or a test of both.
Where: TypeAlias = str | Callable[[str, nn.Conv2d], bool]
_NAME = "dropout"


def bayesianize(
    module: nn.Module, where: Where = "", config: Config | None = None
) -> list[tuple[ConcreteDropout, nn.Conv2d]]:
    """Let Concrete Dropout follow each chosen 2-d convolution of ``module``; all by default.

    The net's own parameters keep their names, so its checkpoints still load; each convolution
    gains ``dropout.logit_p``. Returns the pairs that ``BayesianNet.masked`` wants. A convolution
    that has its dropout already keeps it.
    """
    config = config or Config()
    chosen = _test_of(where)
    pairs = []
    for name, layer in module.named_modules():
        if not isinstance(layer, nn.Conv2d) or not chosen(name, layer):
            continue
        if _NAME not in dict(layer.named_children()):
            learn, t = config.dropout is Dropout.CONCRETE, config.concrete_temperature
            drop = ConcreteDropout(layer.out_channels, config.dropout_p, learn=learn, temperature=t)
            layer.add_module(_NAME, drop.train(layer.training))
            layer.register_forward_hook(_drop)
        dropout = layer.get_submodule(_NAME)
        assert isinstance(dropout, ConcreteDropout)
        pairs.append((dropout, layer))
    return pairs


def _test_of(where: Where) -> Callable[[str, nn.Conv2d], bool]:
    if not isinstance(where, str):
        return where
    pattern = re.compile(where)
    return lambda name, _: pattern.match(name) is not None


def _drop(layer: nn.Module, _: Any, output: Tensor) -> Tensor:
    dropped: Tensor = layer.get_submodule(_NAME)(output)
    return dropped
