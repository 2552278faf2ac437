"""Figures and verdicts of the packaging study, from results that are known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surelabel.errors import InputError, OptionError
from surelabel_studies.mnist.verdicts import Verdict
from surelabel_studies.packaging.figures import draw_packaging
from surelabel_studies.packaging.paper import RUNS, weighted_average
from surelabel_studies.packaging.results import (
    RANKING,
    About,
    Accuracy,
    LeftOut,
    PackagingResults,
    Ranking,
    Ranks,
    SelfTrained,
    auroc,
    class_figures,
    confusion,
    kappa,
    ranking,
    ranks,
    read_study,
    spearman,
    spearman_interval,
)
from surelabel_studies.packaging.study import PackagingSettings, Part, parts_named, runs_named
from surelabel_studies.packaging.tables import spread, tables
from surelabel_studies.packaging.verdicts import both, packaging_verdicts, verdict_of
from surelabel_studies.use_by_dates.sets import Like

ABOUT = About(
    "synthetic photographs, scale 0.1", "toy", "toy weights", "0123456789", "small", 20, 9
)


def labels(truth: str, label: str) -> pd.DataFrame:
    names = {"o": "OK", "n": "NOT-OK"}
    return pd.DataFrame({"truth": [names[t] for t in truth], "label": [names[t] for t in label]})


def run_of(model: str, seed: int, truth: str, label: str) -> SelfTrained:
    return SelfTrained(model, seed, 100, 3, "none_accepted", 1.0, labels(truth, label))


def test_kappa_is_cohens() -> None:
    assert kappa(labels("oonn", "oonn")) == 1
    assert kappa(labels("oonn", "onon")) == 0
    assert kappa(labels("oooonnnn", "ooonnnno")) == pytest.approx(0.5)
    assert math.isnan(kappa(labels("", "")))
    assert run_of("tau", 0, "oonno", "oonnn").kappa_of_first(4) == 1


def test_classes_and_confusion_are_counted_by_truth() -> None:
    table = labels("ooon", "oonn")
    figures = class_figures(table)
    assert (figures["OK"].precision, figures["OK"].n) == (1, 3)
    assert figures["OK"].recall == pytest.approx(2 / 3)
    assert figures["NOT-OK"].precision == 0.5
    np.testing.assert_allclose(confusion([table]), np.array([[1, 0], [1 / 3, 2 / 3]]))
    assert np.isnan(confusion([labels("o", "o")])[0]).all()
    assert class_figures(labels("", ""))["OK"].n == 0


def example_results(gap: bool = True) -> PackagingResults:
    """Bayesian runs that are right where the baseline is not, or the other way round."""
    good, bad = ("oonn", "oonn"), ("oonnon", "onnooo")
    one, two = (good, bad) if gap else (bad, good)
    runs = [run_of(model, seed, *one) for model in ("tau", "penalty", "top") for seed in (0, 1)]
    runs += [run_of("baseline", seed, *two) for seed in (0, 1)]
    results = PackagingResults(
        ABOUT, {Like.SET1: pd.DataFrame({"category": ["complete", "no-date"]})}
    )
    results.runs = runs
    results.accuracies = [
        Accuracy("experiment-1-set1", s, {"OK": 6, "NOT-OK": 5}, 4, 0.9, 0.5) for s in (0, 1)
    ]
    areas = {"baseline": 0.2, "tau": 0.1 if gap else 0.3}
    results.rankings = [
        Ranking(model, 0, 0.4, {str(measure): area for measure in RANKING})
        for model, area in areas.items()
    ]
    rho = 0.4 if gap else -0.4
    results.ranks = [Ranks("aleatoric_variance", 0, 200, rho, 0.5, -0.3, 0.6)]
    results.left_out = [LeftOut("dairy", s, 9, 0.5 + rho / 2, 0.5) for s in (0, 1)]
    return results


def test_every_table_names_synthetic_photographs_and_weights() -> None:
    titles = [line for line in tables(example_results()).splitlines() if line.startswith("###")]
    assert len(titles) == 8
    for title in titles:
        assert "synthetic" in title
        assert "toy weights (01234567)" in title


def test_experiments_of_another_study_stand_beside(tmp_path: Path) -> None:
    other = example_results()
    other.about = replace(ABOUT, net="other", tail="detail", steps=3000)
    other.accuracies = [replace(other.accuracies[0], accuracy=0.955)]
    file = tmp_path / "other" / "report" / "results.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(other.to_json()), encoding="utf-8")
    results = example_results()
    assert "beside" not in tables(results)
    results.beside = [read_study(tmp_path / "other")]
    text = tables(results).split("beside that of other studies")[1].split("###")[0]
    header, _, row = text.strip().splitlines()[2:5]
    assert [cell.strip() for cell in header.split("|")][-3:-1] == [
        "toy, tail small, 9 steps",
        "other, tail detail, 3,000 steps",
    ]
    assert [cell.strip() for cell in row.split("|")][-4:-1] == ["90.1", "90.0", "95.5"]


@pytest.mark.parametrize("content", [None, "no JSON", "[]", "{}", '{"experiments": 3}'])
def test_a_folder_without_a_finished_study_cannot_stand_beside(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "report" / "results.json"
    if content is not None:
        file.parent.mkdir()
        file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"results\.json"):
        read_study(tmp_path)


def test_the_average_is_by_number_of_images() -> None:
    average = weighted_average(RUNS["penalty"].classes)
    assert (average.precision, average.recall) == pytest.approx((0.9494, 0.9496), abs=1.5e-4)
    assert average.n == 456
    assert math.isnan(weighted_average(class_figures(labels("", ""))).f1)


def test_the_papers_figures_are_next_to_ours() -> None:
    text = tables(example_results())
    assert "| average |" in text
    assert "| 645, 645" in text
    assert ".8891" in text
    assert "375 / 1" in text
    row = next(line for line in text.splitlines() if line.startswith("| deterministic, p > .999"))
    assert ".6964" in row
    assert "902" in row


def test_verdicts_follow_the_figures() -> None:
    for gap, word in ((True, "Seen here too"), (False, "Contradicted here")):
        lines = packaging_verdicts(example_results(gap)).splitlines()
        compared = [line for line in lines if "than the deterministic one" in line]
        assert len(compared) == 4
        assert all(line.startswith(f"- **{word}**") for line in compared)
        others = [
            line for line in lines if "aleatoric measure" in line or "mutual information" in line
        ]
        assert len(others) == 2
        assert all(line.startswith(f"- **{word}**") for line in others)
    assert "no more than 5 points" in packaging_verdicts(example_results())


def test_seeds_that_disagree_show_nothing() -> None:
    assert verdict_of([0.1, -0.1]) is Verdict.UNDECIDED
    for unknown in ([], [math.nan], [math.nan, math.nan, 0.1], [-0.1, math.nan]):
        assert verdict_of(unknown) is Verdict.UNDECIDED
    assert both(Verdict.SHOWN, Verdict.CONTRADICTED) is Verdict.PARTLY
    assert both(Verdict.SHOWN, Verdict.SHOWN) is Verdict.SHOWN
    for parts in (
        (Verdict.CONTRADICTED, Verdict.UNDECIDED),
        (Verdict.UNDECIDED, Verdict.CONTRADICTED),
    ):
        assert both(*parts) is Verdict.UNDECIDED
    assert spread([1.0, 3.0], 1) == "2.0 (1.0 to 3.0)"
    assert spread([2.0, math.nan], 1) == "2.0"


def test_ranks_and_areas_have_their_closed_forms() -> None:
    paths = [f"{i}" for i in range(10)]
    hard = pd.Series(np.linspace(0.05, 0.95, 10), index=paths)
    near = -np.abs(hard - 0.5)
    seen = pd.DataFrame({"aleatoric_variance": near, "expected_entropy": hard})
    by_noise, by_entropy = ranks(0, seen, hard)
    assert (by_noise.readable, by_noise.unreadable, by_noise.boundary) == pytest.approx((1, -1, 1))
    assert by_entropy.everywhere == pytest.approx(1)
    assert math.isnan(spearman(np.ones(3), np.arange(3)))
    low, high = spearman_interval(0.0, 103)
    assert (low, high) == pytest.approx((-math.tanh(0.196), math.tanh(0.196)))
    places = pd.Series(["a"] * 5 + ["b"] * 5, index=paths)
    predicted = pd.DataFrame({"mutual_information": np.arange(10.0)}, index=pd.Index(paths))
    assert (auroc(predicted, places, "b"), auroc(predicted, places, "a")) == (1, 0)
    assert math.isnan(auroc(predicted, places, "c"))


def test_a_measure_is_worth_how_it_ranks_what_is_wrong() -> None:
    paths = ["a", "b", "c", "d"]
    truth = pd.Series(["OK", "OK", "NOT-OK", "OK"], index=paths)
    up, down = np.arange(4.0), -np.arange(4.0)
    values = {str(measure): up for measure in RANKING} | {"aleatoric_variance": down}
    seen = pd.DataFrame({"guess": [0, 0, 1, 1], **values}, index=pd.Index(paths))
    ranked = ranking("tau", 3, seen, ("OK", "NOT-OK"), truth)
    assert (ranked.model, ranked.seed, ranked.error) == ("tau", 3, 0.25)
    assert ranked.aurc["total_variance"] == pytest.approx((0 + 0 + 0 + 1 / 4) / 4)
    assert ranked.aurc["aleatoric_variance"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


def test_the_matrices_are_of_the_runs_there_are(tmp_path: Path) -> None:
    some = PackagingResults(
        ABOUT, {Like.SET1: pd.DataFrame({"category": ["complete"], "day": [math.nan]})}
    )
    some.runs = [run_of("tau", 0, "oonn", "oonn")]
    assert "confusion" in draw_packaging(some, tmp_path)
    assert (tmp_path / "confusion.png").stat().st_size > 5_000


def test_what_has_no_figure_is_null_in_json() -> None:
    some = example_results()
    some.runs = [run_of("tau", 0, "", ""), run_of("tau", 1, "oo", "oo")]
    some.left_out = [LeftOut("dairy", 0, 0, math.nan, math.nan)]
    plain = json.loads(json.dumps(some.to_json(), allow_nan=False))
    assert plain["self_training"][0]["kappa"] is None
    assert plain["self_training"][1]["classes"]["NOT-OK"]["recall"] is None
    assert plain["left_out_locations"][0]["auroc"] is None
    assert plain["experiments"][0]["accuracy"] == 0.9


def test_the_limit_on_rounds_is_mentioned() -> None:
    some = example_results()
    assert "limit" not in packaging_verdicts(some)
    some.runs = [replace(run, stop_reason="round_limit") for run in some.runs]
    verdicts = packaging_verdicts(some)
    assert verdicts.count("When they ended (at the limit of 3 rounds) the difference is") == 4
    some.runs[-1] = run_of("baseline", 1, "oonnon", "onnooo")
    assert "When they ended (some at the limit of 3 rounds)" in packaging_verdicts(some)


def test_titles_have_the_number_of_labels_per_round() -> None:
    some = example_results()
    some.sets[Like.SET4] = pd.DataFrame({"category": ["complete"] * 1395})
    for text in (tables(some), packaging_verdicts(some)):
        assert "top 50 per round" in text
        assert "top 500" not in text


def test_own_photographs_have_no_scale() -> None:
    with pytest.raises(OptionError, match="--scale is for synthetic photographs"):
        PackagingSettings(scale=0.5, photos=Path("mine"))
    assert PackagingSettings().rendered == 1


def test_runs_are_named_and_only_their_photographs_are_needed() -> None:
    one = PackagingSettings(only=runs_named(["experiment-2-set2"]), parts=(Part.EXPERIMENTS,))
    assert [experiment.key for experiment in one.experiments] == ["experiment-2-set2"]
    assert (one.models, one.likes) == ((), [Like.SET2])
    two = PackagingSettings(only=runs_named(["baseline"]), parts=(Part.SELF_TRAINING,))
    assert (two.experiments, two.models, two.likes) == ((), ("baseline",), [Like.SET4])
    # Locations are left out where tau is asked for, with which they are compared.
    assert not PackagingSettings(only=runs_named(["baseline"])).leaves_out
    assert PackagingSettings(only=runs_named(["experiment-2-set2"])).likes == [Like.SET2]
    three = PackagingSettings(parts=(Part.LOCATIONS,))
    assert (three.models, three.leaves_out) == (("tau",), True)
    with pytest.raises(OptionError, match="--only can be experiment-1-set1"):
        runs_named(["experiment 1"])


def test_parts_are_named() -> None:
    assert parts_named(None) == tuple(Part)
    assert parts_named(["locations"]) == (Part.LOCATIONS,)
    with pytest.raises(OptionError, match="--part can be experiments, self-training, locations"):
        parts_named(["experiment"])
