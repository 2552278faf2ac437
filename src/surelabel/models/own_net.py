"""A net of the user's own as a frozen backbone: ``--net PACKAGE.MODULE:CLASS``.

The class is an ``nn.Module`` that is made without arguments and has two methods:

    def input_spec(self):
        # The side in pixels, and mean and deviation per channel of pixels in [0, 1].
        return {"size": 64, "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}

    def features(self, images):
        # Standardized images (N, 3, S, S) -> (N, D), or a list of such, the last layer first.
        return ...

Its weights come with the class, or from ``--net-weights``. It is imported by name, so it has to be
on the Python path whenever the run is used; nothing of it is kept in the run but a digest.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from surelabel.errors import InputError, OptionError
from surelabel.models.pretrained_weights import load_weights, read_weights

_METHODS = ("input_spec", "features")


def is_own_net(name: str) -> bool:
    """Whether ``name`` is that of a class: PACKAGE.MODULE:CLASS."""
    return ":" in name


class OwnNet(nn.Module):
    """The user's net; ``layers`` are its features as a list."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def layers(self, images: Tensor) -> list[Tensor]:
        """(N, 3, S, S) -> features (N, D) of one or more layers, the last first."""
        compute: Callable[[Tensor], Any] = getattr(self.net, "features")  # noqa: B009
        found = compute(images)
        layers = [found] if isinstance(found, Tensor) else list(found)
        if not layers or any(layer.ndim != 2 or len(layer) != len(images) for layer in layers):
            shapes = ", ".join(str(tuple(layer.shape)) for layer in layers) or "nothing"
            raise InputError(
                f"The method features of {type(self.net).__name__} returned {shapes} for "
                f"{len(images)} images: return (N, D), or a list of such."
            )
        return layers

    def features(self, images: Tensor) -> Tensor:
        """The features of the last layer."""
        return self.layers(images)[0]


def own_input(name: str) -> Mapping[str, Any]:
    """What the class ``name`` says of its input: size, mean and std."""
    spec = _made(name).input_spec()  # type: ignore[operator]
    known = {"size", "mean", "std"}
    if not isinstance(spec, Mapping) or set(spec) != known or len(spec["mean"]) != 3:
        raise OptionError(
            f"The method input_spec of {name} returned {spec!r}: return a dictionary of size, mean "
            "and std, the last two with three numbers."
        )
    return spec


def load_own_net(name: str, weights: str) -> OwnNet:
    """The net with its weights, from the file ``weights`` where one is given."""
    net = _made(name)
    if weights:
        load_weights(net, read_weights(Path(weights).expanduser()), weights)
    return OwnNet(net.eval())


def _made(name: str) -> nn.Module:
    module_name, _, class_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, TypeError, ValueError) as error:  # the last two: no name, a relative one
        raise OptionError(
            f"The net {name} cannot be imported ({error}): put its folder on the Python path, for "
            "example with PYTHONPATH=."
        ) from None
    found = getattr(module, class_name, None)
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise OptionError(f"{module_name} has no class '{class_name}' that is a torch.nn.Module.")
    missing = [each for each in _METHODS if not callable(getattr(found, each, None))]
    if missing:
        raise OptionError(
            f"The net {name} lacks the method {' and '.join(missing)}: see docs/own-net.md."
        )
    return found()
