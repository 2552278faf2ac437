"""How new labels changed what a run accepts: more labels sometimes give less coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE, RoundFiles
from surelabel.selftraining.metrics import RoundMetrics


@dataclass(frozen=True)
class CoverageChange:
    """The accepted labels of the last round beside those before labels or images were added."""

    n_before: int
    n_now: int
    n_taken: int
    """Accepted before, and labeled by people since."""
    n_withdrawn: int
    """Accepted before, and no longer."""
    n_new: int
    """Accepted now, and not before."""
    is_stricter: bool
    """Whether the threshold is lower now."""
    wrong_before: tuple[int, int]
    """Wrong among accepted held-out guesses, and how many those were."""
    wrong_now: tuple[int, int]


def coverage_change(folder: RunFolder, rounds: Sequence[RoundMetrics]) -> CoverageChange | None:
    """The change since the last round that had other inputs; None if there was none."""
    if not rounds:
        return None
    earlier = [r for r in rounds if r.inputs != rounds[-1].inputs]
    if not earlier:
        return None
    files = {each.number: each for each in folder.finished_rounds()}
    before, now = earlier[-1], rounds[-1]
    accepted_before, _ = _accepted(files[before.number])
    accepted_now, pool = _accepted(files[now.number])
    lost = accepted_before - accepted_now
    return CoverageChange(
        n_before=len(accepted_before),
        n_now=len(accepted_now),
        n_taken=len(lost - pool),
        n_withdrawn=len(lost & pool),
        n_new=len(accepted_now - accepted_before),
        is_stricter=now.threshold < before.threshold,
        wrong_before=(before.held_out_accepted_errors, before.n_held_out_accepted),
        wrong_now=(now.held_out_accepted_errors, now.n_held_out_accepted),
    )


def _accepted(files: RoundFiles) -> tuple[set[str], set[str]]:
    """The ids that the round accepted, and all ids of its pool."""
    table = files.read_table(POOL_TABLE)
    return set(table.loc[table["accepted"], "id"]), set(table["id"])
