"""One training run: from labeled images, and a pool, to a net with averaged weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from surelabel.config.choices import ClassWeighting, Optimizer
from surelabel.config.settings import Config
from surelabel.models.bayesian import BayesianNet, split_outputs
from surelabel.training.augmentation import STRONG, WEAK, distort
from surelabel.training.batches import Batches
from surelabel.training.checkpoint import pack, unpack
from surelabel.training.losses import heteroscedastic_log_probabilities, mean_entropy, weighted_nll
from surelabel.training.schedule import learning_rate, peak_rate
from surelabel.types import OnProgress, Progress, derive_seed, no_progress


def follow(average: BayesianNet, net: BayesianNet, decay: float, step: int) -> None:
    """Move ``average`` towards ``net``; early on it moves faster, so the start is forgotten."""
    rate = 1 - min(decay, (1 + step) / (10 + step))
    with torch.no_grad():
        old = [*average.parameters(), *average.buffers()]
        new = [*net.parameters(), *net.buffers()]
        floats = [(a, b) for a, b in zip(old, new, strict=True) if a.is_floating_point()]
        torch._foreach_lerp_([a for a, _ in floats], [b for _, b in floats], rate)
        for a, b in zip(old, new, strict=True):
            if not a.is_floating_point():
                a.copy_(b)


_RAMP = 0.2
"""Share of the steps over which the net comes to trust its own guesses."""
_CHECKS = 20
"""How often a run with early stop looks at the tune loss."""


@dataclass(frozen=True)
class TrainingSet:
    """What is learned from. Rows index ``pixels``; labels are class numbers, -1 for none."""

    pixels: Callable[[Tensor], Tensor]
    """Rows (B,) -> uint8 images (B, C, H, W)."""
    human_rows: Tensor
    human_labels: Tensor
    pseudo_rows: Tensor
    """Images with a pseudo-label, and with consistency the rest of the pool too."""
    pseudo_labels: Tensor
    pseudo_weights: Tensor
    tune_rows: Tensor
    tune_labels: Tensor
    views: Callable[[Tensor, torch.Generator], Tensor] | None = None
    """Rows (B,) -> one of the stored views of each, for what cannot be distorted anew."""
    teacher_correction: Callable[[Tensor, Tensor], Tensor] | None = None
    """Rows (B,) of images without a label and what the averaged net says of them, (B, K) ->
    probabilities (B, K) in which others have a say."""

    def __len__(self) -> int:
        return len(self.human_rows) + len(self.pseudo_rows)


class Checkpoints(Protocol):
    """Where a training run leaves its state, so that it survives being killed."""

    def load(self) -> tuple[int, Mapping[str, Tensor]] | None:
        """The step to go on from and the packed state, or None."""

    def due(self, step: int) -> bool:
        """Whether to save now. May look at the clock: it does not change the result."""

    def save(self, step: int, packed: Mapping[str, Tensor]) -> None:
        """Save atomically."""


@dataclass(frozen=True)
class FitReport:
    """What a training run has to say for itself."""

    steps: int
    images_seen: int
    tune_loss: float
    """Negative log likelihood a tune label; nan without tune labels."""
    stopped_early: bool


class Trainer:
    """Trains ``net`` for a budget of steps; ``run`` leaves the averaged weights in it."""

    def __init__(
        self, net: BayesianNet, data: TrainingSet, config: Config, *, steps: int, seed: int
    ) -> None:
        self.net = net
        self.data = data
        self.config = config
        self.steps = steps
        self.seed = seed
        self.average = copy.deepcopy(net).eval()
        for weight in self.average.parameters():
            weight.requires_grad_(False)
        self.optimizer = _optimizer(net, config)
        self.batches = Batches(
            len(data.human_rows),
            len(data.pseudo_rows),
            config.batch_size,
            config.human_share,
            derive_seed(seed, "batches"),
            n_left=int((data.pseudo_labels < 0).sum()),
            left_share=config.left_share,
        )
        left_last = torch.argsort((data.pseudo_labels < 0).int(), stable=True)
        self._rows = torch.cat([data.human_rows, data.pseudo_rows[left_last]])
        self._labels = torch.cat([data.human_labels, data.pseudo_labels[left_last]])
        ones = torch.ones(len(data.human_rows))
        self._weights = torch.cat([ones, data.pseudo_weights[left_last]])
        n_human, n_pseudo = len(data.human_rows), len(data.pseudo_rows)
        self._evidence = n_human + config.pseudo_label_evidence * n_pseudo
        self._class_weights = _class_weights(data.human_labels, net.n_classes, config)

    def run(
        self, checkpoints: Checkpoints | None = None, on_progress: OnProgress = no_progress
    ) -> FitReport:
        """Train to the end of the budget, or to the early stop."""
        watch = _EarlyStop(self.config.early_stop)
        first = self._restore(checkpoints, watch)
        every = max(1, self.steps // _CHECKS)
        done = first
        for step in range(first, self.steps):
            self._step(step)
            done = step + 1
            if step % 10 == 0:
                on_progress(Progress("training", step, self.steps))
            if watch.patience and len(self.data.tune_rows) and done % every == 0:
                watch.look(self.tune_loss(), self._kept)
                if watch.is_over:
                    break
            if checkpoints is not None and checkpoints.due(done):
                checkpoints.save(done, self._pack(watch))
        on_progress(Progress("training", self.steps, self.steps))
        self.net.load_state_dict(watch.best or self._kept.state_dict())
        self.average.load_state_dict(self.net.state_dict())
        self.net.eval()
        seen = done * self.config.batch_size
        return FitReport(done, seen, self.tune_loss(), watch.is_over)

    @property
    def _kept(self) -> BayesianNet:
        return self.average if self.config.weight_average else self.net

    def _restore(self, checkpoints: Checkpoints | None, watch: _EarlyStop) -> int:
        saved = checkpoints.load() if checkpoints is not None else None
        if saved is None:
            return 0
        step, packed = saved
        unpack(packed, {"net": self.net, "average": self.average}, self.optimizer)
        watch.restore(packed)
        return step

    def _pack(self, watch: _EarlyStop) -> dict[str, Tensor]:
        packed = pack({"net": self.net, "average": self.average}, self.optimizer)
        return {**packed, **watch.packed()}

    def _step(self, step: int) -> None:
        config = self.config
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "step", step))
        where = self.batches(step)
        plain = self.net.standardize(self.data.pixels(self._rows[where]))
        labels, weights = self._targets(step, plain, where, generator)
        images = plain
        if config.augment and self.data.views is not None:
            images = self.net.standardize(self.data.views(self._rows[where], generator))
        elif config.augment:
            images = distort(plain, STRONG, generator, flips=config.flips)
        self.net.train()
        self.net.use_generator(generator)
        outputs = self.net(images)
        log_p = heteroscedastic_log_probabilities(outputs, config.noise_samples, generator)
        loss = weighted_nll(log_p, labels, weights)
        if config.entropy_penalty:
            loss = loss - config.entropy_penalty * mean_entropy(outputs, weights)
        loss = loss + self.net.kl(config.prior_length_scale) / self._evidence
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(config.schedule, peak_rate(config), step, self.steps)
        self.optimizer.step()
        if config.weight_average:
            follow(self.average, self.net, config.weight_average, step)

    def _targets(
        self, step: int, plain: Tensor, where: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Labels and weights of a batch; images without a label take the averaged net's.

        Where others have a say in its guesses, they have it here too: alone it would confirm what
        it is wrong about. They count in full only after the first fifth of the steps: a net that
        has seen little would teach itself its first mistakes.
        """
        labels, weights = self._labels[where].clone(), self._weights[where].clone()
        open_ = labels < 0
        if open_.any():
            teacher = self._kept.eval()
            view = plain[open_.to(plain.device)]
            if self.config.augment:
                view = distort(view, WEAK, generator, flips=self.config.flips)
            with torch.no_grad():
                logits, _ = split_outputs(teacher(view))
                p = logits.softmax(dim=1).cpu()
            if self.data.teacher_correction is not None:
                p = self.data.teacher_correction(self._rows[where[open_]], p)
            confidence, labels[open_] = p.max(dim=1)
            sure = (confidence >= self.config.consistency_threshold).float()
            trust = min(1.0, (step + 1) / (_RAMP * self.steps))
            weights[open_] = sure * self.config.consistency * trust
        if self._class_weights is not None:
            weights *= self._class_weights[labels]
        return labels.to(plain.device), weights.to(plain.device)

    def tune_loss(self) -> float:
        """Mean negative log likelihood of the tune labels under the weights that are kept."""
        net, data = self._kept.eval(), self.data
        total = 0.0
        with torch.no_grad():
            for start in range(0, len(data.tune_rows), 512):
                rows = data.tune_rows[start : start + 512]
                labels = data.tune_labels[start : start + 512]
                logits, _ = split_outputs(net(net.standardize(data.pixels(rows))))
                log_p = torch.log_softmax(logits, dim=1).cpu()
                total -= float(log_p.gather(1, labels[:, None]).sum())
        return total / len(data.tune_rows) if len(data.tune_rows) else float("nan")


class _EarlyStop:
    """Remembers the best weights, and when patience is over."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.lowest = float("inf")
        self.misses = 0
        self.best: dict[str, Tensor] = {}

    @property
    def is_over(self) -> bool:
        return self.patience > 0 and self.misses >= self.patience

    def look(self, loss: float, net: BayesianNet) -> None:
        """Take note of the loss of the weights at hand."""
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


def _optimizer(net: BayesianNet, config: Config) -> torch.optim.Optimizer:
    """Weight decay is for matrices and filters, not for biases, norms and dropout logits."""
    trained = [p for p in net.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if config.optimizer is Optimizer.ADAM:
        return torch.optim.AdamW(groups, lr=1e-3)
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)


def _class_weights(labels: Tensor, n_classes: int, config: Config) -> Tensor | None:
    """max(N) / N_j from the human labels, (K,), or None."""
    if config.class_weights is ClassWeighting.NONE:
        return None
    counts = torch.bincount(labels, minlength=n_classes).clamp(min=1).float()
    return counts.max() / counts
