"""The engine on Ray: decoding, features, training and scoring by a pool of workers.

The driver keeps the run folder and is the only one that writes to the cache, so whatever happens to
a worker, files are whole. Linear heads are fitted and scored by the driver: on cached features that
is a matrix product, which costs less than sending the features around.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.parallel import ProgressCounter, decoding_with
from surelabel.engines.device import choose_device
from surelabel.engines.ensemble import Ensemble
from surelabel.engines.feature_runtime import open_runtime
from surelabel.engines.inputs import Features, Half, Images
from surelabel.engines.linear_learner import LinearLearner
from surelabel.engines.local import LocalLearner
from surelabel.engines.member_training import MemberTraining
from surelabel.engines.ray_cluster import Cluster, connected
from surelabel.engines.ray_training import RayTraining
from surelabel.engines.scoring import (
    LOCAL_SCORER,
    Member,
    Scorer,
    distances_of_rows,
    predict_rows,
)
from surelabel.engines.stored_rows import StoredRows
from surelabel.errors import InputError
from surelabel.inference.predictions import concatenate
from surelabel.models.backbones import Backbone, load_backbone
from surelabel.selftraining.learner import Learner
from surelabel.selftraining.round_inputs import RoundInputs
from surelabel.types import FloatArray, Ids, OnProgress, Prediction, no_progress

Part = TypeVar("Part")

_CHUNK = 2048
"""Images that a worker scores at a time: whole batches, cut as they are locally."""
_FEATURE_IMAGES = 32
"""Images that a worker computes features of at a time, in whole batches of the runtime."""
_SAVE = 256
"""Images between two savings of features."""


@contextlib.contextmanager
def ray_engine(config: Config) -> Iterator[RayEngine]:
    """The engine, connected; images are decoded by its workers until the block ends."""
    with connected(config) as cluster, decoding_with(cluster.map):
        yield RayEngine(cluster)


class RayEngine:
    """Everything but linear heads on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.scorer: Scorer = RayScorer(cluster)

    def learner(self, config: Config, inputs: Images | Features) -> Learner:
        """Nets that the workers train together; linear heads on the driver."""
        if isinstance(inputs, Features) and config.tail is Tail.LINEAR:
            return LinearLearner(config, inputs)
        return RayLearner(config, inputs, self.cluster)

    def features(self, images: Images, backbone: Backbone, config: Config) -> Features:
        """Features that the workers compute."""
        return RayFeatures(images, backbone, config, self.cluster)


class RayLearner(LocalLearner):
    """Trains each net by data-parallel replicas, one net after the other."""

    def __init__(self, config: Config, images: Images | Features, cluster: Cluster) -> None:
        super().__init__(config, images)
        self._cluster = cluster

    def train(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress = no_progress
    ) -> Ensemble:
        """Train each member, or load it; the ensemble is scored by the workers."""
        ensemble = super().train(round_inputs, work_folder, on_progress)
        return replace(ensemble, scorer=RayScorer(self._cluster))

    def train_members(
        self, training: MemberTraining, members: Sequence[int], on_progress: OnProgress
    ) -> None:
        """One after the other, each by all workers."""
        stored = self.images.stored()
        if stored is None:  # features in memory, which no worker sees
            super().train_members(training, members, on_progress)
            return
        views = self.images.stored_views() if isinstance(self.images, Features) else None
        fit = RayTraining(self._cluster, stored, views, self.config.cache)
        for member in members:
            replace(training, fit=fit).train(member, on_progress)


@dataclass(frozen=True)
class RayScorer:
    """Scores images by the workers, a chunk at a time."""

    cluster: Cluster

    def predict(
        self,
        members: Sequence[Member],
        images: Images | Features,
        ids: Ids,
        mc_samples: int,
        on_progress: OnProgress = no_progress,
    ) -> Prediction:
        """Mean over members and Monte Carlo samples."""
        stored, rows = images.stored(), images.rows(ids).tolist()
        if stored is None or not len(rows):
            return LOCAL_SCORER.predict(members, images, ids, mc_samples, on_progress)
        task = partial(_score, members=_plain(members), stored=stored, mc_samples=mc_samples)
        parts = self._map(task, rows, ProgressCounter(on_progress, "scoring", len(rows)))
        return replace(concatenate(parts), ids=ids)

    def distances(
        self,
        members: Sequence[Member],
        images: Images | Features,
        ids: Ids,
        on_progress: OnProgress = no_progress,
    ) -> FloatArray:
        """(N,) distances from the labeled images: the mean over the members."""
        stored, rows = images.stored(), images.rows(ids).tolist()
        if stored is None or not len(rows):
            return LOCAL_SCORER.distances(members, images, ids, on_progress)
        task = partial(_distances, members=_plain(members), stored=stored)
        ticker = ProgressCounter(on_progress, "looking for outliers", len(rows))
        return np.concatenate(self._map(task, rows, ticker))

    def _map(
        self, task: Callable[[Sequence[Any]], Part], rows: Sequence[int], ticker: ProgressCounter
    ) -> list[Part]:
        """What ``task`` makes of each chunk of ``rows``, in their order."""
        parts = []
        for batch, part in self.cluster.map(task, rows, _CHUNK):
            parts.append(part)
            ticker.advance(len(batch))
        return parts


def _plain(members: Sequence[Member]) -> list[Member]:
    """Members that can travel: a generator of random numbers cannot, and scoring makes its own."""
    for member in members:
        for layer in member.net.dropouts():
            layer.generator = None
    return list(members)


def _score(
    batch: Sequence[Any], members: Sequence[Member], stored: StoredRows, mc_samples: int
) -> Prediction:
    rows = torch.from_numpy(np.asarray(batch, dtype=np.int64))
    names = np.array([str(row) for row in batch], dtype=np.str_)
    return predict_rows(members, stored, rows, names, mc_samples)


def _distances(batch: Sequence[Any], members: Sequence[Member], stored: StoredRows) -> FloatArray:
    rows = torch.from_numpy(np.asarray(batch, dtype=np.int64))
    return distances_of_rows(members, stored, rows)


class RayFeatures(Features):
    """Features that the workers compute from the pixels in the cache; the driver stores them."""

    def __init__(
        self,
        images: Images,
        backbone: Backbone,
        config: Config,
        cluster: Cluster,
    ) -> None:
        cache = cache_folder(config.cache).absolute()
        # Opened here, so that the graph is in the cache before workers read it.
        runtime = open_runtime(backbone, images.catalog.size, choose_device(config.device), cache)
        super().__init__(images, backbone, cache if config.feature_cache else None, runtime)
        self._pixels, self._cluster = images, cluster
        self._config = config.replace(cache=str(cache))

    def _extract(
        self, wanted: Sequence[tuple[str, int, int]], ticker: ProgressCounter, *, flips: bool
    ) -> None:
        """Store the features of (key, row, view); view -1 is the image as it is."""
        if not wanted:
            return
        size, resize = self.catalog.size, self.catalog.resize
        name = self.runtime.name
        task = _FeatureTask(self._config, self._pixels.stored(), size, resize, flips, name)
        share = -(-len(wanted) // self._cluster.n_workers)  # of few images, all workers get some
        n_batches = -(-min(share, _FEATURE_IMAGES) // self.runtime.batch)
        keys: list[str] = []
        parts: list[Half] = []
        for batch, features in self._cluster.map(task, wanted, n_batches * self.runtime.batch):
            keys += [key for key, _, _ in batch]
            parts.append(features)
            ticker.advance(len(batch))
            if len(keys) >= _SAVE:
                self.store.add(np.array(keys), np.concatenate(parts))
                keys, parts = [], []
        if keys:
            self.store.add(np.array(keys), np.concatenate(parts))


@dataclass
class _FeatureTask:
    """In a worker: the net, loaded once, and the pixels of the cache."""

    config: Config
    pixels: StoredRows
    size: int
    resize: str
    flips: bool
    runtime: str
    """Its name on the driver: a cache entry has the features of one runtime."""

    def __call__(self, batch: Sequence[tuple[str, int, int]]) -> Half:
        """Features of (key, row, view), in batches of one length, as they are computed locally."""
        net, n = self._net, self._net.runtime.batch
        parts = [batch[i : i + n] for i in range(0, len(batch), n)]
        return np.concatenate([net.features_of(part, flips=self.flips) for part in parts])

    @cached_property
    def _net(self) -> Features:
        images = _StoredImages(self.pixels, self.size, self.resize)
        backbone, device = load_backbone(self.config), choose_device(self.config.device)
        runtime = open_runtime(backbone, self.size, device, cache_folder(self.config.cache))
        if runtime.name != self.runtime:
            raise InputError(
                f"The worker on {socket.gethostname()} computes features with "
                f"{runtime.name or 'PyTorch'} and the driver with {self.runtime or 'PyTorch'}, "
                "which round differently: install the same packages on both, and give both a "
                "GPU or none."
            )
        return Features(images, backbone, None, runtime)  # type: ignore[arg-type]


class _StoredImages:
    """Pixels by row, with as much of a catalog as ``Features`` asks for."""

    def __init__(self, stored: StoredRows, size: int, resize: str) -> None:
        empty = np.empty(0, dtype=np.str_)
        self.catalog = Catalog(
            ids=empty,
            paths=empty,
            labels=np.empty(0, dtype=np.int64),
            sources=empty,
            splits=empty,
            groups=empty,
            digests=empty,
            files=empty,
            classes=(),
            size=size,
            channels=3,
            cross_fit=False,
            resize=resize,
        )
        self._stored = stored

    def pixels(self, rows: Tensor) -> Tensor:
        """uint8 images (N, C, H, W) at these rows."""
        return self._stored(rows)
