from __future__ import annotations

import pytest
import torch
from torch import Tensor

from surelabel.config.choices import Dropout, Net
from surelabel.config.settings import Config
from surelabel.models.bayesian import BayesianNet, split_outputs
from surelabel.models.growing_densenet import GrowingDenseNet
from surelabel.models.nets import CompactNet, build_net


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def compact(size: int = 16, channels: int = 1, seed: int = 0) -> BayesianNet:
    config = Config(width=0.25)
    return build_net(
        config, size=size, channels=channels, n_classes=4, k=0, generator=generator(seed)
    )


def images(n: int, channels: int, size: int) -> Tensor:
    return torch.randn(n, channels, size, size, generator=generator(9))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [8, 16, 28, 32, 96, 224])
def test_it_takes_any_size_and_ends_in_a_small_map(size: int, channels: int) -> None:
    net = compact(size, channels).eval()
    x = images(2, channels, size)
    with torch.no_grad():
        out = net(x)
        assert isinstance(net.stem, torch.nn.Sequential)
        last_map = net.stem[:-1](x)
    assert out.shape == (2, 5)
    assert torch.isfinite(out).all()
    assert 4 <= last_map.shape[-1] <= 10


def test_stem_then_tail_is_the_whole_net() -> None:
    net = compact().eval()
    x = images(3, 1, 16)
    with torch.no_grad():
        assert torch.equal(net.tail(net.stem(x)), net(x))


def test_the_tail_has_a_hidden_layer_and_dropout_before_both_dense_layers() -> None:
    net = compact()
    assert not [m for m in net.stem.modules() if m in net.dropouts()]
    dense = [m for m in net.tail.modules() if isinstance(m, torch.nn.Linear)]
    assert len(dense) == len(net.dropouts()) == 2
    for (dropout, masked), layer in zip(net.masked, dense, strict=True):
        assert masked is layer
        assert dropout.width == layer.in_features


def test_the_tail_takes_a_leading_axis_of_samples() -> None:
    net = compact().eval()
    assert net.batched_tail
    with torch.no_grad():
        features = net.stem(images(3, 1, 16))
        stacked = net.tail(torch.stack([features, 2 * features]))
        torch.testing.assert_close(stacked[0], net.tail(features))
        torch.testing.assert_close(stacked[1], net.tail(2 * features))


def test_width_widens_it() -> None:
    sizes = [
        sum(p.numel() for p in CompactNet(28, 1, 10, Config(width=w)).parameters())
        for w in (0.25, 0.5, 1.0, 2.0)
    ]
    assert sizes == sorted(set(sizes))


def test_new_weights_come_from_the_generator_alone() -> None:
    torch.manual_seed(1)
    first = compact(seed=3).state_dict()
    torch.manual_seed(2)
    again, other = compact(seed=3).state_dict(), compact(seed=4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_eval_mode_layers_stay_random_while_sampling_and_are_silent_after() -> None:
    net = compact().eval()
    x = images(2, 1, 16)
    with torch.no_grad():
        before = net(x)
        with net.sampling(generator(1)):
            assert not torch.equal(net(x), net(x))
        assert torch.equal(net(x), before)


def test_sampling_ends_even_when_the_inside_fails() -> None:
    net = compact().eval()
    x = images(2, 1, 16)
    with pytest.raises(KeyError), net.sampling(generator(1)):
        raise KeyError
    with torch.no_grad():
        assert torch.equal(net(x), net(x))


def test_the_same_seed_samples_the_same_and_gives_the_training_generator_back() -> None:
    net = compact().eval()
    mine = generator(7)
    net.use_generator(mine)
    x = images(2, 1, 16)
    outputs = []
    with torch.no_grad():
        for seed in (1, 1, 2):
            with net.sampling(generator(seed)):
                outputs.append(net(x))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert all(layer.generator is mine for layer in net.dropouts())


def test_given_masks_hold_inside_and_are_gone_after() -> None:
    net = compact().eval()
    x = images(2, 1, 16)
    with torch.no_grad():
        before = net(x)
        with net.masks([torch.zeros(layer.width) for layer in net.dropouts()]):
            inside = net(x)
        out = net.tail.out
        assert isinstance(out, torch.nn.Linear)
        assert torch.equal(inside, out.bias.expand(2, 5))
        assert torch.equal(net(x), before)


def test_training_is_random_and_follows_its_generator() -> None:
    net = compact().train()
    x = images(4, 1, 16)
    outputs = []
    for seed in (1, 1, 2):
        net.use_generator(generator(seed))
        outputs.append(net(x).detach())
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_kl_is_the_sum_over_learned_layers_and_zero_when_none_is_learned() -> None:
    net = compact()
    total = 0.0
    for dropout, layer in net.masked:
        assert isinstance(layer.weight, Tensor)
        total += float(dropout.kl(layer.weight, 0.5).detach())
    assert float(net.kl(0.5).detach()) == pytest.approx(total, rel=1e-6)
    fixed = CompactNet(16, 1, 4, Config(dropout=Dropout.FIXED))
    assert float(fixed.kl(0.5)) == 0


def test_standardize_takes_mean_and_deviation_of_each_channel() -> None:
    net = compact(channels=3)
    net.pixel_mean, net.pixel_std = torch.tensor([10.0, 20.0, 30.0]), torch.tensor([1.0, 2.0, 5.0])
    pixels = torch.full((2, 3, 16, 16), 40, dtype=torch.uint8)
    standard = net.standardize(pixels)
    assert standard.dtype == torch.float32
    assert standard[:, :, 0, 0].tolist() == [[30.0, 10.0, 2.0]] * 2


def test_outputs_are_logits_and_one_log_variance_held_inside_a_range() -> None:
    outputs = torch.tensor([[1.0, 2.0, 0.5], [1.0, 2.0, -1e9], [1.0, 2.0, 1e9]])
    logits, s = split_outputs(outputs)
    assert torch.equal(logits, outputs[:, :2])
    assert s[0] == 0.5
    assert 0 < float(s[1].exp()) < 1e-4
    assert 10 < float(s[2].exp()) < 100


def test_the_config_decides_which_net_is_built() -> None:
    shape = {"size": 16, "channels": 1, "n_classes": 4, "k": 2}
    dense = build_net(Config(net=Net.DENSENET), **shape, generator=generator())
    small = build_net(Config(net=Net.COMPACT), **shape, generator=generator())
    for net in (dense, small):
        variances = net(torch.randn(3, 1, 16, 16, generator=generator())).detach()[:, -1].exp()
        torch.testing.assert_close(variances, variances[:1].expand(3))
        assert float(variances.max()) < 0.1, "next to no noise before training"
    assert isinstance(dense, GrowingDenseNet)
    assert dense.k == 2
    assert isinstance(small, CompactNet)
