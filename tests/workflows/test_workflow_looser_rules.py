"""Advice for a run that accepts nothing, on rounds whose held-out labels are known."""

from __future__ import annotations

from pathlib import Path

from certify_data import N, finish_round, label_rows, make_run

from surelabel.api import Run
from surelabel.messages.run import nothing_labeled_message, percent
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import JsonObject
from surelabel.workflows.looser_rules import looser_rules


def test_rules_that_would_label_something_are_told_with_their_estimated_error(
    tmp_path: Path,
) -> None:
    """Guesses with a score up to .8 are right: with 40 of them 2 % cannot be estimated."""
    folder = make_run(tmp_path, label_rows(range(0)), stop_below=N)
    finish_round(folder, threshold=-1.0, held=40)
    rules = looser_rules(folder)
    assert [rule.options for rule in rules] == ["--target-error 0.05", "--accept tukey"]
    assert all(0 < rule.n_labeled <= N for rule in rules)
    assert rules[0].estimated_error <= 0.05 < rules[1].estimated_error
    summary = Run(folder.path).summary
    assert (summary.n_labeled, summary.looser) == (0, rules)


def test_the_message_has_the_numbers(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)), stop_below=N)
    finish_round(folder, threshold=-1.0, held=40)
    last = folder.last_round()
    assert last is not None
    values: JsonObject = {**last.metrics, "target_error": 0.02, "lowest_error": 0.03}
    summary = Run(folder.path).summary
    object.__setattr__(summary, "rounds", (RoundMetrics.from_json(values),))
    message = nothing_labeled_message(summary)
    for rule in summary.looser:
        assert f"{rule.options} would label {rule.n_labeled:,} images" in message
        assert percent(rule.estimated_error) in message
    assert f"{summary.n_left:,} images" in message


def test_a_run_that_labeled_something_gets_no_such_advice(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)), stop_below=N)
    finish_round(folder, held=40)
    assert Run(folder.path).summary.looser == ()
    other = make_run(tmp_path / "other", label_rows(range(0)), accept="q2")
    finish_round(other, threshold=-1.0, held=40)
    assert looser_rules(other) == ()
