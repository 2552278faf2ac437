"""The adaptation study end to end on small digits, and what its verdicts say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from study_data import silently, small_digits

from surelabel.adaptation.clustering import CentroidSet
from surelabel.errors import OptionError, RunError
from surelabel.types import JsonObject
from surelabel_studies.adaptation.figures import _mark, embed
from surelabel_studies.adaptation.pairs import Pair, Sizes, draw_side, pairs_named
from surelabel_studies.adaptation.report import adaptation_table, verdicts, write_adaptation_report
from surelabel_studies.adaptation.study import AdaptationSettings, Trial, run_adaptation
from surelabel_studies.datasets.mnist import Digits

QUICK = AdaptationSettings(
    (Pair.MNIST_USPS,), 2, Sizes(100, 40, 120, 60, 80), {"steps": 15, "max_rounds": 1}
)


def turned(digits: Digits) -> Digits:
    """The same digits in white on black, as another scanner might give."""
    return replace(
        digits, train_images=255 - digits.train_images, test_images=255 - digits.test_images
    )


def data(_: Pair) -> tuple[Digits, Digits]:
    digits = small_digits()
    return digits, turned(digits)


@pytest.fixture(name="place", scope="module")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("adaptation")


@pytest.fixture(name="trials", scope="module")
def fixture_trials(place: Path) -> list[Trial]:
    patch = pytest.MonkeyPatch()
    patch.setenv("SURELABEL_CACHE", str(place / "cache"))
    return run_adaptation(QUICK, data, place / "study", silently)


def test_every_seed_is_a_trial_of_its_own(trials: list[Trial]) -> None:
    assert [(t.pair, t.seed) for t in trials] == [(Pair.MNIST_USPS, 0), (Pair.MNIST_USPS, 1)]
    for trial in trials:
        assert set(trial.accuracy) == {
            *("direct_1", "adapted_1", "few_1", "own_1", "direct_2", "adapted_2", "most_2"),
        }
        assert trial.images_per_centroid.sum() == QUICK.sizes.test
        assert not trial.images_per_centroid[~trial.joined.kept].any()
        assert trial.accuracy["direct_2"] > trial.accuracy["direct_1"]


def test_the_same_call_goes_on_and_trains_nothing_twice(trials: list[Trial], place: Path) -> None:
    weights = sorted((place / "study").rglob("weights-*.safetensors"))
    before = {path: path.stat().st_mtime_ns for path in weights}
    again = run_adaptation(QUICK, data, place / "study", silently)
    assert before
    assert before == {path: path.stat().st_mtime_ns for path in weights}
    assert [t.accuracy for t in again] == [t.accuracy for t in trials]
    longer = replace(QUICK, options={**QUICK.options, "steps": 16})
    with pytest.raises(RunError, match="steps 15, not 16"):
        run_adaptation(longer, data, place / "study", silently)
    fewer = replace(QUICK, sizes=Sizes(90, 40, 120, 60, 80))
    with pytest.raises(RunError, match="with 100 labels, not"):
        run_adaptation(fewer, data, place / "study", silently)


def test_a_report_has_tables_values_and_figures_with_captions(
    trials: list[Trial], tmp_path: Path
) -> None:
    text = write_adaptation_report(trials, QUICK, tmp_path)
    assert text == (tmp_path / "report.md").read_text()
    assert "63.8 | 76.4 |" in text
    assert "At most 100 labels of the old dataset and 120 of the new one" in text
    values = json.loads((tmp_path / "trials.json").read_text())
    assert [t["accuracy"] for t in values["mnist-usps"]] == [t.accuracy for t in trials]
    names = ("centroids-mnist-usps-3d", "centroids-mnist-usps-2d", "images-per-centroid-mnist-usps")
    for name in names:
        for kind in ("png", "svg", "txt"):
            assert (tmp_path / "figures" / f"{name}.{kind}").stat().st_size > 100
    caption = (tmp_path / "figures" / f"{names[0]}.txt").read_text()
    assert "three dimensions (perplexity" in caption


@pytest.mark.parametrize("n", [3, 8, 40])
def test_perplexity_is_below_the_number_of_centroids(n: int) -> None:
    at, perplexity = embed(np.random.default_rng(0).normal(size=(n, 5)), 3, 0)
    assert at.shape == (n, 3)
    assert perplexity < n


def made_up(**accuracy: float) -> Trial:
    usual = {"direct_1": 0.5, "adapted_1": 0.5, "few_1": 0.5, "own_1": 0.5}
    facts: JsonObject = {"gap": {"farther": 0.7}, "is_trusted": False, "k": 4, "n_excluded": 1}
    joined = CentroidSet(
        np.zeros((2, 2)), np.array([0, 1]), np.array([False, True]), np.array([True, False])
    )
    values = {**usual, "direct_2": 0.9, "adapted_2": 0.9, "most_2": 0.5, **accuracy}
    return Trial(Pair.PACKAGING, 0, "compact", values, facts, joined, ("0", "1"), np.zeros(2, int))


def test_excluded_centroids_are_black_stars() -> None:
    trial = made_up()
    assert _mark(trial, 1)["marker"] == "*"
    assert _mark(trial, 1)["color"] == "black"
    assert _mark(trial, 0)["marker"] != "*"


def test_verdicts_follow_the_figures() -> None:
    better = verdicts([made_up(adapted_1=0.6), made_up(adapted_1=0.7)])
    assert "better than direct inference (+15.0 ± 7.1 points; the paper's gain: +12.6)" in better
    assert "adapted with 65.0 %" in better
    assert "equal to direct inference (+0.0 ± 0.0 points; the paper's gain: +1.2)" in better
    worse = verdicts([made_up(own_1=0.9), made_up(own_1=0.8)])
    assert "worse than net 1 (-35.0 ± 7.1 points)" in worse
    assert "It is not the best" in worse
    assert "net 1 with 85.0 %" in worse
    mixed = verdicts([made_up(adapted_1=0.6), made_up(adapted_1=0.4)])
    assert "sometimes better, sometimes not, than direct inference" in mixed
    assert "accepted in 0 of 2 seeds" in mixed
    assert "there is little to adapt" not in mixed
    assert "no better on its own dataset" in verdicts([made_up(most_2=0.95)])
    hardly = verdicts([made_up(most_2=0.85)])
    assert "hardly better on its own dataset (90.0 %)" in hardly
    assert "(85.0 %): there is little to adapt" in hardly


def test_the_table_gives_mean_and_spread_beside_the_paper() -> None:
    table = adaptation_table([made_up(adapted_1=0.6), made_up(adapted_1=0.7)]).splitlines()
    assert table[2].startswith("| paper (private photographs) |")
    assert "| 65.0 ± 7.1 |" in table[3]


def test_labels_come_first_and_test_images_are_other_ones() -> None:
    digits = small_digits()
    side = draw_side(digits, 50, 30, 40, seed=3)
    assert len(side.images) == 80
    assert side.labels["label"].tolist() == side.truth[:50].astype(str).tolist()
    known = {image.tobytes() for image in digits.test_images}
    assert all(image.tobytes() in known for image in side.test_images)
    assert not np.array_equal(side.truth, draw_side(digits, 50, 30, 40, seed=4).truth)


def test_an_unknown_pair_is_named() -> None:
    assert pairs_named(None) == tuple(Pair)
    with pytest.raises(OptionError, match="mnist-svhn"):
        pairs_named(["mnist-svhn"])
