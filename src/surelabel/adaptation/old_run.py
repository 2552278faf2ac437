"""The old run as the ways see it: its images with their labels, its nets, both datasets' features.

Run 2 is the finished run on the old dataset; the catalog is that of the new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from surelabel.adaptation.round import finished_round
from surelabel.adaptation.spaces import Stored, spaces_of
from surelabel.adaptation.ways import SMALLEST, TwoDatasets, log_floor
from surelabel.dataset.array_store import PixelStore, cache_folder
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import restore_pixels
from surelabel.engines.linear_model import LinearEnsemble
from surelabel.models.backbones import Layers
from surelabel.runs.folder import RunFolder
from surelabel.types import (
    UNLABELED,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    Split,
    derive_seed,
    no_progress,
)
from surelabel.workflows.label import annotations_of, as_recorded
from surelabel.workflows.model_inputs import open_features, open_inputs

if TYPE_CHECKING:
    from surelabel.engines.ensemble import Ensemble

_MAX_OLD = 10_000
"""Old images that are used, a random part of more."""
_MAX_DEPTH = 2
"""Layers before the last one that are used, though the old labels may favor more.

Still earlier ones know the light and the background, in which datasets differ.
"""


@dataclass(frozen=True)
class OldRun:
    """Run 2 beside the images of the new dataset."""

    run: RunFolder
    catalog: Catalog
    """Of the new dataset; its classes are those that can be predicted."""
    store: PixelStore
    """The pixels of the new images."""
    seed: int

    @cached_property
    def nets(self) -> Ensemble | LinearEnsemble:
        """The old nets, applied to the new images."""
        return nets_of(self.run, self.catalog, self.store)

    @cached_property
    def images(self) -> tuple[Ids, IntArray, BoolArray]:
        """Old images with a label of these classes, the labels, and which were only tuned on."""
        table, catalog = annotations_of(self.run), self.run.catalog
        number = {name: k for k, name in enumerate(self.catalog.classes)}
        labels = table["label"].map(number).fillna(UNLABELED).to_numpy(dtype=np.int64)
        rng = np.random.default_rng(derive_seed(self.seed, "old images"))
        rows = np.sort(rng.permutation(np.flatnonzero(labels != UNLABELED))[:_MAX_OLD])
        ids = table["id"].to_numpy().astype(np.str_)[rows]
        answered = np.array(list(self.run.answers.standing()), dtype=np.str_)
        unseen = (catalog.splits[catalog.rows(ids)] == Split.TUNE) & ~np.isin(ids, answered)
        return ids, labels[rows], unseen

    def both(self) -> TwoDatasets:
        """Features of both datasets, the old labels, and what the old nets say of new images."""
        ids, labels, _ = self.images
        catalog2 = self.run.catalog
        cache = cache_folder(self.run.config.cache)
        old_nets = nets_of(self.run, catalog2, restore_pixels(catalog2, cache=cache))
        layers, depth = _layers_of(self.nets)
        old, new = _stored_of(old_nets, ids), _stored_of(self.nets, self.catalog.ids)
        spaces = spaces_of(old, new, layers, depth, self.seed)
        p = self.nets.predict(self.catalog.ids, no_progress).probabilities
        direct = logs_among(self.catalog.classes, self.run, p)
        return TwoDatasets(spaces, labels, direct, seed=self.seed)


def logs_among(classes: tuple[str, ...], run: RunFolder, probabilities: FloatArray) -> FloatArray:
    """(N, K) log-probabilities among ``classes``, from those of the classes of ``run``."""
    known = list(finished_round(run).metrics["classes"])
    among = np.full((len(probabilities), len(classes)), SMALLEST)
    for k, name in enumerate(classes):
        if name in known:
            among[:, k] = probabilities[:, known.index(name)]
    return log_floor(np.log(np.maximum(among, SMALLEST)))


def nets_of(folder: RunFolder, catalog: Catalog, store: PixelStore) -> Ensemble | LinearEnsemble:
    """The nets of a run's last round, applied to the images of ``catalog``."""
    from surelabel.engines.device import prepare
    from surelabel.engines.ensemble import load_round

    prepare(as_recorded(folder))
    last = finished_round(folder)
    inputs = open_inputs(folder.config, catalog, store)
    return load_round(last.weights(), last.number, folder.config, inputs)


def check_nets(folder: RunFolder, catalog: Catalog, store: PixelStore) -> None:
    """Refuse nets that do not fit the backbone on this machine, before any feature is computed."""
    from surelabel.engines.ensemble import load_round
    from surelabel.engines.inputs import Images
    from surelabel.models.backbones import is_pretrained

    config, last = folder.config, finished_round(folder)
    frozen = is_pretrained(config.net)
    inputs = open_features(config, catalog, store) if frozen else Images(catalog, store)
    load_round(last.weights(), last.number, config, inputs)


def _layers_of(nets: Ensemble | LinearEnsemble) -> tuple[Layers, int]:
    """How a row of ``_stored_of`` is divided, and how deep the ways look."""
    if isinstance(nets, LinearEnsemble):
        normalization = nets.model.space.normalization
        return normalization.layers, min(normalization.depth, _MAX_DEPTH)
    return Layers((nets.latents(nets.images.catalog.ids[:1]).shape[1],), (0,)), 0


def _stored_of(nets: Ensemble | LinearEnsemble, ids: Ids) -> Stored:
    """What the ways see of the images ``ids``: features of a frozen backbone, or latents."""
    if isinstance(nets, LinearEnsemble):
        features, rows = nets.features, nets.features.rows(ids)
        return Stored(len(ids), lambda at: features.pixels(rows[torch.from_numpy(at)]))
    latents = torch.from_numpy(nets.latents(ids))
    return Stored(len(ids), lambda at: latents[torch.from_numpy(at)])
