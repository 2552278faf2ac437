"""The stages of a run, one per process: ``python -m scale.stages NAME PLACE SOURCE NET STEPS``.

Each prints the processor time of the stage itself, without what it has to load first.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from scale.pools import SIDE, fill_features, images_of, labels_of
from surelabel.config.choices import Effort
from surelabel.config.settings import Config
from surelabel.dataset.array_store import FeatureStore, cache_folder
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.dataset.sources import find_images
from surelabel.engines.device import prepare
from surelabel.engines.ensemble import load_round
from surelabel.engines.inputs import Features, Images
from surelabel.engines.local import learner_for
from surelabel.export.writers import ExportFormat, export_run
from surelabel.files.mapped_arrays import slices
from surelabel.inference.predictions import from_parts
from surelabel.report.page import write_report
from surelabel.review.queue import Task
from surelabel.review.session import ReviewSession
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.adjustments import Predictions, adjust_by_neighbors
from surelabel.selftraining.learner import OutlierDistances
from surelabel.selftraining.loop import self_train
from surelabel.selftraining.round import run_round
from surelabel.selftraining.round_inputs import Problem, RoundInputs, round_inputs_from
from surelabel.types import (
    FloatArray,
    Ids,
    IntArray,
    JsonObject,
    OnProgress,
    Prediction,
    no_progress,
)
from surelabel.workflows.certify import certify_run
from surelabel.workflows.label import FolderStore, annotations_of, start, write_result
from surelabel.workflows.model_inputs import choose_net, decoding_of, open_features, open_inputs
from surelabel.workflows.near_duplicates import write_near_duplicates
from surelabel.workflows.problem import problem_of

N_CLASSES = 10
N_REQUESTS = 200
"""Of each kind to the review page, so that the 99th percentile means something."""


@dataclass
class Bench:
    """One pool, its cache and its run, and the clock of the stage under way."""

    place: Path
    source: str
    net: str
    """compact works on pixels, any other on cached features."""
    steps: int
    seconds: float = 0.0
    facts: JsonObject = field(default_factory=dict)

    @property
    def images(self) -> Path:
        """What is labeled."""
        return images_of(self.place, self.source)

    @property
    def work(self) -> Path:
        """Where this kind of run keeps what it makes."""
        return self.place / self.net

    @property
    def run(self) -> RunFolder:
        """The finished run."""
        return RunFolder.open(self.work / "run")

    @property
    def config(self) -> Config:
        """Short training and few samples; the rest as by default."""
        wanted = Config(
            effort=Effort.LOW,
            steps=self.steps,
            mc_samples=2,
            net=self.net,
            image_size=SIDE,
            labels_are_random=True,
            max_error="0.1",
            accept="tukey",
            threads=1,
            cache=str(self.work / "cache"),
        )
        return choose_net(wanted, find_images(np.zeros((1, SIDE, SIDE), np.uint8)))[0]

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Count the processor time of what is inside."""
        before = time.process_time()
        yield
        self.seconds += time.process_time() - before

    def catalog(self) -> Catalog:
        """Found, hashed, labeled and divided; decoded where the cache lacks pixels."""
        config = self.config
        return build_catalog(
            find_images(self.images, cache_folder(config.cache)),
            labels_of(self.place, self.source),
            seed=0,
            tune_share=config.tune_share,
            certify_share=config.certify_share,
            decoding=decoding_of(config),
            cache=cache_folder(config.cache),
        )

    def inputs(self, folder: RunFolder) -> Images | Features:
        """Pixels or features, from the cache."""
        store = open_pixels(folder.catalog, cache_folder(folder.config.cache))
        return open_inputs(folder.config, folder.catalog, store)


def decode(bench: Bench) -> None:
    """Catalog and decoding with an empty cache."""
    with bench.clock():
        bench.catalog()


def catalog(bench: Bench) -> None:
    """The same when the pixels are cached, and writing it."""
    with bench.clock():
        made = bench.catalog()
        path = bench.work / "catalog.parquet"
        made.to_parquet(path)
    with bench.clock():
        Catalog.from_parquet(path)


def features(bench: Bench) -> None:
    """Writing features that are there; computing them is measured by other benchmarks."""
    config = bench.config
    made = bench.catalog()
    pixels = open_pixels(made, cache_folder(config.cache))
    store = open_features(config, made, pixels).store
    assert isinstance(store, FeatureStore)
    with bench.clock():
        fill_features(store, made.digests, pixels)
    bench.facts["width"] = store.shape[0]


def whole_run(bench: Bench) -> None:
    """From images to the result, in one process."""
    out = bench.work / "run"
    shutil.rmtree(out, ignore_errors=True)
    with bench.clock():
        start(bench.images, labels_of(bench.place, bench.source), out, bench.config)


def made_up_run(bench: Bench) -> None:
    """The same with made-up predictions, for tables of pools that would take hours to train on."""
    out, config = bench.work / "run", bench.config
    shutil.rmtree(out, ignore_errors=True)
    about = {"threads": 1, "images": str(bench.images)}
    folder = RunFolder.create(out, config=config, catalog=bench.catalog(), about=about)
    (folder.near_duplicates_path).write_text("path,near_duplicate,correlation\n")
    learner = _MadeUp(bench)
    with folder.lock(), bench.clock():
        self_train(lambda known: problem_of(folder), learner, FolderStore(folder), config)
        certify_run(folder, problem_of(folder).pool_ids)
        write_result(folder)


def near_duplicates(bench: Bench) -> None:
    folder = bench.run
    folder.near_duplicates_path.unlink()
    store = open_pixels(folder.catalog, cache_folder(folder.config.cache))
    with bench.clock():
        write_near_duplicates(folder, store, no_progress)


def training(bench: Bench) -> None:
    """The last round: on human labels and pseudo-labels, with its preparations."""
    folder, inputs = _last_inputs(bench)
    images = bench.inputs(folder)
    prepare(folder.config)
    with tempfile.TemporaryDirectory(dir=bench.work) as work, bench.clock():
        learner_for(folder.config, images).train(inputs, Path(work), no_progress)


def scoring(bench: Bench) -> None:
    folder, inputs = _last_inputs(bench)
    images, last = bench.inputs(folder), folder.last_round()
    assert last is not None
    prepare(folder.config)
    ensemble = load_round(last.weights(), last.number, folder.config, images)
    with bench.clock():
        held_out = ensemble.predict_held_out(inputs.problem)
        pool = ensemble.predict(inputs.problem.pool_ids)
    for name, each in (("held_out", held_out), ("pool", pool)):
        distance = each.distance if each.distance is not None else np.zeros(len(each))
        columns = (each.probabilities, each.expected_entropy, each.expected_square)
        np.savez(bench.work / name, each.ids, *columns, each.aleatoric_variance, distance)


def neighbor_search(bench: Bench) -> None:
    folder, inputs = _last_inputs(bench)
    replay, images = _Replay(bench), bench.inputs(folder)
    prepare(folder.config)
    held_out, problem = replay.predict_held_out(inputs.problem), inputs.problem
    truth = dict(zip(problem.tune_ids.tolist(), problem.tune_labels.tolist(), strict=True))
    predictions = Predictions(
        held_out,
        np.array([truth[i] for i in held_out.ids.tolist()]),
        replay.predict(problem.pool_ids),
    )
    learner = learner_for(folder.config, images)
    with tempfile.TemporaryDirectory(dir=bench.work) as work, bench.clock():
        adjust_by_neighbors(predictions, inputs, learner, folder.config, Path(work), no_progress)


def selection(bench: Bench) -> None:
    """Threshold, acceptance, weights and the table of a round, with stored predictions."""
    folder, inputs = _last_inputs(bench)
    previous = _table_before(folder)
    with tempfile.TemporaryDirectory(dir=bench.work) as work, bench.clock():
        outcome = run_round(
            inputs, previous, _Replay(bench), folder.config, Path(work), no_progress
        )
        from surelabel.files.documents import write_table

        write_table(Path(work) / "scores.parquet", outcome.pool)


def certification(bench: Bench) -> None:
    folder = bench.run
    folder.write_certifications([])
    with bench.clock():
        certify_run(folder, problem_of(folder).pool_ids)


def result_table(bench: Bench) -> None:
    folder = bench.run
    with folder.lock(), bench.clock():
        write_result(folder)


def report(bench: Bench) -> None:
    folder = bench.run
    with bench.clock():
        write_report(folder)


def review_queue(bench: Bench) -> None:
    """Building the queue, and the milliseconds that its requests take."""
    folder = bench.run
    with bench.clock():
        session = ReviewSession(folder, Task())
    from scale.requests import latencies

    bench.facts["requests"] = latencies(session, N_REQUESTS)


def export_csv(bench: Bench) -> None:
    _export(bench, ExportFormat.CSV)


def export_parquet(bench: Bench) -> None:
    _export(bench, ExportFormat.PARQUET)


def export_hf_parquet(bench: Bench) -> None:
    _export(bench, ExportFormat.HF_PARQUET)


def export_coco(bench: Bench) -> None:
    _export(bench, ExportFormat.COCO)


def _export(bench: Bench, to: ExportFormat) -> None:
    folder = bench.run
    with tempfile.TemporaryDirectory(dir=bench.work) as scratch, bench.clock():
        export_run(folder, annotations_of(folder), to, Path(scratch) / f"out{to.suffix}")


def _last_inputs(bench: Bench) -> tuple[RunFolder, RoundInputs]:
    """What the last round of the run was trained on."""
    folder = bench.run
    rounds = folder.finished_rounds()
    before = rounds[-2].path if len(rounds) > 1 else None
    problem = problem_of(folder)
    return folder, round_inputs_from(len(rounds), problem, _table_before(folder), before)


def _table_before(folder: RunFolder) -> Any:
    from surelabel.runs.rounds import POOL_TABLE

    rounds = folder.finished_rounds()
    return rounds[-2].read_table(POOL_TABLE) if len(rounds) > 1 else None


@dataclass(frozen=True)
class _Replay:
    """A learner that repeats the predictions which ``scoring`` stored."""

    bench: Bench

    def train(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress = no_progress
    ) -> _Replay:
        return self

    def neighbor_index(self, ids: Ids, predictions: FloatArray) -> None:
        return None

    def predict_held_out(
        self, problem: Problem, on_progress: OnProgress = no_progress
    ) -> Prediction:
        return self._stored("held_out")

    def predict(self, ids: Ids, on_progress: OnProgress = no_progress) -> Prediction:
        return self._stored("pool")

    def latents(self, ids: Ids) -> FloatArray:
        raise NotImplementedError

    def distances_from(
        self,
        outliers: Ids,
        problem: Problem,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress = no_progress,
    ) -> OutlierDistances | None:
        return None

    def report(self) -> Mapping[str, Any]:
        return {"members": []}

    def _stored(self, name: str) -> Prediction:
        with np.load(self.bench.work / f"{name}.npz") as arrays:
            return Prediction(*(arrays[f"arr_{k}"] for k in range(6)))


@dataclass(frozen=True)
class _MadeUp(_Replay):
    """A learner whose predictions are drawn: of one class in most images, and sometimes wrong."""

    def train(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress = no_progress
    ) -> _MadeUp:
        return self

    def predict_held_out(
        self, problem: Problem, on_progress: OnProgress = no_progress
    ) -> Prediction:
        return self._drawn(problem.tune_ids, problem.tune_labels)

    def predict(self, ids: Ids, on_progress: OnProgress = no_progress) -> Prediction:
        return from_parts(
            (
                self._drawn(ids[part], part.start + np.arange(len(ids[part])))
                for part in slices(len(ids))
            ),
            len(ids),
            ids,
        )

    def _drawn(self, ids: Ids, classes: IntArray) -> Prediction:
        rng = np.random.default_rng(len(ids) + int(classes[0]))
        logits = rng.normal(size=(len(ids), N_CLASSES))
        sure = rng.gamma(4.0, 2.0, len(ids))
        logits[np.arange(len(ids)), classes % N_CLASSES] += sure
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        entropy = -(p * np.log(p)).sum(axis=1)
        noise = rng.random(len(ids))
        return Prediction(ids, p, 0.9 * entropy, (p**2).sum(axis=1), noise, noise)


ON_PIXELS: tuple[Callable[[Bench], None], ...] = (
    decode,
    catalog,
    whole_run,
    near_duplicates,
    training,
    scoring,
    neighbor_search,
    selection,
    certification,
    result_table,
    report,
    review_queue,
    export_csv,
    export_parquet,
    export_hf_parquet,
    export_coco,
)
ON_FEATURES: tuple[Callable[[Bench], None], ...] = (
    decode,
    features,
    whole_run,
    training,
    scoring,
    selection,
    certification,
    result_table,
)
STAGES = {stage.__name__: stage for stage in (*ON_PIXELS, *ON_FEATURES, made_up_run)}


def main(name: str, place: str, source: str, net: str, steps: str) -> None:
    bench = Bench(Path(place), source, net, int(steps))
    bench.work.mkdir(exist_ok=True)
    STAGES[name](bench)
    print(json.dumps({"seconds": bench.seconds, **bench.facts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
