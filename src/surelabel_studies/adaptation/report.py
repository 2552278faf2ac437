"""The tables and verdicts of the adaptation study, computed from its results."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from surelabel.files.atomic import atomic_write_bytes
from surelabel_studies.adaptation.figures import draw_adaptation
from surelabel_studies.adaptation.pairs import Pair
from surelabel_studies.adaptation.study import (
    AdaptationSettings,
    Trial,
    by_pair,
    sizes_text,
    to_json,
)

PAPER = {"direct_1": 0.638, "adapted_1": 0.764, "direct_2": 0.959, "adapted_2": 0.971}
"""On its private photographs: k = 7, two centroids excluded, tuned on the test images."""
_COLUMNS = {
    "direct_1": "T1 direct",
    "adapted_1": "T1 adapted",
    "few_1": "T1 centroids of the labels",
    "own_1": "T1 net 1",
    "direct_2": "T2 direct",
    "adapted_2": "T2 adapted",
}
_WEAK_MARGIN = 0.1
"""A net that beats the most frequent class by less than this has little to adapt."""
_TITLES = {
    Pair.MNIST_USPS: "MNIST to USPS",
    Pair.USPS_MNIST: "USPS to MNIST",
    Pair.PACKAGING: "packaging, other locations (synthetic)",
}


def write_adaptation_report(
    trials: Sequence[Trial], settings: AdaptationSettings, folder: Path
) -> str:
    """Write table, verdicts, figures and all values; returns the table and verdicts."""
    text = f"{adaptation_table(trials)}\n{verdicts(trials)}\n{sizes_text(settings)}\n"
    captions = draw_adaptation(trials, folder / "figures")
    shown = [f"![{name}](figures/{name}.png)\n\n{caption}\n" for name, caption in captions.items()]
    atomic_write_bytes(folder / "report.md", text.encode())
    atomic_write_bytes(folder / "figures.md", "\n".join(shown).encode())
    atomic_write_bytes(folder / "trials.json", json.dumps(to_json(trials), indent=1).encode())
    return text


def adaptation_table(trials: Sequence[Trial]) -> str:
    """Accuracy in percent, mean and standard deviation over the seeds, next to the paper's."""
    head = ["Pair", "net", "seeds", *_COLUMNS.values(), "k", "excluded", "labels accepted"]
    paper = [f"{100 * PAPER[c]:.1f}" if c in PAPER else "" for c in _COLUMNS]
    rows = [["paper (private photographs)", "", "1", *paper, "7", "2", ""]]
    for pair, group in by_pair(trials).items():
        cells = [mean_and_spread([100 * t.accuracy[c] for t in group]) for c in _COLUMNS]
        trusted = sum(bool(t.facts["is_trusted"]) for t in group)
        ks = [float(t.facts["k"]) for t in group]
        excluded = [float(t.facts["n_excluded"]) for t in group]
        tail = [mean_and_spread(ks), mean_and_spread(excluded), f"{trusted} of {len(group)}"]
        rows.append([_TITLES[pair], group[0].net, str(len(group)), *cells, *tail])
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    note = (
        "Accuracy in %, mean and sample standard deviation over the seeds. T1 is the test set of "
        "the new dataset, T2 that of the old one. Direct is the unchanged net of the old dataset; "
        "net 1 is a net trained on less than half of the new labels. Labels accepted: the number "
        "of seeds in which adaptation was shown, on held-out labels, to beat both direct inference "
        "and centroids of the labels."
    )
    return f"{table}\n\n{note}\n"


def verdicts(trials: Sequence[Trial]) -> str:
    """For each pair, whether adaptation helps."""
    lines = [_verdict(pair, group) for pair, group in by_pair(trials).items()]
    return "\n".join(lines) + "\n"


def _verdict(pair: Pair, trials: Sequence[Trial]) -> str:
    gap = statistics.fmean(t.facts["gap"]["farther"] for t in trials)
    new = [
        _against(trials, "direct_1", "direct inference"),
        _against(trials, "few_1", "centroids of the new labels alone"),
        _against(trials, "own_1", "net 1"),
    ]
    old = _against(trials, "direct_2", "direct inference")
    means = {c: statistics.fmean(t.accuracy[c] for t in trials) for c in _COLUMNS if c[-1] == "1"}
    best = max(means, key=lambda column: means[column])
    helped = "It is" if best == "adapted_1" else "It is not"
    trusted = sum(bool(t.facts["is_trusted"]) for t in trials)
    learned, most = (
        statistics.fmean(t.accuracy[c] for t in trials) for c in ("direct_2", "most_2")
    )
    hardly = "hardly" if learned > most else "no"
    little = (
        f" The net is {hardly} better on its own dataset ({100 * learned:.1f} %) than always "
        f"predicting the most frequent class ({100 * most:.1f} %): there is little to adapt."
    )
    return (
        f"- **{_TITLES[pair]}** (a new image is farther away in {100 * gap:.0f} of 100 pairs). On "
        f"the new dataset adaptation is {'; '.join(new)}. {helped} the best method there: on "
        f"average that is {_COLUMNS[best].removeprefix('T1 ')} with {100 * means[best]:.1f} %. On "
        f"the old dataset it is {old}. Its labels were accepted in {trusted} of {len(trials)} "
        f"seeds."
        f"{little if learned < most + _WEAK_MARGIN else ''}"
    )


def _against(trials: Sequence[Trial], column: str, other: str) -> str:
    """How adaptation compares with another method on the same test images, and in the paper."""
    mine = f"adapted_{column[-1]}"
    gains = [100 * (t.accuracy[mine] - t.accuracy[column]) for t in trials]
    paper = ""
    if column in PAPER:
        paper = f"; the paper's gain: {100 * (PAPER[mine] - PAPER[column]):+.1f}"
    return f"{_comparison(gains)} {other} ({mean_and_spread(gains, sign=True)} points{paper})"


def _comparison(gains: Sequence[float]) -> str:
    """Better or worse in every seed, or neither."""
    if all(gain > 0 for gain in gains):
        return "better than"
    if all(gain < 0 for gain in gains):
        return "worse than"
    return "sometimes better, sometimes not, than" if any(gains) else "equal to"


def mean_and_spread(values: Sequence[float], *, sign: bool = False) -> str:
    """Mean and sample standard deviation, such as ``76.4 ± 1.2``; one value has no deviation."""
    mean = f"{statistics.fmean(values):{'+' if sign else ''}.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean
