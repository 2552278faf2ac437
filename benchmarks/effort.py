"""Answers of people from no label to a finished dataset that keeps 2 % and 5 %, at 95 %.

A simulated person knows the truth. They label random images to learn from, then certify, then label
what is left. surelabel runs whole; logistic regression sees the same features, tuned by
cross-validation. Ways to certify: 300 uniform labels with the exact test; PAC labeling with its
normal bound and 300 uniform labels; surelabel's way, the surest first, with the sample size that
held-out labels forecast to be best (for logistic regression: cross-validated predictions).
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import surelabel
from digits import DATA as MNIST
from pac_labels import first_above
from photographs import DATA, Draw, Rivals, photograph_config, read_collection, run_on
from settings import Settings
from surelabel.guarantees.certification import CertifySample
from surelabel.guarantees.forecast import dataset_test, forecast
from surelabel.models.backbones import photos_installed
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE
from surelabel.types import BoolArray, FloatArray, IntArray
from surelabel.workflows.forecast import SIZES, best_outlook
from surelabel_studies.datasets.mnist import Digits, load_mnist
from surelabel_studies.datasets.usps import load_usps

_ERRORS = (0.02, 0.05)
_UNIFORM = 300


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


def main(settings: Settings) -> dict[str, Any]:
    warnings.filterwarnings("ignore")
    names, sizes, n_draws = list(_READERS), [300, 600], 100
    if settings.tiny:
        names, sizes, n_draws = names[:1], [80], 2
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        cache = settings.out or Path(temporary)
        for name in names:
            images = _READERS[name](cache, settings)
            if images is None:
                continue
            for n in sizes:
                row = dict(_answers(images, n, settings.seed, n_draws))
                results[f"{name}, {n} labels to learn"] = row
                print(name, n, row, file=sys.stderr, flush=True)
    if not results:
        return {"skipped": f"needs {DATA} and surelabel[photos], or the digits beside it"}
    return {"draws": n_draws, "answers": results}


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
    order = np.random.default_rng([seed, n]).permutation(len(images.truth))
    draw = Draw(np.sort(order[:n]), np.sort(order[n:]))
    yield "by hand", dict.fromkeys(map(_name, _ERRORS), float(len(order)))
    for model, fit in (("surelabel", _surelabel), ("logistic regression", _regression)):
        scored, rng = fit(images, draw, seed), np.random.default_rng(seed)
        ways = {"300 uniform": _uniform, "PAC, 300 uniform": _pac, "surest first": _surest_first}
        for way, count in ways.items():
            figures: dict[str, float] = {}
            for error in _ERRORS:
                finished = [count(scored, error, rng) for _ in range(n_draws)]
                figures[_name(error)] = round(n + float(np.mean([a for a, _ in finished])), 1)
                figures[f"{_name(error)}, violated"] = sum(violated for _, violated in finished)
            yield f"{model}, {way}", figures


def _name(error: float) -> str:
    return f"{100 * error:g} %"


def _surelabel(images: Images, draw: Draw, seed: int) -> Scored:
    """The last round of a whole run with its defaults."""
    names = _class_names(images.truth)
    with tempfile.TemporaryDirectory() as folder:
        run = images.run(draw, seed, Path(folder))
        last = run.folder.last_round()
        assert last is not None
        pool, held = last.read_table(POOL_TABLE), last.read_table(HELD_OUT_TABLE)
        catalog = run.folder.catalog
        paths = catalog.paths[catalog.rows(pool["id"].to_numpy(dtype=np.str_))]
        truth = np.array([names[images.truth[images.row(path)]] for path in paths.tolist()])
        wrong = np.array(run.rounds[-1].classes)[pool["guess"].to_numpy()] != truth
    never = [table["outlier"].to_numpy(dtype=bool) for table in (pool, held)]
    return Scored(
        np.where(never[0], np.inf, pool["score"].to_numpy()),
        wrong,
        np.where(never[1], np.inf, held["score"].to_numpy()),
        held["correct"].to_numpy(dtype=bool),
        len(draw.labeled),
    )


def _regression(images: Images, draw: Draw, seed: int) -> Scored:
    """Tuned for the accuracy; the seed draws labels only."""
    del seed
    rivals = Rivals(images.features, images.truth, draw)
    classes, p = rivals.logistic("L2-normalized")
    held, correct = rivals.held_out("L2-normalized")
    wrong = classes[p.argmax(1)] != images.truth[draw.pool]
    return Scored(1 - p.max(1), wrong, held, correct, len(draw.labeled))


def _uniform(scored: Scored, error: float, rng: np.random.Generator) -> tuple[int, bool]:
    """Answers after learning: certify labels, then what is left; and if too many are wrong."""
    sample = _sample(scored, min(_UNIFORM, len(scored.wrong)), rng)
    return _n_answers(scored, sample, error)


def _surest_first(scored: Scored, error: float, rng: np.random.Generator) -> tuple[int, bool]:
    """The same with the size that held-out labels forecast to need the fewest answers.

    The first look may use up three quarters of the error probability. Sampled images above the
    threshold are left to people as all others, so they count once either way.
    """
    sample = _sample(scored, _best_size(scored, error), rng)
    return _n_answers(scored, sample, error, delta=0.75 * 0.05)


@lru_cache(maxsize=8)
def _best_size(scored: Scored, error: float) -> int:
    n = len(scored.wrong)
    outlooks = forecast(
        scored.held_scores,
        scored.held_correct,
        n_pool=n,
        sizes=SIZES,
        certify=dataset_test(error, 0.75 * 0.05, scored.n_learned / n),
        rng=np.random.default_rng(0),
    )
    return best_outlook(outlooks).n_certify if outlooks else min(_UNIFORM, n)


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
