from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from surelabel.api import Run
from surelabel.config.choices import Net
from surelabel.selftraining.metrics import RoundMetrics
from surelabel_studies.mnist.cost import Cost
from surelabel_studies.mnist.results import RowResult
from surelabel_studies.mnist.rows import Figures
from surelabel_studies.mnist.split import StudySplit
from surelabel_studies.mnist.verdicts import Change, Verdict, change, claims, verdicts_page

ROUND = RoundMetrics(1, "", 1, 0, 1, 0, 1, 0, 0.0, 1, 0, 1, 0, ("a", "b"), seconds=2.0)


def result(model: str, wrong: int, left: int, *, macs: float = 1.0) -> RowResult:
    """A row of a pool of 10,000; the claims used here do not look into its run."""
    figures = Figures(0.0, 0.0, 0.0, left, 0.0, 3)
    run = cast(Run, Path(model))
    return RowResult(
        model, run, figures, 10_000, 10_000 - left, wrong, [ROUND], None, Cost(macs, 0.0), []
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((100, 10_000), (50, 10_000), Change.LOWER),
        ((50, 10_000), (100, 10_000), Change.HIGHER),
        ((50, 10_000), (55, 10_000), Change.SAME),
        ((0, 30), (1, 30), Change.SAME),
        ((0, 0), (9, 10), Change.SAME),
    ],
)
def test_a_difference_counts_beyond_its_interval(
    before: tuple[int, int], after: tuple[int, int], expected: Change
) -> None:
    assert change(before, after) is expected


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ((50, 500), Verdict.SHOWN),
        ((100, 500), Verdict.PARTLY),
        ((50, 1500), Verdict.MIXED),
        ((200, 500), Verdict.MIXED),
        ((101, 1001), Verdict.UNDECIDED),
        ((200, 1500), Verdict.CONTRADICTED),
    ],
)
def test_weights_help_when_errors_and_images_left_are_fewer(
    second: tuple[int, int], verdict: Verdict
) -> None:
    [claim] = claims([result("dbst-1", 100, 1000), result("dbst-2", *second)])
    assert claim.verdict is verdict
    assert f"{second[1]:,} images left unlabeled" in claim.evidence


def test_a_stricter_quartile_is_to_leave_more_and_err_less() -> None:
    rows = [result("dbst-2", 100, 1000), result("dbst-3", 20, 3000)]
    assert [c.verdict for c in claims(rows)] == [Verdict.SHOWN]
    rows = [result("dbst-2", 100, 1000), result("dbst-3", 20, 500)]
    assert [c.verdict for c in claims(rows)] == [Verdict.MIXED]


def test_the_penalty_is_judged_by_what_is_left_alone() -> None:
    rows = [result("dbst-3", 20, 3000), result("dbst-4", 500, 500)]
    assert [c.verdict for c in claims(rows)] == [Verdict.SHOWN]


def test_a_model_that_labeled_nothing_shows_nothing() -> None:
    [claim] = claims([result("dbst-3", 0, 10_000), result("dbst-4", 0, 10_000)])
    assert claim.verdict is Verdict.UNDECIDED
    assert "labeled nothing" in claim.evidence


def test_rows_that_had_not_learned_are_not_judged() -> None:
    strong, weak = result("dbst-1", 100, 1000), result("dbst-2", 50, 500)
    half = replace(ROUND, n_held_out=500, held_out_errors=258)
    [claim] = claims([strong, replace(weak, rounds=[half])])
    assert claim.verdict is Verdict.UNDECIDED
    assert "(DBST-2 51.6 %)" in claim.evidence
    assert "500 images left unlabeled" in claim.evidence


def test_claims_need_both_models() -> None:
    assert claims([result("dbst-1", 1, 1), result("dbst-3", 1, 1)]) == []


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (0.2, Verdict.SHOWN),
        (0.05, Verdict.PARTLY),
        (0.4, Verdict.PARTLY),
        (0.9, Verdict.UNDECIDED),
        (1.1, Verdict.CONTRADICTED),
    ],
)
def test_a_fifth_of_the_work_is_what_is_claimed(ratio: float, verdict: Verdict) -> None:
    rows = [result("dest", 10, 10, macs=100.0), result("dbst-2", 10, 10, macs=100.0 * ratio)]
    beats, cost = claims(rows)
    assert beats.verdict is Verdict.UNDECIDED
    assert cost.verdict is verdict
    assert f"{ratio:.2f} of it" in cost.evidence


@pytest.mark.parametrize(("attempt", "is_mentioned"), [(1, False), (2, True)])
def test_nets_that_diverged_are_mentioned(attempt: int, is_mentioned: bool) -> None:
    trained = replace(ROUND, learner={"members": [{"attempt": attempt}]})
    row = replace(result("dbst-1", 1, 1), rounds=[trained])
    split = cast(StudySplit, SimpleNamespace(n_pool=10, labels=[]))
    assert ("at a lower rate: DBST-1" in verdicts_page([row], split, Net.COMPACT)) is is_mentioned
