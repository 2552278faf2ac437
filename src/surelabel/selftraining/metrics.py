"""What is known about a finished round."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surelabel.selection.thresholds import estimated_error


@dataclass(frozen=True)
class RoundMetrics:
    """The figures of one round, as kept in its ``metrics.json``."""

    number: int
    inputs: str
    """Digest of images and human labels; the stop rules look at rounds with equal inputs."""
    n_human: int
    n_pseudo: int
    """Pseudo-labels that this round was trained on."""
    n_pool: int
    n_accepted: int
    n_left: int
    n_changed: int
    """Labels to train on that are new or different since the round before."""
    threshold: float
    """Guesses with a score up to it were accepted; -inf: none could be."""
    n_held_out: int
    held_out_errors: int
    """Wrong guesses among all held-out labels."""
    n_held_out_accepted: int
    held_out_accepted_errors: int
    """Wrong guesses among the held-out labels that would have been accepted."""
    classes: tuple[str, ...]
    target_error: float | None = None
    """The estimated error that the rule ``target`` aimed at; None: another rule."""
    lowest_error: float | None = None
    """The lowest estimated error of any threshold; None without held-out labels."""
    answers_upto: int = 0
    """The last human answer this round knew of."""
    outlier_threshold: float | None = None
    """Images farther than this from every class were not accepted; None: no threshold."""
    n_outliers: int = 0
    """Pool images above it."""
    has_outliers: bool = False
    """Whether they are too many to be just the least typical images of the classes."""
    neighbor_vote: float = 0.0
    """The power of the neighbor vote; 0 for none."""
    matrix_scaled: bool = False
    """Whether predictions were rescaled by matrix scaling."""
    temperature: float = 1.0
    """For displayed probabilities."""
    calibration_error: tuple[float, float] | None = None
    """Expected calibration error on held-out labels, before and after the temperature."""
    cross_fit: bool = False
    """Whether held-out labels were trained on too, each predicted by nets that left it out."""
    seconds: float = 0.0
    learner: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the nets: steps, images seen, dropout probabilities, digests."""

    @property
    def held_out_error(self) -> float:
        """Share of wrong guesses among held-out labels; nan without any."""
        return self.held_out_errors / self.n_held_out if self.n_held_out else float("nan")

    @property
    def held_out_accepted_error(self) -> float:
        """The same among those that would have been accepted."""
        n = self.n_held_out_accepted
        return self.held_out_accepted_errors / n if n else float("nan")

    @property
    def estimated_error(self) -> float:
        """The careful estimate of the same by which the rule ``target`` accepts."""
        return float(estimated_error(self.held_out_accepted_errors, self.n_held_out_accepted))

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``metrics.json``; JSON knows no infinity, so it becomes None."""
        finite = math.isfinite(self.threshold)
        return {**dataclasses.asdict(self), "threshold": self.threshold if finite else None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RoundMetrics:
        """The reverse of ``to_json``; keys of later versions are passed over."""
        known = {f.name for f in dataclasses.fields(cls)}
        kept = {k: v for k, v in values.items() if k in known}
        if kept["threshold"] is None:
            kept["threshold"] = -math.inf
        if kept.get("calibration_error"):
            kept["calibration_error"] = tuple(kept["calibration_error"])
        return cls(**{**kept, "classes": tuple(kept["classes"])})
