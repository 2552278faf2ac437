"""The scikit-learn estimator: Algorithm 1 on arrays, without a run folder.

It is the loop, the learners and the predictions of the rest of the library. What a run keeps in
its folder is in a temporary one while ``fit`` works; the estimator holds the weights of the last
round as bytes, so it can be pickled and cloned like any other.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from surelabel.config.choices import Measure
from surelabel.config.settings import Config
from surelabel.dataset.build import label_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import Decoding
from surelabel.dataset.items import LabelRow, item_ids, string_array
from surelabel.dataset.pixels import open_pixels, read_catalog
from surelabel.dataset.sources import array_source
from surelabel.engines.ensemble import predict_as_round
from surelabel.engines.inputs import Features, GivenFeatures, Images
from surelabel.engines.linear_learner import LinearLearner
from surelabel.engines.linear_model import load_linear
from surelabel.engines.local import learner_for
from surelabel.errors import SurelabelError
from surelabel.inference.measures import measure as measure_of
from surelabel.selftraining.learner import Learner
from surelabel.selftraining.loop import self_train
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.round import RoundOutcome
from surelabel.types import (
    UNLABELED,
    BoolArray,
    FloatArray,
    IntArray,
    LabelSource,
    Prediction,
    Split,
    StopReason,
    no_progress,
)
from surelabel.workflows.model_inputs import choose_net, decoding_of, open_inputs
from surelabel.workflows.problem import build_problem

Array: TypeAlias = npt.NDArray[Any]

_TERMINATION = {
    StopReason.POOL_EMPTY: "all_labeled",
    StopReason.FEW_CHANGES: "no_change",
    StopReason.NONE_ACCEPTED: "no_change",
    StopReason.ROUND_LIMIT: "max_iter",
}
"""In the words of ``sklearn.semi_supervised.SelfTrainingClassifier``."""
_KINDS = ("auto", "images", "features")
_KEY = "row"


class SelfTrainingImageClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Self-training with a Bayesian classifier, on images or on features of anything.

    Args:
        kind: "images": a net is trained on the pixels, or a pre-trained one computes features.
            "features": a Bayesian linear head on the columns of X, which may be embeddings of
            images, text or sound, or a table. "auto": images where X has three or four axes or
            ``image_shape`` is given.
        image_shape: (H, W) or (H, W, C), where the rows of X are flattened images.
        net: The network for images; see the option ``net`` of ``surelabel.Config``.
        accept: Which guesses become labels; see ``surelabel.Config``.
        target_error: Largest estimated share of wrong labels, with accept "target".
        max_rounds: Largest number of rounds.
        options: Further options of ``surelabel.Config`` by name, such as ``{"effort": "low"}``.
            With ``cache``, decoded images and features are kept in that folder; otherwise
            nothing stays on disk.
        random_state: Seed or generator of everything random.

    Attributes:
        classes_: (K,) the classes, sorted.
        transduction_: (N,) labels of the training rows: given, accepted, or for none -1 or None,
            as in y.
        labeled_iter_: (N,) round in which each row got its label: 0 for given, -1 for never. A
            row that equals a labeled one gets its label in round 1.
        termination_condition_: "all_labeled", "no_change" or "max_iter".
        n_iter_: Number of rounds.
        n_features_in_: Values per row of X; for images, the number of pixel values.
        image_shape_: (H, W) or (H, W, C) of images, otherwise None.
        threshold_: Guesses with an uncertainty up to it were accepted in the last round.
    """

    def __init__(
        self,
        *,
        kind: str = "auto",
        image_shape: Sequence[int] | None = None,
        net: str = "auto",
        accept: str = "target",
        target_error: float = 0.02,
        max_rounds: int = 2,
        options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.kind = kind
        self.image_shape = image_shape
        self.net = net
        self.accept = accept
        self.target_error = target_error
        self.max_rounds = max_rounds
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> SelfTrainingImageClassifier:
        """Fit to rows X, (N, D), (N, H, W) or (N, H, W, C), and labels y (N,).

        In y, -1 is for unlabeled rows; among strings it is None, or -1 in an array of objects.
        """
        X = _as_array(X)
        shape = self._shape_of(X)
        flat = validate_data(self, _flattened(X), y="no_validation", dtype="numeric")
        labels, classes, missing = _encoded(y, len(flat))
        config = self._config()
        self.image_shape_ = shape
        self._scaling = _Scaling.of(flat, is_image=shape is not None)
        rows = self._scaling.apply(flat)
        rounds, catalog = _run(config, rows, shape, labels)
        self.classes_ = classes
        self.n_iter_ = rounds.last.number
        self.termination_condition_ = _TERMINATION[rounds.reason]
        self.threshold_ = rounds.last.threshold
        self._model = rounds.model
        self._set_transduction(catalog, rounds, missing)
        return self

    def predict(self, X: Any) -> Array:
        """(N,) the most probable class of each row."""
        check_is_fitted(self)
        found: Array = self.classes_[self._prediction(X).guess]
        return found

    def predict_proba(self, X: Any) -> FloatArray:
        """(N, K) probabilities of ``classes_``: means over samples from the posterior."""
        p = self._prediction(X).probabilities.astype(np.float64)
        shares: FloatArray = p / p.sum(axis=1, keepdims=True)
        return shares

    def predict_uncertainty(self, X: Any, measure: str = "least_confidence") -> FloatArray:
        """(N,) an uncertainty per row, higher for less sure.

        ``measure`` is one of those in ``surelabel.config.choices.Measure``: least_confidence,
        margin, predictive_entropy, expected_entropy, mutual_information, total_variance, ...
        """
        return measure_of(self._prediction(X), Measure(measure))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _shape_of(self, X: Any) -> tuple[int, ...] | None:
        """The shape of an image; None for features."""
        if self.kind not in _KINDS:
            raise ValueError(f"kind is {self.kind!r}; it can be {', '.join(_KINDS)}.")
        own = tuple(np.shape(X)[1:])
        if self.kind == "features" or (
            self.kind == "auto" and self.image_shape is None and len(own) < 2
        ):
            return None
        shape = tuple(self.image_shape) if self.image_shape is not None else own
        if len(shape) not in (2, 3) or np.prod(shape) != np.prod(own):
            raise ValueError(
                f"X has shape {np.shape(X)} and image_shape is {self.image_shape}: images are "
                "(N, H, W) or (N, H, W, C); for flattened ones set image_shape to their shape."
            )
        return shape

    def _config(self) -> Config:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        own = ("net", "accept", "target_error", "max_rounds")
        values = {**(self.options or {}), "seed": int(seed)}
        values |= {name: getattr(self, name) for name in own}
        try:
            return Config.from_mapping(values)
        except SurelabelError as error:
            raise ValueError(str(error)) from None

    def _set_transduction(self, catalog: Catalog, rounds: _Rounds, missing: object) -> None:
        labels = catalog.labels.copy()
        labeled = np.where(labels == UNLABELED, -1, 0)
        labeled[catalog.sources == LabelSource.COPIED] = 1
        table = rounds.pool
        at = catalog.rows(table["id"].to_numpy(dtype=np.str_))
        accepted = table["accepted"].to_numpy(dtype=bool)
        labels[at[accepted]] = table["label"].to_numpy()[accepted]
        labeled[at[accepted]] = table["round"].to_numpy()[accepted]
        is_text = self.classes_.dtype.kind in "OUST"
        kind = object if is_text else np.result_type(self.classes_, np.int8)
        found = np.full(len(labels), missing, dtype=kind)
        found[labels >= 0] = self.classes_[labels[labels >= 0]]
        self.transduction_ = found
        self.labeled_iter_ = labeled

    def _prediction(self, X: Any) -> Prediction:
        check_is_fitted(self)
        flat = validate_data(self, _flattened(_as_array(X)), reset=False, dtype="numeric")
        return self._model.predict(self._scaling.apply(flat), self.image_shape_)


@dataclass(frozen=True)
class _Scaling:
    """How values become what the learner takes, from the rows that it was fitted to."""

    center: FloatArray
    scale: float
    is_image: bool

    @classmethod
    def of(cls, flat: Array, *, is_image: bool) -> _Scaling:
        """Images become 0 to 255; the columns of features are centered, and scaled as a whole."""
        if is_image:
            if flat.dtype == np.uint8:
                return cls(np.zeros(1), 1.0, is_image)
            low, high = float(flat.min()), float(flat.max())
            return cls(np.array([low]), (high - low) / 255 or 1.0, is_image)
        values = flat.astype(np.float64)
        center = values.mean(axis=0)
        scale = float(np.abs(values - center).max(initial=0.0))
        if scale:
            scale *= float(np.sqrt((((values - center) / scale) ** 2).mean()))
        return cls(center, scale or 1.0, is_image)

    def apply(self, flat: Array) -> Array:
        """uint8 pixels or float32 features, (N, D)."""
        if self.is_image and flat.dtype == np.uint8 and self.scale == 1:
            return flat
        values = (flat.astype(np.float64) - self.center) / self.scale
        if self.is_image:
            return np.clip(np.rint(values), 0, 255).astype(np.uint8)
        return values.astype(np.float32)


@dataclass(frozen=True)
class _Model:
    """The last round: its files as bytes, and the settings that predictions depend on."""

    config: Config
    number: int
    classes: tuple[str, ...]
    decoding: Decoding
    files: Mapping[str, bytes]

    def predict(self, rows: Array, shape: tuple[int, ...] | None) -> Prediction:
        """For scaled rows (N, D)."""
        with tempfile.TemporaryDirectory(prefix="surelabel-") as name:
            folder = Path(name)
            for file, content in self.files.items():
                (folder / file).write_bytes(content)
            weights = sorted(folder.glob("weights-*.safetensors"), key=lambda p: (len(p.name), p))
            if shape is None:
                given = GivenFeatures(catalog_of(rows), rows)
                ensemble = load_linear(weights[0], self.config, given)
                precise = replace(ensemble, model=ensemble.model.double(), reference=None)
                return precise.predict(given.catalog.ids)
            config = _with_cache(self.config, folder)
            catalog = _read_images(rows, shape, config, self.decoding)
            inputs = _image_inputs(catalog, config)
            return predict_as_round(weights, self.number, config, inputs, catalog.ids)


@dataclass
class _Rounds:
    """The rounds of one fit, behind the interface that ``self_train`` needs."""

    folder: Path
    config: Config
    decoding: Decoding
    metrics: list[RoundMetrics] = field(default_factory=list)
    pool: pd.DataFrame = field(default_factory=pd.DataFrame)
    model: _Model = field(init=False)
    reason: StopReason = field(init=False)

    @property
    def last(self) -> RoundMetrics:
        """The last round's figures."""
        return self.metrics[-1]

    def history(self) -> Sequence[RoundMetrics]:
        """All figures so far."""
        return self.metrics

    def last_pool(self) -> pd.DataFrame | None:
        """The table of the last round."""
        return self.pool if self.metrics else None

    def last_folder(self) -> Path | None:
        """The folder of the last round."""
        return self._folder_of(self.last.number) if self.metrics else None

    def begin(self, number: int) -> Path:
        """A folder for round ``number``."""
        path = self._folder_of(number)
        path.mkdir()
        return path

    def commit(self, outcome: RoundOutcome) -> None:
        """Remember a finished round."""
        self.pool = outcome.pool
        self.metrics.append(outcome.metrics)

    def finish(self, reason: StopReason) -> None:
        """Read the files of the last round before the folder goes away."""
        self.reason = reason
        folder = self._folder_of(self.last.number)
        files = {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}
        self.model = _Model(self.config, self.last.number, self.last.classes, self.decoding, files)

    def _folder_of(self, number: int) -> Path:
        return self.folder / f"round-{number}"


def _run(
    config: Config, rows: Array, shape: tuple[int, ...] | None, labels: IntArray
) -> tuple[_Rounds, Catalog]:
    """Self-train on scaled rows (N, D) with labels (N,), -1 for none."""
    with tempfile.TemporaryDirectory(prefix="surelabel-") as name:
        folder = Path(name)
        try:
            if shape is None:
                effective = config.in_effect(pretrained=True)
                catalog = with_labels(catalog_of(rows), labels, effective)
                learner: Learner = LinearLearner(effective, GivenFeatures(catalog, rows))
            else:
                effective, _ = choose_net(
                    _with_cache(config, folder), array_source(rows.reshape(-1, *shape), _KEY, "X")
                )
                catalog = _read_images(rows, shape, effective, decoding_of(effective))
                catalog = with_labels(catalog, labels, effective)
                learner = learner_for(effective, _image_inputs(catalog, effective))
            problem = build_problem(catalog, {}, 0)
            recorded = effective.replace(cache=config.cache)
            rounds = _Rounds(folder, recorded, catalog.decoding)
            rounds.finish(self_train(lambda _: problem, learner, rounds, effective))
        except SurelabelError as error:
            raise ValueError(str(error)) from error
    return rounds, catalog


def _with_cache(config: Config, folder: Path) -> Config:
    """The user's cache where one is given, otherwise a temporary one."""
    return config if config.cache else config.replace(cache=str(folder), feature_cache=False)


def _read_images(
    rows: Array, shape: tuple[int, ...], config: Config, decoding: Decoding
) -> Catalog:
    source = array_source(rows.reshape(-1, *shape), _KEY, "X")
    return read_catalog(source, Path(config.cache).expanduser(), no_progress, decoding)


def _image_inputs(catalog: Catalog, config: Config) -> Images | Features:
    store = open_pixels(catalog, Path(config.cache).expanduser())
    return open_inputs(config, catalog, store)


def catalog_of(rows: Array) -> Catalog:
    """Rows of features as items without labels."""
    n = len(rows)
    keys = [f"{_KEY}:{i:05d}" for i in range(n)]
    empty = np.zeros(n, dtype="<U8")
    return Catalog(
        ids=item_ids(keys),
        paths=string_array(keys),
        labels=np.full(n, UNLABELED, dtype=np.int64),
        sources=empty,
        splits=np.full(n, str(Split.POOL), dtype="<U8"),
        groups=empty,
        digests=string_array(
            hashlib.blake2b(row.tobytes(), digest_size=16).hexdigest() for row in rows
        ),
        files=string_array([""] * n),
        classes=(),
        size=0,
        channels=0,
        cross_fit=False,
    )


def with_labels(catalog: Catalog, labels: IntArray, config: Config) -> Catalog:
    """``catalog`` with labels (N,) by number, -1 for none, and their splits."""
    rows = {
        path: LabelRow(path, f"y[{i}]", label=str(label))
        for i, (path, label) in enumerate(zip(catalog.paths.tolist(), labels.tolist(), strict=True))
        if label != UNLABELED
    }
    return label_catalog(catalog, rows, seed=config.seed, tune_share=config.tune_share)


def _as_array(X: Any) -> Any:
    """Lists and what NumPy can convert, as an array; tables and sparse matrices stay."""
    return X if isinstance(X, np.ndarray | pd.DataFrame) or issparse(X) else np.asarray(X)


def _flattened(X: Any) -> Any:
    """Images as rows; what has at most two axes, as it is."""
    return X.reshape(len(X), -1) if isinstance(X, np.ndarray) and X.ndim > 2 else X


def _encoded(y: Any, n: int) -> tuple[IntArray, Array, object]:
    """(N,) class numbers with -1 for unlabeled rows, the classes, and what unlabeled rows have."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    values = column_or_1d(y, warn=True, dtype=None)
    if len(values) != n:
        raise ValueError(f"X has {n} rows and y has {len(values)}: found inconsistent lengths.")
    missing: object = -1
    if values.dtype.kind in "OUST":
        as_text = values.astype(object)
        unlabeled = cast(BoolArray, pd.isna(as_text))
        is_minus_one = cast(BoolArray, as_text == -1)
        unlabeled = unlabeled | is_minus_one
        if any(isinstance(value, str) for value in as_text[~unlabeled]):
            missing = -1 if is_minus_one.any() else None
            if (as_text == "-1").any():
                raise ValueError(
                    "y has the string '-1', which NumPy makes of -1 beside strings. Mark unlabeled "
                    "rows by None, or by -1 in an array of dtype object."
                )
        else:
            values = np.where(unlabeled, -1, as_text).astype(np.float64)
            values = values.astype(np.int64) if (values == np.rint(values)).all() else values
    else:
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError("Input y contains NaN or infinity; unlabeled rows have -1.")
        unlabeled = values == -1
    known = values[~unlabeled]
    if not len(known):
        raise ValueError("All rows of y are unlabeled: label some of them, at least two classes.")
    check_classification_targets(known)
    classes, numbers = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"The labels in y are all of one class, {classes[0]}, and two classes are needed."
        )
    labels = np.full(n, UNLABELED, dtype=np.int64)
    labels[~unlabeled] = numbers
    return labels, classes, missing
