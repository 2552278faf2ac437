"""The tables of the adaptation study, and what they say; every sentence is computed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from surelabel.atomic import atomic_write_bytes
from surelabel.studies.adaptation import Trial, by_pair, sizes_text
from surelabel.studies.adaptation_data import Pair, Sizes
from surelabel.studies.adaptation_pictures import draw_adaptation

PAPER = {"direct_1": 0.638, "adapted_1": 0.764, "direct_2": 0.959, "adapted_2": 0.971}
"""Its private photographs; k = 7, two centroids excluded, tuned on the images it reports on."""
_COLUMNS = {
    "direct_1": "T1 direct",
    "adapted_1": "T1 adapted",
    "few_1": "T1 class means of the labels",
    "own_1": "T1 net 1",
    "direct_2": "T2 direct",
    "adapted_2": "T2 adapted",
}
_TITLES = {
    Pair.MNIST_USPS: "MNIST to USPS",
    Pair.USPS_MNIST: "USPS to MNIST",
    Pair.PACKAGING: "packaging, other locations (synthetic)",
}


def write_adaptation_report(trials: Sequence[Trial], sizes: Sizes, folder: Path) -> str:
    """Write table, verdicts and figures into ``folder``; returns table and verdicts."""
    text = f"{adaptation_table(trials)}\n{verdicts(trials, sizes)}"
    captions = draw_adaptation(trials, folder / "figures")
    shown = [f"![{name}](figures/{name}.png)\n\n{caption}\n" for name, caption in captions.items()]
    atomic_write_bytes(folder / "report.md", text.encode())
    atomic_write_bytes(folder / "figures.md", "\n".join(shown).encode())
    return text


def adaptation_table(trials: Sequence[Trial]) -> str:
    """Accuracy in percent, mean and deviation over the seeds, beside the paper's."""
    head = ["Pair", "seeds", *_COLUMNS.values(), "k", "excluded", "labels accepted"]
    paper = [f"{100 * PAPER[c]:.1f}" if c in PAPER else "" for c in _COLUMNS]
    rows = [["paper (private photographs)", "1", *paper, "7", "2", ""]]
    for pair, found in by_pair(trials).items():
        cells = [mean_and_spread([100 * t.accuracy[c] for t in found]) for c in _COLUMNS]
        trusted = sum(bool(t.facts["is_trusted"]) for t in found)
        ks = [float(t.facts["k"]) for t in found]
        excluded = [float(t.facts["n_excluded"]) for t in found]
        tail = [mean_and_spread(ks), mean_and_spread(excluded), f"{trusted} of {len(found)}"]
        rows.append([_TITLES[pair], str(len(found)), *cells, *tail])
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    note = (
        "Accuracy in %, mean and sample deviation over the seeds. T1 is the new dataset's test "
        "set, T2 the old one's; direct is the net of the old dataset as it is, net 1 the second "
        "facet, trained on less than half of the new labels. Labels accepted: in so many seeds "
        "adaptation was shown to beat direct inference and class means on held-out labels."
    )
    return f"{table}\n\n{note}\n"


def verdicts(trials: Sequence[Trial], sizes: Sizes) -> str:
    """For each pair, where it helps and where it does not."""
    lines = [_verdict(_TITLES[pair], found) for pair, found in by_pair(trials).items()]
    return "\n".join([*lines, "", sizes_text(sizes)]) + "\n"


def _verdict(title: str, trials: Sequence[Trial]) -> str:
    against = {
        "direct inference": ("adapted_1", "direct_1"),
        "class means of the new labels": ("adapted_1", "few_1"),
        "net 1, trained on a part of them": ("adapted_1", "own_1"),
        "direct inference on the old dataset": ("adapted_2", "direct_2"),
    }
    parts = []
    for other, (mine, theirs) in against.items():
        gains = [100 * (t.accuracy[mine] - t.accuracy[theirs]) for t in trials]
        word = _word(gains)
        parts.append(f"{word} {other} ({mean_and_spread(gains, sign=True)} points)")
    gap = statistics.fmean(t.facts["gap"]["farther"] for t in trials)
    return f"- **{title}** (new images farther in {100 * gap:.0f} % of pairs): {'; '.join(parts)}."


def _word(gains: Sequence[float]) -> str:
    """Better or worse in every seed, or neither."""
    if all(gain > 0 for gain in gains):
        return "better than"
    if all(gain < 0 for gain in gains):
        return "worse than"
    return "not clearly different from"


def mean_and_spread(values: Sequence[float], *, sign: bool = False) -> str:
    """``76.4 ± 1.2``; a single value stands alone."""
    mean = f"{statistics.fmean(values):{'+' if sign else ''}.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean
