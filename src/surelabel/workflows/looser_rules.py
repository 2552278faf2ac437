"""What other rules of acceptance would label, where the run's own accepts nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE
from surelabel.selection.thresholds import (
    Rule,
    RuleKind,
    estimated_error,
    held_out_threshold,
    target_limit,
)

_TARGETS = (0.05, 0.1, 0.2)


@dataclass(frozen=True)
class LooserRule:
    """A rule that accepts more, and what held-out labels say about it."""

    options: str
    """As on the command line."""
    n_labeled: int
    """Images of the pool that it would label."""
    estimated_error: float
    """Share of wrong labels among them, counting one held-out label more as wrong."""


def looser_rules(folder: RunFolder) -> tuple[LooserRule, ...]:
    """The next target error that accepts something, and the Tukey fence; both by the last round.

    It is about runs that accept by ``target``; those of other rules get none.
    """
    last, config = folder.last_round(), folder.config
    if last is None or config.accept != RuleKind.TARGET:
        return ()
    pool, held = last.read_table(POOL_TABLE), last.read_table(HELD_OUT_TABLE)
    pool, known = (table[~table["outlier"].to_numpy(dtype=bool)] for table in (pool, held))
    scores, correct = known["score"].to_numpy(), known["correct"].to_numpy(dtype=bool)
    if not len(scores):
        return ()
    targets = [target for target in _TARGETS if target > config.target_error]
    limits = {
        f"--target-error {target:g}": target_limit(
            scores, correct, pool["score"].to_numpy(), target
        )
        for target in targets
    }
    limits["--accept tukey"] = held_out_threshold(
        Rule(RuleKind.TUKEY),
        held["score"].to_numpy(),
        held["correct"].to_numpy(dtype=bool),
    )
    found: list[LooserRule] = []
    for options, limit in limits.items():
        n_labeled = int((pool["score"].to_numpy() <= limit).sum())
        inside = scores <= limit
        n_wrong = int((~correct[inside]).sum())
        if n_labeled and (not found or options == "--accept tukey"):
            error = float(estimated_error(n_wrong, np.count_nonzero(inside)))
            found.append(LooserRule(options, n_labeled, error))
    return tuple(found)
