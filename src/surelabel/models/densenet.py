"""DenseNet-121, 169 and 201 with the names and shapes of the public ImageNet checkpoints.

The paper keeps everything up to the third transition frozen and trains the last dense block.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

LAYERS = {
    "densenet121": (6, 12, 24, 16),
    "densenet169": (6, 12, 32, 32),
    "densenet201": (6, 12, 48, 32),
}
"""Dense layers in each of the four blocks, by net."""
_GROWTH = 32
_BOTTLENECK = 4
_STEM = 64
#: Older files write norm.1 for norm1.
_OLD_NAME = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12])\.")


class _DenseLayer(nn.Module):
    """Batch norm, ReLU, 1x1 to 4k, batch norm, ReLU, 3x3 to k; concatenated with the input."""

    def __init__(self, n_in: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(n_in)
        self.conv1 = nn.Conv2d(n_in, _BOTTLENECK * _GROWTH, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(_BOTTLENECK * _GROWTH)
        self.conv2 = nn.Conv2d(_BOTTLENECK * _GROWTH, _GROWTH, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        narrow = self.conv1(torch.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(torch.relu(self.norm2(narrow)))], dim=1)


def _dense_block(n_in: int, n_layers: int) -> nn.Sequential:
    """(N, n_in, H, W) -> (N, n_in + 32 n_layers, H, W)."""
    layers = [(f"denselayer{i + 1}", _DenseLayer(n_in + i * _GROWTH)) for i in range(n_layers)]
    return nn.Sequential(OrderedDict(layers))


class _Transition(nn.Module):
    """Batch norm, ReLU, 1x1 to half the channels, 2x2 mean pooling."""

    def __init__(self, n_in: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(n_in)
        self.conv = nn.Conv2d(n_in, n_in // 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return functional.avg_pool2d(self.conv(torch.relu(self.norm(x))), 2)


class LastDenseBlock(nn.Module):
    """(N, C, H, W) -> (N, ``width``): the last block, batch norm, ReLU, mean over space."""

    def __init__(self, block: nn.Module, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.denseblock4, self.norm5, self.width = block, norm, norm.num_features

    @classmethod
    def untrained(cls, name: str, n_in: int) -> LastDenseBlock:
        """The last block of the net ``name``, with new weights."""
        n_layers = LAYERS[name][-1]
        return cls(_dense_block(n_in, n_layers), nn.BatchNorm2d(n_in + n_layers * _GROWTH))

    def forward(self, maps: Tensor) -> Tensor:
        return torch.relu(self.norm5(self.denseblock4(maps))).mean((2, 3))


class PublicDenseNet(nn.Module):
    """(N, 3, H, W) -> ImageNet logits (N, 1000)."""

    def __init__(self, name: str) -> None:
        super().__init__()
        modules: list[tuple[str, nn.Module]] = [
            ("conv0", nn.Conv2d(3, _STEM, 7, stride=2, padding=3, bias=False)),
            ("norm0", nn.BatchNorm2d(_STEM)),
            ("relu0", nn.ReLU()),
            ("pool0", nn.MaxPool2d(3, stride=2, padding=1)),
        ]
        width = _STEM
        for block, n_layers in enumerate(LAYERS[name], start=1):
            modules.append((f"denseblock{block}", _dense_block(width, n_layers)))
            width += n_layers * _GROWTH
            if block < len(LAYERS[name]):
                modules.append((f"transition{block}", _Transition(width)))
                width //= 2
        modules.append(("norm5", nn.BatchNorm2d(width)))
        self.features = nn.Sequential(OrderedDict(modules))
        self.classifier = nn.Linear(width, 1000)
        self.width = width

    def stem(self) -> nn.Sequential:
        """Up to the third transition: (N, 3, 224, 224) -> (N, C, 7, 7)."""
        named = list(self.features.named_children())
        at = [name for name, _ in named].index("transition3")
        return nn.Sequential(OrderedDict(named[: at + 1]))

    def last_block(self) -> LastDenseBlock:
        """The layers after the stem, with their weights."""
        norm = self.features.get_submodule("norm5")
        assert isinstance(norm, nn.BatchNorm2d)
        return LastDenseBlock(self.features.get_submodule("denseblock4"), norm)

    def pooled(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, ``width``), the last features averaged over space."""
        pooled: Tensor = self.last_block()(self.stem()(images))
        return pooled

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.pooled(images))
        return logits


def modern_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Parameter names in the present spelling: ``norm1.weight`` for the older ``norm.1.weight``."""
    return {_OLD_NAME.sub(r"\1\2.", name): value for name, value in weights.items()}
