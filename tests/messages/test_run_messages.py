"""Sentences about a run, from counts that are known."""

from __future__ import annotations

from typing import Any

from surelabel.messages.run import unguessed_sentence
from surelabel.runs.summary import Summary
from surelabel.selftraining.metrics import RoundMetrics


def summary_of(counts: dict[str, tuple[int, int, int]], n_rounds: int = 1) -> Summary:
    numbers = ("n_human", "n_pseudo", "n_pool", "n_accepted", "n_left", "n_changed", "n_held_out")
    errors = ("held_out_errors", "n_held_out_accepted", "held_out_accepted_errors")
    zeros: dict[str, Any] = dict.fromkeys((*numbers, *errors), 0)
    metrics = RoundMetrics(
        number=1,
        inputs="",
        threshold=0.5,
        classes=tuple(counts),
        **zeros,
    )
    kinds = ("human", "labeled", "left")
    return Summary(
        path="run",
        n_images=17,
        n_human=8,
        n_copied=0,
        n_labeled=5,
        n_left=4,
        n_skipped=0,
        n_near_copies=0,
        classes=tuple(counts),
        rounds=(metrics,) * n_rounds,
        stop_reason=None,
        counts={name: dict(zip(kinds, found, strict=True)) for name, found in counts.items()},
        cross_fit=False,
    )


def test_a_class_that_is_never_guessed_is_named() -> None:
    said = unguessed_sentence(summary_of({"ant": (6, 5, 4), "bee": (2, 0, 0), "cow": (0, 0, 0)}))
    assert "of the class 'bee' (2 labels)." in said
    assert unguessed_sentence(summary_of({"ant": (6, 5, 3), "bee": (2, 0, 1)})) == ""
    assert unguessed_sentence(summary_of({"ant": (8, 0, 0), "bee": (2, 0, 0)}, n_rounds=0)) == ""
