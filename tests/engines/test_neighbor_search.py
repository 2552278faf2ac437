from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engine_data import N_CLASSES, N_HUMAN, digit_images, first_inputs, make_problem, tiny

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.build import build_catalog
from surelabel.dataset.decode import Decoding
from surelabel.engines import neighbor_search as alike
from surelabel.engines.ensemble import predict_as_round
from surelabel.engines.inputs import Images
from surelabel.engines.local import LocalLearner
from surelabel.engines.neighbor_search import load_adjustment, neighbor_index
from surelabel.engines.storage import weights_path
from surelabel.selection.matrix_scaling import MatrixScaling
from surelabel.selection.neighbor_vote import Adjustment, adjust
from surelabel.types import FloatArray, Ids, Progress


def photos(cache: Path, n: int = 12, groups: list[str] | None = None) -> Images:
    """Smooth random images; the second n are the first, darker and flatter."""
    coarse = np.random.default_rng(0).integers(0, 255, (n, 4, 4))
    images = np.kron(coarse, np.ones((1, 7, 7)))
    pixels = np.concatenate([images, 0.4 * images + 20]).astype(np.uint8)
    labels = np.where(np.arange(2 * n) < n, np.arange(2 * n) % 2, -1)
    catalog = build_catalog(pixels, labels, seed=0, decoding=Decoding(28), cache=cache)
    if groups is not None:
        catalog = replace(catalog, groups=np.array(groups))
    return Images(catalog, PixelStore(cache, catalog.size, catalog.channels))


def own_names(ids: Ids) -> FloatArray:
    """Each says its own place: what is reports tells who was asked."""
    return np.eye(len(ids))


def votes_of(images: Images) -> FloatArray:
    ids = images.catalog.ids
    return neighbor_index(images, ids, own_names(ids)).votes(ids)


@pytest.fixture(autouse=True)
def _ask_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "N_NEIGHBORS", 3)


def test_an_image_is_most_like_its_darker_and_flatter_self(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alike, "N_NEIGHBORS", 1)
    assert votes_of(photos(tmp_path)).argmax(axis=1).tolist() == [*range(12, 24), *range(12)]


def test_three_are_asked_and_none_asks_itself(tmp_path: Path) -> None:
    reports = votes_of(photos(tmp_path))
    assert ((reports > 0).sum(axis=1) == 3).all()
    assert reports.sum(axis=1) == pytest.approx(np.ones(24))
    assert (np.diag(reports) == 0).all()


def test_nobody_asks_its_copy_or_its_group(tmp_path: Path) -> None:
    images = digit_images(tmp_path)
    reports = votes_of(images)
    assert reports[0, N_HUMAN - 1] == reports[N_HUMAN - 1, 0] == 0  # the same image
    pairs = [f"scene {i % 12}" for i in range(24)]
    reports = votes_of(photos(tmp_path / "groups", groups=pairs))
    assert all(reports[i, (i + 12) % 24] == 0 for i in range(24))


def test_who_has_nobody_to_ask_hears_nothing(tmp_path: Path) -> None:
    reports = votes_of(photos(tmp_path, groups=["one scene"] * 24))
    assert reports == pytest.approx(np.full((24, 24), 1 / 24))


def test_with_few_others_those_are_asked(tmp_path: Path) -> None:
    images = photos(tmp_path)
    ids = images.catalog.ids[[0, 12]]
    reports = neighbor_index(images, ids, own_names(ids)).votes(ids)
    assert reports.tolist() == [[0, 1], [1, 0]]


def test_an_image_and_its_negative_are_not_alike(tmp_path: Path) -> None:
    coarse = np.random.default_rng(0).integers(0, 255, (2, 4, 4))
    images = np.kron(coarse, np.ones((1, 7, 7)))
    pixels = np.concatenate([images, 255 - images]).astype(np.uint8)
    catalog = build_catalog(pixels, [0, 0, 1, 1], seed=0, decoding=Decoding(28), cache=tmp_path)
    reports = votes_of(Images(catalog, PixelStore(tmp_path, catalog.size, catalog.channels)))
    assert all(reports[i, (i + 2) % 4] == 0 for i in range(4))


def test_an_image_without_contrast_is_like_none(tmp_path: Path) -> None:
    pixels = np.full((8, 28, 28), 9, dtype=np.uint8) + np.arange(8, dtype=np.uint8)[:, None, None]
    catalog = build_catalog(pixels, [0, 1] * 4, seed=0, decoding=Decoding(28), cache=tmp_path)
    reports = votes_of(Images(catalog, PixelStore(tmp_path, catalog.size, catalog.channels)))
    assert reports == pytest.approx(np.full((8, 8), 1 / 8))


def test_batches_change_nothing_and_progress_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = photos(tmp_path)
    whole, ids = votes_of(images), images.catalog.ids
    monkeypatch.setattr(alike, "EXACT_QUERIES", 5)
    reports: list[Progress] = []
    parts = neighbor_index(images, ids, own_names(ids)).votes(ids, reports.append)
    assert np.array_equal(parts, whole)
    assert [p.done for p in reports] == [5, 10, 15, 20, 24]


def test_a_round_loaded_from_disk_applies_its_stored_adjustment(tmp_path: Path) -> None:
    images, work_folder = digit_images(tmp_path / "cache"), tmp_path / "round"
    work_folder.mkdir()
    problem = make_problem(images.catalog)
    learner = LocalLearner(tiny(), images).train(first_inputs(problem), work_folder)
    own = learner.predict(problem.pool_ids)
    people = np.eye(N_CLASSES)[problem.human_labels]
    bank = neighbor_index(images, problem.human_ids, people)
    rng = np.random.default_rng(0)
    adjustment = Adjustment(
        0.5, MatrixScaling(0.7, rng.normal(0, 0.1, (2 * N_CLASSES + 1, N_CLASSES)))
    )
    bank.save(work_folder, adjustment)
    assert np.array_equal(learner.predict(problem.pool_ids).probabilities, own.probabilities)
    reports = adjust(own, bank.votes(problem.pool_ids), adjustment)
    weights = [weights_path(work_folder, 0)]
    later = predict_as_round(weights, 1, tiny(), images, problem.pool_ids)
    assert later.probabilities == pytest.approx(reports.probabilities)
    assert not np.allclose(reports.probabilities, own.probabilities)


def test_the_run_s_own_images_do_not_ask_themselves_later(tmp_path: Path) -> None:
    images = photos(tmp_path)
    ids = images.catalog.ids
    bank = neighbor_index(images, ids[:12], own_names(ids[:12]))
    bank.save(tmp_path, Adjustment(0.25))
    found = load_adjustment(tmp_path, images)
    assert found is not None
    assert found[1] == Adjustment(0.25)
    assert found[0].votes(ids[:12]) == pytest.approx(bank.votes(ids[:12]), abs=1e-3)


def test_a_round_begun_again_forgets_whom_it_asked(tmp_path: Path) -> None:
    images, work_folder = digit_images(tmp_path / "cache"), tmp_path / "round"
    work_folder.mkdir()
    problem = make_problem(images.catalog)
    neighbor_index(images, problem.human_ids, own_names(problem.human_ids)).save(
        work_folder, Adjustment(0.5)
    )
    LocalLearner(tiny(), images).train(first_inputs(problem), work_folder)
    assert load_adjustment(work_folder, images) is None


def test_a_round_that_kept_nothing_has_nobody_to_ask(tmp_path: Path) -> None:
    assert load_adjustment(tmp_path, digit_images(tmp_path / "cache")) is None
