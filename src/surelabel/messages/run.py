"""Messages about a run, for people who did not read the paper."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.config.choices import Strategy
from surelabel.selftraining.events import (
    Advice,
    Event,
    FeaturesStarted,
    FirstLook,
    TimeEstimate,
)
from surelabel.types import NONE_TEXT, StopReason

if TYPE_CHECKING:
    from surelabel.dataset.catalog import Catalog
    from surelabel.dataset.extend import Added
    from surelabel.workflows.net_trial import Trial
    from surelabel.workflows.summary import Summary

_WORTH_TELLING = 10.0
"""Seconds of reading images from which on they are told."""
LABEL_SECONDS = 5.0
"""Seconds that a person needs per label, unless they say otherwise."""
_HIGH_ERROR = 0.05
"""A share of wrong labels above this gets a warning."""
_SHOWN = 5
"""Class names in one message at most."""
_REASONS = {
    StopReason.POOL_EMPTY: "every image has a label",
    StopReason.FEW_CHANGES: "the last round changed very few labels",
    StopReason.NONE_ACCEPTED: "several rounds in a row accepted no new label",
    StopReason.ROUND_LIMIT: "",
}
_WAYS = {
    "compact": "a compact net trained from scratch",
    "pooled": "pooled features of pre-trained nets",
    "detail": "maps of a pre-trained net that keep detail",
}
"""By ``net_trial.Way``."""
_DRIFTED = {
    "score": "how unsure the models are",
    "distance": "how far they are from the classes",
}


def percent(share: float) -> str:
    """A share with two significant digits, never rounded to zero; ``-`` for NaN."""
    if share != share:
        return "-"
    if share == 0:
        return "0 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.1f} %"


def held_out_text(wrong: int, of: int) -> str:
    """``3 of 412 (0.73 %)``."""
    return f"{wrong:,} of {of:,} ({percent(wrong / of if of else float('nan'))})"


def seconds_text(seconds: float) -> str:
    """A duration in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def memory_text(n_bytes: int) -> str:
    """A number of bytes in MB or GB."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def names_text(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def unread_sentence(n: int, path: str, reason: str, run: str) -> str:
    """That shards or remote images could not be read, and what happens to them."""
    what = "One shard or image" if n == 1 else f"{n:,} shards or images"
    first = "it is" if n == 1 else "the first is"
    return (
        f"{what} could not be read; {first} {path}: {reason}. The run goes on without. When that "
        f"is mended, surelabel resume {run} reads the rest."
    )


def still_unread_sentence(reason: str) -> str:
    """That what could not be read before cannot be looked for now."""
    return f"What could not be read before is still missing, and the run goes on without. {reason}"


def taken_up_sentence(n: int) -> str:
    """That images were added which could not be read before."""
    images = "image that" if n == 1 else f"{n:,} images that"
    return f"{'One ' if n == 1 else ''}{images} could not be read before joined the run."


def run_name(images: str | Path) -> str:
    """The default name of a run on these images: ``photos`` for ``photos/``."""
    path = Path(images).resolve()
    return (path.name if path.is_dir() else path.name.split(".")[0]) or "run"


def finished_sentence(reason: StopReason, n_rounds: int = 0) -> str:
    """That training is finished, after how many rounds if known, and why where that says more."""
    plural = "s" if n_rounds != 1 else ""
    after = f" after {n_rounds} round{plural}" if n_rounds else ""
    why = f": {_REASONS[reason]}" if _REASONS[reason] else ""
    return f"Training finished{after}{why}."


def headline(summary: Summary) -> str:
    """What the run did, in one line."""
    n_pool = summary.n_labeled + summary.n_left
    if not summary.rounds:
        return f"Not trained yet. {n_pool:,} images have no label."
    if not n_pool:
        return f"All {summary.n_images:,} images are labeled by people."
    if not summary.n_labeled:
        refused = not summary.rounds[-1].learner.get("adaptation", {}).get("is_trusted", True)
        why = "" if refused else ": no guess was sure enough"
        return f"The run labeled none of the {n_pool:,} images that you have not labeled{why}."
    text = (
        f"The run labeled {summary.n_labeled:,} of the {n_pool:,} images that you have not labeled."
    )
    return text + (f" {summary.n_left:,} are left for you." if summary.n_left else "")


def people_sentence(summary: Summary) -> str:
    """How many images people labeled; the headline does not count them."""
    text = f"People labeled {summary.n_human:,} of all {summary.n_images:,} images"
    if summary.n_waiting:
        text += f"; {summary.n_waiting:,} of these labels wait for the next training"
    if summary.n_copied:
        text += f"; {summary.n_copied:,} exact copies of those got the same label"
    if summary.rounds and summary.n_left:
        minutes = max(1, round(summary.n_left * LABEL_SECONDS / 60))
        text += f"; {summary.n_left:,} are left, about {minutes:,} min at {LABEL_SECONDS:g} s each"
    return text + "."


def error_sentence(summary: Summary) -> str:
    """The error on held-out labels, which is an estimate."""
    if not summary.rounds:
        return ""
    last = summary.rounds[-1]
    if not last.n_held_out_accepted:
        return (
            "The error cannot be estimated: of your labels that it had not seen, none was guessed "
            "surely enough to be accepted."
        )
    wrong, n = last.held_out_accepted_errors, last.n_held_out_accepted
    share = f" ({percent(wrong / n)})" if wrong else ""
    sentence = f"On {n:,} of your labels that it had not seen: {wrong:,} wrong{share}. "
    if not summary.held_out_is_random:
        sentence += (
            "These were not drawn at random, so the estimate may be off: label some random images. "
        )
    if last.target_error is not None:
        return (
            f"{sentence}So about {percent(last.estimated_error)} of the run's labels are wrong, "
            "counting one more mistake to be careful; the run accepts labels up to "
            f"{percent(last.target_error)}. This is an estimate, not a guarantee."
        )
    sentence += "This is an estimate, not a guarantee."
    if last.held_out_accepted_error > _HIGH_ERROR:
        is_linear = any(net.get("head") == "linear" for net in last.learner.get("members", ()))
        longer = "" if is_linear else ", train longer (--effort high)"
        sentence += f" That is high: give more labels{longer} or accept fewer (--accept q2)."
    return sentence


def fewer_sentence(summary: Summary) -> str:
    """Why the run labels fewer images than before labels were added; empty if it does not."""
    change = summary.change
    if change is None or change.n_now >= change.n_before:
        return ""
    text = (
        f"The last training accepted {change.n_now:,} labels, the one before your new labels "
        f"{change.n_before:,}: {change.n_taken:,} of those images have your own label now, "
        f"{change.n_withdrawn:,} labels were withdrawn, {change.n_new:,} are new."
    )
    if not change.n_withdrawn:
        return text
    wrong, n = change.wrong_now
    wrong_before, n_before = change.wrong_before
    why = "The threshold is stricter" if change.is_stricter else "Those guesses are less sure"
    return (
        f"{text} {why} now: of your labels that it had not seen, {wrong:,} of {n:,} accepted "
        f"guesses are wrong (before: {wrong_before:,} of {n_before:,})."
    )


def unguessed_sentence(summary: Summary) -> str:
    """The classes that the run never predicts, perhaps because they have too few labels."""
    if not summary.rounds or not summary.n_labeled + summary.n_left:
        return ""
    never = [
        f"'{name}' ({counts['human']} labels)"
        for name, counts in summary.counts.items()
        if counts["human"] and not counts["labeled"] + counts["left"]
    ]
    if not never:
        return ""
    return (
        f"No image is predicted to be {names_text(never)}. If there are such images, they were "
        "taken for other classes: label more of them."
    )


def state_sentence(summary: Summary) -> str:
    """Whether the run is finished, and why; if not, how to continue."""
    path = shlex.quote(summary.path)
    if not summary.n_human:
        return (
            f"There are no labels yet: give the first ones with surelabel review {path}, then "
            f"train with surelabel resume {path}."
        )
    if summary.stop_reason is None and not summary.rounds:
        return f"To train: surelabel resume {path}."
    if summary.stop_reason is None:
        return f"Training is not finished: continue with surelabel resume {path}."
    return finished_sentence(summary.stop_reason, len(summary.rounds))


def cost_sentence(summary: Summary) -> str:
    """The time of reading images and of the rounds, and the largest memory use."""
    n, most = len(summary.rounds), summary.peak_memory
    if not n:
        return ""
    text = f"{n} round{'s' if n != 1 else ''} took {seconds_text(summary.seconds)}"
    if summary.preparation_seconds >= _WORTH_TELLING:
        done = "Reading images and the trial" if summary.trial else "Reading images"
        text = f"{done} took {seconds_text(summary.preparation_seconds)}, {text}"
    return f"{text} and at most {memory_text(most)} of memory." if most else f"{text}."


def skipped_sentence(summary: Summary) -> str:
    """How many files were skipped, and where they are listed."""
    if not summary.n_skipped:
        return ""
    files = "file was" if summary.n_skipped == 1 else "files were"
    return f"{summary.n_skipped:,} {files} skipped; {summary.path}/skipped.csv says why."


def near_duplicates_sentence(summary: Summary) -> str:
    """How many pairs of images are nearly the same, and where they are listed."""
    n = summary.n_near_duplicates
    if not n:
        return ""
    pairs = "pair of images is" if n == 1 else "pairs of images are"
    return f"{n:,} {pairs} nearly the same; {summary.path}/near_duplicates.csv lists them."


def next_steps(summary: Summary) -> list[tuple[str, str]]:
    """Commands that make sense now, each with what it does."""
    path = shlex.quote(summary.path)
    steps = []
    if not summary.n_human:
        steps.append((f"surelabel review {path}", "give the first labels in your browser"))
    elif summary.stop_reason is None:
        steps.append((f"surelabel resume {path}", "train" if not summary.rounds else "continue"))
    if summary.n_labeled:
        table = shlex.quote(f"{Path(summary.path).resolve().name}-labeled.csv")
        steps.append((f"surelabel export {path} --out {table}", "write all labels to a table"))
        if "adaptation" not in summary.rounds[-1].learner:
            steps.append((f"surelabel predict {path} NEW/ --out new.csv", "label other images"))
    if summary.rounds and summary.n_left:
        steps.append((f"surelabel review {path}", "label the rest in your browser"))
        steps.append((f"surelabel effort {path}", "ways to finish, and how long each takes you"))
    if summary.n_suspicious:
        which = _suspicious_text(summary.n_suspicious)
        steps.append((f"surelabel label-errors {path}", f"list {which}"))
    if summary.agreement is not None and summary.agreement.n_open:
        n_open = f"{summary.agreement.n_open:,} images"
        steps.append((f"surelabel review {path} --disputed", f"settle {n_open} people disagree on"))
    guaranteed = summary.certification is not None and summary.certification.holds
    if summary.is_finished and summary.n_labeled and not guaranteed and summary.audit is None:
        n = summary.n_to_check
        if 2 * n <= summary.n_labeled:
            steps.append((f"surelabel review {path} --audit {n}", "check some labels"))
    return steps


def nothing_labeled_message(summary: Summary) -> str:
    """The error of a run that labeled nothing, with what may help."""
    last = summary.rounds[-1] if summary.rounds else None
    if last is not None and last.target_error is not None:
        lowest = (
            "" if last.lowest_error is None else f" and is {percent(last.lowest_error)} at best"
        )
        return (
            f"{summary.path}: no image was labeled. The estimated error is above "
            f"{percent(last.target_error)} even for the surest guesses{lowest}, judged by "
            f"{last.n_held_out:,} of your labels that it had not seen. {_doubt_text(summary)}What "
            f"helps most are more labels: surelabel review {shlex.quote(summary.path)} asks about "
            f"the most useful of the {summary.n_left:,} images first, and what you answer is "
            f"needed anyway. {_looser_text(summary)}"
        )
    return (
        f"{summary.path}: no image was labeled. More labels help most. A looser --accept (see "
        "surelabel label --help-all) accepts more guesses, and more wrong ones."
    )


def _doubt_text(summary: Summary) -> str:
    """That labels by people look wrong: a few wrong ones are enough to raise the estimate."""
    if not summary.n_suspicious:
        return ""
    which = _suspicious_text(summary.n_suspicious)
    path = shlex.quote(summary.path)
    return f"First check {which}: surelabel review {path} --suspicious. "


def _suspicious_text(n: int) -> str:
    return (
        "1 label of yours that looks wrong" if n == 1 else f"{n:,} of your labels that look wrong"
    )


def _looser_text(summary: Summary) -> str:
    """What rules that accept more would label, and how much of it would be wrong."""
    if not summary.looser:
        return "A higher --target-error or --accept tukey accepts more guesses, and wrong ones."
    rules = [
        f"{rule.options} would label {rule.n_labeled:,} images, an estimated "
        f"{percent(rule.estimated_error)} of them wrong"
        for rule in summary.looser
    ]
    return f"With more wrong labels: {'; '.join(rules)}."


def contradiction_sentence(catalog: Catalog, contradictions: Sequence[tuple[int, int]]) -> str:
    """Identical images with different labels: names one pair of catalog rows, counts the rest."""
    names = (*catalog.classes, NONE_TEXT, "")
    one, other = (
        f"{catalog.paths[row]} ('{names[catalog.labels[row]]}')" for row in contradictions[0]
    )
    n = len(contradictions)
    more = f" There are {n:,} such pairs." if n > 1 else ""
    return f"{one} and {other} are the same image with different labels: correct one.{more}"


def similar_names_sentence(alike: Sequence[Sequence[str]]) -> str:
    """Classes that are probably one, and how to join them."""
    groups = [" and ".join(f"'{name}'" for name in names) for names in alike]
    return (
        f"{names_text(groups)} are taken as different classes. If they are the same, stop and "
        "correct the labels, or add --merge-spellings."
    )


def single_label_sentence(names: Sequence[str]) -> str:
    """Classes with one label: they are learned, but nothing checks how well."""
    one = len(names) == 1
    return (
        f"{names_text(names)} {'has' if one else 'have'} only one label{'' if one else ' each'}. "
        f"{'It is' if one else 'They are'} learned from it, but guesses of "
        f"{'this class' if one else 'these classes'} cannot be checked: give a second label."
    )


def trial_begins_sentence(usual: str, other: str, n_labels: int) -> str:
    """What is going to be tried, by the names of two ways, and how to do without."""
    return (
        f"Trying on {n_labels:,} of your labels which suits these images better: {_WAYS[usual]} or "
        f"{_WAYS[other]}. That can take minutes; --net or --tail choose without a trial."
    )


def trial_sentence(trial: Trial) -> str:
    """Which of two ways of learning is used, and why."""
    usual, other = _WAYS[trial.usual], _WAYS[trial.other]
    text = (
        f"A trial on {trial.n_labels:,} of your labels, each left out of training: {usual} "
        f"{percent(trial.usual_error)} wrong (loss {trial.usual_loss:.2f})"
    )
    if trial.other_loss == trial.other_loss:
        text += f", {other} {percent(trial.other_error)} wrong (loss {trial.other_loss:.2f})"
        why = _WAYS[trial.chosen]
    else:
        why = f"{usual}, which leave little for {other} to gain"
    return (
        f"{text}. The run uses {why}. The trial took {seconds_text(trial.seconds)}; --net and "
        "--tail choose without one."
    )


def event_sentence(event: Event) -> str:
    """What a person should read about ``event``; empty for what progress shows anyway."""
    if isinstance(event, Advice):
        return event.text
    if isinstance(event, TimeEstimate):
        total = event.reading_seconds + event.features_seconds
        return (
            f"{event.n_images:,} images are new here. Reading them and computing their features, "
            f"once, takes about {seconds_text(total)} ({seconds_text(event.reading_seconds)} and "
            f"{seconds_text(event.features_seconds)}) and {memory_text(event.n_bytes)} of disk."
        )
    if isinstance(event, FeaturesStarted):
        disk = f" and {memory_text(event.n_bytes)} of disk" if event.n_bytes else ""
        return (
            f"Computing features of {event.n_images:,} images with a pre-trained network, once: "
            f"about {seconds_text(event.seconds)}{disk}."
        )
    if isinstance(event, FirstLook):
        return (
            f"First look, at {event.n_labels:,} of your labels, each predicted without having seen "
            f"it: {percent(event.accuracy)} are right (always guessing the most common class: "
            f"{percent(event.commonest)}), and {event.n_told_apart:,} of {event.n_classes:,} "
            f"classes can be told apart. The other images take another "
            f"{seconds_text(event.seconds_left)}."
        )
    return ""


def export_sentence(written: int, out: Path, *, n_rounds: int, n_missing: int = 0) -> str:
    """What ``export`` did."""
    text = f"Wrote {written:,} images to {out}."
    if n_missing:
        text += f" {n_missing:,} could not be written; {out / 'missing.csv'} says why."
    if not n_rounds:
        text += " The run is not trained yet, so only people's labels are in it."
    return text


def label_studio_sentence(out: Path, root: Path | None, images: Path | None) -> str:
    """How to open the project in Label Studio; ``root`` is None if images have addresses."""
    first = f"Make a project with the labeling interface {out / 'labeling-config.xml'}"
    last = f"import {out / 'tasks.json'}"
    if root is None or images is None:
        return f"{first} and {last}."
    return (
        "Start it with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root}. {first}, add local storage with the path "
        f"{images} (do not sync it), and {last}."
    )


def predict_sentence(
    n_labeled: int,
    n: int,
    skipped: Sequence[tuple[str, str]],
    out: Path,
    drifted: Collection[str] = (),
    n_seen: int = 0,
) -> str:
    """What ``predict`` did, with a warning if the images differ from those of the run.

    ``n_seen`` of the images are in the run, with a label by people.
    """
    text = f"Labeled {n_labeled:,} of {n:,} images; {out} has a guess for each of them."
    if skipped:
        path, reason = skipped[0]
        text += f" {len(skipped):,} could not be read; the first is {path}: {reason}."
    if n_seen:
        text += (
            f" {n_seen:,} of the images were labeled by people in this run, which learned from "
            "them: their guesses are no test of it. surelabel export writes people's own labels."
        )
    if drifted:
        named = " and in ".join(_DRIFTED[name] for name in drifted)
        text += (
            f" Warning: these images clearly differ from those of the run in {named}. What is "
            "guaranteed for the run's own images does not hold for them. surelabel draw IMAGES "
            "--adapt-from RUN picks some to label; surelabel adapt then labels the rest with the "
            "help of this run."
        )
    return text


def add_sentence(added: Added, path: Path) -> str:
    """What ``add`` did, and what to do next."""
    classes = f"; new classes: {', '.join(added.classes)}" if added.classes else ""
    void = " The audit of the earlier labels no longer counts." if added.voids_audit else ""
    replaced = f" ({added.changed:,} replaced an earlier label)" if added.changed else ""
    return (
        f"Added {added.images:,} images and {added.labels:,} labels"
        f"{replaced}{classes}.{void} To train with them:\n"
        f"  surelabel resume {shlex.quote(str(path))}"
    )


def draw_to_adapt_sentence(drawn: Sequence[str], images: str | Path, run: Path, out: Path) -> str:
    """What ``draw --adapt-from`` did, and what to do next. ``drawn`` has a strategy per image."""
    n_random = sum(each == Strategy.RANDOM for each in drawn)
    table, old, new = (shlex.quote(str(path)) for path in (out, run, images))
    return (
        f"Wrote {len(drawn):,} images to {out}: {n_random:,} at random, which also show how good "
        f"the result is, and {len(drawn) - n_random:,} that are diverse and about which the ways "
        "to use the old run are unsure or disagree. Fill in the column label from the top down, "
        "and keep the column drawn. Then:\n"
        f"  surelabel adapt {old} {new} --labels {table} --out NEW-RUN"
    )


def draw_sentence(
    drawn: int,
    n: int,
    images: str | Path,
    out: Path,
    strategy: Strategy,
    *,
    n_certify: int,
    n_least: int,
) -> str:
    """What ``draw`` did, and what to do next.

    ``n_certify`` images are set aside to certify; unasked, that takes ``n_least`` images.
    """
    all_of_them = ", all that can be read" if drawn < n else ""
    nothing_left = (
        " Once all of them are labeled, nothing is left for the run to label: draw fewer (-n), or "
        "leave the rest of the table empty."
        if drawn < n
        else ""
    )
    table = shlex.quote(str(out))
    if strategy is not Strategy.RANDOM:
        run = shlex.quote(str(images))
        then = (
            f"surelabel add {run} --labels {table} && surelabel resume {run}"
            if strategy is Strategy.UNCERTAIN
            else f"surelabel label {run} --labels {table}"
        )
        return (
            f"Wrote {drawn:,} images to {out}. Fill in the column label from the top down. These "
            "labels train the run. They are no random sample, so they cannot certify it, and an "
            f"error that is estimated from them alone may be off. Then:\n  {then}"
        )
    hidden = (
        f" {n_certify:,} of them have the split certify: their labels are not read until the end, "
        "when they show how wrong the result can be. Keep that column, and do not skip hard images "
        "('none of these' is an answer). Then:"
        if n_certify
        else f" None is set aside to certify, because a third of fewer than {n_least:,} images "
        "shows too little: all train the run, which then has no error guarantee. One can be added "
        "afterwards (surelabel review RUN --certify N). Then:"
        if drawn < n_least
        else " None is set aside to certify, so the run will have no error guarantee. Then:"
    )
    return (
        f"Wrote {drawn:,} images to {out}{all_of_them}. Fill in the column label from the top "
        f"down.{nothing_left}{hidden}\n"
        f"  surelabel label {shlex.quote(str(images))} --labels {table}"
    )


def export_model_sentence(path: Path, preprocessing: Path) -> str:
    """What was written."""
    return f"Wrote {path}, and what images it expects to {preprocessing}."


def label_errors_sentence(n: int, run: Path) -> str:
    """How many labels look wrong, and what to do about them."""
    if not n:
        return "None of the labels that could be checked looks wrong."
    which = "1 label looks wrong" if n == 1 else f"{n:,} labels look wrong"
    path = shlex.quote(str(run))
    return f"{which}; nothing was changed. To decide: surelabel review {path} --suspicious"
