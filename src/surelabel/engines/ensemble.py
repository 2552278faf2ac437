"""The trained nets of a round: loaded from files, and asked for predictions.

A prediction is a function of weights, images and recorded settings: nothing here changes by being
used, and nets that were just trained predict what the same nets predict when loaded from disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.engines.cross_fitting import folds_of
from surelabel.engines.device import choose_device, peak_memory
from surelabel.engines.inputs import Features, Images, refuse_other_backbone
from surelabel.engines.linear_model import LinearEnsemble, load_linear
from surelabel.engines.neighbor_search import load_adjustment
from surelabel.engines.scoring import LOCAL_SCORER, Member, Scorer
from surelabel.engines.storage import (
    load_net,
    load_reference,
    reference_path,
    save_reference,
    weights_path,
)
from surelabel.inference.predictions import concatenate
from surelabel.inference.sampling import (
    attention_of,
    latents_of,
    stage_features_of,
)
from surelabel.models.detail import DetailNet
from surelabel.selection.neighbor_vote import adjust
from surelabel.selftraining.learner import OutlierDistances
from surelabel.selftraining.round_inputs import Problem
from surelabel.types import (
    FloatArray,
    Ids,
    OnProgress,
    Prediction,
    derive_seed,
    no_progress,
)


@dataclass(frozen=True)
class Ensemble:
    """Nets whose outputs are averaged; with their images and settings."""

    members: tuple[Member, ...]
    images: Images | Features
    config: Config
    scorer: Scorer = LOCAL_SCORER

    def predict(self, ids: Ids, on_progress: OnProgress = no_progress) -> Prediction:
        """Mean over members and Monte Carlo samples."""
        return self._predict(self.members, ids, on_progress)

    def predict_held_out(
        self, problem: Problem, on_progress: OnProgress = no_progress
    ) -> Prediction:
        """Tune images by all members; with cross-fitting by the member that left them out."""
        parts = self._held_out_parts(problem)
        return concatenate([self._predict(members, ids, on_progress) for members, ids in parts])

    def latents(self, ids: Ids) -> FloatArray:
        """(N, D) activations of the last hidden layer, of all members side by side."""
        rows = self.images.rows(ids)
        parts = [latents_of(m.net, self.images.pixels, rows) for m in self.members]
        return np.concatenate(parts, axis=1)

    def attention(self, ids: Ids) -> FloatArray:
        """(N, H, W): where nets with the tail detail look; the mean over members, sums to 1."""
        rows, nets = self.images.rows(ids), [member.net for member in self.members]
        maps = [
            attention_of(net, self.images.pixels, rows)
            for net in nets
            if isinstance(net, DetailNet)
        ]
        mean: FloatArray = np.mean(maps, axis=0)
        return mean

    def distances_from(
        self,
        outliers: Ids,
        problem: Problem,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress = no_progress,
    ) -> OutlierDistances | None:
        """Distances given these outliers, which are kept beside each member's weights."""
        if any(member.reference is None for member in self.members):
            return None
        rows = self.images.rows(outliers)
        members = []
        for number, member in enumerate(self.members):
            assert member.reference is not None
            features = stage_features_of(member.net, self.images.pixels, rows)[0]
            reference = replace(member.reference, outliers=features)
            save_reference(reference_path(weights_path(work_folder, number)), reference)
            members.append(replace(member, reference=reference))
        informed = replace(self, members=tuple(members))
        held_out = [
            informed._distances(some, of, no_progress)
            for some, of in informed._held_out_parts(problem)
        ]
        pool = informed._distances(informed.members, ids, on_progress)
        return OutlierDistances(np.concatenate(held_out), pool)

    def report(self) -> Mapping[str, Any]:
        """Facts about each member, and the memory it took."""
        return {
            "members": [member.facts for member in self.members],
            "mc_samples": self.config.mc_samples,
            "peak_memory": peak_memory(),
        }

    def _held_out_parts(self, problem: Problem) -> list[tuple[tuple[Member, ...], Ids]]:
        """The tune images, each part with the members that were not trained on it."""
        if problem.cross_fit:
            held_out = np.isin(problem.human_ids, problem.tune_ids)
            n, seed = len(self.members), self.config.seed
            folds = np.where(held_out, folds_of(problem, self.images.catalog, n, seed), -1)
            parts: list[tuple[tuple[Member, ...], Ids]] = [
                ((member,), problem.human_ids[folds == number])
                for number, member in enumerate(self.members)
                if (folds == number).any()
            ]
            if parts:
                return parts
        return [(self.members, problem.tune_ids)]

    def _predict(self, members: Sequence[Member], ids: Ids, on_progress: OnProgress) -> Prediction:
        samples = self.config.mc_samples
        return self.scorer.predict(members, self.images, ids, samples, on_progress)

    def _distances(
        self, members: Sequence[Member], ids: Ids, on_progress: OnProgress
    ) -> FloatArray:
        return self.scorer.distances(members, self.images, ids, on_progress)


def load_ensemble(
    weights: Sequence[Path], number: int, config: Config, images: Images | Features
) -> Ensemble:
    """The ensemble that round ``number`` left in these files, without its adjustment."""
    members = tuple(load_member(path, number, k, config, images) for k, path in enumerate(weights))
    return Ensemble(members, images, config)


def load_round(
    weights: Sequence[Path], number: int, config: Config, images: Images | Features
) -> Ensemble | LinearEnsemble:
    """The nets or linear heads that round ``number`` left in these files."""
    if isinstance(images, Features) and config.tail is Tail.LINEAR:
        return load_linear(weights[0], config, images)
    return load_ensemble(weights, number, config, images)


def load_member(
    path: Path, number: int, member: int, config: Config, images: Images | Features
) -> Member:
    """The net in ``path``, as member ``member`` of round ``number``."""
    net, facts = load_net(path, config)
    if isinstance(images, Features):
        refuse_other_backbone(path, facts, images, config)
    seed = derive_seed(config.seed, number, "masks", member)
    reference = load_reference(reference_path(path))
    return Member(net.to(choose_device(config.device)), seed, facts, reference)


def predict_as_round(
    weights: Sequence[Path],
    number: int,
    config: Config,
    images: Images | Features,
    ids: Ids,
    on_progress: OnProgress = no_progress,
    *,
    scorer: Scorer | None = None,
) -> Prediction:
    """What finished round ``number`` predicts for ``ids``: its nets, then its adjustment."""
    nets = load_round(weights, number, config, images)
    if scorer is not None and isinstance(nets, Ensemble):
        nets = replace(nets, scorer=scorer)
    prediction = nets.predict(ids, on_progress)
    if not weights or not isinstance(images, Images):
        return prediction
    stored = load_adjustment(weights[0].parent, images)
    if stored is None:
        return prediction
    index, adjustment = stored
    return adjust(prediction, index.votes(ids, on_progress), adjustment)
