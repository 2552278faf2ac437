"""The linear head: its mode against scikit-learn, its posterior against closed forms."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from surelabel.models.linear_head import LinearHead, fit_head, laplace_posterior


def some_data(n: int = 120, n_inputs: int = 6, n_classes: int = 3) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(n, n_inputs, generator=generator)
    directions = torch.randn(n_inputs, n_classes, generator=generator)
    noise = torch.randn(n, n_classes, generator=generator)
    return inputs, (inputs @ directions + noise).argmax(1)


@pytest.mark.parametrize("precision", [3.0, 0.1])
def test_the_mode_is_that_of_scikit_learn(precision: float) -> None:
    inputs, labels = some_data()
    ours = fit_head(inputs, labels, 3, precision).probabilities(inputs)
    theirs = LogisticRegression(C=1 / precision, tol=1e-8, max_iter=2000)
    theirs.fit(inputs.numpy(), labels.numpy())
    expected = torch.from_numpy(theirs.predict_proba(inputs.numpy())).float()
    torch.testing.assert_close(ours, expected, atol=3e-3, rtol=0)


def test_a_weight_of_two_is_the_same_image_twice() -> None:
    inputs, labels = some_data()
    weights = torch.ones(len(inputs))
    weights[:40] = 2
    weighted = fit_head(inputs, labels, 3, 1.0, weights=weights)
    twice = fit_head(torch.cat([inputs, inputs[:40]]), torch.cat([labels, labels[:40]]), 3, 1.0)
    torch.testing.assert_close(weighted.weights, twice.weights, atol=2e-3, rtol=0)


def test_where_the_search_starts_does_not_matter() -> None:
    inputs, labels = some_data()
    far = LinearHead(torch.full((6, 3), 2.0), torch.zeros(3))
    from_far = fit_head(inputs, labels, 3, 1.0, start=far)
    torch.testing.assert_close(
        from_far.weights, fit_head(inputs, labels, 3, 1.0).weights, atol=3e-3, rtol=0
    )


def test_a_class_without_labels_stays_improbable() -> None:
    inputs, labels = some_data()
    p = fit_head(inputs, labels, 4, 0.1).probabilities(inputs)
    assert float(p[:, 3].max()) < 0.05


def test_the_posterior_is_the_prior_where_nothing_was_seen() -> None:
    inputs, labels = some_data()
    inputs[:, -1] = 0  # no image says anything about the last input
    precision = 0.25
    head = fit_head(inputs, labels, 3, precision)
    posterior = laplace_posterior(head, inputs, precision)
    drawn = posterior.sample(4000, 1.0, torch.Generator().manual_seed(0))
    deviations = torch.stack([each.weights for each in drawn]).std(0)
    assert float(deviations[-1].mean()) == pytest.approx(precision**-0.5, rel=0.05)
    seen = torch.stack([each.weights - each.weights.mean(1, keepdim=True) for each in drawn])
    assert float(seen.std(0)[:-1].mean()) < 0.3 * precision**-0.5  # but for a shift of all logits


def test_the_posterior_narrows_with_evidence_and_with_its_scale() -> None:
    inputs, labels = some_data(240)

    def spread(n: int, scale: float) -> float:
        head = fit_head(inputs[:n], labels[:n], 3, 0.1)
        posterior = laplace_posterior(head, inputs[:n], 0.1)
        drawn = posterior.sample(200, scale, torch.Generator().manual_seed(0))
        return float(torch.stack([each.weights for each in drawn]).std(0).mean())

    assert spread(240, 1.0) < spread(60, 1.0)
    assert spread(60, 0.1) == pytest.approx(0.1 * spread(60, 1.0), rel=1e-3)
