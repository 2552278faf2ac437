"""Linear heads on frozen features: what a round keeps of them, and how they predict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from surelabel.config.settings import Config
from surelabel.engines.approximate_search import (
    APPROXIMATE_QUERIES,
    EXACT_QUERIES,
    ApproximateSearch,
    approximate_search,
    exact_nearest,
)
from surelabel.engines.cross_fitting import folds_of
from surelabel.engines.device import peak_memory
from surelabel.engines.feature_space import (
    FeatureSpace,
    Normalization,
)
from surelabel.engines.inputs import HeadInputs, refuse_other_backbone
from surelabel.engines.neighbor_search import as_integers
from surelabel.engines.storage import (
    Facts,
    load_reference,
    read_tensors,
    reference_path,
    save_reference,
    weights_path,
    write_tensors,
)
from surelabel.files.mapped_arrays import slices, zeros
from surelabel.inference.predictions import concatenate, from_parts
from surelabel.inference.sampling import Reducer
from surelabel.models.backbones import Layers
from surelabel.models.linear_head import (
    LaplacePosterior,
    LinearHead,
)
from surelabel.selection.neighbor_vote import with_probabilities
from surelabel.selection.out_of_distribution import ReferenceFeatures
from surelabel.selftraining.learner import OutlierDistances
from surelabel.selftraining.round_inputs import Problem
from surelabel.types import (
    FloatArray,
    Ids,
    OnProgress,
    Prediction,
    Progress,
    derive_seed,
    no_progress,
)

N_FOLDS = 5
N_NEIGHBORS = 10
_SIMILARITY_SCALE = 0.05
"""A neighbor whose cosine is this much lower than the nearest one's counts 1/e of it."""
MAX_INDEXED = 60_000
_CHUNK = 1000
PART = 16 * _CHUNK
"""Images whose inputs are in memory at a time: 64 MB where there are a thousand labels."""

Neighbors: TypeAlias = tuple[Tensor, Tensor]
"""(N, n) positions of the neighbors in an index, and (N, n) their weights, which sum to 1."""


@dataclass(frozen=True)
class NeighborIndex:
    """Places of images in the space of the heads."""

    vectors: Tensor
    """(M, R) float16."""
    digests: Tensor
    """(M,) int64, equal where the images are equal."""

    def neighbors(self, places: Tensor, digests: Tensor) -> Neighbors:
        """(N, n) positions of the images nearest to ``places`` (N, R), and their weights.

        An image itself and its copies, by ``digests`` (N,), do not count.
        """
        found, weights = [], []
        n = min(N_NEIGHBORS, len(self.vectors))
        at_once = EXACT_QUERIES if self._search is None else APPROXIMATE_QUERIES
        for at in slices(len(places), at_once):
            vectors = functional.normalize(places[at], dim=1)
            if self._search is not None:
                highest, positions = self._search.nearest(vectors, digests[at], n, excluded=-2.0)
            else:
                highest, positions = exact_nearest(
                    vectors, self._units, digests[at], self.digests, n, excluded=-2.0
                )
            weight = neighbor_weights(highest)
            found.append(positions)
            weights.append(weight)
        return torch.cat(found), torch.cat(weights)

    @cached_property
    def _search(self) -> ApproximateSearch | None:
        """None where the search is exact: for collections that are in the index as a whole."""
        if self.vectors.dtype is torch.float64:
            return None
        n_images = len(self.vectors) + (len(self.vectors) >= MAX_INDEXED)
        return approximate_search(self._unit_vectors, self.digests, n_images)

    @cached_property
    def _units(self) -> Tensor:
        """For exact search: an inverted file has its own copy."""
        return self._unit_vectors(slice(None))

    def _unit_vectors(self, at: slice) -> Tensor:
        return functional.normalize(_precise(self.vectors[at]), dim=1)


def weighted(similarity: Tensor, n: int) -> Neighbors:
    """The ``n`` most similar of M images, for each row of ``similarity`` (N, M)."""
    highest, positions = similarity.topk(n, dim=1)
    return positions, neighbor_weights(highest)


def neighbor_weights(highest: Tensor) -> Tensor:
    """(N, n) how much each neighbor counts, by similarities of which the first is the highest."""
    return torch.softmax((highest - highest[:, :1]) / _SIMILARITY_SCALE, dim=1)


@dataclass(frozen=True)
class LinearModel:
    """What a round learns: a space, the heads in it, and how their predictions are formed."""

    space: FeatureSpace
    heads: tuple[LinearHead, ...]
    """One for each fold, trained without it; last, the one for all labels."""
    precision: float
    """Of the prior."""
    scale: float
    """Of the posterior's deviations."""
    vote: float
    """The neighbors' share in a prediction."""
    index: NeighborIndex
    posteriors: tuple[LaplacePosterior, ...]
    """Around each head."""
    seed: int
    """Of the draws from them."""
    n_samples: int
    """1: the mode alone predicts."""
    losses: FloatArray
    """(N,) -ln p of each human label by the head that did not see it, at the best temperature."""

    def predict(self, places: Tensor, digests: Tensor, ids: Ids, head: int = -1) -> Prediction:
        """By one head: the mean over its samples, then the neighbors' vote."""
        drawn = self.samples(head, self.scale)
        n_classes = len(self.heads[head].bias)
        reducer = Reducer(len(ids), n_classes)
        for at in chunks(len(ids)):
            logits = torch.stack([each.logits(places[at]) for each in drawn])
            no_noise = torch.full((*logits.shape[:2], 1), -torch.inf, dtype=logits.dtype)
            reducer.add(at, torch.cat([logits, no_noise], dim=2), 1.0)
        prediction = replace(reducer.prediction(ids), aleatoric_variance=np.zeros(len(ids)))
        if not self.vote or not len(ids):
            return prediction
        votes = self.votes(self.index.neighbors(places, digests), head)
        p = (1 - self.vote) * prediction.probabilities + self.vote * votes.double().numpy()
        return with_probabilities(prediction, p)

    def double(self) -> LinearModel:
        """The same model in double precision: the order of the rows changes no digit that counts.

        Its samples are the same draws.
        """
        posteriors = tuple(each.double() for each in self.posteriors)
        return replace(
            self,
            space=self.space.double(),
            heads=tuple(each.head for each in posteriors),
            posteriors=posteriors,
            index=replace(self.index, vectors=self.index.vectors.double()),
        )

    def modes(self, places: Tensor, neighbors: Neighbors | None, head: int) -> Tensor:
        """(N, K) probabilities by the mode of one head, after the vote."""
        own = self.heads[head].probabilities(places)
        if neighbors is None:
            return own
        return (1 - self.vote) * own + self.vote * self.votes(neighbors, head)

    def samples(self, head: int, scale: float) -> list[LinearHead]:
        """Draws from the posterior of one head, the same at every call."""
        if self.n_samples == 1:
            return [self.heads[head]]
        number = head % len(self.heads)
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "posterior", number))
        return self.posteriors[head].sample(self.n_samples, scale, generator)

    def votes(self, neighbors: Neighbors, head: int) -> Tensor:
        """(N, K) weighted mean of what ``head`` predicts for the neighbors of N images."""
        positions, weights = neighbors
        of_head = self.heads[head].probabilities
        indexed = self.index.vectors
        voters = torch.cat(
            [of_head(_precise(indexed[part])) for part in slices(len(indexed), PART)]
        )
        return torch.cat(
            [
                torch.einsum("nk,nkc->nc", weights[at], voters[positions[at]])
                for at in chunks(len(positions))
            ]
        )


@dataclass(frozen=True)
class LinearEnsemble:
    """The trained heads of a round, with the features they predict from."""

    model: LinearModel
    features: HeadInputs
    config: Config
    facts: Facts
    reference: ReferenceFeatures | None = None

    def predict(self, ids: Ids, on_progress: OnProgress = no_progress) -> Prediction:
        """By the head for all labels."""
        return from_parts(self._predicted_parts(ids, on_progress), len(ids), ids)

    def _predicted_parts(self, ids: Ids, on_progress: OnProgress) -> Iterator[Prediction]:
        """In parts, because the inputs of the heads of all images may not fit into memory."""
        for part, places in self.latents_in_parts(ids, on_progress):
            prediction = self.model.predict(places, self._digests(ids[part]), ids[part])
            if self.reference is not None:
                distance = self._distance(self.reference, places)
                prediction = replace(prediction, distance=distance)
            yield prediction

    def predict_held_out(
        self, problem: Problem, on_progress: OnProgress = no_progress
    ) -> Prediction:
        """Tune images; with cross-fitting each by the head that was trained without its fold."""
        if not problem.cross_fit:
            return self.predict(problem.tune_ids, on_progress)
        parts = []
        for number, (ids, rest) in enumerate(self._held_out_parts(problem)):
            places = self.latents_tensor(ids)
            part = self.model.predict(places, self._digests(ids), ids, number)
            if self.reference is not None:
                reference = self._reference_without(rest)
                part = replace(part, distance=self._distance(reference, places))
            parts.append(part)
        return concatenate(parts)

    def distances_from(
        self,
        outliers: Ids,
        problem: Problem,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress = no_progress,
    ) -> OutlierDistances | None:
        """Distances given these outliers, which are kept beside the weights."""
        if self.reference is None:
            return None
        known = self.latents_tensor(outliers).numpy()
        reference = replace(self.reference, outliers=known)
        save_reference(reference_path(weights_path(work_folder, 0)), reference)
        informed = replace(self, reference=reference)
        held_out = [self.latents_tensor(problem.tune_ids)]
        references = [reference]
        if problem.cross_fit:
            parts = list(self._held_out_parts(problem))
            held_out = [self.latents_tensor(part) for part, _ in parts]
            references = [informed._reference_without(rest) for _, rest in parts]
        near = [self._distance(*pair) for pair in zip(references, held_out, strict=True)]
        far = zeros((len(ids),), np.float64)
        for part, places in self.latents_in_parts(ids, on_progress):
            far[part] = self._distance(reference, places)
        return OutlierDistances(np.concatenate(near), far)

    def latents(self, ids: Ids) -> FloatArray:
        """(N, R) the input of the heads."""
        values: FloatArray = self.latents_tensor(ids).numpy()
        return values

    def latents_tensor(self, ids: Ids, on_progress: OnProgress = no_progress) -> Tensor:
        """(N, R) the input of the heads."""
        return places_of(self.model.space, self.features, ids, on_progress)

    def latents_in_parts(
        self, ids: Ids, on_progress: OnProgress = no_progress
    ) -> Iterator[tuple[slice, Tensor]]:
        """The inputs of the heads, part by part, with where each part is among ``ids``."""
        for part in slices(len(ids), PART) if len(ids) else [slice(0, 0)]:

            def of_all(progress: Progress, before: int = part.start) -> None:
                on_progress(Progress(progress.what, before + progress.done, len(ids)))

            yield part, self.latents_tensor(ids[part], of_all)

    def report(self) -> Mapping[str, Any]:
        """Facts about the heads, and the memory it took."""
        return {
            "members": [self.facts],
            "mc_samples": self.config.mc_samples,
            "peak_memory": peak_memory(),
        }

    def _held_out_parts(self, problem: Problem) -> list[tuple[Ids, Ids]]:
        """For each fold, its tune images, and all labeled images outside of it."""
        folds = folds_of(problem, self.features.catalog, N_FOLDS, self.config.seed)
        held_out = np.isin(problem.human_ids, problem.tune_ids)
        return [
            (problem.human_ids[held_out & (folds == k)], problem.human_ids[folds != k])
            for k in range(N_FOLDS)
        ]

    def _reference_without(self, rest: Ids) -> ReferenceFeatures:
        assert self.reference is not None
        return replace(self.reference, features=self.latents_tensor(rest).numpy())

    def _distance(self, reference: ReferenceFeatures, places: Tensor) -> FloatArray:
        parts = [reference.distance(places[at].numpy()) for at in chunks(len(places))]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _digests(self, ids: Ids) -> Tensor:
        return digests_of(self.features, ids)


def places_of(
    space: FeatureSpace, features: HeadInputs, ids: Ids, on_progress: OnProgress = no_progress
) -> Tensor:
    """(N, R) where images are in the space of the heads."""
    rows = features.rows(ids)
    parts = [torch.zeros(0, space.basis.shape[1], dtype=space.basis.dtype)]
    for at in chunks(len(rows)):
        parts.append(space(features.pixels(rows[at])))
        on_progress(Progress("reading features", min(at.stop, len(rows)), len(rows)))
    return torch.cat(parts)


def digests_of(features: HeadInputs, ids: Ids) -> Tensor:
    """(N,) the first 60 bits of the images' digests."""
    return as_integers(features.catalog.digests[features.catalog.rows(ids)])


def save_linear(path: Path, ensemble: LinearEnsemble) -> None:
    """Write atomically, with everything that a prediction needs."""
    model = ensemble.model
    normalization = model.space.normalization
    tensors = {
        "mean": normalization.mean,
        "deviation": normalization.deviation,
        "basis": model.space.basis,
        "weights": torch.stack([head.weights for head in model.heads]),
        "bias": torch.stack([head.bias for head in model.heads]),
        "index": model.index.vectors,
        "index_digests": model.index.digests,
        "losses": torch.from_numpy(model.losses),
        "inputs_basis": torch.stack([each.inputs_basis for each in model.posteriors]),
        "classes_basis": torch.stack([each.classes_basis for each in model.posteriors]),
        "deviations": torch.stack([each.deviations for each in model.posteriors]),
    }
    about = {
        **ensemble.facts,
        "layer_sizes": normalization.layers.sizes,
        "layer_depths": normalization.layers.depths,
        "depth": normalization.depth,
        "unit_length": normalization.unit_length,
        "seed": model.seed,
    }
    write_tensors(path, tensors, about)


def load_linear(path: Path, config: Config, features: HeadInputs) -> LinearEnsemble:
    """The heads in ``path``, which predict what they predicted when they were fitted."""
    tensors, about = read_tensors(path)
    refuse_other_backbone(path, about, features, config)
    layers = Layers(tuple(about["layer_sizes"]), tuple(about["layer_depths"]))
    normalization = Normalization(
        layers,
        about["depth"],
        tensors["mean"],
        tensors["deviation"],
        unit_length=about.get("unit_length", True),
    )
    heads = tuple(
        LinearHead(weights, bias)
        for weights, bias in zip(tensors["weights"], tensors["bias"], strict=True)
    )
    factors = (tensors[name] for name in ("inputs_basis", "classes_basis", "deviations"))
    posteriors = tuple(LaplacePosterior(*each) for each in zip(heads, *factors, strict=True))
    model = LinearModel(
        FeatureSpace(normalization, tensors["basis"]),
        heads,
        about["precision"],
        about["posterior_scale"],
        about["neighbor_vote"],
        NeighborIndex(tensors["index"], tensors["index_digests"]),
        posteriors,
        about["seed"],
        config.mc_samples,
        tensors["losses"].numpy(),
    )
    return LinearEnsemble(model, features, config, about, load_reference(reference_path(path)))


def _precise(values: Tensor) -> Tensor:
    """float16 -> float32; float64 stays."""
    return values if values.dtype is torch.float64 else values.float()


def chunks(n: int) -> Sequence[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, n, _CHUNK)]
