"""The verdict of the packaging study on each claim, computed from its results."""

from __future__ import annotations

import math
from collections.abc import Sequence

from surelabel.config.choices import Measure
from surelabel.types import StopReason
from surelabel_studies.mnist.verdicts import Claim, Verdict
from surelabel_studies.packaging.results import (
    ALEATORIC,
    PackagingResults,
    SelfTrained,
    spearman_interval,
)
from surelabel_studies.packaging.tables import mean, pairs, signed, spread
from surelabel_studies.packaging.tasks import EXPERIMENTS

_NEAR = 5.0
"""An experiment counts as close to the paper's within this many points of accuracy."""


def packaging_verdicts(results: PackagingResults) -> str:
    """The claims with their verdicts, and the limits of the study, as Markdown."""
    lines = [f"- **{c.verdict}**: {c.text} {c.evidence}" for c in packaging_claims(results)]
    about = results.about
    seeds = sorted({run.seed for run in results.runs} | {a.seed for a in results.accuracies})
    limits = [
        f"All results are on {about.title}.",
        f"{len(seeds)} {'seed, which draws' if len(seeds) == 1 else 'seeds, which draw'} the split "
        f"and the weights; {about.steps} training steps per round, at most {about.rounds} rounds.",
        "A claim counts as seen if every seed shows it, and as contradicted if none does.",
    ]
    if "synthetic" in about.photographs:
        limits.append(
            "The photographs are drawn by a program: the results show how the method works on such "
            "images, not on the paper's photographs, which are private."
        )
    return "\n".join([*lines, "", " ".join([*limits, *results.skipped])]) + "\n"


def packaging_claims(results: PackagingResults) -> list[Claim]:
    """The claims that these results can decide."""
    judged = [_experiments(results)]
    judged += [_beats_baseline(results, model) for model in ("tau", "penalty", "top", "entropy")]
    judged += [_ranks_better(results), _penalty(results), _aleatoric(results), _left_out(results)]
    return [claim for claim in judged if claim is not None]


def verdict_of(signs: Sequence[float]) -> Verdict:
    """The verdict on a claim that all differences are above 0; a nan leaves it undecided."""
    if not signs:
        return Verdict.UNDECIDED
    if all(value > 0 for value in signs):
        return Verdict.SHOWN
    return Verdict.CONTRADICTED if all(value < 0 for value in signs) else Verdict.UNDECIDED


def both(one: Verdict, two: Verdict) -> Verdict:
    """The verdict on a claim with two parts."""
    if one is two:
        return one
    return Verdict.PARTLY if Verdict.SHOWN in (one, two) else Verdict.UNDECIDED


def _experiments(results: PackagingResults) -> Claim | None:
    gaps = {}
    for experiment in EXPERIMENTS:
        mine = [a for a in results.accuracies if a.key == experiment.key]
        if mine:
            gap = 100 * (mean([a.accuracy for a in mine]) - experiment.paper_accuracy)
            gaps[f"{experiment.name} on {experiment.like}"] = gap
    if not gaps:
        return None
    near = [name for name, gap in gaps.items() if gap > -_NEAR]
    verdict = Verdict.SHOWN if len(near) == len(gaps) else Verdict.PARTLY
    listed = "; ".join(f"{name} {gap:+.1f}" for name, gap in gaps.items())
    return Claim(
        f"the features of a net that was trained on other photographs are enough for experiments "
        f"1 to 3 (no more than {_NEAR:.0f} points below the paper's accuracy).",
        verdict if near else Verdict.CONTRADICTED,
        f"{len(near)} of {len(gaps)}; points against the paper: {listed}.",
    )


def _beats_baseline(results: PackagingResults, model: str) -> Claim | None:
    matched = pairs(results, model, "baseline")
    if not matched:
        return None
    own = [one.kappa - two.kappa for one, two, _ in matched]
    equal = [one.kappa_of_first(n) - two.kappa_of_first(n) for one, two, n in matched]
    counts = ", ".join(f"{n:,}" for _, _, n in matched)
    return Claim(
        f"the Bayesian run ({results.title(model)}) has a higher kappa than the deterministic one.",
        both(verdict_of(own), verdict_of(equal)),
        f"{_ended(matched)} {_differences(own)}; with equal numbers accepted ({counts}) "
        f"{_differences(equal)}.",
    )


def _ranks_better(results: PackagingResults) -> Claim | None:
    mine = {(one.model, one.seed): one.aurc for one in results.rankings}
    seeds = sorted(seed for model, seed in mine if model == "baseline" and ("tau", seed) in mine)
    if not seeds:
        return None
    plain, score = str(Measure.LEAST_CONFIDENCE), str(Measure.TOTAL_VARIANCE)
    base = [mine["baseline", seed][plain] for seed in seeds]
    net = [one - mine["tau", seed][plain] for one, seed in zip(base, seeds, strict=True)]
    paper = [one - mine["tau", seed][score] for one, seed in zip(base, seeds, strict=True)]
    return Claim(
        "the Bayesian net of round 1 ranks its predictions better than the deterministic one, by "
        "the paper's score and by plain confidence.",
        both(verdict_of(paper), verdict_of(net)),
        f"AURC of the deterministic net minus that of the Bayesian net: by the paper's score "
        f"{_differences(paper)}; by confidence {_differences(net)}.",
    )


def _penalty(results: PackagingResults) -> Claim | None:
    matched = pairs(results, "penalty", "tau")
    if not matched:
        return None
    own = [one.kappa - two.kappa for one, two, _ in matched]
    equal = [one.kappa_of_first(n) - two.kappa_of_first(n) for one, two, n in matched]
    signs = [verdict_of([_or_more(value) for value in values]) for values in (own, equal)]
    return Claim(
        "the entropy penalty does not lower kappa.",
        both(*signs),
        f"{_ended(matched)} {_differences(own)}; with equal numbers accepted "
        f"{_differences(equal)}.",
    )


def _or_more(value: float) -> float:
    """0 counts as above 0, because kappa only has to be not lower."""
    return math.inf if value == 0 else value


def _ended(matched: Sequence[tuple[SelfTrained, SelfTrained, int]]) -> str:
    """When the runs are compared: at their end, which for some is the limit on rounds."""
    runs = [run for one, two, _ in matched for run in (one, two)]
    cut = [run for run in runs if run.stop_reason == str(StopReason.ROUND_LIMIT)]
    if not cut:
        return "When they ended"
    limits = " or ".join(map(str, sorted({run.n_rounds for run in cut})))
    some = "some " if len(cut) < len(runs) else ""
    return f"When they ended ({some}at the limit of {limits} rounds)"


def _differences(gaps: Sequence[float]) -> str:
    each = ", ".join("no figure" if math.isnan(gap) else f"{gap:+.4f}" for gap in gaps)
    return f"the difference is {each}"


def _aleatoric(results: PackagingResults) -> Claim | None:
    if not results.ranks:
        return None
    first = [r for r in results.ranks if r.measure == str(ALEATORIC[0])]
    sure = []
    for r in first:
        low, high = spearman_interval(r.everywhere, r.n)
        sure.append(1.0 if low > 0 else -1.0 if high < 0 else math.nan)
    parts = []
    for measure in ALEATORIC:
        mine = [r for r in results.ranks if r.measure == str(measure)]
        parts.append(
            f"{measure}: {', '.join(signed(r.everywhere) for r in mine)} over all, "
            f"{', '.join(signed(r.readable) for r in mine)} among the readable, "
            f"{', '.join(signed(r.unreadable) for r in mine)} among the unreadable, "
            f"{', '.join(signed(r.boundary) for r in mine)} with closeness to the boundary"
        )
    return Claim(
        "the aleatoric measure rises with the recorded difficulty of the faults.",
        verdict_of(sure),
        f"Rank correlation by seed, {'; '.join(parts)}. A photograph far beyond the boundary is "
        "plainly unreadable, so only below it should a harder one be harder to judge.",
    )


def _left_out(results: PackagingResults) -> Claim | None:
    if not results.left_out:
        return None
    seeds = sorted({one.seed for one in results.left_out})
    by_seed = [mean([o.auroc for o in results.left_out if o.seed == s]) - 0.5 for s in seeds]
    above = sum(one.auroc > 0.5 for one in results.left_out)
    gains = [one.auroc - one.auroc_known for one in results.left_out]
    raised = sum(gain > 0 for gain in gains)
    return Claim(
        "mutual information is higher on a location without training labels than on the others.",
        verdict_of(by_seed),
        f"AUROC {spread([one.auroc for one in results.left_out], 3)}, above .5 in {above} of "
        f"{len(results.left_out)} cases; with labels of all locations it is "
        f"{spread([one.auroc_known for one in results.left_out], 3)}, so leaving the location out "
        f"raised it in {raised} of {len(gains)}.",
    )
