"""A tiny problem for the tests of learning: which half of an 8 x 8 image is bright."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surelabel.config.choices import Dropout, Schedule, Weighting
from surelabel.config.settings import Config
from surelabel.models.bayesian import BayesianNet
from surelabel.models.nets import build_net
from surelabel.training.trainer import TrainingSet

SIDE = 8

#: Small, and without anything random but the order of the batches.
PLAIN = Config(
    width=0.25,
    batch_size=8,
    augment=False,
    dropout=Dropout.FIXED,
    dropout_p=0.0,
    noise_samples=0,
    weights=Weighting.NONE,
    weight_average=0.0,
    schedule=Schedule.CONSTANT,
    learning_rate=0.05,
    consistency=0.0,
)


def halves(labels: Sequence[int], seed: int = 0) -> Callable[[Tensor], Tensor]:
    """A source of noisy images whose left (0) or right (1) half is bright."""
    rng = torch.Generator().manual_seed(seed)
    n = len(labels)
    pixels = torch.randint(0, 100, (n, 1, SIDE, SIDE), generator=rng, dtype=torch.uint8)
    for image, label in zip(pixels, labels, strict=True):
        start = SIDE // 2 * label
        image[:, :, start : start + SIDE // 2] += 120
    return lambda rows: pixels[rows]


def training_set(
    human: Sequence[int],
    pseudo: Sequence[int] = (),
    tune: Sequence[int] = (),
    *,
    truth: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> TrainingSet:
    """Labels one after the other; the images show ``truth``, by default what the labels say."""
    labels = [*human, *pseudo, *tune]
    rows = torch.arange(len(labels))
    n, m = len(human), len(human) + len(pseudo)
    return TrainingSet(
        pixels=halves([max(label, 0) for label in labels] if truth is None else truth),
        human_rows=rows[:n],
        human_labels=torch.tensor(human, dtype=torch.int64),
        pseudo_rows=rows[n:m],
        pseudo_labels=torch.tensor(pseudo, dtype=torch.int64),
        pseudo_weights=torch.tensor([1.0] * len(pseudo) if weights is None else weights),
        tune_rows=rows[m:],
        tune_labels=torch.tensor(tune, dtype=torch.int64),
    )


def tiny_net(config: Config, seed: int = 0, n_classes: int = 2) -> BayesianNet:
    generator = torch.Generator().manual_seed(seed)
    net = build_net(config, size=SIDE, channels=1, n_classes=n_classes, k=0, generator=generator)
    net.pixel_mean, net.pixel_std = torch.tensor([110.0]), torch.tensor([65.0])
    return net


def last_layer(net: BayesianNet) -> nn.Linear:
    out = net.tail.out
    assert isinstance(out, nn.Linear)
    return out


def silence(net: BayesianNet) -> BayesianNet:
    """Make every output zero, so that all classes are equally likely for every image."""
    with torch.no_grad():
        last_layer(net).weight.zero_()
        last_layer(net).bias.zero_()
    return net


def weights_of(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


def same_weights(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether both are equal to the last bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@dataclass
class Snapshots:
    """Keeps what a trainer would save after each step."""

    at: dict[int, dict[str, Tensor]]

    def load(self) -> None:
        return None

    def due(self, step: int) -> bool:
        return True

    def save(self, step: int, packed: Mapping[str, Tensor]) -> None:
        self.at[step] = {name: value.clone() for name, value in packed.items()}
