"""One training run: from labeled images and a pool to a net with averaged weights.

The loss of a batch is the weighted negative log likelihood, less the entropy penalty, plus the KL
term of Concrete Dropout. Images without a label are labeled on the fly by the averaged net, the
teacher, when it is confident of a weakly augmented view (mean teacher, FixMatch).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from surelabel.config.choices import ClassWeighting
from surelabel.config.settings import Config
from surelabel.models.bayesian import BayesianNet, split_outputs
from surelabel.models.detail import DetailNet
from surelabel.models.placement import Placement
from surelabel.training.augmentation import STRONG, WEAK, augment, shift_maps
from surelabel.training.batches import BatchSampler
from surelabel.training.checkpoint import pack_state, unpack_state
from surelabel.training.losses import heteroscedastic_log_probabilities, mean_entropy, weighted_nll
from surelabel.training.optimizer import build_optimizer, learning_rate, peak_learning_rate
from surelabel.training.replicas import ALONE, Replica
from surelabel.types import OnProgress, Progress, derive_seed, no_progress

_RAMP_UP = 0.2
"""Share of the steps over which the weight of the teacher's labels grows to its full value."""
_EARLY_STOP_CHECKS = 20
"""How often a run with early stopping evaluates the tune loss."""
_PROGRESS_STEPS = 10
_TUNE_BATCH = 512
_LARGE_MAPS_BATCH = 64
"""Of tune images, for a net on large maps: 512 would take a gigabyte."""


@dataclass(frozen=True)
class TrainingSet:
    """The images and labels of a run. Rows index ``pixels``; labels are class numbers, -1: none."""

    pixels: Callable[[Tensor], Tensor]
    """Rows (B,) -> uint8 images (B, C, H, W)."""
    human_rows: Tensor
    human_labels: Tensor
    pseudo_rows: Tensor
    """Images with a pseudo-label and, with consistency, the rest of the pool."""
    pseudo_labels: Tensor
    pseudo_weights: Tensor
    tune_rows: Tensor
    tune_labels: Tensor
    views: Callable[[Tensor, torch.Generator], Tensor] | None = None
    """Rows (B,) -> a stored augmented view of each, for inputs that cannot be augmented here."""
    teacher_correction: Callable[[Tensor, Tensor], Tensor] | None = None
    """Rows (B,) of images without a label and the teacher's probabilities (B, K) -> probabilities
    (B, K) corrected by neighbors and matrix scaling."""

    def __len__(self) -> int:
        return len(self.human_rows) + len(self.pseudo_rows)


class Checkpoints(Protocol):
    """Where a training run saves its state, so that it survives being killed."""

    def load(self) -> tuple[int, Mapping[str, Tensor]] | None:
        """The step to continue from and the packed state, or None."""

    def due(self, step: int) -> bool:
        """Whether to save now. It may depend on the clock: saving does not change the result."""

    def save(self, step: int, packed: Mapping[str, Tensor]) -> None:
        """Save atomically."""


@dataclass(frozen=True)
class FitReport:
    """What happened in a training run."""

    steps: int
    images_seen: int
    tune_loss: float
    """Mean negative log likelihood of the tune labels; nan without tune labels."""
    stopped_early: bool


class Trainer:
    """Trains ``net`` for a budget of steps; ``run`` leaves the averaged weights in it."""

    def __init__(
        self,
        net: BayesianNet,
        data: TrainingSet,
        config: Config,
        *,
        steps: int,
        seed: int,
        placement: Placement | None = None,
        replica: Replica = ALONE,
    ) -> None:
        """``placement`` is by default what suits the device of ``net``."""
        self.net = net
        self.placement = placement or Placement.on(next(net.parameters()).device)
        self.replica = replica
        self.data = data
        self.config = config
        self.steps = steps
        self.seed = seed
        self.average = copy.deepcopy(net).eval()
        for weight in self.average.parameters():
            weight.requires_grad_(False)
        self.optimizer = build_optimizer(net, config)
        n_human, n_pseudo = len(data.human_rows), len(data.pseudo_rows)
        is_unlabeled = data.pseudo_labels < 0
        self.batches = BatchSampler(
            n_human,
            n_pseudo,
            config.batch_size,
            config.human_share,
            derive_seed(seed, "batches"),
            n_left=int(is_unlabeled.sum()),
            left_share=config.left_share,
        )
        unlabeled_last = torch.argsort(is_unlabeled.int(), stable=True)
        self._rows = torch.cat([data.human_rows, data.pseudo_rows[unlabeled_last]])
        self._labels = torch.cat([data.human_labels, data.pseudo_labels[unlabeled_last]])
        self._weights = torch.cat([torch.ones(n_human), data.pseudo_weights[unlabeled_last]])
        self._evidence = n_human + config.pseudo_label_evidence * n_pseudo
        self._class_weights = _class_weights(data.human_labels, net.n_classes, config)

    def run(
        self, checkpoints: Checkpoints | None = None, on_progress: OnProgress = no_progress
    ) -> FitReport:
        """Train to the end of the budget, or until early stopping ends it."""
        early_stop = _EarlyStop(self.config.early_stop)
        first = self._restore(checkpoints, early_stop)
        check_every = max(1, self.steps // _EARLY_STOP_CHECKS)
        done = first
        for step in range(first, self.steps):
            self._step(step)
            done = step + 1
            if step % _PROGRESS_STEPS == 0:
                on_progress(Progress("training", step, self.steps))
            if early_stop.patience and len(self.data.tune_rows) and done % check_every == 0:
                early_stop.update(self.replica.mean(self.tune_loss()), self._teacher)
                if early_stop.is_over:
                    break
            if checkpoints is not None and checkpoints.due(done):
                checkpoints.save(done, self._pack(early_stop))
        on_progress(Progress("training", self.steps, self.steps))
        self.net.load_state_dict(early_stop.best or self._teacher.state_dict())
        self.average.load_state_dict(self.net.state_dict())
        self.net.eval()
        seen = done * self.config.batch_size
        return FitReport(done, seen, self.tune_loss(), early_stop.is_over)

    def tune_loss(self) -> float:
        """Mean negative log likelihood of the tune labels under the teacher."""
        net, data = self._teacher.eval(), self.data
        total = 0.0
        with torch.no_grad():
            size = _LARGE_MAPS_BATCH if net.large_maps else _TUNE_BATCH
            for start in range(0, len(data.tune_rows), size):
                rows = data.tune_rows[start : start + size]
                labels = data.tune_labels[start : start + size]
                logits, _ = split_outputs(net(net.standardize(data.pixels(rows))))
                log_p = torch.log_softmax(logits, dim=1).cpu()
                total -= float(log_p.gather(1, labels[:, None]).sum())
        return total / len(data.tune_rows) if len(data.tune_rows) else float("nan")

    @property
    def _teacher(self) -> BayesianNet:
        """The averaged net, or the net itself if its weights are not averaged."""
        return self.average if self.config.weight_average else self.net

    def _restore(self, checkpoints: Checkpoints | None, early_stop: _EarlyStop) -> int:
        """Load the saved state, if there is one; returns the step to continue from."""
        saved = checkpoints.load() if checkpoints is not None else None
        if saved is None:
            return 0
        step, packed = saved
        unpack_state(packed, {"net": self.net, "average": self.average}, self.optimizer)
        early_stop.restore(packed)
        return step

    def _pack(self, early_stop: _EarlyStop) -> dict[str, Tensor]:
        packed = pack_state({"net": self.net, "average": self.average}, self.optimizer)
        return {**packed, **early_stop.packed()}

    def _step(self, step: int) -> None:
        config = self.config
        generator = torch.Generator().manual_seed(self.replica.seed(self.seed, step))
        batch = self.replica.part(self.batches(step))
        plain = self._standardized(self.data.pixels(self._rows[batch]))
        labels, weights = self._targets(step, plain, batch, generator)
        images = self._augmented(plain, batch, generator)
        self.net.train()
        self.net.use_generator(generator)
        with self.placement.autocast(torch.bfloat16):
            outputs = self.net(images)
        outputs = outputs.float()
        log_p = heteroscedastic_log_probabilities(outputs, config.noise_samples, generator)
        loss = weighted_nll(log_p, labels, weights)
        if config.entropy_penalty:
            loss = loss - config.entropy_penalty * mean_entropy(outputs, weights)
        loss = loss + self.net.kl(config.prior_length_scale) / self._evidence
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.replica.average_gradients(self.net)
        for group in self.optimizer.param_groups:
            peak = peak_learning_rate(config)
            group["lr"] = learning_rate(config.schedule, peak, step, self.steps)
        self.optimizer.step()
        self.replica.average_buffers(self.net)
        if config.weight_average:
            update_average(self.average, self.net, config.weight_average, step)

    def _standardized(self, pixels: Tensor) -> Tensor:
        return self.net.standardize(self.placement.move(pixels))

    def _augmented(self, plain: Tensor, batch: Tensor, generator: torch.Generator) -> Tensor:
        if not self.config.augment:
            return plain
        if self.data.views is not None:
            views = self._standardized(self.data.views(self._rows[batch], generator))
            return shift_maps(views, generator) if isinstance(self.net, DetailNet) else views
        return augment(plain, STRONG, generator, flips=self.config.flips)

    def _targets(
        self, step: int, plain: Tensor, batch: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Labels and weights of a batch, (B,) each; images without a label get the teacher's.

        Where neighbors and matrix scaling correct the run's guesses, they correct the teacher's
        too: on its own it would confirm its own mistakes. Its labels get their full weight only
        after the first fifth of the steps, because a net that has seen little would learn its
        first mistakes.
        """
        labels, weights = self._labels[batch].clone(), self._weights[batch].clone()
        unlabeled = labels < 0
        if unlabeled.any():
            teacher = self._teacher.eval()
            view = plain[unlabeled.to(plain.device)]
            if self.config.augment and self.data.views is None:
                view = augment(view, WEAK, generator, flips=self.config.flips)
            with torch.no_grad(), self.placement.autocast(torch.bfloat16):
                logits, _ = split_outputs(teacher(view).float())
                p = logits.softmax(dim=1).cpu()
            if self.data.teacher_correction is not None:
                p = self.data.teacher_correction(self._rows[batch[unlabeled]], p)
            confidence, labels[unlabeled] = p.max(dim=1)
            confident = (confidence >= self.config.consistency_threshold).float()
            ramp = min(1.0, (step + 1) / (_RAMP_UP * self.steps))
            weights[unlabeled] = confident * self.config.consistency * ramp
        if self._class_weights is not None:
            weights *= self._class_weights[labels]
        return labels.to(plain.device), weights.to(plain.device)


def update_average(average: BayesianNet, net: BayesianNet, decay: float, step: int) -> None:
    """Exponential moving average of the weights: average <- d average + (1 - d) net.

    d = min(decay, (1 + step) / (10 + step)), so that the start is soon forgotten. Counters are
    copied.
    """
    old = [*average.parameters(), *average.buffers()]
    new = [*net.parameters(), *net.buffers()]
    floats = [(a, b) for a, b in zip(old, new, strict=True) if a.is_floating_point()]
    d = min(decay, (1 + step) / (10 + step))
    update = get_ema_multi_avg_fn(d)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        update([a for a, _ in floats], [b for _, b in floats], None)
        for a, b in zip(old, new, strict=True):
            if not a.is_floating_point():
                a.copy_(b)


class _EarlyStop:
    """Keeps the best weights, and knows when patience has run out; patience 0 switches it off."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.lowest = float("inf")
        self.misses = 0
        self.best: dict[str, Tensor] = {}

    @property
    def is_over(self) -> bool:
        return self.patience > 0 and self.misses >= self.patience

    def update(self, loss: float, net: BayesianNet) -> None:
        """Note the tune loss of ``net``, and keep its weights if it is the lowest so far."""
        if loss < self.lowest:
            self.lowest, self.misses = loss, 0
            self.best = {k: v.clone() for k, v in net.state_dict().items()}
        else:
            self.misses += 1

    def packed(self) -> dict[str, Tensor]:
        state = torch.tensor([self.lowest, self.misses], dtype=torch.float64)
        return {"early_stop": state, **{f"best/{k}": v.contiguous() for k, v in self.best.items()}}

    def restore(self, packed: Mapping[str, Tensor]) -> None:
        lowest, misses = packed["early_stop"].tolist()
        self.lowest, self.misses = lowest, int(misses)
        self.best = {k[5:]: v for k, v in packed.items() if k.startswith("best/")}


def _class_weights(labels: Tensor, n_classes: int, config: Config) -> Tensor | None:
    """max_k N_k / N_j with the number N_j of human labels of class j, (K,); None: switched off."""
    if config.class_weights is ClassWeighting.NONE:
        return None
    counts = torch.bincount(labels, minlength=n_classes).clamp(min=1).float()
    return counts.max() / counts
