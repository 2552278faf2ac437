"""The adaptation study end to end on small digits, and what its verdicts say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from study_data import silently, small_digits

from surelabel.adaptation.clustering import CentroidSet
from surelabel.adaptation.comparison import CHOSEN
from surelabel.adaptation.label_curve import CurvePoint
from surelabel.adaptation.ways import ALONE, CLUSTERING, DIRECT, WAYS
from surelabel.errors import InputError, OptionError, RunError
from surelabel.report.adaptation_plots import centroid_mark, embed
from surelabel_studies.adaptation.pairs import (
    Pair,
    PairData,
    Places,
    Side,
    pairs_named,
    source_of,
)
from surelabel_studies.adaptation.report import (
    labels_saved,
    verdicts,
    write_adaptation_report,
)
from surelabel_studies.adaptation.study import (
    AdaptationSettings,
    Trial,
    run_adaptation,
)

QUICK = AdaptationSettings((Pair.MNIST_USPS,), 2, ("0", "2 per class", "100"))


def data(_: Pair) -> PairData:
    """Digits by their pixels, and others in white on black, as another scanner might give."""
    digits = small_digits()
    pixels = digits.train_images.reshape(len(digits.train_images), -1).astype(np.float32)
    old, new = slice(0, 400), slice(400, 800)
    return PairData(
        Side(pixels[old], digits.train_labels[old]),
        Side(255 - 0.5 * pixels[new], digits.train_labels[new]),
        tuple(map(str, range(10))),
    )


@pytest.fixture(name="place", scope="module")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("adaptation")


@pytest.fixture(name="trials", scope="module")
def fixture_trials(place: Path) -> list[Trial]:
    return run_adaptation(QUICK, data, place / "study", silently)


def test_every_seed_is_a_trial_with_every_way(trials: list[Trial]) -> None:
    assert [(t.pair, t.seed) for t in trials] == [(Pair.MNIST_USPS, 0), (Pair.MNIST_USPS, 1)]
    for trial in trials:
        shown = {row.way for row in trial.rows if row.count == "100"}
        assert shown == {*(way.name for way in WAYS), CHOSEN}
        unlabeled = {row.way for row in trial.rows if row.count == "0"}
        assert unlabeled == {way.name for way in WAYS if not way.needs_labels}
        assert [r.n_labels for r in trial.rows if r.way == ALONE.name] == [20, 100]
        assert trial.images_per_centroid.sum() == 300
        assert not trial.images_per_centroid[~trial.joined.kept].any()
        chosen, alone = trial.value("100", CHOSEN), trial.value("100", ALONE.name)
        assert chosen is not None
        assert alone is not None
        assert chosen > alone - 0.03
        assert trial.old_test["direct"] > 0.8
        assert min(trial.drawn.values()) > 0.6


def test_the_same_call_goes_on_and_computes_nothing_twice(trials: list[Trial], place: Path) -> None:
    def nothing(_: Pair) -> PairData:
        raise AssertionError

    again = run_adaptation(QUICK, nothing, place / "study", silently)
    assert [t.rows for t in again] == [t.rows for t in trials]
    assert np.array_equal(again[0].joined.kept, trials[0].joined.kept)
    with pytest.raises(RunError, match="other settings"):
        run_adaptation(replace(QUICK, net="lite2"), nothing, place / "study", silently)


def test_a_report_has_tables_values_and_figures_with_captions(
    trials: list[Trial], tmp_path: Path
) -> None:
    text = write_adaptation_report(trials, tmp_path)
    assert text == (tmp_path / "report.md").read_text()
    values = json.loads((tmp_path / "trials.json").read_text())
    assert [len(t["rows"]) for t in values["mnist-usps"]] == [len(t.rows) for t in trials]
    for name in ("labels-mnist-usps", "centroids-mnist-usps-3d", "centroids-mnist-usps-2d"):
        for kind in ("png", "svg", "txt"):
            assert (tmp_path / "figures" / f"{name}.{kind}").stat().st_size > 100
    caption = (tmp_path / "figures" / "centroids-mnist-usps-3d.txt").read_text()
    assert "three dimensions (perplexity" in caption


@pytest.mark.parametrize("n", [3, 8, 40])
def test_perplexity_is_below_the_number_of_centroids(n: int) -> None:
    at, perplexity = embed(np.random.default_rng(0).normal(size=(n, 5)), 3, 0)
    assert at.shape == (n, 3)
    assert perplexity < n


def made_up(chosen: float = 0.4, *, seed: int = 0, most: float = 0.5) -> Trial:
    """Accuracies with 100 labels; the labels alone go from .3 with 10 to .5 with 1,000."""
    usual = {DIRECT.name: 0.4, ALONE.name: 0.4, CLUSTERING.name: 0.3, CHOSEN: chosen}
    rows = [CurvePoint("100", 100, way, a, 0.2, 1.0) for way, a in usual.items()]
    rows += [CurvePoint(str(n), n, ALONE.name, a, 0.2, 1.0) for n, a in ((10, 0.3), (1000, 0.5))]
    joined = CentroidSet(
        np.zeros((2, 2)), np.array([0, 1]), np.array([False, True]), np.array([True, False])
    )
    old = {"direct": 0.9, "clustering": 0.8, "most frequent": most}
    classes, sizes = ("0", "1"), np.zeros(2, dtype=np.int64)
    drawn = {"at random": 0.5, "to adapt": 0.53}
    return Trial(Pair.PACKAGING, seed, classes, tuple(rows), {}, 0.7, old, 4, joined, sizes, drawn)


def test_excluded_centroids_are_black_stars() -> None:
    joined = made_up().joined
    assert centroid_mark(joined, 1)["marker"] == "*"
    assert centroid_mark(joined, 1)["color"] == "black"
    assert centroid_mark(joined, 0)["marker"] != "*"


def test_verdicts_follow_the_figures() -> None:
    better = verdicts([made_up(0.5), made_up(0.6, seed=1)])
    assert "better than direct inference (+15.0 ± 7.1 points)" in better
    assert "-10.0 ± 0.0 points over direct inference (paper: +12.6)" in better
    assert "on the old dataset -10.0 ± 0.0 (paper: +1.2)" in better
    assert "instead of random ones: +3.0 ± 0.0 points" in better
    worse = verdicts([made_up(0.3)])
    assert "worse than direct inference (-10.0 points)" in worse
    mixed = verdicts([made_up(0.5), made_up(0.3, seed=1)])
    assert "sometimes better, sometimes not, than direct inference" in mixed
    assert "hardly teach" not in mixed
    assert "90.0 % are right on T2" in verdicts([made_up(most=0.85)])


def test_how_many_labels_the_old_dataset_saves() -> None:
    assert labels_saved([made_up(0.45)], "100") == pytest.approx((316.2, 100), rel=0.01)
    assert labels_saved([made_up(0.6)], "100") == (float("inf"), 100)


def test_an_unknown_pair_and_missing_leaves_are_named() -> None:
    assert Pair.LEAVES not in pairs_named(None, Places())
    assert pairs_named(None, Places(leaves=Path())) == tuple(Pair)
    with pytest.raises(OptionError, match="mnist-svhn"):
        pairs_named(["mnist-svhn"], Places())
    with pytest.raises(InputError, match="needs --leaves"):
        source_of(Places())(Pair.LEAVES)
