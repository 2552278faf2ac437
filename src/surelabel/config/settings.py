"""Every option once: default, range, help. The CLI, the TOML file and the docs derive from it.

Add an option here and it appears everywhere; nothing else lists options.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from surelabel.config.choices import (
    ClassWeighting,
    Dropout,
    Effort,
    Measure,
    Mode,
    Optimizer,
    Schedule,
    Tail,
    Weighting,
)
from surelabel.config.fields import Group, check, convert, nearest, option, read_toml, to_toml
from surelabel.errors import OptionError

_WITH_NOISE = (Measure.ALEATORIC_VARIANCE, Measure.TOTAL_VARIANCE)


@dataclass(frozen=True)
class Config:
    """All settings of a run. ``0`` means "chosen from the data" where the help says so."""

    seed: int = option(0, "One seed for everything random.", Group.COMMON, 0, 2**31 - 1)
    effort: Effort = option(
        Effort.NORMAL,
        "How much training the run may cost: 1, 2 or 4 nets, 1,500, 3,000 or 8,000 steps a round, "
        "half as many again while consistency has a pool without any label to learn from.",
        Group.COMMON,
    )
    max_rounds: int = option(2, "Rounds of self-training at most.", Group.COMMON, 1, 1000)
    accept: str = option(
        "tukey",
        "Which guesses become labels: tukey, q2, q3, quantile:Q, top:N, confidence:P.",
        Group.COMMON,
    )
    max_error: str = option(
        "",
        "Largest share of wrong labels: 0.02, CLASS=0.001, each=0.05; needs certify labels.",
        Group.COMMON,
    )
    confidence: float = option(
        0.95, "How sure the promised share of wrong labels has to be.", Group.COMMON, 0.5, 0.999999
    )
    flips: bool = option(
        False,
        "Mirror images left to right in training. For photographs, not for writing.",
        Group.COMMON,
    )

    tune_share: float = option(
        0.2, "Share of the labels held out to set thresholds.", Group.LABELS, 0.0, 0.9
    )
    labels_are_random: bool = option(
        False,
        "The labels are a uniform random sample of the images: a part of them may certify.",
        Group.LABELS,
    )
    certify_share: float = option(
        1 / 3, "Share of labels_are_random labels hidden to certify.", Group.LABELS, 0.0, 0.9
    )
    alpha_share: float = option(
        1.0,
        "Share of 1 - confidence that one look at the certify labels uses up.",
        Group.LABELS,
        0.01,
        1.0,
    )
    out_of_distribution: bool = option(
        True,
        "Leave images that look like none of the classes; without it there are no distances.",
        Group.LABELS,
    )
    image_size: int = option(
        0, "Side of the decoded images in pixels; 0: from the images.", Group.LABELS, 0, 2048
    )
    keep_aspect: bool = option(
        False, "Pad images to a square instead of squeezing them into it.", Group.LABELS
    )
    balance_rounds: int = option(
        0,
        "In this many first rounds no class gets more than its share of the accepted labels.",
        Group.LABELS,
        0,
        1000,
    )

    mode: Mode = option(
        Mode.RELABEL, "Label the whole pool anew each round, or keep accepted labels.", Group.LOOP
    )
    score: Measure = option(
        Measure.LEAST_CONFIDENCE, "The measure that ranks the pool.", Group.LOOP
    )
    weights: Weighting = option(
        Weighting.INVERSE_UNCERTAINTY, "How much a pseudo-label counts.", Group.LOOP
    )
    weight_measure: Measure = option(
        Measure.TOTAL_VARIANCE, "The uncertainty in the weights.", Group.LOOP
    )
    phi_gamma: float = option(
        0.5, "Slope of phi(round), which turns from trust to exploration.", Group.LOOP, 0.0, 100.0
    )
    phi_bias: float = option(-5.0, "Intercept of phi(round).", Group.LOOP, -100.0, 100.0)
    weight_cap: float = option(
        1.0, "No pseudo-label weighs more than this; 0: no cap.", Group.LOOP, 0.0, 1e6
    )
    human_share: float = option(
        0.25, "Human labels are at least this share of each batch.", Group.LOOP, 0.0, 1.0
    )
    left_share: float = option(
        0.6,
        "Images left without a label are at least this share of the pool's part of each batch, but "
        "at most four times their natural share. With consistency, and where human_share applies.",
        Group.LOOP,
        0.0,
        1.0,
    )
    consistency: float = option(
        1.0,
        "Weight of the agreement asked between plain and distorted pool images; 0: off. "
        "Not with pre-trained nets.",
        Group.LOOP,
        0.0,
        100.0,
    )
    consistency_threshold: float = option(
        0.95, "Confidence from which a pool image has to agree.", Group.LOOP, 0.0, 1.0
    )
    neighbor_vote: bool = option(
        True,
        "Let images that look alike have a say in each other's labels: a little, more or none as "
        "held-out labels tell. Not with pre-trained nets, kept labels, cross-fitting or a "
        "confidence rule.",
        Group.LOOP,
    )
    matrix_scaling: bool = option(
        True,
        "Let held-out labels correct which class is taken for which, where cross-validation shows "
        "a gain. With neighbor_vote.",
        Group.LOOP,
    )
    stop_below: int = option(
        -1,
        "Stop when fewer labels than this are new or changed; -1: batch size or 1 % of the pool.",
        Group.LOOP,
        -1,
        10**9,
    )
    stop_after_empty: int = option(
        3, "Stop after this many rounds in a row with no new label.", Group.LOOP, 1, 1000
    )

    net: str = option(
        "auto",
        "Which network learns: auto, compact, densenet; pre-trained: efficientnet-lite0, "
        "densenet121, densenet169, densenet201 or a name of timm.",
        Group.NETWORK,
    )
    net_weights: str = option(
        "", "File with the weights of a pre-trained net: .safetensors or .pth.", Group.NETWORK
    )
    tail: Tail = option(
        Tail.SMALL, "What is trained on the features of a pre-trained net.", Group.NETWORK
    )
    views: int = option(
        4,
        "Pre-trained nets: distorted views of each labeled image to learn from.",
        Group.NETWORK,
        0,
        100,
    )
    width: float = option(1.0, "Width of the compact net.", Group.NETWORK, 0.25, 8.0)
    warm_start: bool = option(
        True,
        "From round 2 on the compact net goes on from the weights of the round before, at .4 of "
        "the learning rate. Not with cross-fitting or when labels have changed.",
        Group.NETWORK,
    )
    earlier_nets: bool = option(
        True,
        "Let the nets of the round before vote too, or stay alone, as held-out labels tell.",
        Group.NETWORK,
    )
    members: int = option(
        0,
        "Nets whose outputs are averaged; 0: from the effort. With few labels 2 at least.",
        Group.NETWORK,
        0,
        50,
    )
    mc_samples: int = option(
        30, "Monte Carlo Dropout samples; 1: none, dropout is off.", Group.NETWORK, 1, 10_000
    )
    dropout: Dropout = option(
        Dropout.CONCRETE, "Learned or fixed dropout probabilities.", Group.NETWORK
    )
    dropout_p: float = option(
        0.2, "Dropout probability; where learned, the one at the start.", Group.NETWORK, 0.0, 0.9
    )
    concrete_temperature: float = option(
        2 / 3, "Temperature of the Concrete distribution.", Group.NETWORK, 0.01, 10.0
    )
    prior_length_scale: float = option(
        0.01, "Length scale l of the prior over weights.", Group.NETWORK, 0.0, 100.0
    )
    pseudo_label_evidence: float = option(
        0.05,
        "What an image without a human label counts as evidence about the weights; human: 1.",
        Group.NETWORK,
        0.0,
        1.0,
    )
    growth_start: int = option(12, "DenseNet: growth rate of round 1.", Group.NETWORK, 1, 256)
    growth_max: int = option(24, "DenseNet: largest growth rate.", Group.NETWORK, 1, 256)
    growth_nu: float = option(
        -1.0, "DenseNet: how fast it grows; -1: from the size of the data.", Group.NETWORK, -1, 256
    )
    growth_warm: bool = option(
        False, "DenseNet: grow the trained net instead of starting anew.", Group.NETWORK
    )

    steps: int = option(
        0, "Training steps a round and net; 0: from effort and data.", Group.TRAINING, 0, 10**8
    )
    epochs: int = option(
        0,
        "Instead of steps: as many steps as so many passes over the labels; 0: off.",
        Group.TRAINING,
        0,
        10**5,
    )
    batch_size: int = option(128, "Images in a training step.", Group.TRAINING, 2, 65_536)
    optimizer: Optimizer = option(Optimizer.SGD, "The optimizer.", Group.TRAINING)
    learning_rate: float = option(
        0.0,
        "Highest learning rate; 0: .1 for sgd, .01 on a pre-trained net, .001 for adam.",
        Group.TRAINING,
        0.0,
        10.0,
    )
    schedule: Schedule = option(Schedule.ONE_CYCLE, "How the learning rate moves.", Group.TRAINING)
    weight_decay: float = option(
        5e-4,
        "Decay of the weights; with adam decoupled from the gradient.",
        Group.TRAINING,
        0.0,
        1.0,
    )
    weight_average: float = option(
        0.999, "Decay of the averaged weights that are kept; 0: off.", Group.TRAINING, 0.0, 0.99999
    )
    entropy_penalty: float = option(
        0.0, "Beta: how much confident outputs are penalized.", Group.TRAINING, 0.0, 100.0
    )
    noise_samples: int = option(
        8, "Noise samples in the loss; 0: plain cross-entropy.", Group.TRAINING, 0, 1000
    )
    class_weights: ClassWeighting = option(
        ClassWeighting.NONE, "How much each class counts.", Group.TRAINING
    )
    augment: bool = option(True, "Distort training images at random.", Group.TRAINING)
    early_stop: int = option(
        0,
        "Stop a net after this many checks without a lower loss on tune labels; 0: off.",
        Group.TRAINING,
        0,
        1000,
    )

    threads: int = option(0, "CPU threads; 0: as OMP_NUM_THREADS, or all.", Group.MACHINE, 0, 1024)
    device: str = option("auto", "auto, cpu, cuda, cuda:N or mps.", Group.MACHINE)
    cache: str = option(
        "", "Folder for decoded images and features; empty: the user's cache folder.", Group.MACHINE
    )
    feature_cache: bool = option(
        True, "Keep what a pre-trained net says of the images on disk.", Group.MACHINE
    )

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            check(spec, getattr(self, spec.name))
        if self.growth_max < self.growth_start:
            raise OptionError(
                f"growth_max ({self.growth_max}) is below growth_start ({self.growth_start}): "
                "raise the one or lower the other."
            )
        if 0 < self.image_size < 8:
            raise OptionError(f"image_size is {self.image_size}; it can be 0 or from 8 up.")
        weighs = self.weights is not Weighting.NONE and self.weight_measure in _WITH_NOISE
        if not self.noise_samples and (weighs or self.score in _WITH_NOISE):
            raise OptionError(
                "With noise_samples 0 the noise variance is not learned, and score or weights rest "
                "on it: set score and weight_measure to predictive_entropy, or weights to none."
            )
        if self.steps and self.epochs:
            raise OptionError("Give steps or epochs, not both.")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str = "options") -> Config:
        """Build from plain values (strings for enums), naming what is unknown or wrong."""
        hints = get_type_hints(cls)
        known = {}
        for name, value in values.items():
            if name not in hints:
                raise OptionError(
                    f"{where}: there is no option '{name}'. {nearest(name, list(hints))}"
                )
            known[name] = convert(name, hints[name], value, where)
        return cls(**known)

    @classmethod
    def from_toml(cls, path: Path) -> Config:
        """Read ``path``; every key is an option of this class."""
        return cls.from_mapping(read_toml(path), where=str(path))

    def to_toml(self) -> str:
        """The settings as TOML text that ``from_toml`` reads back to an equal object."""
        lines = [f"{f.name} = {to_toml(getattr(self, f.name))}" for f in options()]
        return "\n".join(lines) + "\n"

    def replace(self, **changes: Any) -> Config:
        """A copy with some options changed."""
        return dataclasses.replace(self, **changes)


def options() -> tuple[dataclasses.Field[Any], ...]:
    """Every option in the order it is shown, with help, group and range in ``metadata``."""
    return dataclasses.fields(Config)
