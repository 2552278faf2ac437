"""What a round predicts, as one PyTorch module that can be exported.

It takes decoded images and computes what ``engines.ensemble.predict_as_round`` and the measures
compute for images that are not part of the run: nets or linear heads with fixed samples, the vote
of similar images, matrix scaling, and the distance from labeled images. What these need of the
run's images, thumbnails or places in feature space, are constants of the graph.

An image of the run must not vote for itself. There the run goes by the digest of the file; the
graph sees pixels only, and leaves out images that look exactly the same.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from surelabel.config.choices import Measure
from surelabel.engines.ensemble import Ensemble
from surelabel.engines.linear_model import N_NEIGHBORS, LinearEnsemble, LinearModel, weighted
from surelabel.engines.neighbor_search import (
    NeighborIndex,
    mean_prediction,
    most_similar,
    shrink_factor,
    unit_vectors,
)
from surelabel.engines.scoring import Member
from surelabel.inference.sampling import draw_masks, sample_outputs
from surelabel.models.backbones import Backbone
from surelabel.selection.matrix_scaling import SMALLEST_PROBABILITY, MatrixScaling
from surelabel.selection.neighbor_vote import SMALLEST_OWN, SMALLEST_VOTE, Adjustment
from surelabel.selection.out_of_distribution import (
    SAME_IMAGE,
    SMALLEST_DISTANCE,
    ReferenceFeatures,
)

Reduced: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]
"""E[p] (N, K), and E H[p], E[sum p^2] and E[exp s], (N,) each: what a ``Prediction`` holds."""

_LEAST_LOG_VARIANCE, _MOST_LOG_VARIANCE = -10.0, 4.0
_TINY = 1e-30
"""Constants of the graph have single precision, in which much less would be 0."""
_ITSELF = 1 - 2e-6
"""Cosine above which an indexed image is taken for the image itself."""


class Exported(nn.Module):
    """uint8 images (N, S, S, C) -> probabilities (N, K), each measure (N,), and the distance."""

    def __init__(
        self, backbone: Backbone | None, predictor: nn.Module, vote: PixelVote | None = None
    ) -> None:
        super().__init__()
        self.backbone = copy.deepcopy(backbone).cpu() if backbone is not None else None
        self.predictor, self.vote = predictor, vote

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        pixels = images.permute(0, 3, 1, 2)
        inputs = pixels
        if self.backbone is not None:
            # Runs keep features as float16, so the same rounding is part of the model.
            inputs = self.backbone(self.backbone.standardize(pixels)).half().float()
        reduced, distance = self.predictor(inputs)
        if self.vote is not None:
            reduced = with_probabilities(reduced, self.vote(pixels, reduced[0]))
        outputs = [*measures_of(*reduced), *distance]
        return tuple(each.float() for each in outputs)


class LinearGraph(nn.Module):
    """Features (N, D) -> the prediction of linear heads drawn from the posterior, with the vote."""

    def __init__(self, ensemble: LinearEnsemble) -> None:
        super().__init__()
        model = ensemble.model
        drawn = model.samples(-1, model.scale)
        self.space = model.space
        self.share = model.vote
        self.register_buffer("weights", torch.stack([head.weights for head in drawn]))
        self.register_buffer("bias", torch.stack([head.bias for head in drawn])[:, None])
        self.vote = PlaceVote(model) if model.vote else None
        self.distance = Distance(ensemble.reference) if ensemble.reference is not None else None

    def forward(self, features: Tensor) -> tuple[Reduced, list[Tensor]]:
        places = self.space(features)
        logits = places @ self.get_buffer("weights") + self.get_buffer("bias")
        reduced = reduce(torch.cat([logits, torch.full_like(logits[..., :1], -torch.inf)], dim=2))
        if self.vote is not None:
            p = (1 - self.share) * reduced[0] + self.share * self.vote(places).double()
            reduced = with_probabilities(reduced, p)
        return reduced, [] if self.distance is None else [self.distance(places)]


class PlaceVote(nn.Module):
    """Places (N, R) in the space of the heads -> votes (N, K) of the run's images near them."""

    def __init__(self, model: LinearModel) -> None:
        super().__init__()
        vectors = model.index.vectors
        self.register_buffer("vectors", vectors)
        self.register_buffer("voters", model.heads[-1].probabilities(vectors.float()))

    def forward(self, places: Tensor) -> Tensor:
        units = nn.functional.normalize(self.get_buffer("vectors").float(), dim=1)
        similarity = nn.functional.normalize(places, dim=1) @ units.T
        similarity = torch.where(similarity > _ITSELF, -2.0, similarity)
        positions, weights = weighted(similarity, min(N_NEIGHBORS, len(units)))
        votes: Tensor = (weights[..., None] * self.get_buffer("voters")[positions]).sum(1)
        return votes


class EnsembleGraph(nn.Module):
    """Images or features -> the mean prediction of nets whose masks are fixed."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        n = ensemble.config.mc_samples
        self.members = nn.ModuleList([SampledNet(member, n) for member in ensemble.members])

    def forward(self, inputs: Tensor) -> tuple[Reduced, list[Tensor]]:
        found = [member(inputs) for member in self.members]
        p, entropy, square, noise = (
            torch.stack(each).mean(0) for each in zip(*(f[0] for f in found), strict=True)
        )
        distances = [distance for _, distance in found if distance is not None]
        mean = [torch.stack(distances).mean(0)] if len(distances) == len(found) else []
        return (p, entropy, square, noise), mean


class SampledNet(nn.Module):
    """Images or features -> what one net predicts, and the distance from its labeled images."""

    def __init__(self, member: Member, mc_samples: int) -> None:
        super().__init__()
        self.net = copy.deepcopy(member.net).cpu().eval()
        self.masks: list[Tensor] = []
        if mc_samples > 1:
            generator = torch.Generator().manual_seed(member.mask_seed)
            self.masks = [each.detach() for each in draw_masks(self.net, mc_samples, generator)]
            for layer in self.net.dropouts():
                layer.generator = None
        self.distance = Distance(member.reference) if member.reference is not None else None

    def forward(self, inputs: Tensor) -> tuple[Reduced, Tensor | None]:
        features, stages = self.net.features_by_stage(self.net.standardize(inputs))
        reduced = reduce(sample_outputs(self.net, features, self.masks))
        return reduced, None if self.distance is None else self.distance(torch.cat(stages, dim=1))


class PixelVote(nn.Module):
    """Images and the nets' probabilities -> those after the vote and matrix scaling."""

    def __init__(self, index: NeighborIndex, adjustment: Adjustment, size: int) -> None:
        super().__init__()
        self.factor = shrink_factor(size)
        self.power, self.scaling = adjustment.power, adjustment.scaling
        self.register_buffer("thumbnails", index.thumbnails)
        self.register_buffer("predictions", index.predictions.half())
        if adjustment.scaling is not None:
            self.register_buffer("matrix", torch.from_numpy(adjustment.scaling.matrix))

    def forward(self, pixels: Tensor, own: Tensor) -> Tensor:
        indexed = unit_vectors(self.get_buffer("thumbnails"))
        similarity = unit_vectors(self._shrunk(pixels)) @ indexed.T
        similarity = torch.where(similarity > _ITSELF, 0.0, similarity)
        highest, places = most_similar(similarity)
        votes = mean_prediction(self.get_buffer("predictions").float()[places], highest > 0)
        return self._adjusted(own, votes.double())

    def _shrunk(self, pixels: Tensor) -> Tensor:
        """As ``average_pool``: sums of bytes are exact, and the mean is rounded."""
        side = pixels.shape[-1] // self.factor
        whole = pixels[..., : side * self.factor, : side * self.factor].float()
        blocks = whole.reshape(-1, whole.shape[1], side, self.factor, side, self.factor)
        return (blocks.sum((3, 5)) / self.factor**2).round().flatten(1)

    def _adjusted(self, own: Tensor, votes: Tensor) -> Tensor:
        product = own.clamp(min=SMALLEST_OWN) * votes.clamp(min=SMALLEST_VOTE).pow(self.power)
        voted = product / product.sum(1, keepdim=True)
        if not isinstance(self.scaling, MatrixScaling):
            return voted
        matrix = self.get_buffer("matrix")
        logs = (own.clamp(min=SMALLEST_PROBABILITY).log(), votes.clamp(min=SMALLEST_VOTE).log())
        inputs = torch.cat([torch.ones_like(own[:, :1]), *logs], dim=1)
        return torch.softmax(self.scaling.scale * voted.log() + inputs @ matrix, dim=1)


class Distance(nn.Module):
    """Stage features (N, D) -> (N,) as ``ReferenceFeatures.distance``."""

    def __init__(self, reference: ReferenceFeatures) -> None:
        super().__init__()
        self.sizes = list(reference.stage_sizes)
        self.register_buffer("labeled", torch.from_numpy(reference.features).float())
        self.has_outliers = reference.outliers is not None
        if reference.outliers is not None:
            self.register_buffer("outliers", torch.from_numpy(reference.outliers).float())

    def forward(self, features: Tensor) -> Tensor:
        logs = self._log_nearest(features, "labeled", 0.0)
        if self.has_outliers:
            logs = logs - self._log_nearest(features, "outliers", SAME_IMAGE)
        return logs.exp()

    def _log_nearest(self, features: Tensor, name: str, ignore_below: float) -> Tensor:
        logs = []
        pairs = zip(*(self._stages(x) for x in (features, self.get_buffer(name))), strict=True)
        for mine, theirs in pairs:
            distances = 1.0 - mine @ theirs.T
            if ignore_below:
                distances = torch.where(distances < ignore_below, 2.0, distances)
            logs.append(distances.amin(1).clamp(min=SMALLEST_DISTANCE).log())
        return torch.stack(logs).mean(0)

    def _stages(self, features: Tensor) -> Sequence[Tensor]:
        parts = torch.split(features, self.sizes, dim=1)
        return [nn.functional.normalize(part, dim=1) for part in parts]


def reduce(outputs: Tensor) -> Reduced:
    """(T, N, K + 1) logits and log variances -> what a ``Prediction`` holds."""
    log_p = torch.log_softmax(outputs[..., :-1], dim=-1)
    p = log_p.exp()
    s = outputs[..., -1]
    noise = torch.where(
        s == -torch.inf, 0.0, s.clamp(_LEAST_LOG_VARIANCE, _MOST_LOG_VARIANCE).exp()
    )
    # p ln p is 0 where p is 0, and ln p may be -inf there.
    entropy = -(p * log_p.clamp(min=-100.0)).sum(-1)
    square = p.square().sum(-1)
    means = [each.mean(0).double() for each in (p, entropy, square, noise)]
    return means[0], means[1], means[2], means[3]


def with_probabilities(reduced: Reduced, p: Tensor) -> Reduced:
    """As in ``selection.neighbor_vote``: the samples' disagreement keeps its share."""
    before, entropy, square, noise = reduced
    expected = _in_proportion(entropy, _entropy(before), _entropy(p))
    aleatoric = _in_proportion(1 - square, _trace(before), _trace(p))
    return p, expected, 1 - aleatoric, noise


def measures_of(p: Tensor, entropy: Tensor, square: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
    """Probabilities, and what ``inference.measures`` computes in the order of ``Measure``."""
    top = p.topk(2, dim=1).values
    predictive, norm = _entropy(p), p.square().sum(1)
    values = {
        Measure.LEAST_CONFIDENCE: p.sum(1) - top[:, 0],
        Measure.MARGIN: 1 - (top[:, 0] - top[:, 1]),
        Measure.PREDICTIVE_ENTROPY: predictive,
        Measure.EXPECTED_ENTROPY: entropy,
        Measure.MUTUAL_INFORMATION: (predictive - entropy).clamp(min=0),
        Measure.ALEATORIC_VARIANCE: noise,
        Measure.VARIANCE_TRACE: (square - norm).clamp(min=0),
        Measure.TOTAL_TRACE: 1 - norm,
        Measure.TOTAL_VARIANCE: noise + predictive,
    }
    return (p, *(values[measure] for measure in Measure))


def _entropy(p: Tensor) -> Tensor:
    return -(p * p.clamp(min=_TINY).log()).sum(1)


def _trace(p: Tensor) -> Tensor:
    return 1 - p.square().sum(1)


def _in_proportion(part: Tensor, before: Tensor, after: Tensor) -> Tensor:
    share = torch.where(before > 0, part / before.clamp(min=_TINY), 1.0)
    return share.clamp(0, 1) * after
