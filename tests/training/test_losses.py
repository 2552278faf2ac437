from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from surelabel.models.bayesian import split_outputs
from surelabel.training.losses import heteroscedastic_log_probabilities, mean_entropy, weighted_nll


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def outputs_of(logits: Tensor, s: float) -> Tensor:
    return torch.cat([logits, torch.full((len(logits), 1), s)], dim=1)


LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0], [-3.0, 4.0, 1.0]])


def test_without_noise_samples_it_is_the_log_softmax() -> None:
    log_p = heteroscedastic_log_probabilities(outputs_of(LOGITS, 3.0), 0, generator())
    assert torch.equal(log_p, torch.log_softmax(LOGITS, dim=1))


def test_it_becomes_the_log_softmax_as_the_noise_vanishes() -> None:
    log_p = heteroscedastic_log_probabilities(outputs_of(LOGITS, -1e9), 200, generator())
    torch.testing.assert_close(log_p, torch.log_softmax(LOGITS, dim=1), rtol=0, atol=5e-3)


def test_it_becomes_the_cross_entropy_as_the_noise_vanishes() -> None:
    labels = torch.tensor([0, 1, 1])
    log_p = heteroscedastic_log_probabilities(outputs_of(LOGITS, -1e9), 200, generator())
    loss = weighted_nll(log_p, labels, torch.ones(3))
    assert float(loss) == pytest.approx(float(functional.cross_entropy(LOGITS, labels)), abs=5e-3)


@pytest.mark.parametrize("s", [-4.0, 0.0, 2.0])
def test_it_is_the_plain_average_of_noisy_softmaxes_with_scale_exp_half_s(s: float) -> None:
    log_p = heteroscedastic_log_probabilities(outputs_of(LOGITS, s), 16, generator(3))
    eps = torch.randn((16, 3, 3), generator=generator(3)).double()
    brute = torch.zeros(3, 3, dtype=torch.float64)
    for draw in eps:
        brute += torch.softmax(LOGITS.double() + math.sqrt(math.exp(s)) * draw, dim=1) / 16
    torch.testing.assert_close(log_p.double(), brute.log(), rtol=1e-4, atol=1e-5)


def test_every_row_is_a_distribution() -> None:
    log_p = heteroscedastic_log_probabilities(outputs_of(LOGITS, 1.0), 8, generator())
    torch.testing.assert_close(log_p.exp().sum(dim=1), torch.ones(3))


def test_huge_logits_stay_finite_in_value_and_gradient() -> None:
    outputs = outputs_of(LOGITS * 1e4, 1e4).requires_grad_()
    log_p = heteroscedastic_log_probabilities(outputs, 8, generator())
    loss = weighted_nll(log_p, torch.tensor([1, 2, 0]), torch.ones(3))
    loss = loss - 0.5 * mean_entropy(outputs, torch.ones(3))
    (gradient,) = torch.autograd.grad(loss, outputs)
    assert torch.isfinite(loss)
    assert float(loss.detach()) > 1e4
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(("label", "wants_noise"), [(1, True), (0, False)])
def test_a_confident_mistake_wants_more_noise_and_a_confident_hit_less(
    label: int, wants_noise: bool
) -> None:
    outputs = torch.tensor([[4.0, -4.0, 0.5]], requires_grad=True)
    log_p = heteroscedastic_log_probabilities(outputs, 500, generator())
    loss = weighted_nll(log_p, torch.tensor([label]), torch.ones(1))
    (gradient,) = torch.autograd.grad(loss, outputs)
    down_hill = -float(gradient[0, -1])
    assert (down_hill > 0) == wants_noise
    assert down_hill != 0


def test_the_same_generator_gives_the_same_loss() -> None:
    outputs = outputs_of(LOGITS, 1.0)
    a, b, c = (heteroscedastic_log_probabilities(outputs, 4, generator(i)) for i in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_the_loss_is_the_batch_mean_of_weighted_negative_log_likelihoods() -> None:
    log_p = torch.log(torch.tensor([[0.5, 0.5], [0.25, 0.75]]))
    loss = weighted_nll(log_p, torch.tensor([0, 0]), torch.tensor([1.0, 0.5]))
    assert float(loss) == pytest.approx((math.log(2) + 0.5 * math.log(4)) / 2)


def test_light_labels_count_less_instead_of_being_scaled_up_to_the_batch() -> None:
    log_p = torch.log(torch.tensor([[0.2, 0.8], [0.2, 0.8]]))
    labels = torch.tensor([0, 0])
    full = weighted_nll(log_p, labels, torch.ones(2))
    light = weighted_nll(log_p, labels, torch.full((2,), 0.1))
    assert float(light) == pytest.approx(0.1 * float(full))
    assert float(weighted_nll(log_p, labels, torch.zeros(2))) == 0


def test_entropy_is_that_of_the_output_without_noise() -> None:
    for s in (-5.0, 0.0, 5.0):
        flat = outputs_of(torch.zeros(2, 4), s)
        assert float(mean_entropy(flat, torch.ones(2))) == pytest.approx(math.log(4))
        sharp = outputs_of(torch.tensor([[50.0, 0.0, 0.0, 0.0]]), s)
        assert float(mean_entropy(sharp, torch.ones(1))) == pytest.approx(0, abs=1e-6)


def test_entropy_is_weighted_like_the_likelihood() -> None:
    flat = outputs_of(torch.zeros(2, 2), 0.0)
    entropy = mean_entropy(flat, torch.tensor([0.25, 0.0]))
    assert float(entropy) == pytest.approx(0.25 * math.log(2) / 2)


def test_the_entropy_penalty_pushes_a_right_and_confident_output_back_and_leaves_s_alone() -> None:
    outputs = torch.tensor([[3.0, 0.0, 1.0]], requires_grad=True)
    label, weight = torch.tensor([0]), torch.ones(1)
    nll = weighted_nll(torch.log_softmax(outputs[:, :2], dim=1), label, weight)
    (pull,) = torch.autograd.grad(nll, outputs)
    (penalty,) = torch.autograd.grad(mean_entropy(outputs, weight), outputs)
    assert float(-pull[0, 0]) > 0 > float(-pull[0, 0] + penalty[0, 0])
    assert float(penalty[0, 2]) == 0


def test_a_variance_out_of_its_range_comes_back() -> None:
    outputs = torch.tensor([[4.0, 0.0, 9.0], [4.0, 0.0, 8.0]], requires_grad=True)
    log_p = heteroscedastic_log_probabilities(outputs, 400, generator())
    (pull,) = torch.autograd.grad(weighted_nll(log_p, torch.tensor([0, 0]), torch.ones(2)), outputs)
    assert (pull[:, 2] > 0).all(), "less noise would be likelier"


def test_a_variance_out_of_its_range_goes_no_farther() -> None:
    outputs = torch.tensor([[-4.0, 0.0, 9.0], [4.0, 0.0, -20.0]], requires_grad=True)
    _, s = split_outputs(outputs)
    (pull,) = torch.autograd.grad((s * torch.tensor([-1.0, 1.0])).sum(), outputs)
    assert (pull == 0).all(), "both would lead away"
    (back,) = torch.autograd.grad(
        (split_outputs(outputs)[1] * torch.tensor([1.0, -1.0])).sum(), outputs
    )
    assert back[:, 2].tolist() == [1, -1]
