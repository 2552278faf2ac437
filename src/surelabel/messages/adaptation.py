"""Messages about a run that was made by adaptation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surelabel.messages.run import names_text
from surelabel.types import JsonObject

if TYPE_CHECKING:
    from surelabel.workflows.summary import Summary

_MIXTURE = "mixture"


def adaptation_of(summary: Summary) -> JsonObject | None:
    """The facts about adaptation in the last round's metrics; None for any other run."""
    if not summary.rounds:
        return None
    facts: JsonObject | None = summary.rounds[-1].learner.get("adaptation")
    return facts


def adaptation_sentences(summary: Summary) -> list[str]:
    """How far apart the datasets are, which way was chosen, and how it compares."""
    facts = adaptation_of(summary)
    if facts is None:
        return []
    if "chosen" not in facts:
        return [facts["gap_sentence"], _earlier_version(facts), *_remarks(facts)]
    compared = [_comparison(facts["against_direct"], "direct inference (the old nets as they are)")]
    if not is_alone(facts):
        compared.append(_comparison(facts["against_labels_alone"], _alone_text(facts)))
    sentences = [facts["gap_sentence"], _choice(facts), *compared, _verdict(facts)]
    return [*sentences, _table(facts), *_remarks(facts)]


def is_alone(facts: JsonObject) -> bool:
    """Whether the images are labeled without the old dataset."""
    return bool(facts["chosen"] == facts["alone"])


def _choice(facts: JsonObject) -> str:
    n, n_ways = facts["n_labels"]["learn"], len(facts["ways"])
    how = f"Of {n_ways} ways to label the images, {n:,} labels, each predicted without its own,"
    if is_alone(facts):
        return (
            f"{how} favor {facts['chosen']}: the old dataset does not help, so the images are "
            f"labeled without it. The run {facts['run_alone']} has the nets."
        )
    if facts["chosen"] != _MIXTURE:
        return f"{how} favor {facts['chosen']}."
    if facts.get("by_rule"):
        named = names_text([w["name"] for w in facts["ways"] if w["weight"] > 0])
        return (
            f"Most of the {n:,} labels are the only one of their class, so they cannot choose "
            f"among {n_ways} ways: {named} count the same."
        )
    used = sorted((w for w in facts["ways"] if w["weight"] > 0), key=lambda w: -w["weight"])
    total = sum(w["weight"] for w in used)
    shares = [f"{w['name']} ({100 * w['weight'] / total:.0f} %)" for w in used]
    return f"{how} favor a mixture of {names_text(shares)}."


def _comparison(counts: JsonObject, other: str) -> str:
    n, (low, high) = counts["n"], counts["share"]
    n_apart = counts["n_only"] + counts["n_only_other"]
    text = (
        f"Of {n:,} held-out labels, it gets {counts['n_right']:,} right and {other} "
        f"{counts['n_other_right']:,}"
    )
    if not n_apart:
        return f"{text}; both are right on the same images."
    return (
        f"{text}; where only one of them is right, it is the chosen way in {counts['n_only']:,} "
        f"of {n_apart:,} (95 % interval {100 * low:.0f} to {100 * high:.0f} %)."
    )


def _verdict(facts: JsonObject) -> str:
    others = {"direct inference": facts["against_direct"]}
    if not is_alone(facts):
        others[_alone_text(facts)] = facts["against_labels_alone"]
    better = [name for name, counts in others.items() if counts["share"][0] > 0.5]
    unclear = [name for name in others if name not in better]
    text = f"It is significantly better than {' and than '.join(better)}." if better else ""
    if unclear:
        more = f"it is not shown to be better than {' or than '.join(unclear)}; more labels may."
        text = f"{text} {more[0].upper()}{more[1:]}" if text else f"{more[0].upper()}{more[1:]}"
    return text


def _table(facts: JsonObject) -> str:
    """How many held-out labels each way gets right."""
    known = sorted(
        (w for w in facts["ways"] if w["n_right"] is not None), key=lambda w: -w["n_right"]
    )
    rows = ", ".join(f"{w['name']} {w['n_right']:,}" for w in known)
    return f"Right on the {facts['against_direct']['n']:,} held-out labels: {rows}."


def _alone_text(facts: JsonObject) -> str:
    return str(facts["alone"])


def _earlier_version(facts: JsonObject) -> str:
    if facts["is_trusted"]:
        return f"Adapted from {facts['run2']} with {facts['k']} clusters per dataset."
    return (
        "An earlier version of surelabel did not accept the labels of this adaptation, because it "
        "was not shown to help. surelabel adapt into another folder chooses a way that does."
    )


def _remarks(facts: JsonObject) -> list[str]:
    """What the decision does not depend on, but a user should know."""
    if not facts["classes_unused"]:
        return []
    named = names_text([f"'{name}'" for name in facts["classes_unused"]])
    return [
        f"None of your labels is {named}, so no image got that label. If the new images have it, "
        "label some of them."
    ]
