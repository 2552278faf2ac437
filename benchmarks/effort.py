"""Answers of people from no label to a finished dataset that keeps 2 % and 5 %, at 95 %.

A simulated person knows the truth. They label random images to learn from, then certify, then label
what is left. surelabel runs whole; logistic regression sees the same features, tuned by
cross-validation. Ways to certify: 300 uniform labels with the exact test; PAC labeling with its
normal bound and 300 uniform labels; surelabel's way, the surest first, with the sample size that
held-out labels forecast to be best (for logistic regression: cross-validated predictions).

*Review first* is what the documentation advises: as long as that forecast leaves more than a
twentieth of the images to people, and all answers together become fewer, they label a twentieth,
the least sure first, and the model learns again; then they certify as before. Held-out are the
random labels only.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

import surelabel
from digits import DATA as MNIST
from pac_labels import first_above
from photographs import DATA, Draw, Rivals, photograph_config, read_collection, run_on
from settings import Settings
from surelabel.guarantees.certification import CertifySample
from surelabel.guarantees.forecast import Outlook, dataset_test, forecast
from surelabel.models.backbones import photos_installed
from surelabel.runs.answers import AnswerKind, NewAnswer
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE
from surelabel.types import BoolArray, FloatArray, IntArray
from surelabel.workflows.forecast import SIZES, best_outlook
from surelabel_studies.datasets.mnist import Digits, load_mnist
from surelabel_studies.datasets.usps import load_usps

_ERRORS = (0.02, 0.05)
_UNIFORM = 300
_BATCH = 20
"""A batch of review is the dataset over this."""
_MOST_BATCHES = 15


@dataclass(frozen=True, eq=False)
class Scored:
    """A pool that a model has scored, and what its held-out labels show."""

    scores: FloatArray
    """(N,) higher is less sure; inf for an image that is never accepted."""
    wrong: BoolArray
    held_scores: FloatArray
    held_correct: BoolArray
    n_learned: int
    """Labels that the model was trained on."""
    rows: IntArray
    """(N,) which image of the dataset each is."""


@dataclass(frozen=True)
class Images:
    """A dataset with its truth."""

    truth: IntArray
    """(N,)."""
    features: FloatArray
    """(N, D) what logistic regression sees."""
    run: Callable[[Draw, int, Path], surelabel.Run]
    """Labels, seed and a folder -> a finished run."""
    row: Callable[[str], int]
    """Path of an image -> its row."""


Count = Callable[[Scored, float, np.random.Generator], tuple[int, bool]]
"""Answers after learning, and if too many labels are wrong then."""


class Learner(Protocol):
    """A model that learns from the labels of a person."""

    def scored(self) -> Scored:
        """What it makes of the images without a label."""

    def learn(self, rows: IntArray) -> None:
        """Learn again, with the labels of these images, too."""


def main(settings: Settings) -> dict[str, Any]:
    warnings.filterwarnings("ignore")
    names, n, n_draws, n_seeds = list(_READERS), 300, 100, settings.n_seeds
    if settings.tiny:
        names, n, n_draws, n_seeds = names[:1], 80, 2, 1
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        cache = settings.out or Path(temporary)
        for name in names:
            images = _READERS[name](cache, settings)
            if images is None:
                continue
            rows: dict[str, list[dict[str, float]]] = {}
            for seed in range(settings.seed, settings.seed + n_seeds):
                for way, row in _answers(images, n, seed, n_draws):
                    rows.setdefault(way, []).append(row)
                    print(name, seed, way, row, file=sys.stderr, flush=True)
            results[name] = {way: _mean(each) for way, each in rows.items()}
    if not results:
        return {"skipped": f"needs {DATA} and surelabel[photos], or the digits beside it"}
    return {"draws": n_draws, "seeds": n_seeds, "labels_to_learn": n, "answers": results}


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(float(np.mean([row[key] for row in rows])), 1) for key in rows[0]}


def _photographs(name: str, cache: Path, settings: Settings) -> Images | None:
    """Lite0 at 224 pixels."""
    if not DATA.exists() or not photos_installed():
        return None
    collection = read_collection(name, cache, settings.size(settings.images, 0, 240))
    place = {Path(path).name: i for i, path in enumerate(collection.paths)}

    def run(draw: Draw, seed: int, folder: Path) -> surelabel.Run:
        config = photograph_config(cache, "lite0", seed=seed)
        return run_on(collection, draw, config, _class_names(collection.truth), folder)

    return Images(collection.truth, collection.features, run, lambda path: place[Path(path).name])


def _digits(read: Callable[[], Digits], cache: Path, settings: Settings) -> Images | None:
    """At most 10,000 digits, with little effort in training."""
    if not MNIST.exists():
        return None
    digits = read()
    n = min(10_000, settings.size(settings.images, len(digits.train_labels), 500))
    kept = np.random.default_rng(0).permutation(len(digits.train_labels))[:n]
    images, truth = digits.train_images[kept], digits.train_labels[kept].astype(np.int64)

    def run(draw: Draw, seed: int, folder: Path) -> surelabel.Run:
        names = np.array(_class_names(truth))
        labels = pd.DataFrame({"index": draw.labeled, "label": names[truth[draw.labeled]]})
        options = {"seed": seed, "cache": str(cache), "effort": "low"}
        config = surelabel.Config.from_mapping(options)
        return surelabel.label(images, labels, folder / "run", config=config)

    features = images.reshape(len(images), -1) / 255
    return Images(truth, features, run, lambda path: int(path.split(":")[1]))


_READERS: dict[str, Callable[[Path, Settings], Images | None]] = {
    "leaves-field": partial(_photographs, "leaves-field"),
    "leaves-lab": partial(_photographs, "leaves-lab"),
    "USPS": partial(_digits, lambda: load_usps(MNIST.parent / "usps")),
    "MNIST": partial(_digits, lambda: load_mnist(MNIST)),
}


def _class_names(truth: IntArray) -> list[str]:
    return [f"class {k}" for k in range(int(truth.max()) + 1)]


def _answers(
    images: Images, n: int, seed: int, n_draws: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """By way to a finished dataset: answers at each error, and how often that was violated."""
    order = np.random.default_rng([seed, n]).permutation(len(images.truth))
    draw = Draw(np.sort(order[:n]), np.sort(order[n:]))
    yield "by hand", dict.fromkeys(map(_name, _ERRORS), float(len(order)))
    models: dict[str, Callable[..., Learner]] = {
        "surelabel": _Surelabel,
        "logistic regression": _Regression,
    }
    ways = {"300 uniform": _uniform, "PAC, 300 uniform": _pac, "surest first": _surest_first}
    for model, make in models.items():
        with tempfile.TemporaryDirectory() as folder:
            learner = make(images, draw, seed, Path(folder))
            at = dict.fromkeys(_ERRORS, learner.scored())
            for way, count in ways.items():
                yield f"{model}, {way}", _figures(at, count, seed, n_draws)
            at = _review_first(learner, len(order))
            yield f"{model}, review first", _figures(at, _surest_first, seed, n_draws)


def _figures(at: Mapping[float, Scored], count: Count, seed: int, n_draws: int) -> dict[str, float]:
    """Mean answers in all by error; ``at`` gives the pool that is certified."""
    rng, figures = np.random.default_rng(seed), dict[str, float]()
    for error, scored in at.items():
        finished = [count(scored, error, rng) for _ in range(n_draws)]
        answers = scored.n_learned + float(np.mean([a for a, _ in finished]))
        figures[_name(error)] = round(answers, 1)
        figures[f"{_name(error)}, learned"] = scored.n_learned
        figures[f"{_name(error)}, violated"] = sum(violated for _, violated in finished)
    return figures


def _review_first(learner: Learner, n_images: int) -> dict[float, Scored]:
    """The pool at each error when the forecast says that there is no more to gain by review."""
    batch, done = max(10, n_images // _BATCH), dict[float, Scored]()
    before = dict.fromkeys(_ERRORS, float("inf"))
    for _ in range(_MOST_BATCHES if n_images > 1000 else 2):
        scored = learner.scored()
        for error in _ERRORS:
            outlook = _forecast(scored, error)
            answers = scored.n_learned + outlook.n_surest + outlook.n_left
            if error not in done and (outlook.n_left <= batch or answers >= before[error]):
                done[error] = scored
            before[error] = answers
        if len(done) == len(_ERRORS) or len(scored.wrong) <= 2 * batch:
            break
        least_sure = np.argsort(-scored.scores, kind="stable")[:batch]
        learner.learn(scored.rows[least_sure])
    last = learner.scored()
    return {error: done.get(error, last) for error in _ERRORS}


def _name(error: float) -> str:
    return f"{100 * error:g} %"


class _Surelabel:
    """Whole runs with their defaults; review answers are learned from as on the page."""

    def __init__(self, images: Images, draw: Draw, seed: int, folder: Path) -> None:
        self._images, self._names = images, _class_names(images.truth)
        self._run = images.run(draw, seed, folder)
        self._n_learned = len(draw.labeled)

    def scored(self) -> Scored:
        """The last round; outliers are never accepted."""
        last, catalog = self._run.folder.last_round(), self._run.folder.catalog
        assert last is not None
        pool, held = last.read_table(POOL_TABLE), last.read_table(HELD_OUT_TABLE)
        paths = catalog.paths[catalog.rows(pool["id"].to_numpy(dtype=np.str_))]
        rows = np.array([self._images.row(path) for path in paths.tolist()])
        guess = np.array(self._run.rounds[-1].classes)[pool["guess"].to_numpy()]
        never = [table["outlier"].to_numpy(dtype=bool) for table in (pool, held)]
        return Scored(
            np.where(never[0], np.inf, pool["score"].to_numpy()),
            guess != np.array(self._names)[self._images.truth[rows]],
            np.where(never[1], np.inf, held["score"].to_numpy()),
            held["correct"].to_numpy(dtype=bool),
            self._n_learned,
            rows,
        )

    def learn(self, rows: IntArray) -> None:
        folder = self._run.folder
        ids = {self._images.row(str(path)): str(i) for i, path in _ids_and_paths(folder)}
        folder.answers.add_all(
            [
                NewAnswer(ids[row], AnswerKind.LABEL, self._names[self._images.truth[row]], "ann")
                for row in rows.tolist()
            ]
        )
        self._run.resume(progress=False)
        self._n_learned += len(rows)


def _ids_and_paths(folder: RunFolder) -> Iterator[tuple[str, str]]:
    return zip(folder.catalog.ids.tolist(), folder.catalog.paths.tolist(), strict=True)


class _Regression:
    """Logistic regression, tuned for the accuracy anew each time; the seed draws labels only."""

    def __init__(self, images: Images, draw: Draw, seed: int, folder: Path) -> None:
        del seed, folder
        self._images, self._draw, self._random = images, draw, draw.labeled
        self._now = self._fit()

    def scored(self) -> Scored:
        return self._now

    def _fit(self) -> Scored:
        images, draw = self._images, self._draw
        rivals = Rivals(images.features, images.truth, draw)
        classes, p = rivals.logistic("L2-normalized")
        held, correct = rivals.held_out("L2-normalized")
        random = np.isin(draw.labeled, self._random)
        wrong = classes[p.argmax(1)] != images.truth[draw.pool]
        return Scored(
            1 - p.max(1), wrong, held[random], correct[random], len(draw.labeled), draw.pool
        )

    def learn(self, rows: IntArray) -> None:
        labeled = np.sort(np.concatenate([self._draw.labeled, rows]))
        self._draw = Draw(labeled, np.setdiff1d(self._draw.pool, rows))
        self._now = self._fit()


def _uniform(scored: Scored, error: float, rng: np.random.Generator) -> tuple[int, bool]:
    """Answers after learning: certify labels, then what is left; and if too many are wrong."""
    sample = _sample(scored, min(_UNIFORM, len(scored.wrong)), rng)
    return _n_answers(scored, sample, error)


def _surest_first(scored: Scored, error: float, rng: np.random.Generator) -> tuple[int, bool]:
    """The same with the size that held-out labels forecast to need the fewest answers.

    The first look may use up three quarters of the error probability. Sampled images above the
    threshold are left to people as all others, so they count once either way.
    """
    sample = _sample(scored, _forecast(scored, error).n_certify, rng)
    return _n_answers(scored, sample, error, delta=0.75 * 0.05)


@lru_cache(maxsize=8)
def _forecast(scored: Scored, error: float) -> Outlook:
    """The best sample size, and what it leaves to people; where nothing can be told, all."""
    n = len(scored.wrong)
    outlooks = forecast(
        scored.held_scores,
        scored.held_correct,
        n_pool=n,
        sizes=SIZES,
        certify=dataset_test(error, 0.75 * 0.05, scored.n_learned / n),
        rng=np.random.default_rng(0),
    )
    few = Outlook(min(_UNIFORM, n), 0.0, 0.0, 0.0, 1.0, n_left=n)
    return best_outlook(outlooks) if outlooks else few


def _pac(scored: Scored, error: float, rng: np.random.Generator) -> tuple[int, bool]:
    """PAC labeling: its normal bound, with replacement, on all items that have no label yet."""
    n = len(scored.wrong)
    drawn = rng.integers(0, n, min(_UNIFORM, n))
    epsilon = error * (n + scored.n_learned) / n
    accepted = scored.scores < first_above(scored.scores, scored.wrong, drawn, epsilon)
    accepted[drawn] = False
    return _outcome(scored, accepted, error)


def _sample(scored: Scored, n: int, rng: np.random.Generator) -> CertifySample:
    checked = np.zeros(len(scored.wrong), dtype=bool)
    checked[rng.permutation(len(checked))[:n]] = True
    return CertifySample(scored.scores, np.arange(len(checked)), checked, scored.wrong)


def _n_answers(
    scored: Scored, sample: CertifySample, error: float, *, delta: float = 0.05
) -> tuple[int, bool]:
    test = dataset_test(error, delta, scored.n_learned / len(scored.wrong))
    return _outcome(scored, (sample.scores <= test(sample).threshold) & ~sample.checked, error)


def _outcome(scored: Scored, by_run: BoolArray, error: float) -> tuple[int, bool]:
    allowed = error * (len(by_run) + scored.n_learned) + 1e-9
    return int((~by_run).sum()), bool(scored.wrong[by_run].sum() > allowed)
