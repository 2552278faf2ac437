"""Work in this process: the learner that Algorithm 1 sees, made of nets, training and sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.config.choices import Mode
from surelabel.config.settings import Config
from surelabel.engines.device import choose_device, n_at_once, peak_memory
from surelabel.engines.earlier_round import Voters, losses_of, who_votes
from surelabel.engines.inputs import Features, Images, refuse_other_backbone
from surelabel.engines.member_training import (
    folds_of,
    is_finite,
    n_members,
    n_steps,
    new_net,
    taught,
    training_set,
)
from surelabel.engines.members import (
    FileCheckpoints,
    Member,
    copy_members,
    distance_by,
    facts_of,
    is_marked,
    load_neighbors,
    load_net,
    neighbors_path,
    put_in_place,
    remove_members,
    save_neighbors,
    save_net,
    weights_path,
)
from surelabel.engines.neighbor_search import (
    NeighborIndex,
    TeacherCorrection,
    forget,
    kept,
    neighbor_vote,
    teacher_correction_for,
)
from surelabel.engines.parallel import side_by_side
from surelabel.errors import DivergedError
from surelabel.inference.sampling import appearance_of, concatenate, latents_of, predict
from surelabel.selection.neighbor_vote import Adjustment, adjust
from surelabel.selection.out_of_distribution import Neighbors
from surelabel.selftraining.learner import RoundInputs
from surelabel.training.schedule import peak_rate
from surelabel.training.trainer import Trainer, TrainingSet
from surelabel.types import (
    UNLABELED,
    FloatArray,
    Ids,
    IntArray,
    OnProgress,
    Prediction,
    derive_seed,
    no_progress,
)

CHECKPOINT_SECONDS = 20.0
"""How much training a killed program may lose."""
_SLOWER_ATTEMPTS = 2
"""At a tenth of the learning rate each, when training goes astray."""


class LocalLearner:
    """Trains an ensemble of Bayesian nets and predicts with it."""

    def __init__(self, config: Config, images: Images | Features) -> None:
        self.frozen = images if isinstance(images, Features) else None
        if self.frozen is not None:
            views = config.augment and config.views > 0
            config = config.replace(consistency=0.0, augment=views)
        self.config = config
        self.images = images
        self.device = choose_device(config.device)
        self.members: list[Member] = []
        self._asked: tuple[NeighborIndex, Adjustment] | None = None
        self._reports: list[dict[str, Any]] = []
        self._earlier: list[dict[str, Any]] = []

    def learn(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress = no_progress
    ) -> None:
        """Train each member, or load it where an earlier attempt at this round finished it."""
        self.members, self._reports, self._earlier = [], [], []
        self._asked = None
        forget(work_folder)
        if self.frozen is not None and self.config.augment:
            self.frozen.compute_views(
                round_inputs.problem.human_ids,
                self.config.views,
                flips=self.config.flips,
                on_progress=on_progress,
            )
        n = n_members(self.config, cross_fit=round_inputs.problem.cross_fit)
        missing = [k for k in range(n) if not weights_path(work_folder, k).exists()]
        teacher_correction = (
            teacher_correction_for(round_inputs, self.images, self.config, on_progress)
            if missing
            else None
        )
        jobs = [
            partial(self._train, round_inputs, k, n, work_folder, teacher_correction)
            for k in missing
        ]
        side_by_side(jobs, on_progress, at_once=n_at_once(n, self.device))
        for member in range(n):
            path = weights_path(work_folder, member)
            self._load_member(path, round_inputs.number, member)
            if not self.config.out_of_distribution:
                continue
            known = self.members[-1].neighbors
            if known is None:
                learns = taught(
                    round_inputs.problem, self.images.catalog, member, n, self.config.seed
                )
                rows = self.images.rows(round_inputs.problem.human_ids[learns])
                known = Neighbors(*appearance_of(self.members[-1].net, self.images.pixels, rows))
                save_neighbors(neighbors_path(path), known)
            # Outliers that a killed attempt had found are found again.
            self.members[-1] = replace(self.members[-1], neighbors=replace(known, outliers=None))
        if self.config.earlier_nets:
            self._let_earlier_vote(round_inputs, n, work_folder)

    def _let_earlier_vote(self, round_inputs: RoundInputs, n: int, work_folder: Path) -> None:
        """Take the nets of the round before along, or go back to them: as held-out labels say."""
        copies = copy_members(round_inputs.earlier, work_folder, n)
        if not copies:
            return
        for number, path in enumerate(copies, start=n):
            self._load_member(path, round_inputs.number, number)
        every, facts = self.members, self._reports
        alone, back = every[:n], every[n:]
        both, *single = (
            self._held_out_losses(round_inputs, members) for members in (every, alone, back)
        )
        voters = who_votes(both, *single)
        self.members, self._reports, self._earlier = every, facts[:n], facts[n:]
        if is_marked(work_folder) or voters is Voters.EARLIER:
            paths = put_in_place(copies, work_folder)
            self.load(paths, round_inputs.number)
            self._earlier = []
        elif voters is Voters.NEW:
            remove_members(copies)
            self.members, self._earlier = alone, []

    def _held_out_losses(self, round_inputs: RoundInputs, members: list[Member]) -> FloatArray:
        """(N,) -ln p of the held-out labels; infinite for nets that went astray."""
        self.members = members
        try:
            return losses_of(self.predict_held_out(round_inputs), round_inputs.problem)
        except DivergedError:
            return np.full(len(round_inputs.problem.tune_ids), np.inf)

    def load(self, weights: Sequence[Path], number: int, *, neighbor_vote: bool = True) -> None:
        """Be the ensemble of round ``number``, with the adjustment that the round stored."""
        self.members, self._reports = [], []
        for member, path in enumerate(weights):
            self._load_member(path, number, member)
        self._asked = None
        if weights and neighbor_vote and isinstance(self.images, Images):
            self._asked = kept(weights[0].parent, self.images)

    def _load_member(self, path: Path, number: int, member: int) -> None:
        net, about = load_net(path, self.config)
        seed = derive_seed(self.config.seed, number, "masks", member)
        if self.frozen is not None:
            refuse_other_backbone(path, about, self.frozen, self.config)
        neighbors = load_neighbors(neighbors_path(path))
        self.members.append(Member(net.to(self.device), seed, neighbors))
        self._reports.append(about)

    def predict(self, ids: Ids, on_progress: OnProgress = no_progress) -> Prediction:
        """Mean over members and Monte Carlo samples; of loaded nets with the neighbors' say."""
        own = self._predict(self.members, ids, on_progress)
        if self._asked is None:
            return own
        alike, adjustment = self._asked
        return adjust(own, alike.say(ids, on_progress), adjustment)

    def latents(self, ids: Ids) -> FloatArray:
        """(N, D) what the last layers see of the images: those of all members side by side."""
        rows = self.images.rows(ids)
        parts = [latents_of(m.net, self.images.pixels, rows) for m in self.members]
        return np.concatenate(parts, axis=1)

    def predict_held_out(
        self, round_inputs: RoundInputs, on_progress: OnProgress = no_progress
    ) -> Prediction:
        """About tune images by all members; out of fold by the member that left them out."""
        parts = self._held_out(round_inputs)
        return concatenate([self._predict(members, ids, on_progress) for members, ids in parts])

    def look_again(
        self,
        round_inputs: RoundInputs,
        outliers: Ids,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress = no_progress,
    ) -> tuple[FloatArray, FloatArray] | None:
        """Keep the outliers beside each member's neighbors, and measure anew."""
        rows = self.images.rows(outliers)
        for number, member in enumerate(self.members):
            if member.neighbors is None:
                return None
            seen = appearance_of(member.net, self.images.pixels, rows)[0]
            known = replace(member.neighbors, outliers=seen)
            save_neighbors(neighbors_path(weights_path(work_folder, number)), known)
            self.members[number] = replace(member, neighbors=known)
        parts = self._held_out(round_inputs)
        held_out = [self._distance(members, of, no_progress) for members, of in parts]
        return np.concatenate(held_out), self._distance(self.members, ids, on_progress)

    def _held_out(self, round_inputs: RoundInputs) -> list[tuple[list[Member], Ids]]:
        """The tune images beside the members that have not learned from them."""
        problem = round_inputs.problem
        if problem.cross_fit:
            n = n_members(self.config, cross_fit=True)
            held_out = np.isin(problem.human_ids, problem.tune_ids)
            folds = folds_of(problem, self.images.catalog, n, self.config.seed)
            folds = np.where(held_out, folds, -1)
            parts = [
                (self.members[number::n], problem.human_ids[folds == number])
                for number in range(n)
                if (folds == number).any()
            ]
            if parts:
                return parts
        return [(self.members, problem.tune_ids)]

    def neighbor_vote(self, ids: Ids, says: FloatArray) -> NeighborIndex | None:
        """By their pixels. Tails on features go by likeness of these features as it is: None."""
        if not isinstance(self.images, Images):
            return None
        return neighbor_vote(self.images, ids, says)

    def report(self) -> Mapping[str, Any]:
        """Facts about each member, and the memory it took."""
        return {
            "members": self._reports,
            "earlier": self._earlier,
            "mc_samples": self.config.mc_samples,
            "peak_memory": peak_memory(),
        }

    def _predict(self, members: Sequence[Member], ids: Ids, on_progress: OnProgress) -> Prediction:
        distances = [m.neighbors.distance for m in members if m.neighbors is not None]
        return predict(
            [m.net for m in members],
            self.images.pixels,
            self.images.rows(ids),
            ids,
            mc_samples=self.config.mc_samples,
            seeds=[m.mask_seed for m in members],
            distances=distances if len(distances) == len(members) else (),
            on_progress=on_progress,
        )

    def _distance(self, members: Sequence[Member], ids: Ids, on_progress: OnProgress) -> FloatArray:
        return distance_by(members, self.images.pixels, self.images.rows(ids), on_progress)

    def _train(
        self,
        round_inputs: RoundInputs,
        member: int,
        n: int,
        work_folder: Path,
        teacher_correction: TeacherCorrection | None,
        on_progress: OnProgress,
    ) -> None:
        """Leave a trained net in its file; training that goes astray begins anew, slower."""
        seed = derive_seed(self.config.seed, round_inputs.number, "member", member)
        data = replace(
            self._training_set(round_inputs, member, n, on_progress),
            teacher_correction=teacher_correction,
        )
        n_pseudo = int((data.pseudo_labels != UNLABELED).sum())
        steps = n_steps(self.config, len(data), len(data.human_rows), n_pseudo)
        for attempt in range(1 + _SLOWER_ATTEMPTS):
            net, shape, share = new_net(self.config, self.images, round_inputs, member, seed)
            rate = share * peak_rate(self.config) / 10**attempt
            net = net.to(self.device)
            config = self.config.replace(learning_rate=rate)
            trainer = Trainer(net, data, config, steps=steps, seed=seed)
            report = trainer.run(self._checkpoints(work_folder, member, attempt), on_progress)
            if is_finite(net) and (not len(data.tune_rows) or math.isfinite(report.tune_loss)):
                break
            self._checkpoints(work_folder, member, attempt).remove()
        about = {**shape, **facts_of(net, report), "learning_rate": rate, "attempt": attempt + 1}
        if self.frozen is not None:
            about["backbone"] = self.frozen.backbone.digest
        save_net(weights_path(work_folder, member), net, about)
        self._checkpoints(work_folder, member).remove()

    def _checkpoints(self, work_folder: Path, member: int, attempt: int = 0) -> FileCheckpoints:
        place = work_folder / "checkpoints"
        place.mkdir(exist_ok=True)
        again = f"-again-{attempt}" if attempt else ""
        return FileCheckpoints(place / f"member-{member}{again}.safetensors", CHECKPOINT_SECONDS)

    def _training_set(
        self, round_inputs: RoundInputs, member: int, n: int, tell: OnProgress
    ) -> TrainingSet:
        labels = round_inputs.pseudo_labels
        if round_inputs.problem.cross_fit and self.config.mode is Mode.RELABEL:
            labels = self._own_guesses(round_inputs, member, tell)
        learns = taught(round_inputs.problem, self.images.catalog, member, n, self.config.seed)
        return training_set(self.config, self.images, round_inputs, learns, labels)

    def _own_guesses(
        self, round_inputs: RoundInputs, member: int, on_progress: OnProgress
    ) -> IntArray:
        """(M,) what this member of the round before guesses of the images that were accepted.

        The others have learned from its fold: their guesses would tell it what is held out, and
        the held-out labels would look easier than they are. Where its fold was another, none.
        """
        path = (
            weights_path(round_inputs.earlier, member) if round_inputs.earlier is not None else None
        )
        if path is None or not path.exists():
            return np.full(len(round_inputs.pseudo_ids), UNLABELED)
        net, _ = load_net(path, self.config)
        seed = derive_seed(self.config.seed, round_inputs.number - 1, "masks", member)
        earlier = Member(net.to(self.device), seed)
        return self._predict([earlier], round_inputs.pseudo_ids, on_progress).guess
