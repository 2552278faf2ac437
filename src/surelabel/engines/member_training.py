"""How one member of the ensemble is trained: on what, for how long, and from which weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from surelabel.config.choices import Effort, Mode, Net
from surelabel.config.settings import Config
from surelabel.engines.cross_fitting import training_mask
from surelabel.engines.device import choose_device
from surelabel.engines.earlier_round import start_from_run, warm_start
from surelabel.engines.ensemble import Ensemble, load_member
from surelabel.engines.inputs import Features, Images
from surelabel.engines.storage import Facts, FileCheckpoints, save_net, weights_path
from surelabel.models.bayesian import BayesianNet
from surelabel.models.growing_densenet import default_nu, growth_rate
from surelabel.models.nets import build_net, load_last_block
from surelabel.selftraining.round_inputs import RoundInputs
from surelabel.training.optimizer import peak_learning_rate
from surelabel.training.trainer import FitReport, Trainer, TrainingSet
from surelabel.types import UNLABELED, BoolArray, IntArray, OnProgress, derive_seed

CHECKPOINT_SECONDS = 20.0
"""How much training a killed program may lose."""
_SLOWER_ATTEMPTS = 2
"""Further attempts when training diverges, each at a tenth of the learning rate."""
_STEPS = {Effort.LOW: 1500, Effort.NORMAL: 3000, Effort.HIGH: 8000}
_FULL_SIZE = 50_000
"""Images from which on a run gets all of the steps; smaller collections need fewer."""
_SMALLEST_SHARE = 0.2


@dataclass(frozen=True)
class MemberTraining:
    """Trains the members of one round."""

    round_inputs: RoundInputs
    images: Images | Features
    config: Config
    n_members: int
    work_folder: Path
    teacher_correction: Callable[[Tensor, Tensor], Tensor] | None = None
    fit: Callable[[Trainer, FileCheckpoints, OnProgress], FitReport] = Trainer.run
    """Runs a trainer to its end and leaves the weights in its net: here, or on other machines."""

    def train(self, member: int, on_progress: OnProgress) -> None:
        """Leave a trained net in its file. Training that diverges starts again, slower."""
        seed = derive_seed(self.config.seed, self.round_inputs.number, "member", member)
        data = self._training_set(member, on_progress)
        n_pseudo = int((data.pseudo_labels != UNLABELED).sum())
        steps = n_steps(self.config, len(data), len(data.human_rows), n_pseudo)
        for attempt in range(1 + _SLOWER_ATTEMPTS):
            net, shape, share = new_net(self.config, self.images, self.round_inputs, member, seed)
            rate = share * peak_learning_rate(self.config) / 10**attempt
            net = net.to(choose_device(self.config.device))
            config = self.config.replace(learning_rate=rate)
            checkpoints = self._checkpoints(member, attempt)
            trainer = Trainer(net, data, config, steps=steps, seed=seed)
            report = self.fit(trainer, checkpoints, on_progress)
            if _is_finite(net) and (not len(data.tune_rows) or math.isfinite(report.tune_loss)):
                break
            checkpoints.remove()
        facts = {**shape, **_facts(net, report), "learning_rate": rate, "attempt": attempt + 1}
        if isinstance(self.images, Features):
            facts["backbone"] = self.images.backbone.digest
        save_net(weights_path(self.work_folder, member), net, facts)
        self._checkpoints(member).remove()

    def _training_set(self, member: int, on_progress: OnProgress) -> TrainingSet:
        inputs, config = self.round_inputs, self.config
        labels = inputs.pseudo_labels
        if inputs.problem.cross_fit and config.mode is Mode.RELABEL:
            labels = self._own_guesses(member, on_progress)
        mask = training_mask(
            inputs.problem, self.images.catalog, member, self.n_members, config.seed
        )
        data = training_set(config, self.images, inputs, mask, labels)
        return replace(data, teacher_correction=self.teacher_correction)

    def _own_guesses(self, member: int, on_progress: OnProgress) -> IntArray:
        """(M,) guesses of the accepted images by this member of the round before, or none.

        The other members were trained on its fold: through their guesses it would learn what is
        held out from it, and the held-out labels would look easier than they are.
        """
        before, number = self.round_inputs.previous_round, self.round_inputs.number
        ids = self.round_inputs.pseudo_ids
        path = weights_path(before, member) if before is not None else None
        if path is None or not path.exists():
            return np.full(len(ids), UNLABELED)
        earlier = load_member(path, number - 1, member, self.config, self.images)
        alone = replace(earlier, reference=None)  # distances are not needed
        return Ensemble((alone,), self.images, self.config).predict(ids, on_progress).guess

    def _checkpoints(self, member: int, attempt: int = 0) -> FileCheckpoints:
        folder = self.work_folder / "checkpoints"
        folder.mkdir(exist_ok=True)
        again = f"-again-{attempt}" if attempt else ""
        return FileCheckpoints(folder / f"member-{member}{again}.safetensors", CHECKPOINT_SECONDS)


def n_steps(config: Config, n_images: int, n_human: int, n_pseudo: int) -> int:
    """Training steps of one net in one round.

    ``n_images`` are all images that a step may draw; ``n_human`` and ``n_pseudo`` those with a
    label. Epochs are passes over the latter two, as in the paper.
    """
    if config.steps:
        return config.steps
    if config.epochs:
        return config.epochs * math.ceil((n_human + n_pseudo) / config.batch_size)
    share = min(1.0, max(_SMALLEST_SHARE, math.sqrt(n_images / _FULL_SIZE)))
    pool_without_labels = config.consistency and not n_pseudo and n_images > n_human
    factor = config.first_round_factor if pool_without_labels else 1
    return round(_STEPS[config.effort] * share * factor)


def training_set(
    config: Config,
    images: Images | Features,
    round_inputs: RoundInputs,
    mask: BoolArray,
    pseudo_labels: IntArray,
) -> TrainingSet:
    """The human labels under ``mask`` (N,), and the ``pseudo_labels`` (M,) that are not empty.

    With cross-fitting the other human labels are held out. With consistency the rest of the pool
    is seen without labels.
    """
    problem, rows = round_inputs.problem, images.rows
    human_ids, human_labels = problem.human_ids[mask], problem.human_labels[mask]
    tune_ids, tune_labels = problem.tune_ids, problem.tune_labels
    if problem.cross_fit:
        tune_ids, tune_labels = problem.human_ids[~mask], problem.human_labels[~mask]
    has_label = pseudo_labels != UNLABELED
    ids, labels = round_inputs.pseudo_ids[has_label], pseudo_labels[has_label]
    weights = round_inputs.pseudo_weights[has_label]
    if config.consistency:
        known = np.concatenate([ids, round_inputs.outliers])
        rest = problem.pool_ids[~np.isin(problem.pool_ids, known)]
        ids = np.concatenate([ids, rest])
        labels = np.concatenate([labels, np.full(len(rest), UNLABELED)])
        weights = np.concatenate([weights, np.zeros(len(rest))])
    return TrainingSet(
        pixels=images.pixels,
        human_rows=rows(human_ids),
        human_labels=torch.from_numpy(human_labels),
        pseudo_rows=rows(ids),
        pseudo_labels=torch.from_numpy(labels),
        pseudo_weights=torch.from_numpy(weights).float(),
        tune_rows=rows(tune_ids),
        tune_labels=torch.from_numpy(tune_labels),
        views=images.views if isinstance(images, Features) else None,
    )


def new_net(
    config: Config,
    images: Images | Features,
    round_inputs: RoundInputs,
    member: int,
    seed: int,
) -> tuple[BayesianNet, dict[str, int], float]:
    """A net with weights from ``seed`` or from the round before.

    Also the facts needed to build it again, and the share of the learning rate for its start.
    """
    problem = round_inputs.problem
    nu = config.growth_nu if config.growth_nu >= 0 else default_nu(len(problem.pool_ids))
    k = growth_rate(config.growth_start, config.growth_max, nu, round_inputs.number)
    shape = {
        "size": images.catalog.size,
        "channels": images.channels,
        "n_classes": len(problem.classes),
        "k": k if config.net == Net.DENSENET else 0,
    }
    generator = torch.Generator().manual_seed(derive_seed(seed, "weights"))
    net = build_net(config, **shape, generator=generator)
    net.pixel_mean, net.pixel_std = images.statistics(config.seed)
    if isinstance(images, Features):
        load_last_block(net, images.backbone)
        if config.start_from:
            start_from_run(net, images, config, member)
    return net, shape, warm_start(net, config, round_inputs, member)


def _is_finite(net: BayesianNet) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in net.state_dict().values())


def _facts(net: BayesianNet, report: FitReport) -> Facts:
    """About a net and its training, as plain values."""
    values = asdict(report)
    if math.isnan(report.tune_loss):
        values["tune_loss"] = None
    dropout = [round(float(layer.p.detach()), 4) for layer in net.dropouts()]
    parameters = sum(p.numel() for p in net.parameters())
    return {**values, "dropout": dropout, "parameters": parameters}
