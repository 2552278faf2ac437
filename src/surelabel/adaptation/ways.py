"""Ways to label a new dataset with the help of an old one, all behind one protocol.

A way is fitted to the labels of some new images and gives the log-probabilities of any new image.
It may use the old images with their labels and what the old nets predict. The features are fixed:
those of a frozen backbone, or the latents of the old nets. A way has at most a few settings, which
``stacking`` chooses by labels that the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn import functional

from surelabel.adaptation.clustering import Adaptation, Clustering, name_and_remove
from surelabel.models.linear_head import LinearHead, fit_head
from surelabel.selection.calibration import fit_temperature, temper
from surelabel.types import FloatArray, IntArray, derive_seed

SMALLEST = 1e-6
"""No way is surer than this that an image is not of a class."""
_PRECISIONS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Of the prior over the weights of the old head, the strongest first."""
_MAX_OLD = 2000
"""Old images that a head learns from: it has no use for more."""
_EM_STEPS = 100
_N_NEIGHBORS = 10
_SIMILARITY_SCALE = 0.05
"""A neighbor whose cosine is this much lower than the nearest one's counts 1/e of it."""
_MAX_NODES = 10_000
"""Images in the neighbor graph; the others ask their neighbors in it."""
_SPREAD = 0.9
"""How much of a node's label comes from its neighbors (Zhou et al. 2004)."""
_SPREAD_STEPS = 30
_CHUNK = 1000

Predict: TypeAlias = Callable[[IntArray], FloatArray]
"""Rows (M,) of new images -> log-probabilities (M, K)."""


class Statistics(StrEnum):
    """How the features of both datasets are normalized; each row then has length 1."""

    OLD = "old"
    """Both centered at the mean of the old images, as the old nets see them."""
    CENTERED = "centered"
    """Each dataset centered at its own mean."""
    STANDARDIZED = "standardized"
    """That, and each feature divided by its deviation in its own dataset."""


Setting: TypeAlias = tuple[Statistics, float]
"""What a way has to choose: the space, and one number of its own."""


@dataclass(frozen=True)
class Space:
    """Both datasets in the same R dimensions."""

    old: Tensor
    """(N2, R)."""
    new: Tensor
    """(N1, R)."""


@dataclass(frozen=True)
class TwoDatasets:
    """What the ways may use, besides labels of new images."""

    spaces: Mapping[Statistics, Space]
    old_labels: IntArray
    """(N2,)."""
    direct: FloatArray
    """(N1, K) log-probabilities by the old nets."""
    clusterings: Sequence[Clustering] = ()
    """Clusters of both datasets under ``Statistics.OLD``, for each k that the paper's way tries."""
    seed: int = 0
    _heads: dict[Statistics, LinearHead] = field(default_factory=dict, repr=False, compare=False)
    _starts: dict[object, LinearHead] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.direct.shape[1])

    @property
    def n_new(self) -> int:
        """N1."""
        return len(self.direct)

    @cached_property
    def shown_old(self) -> IntArray:
        """Rows of the old images that heads learn from."""
        rng = np.random.default_rng(derive_seed(self.seed, "old images"))
        rows: IntArray = np.sort(rng.permutation(len(self.old_labels))[:_MAX_OLD])
        return rows

    def old_head(self, statistics: Statistics) -> LinearHead:
        """A head of the old labels in that space."""
        if statistics not in self._heads:
            with _one_numpy_thread():
                self._heads[statistics] = self._fit_old(self.spaces[statistics].old)
        return self._heads[statistics]

    @cached_property
    def graph(self) -> NeighborGraph:
        """The neighbor graph of both datasets, each with its own statistics."""
        return neighbor_graph(self.spaces[Statistics.STANDARDIZED], self.seed)

    def fit_head(
        self, name: str, setting: Setting, inputs: Tensor, labels: IntArray, **more: Any
    ) -> LinearHead:
        """A head that begins at the last one of that name: folds differ little."""
        start = self._starts.get((name, setting), self._starts.get((name, setting[0])))
        given = torch.from_numpy(labels)
        with _one_numpy_thread():
            head = fit_head(inputs, given, self.n_classes, setting[1], start=start, **more)
        self._starts[name, setting] = self._starts[name, setting[0]] = head
        return head

    def _fit_old(self, old: Tensor) -> LinearHead:
        """With the prior that predicts a third of the old labels best from the others."""
        inputs, labels = old[self.shown_old], torch.from_numpy(self.old_labels[self.shown_old])
        out = torch.arange(len(labels)) % 3 == 0
        best, head, precision = np.inf, None, _PRECISIONS[0]
        for tried in _PRECISIONS:
            head = fit_head(inputs[~out], labels[~out], self.n_classes, tried, start=head)
            loss = float(functional.cross_entropy(head.logits(inputs[out]), labels[out]))
            if loss >= best:
                break
            best, precision = loss, tried
        return fit_head(inputs, labels, self.n_classes, precision, start=head)


class Way(Protocol):
    """One way to predict the new images."""

    @property
    def name(self) -> str:
        """For tables and messages."""

    @property
    def settings(self) -> Sequence[Setting]:
        """What to choose from; one where there is nothing to choose."""

    @property
    def needs_labels(self) -> bool:
        """Whether it says nothing without labels of new images."""

    def fit(self, data: TwoDatasets, rows: IntArray, labels: IntArray, setting: Setting) -> Predict:
        """Learn from the new images ``rows`` (n,) with their ``labels`` (n,)."""


@dataclass(frozen=True)
class Direct:
    """What the old nets say, without adaptation."""

    name: str = "direct inference"
    settings: Sequence[Setting] = ((Statistics.OLD, 0.0),)
    needs_labels: bool = False

    def fit(self, data: TwoDatasets, rows: IntArray, labels: IntArray, setting: Setting) -> Predict:
        """Nothing to learn."""
        return lambda at: log_floor(data.direct[at])


@dataclass(frozen=True)
class OwnStatistics:
    """A head of the old labels, after each dataset was normalized with its own statistics."""

    name: str = "re-estimated normalization"
    settings: Sequence[Setting] = ((Statistics.STANDARDIZED, 0.0),)
    needs_labels: bool = False

    def fit(self, data: TwoDatasets, rows: IntArray, labels: IntArray, setting: Setting) -> Predict:
        """Nothing to learn."""
        return _of_head(data.old_head(setting[0]), data.spaces[setting[0]].new)


@dataclass(frozen=True)
class LabelShift:
    """Direct inference, corrected for other class shares by EM (Saerens et al. 2002).

    EM takes probabilities at their word, so the labels make them less sure first, if need be.
    """

    name: str = "label-shift correction"
    settings: Sequence[Setting] = ((Statistics.OLD, 0.0),)
    needs_labels: bool = False

    def fit(self, data: TwoDatasets, rows: IntArray, labels: IntArray, setting: Setting) -> Predict:
        """Estimate the class shares of the new images."""
        k = data.n_classes
        p = np.exp(log_floor(data.direct))
        p = temper(p, max(1.0, fit_temperature(p[rows], labels)))
        before = (np.bincount(data.old_labels, minlength=k) + 1) / (len(data.old_labels) + k)
        shares = before
        for _ in range(_EM_STEPS):
            weighted = p * (shares / before)
            weighted /= weighted.sum(axis=1, keepdims=True)
            last, shares = shares, (weighted.sum(axis=0) + 1) / (len(p) + k)
            if np.abs(shares - last).sum() < 1e-6:
                break
        logs = np.log(p) + np.log(shares / before)
        return lambda at: log_floor(logs[at])


@dataclass(frozen=True)
class LabelsAlone:
    """A head of the new labels, without the old dataset."""

    name: str = "new labels alone"
    settings: Sequence[Setting] = (
        *((Statistics.CENTERED, precision) for precision in (0.1, 0.03, 0.01)),
        *((Statistics.STANDARDIZED, precision) for precision in (0.03, 0.01)),
    )
    needs_labels: bool = True

    def fit(self, data: TwoDatasets, rows: IntArray, labels: IntArray, setting: Setting) -> Predict:
        """The setting is the precision of the prior."""
        new = data.spaces[setting[0]].new
        return _of_head(data.fit_head(self.name, setting, new[rows], labels), new)


@dataclass(frozen=True)
class Together:
    """A head of old and new labels, in which each dataset as a whole counts the same."""

    name: str = "old and new labels together"
    settings: Sequence[Setting] = (
        (Statistics.CENTERED, 0.03),
        (Statistics.CENTERED, 0.01),
        (Statistics.STANDARDIZED, 0.01),
    )
    needs_labels: bool = True

    def fit(self, data: TwoDatasets, rows: IntArray, labels: IntArray, setting: Setting) -> Predict:
        """The setting is the precision of the prior."""
        space, shown = data.spaces[setting[0]], data.shown_old
        inputs = torch.cat([space.old[shown], space.new[rows]])
        given = np.concatenate([data.old_labels[shown], labels])
        each = len(rows) / max(1, len(shown))
        counts = torch.cat([torch.full((len(shown),), each), torch.ones(len(rows))])
        head = data.fit_head(self.name, setting, inputs, given, weights=counts)
        return _of_head(head, space.new)


@dataclass(frozen=True)
class OldPosterior:
    """A head whose prior is centered at the old one: yesterday's posterior is today's prior.

    Its weights are halved, because the old head is too sure of new images. The prior has one
    precision: the curvature of the old posterior was measured to make no difference.
    """

    name: str = "old posterior as prior"
    settings: Sequence[Setting] = tuple(
        (Statistics.CENTERED, precision) for precision in (0.3, 0.1, 0.03)
    )
    needs_labels: bool = True

    def fit(self, data: TwoDatasets, rows: IntArray, labels: IntArray, setting: Setting) -> Predict:
        """The setting is the precision of the prior."""
        old, new = data.old_head(setting[0]), data.spaces[setting[0]].new
        mean = LinearHead(old.weights / 2, old.bias / 2)
        head = data.fit_head(self.name, setting, new[rows], labels, prior_mean=mean)
        return _of_head(head, new)


@dataclass(frozen=True)
class LabelPropagation:
    """Old and new labels spread over the neighbor graph of both datasets (Zhou et al. 2004)."""

    name: str = "label propagation"
    settings: Sequence[Setting] = ((Statistics.STANDARDIZED, 0.1), (Statistics.STANDARDIZED, 1.0))
    needs_labels: bool = False

    def fit(self, data: TwoDatasets, rows: IntArray, labels: IntArray, setting: Setting) -> Predict:
        """The setting: how much all old labels count, relative to all new ones."""
        graph, n_old = data.graph, len(data.graph.old_rows)
        given = np.zeros((graph.links.shape[0], data.n_classes), dtype=np.float32)
        each = setting[1] * len(rows) / max(1, n_old) if len(rows) else 1.0
        given[np.arange(n_old), data.old_labels[graph.old_rows]] = each
        nodes, near = graph.nodes_of(rows)
        np.add.at(given, (nodes, labels[:, None]), near)
        spread = given
        for _ in range(_SPREAD_STEPS):
            spread = _SPREAD * (graph.links @ spread) + (1 - _SPREAD) * given
        shares = spread + SMALLEST * max(float(spread.max()), 1e-12)
        shares /= shares.sum(axis=1, keepdims=True)

        def predict(at: IntArray) -> FloatArray:
            nodes, near = graph.nodes_of(at)
            p = np.einsum("nk,nkc->nc", near, shares[nodes])
            return log_floor(np.log(np.maximum(p, SMALLEST)))

        return predict


@dataclass(frozen=True)
class AdaptiveClustering:
    """The paper's way: the nearest of the clusters of both datasets, the worst ones removed."""

    name: str = "adaptive clustering"
    settings: Sequence[Setting] = ((Statistics.OLD, 0.0),)
    needs_labels: bool = True

    def fit(self, data: TwoDatasets, rows: IntArray, labels: IntArray, setting: Setting) -> Predict:
        """Half of the labels name clusters, the other half choose k and the removals."""
        adaptation, new = self.adaptation(data, rows, labels), data.spaces[setting[0]].new.numpy()

        def predict(at: IntArray) -> FloatArray:
            p = adaptation.probabilities(new[at])
            return log_floor(np.log(np.maximum(p, SMALLEST)))

        return predict

    def adaptation(self, data: TwoDatasets, rows: IntArray, labels: IntArray) -> Adaptation:
        """The set A for these labels."""
        order = np.argsort(labels, kind="stable")
        names, decides = order[::2], order[1::2]
        return name_and_remove(
            data.clusterings,
            (rows[names], labels[names]),
            (rows[decides], labels[decides]),
            data.spaces[Statistics.OLD].new.numpy(),
            data.n_classes,
        )


DIRECT, LABEL_SHIFT = Direct(), LabelShift()
ALONE, CLUSTERING = LabelsAlone(), AdaptiveClustering()
WAYS: tuple[Way, ...] = (
    DIRECT,
    OwnStatistics(),
    LABEL_SHIFT,
    ALONE,
    Together(),
    OldPosterior(),
    LabelPropagation(),
    CLUSTERING,
)


@dataclass(frozen=True)
class NeighborGraph:
    """Images of both datasets, each linked to its nearest ones; old images come first."""

    links: csr_matrix
    """(M, M), normalized so that spreading converges."""
    old_rows: IntArray
    new_rows: IntArray
    vectors: Tensor
    """(M, R) of length 1."""
    new: Tensor
    """(N1, R) all new images."""

    def nodes_of(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """(n, k) the nodes that stand for new images, and their weights, which sum to 1.

        A new image in the graph stands for itself; any other for its neighbors in it.
        """
        order = np.searchsorted(self.new_rows, rows).clip(max=len(self.new_rows) - 1)
        inside = self.new_rows[order] == rows
        n = 1 if inside.all() else min(_N_NEIGHBORS, len(self.vectors))
        nodes = np.zeros((len(rows), n), dtype=np.int64)
        weights = np.zeros((len(rows), n), dtype=np.float32)
        nodes[inside, 0] = len(self.old_rows) + order[inside]
        weights[inside, 0] = 1.0
        if not inside.all():
            found = _nearest(self.new[rows[~inside]], self.vectors, n, self_at=None)
            nodes[~inside], weights[~inside] = found
        return nodes, weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)


def neighbor_graph(space: Space, seed: int) -> NeighborGraph:
    """Half of the nodes are old images at most; of large datasets a random part."""
    rng = np.random.default_rng(derive_seed(seed, "graph"))
    old = np.sort(rng.permutation(len(space.old))[: _MAX_NODES // 2])
    new = np.sort(rng.permutation(len(space.new))[: _MAX_NODES - len(old)])
    vectors = functional.normalize(torch.cat([space.old[old], space.new[new]]), dim=1)
    n = min(_N_NEIGHBORS, len(vectors) - 1)
    nodes, weights = _nearest(vectors, vectors, n, self_at=0)
    size = len(vectors)
    starts = np.repeat(np.arange(size), n)
    links = csr_matrix((weights.ravel(), (starts, nodes.ravel())), (size, size))
    links = links.maximum(links.T)
    scale = diags(1 / np.sqrt(np.maximum(np.asarray(links.sum(axis=1)).ravel(), 1e-12)))
    return NeighborGraph((scale @ links @ scale).tocsr(), old, new, vectors, space.new)


def _nearest(
    queries: Tensor, vectors: Tensor, n: int, *, self_at: int | None
) -> tuple[IntArray, FloatArray]:
    """(N, n) the vectors nearest to each query, and weights; ``self_at`` is where queries begin."""
    found, weights = [], []
    for start in range(0, len(queries), _CHUNK):
        chunk = functional.normalize(queries[start : start + _CHUNK], dim=1)
        similarity = chunk @ vectors.T
        if self_at is not None:
            here = torch.arange(len(chunk))
            similarity[here, self_at + start + here] = -2.0
        highest, nodes = similarity.topk(n, dim=1)
        found.append(nodes.numpy())
        weights.append(((highest - highest[:, :1]) / _SIMILARITY_SCALE).exp().numpy())
    return np.concatenate(found), np.concatenate(weights)


def _one_numpy_thread() -> AbstractContextManager[object]:
    """While NumPy's threads wait for work they take the processor from PyTorch's."""
    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits


def log_floor(logs: FloatArray) -> FloatArray:
    """Log-probabilities (N, K), none below ln ``SMALLEST`` before they are normalized."""
    normal = logs - logsumexp(logs, axis=1, keepdims=True)
    raised = np.maximum(normal, np.log(SMALLEST))
    floored: FloatArray = raised - logsumexp(raised, axis=1, keepdims=True)
    return floored


def _of_head(head: LinearHead, inputs: Tensor) -> Predict:
    def predict(at: IntArray) -> FloatArray:
        chunks = [at[start : start + _CHUNK] for start in range(0, len(at), _CHUNK)]
        logits = [head.logits(inputs[chunk]).double().numpy() for chunk in chunks]
        return log_floor(np.concatenate([np.empty((0, len(head.bias))), *logits]))

    return predict
