"""The detail tail: attention over the maps of earlier layers of a frozen net.

Features that are averaged over the whole photograph do not hold a few characters or a scratch. So
the maps of earlier layers are kept, a few convolutions are trained on them, and each of several
heads decides where to look before anything is averaged. What it finds goes through the small
Bayesian head, so that thirty samples cost little more than one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from surelabel.config.choices import Net
from surelabel.config.settings import Config
from surelabel.models.backbones import net_names
from surelabel.models.bayesian import BayesianNet
from surelabel.models.efficientnet_lite import SCALES
from surelabel.models.heads import SmallHead

WIDTH = 64
HEADS = 4
_BLOCKS = 4
_KERNEL = 3


class DetailNet(BayesianNet):
    """Maps (N, C, H, W) of a frozen backbone -> K logits and one log variance."""

    batched_tail = True
    large_maps = True

    def __init__(self, n_in: int, n_classes: int, config: Config) -> None:
        tail = SmallHead(HEADS * WIDTH, n_classes, config)
        (name,) = net_names(config.net)
        n_coarse = SCALES[Net(name)].detail_width
        super().__init__(AttentionPooling((n_in - n_coarse) // 4, n_coarse), tail, n_classes)
        self.masked = tail.masked()

    def features_by_stage(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The pooled features, and one stage: the backbone's own maps, averaged over space."""
        features: Tensor = self.stem(images)
        return features, [images.mean((2, 3))]

    def standardize(self, pixels: Tensor) -> Tensor:
        """float16 maps -> float32; the stem begins with a norm of its own."""
        device = self.get_buffer("pixel_mean").device
        return pixels.to(device, torch.float32).contiguous(memory_format=torch.channels_last)

    def attention(self, images: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 2H, 2W): how much each cell counts, the mean over heads; sum 1."""
        assert isinstance(self.stem, AttentionPooling)
        maps = self.stem.maps(images)
        return self.stem.attention_of(maps).mean(1).view(-1, *maps.shape[-2:])


class AttentionPooling(nn.Module):
    """(N, 4 F + C, H, W) -> (N, HEADS * WIDTH): depthwise residual blocks, one mean per head.

    Its input are a map of F channels and twice the side, four of its cells in one, and a map of C
    channels (see ``EfficientNetLite.detail_maps``). The work is done at the side of the former.
    """

    def __init__(self, n_fine: int, n_coarse: int) -> None:
        super().__init__()
        self.n_fine = n_fine
        self.norm = nn.BatchNorm2d(4 * n_fine + n_coarse)
        self.fine = nn.Conv2d(n_fine, WIDTH, 1, bias=False)
        self.coarse = nn.Conv2d(n_coarse, WIDTH, 1, bias=False)
        self.joined = nn.Sequential(nn.BatchNorm2d(WIDTH), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(*(_Block() for _ in range(_BLOCKS)))
        self.leave = nn.Sequential(nn.BatchNorm2d(WIDTH), nn.ReLU(inplace=True))
        self.where = nn.Conv2d(WIDTH, HEADS, 1)

    def maps(self, images: Tensor) -> Tensor:
        """(N, 4 F + C, H, W) -> (N, WIDTH, 2H, 2W)."""
        fine, coarse = self.norm(images).tensor_split([4 * self.n_fine], dim=1)
        both = self.fine(functional.pixel_shuffle(fine, 2)) + functional.interpolate(
            self.coarse(coarse), scale_factor=2
        )
        maps: Tensor = self.leave(self.blocks(self.joined(both)))
        return maps

    def attention_of(self, maps: Tensor) -> Tensor:
        """(N, WIDTH, H, W) -> (N, HEADS, H * W); each head sums to 1 over space."""
        weights: Tensor = self.where(maps).flatten(2).softmax(dim=2)
        return weights

    def forward(self, images: Tensor) -> Tensor:
        maps = self.maps(images)
        pooled = self.attention_of(maps) @ maps.flatten(2).transpose(1, 2)
        return pooled.flatten(1)


class _Block(nn.Module):
    """Depthwise convolution, norm, and two layers on each cell; added to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH, _KERNEL, padding=_KERNEL // 2, groups=WIDTH, bias=False),
            nn.BatchNorm2d(WIDTH),
            nn.Conv2d(WIDTH, 2 * WIDTH, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(2 * WIDTH, WIDTH, 1),
        )

    def forward(self, maps: Tensor) -> Tensor:
        added: Tensor = self.layers(maps)
        return maps + added
