"""Types that every package shares. Needs NumPy only; imports nothing else of surelabel."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
#: Item ids, as an array of strings (dtype ``<U..``). Items travel by id, never by position.
Ids: TypeAlias = npt.NDArray[np.str_]
#: A JSON object as ``json.loads`` returns it, or as ``json.dumps`` takes it.
JsonObject: TypeAlias = dict[str, Any]

#: No label, in every integer label array.
UNLABELED = -1
#: A person's label: the image belongs to none of the classes. Only in a catalog.
NONE_OF_THESE = -2
#: What people write in a label table for such an image.
NONE_TEXT = "none of these"


class LabelSource(StrEnum):
    """Where a label comes from. Only ``PSEUDO`` may be changed by the machine."""

    GIVEN = "given"
    """A person's label that came with the data or was added later."""
    REVIEWED = "reviewed"
    """A person's answer on this run's review page."""
    COPIED = "copied"
    """A person's label of an image with exactly the same bytes."""
    PSEUDO = "pseudo"
    """The model's own label, accepted because its score was below the threshold."""
    NONE = ""
    """No label."""


class Split(StrEnum):
    """What a labeled image is used for; unlabeled images are the ``POOL``."""

    TRAIN = "train"
    """Trained on."""
    TUNE = "tune"
    """Held out: thresholds, early stop, choice of settings."""
    CERTIFY = "certify"
    """Held out of every decision; read once, at the end."""
    POOL = "pool"
    """No human label: the run labels it."""


class StopReason(StrEnum):
    """Why self-training ended."""

    POOL_EMPTY = "pool_empty"
    """Every image has a label, and the last round changed none of them."""
    FEW_CHANGES = "few_changes"
    """Fewer labels were newly accepted or changed than the stop rule asks for."""
    NONE_ACCEPTED = "none_accepted"
    """Several rounds in a row accepted nothing new."""
    ROUND_LIMIT = "round_limit"
    """The requested number of rounds is done."""


@dataclass(frozen=True)
class Prediction:
    """Predictions of T sampled networks for N items and K classes, reduced over T.

    The samples themselves are never kept, so memory is O(N K). With T = 1, or a deterministic
    net, ``expected_entropy`` equals the entropy of ``probabilities`` and the variance is 0.
    """

    ids: Ids
    probabilities: FloatArray
    """(N, K) mean over samples of the softmax output, E[p]."""
    expected_entropy: FloatArray
    """(N,) mean over samples of the entropy, E H[p], in nats."""
    expected_square: FloatArray
    """(N,) mean over samples of the squared norm, E[sum_k p_k^2]."""
    aleatoric_variance: FloatArray
    """(N,) mean over samples of the predicted noise variance, E[exp(s)]."""
    distance: FloatArray | None = None
    """(N,) distance of the latent vector to the nearest class, mean over nets; None if unknown."""

    def __post_init__(self) -> None:
        n = len(self.ids)
        shapes = {len(self.probabilities), len(self.expected_entropy)}
        shapes |= {len(self.expected_square), len(self.aleatoric_variance)}
        shapes |= set() if self.distance is None else {len(self.distance)}
        if shapes != {n}:
            raise ValueError(f"a prediction of {n} items has fields of lengths {sorted(shapes)}")
        if not np.isfinite(self.probabilities).all():
            raise ValueError("a prediction has probabilities that are not finite")

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, rows: slice) -> Prediction:
        """The same for some of the items."""
        distance = None if self.distance is None else self.distance[rows]
        return Prediction(
            self.ids[rows],
            self.probabilities[rows],
            self.expected_entropy[rows],
            self.expected_square[rows],
            self.aleatoric_variance[rows],
            distance,
        )

    @property
    def guess(self) -> IntArray:
        """(N,) class of the highest mean probability."""
        top: IntArray = self.probabilities.argmax(axis=1).astype(np.int64)
        return top

    @property
    def probability(self) -> FloatArray:
        """(N,) the highest mean probability itself."""
        top: FloatArray = self.probabilities.max(axis=1)
        return top


@dataclass(frozen=True)
class Progress:
    """Progress of a long step: ``done`` of ``total`` units; ``what`` names the step."""

    what: str
    done: int
    total: int


#: Called with each ``Progress``; must be cheap and must not raise.
OnProgress: TypeAlias = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
    """Ignore progress."""


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed for one purpose, named by ``names``, such as (round, "masks").

    All randomness comes from one seed through this function. Equal names give equal streams,
    different names give unrelated ones, and no stream depends on what was drawn before.
    """
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
