"""A Bayesian linear head: softmax regression with a Gaussian prior, and its Laplace posterior.

The mode minimizes sum_i w_i CE_i + precision / 2 |W|^2, a convex problem, by L-BFGS. Around it the
posterior is Gaussian with the Kronecker-factored curvature A x B, A = sum_i w_i z_i z_i^T and B the
weighted mean of diag(p_i) - p_i p_i^T (Ritter, Botev and Barber, *A scalable Laplace approximation
for neural networks*, 2018). Both factors are small, so a sample costs two matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from surelabel.types import FloatArray

_BIAS_PRECISION = 1e-3
"""Of the prior over the biases: almost none, but a class without labels must not run away."""
_ITERATIONS = 200
_RELATIVE_GAIN = 1e-7
"""L-BFGS ends when a step lowers the loss by less than this share."""


@dataclass(frozen=True)
class LinearHead:
    """Softmax regression on R inputs: (N, R) -> logits (N, K)."""

    weights: Tensor
    """(R, K)."""
    bias: Tensor
    """(K,)."""

    def logits(self, inputs: Tensor) -> Tensor:
        """(N, R) -> (N, K)."""
        return torch.addmm(self.bias, inputs, self.weights)

    def probabilities(self, inputs: Tensor) -> Tensor:
        """(N, R) -> (N, K), those of the mode."""
        return torch.softmax(self.logits(inputs), dim=1)


def fit_head(
    inputs: Tensor,
    labels: Tensor,
    n_classes: int,
    precision: float,
    *,
    weights: Tensor | None = None,
    start: LinearHead | None = None,
    prior_mean: LinearHead | None = None,
) -> LinearHead:
    """The mode for ``inputs`` (N, R) with ``labels`` (N,), each of which counts ``weights`` (N,).

    ``start`` changes how soon the search ends, not where: the problem is convex. The prior is
    centered at ``prior_mean``, by default at 0.
    """
    n_inputs = inputs.shape[1]
    size = n_inputs * n_classes
    counts = torch.ones(len(inputs)) if weights is None else weights
    rows = torch.arange(len(inputs))
    center = np.zeros(size + n_classes) if prior_mean is None else _flat(prior_mean)

    def loss_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
        values = torch.from_numpy(flat.astype(np.float32))
        head = LinearHead(values[:size].view(n_inputs, n_classes), values[size:])
        log_p = torch.log_softmax(head.logits(inputs), dim=1)
        gradient = log_p.exp()
        gradient[rows, labels] -= 1
        gradient *= counts[:, None]
        away = flat - center
        prior = precision * away[:size] @ away[:size] + _BIAS_PRECISION * away[size:] @ away[size:]
        loss = -float((counts * log_p[rows, labels]).sum(dtype=torch.float64)) + prior / 2
        by_weights = (inputs.T @ gradient).view(-1).double().numpy() + precision * away[:size]
        by_bias = gradient.sum(0).double().numpy() + _BIAS_PRECISION * away[size:]
        return float(loss), np.concatenate([by_weights, by_bias])

    first = center if start is None else _flat(start)
    found = minimize(
        loss_and_gradient,
        first,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _ITERATIONS, "ftol": _RELATIVE_GAIN, "gtol": 1e-5},
    )
    best = torch.from_numpy(found.x.astype(np.float32))
    return LinearHead(best[:size].view(n_inputs, n_classes).contiguous(), best[size:].clone())


def _flat(head: LinearHead) -> FloatArray:
    """(R K + K,) weights, then biases."""
    values: FloatArray = torch.cat([head.weights.reshape(-1), head.bias]).double().numpy()
    return values


@dataclass(frozen=True)
class LaplacePosterior:
    """A Gaussian over the weights of a head, around its mode."""

    head: LinearHead
    inputs_basis: Tensor
    """(R, R) eigenvectors of A."""
    classes_basis: Tensor
    """(K, K) eigenvectors of B."""
    deviations: Tensor
    """(R, K) standard deviation along each pair of eigenvectors."""

    def double(self) -> LaplacePosterior:
        """The same in double precision."""
        head = LinearHead(self.head.weights.double(), self.head.bias.double())
        bases = (self.inputs_basis.double(), self.classes_basis.double())
        return LaplacePosterior(head, *bases, self.deviations.double())

    def sample(self, n_samples: int, scale: float, generator: torch.Generator) -> list[LinearHead]:
        """Draws of the weights; ``scale`` multiplies every deviation. The biases stay."""
        drawn = []
        for _ in range(n_samples):
            noise = torch.randn(self.deviations.shape, generator=generator)
            step = self.inputs_basis @ (scale * self.deviations * noise) @ self.classes_basis.T
            drawn.append(LinearHead(self.head.weights + step, self.head.bias))
        return drawn


def laplace_posterior(
    head: LinearHead, inputs: Tensor, precision: float, *, weights: Tensor | None = None
) -> LaplacePosterior:
    """The posterior around ``head``, which was fitted to these ``inputs`` and ``weights``."""
    counts = torch.ones(len(inputs)) if weights is None else weights
    p = head.probabilities(inputs)
    share = counts[:, None] / counts.sum()
    curvature = torch.diag((share * p).sum(0)) - (share * p).T @ p
    a, inputs_basis = torch.linalg.eigh((counts[:, None] * inputs).T @ inputs)
    b, classes_basis = torch.linalg.eigh(curvature)
    total = a.clamp(min=0)[:, None] * b.clamp(min=0)[None, :] + precision
    return LaplacePosterior(head, inputs_basis, classes_basis, total.rsqrt())
