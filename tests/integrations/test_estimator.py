"""The scikit-learn estimator: scikit-learn's own checks, its laws, and its place among tools."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

from estimator import EXPECTED_FAILED
from surelabel.inference.measures import entropy
from surelabel.sklearn import SelfTrainingImageClassifier

CHECKS = list(estimator_checks_generator(SelfTrainingImageClassifier()))


def check_name(value: Any) -> str:
    function = getattr(value, "func", None)
    return function.__name__ if function else ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=check_name)
def test_scikit_learn_accepts_the_estimator(estimator: Any, check: Any) -> None:
    if check.func.__name__ in EXPECTED_FAILED:
        with pytest.raises(ValueError, match="two classes are needed"):
            check(estimator)
        return
    check(estimator)


def some_digits(n: int = 400, n_labels: int = 60) -> tuple[Any, Any, Any]:
    """Rows, labels with -1 for most, and the truth."""
    X, truth = load_digits(return_X_y=True)
    X, truth = X[:n], truth[:n]
    y = truth.copy()
    y[n_labels:] = -1
    return X, y, truth


@pytest.fixture(scope="module")
def fitted() -> SelfTrainingImageClassifier:
    X, y, _ = some_digits()
    return SelfTrainingImageClassifier(random_state=0, target_error=0.1).fit(X, y)


def test_attributes_say_what_happened_to_each_row(fitted: SelfTrainingImageClassifier) -> None:
    X, y, truth = some_digits()
    given = y != -1
    assert (fitted.transduction_[given] == y[given]).all()
    assert (fitted.labeled_iter_[given] == 0).all()
    accepted = fitted.transduction_ != -1
    assert (fitted.labeled_iter_[~accepted] == -1).all()
    new = accepted & ~given
    assert set(fitted.labeled_iter_[new]) <= set(range(1, fitted.n_iter_ + 1))
    assert new.sum() > 100
    assert (fitted.transduction_[new] != truth[new]).mean() < 0.1
    assert (fitted.transduction_[new] == fitted.predict(X)[new]).all()
    assert fitted.termination_condition_ in ("all_labeled", "no_change", "max_iter")
    assert (fitted.classes_ == np.arange(10)).all()
    assert fitted.n_features_in_ == 64


def test_accepted_rows_are_those_below_the_threshold(fitted: SelfTrainingImageClassifier) -> None:
    X, y, _ = some_digits()
    pool = y == -1
    low = fitted.predict_uncertainty(X[pool]) <= fitted.threshold_ + 1e-6
    accepted = fitted.transduction_[pool] != -1
    assert (low[accepted]).all()


def test_uncertainty_fits_the_probabilities(fitted: SelfTrainingImageClassifier) -> None:
    X, _, _ = some_digits()
    p = fitted.predict_proba(X)
    assert np.allclose(fitted.predict_uncertainty(X), 1 - p.max(axis=1))
    assert np.allclose(fitted.predict_uncertainty(X, "predictive_entropy"), entropy(p))
    assert fitted.predict_uncertainty(X, "mutual_information").min() >= 0
    with pytest.raises(ValueError, match="surprise"):
        fitted.predict_uncertainty(X, "surprise")


def test_it_can_be_pickled_and_leaves_no_file(
    fitted: SelfTrainingImageClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, _ = some_digits(120)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    again = clone(fitted).fit(X, y)
    copy = pickle.loads(pickle.dumps(again))
    assert (copy.predict_proba(X) == again.predict_proba(X)).all()
    assert list(tmp_path.rglob("*")) == [tmp_path / "temporary"]


def test_strings_have_none_for_unlabeled() -> None:
    X, numbers = make_blobs(60, centers=2, random_state=0)
    y = np.array(["cat", "dog"], dtype=object)[numbers]
    y[20:] = None
    model = SelfTrainingImageClassifier(random_state=0, accept="tukey").fit(X, y)
    assert list(model.classes_) == ["cat", "dog"]
    assert set(model.predict(X)) == {"cat", "dog"}
    assert set(model.transduction_[:20]) == {"cat", "dog"}
    assert {str(value) for value in model.transduction_} <= {"cat", "dog", "None"}
    assert (model.transduction_[20:] != None).any()  # noqa: E711


def test_minus_one_among_objects_means_unlabeled_as_in_scikit_learn() -> None:
    X, numbers = make_blobs(60, centers=2, random_state=0)
    y = np.array(["cat", "dog"], dtype=object)[numbers]
    y[20:] = -1
    model = SelfTrainingImageClassifier(random_state=0, accept="top:5", max_rounds=1).fit(X, y)
    assert list(model.classes_) == ["cat", "dog"]
    assert (model.transduction_ == -1).sum() == 35
    rival = SelfTrainingClassifier(LogisticRegression()).fit(X, y)
    assert (model.transduction_[:20] == rival.transduction_[:20]).all()
    with pytest.raises(ValueError, match="None"):
        SelfTrainingImageClassifier().fit(X, np.where(y == -1, "-1", y).astype(str))


def test_images_train_a_net_and_flat_rows_are_the_same_images() -> None:
    X, y, _ = some_digits(200, 80)
    options = {"steps": 10, "members": 1, "mc_samples": 3, "consistency": 0.0}
    settings: dict[str, Any] = {"options": options, "random_state": 0, "max_rounds": 1}
    images = SelfTrainingImageClassifier(**settings).fit(X.reshape(-1, 8, 8), y)
    flat = SelfTrainingImageClassifier(image_shape=(8, 8), **settings).fit(X, y)
    assert images.image_shape_ == flat.image_shape_ == (8, 8)
    p = images.predict_proba(X.reshape(-1, 8, 8))
    assert p.shape == (200, 10)
    assert np.array_equal(p, flat.predict_proba(X))
    alone = images.predict_proba(X[:7].reshape(-1, 8, 8))
    assert np.allclose(alone, p[:7], atol=1e-5)
    assert np.array_equal(pickle.loads(pickle.dumps(images)).predict_proba(X), p)


def test_it_works_in_a_pipeline_and_a_grid_search_that_tests_on_labels() -> None:
    """PredefinedSplit keeps rows with fold -1 in training: the unlabeled ones."""
    X, y, truth = some_digits(300, 60)
    folds = np.where(y == -1, -1, np.arange(len(y)) % 2)
    model = make_pipeline(StandardScaler(), SelfTrainingImageClassifier(random_state=0))
    grid = {"selftrainingimageclassifier__max_rounds": [1, 2]}
    search = GridSearchCV(model, grid, cv=PredefinedSplit(folds)).fit(X, y)
    assert 0.6 < search.best_score_ <= 1
    assert (search.predict(X[60:]) == truth[60:]).mean() > 0.75


def test_it_can_be_calibrated() -> None:
    X, truth = make_blobs(120, centers=3, cluster_std=3.0, random_state=1)
    model = SelfTrainingImageClassifier(random_state=0, max_rounds=1)
    inside = CalibratedClassifierCV(model, cv=2).fit(X, truth)
    assert inside.score(X, truth) > 0.6
    y = truth.copy()
    y[40:] = -1
    frozen = FrozenEstimator(model.fit(X, y))
    after = CalibratedClassifierCV(frozen).fit(X[40:80], truth[40:80])
    assert np.allclose(after.predict_proba(X[80:]).sum(axis=1), 1)


def test_columns_may_have_any_scale_and_offset() -> None:
    X, y, truth = some_digits(200, 80)
    settings: dict[str, Any] = {"random_state": 0, "max_rounds": 1}
    plain = SelfTrainingImageClassifier(**settings).fit(X, y).predict(X)
    moved = SelfTrainingImageClassifier(**settings).fit(1e6 + 1e-3 * X, y).predict(1e6 + 1e-3 * X)
    assert (plain == moved).mean() > 0.98
    assert (plain[80:] == truth[80:]).mean() > 0.8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "pictures"}, "kind"),
        ({"image_shape": (5, 5)}, "image_shape"),
        ({"target_error": 2.0}, "target_error"),
        ({"options": {"efort": "low"}}, "effort"),
        ({"accept": "sometimes"}, "sometimes"),
    ],
)
def test_wrong_settings_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    X, y, _ = some_digits(100)
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        SelfTrainingImageClassifier(**change).fit(X, y)


def test_too_few_labels_are_refused() -> None:
    X, y, _ = some_digits(100, 12)
    with pytest.raises(ValueError, match="12 labels are too few for 10 classes"):
        SelfTrainingImageClassifier().fit(X, y)
    with pytest.raises(ValueError, match="unlabeled"):
        SelfTrainingImageClassifier().fit(X, np.full(100, -1))
