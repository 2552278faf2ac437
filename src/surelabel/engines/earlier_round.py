"""What a round takes over from the one before: weights to start from, nets that vote, or all.

Held-out labels decide whether the nets of both rounds are averaged, or those of one alone; a round
that made things worse is rolled back to the nets before it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from surelabel.engines.ensemble import Ensemble, load_ensemble, load_member
from surelabel.engines.storage import (
    load_reference,
    reference_path,
    save_reference,
    weights_path,
)
from surelabel.errors import DivergedError
from surelabel.files.atomic import atomic_path, atomic_write_bytes
from surelabel.selection.calibration import is_clear_gain, losses_at_best_temperature
from surelabel.selftraining.round_inputs import Problem, RoundInputs
from surelabel.types import FloatArray, Prediction

_ROLLED_BACK = "rolled-back"
"""A file that marks a round as rolled back."""


class Voters(StrEnum):
    """Nets whose outputs are averaged."""

    BOTH = "both"
    """Nets of this round and of the one before."""
    NEW = "new"
    """Those of this round."""
    EARLIER = "earlier"
    """Those of the round before, in the place of the new ones."""


def combine_with_earlier(new: Ensemble, round_inputs: RoundInputs, work_folder: Path) -> Ensemble:
    """Add the nets of the round before, or go back to them, as held-out labels decide."""
    n, number, config = len(new.members), round_inputs.number, new.config
    copies = _copy_earlier(round_inputs.previous_round, work_folder, n)
    if not copies:
        return new
    earlier_members = tuple(
        load_member(path, number, k, config, new.images) for k, path in enumerate(copies, start=n)
    )
    both = replace(new, members=(*new.members, *earlier_members))
    earlier = replace(new, members=earlier_members)
    problem = round_inputs.problem
    voters = choose_voters(*(_held_out_losses(each, problem) for each in (both, new, earlier)))
    if (work_folder / _ROLLED_BACK).exists() or voters is Voters.EARLIER:
        return load_ensemble(_roll_back(copies, work_folder), number, config, new.images)
    if voters is Voters.NEW:
        for path in copies:
            path.unlink()
            reference_path(path).unlink(missing_ok=True)
        return new
    return both


def choose_voters(both: FloatArray, new: FloatArray, earlier: FloatArray) -> Voters:
    """Both, unless one of them alone is clearly better.

    The arguments are -ln p of the held-out labels, (N,) each. A few labels hardly tell, and a
    larger ensemble is less often sure and wrong.
    """
    if not len(both):
        return Voters.BOTH
    better, losses = Voters.NEW, new
    if earlier.mean() < new.mean():
        better, losses = Voters.EARLIER, earlier
    if not np.isfinite(both).all():
        return better
    return better if is_clear_gain(both - losses) else Voters.BOTH


def _held_out_losses(ensemble: Ensemble, problem: Problem) -> FloatArray:
    """(N,) losses of the held-out labels; infinite for nets that diverged."""
    try:
        return losses_of(ensemble.predict_held_out(problem), problem)
    except DivergedError:
        return np.full(len(problem.tune_ids), np.inf)


def losses_of(prediction: Prediction, problem: Problem) -> FloatArray:
    """(N,) -ln p of the held-out labels, at the best temperature from 1 up.

    A larger ensemble is less sure, which is no merit by itself.
    """
    known = dict(zip(problem.tune_ids.tolist(), problem.tune_labels.tolist(), strict=True))
    labels = np.array([known[i] for i in prediction.ids.tolist()], dtype=np.int64)
    return losses_at_best_temperature(prediction.probabilities, labels, coolest=1.0)


def _copy_earlier(previous_round: Path | None, work_folder: Path, n: int) -> list[Path]:
    """Copy the first ``n`` nets of the round before into this one, after its own ``n``."""
    if previous_round is None:
        return []
    sources = [weights_path(previous_round, k) for k in range(n)]
    if not all(path.exists() for path in sources):
        return []
    copies = [weights_path(work_folder, n + k) for k in range(n)]
    for source, copy in zip(sources, copies, strict=True):
        with atomic_path(copy) as temporary:
            shutil.copyfile(source, temporary)
        reference = load_reference(reference_path(source))
        if reference is not None:  # its outliers were those of another round
            save_reference(reference_path(copy), replace(reference, outliers=None))
    return copies


def _roll_back(copies: Sequence[Path], work_folder: Path) -> list[Path]:
    """Let the copied nets replace the round's own, which are lost; returns their files.

    The mark is written first: a second attempt after a kill must not decide with half of them.
    """
    atomic_write_bytes(work_folder / _ROLLED_BACK, b"")
    own = [weights_path(work_folder, k) for k in range(len(copies))]
    for copy, path in zip(copies, own, strict=True):
        if reference_path(copy).exists():
            reference_path(copy).replace(reference_path(path))
        copy.replace(path)
    return own
