from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.errors import OptionError
from surelabel.models.backbones import load_backbone
from surelabel.models.detail import HEADS, WIDTH, AttentionPooling, DetailNet
from surelabel.models.efficientnet_lite import LITE0, LITE2, EfficientNetLite, Scale
from surelabel.models.nets import build_net

CONFIG = Config(net="efficientnet-lite0", tail=Tail.DETAIL)


def random_maps(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("scale", "fine", "coarse"), [(LITE0, 40, 112), (LITE2, 48, 120)])
@pytest.mark.parametrize("side", [96, 75])
def test_both_maps_are_kept_whole(scale: Scale, fine: int, coarse: int, side: int) -> None:
    torch.manual_seed(0)
    net = EfficientNetLite(scale).eval()
    shown = random_maps(1, 3, side, side)
    at_8, at_16 = -(-side // 8), -(-side // 16)
    with torch.no_grad():
        maps = net.detail_maps(shown)
        assert maps.shape == (1, 4 * fine + coarse, at_16, at_16)
        found = functional.pixel_shuffle(maps[:, : 4 * fine], 2)[..., :at_8, :at_8]
        means = [found.mean((2, 3)), maps[:, 4 * fine :].mean((2, 3))]
        for mean, expected in zip(means, reversed(net.layers(shown)[-2:]), strict=True):
            torch.testing.assert_close(mean, expected)


def test_attention_sums_to_1_and_the_features_are_the_means_under_it() -> None:
    torch.manual_seed(0)
    pooling = AttentionPooling(2, 3).eval()
    shown = random_maps(2, 11, 5, 7)
    with torch.no_grad():
        maps = pooling.maps(shown)
        weights = pooling.attention_of(maps)
        assert weights.shape == (2, HEADS, 140)
        torch.testing.assert_close(weights.sum(2), torch.ones(2, HEADS))
        features = pooling(shown).unflatten(1, (HEADS, WIDTH))
        for head in range(HEADS):
            each = weights[:, head].view(2, 1, 10, 14)
            torch.testing.assert_close(features[:, head], (maps * each).sum((2, 3)))
        pooling.where.weight.zero_()
        even = pooling(shown).unflatten(1, (HEADS, WIDTH))
        torch.testing.assert_close(even[:, 0], maps.mean((2, 3)))


def test_the_net_says_where_it_looked() -> None:
    net = build_net(
        CONFIG, size=64, channels=272, n_classes=3, k=0, generator=torch.Generator().manual_seed(0)
    ).eval()
    assert isinstance(net, DetailNet)
    with torch.no_grad():
        where = net.attention(random_maps(2, 272, 4, 5))
    assert where.shape == (2, 8, 10)
    torch.testing.assert_close(where.sum((1, 2)), torch.ones(2))


def test_all_samples_are_one_product() -> None:
    net = DetailNet(272, 3, CONFIG).eval()
    masks = [layer.draw((4, 1, layer.width)) for layer in net.dropouts()]
    assert len(masks) == len(net.masked) == 2
    with torch.no_grad():
        features = net.stem(random_maps(5, 272, 4, 4))
        with net.masks(masks):
            together = net.tail(features[None])
        for t in range(4):
            with net.masks([mask[t] for mask in masks]):
                torch.testing.assert_close(together[t], net.tail(features), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(together[0], together[1])


def test_nets_without_such_maps_are_refused() -> None:
    with pytest.raises(OptionError, match=r"densenet121.*efficientnet-lite0"):
        load_backbone(Config(net="densenet121", tail=Tail.DETAIL))
