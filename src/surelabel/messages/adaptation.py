"""Sentences about an adapted run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surelabel.runs.summary import Summary


def adaptation_of(summary: Summary) -> Mapping[str, Any] | None:
    """What the last round says of adaptation; None for any other run."""
    if not summary.rounds:
        return None
    found: Mapping[str, Any] | None = summary.rounds[-1].learner.get("adaptation")
    return found


def adaptation_sentences(summary: Summary) -> list[str]:
    """How far apart the datasets are, what adaptation was compared with, and the verdict."""
    facts = adaptation_of(summary)
    if facts is None:
        return []
    n_old, n_new = facts["n_centroids"]
    how = (
        f"Adapted from {facts['run2']} with {facts['k']} clusters a dataset: {n_old} + {n_new} "
        f"centroids, {facts['n_excluded']} of them excluded."
    )
    against = [
        _against(facts["against_direct"], "the nets as they are"),
        _against(facts["against_few_labels"], "the nearest centroid of your labels alone"),
    ]
    return [facts["gap_sentence"], how, *against, _verdict(facts), *_asides(facts)]


def _asides(facts: Mapping[str, Any]) -> list[str]:
    """What the verdict does not rest on and a user should know."""
    said, own = [], facts["against_facet"]
    if own["n_other_right"] > own["n_right"]:
        said.append(
            f"The nets that were trained on a part of your labels name more of them rightly "
            f"({own['n_other_right']:,}): surelabel label is the better way for these images."
        )
    if facts["classes_unused"]:
        named = ", ".join(f"'{name}'" for name in facts["classes_unused"][:5])
        said.append(f"None of your labels is {named}, so no image was labeled so.")
    if facts.get("classes_without_centroid"):
        named = ", ".join(f"'{name}'" for name in facts["classes_without_centroid"][:5])
        said.append(
            f"No cluster has a majority of {named}, so no image was labeled so: give more labels "
            "of it, or more clusters (--k)."
        )
    return said


def _against(found: Mapping[str, Any], other: str) -> str:
    n, (low, high) = found["n"], found["share"]
    apart = found["n_only"] + found["n_only_other"]
    right = f"Of {n:,} labels held out, it names {found['n_right']:,} rightly, {other} "
    text = right + f"{found['n_other_right']:,}"
    if not apart:
        return f"{text}; they never differ in being right."
    return (
        f"{text}; where only one is right, it is this one in {found['n_only']:,} of {apart:,} "
        f"(95 % interval {100 * low:.0f} to {100 * high:.0f} %)."
    )


def _verdict(facts: Mapping[str, Any]) -> str:
    if facts["is_trusted"]:
        return "It is better than both, beyond chance."
    return (
        "It is not shown to be better than both, so its labels are not accepted. More labels may "
        "show it; surelabel label trains nets on these images instead."
    )


def refusal_sentence(summary: Summary) -> str:
    """Why nothing was labeled, and what to do."""
    facts = adaptation_of(summary)
    if facts is None or facts["is_trusted"]:
        return (
            f"{summary.path}: no guess was sure enough. A looser --accept accepts more and is "
            "wrong more often."
        )
    return (
        f"{summary.path}: no label was accepted, because adaptation was not shown to beat the nets "
        "as they are and the nearest centroid of your labels. The guesses are in the run; "
        "surelabel label trains nets on these images instead."
    )
