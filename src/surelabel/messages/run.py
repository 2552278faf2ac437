"""Sentences about a run, for people who did not read the paper."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.types import NONE_TEXT, StopReason

if TYPE_CHECKING:
    from surelabel.dataset.catalog import Catalog
    from surelabel.dataset.extend import Added
    from surelabel.runs.summary import Summary
    from surelabel_studies.use_by_dates.writer import Written

_REASONS = {
    StopReason.POOL_EMPTY: "every image has a label",
    StopReason.FEW_CHANGES: "the last round changed almost nothing",
    StopReason.NONE_ACCEPTED: "several rounds in a row found nothing new to label",
    StopReason.ROUND_LIMIT: "all rounds that were asked for are done",
}


def reason_text(reason: StopReason) -> str:
    """Why self-training ended, as the end of a sentence."""
    return _REASONS[reason]


LABEL_SECONDS = 5.0
"""What a label takes a person, unless they say otherwise."""
_MANY = 0.05
"""From this share of wrong labels on, a warning."""


def percent(share: float) -> str:
    """A share as people read it: two figures that matter, never a rounded-off zero."""
    if share != share:
        return "-"
    if share == 0:
        return "0 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.1f} %"


def held_out_text(wrong: int, of: int) -> str:
    """``3 of 412 (0.73 %)``."""
    return f"{wrong:,} of {of:,} ({percent(wrong / of if of else float('nan'))})"


def seconds_text(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def memory_text(n_bytes: int) -> str:
    """Bytes as people say them."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def cost_sentence(summary: Summary) -> str:
    """Time of the rounds, and the most memory."""
    n, most = len(summary.rounds), summary.peak_memory
    if not n:
        return ""
    text = f"{n} round{'s' if n != 1 else ''} took {seconds_text(summary.seconds)}"
    return f"{text}, with {memory_text(most)} of memory at most." if most else f"{text}."


def run_name(images: Path) -> str:
    """What a run on these images is called when nobody says: ``photos`` for ``photos/``."""
    path = images.resolve()
    return (path.name if path.is_dir() else path.name.split(".")[0]) or "run"


def headline(summary: Summary) -> str:
    """What was done, in one line."""
    asked = summary.n_labeled + summary.n_left
    if not summary.rounds:
        return f"No round is finished yet. {asked:,} images wait for a label."
    if not asked:
        return f"All {summary.n_images:,} images have a label by people already."
    if not summary.n_labeled:
        found = summary.rounds[-1].learner.get("adaptation", {"is_trusted": True})
        why = ": no guess was sure enough" if found["is_trusted"] else ""
        return f"Labeled none of {asked:,} images{why}."
    text = f"Labeled {summary.n_labeled:,} of {asked:,} images."
    return text + (f" {summary.n_left:,} are left for you." if summary.n_left else "")


def people_sentence(summary: Summary) -> str:
    """What people had labeled, which the headline does not count."""
    text = f"{summary.n_human:,} of {summary.n_images:,} images have a label by people"
    if summary.n_copied:
        text += f", and {summary.n_copied:,} exact copies of those have theirs"
    return text + "."


def error_sentence(summary: Summary) -> str:
    """What held-out labels say about the error. An estimate, and says so."""
    if not summary.rounds:
        return ""
    last = summary.rounds[-1]
    if not last.n_held_out_accepted:
        return "No held-out label tells how right they are."
    text = held_out_text(last.held_out_accepted_errors, last.n_held_out_accepted)
    how = "predicted out of fold" if summary.cross_fit else "held out from training"
    sentence = (
        f"Of your own labels, {how}, those it would have accepted were wrong in {text}. "
        "This is an estimate, not a promise."
    )
    if last.held_out_accepted_error > _MANY:
        sentence += (
            " That is often: give more labels, train longer (--effort high) or accept less "
            "(--accept q2)."
        )
    return sentence


def unguessed_sentence(summary: Summary) -> str:
    """Classes that the run never guesses: few labels may have drowned among the others."""
    if not summary.rounds or not summary.n_labeled + summary.n_left:
        return ""
    never = [
        f"'{name}' ({found['human']} labels)"
        for name, found in summary.counts.items()
        if found["human"] and not found["labeled"] + found["left"]
    ]
    if not never:
        return ""
    more = f" and {len(never) - 5} more" if len(never) > 5 else ""
    return (
        f"No image is guessed to be of the class {', '.join(never[:5])}{more}. If there are some, "
        "they have other names now: label more of them."
    )


def state_sentence(summary: Summary) -> str:
    """Whether there is more to do, and why not."""
    path = shlex.quote(summary.path)
    if not summary.n_human:
        return (
            f"No labels are learned yet: surelabel review {path} collects the first ones, and "
            f"surelabel resume {path} learns from them."
        )
    if summary.stop_reason is None:
        return f"The run is not finished: surelabel resume {path} goes on with it."
    n = len(summary.rounds)
    plural = "s" if n != 1 else ""
    return f"Stopped after {n} round{plural}: {reason_text(summary.stop_reason)}."


def next_steps(summary: Summary) -> list[tuple[str, str]]:
    """Commands that make sense now, each with what it does."""
    path = shlex.quote(summary.path)
    steps = []
    if not summary.n_human:
        steps.append((f"surelabel review {path}", "give the first labels, in your browser"))
    if summary.stop_reason is None:
        steps.append((f"surelabel resume {path}", "go on"))
    if summary.n_labeled:
        table = shlex.quote(f"{Path(summary.path).name}-labeled.csv")
        steps.append((f"surelabel export {path} --out {table}", "all labels as a table"))
        if "adaptation" not in summary.rounds[-1].learner:
            steps.append((f"surelabel predict {path} NEW/ --out new.csv", "label other images"))
    if summary.rounds and summary.n_left:
        steps.append((f"surelabel review {path}", "label what is left, in your browser"))
    return steps


def skipped_sentence(summary: Summary) -> str:
    """How many files could not be read, and where the list is."""
    if not summary.n_skipped:
        return ""
    files = "file was" if summary.n_skipped == 1 else "files were"
    return f"{summary.n_skipped:,} {files} skipped; {summary.path}/skipped.csv says why."


def contradiction_sentence(catalog: Catalog, found: Sequence[tuple[int, int]]) -> str:
    """One of the ``found`` pairs of rows, the same image with different labels, and how many."""
    names = (*catalog.classes, NONE_TEXT, "")
    named = [f"{catalog.paths[r]} ('{names[catalog.labels[r]]}')" for r in found[0]]
    more = f" ({len(found):,} images have such copies)" if len(found) > 1 else ""
    return f"{' and '.join(named)} are the same image with different labels{more}: correct them."


def near_copies_sentence(summary: Summary) -> str:
    """How many pairs of images are nearly the same, and where the list is."""
    n = summary.n_near_copies
    if not n:
        return ""
    pairs = "pair of images is" if n == 1 else "pairs of images are"
    return f"{n:,} {pairs} nearly the same; {summary.path}/near_copies.csv lists them."


def export_sentence(written: int, out: Path, *, n_rounds: int, n_missing: int = 0) -> str:
    """What ``export`` did."""
    text = f"Wrote {written:,} images to {out}."
    if n_missing:
        text += f" {n_missing:,} could not be written; {out / 'missing.csv'} says why."
    if not n_rounds:
        text += " No round is finished yet: only labels by people are in it."
    return text


def predict_sentence(
    sure: int,
    n: int,
    skipped: Sequence[tuple[str, str]],
    out: Path,
    drifted: Collection[str] = (),
) -> str:
    """What ``predict`` did, with a warning where the images are unlike those of the run."""
    text = f"Labeled {sure:,} of {n:,} images; all guesses are in {out}."
    if skipped:
        path, reason = skipped[0]
        text += f" {len(skipped):,} could not be read, the first, {path}, because {reason}."
    if drifted:
        what = {"score": "how unsure the nets are", "distance": "how far they lie from the classes"}
        named = " and in ".join(what[name] for name in drifted)
        text += (
            f" Beware: these images differ from those of the run in {named}, more than by chance. "
            "What the run promises about its own images says nothing about these: label some of "
            "them and compare."
        )
    return text


def add_sentence(added: Added, path: Path) -> str:
    """What ``add`` did, and what to do next."""
    classes = f", new classes: {', '.join(added.classes)}" if added.classes else ""
    return (
        f"Added {added.images:,} images and {added.labels:,} labels "
        f"({added.changed:,} changed){classes}.\n"
        f"  surelabel resume {shlex.quote(str(path))}   trains with them"
    )


def use_by_dates_sentence(written: Written) -> str:
    """How many synthetic images there are now, and what can be done with them."""
    kinds = ", ".join(f"{n:,} {label}" for label, n in written.n_of_label.items())
    there = written.n_images - written.n_made
    kept = f" ({there:,} were there already)" if there else ""
    folder = shlex.quote(str(written.out))
    return (
        f"Wrote {written.n_images:,} synthetic photographs to {written.out}{kept}: {kinds}.\n"
        "labels.csv has their labels and the difficulty of each fault; to label some yourself:\n"
        f"  surelabel draw {folder}"
    )


def draw_sentence(drawn: int, n: int, images: Path, out: Path, *, certify: bool) -> str:
    """What ``draw`` did, and what to do next."""
    rest = ", all that can be read" if drawn < n else ""
    hidden = (
        " Those with the split certify stay hidden until the end and back the run's promise: keep "
        "the column, and do not skip hard ones ('none of these' is an answer)."
    )
    return (
        f"Wrote {drawn:,} images to {out}{rest}. Fill in the label column from the top down"
        f"{'.' + hidden + ' Then' if certify else ', then'}:\n"
        f"  surelabel label {shlex.quote(str(images))} --labels {shlex.quote(str(out))}"
    )
