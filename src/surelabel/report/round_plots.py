"""Figures by round: images left unlabeled, accuracy, uncertainty with tau, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from surelabel.config.choices import Dropout
from surelabel.config.settings import Config
from surelabel.messages.run import held_out_text, percent
from surelabel.report.canvas import COLORS, LIGHT_BLUE, MARKERS, draw_boxes
from surelabel.report.facts import Facts
from surelabel.report.plots import Plot, round_axis, wilson_interval
from surelabel.selftraining.metrics import RoundMetrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_TICKS = 16


def left_plot(facts: Facts) -> Plot:
    """Images left unlabeled after each round."""
    rounds = facts.rounds

    def draw(axes: Axes) -> None:
        numbers = [r.number for r in rounds]
        left = [r.n_left for r in rounds]
        axes.bar(numbers, left, width=0.55, color=LIGHT_BLUE, edgecolor=COLORS[0])
        for number, value in zip(numbers, left, strict=True):
            if len(rounds) <= _MAX_TICKS:
                axes.annotate(
                    f"{value:,}", (number, value), (0, 4), textcoords="offset points", ha="center"
                )
        axes.set_ylim(0, 1.15 * max([*left, 1]))
        axes.set_ylabel("images left unlabeled")
        axes.grid(visible=False, axis="x")
        round_axis(axes, len(rounds))
        if len(rounds) == 1:
            axes.set_xlim(-0.5, 2.5)
            axes.set_xticks([1])

    return Plot("left", "Images left unlabeled, by round", _left_caption(facts), draw)


def _left_caption(facts: Facts) -> str:
    first, last = facts.rounds[0], facts.rounds[-1]
    caption = f"Round {first.number} left {first.n_left:,} of {first.n_pool:,} images unlabeled"
    if len(facts.rounds) > 1:
        caption += f"; the last round left {last.n_left:,} of {last.n_pool:,}"
        change = last.n_left - first.n_left
        caption += f", {abs(change):,} {'more' if change > 0 else 'fewer'}" if change else ""
    caption += f". In the last round {last.n_changed:,} labels were new or changed."
    record = facts.summary.certification
    if record is not None and any(part.is_certified for part in record.parts):
        left = facts.summary.n_left
        caption += f" With the certified threshold {left:,} images are left unlabeled."
    return caption


def accuracy_plot(facts: Facts) -> Plot | None:
    """Accuracy on held-out labels after each round, of all and of those it would accept."""
    rounds = facts.rounds
    if not rounds[-1].n_held_out:
        return None

    def draw(axes: Axes) -> None:
        of_all = [(r.held_out_errors, r.n_held_out) for r in rounds]
        accepted = [(r.held_out_accepted_errors, r.n_held_out_accepted) for r in rounds]
        _accuracy_line(axes, 0, "all held-out labels", rounds, of_all)
        _accuracy_line(axes, 1, "those it would accept", rounds, accepted)
        axes.set_ylabel("accuracy, %")
        round_axis(axes, len(rounds))
        axes.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    caption = _accuracy_caption(rounds)
    return Plot("accuracy", "Accuracy on held-out labels, by round", caption, draw)


def _accuracy_caption(rounds: tuple[RoundMetrics, ...]) -> str:
    last = rounds[-1]
    n = last.n_held_out
    caption = f"The last round predicts {n - last.held_out_errors:,} of {n:,} held-out labels right"
    if len(rounds) > 1 and rounds[0].n_held_out:
        before, now = 1 - rounds[0].held_out_error, 1 - last.held_out_error
        caption += f" ({_accuracy_text(now)}; round 1: {_accuracy_text(before)})"
    wrong = held_out_text(last.held_out_accepted_errors, last.n_held_out_accepted)
    return (
        f"{caption}. Among those that it would accept, the wrong ones are {wrong}. "
        "The bars are 95 % intervals: smaller differences may be chance."
    )


def _accuracy_line(
    axes: Axes,
    number: int,
    name: str,
    rounds: tuple[RoundMetrics, ...],
    counts: list[tuple[int, int]],
) -> None:
    """One line from (wrong, n) per round; rounds with n = 0 are left out."""
    known = [(r.number, wrong, n) for r, (wrong, n) in zip(rounds, counts, strict=True) if n]
    if not known:
        return
    accuracy = np.array([100 * (1 - wrong / n) for _, wrong, n in known])
    ends = 100 * np.array([wilson_interval(n - wrong, n) for _, wrong, n in known])
    axes.errorbar(
        [place + 0.06 * (2 * number - 1) for place, _, _ in known],
        accuracy,
        yerr=np.maximum(np.abs(ends.T - accuracy), 0),
        color=COLORS[number],
        marker=MARKERS[number],
        capsize=3,
        elinewidth=0.9,
        label=name,
    )


def uncertainty_plot(facts: Facts) -> Plot | None:
    """Box plots of the score of correctly predicted held-out labels, with tau."""
    tables = [(r, t) for r, t in zip(facts.rounds, facts.held_out, strict=True) if len(t)]
    if facts.last is None or not facts.last["correct"].any():
        return None

    def draw(axes: Axes) -> None:
        _boxes(axes, [(r, t) for r, t in tables if t["correct"].any()])
        axes.set_ylabel(str(facts.config.score).replace("_", " "))
        axes.set_xlim(0.3, len(facts.rounds) + 0.7)

    caption = _uncertainty_caption(*tables[-1])
    return Plot("uncertainty", "Uncertainty of held-out labels, with tau", caption, draw)


def _uncertainty_caption(last: RoundMetrics, table: pd.DataFrame) -> str:
    right = table["correct"].to_numpy(dtype=bool)
    below = table["score"].to_numpy() <= last.threshold
    tau = f"tau ({last.threshold:.3g})" if np.isfinite(last.threshold) else "tau (none)"
    return (
        f"In the last round {tau} lies above {int((right & below).sum()):,} of "
        f"{int(right.sum()):,} correctly predicted held-out labels, and above "
        f"{int((~right & below).sum()):,} of {int((~right).sum()):,} wrongly predicted ones. The "
        "boxes are quartiles of the correct ones, and the whiskers are up to 1.5 times the "
        "interquartile range long; outliers are not drawn."
    )


def _boxes(axes: Axes, tables: list[tuple[RoundMetrics, pd.DataFrame]]) -> None:
    places = [r.number for r, _ in tables]
    scores = [t.loc[t["correct"].astype(bool), "score"].to_numpy() for _, t in tables]
    draw_boxes(axes, places, scores, 0.5)
    taus = [r.threshold if np.isfinite(r.threshold) else np.nan for r, _ in tables]
    axes.plot(places, taus, color=COLORS[1], marker="D", label="tau: accepted up to here")
    shown = places[:: 1 + len(places) // _MAX_TICKS]
    axes.set_xticks(shown, map(str, shown))
    axes.set_xlabel("round")
    axes.grid(visible=False, axis="x")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))


def dropout_plot(facts: Facts) -> Plot | None:
    """Dropout probabilities of each layer, by round; a line is the mean over nets."""
    by_round = [(r.number, _dropout_probabilities(r)) for r in facts.rounds]
    by_round = [(number, values) for number, values in by_round if values.size]
    if not by_round:
        return None
    last = by_round[-1][1]

    def draw(axes: Axes) -> None:
        for layer in range(last.shape[1]):
            points = [(number, v[:, layer]) for number, v in by_round if v.shape[1] > layer]
            color, marker = COLORS[layer % len(COLORS)], MARKERS[layer % len(MARKERS)]
            means = [values.mean() for _, values in points]
            name = f"layer {layer + 1}"
            axes.plot([n for n, _ in points], means, color=color, marker=marker, label=name)
            for number, values in points:
                axes.plot([number] * len(values), values, "_", color=color, alpha=0.6, markersize=9)
        axes.set_ylabel("dropout probability p")
        axes.set_ylim(bottom=0)
        round_axis(axes, len(facts.rounds))
        axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    layers = ", ".join(f"layer {k} {p:.3f}" for k, p in enumerate(last.mean(axis=0), 1))
    mean = f"each the mean of {len(last)} nets" if len(last) > 1 else "from one net"
    caption = f"In the last round: {layers}, {mean}. {_dropout_note(facts.config)}"
    return Plot("dropout", "Learned dropout probabilities, by layer", caption, draw)


def _dropout_probabilities(r: RoundMetrics) -> np.ndarray:
    """(members, layers); empty if the learner did not record them."""
    members = [m["dropout"] for m in r.learner.get("members", ()) if m.get("dropout")]
    return np.array(members if len({len(m) for m in members}) == 1 else [], dtype=float)


def _dropout_note(config: Config) -> str:
    if config.mc_samples == 1:
        return "With one sample, dropout is off in predictions."
    if config.dropout is Dropout.FIXED:
        return "They are fixed, not learned."
    return (
        f"They started at {config.dropout_p:g} and were learned: the better the labels determine "
        "a layer, the less of it is dropped."
    )


def _accuracy_text(share: float) -> str:
    return percent(share) if share < 1 else "100 %"
