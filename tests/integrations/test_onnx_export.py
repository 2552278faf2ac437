"""Exported models say what our nets say, run by onnxruntime."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import surelabel
from surelabel.engines.ensemble import load_round
from surelabel.engines.linear_model import LinearEnsemble
from surelabel.errors import InputError
from surelabel.inference.measures import all_measures
from surelabel.integrations.onnx_export import OUTPUTS
from surelabel.models.backbones import photos_installed
from surelabel.types import Prediction
from surelabel.workflows.model_inputs import open_inputs

TOLERANCE = 1e-4


def outputs_of(path: Path, images: Any) -> dict[str, Any]:
    """What onnxruntime computes, by name of the output."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="surelabel[onnx] is not installed")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return dict(zip(OUTPUTS, session.run(None, {"images": images}), strict=True))


def own_prediction(run: surelabel.Run) -> tuple[Any, Prediction]:
    """Decoded images (N, S, S, C), and what the nets predict for them without the vote."""
    from surelabel.dataset.array_store import cache_folder
    from surelabel.dataset.pixels import open_pixels

    folder, last = run.folder, run.folder.last_round()
    assert last is not None
    store = open_pixels(folder.catalog, cache_folder(folder.config.cache))
    inputs = open_inputs(folder.config, folder.catalog, store)
    ensemble = load_round(last.weights(), last.number, folder.config, inputs)
    if isinstance(ensemble, LinearEnsemble):
        ensemble = replace(ensemble, model=replace(ensemble.model, vote=0.0))
    return store.gather(folder.catalog.digests), ensemble.predict(folder.catalog.ids)


def assert_agrees(found: dict[str, Any], prediction: Prediction) -> None:
    assert np.abs(found["probabilities"] - prediction.probabilities).max() < TOLERANCE
    for name, values in all_measures(prediction).items():
        assert np.abs(found[str(name)] - values).max() < TOLERANCE, name


def test_a_compact_net_agrees_image_by_image_and_in_any_batch(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="surelabel[onnx] is not installed")
    images = (load_digits().images[:150] * 15).astype(np.uint8)
    labels = np.where(np.arange(150) < 70, load_digits().target[:150], -1)
    run = surelabel.label(
        images,
        labels=labels,
        out=tmp_path / "run",
        cache=str(tmp_path / "cache"),
        net="compact",
        steps=15,
        members=2,
        max_rounds=1,
        mc_samples=7,
        accept="tukey",
    )
    written = run.export_model(tmp_path / "digits.onnx")
    pixels, prediction = own_prediction(run)
    found = outputs_of(written.path, pixels)
    assert_agrees(found, prediction)
    assert prediction.aleatoric_variance.min() > 0
    alone = outputs_of(written.path, pixels[3:4])
    assert np.allclose(alone["probabilities"], found["probabilities"][3:4], atol=1e-6)
    about = json.loads(written.preprocessing.read_text())
    assert about["input"]["shape"] == ["n", *pixels.shape[1:]]
    assert about["outputs"] == list(OUTPUTS)
    assert about["classes"] == [str(k) for k in range(10)]
    assert about["mc_samples"] == 7
    with pytest.raises(InputError, match=r"digits\.onnx exists"):
        run.export_model(written.path)


@pytest.mark.parametrize("tail", ["linear", pytest.param("small", marks=pytest.mark.slow)])
def test_photographs_agree_without_the_vote(tmp_path: Path, tail: str) -> None:
    pytest.importorskip("onnxscript", reason="surelabel[onnx] is not installed")
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    rng = np.random.default_rng(0)
    truth = np.arange(40) % 2
    images = rng.integers(0, 120, (40, 40, 40, 3)).astype(np.uint8)
    images[truth == 0, ..., 0] += 90
    run = surelabel.label(
        images,
        labels=np.where(np.arange(40) < 24, truth, -1),
        out=tmp_path / "run",
        cache=str(tmp_path / "cache"),
        net="lite0",
        image_size=64,
        tail=tail,
        steps=10,
        views=0,
        max_rounds=1,
        mc_samples=5,
    )
    written = run.export_model(tmp_path / "photos.onnx")
    pixels, prediction = own_prediction(run)
    assert_agrees(outputs_of(written.path, pixels), prediction)
    assert prediction.probabilities.std() > 0.1
    about = json.loads(written.preprocessing.read_text())
    assert about["input"]["resize"] == "bicubic"
    assert set(about["left_out"]) <= {"neighbor vote", "out-of-distribution detection"}
