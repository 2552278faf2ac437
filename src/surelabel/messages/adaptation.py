"""Messages about a run that was made by adaptation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surelabel.messages.run import names_text
from surelabel.types import JsonObject

if TYPE_CHECKING:
    from surelabel.workflows.summary import Summary


def adaptation_of(summary: Summary) -> JsonObject | None:
    """The facts about adaptation in the last round's metrics; None for any other run."""
    if not summary.rounds:
        return None
    facts: JsonObject | None = summary.rounds[-1].learner.get("adaptation")
    return facts


def adaptation_sentences(summary: Summary) -> list[str]:
    """How far apart the datasets are, how adaptation compares, and whether it is accepted."""
    facts = adaptation_of(summary)
    if facts is None:
        return []
    n_old, n_new = facts["n_centroids"]
    how = (
        f"Adapted from {facts['run2']} with {facts['k']} clusters per dataset: {n_old} + {n_new} "
        f"centroids, {facts['n_excluded']} of them excluded."
    )
    comparisons = [
        _comparison(facts["against_direct"], "the nets without adaptation"),
        _comparison(facts["against_few_labels"], "the nearest centroid of your labels alone"),
    ]
    return [facts["gap_sentence"], how, *comparisons, _verdict(facts), *_remarks(facts)]


def refusal_sentence(summary: Summary) -> str:
    """Why no image was labeled, and what to do."""
    facts = adaptation_of(summary)
    if facts is None or facts["is_trusted"]:
        return (
            f"{summary.path}: no guess was certain enough. A looser --accept accepts more "
            "guesses, and more wrong ones."
        )
    return (
        f"{summary.path}: no label was accepted, because adaptation was not shown to be better "
        "than the nets without adaptation and than the nearest centroid of your labels. The "
        "guesses are in the run. To train nets on these images instead, use surelabel label."
    )


def _comparison(counts: JsonObject, other: str) -> str:
    n, (low, high) = counts["n"], counts["share"]
    n_apart = counts["n_only"] + counts["n_only_other"]
    text = (
        f"Of {n:,} held-out labels, adaptation gets {counts['n_right']:,} right and {other} "
        f"{counts['n_other_right']:,}"
    )
    if not n_apart:
        return f"{text}; both are right on the same images."
    return (
        f"{text}; where only one of them is right, it is adaptation in {counts['n_only']:,} of "
        f"{n_apart:,} (95 % interval {100 * low:.0f} to {100 * high:.0f} %)."
    )


def _verdict(facts: JsonObject) -> str:
    if facts["is_trusted"]:
        return "Adaptation is significantly better than both."
    return (
        "Adaptation is not shown to be better than both, so its labels are not accepted. More "
        "labels may show it; surelabel label trains nets on these images instead."
    )


def _remarks(facts: JsonObject) -> list[str]:
    """What the decision does not depend on, but a user should know."""
    remarks, own = [], facts["against_net1"]
    if own["n_other_right"] > own["n_right"]:
        remarks.append(
            "The nets that were trained on a part of your labels get more of them right "
            f"({own['n_other_right']:,}): surelabel label is the better way for these images."
        )
    if facts["classes_unused"]:
        named = names_text([f"'{name}'" for name in facts["classes_unused"]])
        remarks.append(f"None of your labels is {named}, so no image got that label.")
    if facts.get("classes_without_centroid"):
        named = names_text([f"'{name}'" for name in facts["classes_without_centroid"]])
        remarks.append(
            f"No cluster has a majority of {named}, so no image got that label: give more labels "
            "of it, or more clusters (--k)."
        )
    return remarks
