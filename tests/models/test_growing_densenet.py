from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from surelabel.config.choices import Dropout
from surelabel.config.settings import Config
from surelabel.models.bayesian import initialize
from surelabel.models.concrete_dropout import ConcreteDropout
from surelabel.models.growing_densenet import GrowingDenseNet, default_nu, growth_rate, widen


def densenet(k: int, seed: int = 0, channels: int = 1, n_classes: int = 3) -> GrowingDenseNet:
    net = GrowingDenseNet(k, channels, n_classes, Config())
    generator = torch.Generator().manual_seed(seed)
    initialize(net, generator)
    _unsettle(net, generator)
    return net.eval()


def _unsettle(net: nn.Module, generator: torch.Generator) -> None:
    """Give norms and dropout values as a trained net has them: none is at its start."""
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm2d):
                for values in (layer.weight, layer.running_var):
                    assert isinstance(values, Tensor)
                    values.copy_(torch.rand(values.shape, generator=generator) + 0.5)
                for values in (layer.bias, layer.running_mean):
                    assert isinstance(values, Tensor)
                    values.copy_(torch.randn(values.shape, generator=generator) * 0.1)
            elif isinstance(layer, ConcreteDropout):
                layer.logit_p.sub_(torch.rand((), generator=generator))


def images(n: int = 2, channels: int = 1, side: int = 9) -> Tensor:
    return torch.randn(n, channels, side, side, generator=torch.Generator().manual_seed(5))


def test_growth_is_cumulative_twelve_thirteen_fifteen_eighteen_twenty_two_twenty_four() -> None:
    assert [growth_rate(12, 24, 1, r) for r in range(1, 9)] == [12, 13, 15, 18, 22, 24, 24, 24]


def test_growth_is_the_in_place_update_of_algorithm_1() -> None:
    k = 5
    for r in range(1, 8):
        k += 2 * (r - 1)
        assert growth_rate(5, 1000, 2, r) == k


def test_without_nu_the_net_does_not_grow_and_a_fractional_nu_gives_whole_growth_rates() -> None:
    assert {growth_rate(12, 24, 0, r) for r in range(1, 30)} == {12}
    course = [growth_rate(12, 24, 0.3, r) for r in range(1, 12)]
    assert course == sorted(course)
    assert all(isinstance(k, int) for k in course)
    assert course[-1] == 24


def test_default_growth_is_full_from_ten_thousand_images_and_less_in_proportion() -> None:
    assert [default_nu(n) for n in (0, 2_500, 10_000, 10**6)] == [0, 0.25, 1, 1]


def test_parameter_count_is_that_of_the_paper() -> None:
    net = GrowingDenseNet(12, 1, 10, Config())
    assert sum(p.numel() for p in net.parameters()) == 175_861
    assert len(net.dropouts()) == 38


def test_it_has_forty_layers_of_weights_and_dropout_after_every_convolution_but_the_first() -> None:
    net = densenet(2)
    layers = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == 40
    convolutions = [m for m in layers if isinstance(m, nn.Conv2d)]
    assert convolutions[0] is net.stem
    assert convolutions[0].out_channels == 2 * net.k
    for (dropout, masked), convolution in zip(net.masked, convolutions[1:], strict=True):
        assert masked is convolution
        assert dropout.width == convolution.out_channels


@pytest.mark.parametrize(("channels", "side"), [(1, 8), (3, 9)])
def test_stem_then_tail_is_the_whole_net(channels: int, side: int) -> None:
    net = densenet(2, channels=channels)
    x = images(2, channels, side)
    with torch.no_grad():
        assert torch.equal(net.tail(net.stem(x)), net(x))
        assert net(x).shape == (2, 4)


@pytest.mark.parametrize(("k", "larger"), [(2, 3), (3, 7), (4, 4)])
def test_widening_keeps_the_function_and_changes_the_growth_rate(k: int, larger: int) -> None:
    old, new = densenet(k, seed=1), densenet(larger, seed=2)
    x = images()
    with torch.no_grad():
        before = old(x)
        assert not torch.allclose(new(x), before, rtol=0.01)
        widen(old, new)
        torch.testing.assert_close(new(x), before, rtol=1e-4, atol=1e-5)
    assert new.k == larger


def test_widening_carries_the_learned_dropout_probabilities() -> None:
    old, new = densenet(2, seed=1), densenet(3, seed=2)
    widen(old, new)
    for before, after in zip(old.dropouts(), new.dropouts(), strict=True):
        assert torch.equal(before.p, after.p)


def test_new_channels_of_a_widened_net_can_still_learn() -> None:
    old, new = densenet(2, seed=1), densenet(3, seed=2)
    widen(old, new)
    last = next(m for m in new.modules() if isinstance(m, nn.Linear))
    (gradient,) = torch.autograd.grad(new(images()).square().sum(), last.weight)
    silent = (last.weight == 0).all(dim=0)
    assert silent.any()
    assert (gradient[:, silent] != 0).any()


def test_fixed_dropout_has_no_learned_logits() -> None:
    net = GrowingDenseNet(2, 1, 3, Config(dropout=Dropout.FIXED))
    assert not any(layer.logit_p.requires_grad for layer in net.dropouts())
    assert float(net.kl(1.0)) == 0
