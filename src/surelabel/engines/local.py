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
    Counsel,
    LookAlikes,
    counsel_for,
    forget,
    kept,
    look_alikes,
)
from surelabel.engines.parallel import side_by_side
from surelabel.errors import DivergedError
from surelabel.inference.sampling import appearance_of, concatenate, latents_of, predict
from surelabel.selection.neighbor_vote import Voice, heed
from surelabel.selection.out_of_distribution import Neighbors
from surelabel.selftraining.learner import Lesson
from surelabel.training.schedule import peak_rate
from surelabel.training.trainer import Trainer, TrainingSet
from surelabel.types import (
    UNLABELLED,
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
        self._asked: tuple[LookAlikes, Voice] | None = None
        self._reports: list[dict[str, Any]] = []
        self._earlier: list[dict[str, Any]] = []

    def learn(self, lesson: Lesson, workplace: Path, on_progress: OnProgress = no_progress) -> None:
        """Train each member, or load it where an earlier attempt at this round finished it."""
        self.members, self._reports, self._earlier = [], [], []
        self._asked = None
        forget(workplace)
        if self.frozen is not None and self.config.augment:
            self.frozen.compute_views(
                lesson.problem.human_ids,
                self.config.views,
                flips=self.config.flips,
                on_progress=on_progress,
            )
        n = n_members(self.config, cross_fit=lesson.problem.cross_fit)
        missing = [k for k in range(n) if not weights_path(workplace, k).exists()]
        counsel = counsel_for(lesson, self.images, self.config, on_progress) if missing else None
        jobs = [partial(self._train, lesson, k, n, workplace, counsel) for k in missing]
        side_by_side(jobs, on_progress, at_once=n_at_once(n, self.device))
        for member in range(n):
            path = weights_path(workplace, member)
            self._load_member(path, lesson.number, member)
            if not self.config.strangers:
                continue
            known = self.members[-1].neighbors
            if known is None:
                learns = taught(lesson.problem, self.images.catalog, member, n, self.config.seed)
                rows = self.images.rows(lesson.problem.human_ids[learns])
                known = Neighbors(*appearance_of(self.members[-1].net, self.images.pixels, rows))
                save_neighbors(neighbors_path(path), known)
            # Strangers that a killed attempt had found are found again.
            self.members[-1] = replace(self.members[-1], neighbors=replace(known, strangers=None))
        if self.config.earlier_nets:
            self._let_earlier_vote(lesson, n, workplace)

    def _let_earlier_vote(self, lesson: Lesson, n: int, workplace: Path) -> None:
        """Take the nets of the round before along, or go back to them: as held-out labels say."""
        copies = copy_members(lesson.earlier, workplace, n)
        if not copies:
            return
        for number, path in enumerate(copies, start=n):
            self._load_member(path, lesson.number, number)
        every, facts = self.members, self._reports
        alone, back = every[:n], every[n:]
        both, *single = (self._held_out_losses(lesson, members) for members in (every, alone, back))
        voters = who_votes(both, *single)
        self.members, self._reports, self._earlier = every, facts[:n], facts[n:]
        if is_marked(workplace) or voters is Voters.EARLIER:
            paths = put_in_place(copies, workplace)
            self.load(paths, lesson.number)
            self._earlier = []
        elif voters is Voters.NEW:
            remove_members(copies)
            self.members, self._earlier = alone, []

    def _held_out_losses(self, lesson: Lesson, members: list[Member]) -> FloatArray:
        """(N,) -ln p of the held-out labels; infinite for nets that went astray."""
        self.members = members
        try:
            return losses_of(self.predict_held_out(lesson), lesson.problem)
        except DivergedError:
            return np.full(len(lesson.problem.tune_ids), np.inf)

    def load(self, weights: Sequence[Path], number: int, *, look_alikes: bool = True) -> None:
        """Be the ensemble that round ``number`` left in these files, and heed whom it heeded."""
        self.members, self._reports = [], []
        for member, path in enumerate(weights):
            self._load_member(path, number, member)
        self._asked = None
        if weights and look_alikes and isinstance(self.images, Images):
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
        """Mean over members and Monte Carlo samples; of loaded nets with the look-alikes' say."""
        own = self._predict(self.members, ids, on_progress)
        if self._asked is None:
            return own
        alike, voice = self._asked
        return heed(own, alike.say(ids, on_progress), voice)

    def latents(self, ids: Ids) -> FloatArray:
        """(N, D) what the last layers see of the images: those of all members side by side."""
        rows = self.images.rows(ids)
        parts = [latents_of(m.net, self.images.pixels, rows) for m in self.members]
        return np.concatenate(parts, axis=1)

    def predict_held_out(self, lesson: Lesson, on_progress: OnProgress = no_progress) -> Prediction:
        """About tune images by all members; out of fold by the member that left them out."""
        parts = self._held_out(lesson)
        return concatenate([self._predict(members, ids, on_progress) for members, ids in parts])

    def look_again(
        self,
        lesson: Lesson,
        strangers: Ids,
        ids: Ids,
        workplace: Path,
        on_progress: OnProgress = no_progress,
    ) -> tuple[FloatArray, FloatArray] | None:
        """Keep the strangers beside each member's neighbors, and measure anew."""
        rows = self.images.rows(strangers)
        for number, member in enumerate(self.members):
            if member.neighbors is None:
                return None
            seen = appearance_of(member.net, self.images.pixels, rows)[0]
            known = replace(member.neighbors, strangers=seen)
            save_neighbors(neighbors_path(weights_path(workplace, number)), known)
            self.members[number] = replace(member, neighbors=known)
        parts = self._held_out(lesson)
        held_out = [self._distance(members, of, no_progress) for members, of in parts]
        return np.concatenate(held_out), self._distance(self.members, ids, on_progress)

    def _held_out(self, lesson: Lesson) -> list[tuple[list[Member], Ids]]:
        """The tune images beside the members that have not learnt from them."""
        problem = lesson.problem
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

    def look_alikes(self, ids: Ids, says: FloatArray) -> LookAlikes | None:
        """By their pixels. Tails on features go by likeness of these features as it is: None."""
        if not isinstance(self.images, Images):
            return None
        return look_alikes(self.images, ids, says)

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
        lesson: Lesson,
        member: int,
        n: int,
        workplace: Path,
        counsel: Counsel | None,
        on_progress: OnProgress,
    ) -> None:
        """Leave a trained net in its file; training that goes astray begins anew, slower."""
        seed = derive_seed(self.config.seed, lesson.number, "member", member)
        data = replace(self._training_set(lesson, member, n, on_progress), counsel=counsel)
        n_machine = int((data.machine_labels != UNLABELLED).sum())
        steps = n_steps(self.config, len(data), len(data.human_rows), n_machine)
        for attempt in range(1 + _SLOWER_ATTEMPTS):
            net, shape, share = new_net(self.config, self.images, lesson, member, seed)
            rate = share * peak_rate(self.config) / 10**attempt
            net = net.to(self.device)
            config = self.config.replace(learning_rate=rate)
            trainer = Trainer(net, data, config, steps=steps, seed=seed)
            report = trainer.run(self._checkpoints(workplace, member, attempt), on_progress)
            if is_finite(net) and (not len(data.tune_rows) or math.isfinite(report.tune_loss)):
                break
            self._checkpoints(workplace, member, attempt).remove()
        about = {**shape, **facts_of(net, report), "learning_rate": rate, "attempt": attempt + 1}
        if self.frozen is not None:
            about["backbone"] = self.frozen.backbone.digest
        save_net(weights_path(workplace, member), net, about)
        self._checkpoints(workplace, member).remove()

    def _checkpoints(self, workplace: Path, member: int, attempt: int = 0) -> FileCheckpoints:
        place = workplace / "checkpoints"
        place.mkdir(exist_ok=True)
        again = f"-again-{attempt}" if attempt else ""
        return FileCheckpoints(place / f"member-{member}{again}.safetensors", CHECKPOINT_SECONDS)

    def _training_set(self, lesson: Lesson, member: int, n: int, tell: OnProgress) -> TrainingSet:
        labels = lesson.machine_labels
        if lesson.problem.cross_fit and self.config.mode is Mode.RELABEL:
            labels = self._own_guesses(lesson, member, tell)
        learns = taught(lesson.problem, self.images.catalog, member, n, self.config.seed)
        return training_set(self.config, self.images, lesson, learns, labels)

    def _own_guesses(self, lesson: Lesson, member: int, on_progress: OnProgress) -> IntArray:
        """(M,) what this member of the round before guesses of the images that were accepted.

        The others have learnt from its fold: their guesses would tell it what is held out, and
        the held-out labels would look easier than they are. Where its fold was another, none.
        """
        path = weights_path(lesson.earlier, member) if lesson.earlier is not None else None
        if path is None or not path.exists():
            return np.full(len(lesson.machine_ids), UNLABELLED)
        net, _ = load_net(path, self.config)
        seed = derive_seed(self.config.seed, lesson.number - 1, "masks", member)
        earlier = Member(net.to(self.device), seed)
        return self._predict([earlier], lesson.machine_ids, on_progress).guess
