"""What is said about labels by several people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.messages.run import percent

if TYPE_CHECKING:
    from surelabel.workflows.annotators import AgreementReport
    from surelabel.workflows.summary import Summary


def agreement_sentences(report: AgreementReport | None) -> list[str]:
    """How far people agree; nothing if no image has labels by two of them."""
    if report is None:
        return []
    found = report.overall
    measures = {
        "Krippendorff's alpha": found.alpha,
        "Fleiss' kappa": found.fleiss,
        "Cohen's kappa": found.cohen,
    }
    numbers = ", ".join(f"{name} {measure_text(value)}" for name, value in measures.items())
    same = found.n_images - found.n_disputed
    sentences = [
        f"{found.n_people} people labeled {found.n_images:,} of the same images and agree on "
        f"{same:,} ({percent(same / found.n_images)}): {numbers}."
    ]
    if found.n_disputed:
        wrong = percent(found.wrong_at_least or 0.0)
        sentences.append(
            f"At least {wrong} of these labels are wrong: if one image has different labels, only "
            "one of them can be right."
        )
    return sentences


def floor_sentence(summary: Summary) -> str:
    """What people's own errors mean for a promise; empty without a promise or without dispute."""
    report, record = summary.agreement, summary.certification
    if report is None or record is None or not record.holds or not report.overall.n_disputed:
        return ""
    wrong = percent(report.overall.wrong_at_least or 0.0)
    return (
        "The promise takes people's labels for the truth, and people's own errors come on top: "
        f"where several of them labeled the same images, at least {wrong} of their labels are "
        "wrong."
    )


def agreement_rows(report: AgreementReport | None) -> list[tuple[str, str, str]]:
    """Class, number of labels and alpha, as text; nothing without labels by several people."""
    rows = () if report is None else report.by_class
    return [(name, f"{count:,}", measure_text(alpha)) for name, count, alpha in rows]


def measure_text(value: float | None) -> str:
    """A measure of agreement with two digits; a word where it is not defined."""
    return "not defined" if value is None else f"{value:.2f}"


def consensus_sentence(n: int, n_open: int, out: Path, path: Path) -> str:
    """What ``agreement --out`` wrote and how to use it."""
    tied = f" {n_open:,} have no majority and an empty label." if n_open else ""
    return (
        f"Wrote the consensus on {n:,} images to {out}.{tied} To train on it: "
        f"surelabel add {path} --labels {out} --overwrite, then surelabel resume {path}."
    )
