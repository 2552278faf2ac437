"""Training in this process: the learner that Algorithm 1 sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.engines.cross_fitting import n_members, training_mask
from surelabel.engines.device import choose_device, n_at_once
from surelabel.engines.earlier_round import roll_back_if_worse
from surelabel.engines.ensemble import Ensemble, load_ensemble
from surelabel.engines.inputs import Features, Images
from surelabel.engines.linear_learner import LinearLearner
from surelabel.engines.member_training import MemberTraining
from surelabel.engines.neighbor_search import (
    NeighborIndex,
    neighbor_index,
    remove_adjustment,
    teacher_correction_for,
)
from surelabel.engines.parallel import run_in_parallel
from surelabel.engines.scoring import Member
from surelabel.engines.storage import reference_path, save_reference, weights_path
from surelabel.inference.sampling import stage_features_of
from surelabel.selection.out_of_distribution import ReferenceFeatures
from surelabel.selftraining.learner import Learner
from surelabel.selftraining.round_inputs import RoundInputs
from surelabel.types import FloatArray, Ids, OnProgress, no_progress


def learner_for(config: Config, images: Images | Features) -> Learner:
    """Linear heads on features where the settings ask for them, otherwise nets."""
    if isinstance(images, Features) and config.tail is Tail.LINEAR:
        return LinearLearner(config, images)
    return LocalLearner(config, images)


class LocalLearner:
    """Trains ensembles of Bayesian nets on the images of one catalog."""

    def __init__(self, config: Config, images: Images | Features) -> None:
        self.config = config
        self.images = images

    def train(
        self,
        round_inputs: RoundInputs,
        work_folder: Path,
        on_progress: OnProgress = no_progress,
    ) -> Ensemble:
        """Train each member, or load it where an earlier attempt at this round finished it."""
        config, images = self.config, self.images
        remove_adjustment(work_folder)
        if isinstance(images, Features) and config.augment and config.views:
            ids, flips = round_inputs.problem.human_ids, config.flips
            images.compute_views(ids, config.views, flips=flips, on_progress=on_progress)
        n = n_members(config, cross_fit=round_inputs.problem.cross_fit)
        paths = [weights_path(work_folder, k) for k in range(n)]
        missing = [k for k, path in enumerate(paths) if not path.exists()]
        if missing:
            correction = teacher_correction_for(round_inputs, images, config, on_progress)
            training = MemberTraining(round_inputs, images, config, n, work_folder, correction)
            self.train_members(training, missing, on_progress)
        ensemble = load_ensemble(paths, round_inputs.number, config, images)
        if config.out_of_distribution:
            ensemble = self._with_references(ensemble, round_inputs, work_folder)
        if config.roll_back:
            ensemble = roll_back_if_worse(ensemble, round_inputs, work_folder)
        return ensemble

    def train_members(
        self, training: MemberTraining, members: Sequence[int], on_progress: OnProgress
    ) -> None:
        """Train these members side by side, in threads."""
        jobs = [partial(training.train, k) for k in members]
        at_once = n_at_once(training.n_members, choose_device(self.config.device))
        run_in_parallel(jobs, on_progress, at_once=at_once)

    def neighbor_index(self, ids: Ids, predictions: FloatArray) -> NeighborIndex | None:
        """By their pixels; None for features, which a net has compared already."""
        if not isinstance(self.images, Images):
            return None
        return neighbor_index(self.images, ids, predictions)

    def _with_references(
        self, ensemble: Ensemble, round_inputs: RoundInputs, work_folder: Path
    ) -> Ensemble:
        """Give each member the features of its labeled images, computed once per round.

        Outliers that a killed attempt had detected are detected again.
        """
        members: list[Member] = []
        for number, member in enumerate(ensemble.members):
            reference = member.reference
            if reference is None:
                n, seed = len(ensemble.members), self.config.seed
                catalog, problem = self.images.catalog, round_inputs.problem
                mask = training_mask(problem, catalog, number, n, seed)
                rows = self.images.rows(problem.human_ids[mask])
                features = stage_features_of(member.net, self.images.pixels, rows)
                reference = ReferenceFeatures(*features)
                save_reference(reference_path(weights_path(work_folder, number)), reference)
            members.append(replace(member, reference=replace(reference, outliers=None)))
        return replace(ensemble, members=tuple(members))
