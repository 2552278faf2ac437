"""Figures against the round: what is left, accuracy, uncertainty with tau, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from surelabel.config.choices import Dropout
from surelabel.config.settings import Config
from surelabel.guarantees.certification import Finding
from surelabel.messages.run import held_out_text, percent
from surelabel.report.canvas import COLORS, MARKERS, draw_boxes
from surelabel.report.facts import Facts
from surelabel.report.plots import Plot, interval, round_axis
from surelabel.selftraining.metrics import RoundMetrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_TICKS = 16


def left_plot(facts: Facts) -> Plot:
    """Images left unlabeled after each round."""
    rounds = facts.rounds
    first, last = rounds[0], rounds[-1]
    says = f"Round {first.number} left {first.n_left:,} of {first.n_pool:,} images"
    if len(rounds) > 1:
        few = "fewer" if last.n_left < first.n_left else "more"
        change = abs(last.n_left - first.n_left)
        same = f"the last one left {last.n_left:,} of {last.n_pool:,}"
        says += f"; {same}, {change:,} {few}" if change else f"; {same}, as many"
    says += f". In the last round {last.n_changed:,} labels were new or changed."
    look = facts.summary.promise
    if look is not None and any(part.finding == Finding.CERTIFIED for part in look.parts):
        says += f" With the certified threshold {facts.summary.n_left:,} are left."

    def draw(axes: Axes) -> None:
        numbers = [r.number for r in rounds]
        left = [r.n_left for r in rounds]
        axes.bar(numbers, left, width=0.55, color="#DCEAF4", edgecolor=COLORS[0])
        for number, value in zip(numbers, left, strict=True):
            if len(rounds) <= _MOST_TICKS:
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

    return Plot("left", "Images left, by round", says, draw)


def accuracy_plot(facts: Facts) -> Plot | None:
    """Accuracy on held-out labels after each round, of all and of those it would accept."""
    rounds = facts.rounds
    if not rounds[-1].n_held_out:
        return None
    last = rounds[-1]
    n = last.n_held_out
    says = f"Of {n:,} held-out labels the last round guesses {n - last.held_out_errors:,} right"
    if len(rounds) > 1 and rounds[0].n_held_out:
        before, now = 1 - rounds[0].held_out_error, 1 - last.held_out_error
        says += f" ({_share(now)}; round 1: {_share(before)})"
    wrong = held_out_text(last.held_out_accepted_errors, last.n_held_out_accepted)
    says += (
        f"; of those it would accept, wrong are {wrong}. "
        "Bars are 95 % intervals: smaller differences may be chance."
    )

    def draw(axes: Axes) -> None:
        kinds = (
            ("all held-out labels", [(r.held_out_errors, r.n_held_out) for r in rounds]),
            (
                "those it would accept",
                [(r.held_out_accepted_errors, r.n_held_out_accepted) for r in rounds],
            ),
        )
        for kind, (name, counts) in enumerate(kinds):
            _accuracy_line(axes, kind, name, rounds, counts)
        axes.set_ylabel("accuracy, %")
        round_axis(axes, len(rounds))
        axes.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return Plot("accuracy", "Accuracy on held-out labels, by round", says, draw)


def _accuracy_line(
    axes: Axes,
    kind: int,
    name: str,
    rounds: tuple[RoundMetrics, ...],
    counts: list[tuple[int, int]],
) -> None:
    known = [(r.number, wrong, n) for r, (wrong, n) in zip(rounds, counts, strict=True) if n]
    if not known:
        return
    share = np.array([100 * (1 - wrong / n) for _, wrong, n in known])
    ends = 100 * np.array([interval(n - wrong, n) for _, wrong, n in known])
    axes.errorbar(
        [number + 0.06 * (2 * kind - 1) for number, _, _ in known],
        share,
        yerr=np.maximum(np.abs(ends.T - share), 0),
        color=COLORS[kind],
        marker=MARKERS[kind],
        capsize=3,
        elinewidth=0.9,
        label=name,
    )


def uncertainty_plot(facts: Facts) -> Plot | None:
    """Box plots of the score of rightly guessed held-out labels, with tau."""
    tables = [(r, t) for r, t in zip(facts.rounds, facts.held_out, strict=True) if len(t)]
    if facts.last is None or not facts.last["correct"].any():
        return None
    last, table = tables[-1]
    right = table["correct"].to_numpy(dtype=bool)
    below = table["score"].to_numpy() <= last.threshold
    tau = f"tau ({last.threshold:.3g})" if np.isfinite(last.threshold) else "tau (none)"
    says = (
        f"In the last round {tau} lies above {int((right & below).sum()):,} of "
        f"{int(right.sum()):,} rightly guessed held-out labels and above "
        f"{int((~right & below).sum()):,} of {int((~right).sum()):,} wrongly guessed ones. Boxes "
        "are quartiles of the right ones, whiskers reach 1.5 times as far; outliers are not drawn."
    )

    def draw(axes: Axes) -> None:
        _boxes(axes, [(r, t) for r, t in tables if t["correct"].any()])
        axes.set_ylabel(str(facts.config.score).replace("_", " "))
        axes.set_xlim(0.3, len(facts.rounds) + 0.7)

    return Plot("uncertainty", "Uncertainty of held-out labels, with tau", says, draw)


def _boxes(axes: Axes, tables: list[tuple[RoundMetrics, pd.DataFrame]]) -> None:
    places = [r.number for r, _ in tables]
    scores = [t.loc[t["correct"].astype(bool), "score"].to_numpy() for _, t in tables]
    draw_boxes(axes, places, scores, 0.5)
    taus = [r.threshold if np.isfinite(r.threshold) else np.nan for r, _ in tables]
    axes.plot(places, taus, color=COLORS[1], marker="D", label="tau: accepted up to here")
    shown = places[:: 1 + len(places) // _MOST_TICKS]
    axes.set_xticks(shown, map(str, shown))
    axes.set_xlabel("round")
    axes.grid(visible=False, axis="x")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))


def dropout_plot(facts: Facts) -> Plot | None:
    """Dropout probabilities of each layer, by round; a line is the mean over nets."""
    series = [(r.number, _dropouts(r)) for r in facts.rounds if _dropouts(r).size]
    if not series:
        return None
    values = series[-1][1]
    layers = ", ".join(f"layer {k} {p:.3f}" for k, p in enumerate(values.mean(axis=0), 1))
    mean = f"each the mean of {len(values)} nets" if len(values) > 1 else "of one net"
    says = f"In the last round: {layers}, {mean}. {_began(facts.config)}"

    def draw(axes: Axes) -> None:
        for layer in range(values.shape[1]):
            mine = [(n, v[:, layer]) for n, v in series if v.shape[1] > layer]
            color, marker = COLORS[layer % len(COLORS)], MARKERS[layer % len(MARKERS)]
            means = [v.mean() for _, v in mine]
            name = f"layer {layer + 1}"
            axes.plot([n for n, _ in mine], means, color=color, marker=marker, label=name)
            for number, each in mine:
                axes.plot([number] * len(each), each, "_", color=color, alpha=0.6, markersize=9)
        axes.set_ylabel("dropout probability p")
        axes.set_ylim(bottom=0)
        round_axis(axes, len(facts.rounds))
        axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return Plot("dropout", "Learned dropout probabilities, by layer", says, draw)


def _dropouts(r: RoundMetrics) -> np.ndarray:
    """(members, layers); empty where the learner does not say."""
    members = [m["dropout"] for m in r.learner.get("members", ()) if m.get("dropout")]
    return np.array(members if len({len(m) for m in members}) == 1 else [], dtype=float)


def _began(config: Config) -> str:
    if config.mc_samples == 1:
        return "With one sample dropout is off when guessing."
    if config.dropout is Dropout.FIXED:
        return "They are fixed, not learned."
    return (
        f"They began at {config.dropout_p:g} and were learned: the more labels say about a layer, "
        "the less of it needs to be dropped."
    )


def _share(share: float) -> str:
    return percent(share) if share < 1 else "100 %"
