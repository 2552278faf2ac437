"""The tables and verdicts of the adaptation study, computed from its results."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from surelabel.adaptation.comparison import CHOSEN
from surelabel.adaptation.ways import ALONE, CLUSTERING, DIRECT
from surelabel.files.atomic import atomic_write_bytes
from surelabel_studies.adaptation.figures import draw_adaptation, mean_of
from surelabel_studies.adaptation.pairs import TITLES, Pair
from surelabel_studies.adaptation.study import AT_RANDOM, TO_ADAPT, Trial, by_pair, to_json

PAPER = {"direct_1": 0.638, "adapted_1": 0.764, "direct_2": 0.959, "adapted_2": 0.971}
"""On its private photographs: k = 7, two centroids excluded, tuned on the test images."""
_JUDGED = "100"
"""The number of labels that the verdicts are about."""
_WEAK_MARGIN = 0.1
"""A head that beats the most frequent class by less than this has little to adapt."""


def write_adaptation_report(trials: Sequence[Trial], folder: Path) -> str:
    """Write tables, verdicts, figures and all values; returns tables and verdicts."""
    text = f"{adaptation_tables(trials)}\n{verdicts(trials)}"
    captions = draw_adaptation(trials, folder / "figures")
    shown = [f"![{name}](figures/{name}.png)\n\n{caption}\n" for name, caption in captions.items()]
    atomic_write_bytes(folder / "report.md", text.encode())
    atomic_write_bytes(folder / "figures.md", "\n".join(shown).encode())
    atomic_write_bytes(folder / "trials.json", json.dumps(to_json(trials), indent=1).encode())
    return text


def adaptation_tables(trials: Sequence[Trial]) -> str:
    """By pair: accuracy in percent by way and number of labels, and AURC where it is judged."""
    parts = []
    for pair, group in by_pair(trials).items():
        counts = list(dict.fromkeys(row.count for row in group[0].rows))
        ways = list(dict.fromkeys(row.way for row in group[-1].rows if row.count == counts[-1]))
        judged = _JUDGED if _JUDGED in counts else counts[-1]
        head = [TITLES[pair], *counts, f"AURC x 100 with {judged}"]
        rows = []
        for way in ways:
            cells = [_cell(group, count, way, "accuracy") for count in counts]
            rows.append([way, *cells, _cell(group, judged, way, "aurc")])
        lines = [head, ["---"] * len(head), *rows]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")
    note = (
        "Accuracy in % on the images whose labels are not shown, by number of labels of the new "
        "dataset; mean and sample standard deviation over the seeds."
    )
    return "\n".join([*parts, note, ""])


def verdicts(trials: Sequence[Trial]) -> str:
    """For each pair, what the old dataset is worth, and whether the paper's way helps."""
    lines = [_verdict(pair, group) for pair, group in by_pair(trials).items()]
    return "\n".join(lines) + "\n"


def labels_saved(trials: Sequence[Trial], count: str) -> tuple[float, float] | None:
    """The number of labels alone that are as good as the chosen way with ``count`` of them.

    Interpolated between the numbers that were tried, on a log scale; the second number is how many
    labels ``count`` stands for. The first is inf where no number that was tried is enough.
    """
    reached = mean_of(trials, count, CHOSEN)
    given = [row.n_labels for row in trials[0].rows if row.count == count]
    tried = sorted({(r.n_labels, r.count) for r in trials[0].rows if r.way == ALONE.name})
    points = [(n, mean_of(trials, c, ALONE.name)) for n, c in tried]
    known = [(n, accuracy) for n, accuracy in points if accuracy is not None]
    if reached is None or not known:
        return None
    numbers, best = [n for n, _ in known], np.maximum.accumulate([a for _, a in known])
    if reached > best[-1]:
        return float("inf"), float(given[0])
    return float(np.exp(np.interp(reached, best, np.log(numbers)))), float(given[0])


def _verdict(pair: Pair, trials: Sequence[Trial]) -> str:
    counts = [row.count for row in trials[0].rows if row.way == CHOSEN]
    count = _JUDGED if _JUDGED in counts else counts[-1]
    singles = {r.way for r in trials[0].rows if r.count == count and r.way != CHOSEN}
    means = {way: mean_of(trials, count, way) or 0.0 for way in singles}
    best = max(means, key=lambda way: means[way])
    gap = statistics.fmean(t.farther for t in trials)
    n, saved = trials[0].value(count, CHOSEN, "n_labels"), labels_saved(trials, count)
    text = (
        f"- **{TITLES[pair]}** (a new image is farther away in {100 * gap:.0f} of 100 pairs). With "
        f"{n:.0f} labels the way that is chosen is {_against(trials, count, DIRECT.name)}; "
        f"{_against(trials, count, ALONE.name)}; the best single way is {best}, "
        f"{mean_and_spread(_gains(trials, count, best), sign=True)} points for the chosen one."
    )
    if saved is not None:
        enough = "more than was tried" if saved[0] == float("inf") else f"about {saved[0]:.0f}"
        text += f" As many right labels without the old dataset need {enough}."
    draws = [100 * (t.drawn[TO_ADAPT] - t.drawn[AT_RANDOM]) for t in trials]
    text += (
        " 100 labels of images that surelabel draw --adapt-from picks instead of random ones: "
        f"{mean_and_spread(draws, sign=True)} points."
    )
    learned, most = (
        statistics.fmean(t.old_test[name] for t in trials) for name in ("direct", "most frequent")
    )
    if learned < most + _WEAK_MARGIN:
        text += (
            f" The old labels hardly teach the task: {100 * learned:.1f} % are right on T2, the "
            f"most frequent class alone gives {100 * most:.1f} %."
        )
    return f"{text}\n{_paper_verdict(trials, counts[-1])}"


def _paper_verdict(trials: Sequence[Trial], count: str) -> str:
    """The paper's claims: +12.6 points on the new dataset (T1), +1.2 on the old one (T2)."""
    new = _differences(trials, count, CLUSTERING.name, DIRECT.name)
    alone = _differences(trials, count, CLUSTERING.name, ALONE.name)
    old = [100 * (t.old_test["clustering"] - t.old_test["direct"]) for t in trials]
    claims = [100 * (PAPER[f"adapted_{i}"] - PAPER[f"direct_{i}"]) for i in (1, 2)]
    return (
        f"  The paper's clustering, with {count} labels: {mean_and_spread(new, sign=True)} points "
        f"over direct inference (paper: {claims[0]:+.1f}) and "
        f"{mean_and_spread(alone, sign=True)} over the new labels alone; on the old dataset "
        f"{mean_and_spread(old, sign=True)} (paper: {claims[1]:+.1f})."
    )


def _against(trials: Sequence[Trial], count: str, other: str) -> str:
    gains = _gains(trials, count, other)
    return f"{_comparison(gains)} {other} ({mean_and_spread(gains, sign=True)} points)"


def _gains(trials: Sequence[Trial], count: str, other: str) -> list[float]:
    """In points, of the chosen way over another, by seed."""
    return _differences(trials, count, CHOSEN, other)


def _differences(trials: Sequence[Trial], count: str, way: str, other: str) -> list[float]:
    pairs = [(t.value(count, way), t.value(count, other)) for t in trials]
    return [100 * (a - b) for a, b in pairs if a is not None and b is not None]


def _comparison(gains: Sequence[float]) -> str:
    """Better or worse in every seed, or neither."""
    if all(gain > 0 for gain in gains):
        return "better than"
    if all(gain < 0 for gain in gains):
        return "worse than"
    return "sometimes better, sometimes not, than" if any(gains) else "equal to"


def _cell(trials: Sequence[Trial], count: str, way: str, name: str) -> str:
    values = [trial.value(count, way, name) for trial in trials]
    known = [100 * value for value in values if value is not None]
    return mean_and_spread(known) if known else ""


def mean_and_spread(values: Sequence[float], *, sign: bool = False) -> str:
    """Mean and sample standard deviation, such as ``76.4 ± 1.2``; one value has no deviation."""
    mean = f"{statistics.fmean(values):{'+' if sign else ''}.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean
