"""From two runs to the ways that compete: features of both datasets, and cross-fitted predictions.

Run 2 is the finished run on the old dataset; run 1 is an ordinary run on the labels of the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from surelabel.adaptation.clustering import (
    Adaptation,
    Clustering,
    DatasetLatents,
    cluster_both,
    default_ks,
)
from surelabel.adaptation.domain_gap import DomainGap, domain_gap
from surelabel.adaptation.old_run import OldRun, logs_among, nets_of
from surelabel.adaptation.stacking import N_FOLDS, Candidate, Choice, choose, cross_fit
from surelabel.adaptation.ways import (
    ALONE,
    CLUSTERING,
    WAYS,
    Statistics,
    TwoDatasets,
    Way,
)
from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.catalog import Catalog
from surelabel.engines.cross_fitting import assign_folds, folds_of
from surelabel.engines.linear_model import LinearEnsemble
from surelabel.runs.folder import RunFolder
from surelabel.types import (
    UNLABELED,
    FloatArray,
    Ids,
    IntArray,
    no_progress,
)
from surelabel.workflows.problem import problem_of

if TYPE_CHECKING:
    from surelabel.engines.ensemble import Ensemble

NEW_RUN = "a run on the new labels"
"""The name of the ordinary run among the ways."""


@dataclass(frozen=True)
class Evidence:
    """The ways with their cross-fitted predictions, and the one that was chosen."""

    choice: Choice
    alone: str
    """Of the two ways without the old dataset, the one that predicts unseen labels better."""
    clustering: Adaptation
    new: FloatArray
    """(N1, R) the new images in the space of the clustering."""
    gap: DomainGap
    data: TwoDatasets
    """What the ways have used, to fit them to fewer labels; the nets of run 1 are not in it."""

    @property
    def refitted(self) -> list[Way]:
        """The ways that can be fitted to fewer labels.

        Not the paper's way where the clusters are those of a net that learned from all labels.
        """
        return [way for way in WAYS if way is not CLUSTERING or self.data.clusterings]


@dataclass(frozen=True)
class _Clustered:
    """Both datasets with clusters: from all labels of net 1, and without those of each fold."""

    every: TwoDatasets
    by_fold: Mapping[int, TwoDatasets]
    folds: IntArray
    """(n,) of the labels."""

    def without(self, fold: int) -> TwoDatasets:
        """What may be used to predict a fold."""
        return self.by_fold.get(fold, self.every)


@dataclass(frozen=True)
class RunPair:
    """Both runs, and the new dataset with the labels that may be learned from."""

    run2: RunFolder
    run1: RunFolder
    catalog: Catalog
    """Of the new dataset."""
    store: PixelStore
    learn: Ids
    ks: Sequence[int]
    seed: int

    def evidence(self) -> Evidence:
        """Cross-fit every way with the labels ``learn``, and choose."""
        catalog = self.catalog
        rows, labels = catalog.rows(self.learn), catalog.labels_of(self.learn)
        data = self._old.both()
        folds = assign_folds(labels, catalog.units(self.learn), N_FOLDS, self.seed)
        candidates = [
            cross_fit(way, lambda _: data, rows, labels, folds)
            for way in WAYS
            if way is not CLUSTERING
        ]
        clustered = self._clustered(data, folds)
        candidates.append(cross_fit(CLUSTERING, clustered.without, rows, labels, clustered.folds))
        candidates.append(self._new_run())
        choice = choose(candidates, labels, folds)
        alone = min((ALONE.name, NEW_RUN), key=lambda name: choice.losses[name])
        clustering = CLUSTERING.adaptation(clustered.every, rows, labels)
        space = data.spaces[Statistics.OLD]
        old, new = space.old.numpy(), space.new.numpy()
        gap = domain_gap(old, self._old.images[2], new, clustering.k, self.seed)
        knows_labels = not isinstance(self._nets1, LinearEnsemble)
        plain = data if knows_labels else clustered.every
        return Evidence(choice, alone, clustering, new, gap, plain)

    @cached_property
    def _old(self) -> OldRun:
        return OldRun(self.run2, self.catalog, self.store, self.seed)

    @cached_property
    def _nets1(self) -> Ensemble | LinearEnsemble:
        return nets_of(self.run1, self.run1.catalog, self.store)

    def _new_run(self) -> Candidate:
        """Run 1, each label by the nets that were trained without it."""
        problem = problem_of(self.run1)
        every = replace(problem, tune_ids=problem.human_ids, tune_labels=problem.human_labels)
        held_out = self._nets1.predict_held_out(every, no_progress)
        at = {item_id: row for row, item_id in enumerate(held_out.ids.tolist())}
        order = [at[item_id] for item_id in self.learn.tolist()]
        everything = self._nets1.predict(self.catalog.ids, no_progress).probabilities
        logs = logs_among(self.catalog.classes, self.run1, everything)
        own = logs_among(self.catalog.classes, self.run1, held_out.probabilities[order])
        return Candidate(NEW_RUN, own, lambda rows: logs[rows])

    def _clustered(self, data: TwoDatasets, folds: IntArray) -> _Clustered:
        """The clusters for the paper's way.

        Net 1 has learned from the labels. Where it is an ensemble, each fold is predicted with the
        latents of the member that left it out; frozen features know no label.
        """
        every = replace(data, clusterings=self._clusterings(data, None))
        if isinstance(self._nets1, LinearEnsemble):
            return _Clustered(every, {}, folds)
        problem, n = problem_of(self.run1), len(self._nets1.members)
        own = folds_of(problem, self.run1.catalog, n, self.run1.config.seed)
        at = dict(zip(problem.human_ids.tolist(), own.tolist(), strict=True))
        left_out = np.array([at[item_id] for item_id in self.learn.tolist()])
        by_fold = {
            fold: replace(data, clusterings=self._clusterings(data, fold))
            for fold in np.unique(left_out).tolist()
        }
        return _Clustered(every, by_fold, left_out)

    def _clusterings(self, data: TwoDatasets, member: int | None) -> list[Clustering]:
        """For each k; ``member`` is the net of run 1 to use, None for all."""
        space = data.spaces[Statistics.OLD]
        own = self._nets1.latents(self.catalog.ids)
        if member is not None and not isinstance(self._nets1, LinearEnsemble):
            own = np.split(own, len(self._nets1.members), axis=1)[member]
        latents = DatasetLatents(
            old=space.old.numpy(),
            old_labels=data.old_labels,
            new_net1=own,
            new=space.new.numpy(),
            new_labels=np.full(data.n_new, UNLABELED),
            decide_rows=np.empty(0, dtype=np.int64),
            decide_labels=np.empty(0, dtype=np.int64),
            n_classes=data.n_classes,
        )
        n_images = min(len(data.old_labels), data.n_new)
        ks = list(self.ks) or default_ks(data.n_classes, n_images)
        return [cluster_both(latents, k, self.seed) for k in sorted(set(ks))]
