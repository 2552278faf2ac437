"""How many answers a finished dataset still takes, on rounds whose guesses are known."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from certify_data import N, finish_round, label_rows, make_run
from typer.testing import CliRunner

from surelabel.api import Run
from surelabel.cli.main import build_app
from surelabel.messages.guarantees import (
    effort_footnote,
    effort_line,
    effort_rows,
    effort_sentence,
)
from surelabel.runs.answers import Answer, AnswerKind
from surelabel.runs.folder import RunFolder
from surelabel.workflows.certify import certify_run
from surelabel.workflows.effort import effort_of, seconds_per_answer
from surelabel.workflows.problem import problem_of


def answers_at(*seconds: float, reviewer: str = "ann") -> list[Answer]:
    start = pd.Timestamp("2026-01-05T09:00:00+00:00")
    times = [(start + pd.Timedelta(seconds=s)).isoformat() for s in seconds]
    return [
        Answer(i, f"{i:016x}", AnswerKind.LABEL, "ant", reviewer, at) for i, at in enumerate(times)
    ]


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> RunFolder:
    folder = make_run(tmp_path, label_rows(range(0)), max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(320, N)), held=300)
    return folder


def test_the_pace_is_measured_without_breaks_and_by_reviewer() -> None:
    steady = answers_at(*(3.0 * i for i in range(12)), 4000.0)
    other = answers_at(*(1.0 + 3.0 * i for i in range(12)), reviewer="bob")
    assert seconds_per_answer(steady) == pytest.approx(3.0)
    assert seconds_per_answer(steady + other) == pytest.approx(3.0)
    assert seconds_per_answer(steady[:5]) is None


def test_certifying_takes_fewer_answers_than_labeling_everything(folder: RunFolder) -> None:
    effort = effort_of(folder, 6.0)
    assert (effort.n_answered, effort.max_error, effort.is_measured) == (8, 0.05, False)
    (certify,) = [plan for plan in effort.plans if plan.name.startswith("certify")]
    (by_hand,) = [plan for plan in effort.plans if "by hand" in plan.name]
    assert certify.n_answers < by_hand.n_answers == N - 8
    counts = [plan.n_answers for plan in effort.plans]
    assert counts == sorted(counts)
    assert all(plan.n_answers <= plan.most for plan in effort.plans)
    assert effort.minutes(100) == pytest.approx(10.0)


def test_the_messages_name_the_numbers_and_the_command(folder: RunFolder) -> None:
    effort = Run(folder.path).effort()
    assert "8 images" in effort_sentence(effort)
    assert f"{effort.plans[0].n_answers:,}" in effort_rows(effort)[0][1]
    assert "--certify auto" in effort_footnote(effort, str(folder.path))
    line = effort_line(effort)
    assert f"{effort.plans[0].n_answers:,} more answers" in line
    assert f"by hand: {N - 8:,}" in line


def test_show_names_the_way_with_the_fewest_answers(folder: RunFolder) -> None:
    runner = CliRunner()
    best = effort_of(folder, 5.0).plans[0]
    shown = runner.invoke(build_app(), ["show", str(folder.path)])
    assert f"{best.n_answers:,} more answers" in " ".join(shown.output.split())
    plain = json.loads(runner.invoke(build_app(), ["show", str(folder.path), "--json"]).stdout)
    assert plain["effort"]["plans"][0]["n_answers"] == best.n_answers


def test_without_a_round_everything_is_labeled_by_hand(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)))
    (plan,) = effort_of(folder, 5.0).plans
    assert plan.n_answers == N - 8


def test_where_much_would_be_left_some_of_it_is_labeled_and_learned_from_first(
    tmp_path: Path,
) -> None:
    folder = make_run(tmp_path, label_rows(range(0)), max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(320, N)), held=300)
    much, now = sorted(effort_of(folder, 5.0).plans[:2], key=lambda plan: not plan.is_guess)
    assert (much.is_guess, now.is_guess) == (True, False)
    left = now.n_answers - now.n_certify
    assert f"label the {left // 2:,} least sure" in much.name
    assert left // 2 + much.n_certify <= much.n_answers < N - 8
    sure = make_run(tmp_path / "sure", label_rows(range(0)), max_error="0.3", stop_below=N)
    finish_round(sure, held=300)
    assert not any(plan.is_guess for plan in effort_of(sure, 5.0).plans)


def test_what_is_promised_already_needs_no_forecast(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(9, N, 3)), max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(330, N)), threshold=0.2, held=150)
    certify_run(folder, problem_of(folder).pool_ids)
    summary = Run(folder.path).summary
    finish, by_hand = effort_of(folder, 5.0).plans
    assert (finish.n_answers, finish.is_promised) == (summary.n_left, True)
    assert by_hand.n_answers == summary.n_left + summary.n_labeled
