"""Monte Carlo Dropout and ensembles: T samples of M nets, reduced while they are drawn.

A sample is one draw of the weights: its masks are the same for every image, so the prediction for
an image does not depend on the other images in its batch. The stem runs once per image. A batched
tail takes all T samples in one product; any other tail runs T times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from surelabel.errors import DivergedError
from surelabel.files.mapped_arrays import zeros
from surelabel.models.bayesian import BayesianNet, split_outputs
from surelabel.models.detail import DetailNet
from surelabel.types import FloatArray, Ids, OnProgress, Prediction, Progress, no_progress

_BATCH = 256
_LARGE_MAPS_BATCH = 32
"""For a net on large maps on a CPU: small enough that the cache holds its activations."""

#: Rows (B,) -> the input of a net: uint8 images (B, C, H, W), or stored features.
Loader: TypeAlias = Callable[[Tensor], Tensor]
#: Stage features (B, D) -> (B,) the distance of each image from every class.
Distance: TypeAlias = Callable[[FloatArray], FloatArray]


def predict(
    nets: Sequence[BayesianNet],
    pixels: Loader,
    rows: Tensor,
    ids: Ids,
    *,
    mc_samples: int,
    seeds: Sequence[int],
    distances: Sequence[Distance] = (),
    on_progress: OnProgress = no_progress,
) -> Prediction:
    """Average over M nets with T = ``mc_samples`` samples each; T = 1 switches dropout off.

    The masks of each net come from its own seed, so adding images never changes the prediction
    for another image. ``distances`` has one function per net, or none.
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
                if distances:
                    features, stages = net.features_by_stage(images)
                    distance = distances[number](_joined(stages).cpu().numpy())
                    reducer.add_distance(at, distance, 1 / len(nets))
                else:
                    features = net.stem(images)
                reducer.add(at, sample_outputs(net, features, masks), 1 / len(nets))
                done = number * len(rows) + min(at.stop, len(rows))
                on_progress(Progress("scoring", done, total))
    return reducer.prediction(ids)


def stage_features_of(
    net: BayesianNet, pixels: Loader, rows: Tensor
) -> tuple[FloatArray, tuple[int, ...]]:
    """The features of all stages without dropout, (N, D), and the width of each stage."""
    widths: tuple[int, ...] = ()

    def compute(images: Tensor) -> Tensor:
        nonlocal widths
        _, stages = net.features_by_stage(images)
        widths = tuple(stage.shape[1] for stage in stages)
        return _joined(stages)

    return _in_batches(net, pixels, rows, compute), widths


def distances_of(
    net: BayesianNet,
    pixels: Loader,
    rows: Tensor,
    distance: Distance,
    on_progress: OnProgress = no_progress,
) -> FloatArray:
    """The distance (N,) of each image from every class, by the stage features of one net."""
    done = 0

    def compute(images: Tensor) -> Tensor:
        nonlocal done
        values = distance(_joined(net.features_by_stage(images)[1]).cpu().numpy())
        done += len(values)
        on_progress(Progress("looking for outliers", done, len(rows)))
        return torch.from_numpy(values)

    return _in_batches(net, pixels, rows, compute)


def latents_of(net: BayesianNet, pixels: Loader, rows: Tensor) -> FloatArray:
    """The input (N, D) of the last dense layer of ``net``, without dropout."""
    return _in_batches(net, pixels, rows, lambda images: net.latents(net.stem(images)))


def attention_of(net: DetailNet, pixels: Loader, rows: Tensor) -> FloatArray:
    """(N, H, W): how much each cell of each image counts for ``net``; sums to 1."""
    return _in_batches(net, pixels, rows, net.attention)


def draw_masks(net: BayesianNet, mc_samples: int, generator: torch.Generator) -> list[Tensor]:
    """T masks for each dropout layer: (T, 1, width) dense, (T, 1, width, 1, 1) convolutional."""
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
    """Adds up over samples and nets what a ``Prediction`` needs; memory is O(N K)."""

    def __init__(self, n_items: int, n_classes: int, *, distances: bool = False) -> None:
        self.probabilities = torch.from_numpy(zeros((n_items, n_classes), np.float64))
        self.sums = torch.from_numpy(zeros((3, n_items), np.float64))
        self.distance: FloatArray | None = zeros((n_items,), np.float64) if distances else None

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


def _in_batches(
    net: BayesianNet, pixels: Loader, rows: Tensor, compute: Callable[[Tensor], Tensor]
) -> FloatArray:
    """``compute`` on the standardized images of each batch, one below the other: (N, ...)."""
    net.eval()
    size = _batch_size(net)
    with torch.no_grad():
        parts = [
            compute(net.standardize(pixels(rows[i : i + size]))).cpu().numpy()
            for i in range(0, len(rows), size)
        ]
    joined: FloatArray = np.concatenate(parts)
    return joined


def _joined(stages: Sequence[Tensor]) -> Tensor:
    """Features (N, D_i) of the stages -> (N, sum D_i)."""
    return torch.cat(list(stages), dim=1)


def _batch_size(net: BayesianNet) -> int:
    on_cpu = next(net.parameters()).device.type == "cpu"
    return _LARGE_MAPS_BATCH if on_cpu and net.large_maps else _BATCH
