"""The verdict of the MNIST study on each claim of the paper, computed from its results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from surelabel.config.choices import Net
from surelabel.messages.run import percent
from surelabel.runs.rounds import HELD_OUT_TABLE, RoundFiles
from surelabel_studies.mnist.cost import paper_cost
from surelabel_studies.mnist.results import RowResult
from surelabel_studies.mnist.rows import row_named
from surelabel_studies.mnist.split import StudySplit
from surelabel_studies.mnist.tables import title_of

_ABOUT_A_FIFTH = (0.14, 0.28)
"""Ratios of cost that count as about a fifth. Cost is counted in work, not in seconds."""
_CLEARLY_CHEAPER = 0.5
"""Ratios of cost up to this one count as clearly cheaper, if not as a fifth."""
_MAX_FIRST_ERROR = 0.2
"""A row is not judged if round 1 gets a larger share of the held-out labels wrong."""


class Verdict(StrEnum):
    """Whether the results support a claim."""

    SHOWN = "Seen here too"
    PARTLY = "Partly seen here"
    MIXED = "Both ways here"
    UNDECIDED = "Not shown here"
    CONTRADICTED = "Contradicted here"


class Change(StrEnum):
    """How a share moved from one run to another."""

    LOWER = "lower"
    SAME = "within noise"
    HIGHER = "higher"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the verdict on it, and the evidence."""

    text: str
    verdict: Verdict
    evidence: str
    is_of_cost: bool = False


def change(before: tuple[int, int], after: tuple[int, int]) -> Change:
    """Whether a share (count, n) changed: whether the 95 % interval of the difference excludes 0.

    The interval is that of Agresti and Caffo, which adds one success and one failure to each
    sample, so that zero errors do not count as certainty.
    """
    if not before[1] or not after[1]:
        return Change.SAME
    n1, n2 = before[1] + 2, after[1] + 2
    p1, p2 = (before[0] + 1) / n1, (after[0] + 1) / n2
    half_width = 1.96 * math.sqrt(p1 * (1 - p1) / n1 + p2 * (1 - p2) / n2)
    if abs(p2 - p1) <= half_width:
        return Change.SAME
    return Change.LOWER if p2 < p1 else Change.HIGHER


def claims(results: Sequence[RowResult]) -> list[Claim]:
    """The claims that the results of these models can decide."""
    by = {result.model: result for result in results}
    checks = (
        (("dbst-1", "dbst-2"), _weights),
        (("dbst-2", "dbst-3"), _stricter),
        (("dbst-3", "dbst-4"), _penalty),
        (("dest", "dbst-2"), _ensemble),
        (("dest", "dbst-2"), _time),
        (("dst", "dbst-2"), _overconfident),
    )
    return [
        _if_trained(check(by[a], by[b]), by[a], by[b])
        for (a, b), check in checks
        if a in by and b in by
    ]


def _if_trained(claim: Claim, *rows: RowResult) -> Claim:
    """``claim``, left undecided if the nets of a row had not learned the labels."""
    weak = [
        f"{title_of(row.model)} {percent(_first_error(row))}"
        for row in rows
        if _first_error(row) > _MAX_FIRST_ERROR
    ]
    if not weak or claim.is_of_cost:
        return claim
    reason = f"Too many held-out labels are wrong in round 1 to judge this ({', '.join(weak)})."
    return Claim(claim.text, Verdict.UNDECIDED, f"{reason} {claim.evidence}")


def _first_error(row: RowResult) -> float:
    first = row.rounds[0]
    return first.held_out_errors / first.n_held_out if first.n_held_out else 0.0


def verdicts_page(results: Sequence[RowResult], split: StudySplit, net: Net) -> str:
    """The claims with their verdicts, and the limits of the study, as Markdown."""
    lines = [f"- **{c.verdict}**: {c.text} {c.evidence}" for c in claims(results)]
    if not lines:
        lines = ["The models of this study are not enough to judge the paper's claims."]
    limits = [
        f"One run per model on one split: {split.n_pool:,} images in the pool, "
        f"{len(split.labels):,} labels, the {net} net.",
        "A difference counts if its 95 % interval, for two independent samples of images, excludes "
        "0; the interval does not include what another seed would change.",
    ]
    diverged = [r for r in results if _diverged(r)]
    if diverged:
        names = ", ".join(title_of(r.model) for r in diverged)
        limits.append(f"With nets that diverged and were trained again at a lower rate: {names}.")
    stopped = [r for r in results if str(r.stop_reason) == "round_limit"]
    if stopped:
        names = ", ".join(title_of(r.model) for r in stopped)
        limits.append(f"Ended by the limit on rounds, not by the paper's stop rule: {names}.")
    return "\n".join([*lines, "", " ".join(limits)]) + "\n"


def _diverged(result: RowResult) -> bool:
    return any(net["attempt"] > 1 for done in result.rounds for net in done.learner["members"])


def _wrong(result: RowResult) -> tuple[int, int]:
    return result.n_wrong, result.n_labeled


def _left(result: RowResult) -> tuple[int, int]:
    return result.figures.left, result.n_pool


def _numbers(result: RowResult) -> str:
    if not result.n_labeled:
        return f"{title_of(result.model)} labeled nothing"
    return (
        f"{title_of(result.model)}: {percent(result.error)} of {result.n_labeled:,} labels "
        f"wrong, {result.figures.left:,} images left unlabeled"
    )


def _judge(expected: Mapping[str, tuple[Change, Change]]) -> Verdict:
    """The verdict from (expected, observed) of each part of a claim."""
    hits = [target is seen for target, seen in expected.values()]
    against = [seen is not Change.SAME and target is not seen for target, seen in expected.values()]
    if all(hits):
        return Verdict.SHOWN
    if any(against):
        return Verdict.MIXED if any(hits) else Verdict.CONTRADICTED
    return Verdict.PARTLY if any(hits) else Verdict.UNDECIDED


def _compare(
    text: str, a: RowResult, b: RowResult, error: Change | None, left: Change | None
) -> Claim:
    parts = {}
    if error is not None:
        parts["errors"] = (error, change(_wrong(a), _wrong(b)))
    if left is not None:
        parts["images left unlabeled"] = (left, change(_left(a), _left(b)))
    changes = ", ".join(f"{name} {now}" for name, (_, now) in parts.items())
    return Claim(text, _judge(parts), f"{_numbers(a)}; {_numbers(b)} ({changes}).")


def _weights(a: RowResult, b: RowResult) -> Claim:
    text = "inverse uncertainty weights leave fewer images unlabeled and make fewer errors."
    return _compare(text, a, b, Change.LOWER, Change.LOWER)


def _stricter(a: RowResult, b: RowResult) -> Claim:
    text = "a stricter quartile trades coverage for kappa."
    return _compare(text, a, b, Change.LOWER, Change.HIGHER)


def _penalty(a: RowResult, b: RowResult) -> Claim:
    text = "the entropy penalty leaves fewer images unlabeled."
    return _compare(text, a, b, None, Change.LOWER)


def _ensemble(a: RowResult, b: RowResult) -> Claim:
    text = "the Bayesian net beats the ensemble of five."
    return _compare(text, a, b, Change.LOWER, Change.LOWER)


def _time(a: RowResult, b: RowResult) -> Claim:
    text = "the Bayesian net costs about a fifth of the ensemble's time."
    work = b.cost.total / a.cost.total
    per_round = work * len(a.rounds) / len(b.rounds)
    paper = [paper_cost(row_named(row.model)).total for row in (a, b)]
    evidence = (
        f"In multiply-accumulates it is {work:.2f} of it, {per_round:.2f} per round, with a "
        "training step counted as three forward passes; the paper's own schedule gives "
        f"{paper[1] / paper[0]:.2f}."
    )
    return Claim(text, _about_a_fifth(work), evidence, is_of_cost=True)


def _about_a_fifth(ratio: float) -> Verdict:
    if ratio >= 1:
        return Verdict.CONTRADICTED
    if ratio > _CLEARLY_CHEAPER:
        return Verdict.UNDECIDED
    return Verdict.SHOWN if _ABOUT_A_FIFTH[0] <= ratio <= _ABOUT_A_FIFTH[1] else Verdict.PARTLY


def _overconfident(a: RowResult, b: RowResult) -> Claim:
    text = "plain confidence is overconfident: it accepts wrong labels early and keeps them."
    claim = _compare(text, a, b, Change.LOWER, None)
    first = [f"{title_of(r.model)} {_overconfidence(r)}" for r in (a, b)]
    return Claim(text, claim.verdict, f"{claim.evidence} In round 1, {'; '.join(first)}.")


def _overconfidence(result: RowResult) -> str:
    first: RoundFiles = result.run.folder.finished_rounds()[0]
    table = first.read_table(HELD_OUT_TABLE)
    accepted = table[table["accepted"]]
    if not len(accepted):
        return "would have accepted none of the held-out images"
    return (
        f"predicted the held-out images that it would accept with a mean probability of "
        f"{percent(float(accepted['probability'].mean()))}, and was right on "
        f"{percent(float(accepted['correct'].mean()))}"
    )
