"""The losses of the paper, in log space. Paper: § Inverse Uncertainty Weighting, § Entropy Penalty.

Symbols: a network's output (B, K + 1) is K logits f and s = log sigma^2, the log variance of the
noise on them; lambda_i is the weight of label i. B images per batch, K classes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surelabel.models.bayesian import split_outputs


def heteroscedastic_log_probabilities(
    outputs: Tensor, noise_samples: int, generator: torch.Generator
) -> Tensor:
    """Ln E[softmax(f + sigma eps)] with eps ~ N(0, I), (B, K + 1) -> (B, K).

    The mean is over ``noise_samples`` draws; 0 gives the plain log softmax. The paper prints
    exp(s) as the scale of the noise, but that is its variance: with s = log sigma^2 the scale is
    exp(s / 2).
    """
    logits, s = split_outputs(outputs)
    if noise_samples == 0:
        return torch.log_softmax(logits, dim=-1)
    eps = torch.randn((noise_samples, *logits.shape), generator=generator).to(logits.device)
    noisy = logits + torch.exp(s / 2)[:, None] * eps
    log_p = torch.log_softmax(noisy, dim=-1)
    return torch.logsumexp(log_p, dim=0) - math.log(noise_samples)


def weighted_nll(log_probabilities: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """(1 / B) sum_i lambda_i NLL_i, the weighted negative log likelihood; (B, K), (B,), (B,) -> ().

    The sum is divided by the size of the batch, not by the sum of the weights: otherwise a batch
    of light labels would count as much as one of heavy labels.
    """
    nll = -log_probabilities.gather(1, labels[:, None])[:, 0]
    return (weights * nll).mean()


def mean_entropy(outputs: Tensor, weights: Tensor) -> Tensor:
    """(1 / B) sum_i lambda_i H[softmax f_i], (B, K + 1), (B,) -> (); subtracted from the loss.

    The entropy is that of the output without noise. With noise in it, s would grow only to reduce
    the penalty and would not depend on the image. It is weighted like the likelihood: otherwise
    the only effect of light labels would be flat outputs, which make those labels lighter still.
    """
    log_p = torch.log_softmax(split_outputs(outputs)[0], dim=-1)
    entropy = -(log_p.exp() * log_p).sum(dim=1)
    return (weights * entropy).mean()
