"""Monte Carlo Dropout and ensembles: T samples of M nets, reduced while they are drawn.

A sample is one draw of the weights: its masks are the same for every image, so an image's
prediction does not depend on which others are beside it. The stem runs once an image. A batched
tail takes all T samples in one product; any other tail runs T times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from surelabel.errors import DivergedError
from surelabel.models.bayesian import BayesianNet, split_outputs
from surelabel.types import FloatArray, Ids, OnProgress, Prediction, Progress, no_progress

_BATCH = 256
_CACHED_BATCH = 32
"""For a tail of convolutions: small enough that a processor's cache holds what goes through it."""

#: Appearances (N, D) -> (N,) how far they are from every class.
Distance: TypeAlias = Callable[[FloatArray], FloatArray]


def appearance_of(
    net: BayesianNet, pixels: Callable[[Tensor], Tensor], rows: Tensor
) -> tuple[FloatArray, tuple[int, ...]]:
    """What images look like to the net without dropout, (N, D), and the widths of its stages."""
    stages: tuple[int, ...] = ()

    def part(images: Tensor) -> Tensor:
        nonlocal stages
        looks = net.look(images)[1]
        stages = tuple(look.shape[1] for look in looks)
        return torch.cat(looks, dim=1)

    return _seen(net, pixels, rows, part), stages


def distance_of(
    net: BayesianNet,
    pixels: Callable[[Tensor], Tensor],
    rows: Tensor,
    distance: Distance,
    on_progress: OnProgress = no_progress,
) -> FloatArray:
    """(N,) how far the images are from every class, by one net."""
    done = 0

    def part(images: Tensor) -> Tensor:
        seen = torch.cat(net.look(images)[1], dim=1).cpu().numpy()
        nonlocal done
        done += len(seen)
        on_progress(Progress("looking for outliers", done, len(rows)))
        return torch.from_numpy(distance(seen))

    return _seen(net, pixels, rows, part)


def latents_of(net: BayesianNet, pixels: Callable[[Tensor], Tensor], rows: Tensor) -> FloatArray:
    """What the last layer of ``net`` sees of the images at ``rows``, (N, D); no dropout."""
    return _seen(net, pixels, rows, lambda images: net.latents(net.stem(images)))


def _seen(
    net: BayesianNet,
    pixels: Callable[[Tensor], Tensor],
    rows: Tensor,
    part: Callable[[Tensor], Tensor],
) -> FloatArray:
    net.eval()
    with torch.no_grad():
        parts = [
            part(net.standardize(pixels(rows[i : i + _BATCH]))).cpu().numpy()
            for i in range(0, len(rows), _BATCH)
        ]
    found: FloatArray = np.concatenate(parts)
    return found


def draw_masks(net: BayesianNet, mc_samples: int, generator: torch.Generator) -> list[Tensor]:
    """For each dropout layer its T masks: (T, 1, width) dense, (T, 1, width, 1, 1) else."""
    masks = []
    for layer in net.dropouts():
        layer.generator = generator
        with torch.no_grad():
            drawn = torch.cat([layer.draw((1, layer.width)) for _ in range(mc_samples)])
        shape = (mc_samples, 1, layer.width) + (() if net.batched_tail else (1, 1))
        masks.append(drawn.reshape(shape))
    return masks


def sample_outputs(net: BayesianNet, features: Tensor, masks: list[Tensor]) -> Tensor:
    """T outputs for the features of a batch, (T, N, K + 1). Without masks, T = 1."""
    if not masks:
        out: Tensor = net.tail(features)
        return out[None]
    if net.batched_tail:
        with net.masks(masks):
            stacked: Tensor = net.tail(features[None])
        return stacked
    outputs = []
    for sample in zip(*masks, strict=True):
        with net.masks(list(sample)):
            outputs.append(net.tail(features))
    return torch.stack(outputs)


class Reducer:
    """Sums what a ``Prediction`` needs over samples and nets; memory is O(N K)."""

    def __init__(self, n_items: int, n_classes: int, *, distances: bool = False) -> None:
        self.probabilities = torch.zeros(n_items, n_classes, dtype=torch.float64)
        self.sums = torch.zeros(3, n_items, dtype=torch.float64)
        self.distance: FloatArray | None = np.zeros(n_items) if distances else None

    def add_distance(self, at: slice, distance: FloatArray, share: float) -> None:
        """Add (B,) distances from the classes for the items at ``at``."""
        assert self.distance is not None
        self.distance[at] += share * distance

    def add(self, at: slice, outputs: Tensor, share: float) -> None:
        """Add (T, B, K + 1) outputs for the items at ``at``; shares over all nets sum to 1."""
        logits, s = split_outputs(outputs)
        log_p = torch.log_softmax(logits, dim=-1)
        p = log_p.exp()
        parts = (-(p * log_p).sum(-1), p.square().sum(-1), s.exp())
        self.probabilities[at] += share * p.mean(0).cpu().double()
        for row, part in zip(self.sums, parts, strict=True):
            row[at] += share * part.mean(0).cpu().double()

    def prediction(self, ids: Ids) -> Prediction:
        """The reduced samples under their ids."""
        if not torch.isfinite(self.probabilities).all():
            raise DivergedError(
                "Training diverged: the net's outputs are not numbers. Use a lower learning_rate."
            )
        entropy, square, noise = (row.numpy() for row in self.sums)
        return Prediction(ids, self.probabilities.numpy(), entropy, square, noise, self.distance)


def predict(
    nets: Sequence[BayesianNet],
    pixels: Callable[[Tensor], Tensor],
    rows: Tensor,
    ids: Ids,
    *,
    mc_samples: int,
    seeds: Sequence[int],
    distances: Sequence[Distance] = (),
    on_progress: OnProgress = no_progress,
) -> Prediction:
    """Average over M nets with T samples each. ``mc_samples`` 1 switches dropout off.

    ``pixels`` turns rows (B,) into uint8 images (B, C, H, W). Each net's masks come from its
    own seed, so adding images never changes another image's prediction. ``distances``, one a
    net, turn appearances (B, D) into how far they are from every class.
    """
    reducer = Reducer(len(rows), nets[0].n_classes, distances=bool(distances))
    size = _batch_size(nets[0])
    batches = [slice(i, i + size) for i in range(0, len(rows), size)]
    total = len(nets) * len(rows)
    with torch.no_grad():
        for number, (net, seed) in enumerate(zip(nets, seeds, strict=True)):
            net.eval()
            generator = torch.Generator().manual_seed(seed)
            masks = draw_masks(net, mc_samples, generator) if mc_samples > 1 else []
            for at in batches:
                images = net.standardize(pixels(rows[at]))
                features, looks = net.look(images) if distances else (net.stem(images), [])
                reducer.add(at, sample_outputs(net, features, masks), 1 / len(nets))
                if distances:
                    seen = torch.cat(looks, dim=1).cpu().numpy()
                    reducer.add_distance(at, distances[number](seen), 1 / len(nets))
                done = number * len(rows) + min(at.stop, len(rows))
                on_progress(Progress("scoring", done, total))
    return reducer.prediction(ids)


def _batch_size(net: BayesianNet) -> int:
    on_processor = next(net.parameters()).device.type == "cpu"
    return _CACHED_BATCH if on_processor and not net.batched_tail else _BATCH


def concatenate(parts: Sequence[Prediction]) -> Prediction:
    """Predictions of different items, one after the other."""
    far = [p.distance for p in parts if p.distance is not None]
    return Prediction(
        np.concatenate([p.ids for p in parts]),
        np.concatenate([p.probabilities for p in parts]),
        np.concatenate([p.expected_entropy for p in parts]),
        np.concatenate([p.expected_square for p in parts]),
        np.concatenate([p.aleatoric_variance for p in parts]),
        np.concatenate(far) if len(far) == len(parts) else None,
    )
