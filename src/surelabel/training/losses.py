"""The losses of the paper, in log space. Paper: § Inverse Uncertainty Weighting, § Entropy Penalty.

A network's output (B, K + 1) is K logits f and s = log sigma^2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surelabel.models.bayesian import split_outputs


def heteroscedastic_log_probabilities(
    outputs: Tensor, noise_samples: int, generator: torch.Generator
) -> Tensor:
    """The log of E[softmax(f + sigma eps)], eps ~ N(0, I), (B, K + 1) -> (B, K).

    ``noise_samples`` 0 gives the plain log softmax. The paper prints exp(s) as the noise scale,
    which is a variance: with s = log sigma^2 the scale is exp(s / 2).
    """
    logits, s = split_outputs(outputs)
    if noise_samples == 0:
        return torch.log_softmax(logits, dim=-1)
    eps = torch.randn((noise_samples, *logits.shape), generator=generator).to(logits.device)
    noisy = logits + torch.exp(s / 2)[:, None] * eps
    log_p = torch.log_softmax(noisy, dim=-1)
    return torch.logsumexp(log_p, dim=0) - math.log(noise_samples)


def weighted_nll(log_probabilities: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """mean_i lambda_i NLL_i, a scalar; (B, K), (B,), (B,).

    The mean is over the batch, not over the weights, so that light labels count less.
    """
    nll = -log_probabilities.gather(1, labels[:, None])[:, 0]
    return (weights * nll).mean()


def mean_entropy(outputs: Tensor, weights: Tensor) -> Tensor:
    """mean_i lambda_i H[softmax f_i], a scalar; (B, K + 1), (B,): what the entropy penalty rewards.

    Of the output without noise, as it predicts: with noise in it, s would grow to please the
    penalty and say nothing of the image. Weighted like the likelihood: else light labels would
    teach nothing but flat outputs, which weigh their images lighter still.
    """
    log_p = torch.log_softmax(split_outputs(outputs)[0], dim=-1)
    entropy = -(log_p.exp() * log_p).sum(dim=1)
    return (weights * entropy).mean()
