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
    EngineName,
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

_DETAIL_BATCH = 32
"""A step on maps costs more than one on features; many small ones learn more in the same time."""


@dataclass(frozen=True)
class Config:
    """All settings of a run. ``0`` means "chosen from the data" where the help says so."""

    seed: int = option(0, "One seed for everything random.", Group.COMMON, 0, 2**31 - 1)
    effort: Effort = option(
        Effort.NORMAL,
        "How much training the run may cost: 1, 2 or 4 nets and 1,500, 3,000 or 8,000 steps per "
        "round.",
        Group.COMMON,
    )
    max_rounds: int = option(2, "Largest number of rounds of self-training.", Group.COMMON, 1, 1000)
    accept: str = option(
        "target",
        "Which guesses become labels: target (see target_error), tukey, q2, q3, quantile:Q, top:N, "
        "confidence:P.",
        Group.COMMON,
    )
    target_error: float = option(
        0.02,
        "Largest estimated share of wrong labels, with accept target. An estimate from held-out "
        "labels, no guarantee: that is max_error.",
        Group.COMMON,
        0.0001,
        0.5,
    )
    max_error: str = option(
        "",
        "Largest share of wrong labels in the finished dataset: 0.02; of the accepted ones: "
        "accepted=0.02, CLASS=0.001, each=0.05. Needs certify labels.",
        Group.COMMON,
    )
    confidence: float = option(
        0.95,
        "Confidence with which the share of wrong labels has to hold.",
        Group.COMMON,
        0.5,
        0.999999,
    )
    flips: bool = option(
        False,
        "Mirror training images left to right. For photographs, not for writing.",
        Group.COMMON,
    )

    tune_share: float = option(
        0.2,
        "Share of the labels held out to set thresholds. The tail linear holds none out: it "
        "predicts every label by a head that was trained without it.",
        Group.LABELS,
        0.0,
        0.9,
    )
    labels_are_random: bool = option(
        False,
        "The labels are a uniform random sample of the images, so some of them may certify.",
        Group.LABELS,
    )
    class_folders: bool = option(
        False,
        "Without labels: sub-folders are the classes. Not needed with a folder unlabeled beside "
        "them.",
        Group.LABELS,
    )
    merge_spellings: bool = option(
        False,
        "Take class names that differ only in case, spaces or hyphens as one class.",
        Group.LABELS,
    )
    certify_share: float = option(
        1 / 3, "Share of the labels that certify, with labels_are_random.", Group.LABELS, 0.0, 0.9
    )
    alpha_share: float = option(
        1.0,
        "Share of 1 - confidence that one certification uses up.",
        Group.LABELS,
        0.01,
        1.0,
    )
    out_of_distribution: bool = option(
        True,
        "Detect images that look like none of the classes, and leave them unlabeled.",
        Group.LABELS,
    )
    image_size: int = option(
        0, "Side of the decoded images in pixels; 0: chosen from the images.", Group.LABELS, 0, 2048
    )
    keep_aspect: bool = option(
        False, "Pad images to a square instead of squeezing them into it.", Group.LABELS
    )
    balance_rounds: int = option(
        0,
        "In the first N rounds, no class gets more than its share of the accepted labels.",
        Group.LABELS,
        0,
        1000,
    )

    mode: Mode = option(
        Mode.RELABEL,
        "Label the whole pool anew each round (relabel), or keep accepted labels (keep).",
        Group.LOOP,
    )
    score: Measure = option(
        Measure.LEAST_CONFIDENCE, "The measure that ranks the pool.", Group.LOOP
    )
    weights: Weighting = option(
        Weighting.INVERSE_UNCERTAINTY, "How much a pseudo-label counts in training.", Group.LOOP
    )
    weight_measure: Measure = option(
        Measure.TOTAL_VARIANCE, "The measure of uncertainty in these weights.", Group.LOOP
    )
    phi_gamma: float = option(
        0.5,
        "Slope of phi(round), which goes from +1 (trust the sure) to -1 (explore the unsure).",
        Group.LOOP,
        0.0,
        100.0,
    )
    phi_bias: float = option(-5.0, "Intercept of phi(round).", Group.LOOP, -100.0, 100.0)
    weight_cap: float = option(
        1.0, "Largest weight of a pseudo-label; 0: no limit.", Group.LOOP, 0.0, 1e6
    )
    human_share: float = option(
        0.25, "Smallest share of human labels in a batch.", Group.LOOP, 0.0, 1.0
    )
    left_share: float = option(
        0.6,
        "Smallest share of unlabeled images in the pool's part of a batch, up to four times "
        "their natural share. Applies with consistency and human_share.",
        Group.LOOP,
        0.0,
        1.0,
    )
    consistency: float = option(
        1.0,
        "Weight of the consistency loss between plain and distorted pool images; 0: off. "
        "Switched off with pre-trained nets.",
        Group.LOOP,
        0.0,
        100.0,
    )
    consistency_threshold: float = option(
        0.95,
        "Confidence from which on a pool image counts in the consistency loss.",
        Group.LOOP,
        0.0,
        1.0,
    )
    neighbor_vote: bool = option(
        True,
        "Let similar images vote on each other's labels, as much as held-out labels support. "
        "Switched off with mode keep and accept confidence:P, and without the tail linear on "
        "pre-trained nets and with cross-fitting.",
        Group.LOOP,
    )
    matrix_scaling: bool = option(
        True,
        "Rescale predictions by held-out labels (matrix scaling) where cross-validation shows a "
        "gain. Needs neighbor_vote.",
        Group.LOOP,
    )
    teacher_correction: bool = option(
        True,
        "From round 2 on, apply the adjustment of the round before to the teacher of the "
        "consistency loss. Needs neighbor_vote.",
        Group.LOOP,
    )
    stop_below: int = option(
        -1,
        "Stop when fewer labels than this are new or changed; -1: the batch size, or 1 % of a "
        "small pool.",
        Group.LOOP,
        -1,
        10**9,
    )
    stop_after_empty: int = option(
        3, "Stop after this many rounds in a row without a new label.", Group.LOOP, 1, 1000
    )

    net: str = option(
        "auto",
        "The network: auto, compact, densenet; pre-trained: lite0, lite2, inception-v3, "
        "densenet121, densenet169, densenet201, dinov2-small, dinov2-base, dinov3-small, "
        "siglip-base, convnext-tiny or any model name of timm; MODULE:CLASS for a net of your own; "
        "several joined by +, such as lite0+lite2.",
        Group.NETWORK,
    )
    net_weights: str = option(
        "", "File with the weights of a pre-trained net: .safetensors or .pth.", Group.NETWORK
    )
    tail: Tail = option(Tail.LINEAR, "What is trained on top of a pre-trained net.", Group.NETWORK)
    start_from: str = option(
        "",
        "With the tail detail: folder of a finished run on other images with the same net and "
        "tail. Training starts from its layers.",
        Group.NETWORK,
    )
    views: int = option(
        4,
        "With pre-trained nets: distorted views per labeled image.",
        Group.NETWORK,
        0,
        100,
    )
    width: float = option(1.0, "Width of the compact net.", Group.NETWORK, 0.25, 8.0)
    warm_start: bool = option(
        True,
        "From round 2 on, start the compact net from the weights of the round before, at .4 of "
        "the learning rate. Not with cross-fitting or when labels have changed.",
        Group.NETWORK,
    )
    roll_back: bool = option(
        True,
        "Go back to the nets of the round before where held-out labels clearly favor them.",
        Group.NETWORK,
    )
    members: int = option(
        0,
        "Nets in the ensemble; 0: by effort. At least 2 where labels are few.",
        Group.NETWORK,
        0,
        50,
    )
    mc_samples: int = option(
        30, "Monte Carlo Dropout samples; 1: no dropout at prediction.", Group.NETWORK, 1, 10_000
    )
    dropout: Dropout = option(
        Dropout.CONCRETE, "Learned (concrete) or fixed dropout probabilities.", Group.NETWORK
    )
    dropout_p: float = option(
        0.2, "Dropout probability; the starting value where it is learned.", Group.NETWORK, 0.0, 0.9
    )
    concrete_temperature: float = option(
        2 / 3, "Temperature of the Concrete distribution.", Group.NETWORK, 0.01, 10.0
    )
    prior_length_scale: float = option(
        0.01, "Length scale l of the prior over weights.", Group.NETWORK, 0.0, 100.0
    )
    pseudo_label_evidence: float = option(
        0.05,
        "How much an image without a human label counts in the N of the KL term; human: 1.",
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
        False, "DenseNet: grow the trained net instead of starting from new weights.", Group.NETWORK
    )

    steps: int = option(
        0,
        "Training steps per net and round; 0: by effort and size of the data.",
        Group.TRAINING,
        0,
        10**8,
    )
    first_round_factor: float = option(
        1.5,
        "Factor on the steps while no pool image has a label, with consistency.",
        Group.TRAINING,
        0.1,
        10.0,
    )
    epochs: int = option(
        0,
        "Passes over the labeled images, instead of steps; 0: off.",
        Group.TRAINING,
        0,
        10**5,
    )
    batch_size: int = option(
        128, "Images per training step; at most 32 with the tail detail.", Group.TRAINING, 2, 65_536
    )
    optimizer: Optimizer = option(Optimizer.SGD, "The optimizer.", Group.TRAINING)
    learning_rate: float = option(
        0.0,
        "Peak learning rate; 0: .1 for sgd, .01 on a pre-trained net (.05 with the tail detail), "
        ".001 for adam.",
        Group.TRAINING,
        0.0,
        10.0,
    )
    schedule: Schedule = option(
        Schedule.ONE_CYCLE, "Schedule of the learning rate.", Group.TRAINING
    )
    weight_decay: float = option(
        5e-4,
        "Weight decay; decoupled from the gradient with adam.",
        Group.TRAINING,
        0.0,
        1.0,
    )
    weight_average: float = option(
        0.999,
        "Decay of the exponential moving average of the weights; 0: off.",
        Group.TRAINING,
        0.0,
        0.99999,
    )
    entropy_penalty: float = option(
        0.0,
        "Beta, the weight of the entropy penalty on confident outputs.",
        Group.TRAINING,
        0.0,
        100.0,
    )
    noise_samples: int = option(
        8,
        "Samples of the aleatoric noise in the loss; 0: plain cross-entropy.",
        Group.TRAINING,
        0,
        1000,
    )
    class_weights: ClassWeighting = option(
        ClassWeighting.NONE, "How much each class counts in the loss.", Group.TRAINING
    )
    augment: bool = option(
        True, "Distort training images at random (augmentation).", Group.TRAINING
    )
    early_stop: int = option(
        0,
        "Stop training after this many checks without a lower loss on tune labels; 0: off.",
        Group.TRAINING,
        0,
        1000,
    )

    threads: int = option(
        0, "CPU threads; 0: OMP_NUM_THREADS, or all cores.", Group.MACHINE, 0, 1024
    )
    engine: EngineName = option(
        EngineName.LOCAL,
        "Where images are decoded, features computed, nets trained and images scored: local (this "
        "process) or ray (extra ray).",
        Group.MACHINE,
    )
    ray_address: str = option(
        "",
        "Address of a Ray cluster to join; empty: one is started on this machine, for the run.",
        Group.MACHINE,
    )
    ray_workers: int = option(
        0, "Workers of the engine ray; 0: one per core of the cluster.", Group.MACHINE, 0, 10_000
    )
    ray_dashboard: bool = option(
        False, "Start Ray's dashboard beside a cluster of the run's own.", Group.MACHINE
    )
    device: str = option("auto", "auto, cpu, cuda, cuda:N or mps.", Group.MACHINE)
    cache: str = option(
        "", "Folder for decoded images and features; empty: the user's cache folder.", Group.MACHINE
    )
    feature_cache: bool = option(
        True, "Keep the features of a pre-trained net on disk.", Group.MACHINE
    )

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            check(spec, getattr(self, spec.name))
        if self.growth_max < self.growth_start:
            raise OptionError(
                f"growth_max ({self.growth_max}) is below growth_start ({self.growth_start}): "
                "raise one or lower the other."
            )
        if 0 < self.image_size < 8:
            raise OptionError(f"image_size is {self.image_size}; it can be 0 or from 8 up.")
        weighs = self.weights is not Weighting.NONE and self.weight_measure in _WITH_NOISE
        if not self.noise_samples and (weighs or self.score in _WITH_NOISE):
            raise OptionError(
                "With noise_samples 0 the aleatoric variance is not learned, but score or weights "
                "use it: set score and weight_measure to predictive_entropy, or weights to none."
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

    def in_effect(self, *, pretrained: bool) -> Config:
        """The settings as a run uses and records them: what cannot apply is switched off.

        A head on the cached features of a pre-trained net has no pixels to distort or compare;
        a linear one is cross-fitted, and its neighbors are found by features. A vote needs labels
        that may change, and a rule on plain probabilities means those of the nets.
        """
        changes: dict[str, Any] = {}
        is_linear = pretrained and self.tail is Tail.LINEAR
        if pretrained:
            can_distort = self.tail is Tail.DETAIL or (self.views > 0 and not is_linear)
            distorts = self.augment and can_distort
            changes |= {"consistency": 0.0, "augment": distorts, "warm_start": False}
        if is_linear:
            changes |= {"tune_share": 0.0}
        if pretrained and self.tail is Tail.DETAIL:
            changes |= {"batch_size": min(self.batch_size, _DETAIL_BATCH)}
        by_confidence = self.accept.strip().lower().startswith("confidence")
        is_fixed = by_confidence or self.mode is Mode.KEEP
        if is_fixed or (pretrained and not is_linear):
            changes |= {"neighbor_vote": False}
        if is_fixed or pretrained:
            changes |= {"matrix_scaling": False, "teacher_correction": False}
        return self.replace(**changes)

    def replace(self, **changes: Any) -> Config:
        """A copy with some options changed."""
        return dataclasses.replace(self, **changes)


def options() -> tuple[dataclasses.Field[Any], ...]:
    """Every option in the order it is shown, with help, group and range in ``metadata``."""
    return dataclasses.fields(Config)
