from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from surelabel.models.concrete_dropout import ConcreteDropout

GRID = torch.linspace(0.005, 0.995, 199)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drop_mask(p: float, t: float, shape: tuple[int, ...]) -> Tensor:
    """z = sigmoid((logit p + logit u) / t) in double precision, u as ``layer`` draws it first."""
    u = torch.rand(shape, generator=generator()).double()
    return torch.sigmoid((math.log(p / (1 - p)) + torch.log(u) - torch.log(1 - u)) / t)


def layer(p: float, *, width: int = 6, learn: bool = True, t: float = 2 / 3) -> ConcreteDropout:
    made = ConcreteDropout(width, p, learn=learn, temperature=t)
    made.generator = generator()
    return made


def slope(value: Tensor, dropout: ConcreteDropout) -> float:
    """The derivative of ``value`` with respect to logit p; p moves the same way."""
    (gradient,) = torch.autograd.grad(value, dropout.logit_p)
    return float(gradient)


def set_p(dropout: ConcreteDropout, p: float) -> None:
    with torch.no_grad():
        dropout.logit_p.fill_(math.log(p / (1 - p)))


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("t", [0.1, 2 / 3, 1.0])
def test_the_mask_is_the_printed_relaxation_of_the_same_uniforms(p: float, t: float) -> None:
    dropout = layer(p, t=t)
    mask = dropout.draw((50, 6)).detach().double()
    z = drop_mask(p, t, (50, 6))
    torch.testing.assert_close(mask, (1 - z) / (1 - p), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("t", [0.1, 2 / 3, 1.0])
def test_the_gradient_of_each_mask_value_is_its_closed_form(p: float, t: float) -> None:
    dropout = layer(p, t=t)
    mask = dropout.draw((20,))
    z = drop_mask(p, t, (20,))
    through_mask = -z * (1 - z) / (t * p * (1 - p) * (1 - p))
    through_scale = (1 - z) / (1 - p) ** 2
    for value, expected in zip(mask, through_mask + through_scale, strict=True):
        (gradient,) = torch.autograd.grad(value, dropout.logit_p, retain_graph=True)
        by_p = float(gradient) / (p * (1 - p))
        assert by_p == pytest.approx(float(expected), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("p", [0.05, 0.3, 0.8])
def test_the_gradient_is_pathwise_so_finite_differences_on_the_same_draw_agree(p: float) -> None:
    def loss(dropout: ConcreteDropout) -> Tensor:
        dropout.generator = generator(4)
        x = torch.linspace(-1, 2, 30).reshape(5, 6)
        out: Tensor = dropout(x)
        return (out - 0.3).square().sum()

    dropout = layer(p)
    analytic = slope(loss(dropout), dropout)
    step, ends = 3e-3, []
    for side in (step, -step):
        moved = layer(p)
        with torch.no_grad():
            moved.logit_p.add_(side)
        ends.append(float(loss(moved).detach()))
    assert analytic == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3)


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.8])
def test_the_mean_of_a_hard_mask_is_one_and_of_a_soft_one_about_one(p: float) -> None:
    hard = layer(p, learn=False).draw((40_000,))
    assert float(hard.mean()) == pytest.approx(1, abs=0.03)
    nearly_hard = layer(p, t=0.05).draw((40_000,)).detach()
    assert float(nearly_hard.mean()) == pytest.approx(1, abs=0.03)
    soft = layer(p).draw((40_000,)).detach()
    assert float(soft.mean()) == pytest.approx(1, abs=0.07 if p <= 0.5 else 0.3)


def test_learned_masks_are_soft_and_fixed_masks_are_hard() -> None:
    soft = layer(0.25).draw((1000,)).detach()
    hard = layer(0.25, learn=False).draw((1000,))
    assert sorted(set(hard.tolist())) == pytest.approx([0, 1 / 0.75])
    assert float((hard == 0).float().mean()) == pytest.approx(0.25, abs=0.05)
    assert len(set(soft.tolist())) > 900
    assert float(soft.min()) >= 0
    assert float(soft.max()) <= 1 / 0.75 + 1e-5


def test_soft_masks_become_hard_as_the_temperature_falls() -> None:
    mask = layer(0.25, t=0.01).draw((1000,)).detach() * 0.75
    assert float(((mask < 0.01) | (mask > 0.99)).float().mean()) > 0.95


def test_a_fixed_probability_is_not_trained() -> None:
    assert not layer(0.3, learn=False).logit_p.requires_grad
    assert layer(0.3).logit_p.requires_grad


def test_images_lose_whole_channels_each_image_its_own() -> None:
    dropped = layer(0.4)(torch.ones(3, 6, 5, 4)).detach()
    per_channel = dropped[:, :, :1, :1]
    torch.testing.assert_close(dropped, per_channel.expand_as(dropped), rtol=0, atol=0)
    assert len(per_channel.unique()) == 18


def test_dense_inputs_lose_single_features() -> None:
    dropped = layer(0.4)(torch.ones(2, 3, 6)).detach()
    assert len(dropped.unique()) == 36


def test_evaluation_is_silent_unless_sampling() -> None:
    dropout = layer(0.4).eval()
    x = torch.ones(4, 6)
    assert torch.equal(dropout(x), x)
    dropout.sampling = True
    assert not torch.equal(dropout(x), x)


def test_the_same_seed_gives_the_same_masks_and_another_seed_others() -> None:
    dropout = layer(0.4)
    draws = []
    for seed in (1, 1, 2):
        dropout.generator = generator(seed)
        draws.append(dropout.draw((10,)).detach())
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_a_given_mask_takes_the_place_of_a_draw_in_either_mode() -> None:
    dropout = layer(0.4)
    mask = torch.tensor([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])
    for training in (True, False):
        dropout.train(training)
        dropout.mask = mask
        assert torch.equal(dropout(torch.ones(2, 6)), mask.expand(2, 6))


def test_fixed_dropout_with_probability_zero_never_touches_its_input() -> None:
    dropout = layer(0.0, learn=False)
    x = torch.randn(4, 6, generator=generator())
    dropout.sampling = True
    assert torch.equal(dropout(x), x)
    assert torch.equal(dropout.draw((4, 6)), torch.ones(4, 6))


def test_kl_is_the_prior_on_the_mean_weight_less_width_times_entropy() -> None:
    p, length = 0.3, 0.7
    dropout = layer(p)
    weight = torch.randn(5, 6, generator=generator())
    mean = weight / (1 - p)
    entropy = -(p * math.log(p) + (1 - p) * math.log(1 - p))
    expected = length**2 * (1 - p) / 2 * float(mean.square().sum()) - 6 * entropy
    assert float(dropout.kl(weight, length).detach()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("p", [0.02, 0.2, 0.45, 0.55, 0.8, 0.98])
def test_the_entropy_term_pulls_p_towards_one_half(p: float) -> None:
    dropout = layer(p)
    down_hill = -slope(dropout.kl(torch.zeros(5, 6), 1.0), dropout)
    assert down_hill * (0.5 - p) > 0


@pytest.mark.parametrize("p", [0.02, 0.2, 0.5, 0.8])
def test_the_weight_term_pulls_p_down_where_the_printed_form_on_w_would_push_it_up(
    p: float,
) -> None:
    dropout, weight = layer(p), torch.ones(5, 6)
    without = slope(dropout.kl(torch.zeros(5, 6), 1.0), dropout)
    ours = slope(dropout.kl(weight, 1.0), dropout) - without
    printed = slope((1 - dropout.p) * weight.square().sum() / 2, dropout)
    assert ours > 0
    assert printed < 0
    assert ours == pytest.approx(15 * p / (1 - p), rel=1e-3)


def test_larger_weights_settle_at_a_lower_p() -> None:
    def settled(size: float) -> float:
        dropout = layer(0.5)
        values = []
        for p in GRID.tolist():
            set_p(dropout, p)
            values.append(float(dropout.kl(torch.full((5, 6), size), 1.0).detach()))
        return float(GRID[values.index(min(values))])

    places = [settled(size) for size in (0.0, 0.3, 0.6, 1.2)]
    assert places[0] == pytest.approx(0.5)
    assert places == sorted(places, reverse=True)
    assert len(set(places)) == 4


def test_p_learns_from_data_low_before_what_matters_and_one_half_before_what_does_not() -> None:
    signal, noise = layer(0.3, width=4), layer(0.3, width=4)
    from_signal, from_noise = nn.Linear(4, 1, bias=False), nn.Linear(4, 1, bias=False)
    rng = generator(1)
    with torch.no_grad():
        for dense in (from_signal, from_noise):
            dense.weight.copy_(torch.randn(1, 4, generator=rng))
    parts = nn.ModuleList([signal, noise, from_signal, from_noise])
    signal.generator = noise.generator = rng
    optimizer = torch.optim.Adam(parts.parameters(), lr=0.05)
    for _ in range(250):
        x, other = torch.randn(64, 4, generator=rng), torch.randn(64, 4, generator=rng)
        out = from_signal(signal(x)) + from_noise(noise(other))
        loss = (out - x.sum(1, keepdim=True)).square().mean()
        kl = signal.kl(from_signal.weight, 0.01) + noise.kl(from_noise.weight, 0.01)
        optimizer.zero_grad()
        (loss + kl / 20).backward()
        optimizer.step()
    assert float(signal.p.detach()) < 0.1
    assert float(noise.p.detach()) == pytest.approx(0.5, abs=0.15)
