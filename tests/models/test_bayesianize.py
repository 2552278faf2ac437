from __future__ import annotations

import copy

import pytest
import torch
from public_nets import public_package
from torch import Tensor, nn

from surelabel.config.choices import Dropout, Tail
from surelabel.config.settings import Config
from surelabel.models.backbones import Backbone, InputSpec
from surelabel.models.concrete_dropout import bayesianize
from surelabel.models.densenet import PublicDenseNet
from surelabel.models.efficientnet_lite import LITE0, EfficientNetLite
from surelabel.models.heads import LastBlock
from surelabel.models.nets import FeatureNet, build_net, load_last_block


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Sequential(nn.Conv2d(4, 5, 1)), nn.Flatten()
    )


def images() -> Tensor:
    return torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))


def test_evaluation_is_unchanged_and_training_is_random() -> None:
    net = plain()
    before = net(images())
    assert len(bayesianize(net)) == 2
    torch.testing.assert_close(net.eval()(images()), before)
    net.train()
    assert not torch.equal(net(images()), net(images()))


def test_only_the_chosen_convolutions_are_followed() -> None:
    assert [layer.out_channels for _, layer in bayesianize(plain(), "2")] == [5]
    by_kernel = bayesianize(plain(), lambda _, layer: layer.kernel_size == (3, 3))
    assert [layer.out_channels for _, layer in by_kernel] == [4]
    assert bayesianize(plain(), "nowhere") == []


def test_twice_is_once() -> None:
    net = plain()
    first, second = bayesianize(net), bayesianize(net)
    assert [id(d) for d, _ in first] == [id(d) for d, _ in second]
    for dropout, _ in first:
        dropout.mask = torch.full((1,), 2.0)
    single = plain()
    expected = single[2](torch.relu(2 * single[0](images()))) * 2
    torch.testing.assert_close(net(images()), expected.flatten(1))


def test_names_stay_so_checkpoints_still_load() -> None:
    saved = plain().state_dict()
    net = plain()
    bayesianize(net)
    assert net.load_state_dict(saved, strict=False).missing_keys == [
        "0.dropout.logit_p",
        "2.0.dropout.logit_p",
    ]


def test_a_copy_drops_with_its_own_probability() -> None:
    net = plain()
    ((dropout, _),) = bayesianize(net, "0", Config(dropout=Dropout.FIXED, dropout_p=0.5))
    twin = copy.deepcopy(net)
    dropout.mask = torch.zeros(1)
    assert not torch.equal(twin.eval()(images()), net.eval()(images()))


def test_the_probability_learns_through_the_net() -> None:
    net = plain()
    ((dropout, _),) = bayesianize(net, "0")
    net.train()
    net(images()).square().sum().backward()
    assert dropout.logit_p.grad is not None
    assert float(dropout.logit_p.grad.abs()) > 0


@pytest.mark.parametrize("name", ["mobilenetv3_small_050", "resnet18"])
def test_public_nets_become_bayesian(name: str) -> None:
    torch.manual_seed(0)
    net = public_package("timm").create_model(name).eval()
    shown = torch.randn(2, 3, 64, 64)
    n_convolutions = sum(isinstance(layer, nn.Conv2d) for layer in net.modules())
    with torch.no_grad():
        before = net(shown)
        pairs = bayesianize(net)
        assert len(pairs) == n_convolutions
        torch.testing.assert_close(net(shown), before)
        for dropout, _ in pairs:
            dropout.train()
        assert not torch.allclose(net(shown), net(shown))


@pytest.mark.parametrize(("tail", "n_in"), [(Tail.SMALL, 20), (Tail.WIDE, 20)])
def test_heads_take_all_samples_at_once(tail: Tail, n_in: int) -> None:
    net = FeatureNet(n_in, 3, Config(net="efficientnet-lite0", tail=tail)).eval()
    net.pixel_mean, net.pixel_std = torch.ones(n_in), torch.full((n_in,), 2.0)
    features = torch.randn(7, n_in).half()
    ready = net.standardize(features)
    torch.testing.assert_close(ready, (features.float() - 1) / 2)
    masks = [layer.draw((4, 1, layer.width)) for layer in net.dropouts()]
    with torch.no_grad():
        with net.masks(masks):
            together = net.tail(ready[None])
        for t in range(4):
            with net.masks([mask[t] for mask in masks]):
                torch.testing.assert_close(together[t], net.tail(ready), rtol=1e-4, atol=1e-5)


def test_the_papers_head_drops_a_fifth_then_halves() -> None:
    config = Config(net="efficientnet-lite0", tail=Tail.WIDE, dropout=Dropout.FIXED)
    net = FeatureNet(20, 3, config)
    assert [round(float(d.p), 3) for d in net.dropouts()] == [0.2, 0.5, 0.5]
    assert [d.width for d in net.dropouts()] == [20, 2048, 2048]
    assert float(net.kl(1.0)) == 0
    assert float(FeatureNet(20, 3, Config(net="x", tail=Tail.WIDE)).kl(1.0).detach()) != 0


def test_the_last_block_starts_as_it_was_published() -> None:
    torch.manual_seed(0)
    public = PublicDenseNet("densenet121").eval()
    spec = InputSpec(64, "bilinear", (0.5,) * 3, (0.5,) * 3)
    backbone = Backbone("densenet121", public.stem(), spec, ("last_block",))
    backbone.last_block = public.last_block()
    net = FeatureNet(512, 3, Config(net="densenet121", tail=Tail.LAST_BLOCK)).eval()
    load_last_block(net, backbone)
    shown = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        features = backbone(shown)
        assert features.shape == (1, *backbone.shape(64))
        torch.testing.assert_close(net.latents(features), public.pooled(shown))
    assert isinstance(net.tail, LastBlock)
    assert len(net.dropouts()) == len(net.masked) == 2 * 16


def test_the_last_stage_of_lite0_starts_as_it_was_published() -> None:
    torch.manual_seed(0)
    public = EfficientNetLite(LITE0).eval()
    config = Config(net="efficientnet-lite0", tail=Tail.LAST_BLOCK)
    shown = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        maps = public.maps(shown)
        net = build_net(
            config, size=64, channels=192, n_classes=3, k=0, generator=torch.Generator()
        ).eval()
        spec = InputSpec(64, "bilinear", (0.5,) * 3, (0.5,) * 3)
        backbone = Backbone("efficientnet-lite0", public, spec, ())
        backbone.last_block = public.last_stage()
        assert maps.shape == (2, 192, 2, 2)
        assert not torch.allclose(net.latents(maps), public.features(shown))
        load_last_block(net, backbone)
        torch.testing.assert_close(net.latents(maps), public.features(shown))
    assert [d.width for d in net.dropouts()] == [1152, 1152, 320, 1280]
    assert len(net.masked) == 4
