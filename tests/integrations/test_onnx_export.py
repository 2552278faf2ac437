"""Exported models say what ``predict`` says, run by onnxruntime."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits

import surelabel
from surelabel.config.choices import Measure
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import catalog_like
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.ensemble import load_round
from surelabel.engines.linear_model import LinearEnsemble
from surelabel.errors import InputError
from surelabel.inference.measures import all_measures
from surelabel.integrations.exported_model import ExportedModel
from surelabel.integrations.onnx_export import DISTANCE, PREDICTED, last_round_of, write_onnx
from surelabel.integrations.onnx_graph import LinearGraph, measures_of, reduce
from surelabel.models.backbones import photos_installed
from surelabel.models.onnx_program import onnx_program
from surelabel.workflows.model_inputs import open_inputs

TOLERANCE = 1e-4


def outputs_of(written: ExportedModel, images: Any) -> dict[str, Any]:
    """What onnxruntime computes, by name of the output."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="surelabel[onnx] is not installed")
    session = onnxruntime.InferenceSession(str(written.path), providers=["CPUExecutionProvider"])
    names = json.loads(written.preprocessing.read_text())["outputs"]
    assert names == [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"images": images}), strict=True))


def decoded(run: surelabel.Run, images: Any) -> Any:
    """Other images (N, S, S, C), decoded as the run decodes its own."""
    cache = cache_folder(run.folder.config.cache)
    catalog = catalog_like(run.folder.catalog, images, cache=cache)
    return open_pixels(catalog, cache).gather(catalog.digests)


def assert_agrees(found: dict[str, Any], table: pd.DataFrame, run: surelabel.Run) -> None:
    """With the table that ``predict`` gives, image by image."""
    columns = [f"p_{name}" for name in run.rounds[-1].classes]
    assert np.abs(found["probabilities"] - table[columns].to_numpy()).max() < TOLERANCE
    for name in [*map(str, Measure), DISTANCE]:
        assert np.abs(found[name] - table[name].to_numpy()).max() < TOLERANCE, name
    assert [*found] == [*PREDICTED, DISTANCE]


def test_a_model_is_never_written_over_a_run_or_over_itself(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="surelabel[onnx] is not installed")
    images, labels = digits(0, 60)
    config = Config(net="compact", steps=2, members=1, max_rounds=1, cache=str(tmp_path / "cache"))
    run = surelabel.label(
        images, np.where(np.arange(60) < 50, labels, -1), tmp_path / "run", config=config
    )
    before = {p: p.read_bytes() for p in run.path.rglob("*") if p.is_file()}
    for out in ("catalog.parquet", "digests.onnx", "run.onnx", "answers.sqlite"):
        with pytest.raises(InputError, match="give another --out"):
            run.export_model(run.path / out, overwrite=True)
    assert {p: p.read_bytes() for p in run.path.rglob("*") if p.is_file()} == before
    for out, remedy in (("model.json", r"\.onnx"), (".", "file name")):
        with pytest.raises(InputError, match=remedy):
            run.export_model(tmp_path / out, overwrite=True)


def digits(first: int, n: int) -> tuple[Any, Any]:
    data = load_digits()
    part = slice(first, first + n)
    return (data.images[part] * 15).astype(np.uint8), data.target[part]


@pytest.mark.parametrize("n_labels", [300, pytest.param(900, marks=pytest.mark.slow)])
def test_a_compact_net_agrees_image_by_image_and_in_any_batch(
    tmp_path: Path, n_labels: int
) -> None:
    pytest.importorskip("onnxscript", reason="surelabel[onnx] is not installed")
    images, truth = digits(0, n_labels + 100)
    run = surelabel.label(
        images,
        labels=np.where(np.arange(len(images)) < n_labels, truth, -1),
        out=tmp_path / "run",
        cache=str(tmp_path / "cache"),
        net="compact",
        steps=15,
        members=2,
        max_rounds=1,
        mc_samples=7,
        accept="tukey",
        tune_share=0.5,
    )
    assert run.rounds[-1].neighbor_vote > 0
    assert run.rounds[-1].matrix_scaled == (n_labels > 800)
    written = run.export_model(tmp_path / "digits.onnx")
    new, _ = digits(1200, 90)
    found = outputs_of(written, pixels := decoded(run, new))
    assert_agrees(found, run.predict(new, probabilities=True), run)
    own = outputs_of(written, decoded(run, images))["probabilities"]
    known = run.predict(images, probabilities=True)[[f"p_{k}" for k in range(10)]].to_numpy()
    # In the run, near duplicates do not vote for each other either; the graph does not know them.
    assert (np.abs(own - known).max(1) < TOLERANCE).mean() > 0.98
    alone = outputs_of(written, pixels[3:4])
    assert np.allclose(alone["probabilities"], found["probabilities"][3:4], atol=1e-6)
    about = json.loads(written.preprocessing.read_text())
    assert about["input"]["shape"] == ["n", *pixels.shape[1:]]
    assert about["classes"] == [str(k) for k in range(10)]
    assert about["mc_samples"] == 7
    assert about["threshold"] == run.rounds[-1].threshold
    assert about["outlier_threshold"] == run.rounds[-1].outlier_threshold
    with pytest.raises(InputError, match=r"digits\.onnx exists"):
        run.export_model(written.path)


class Reduced(torch.nn.Module):
    """From logits (N, K + 1) of one net, three samples, to probabilities and measures."""

    def forward(self, logits: torch.Tensor) -> tuple[torch.Tensor, ...]:
        samples = torch.stack([logits, 1.01 * logits, 0.99 * logits])
        return tuple(each.float() for each in measures_of(*reduce(samples)))


def test_measures_of_a_net_that_is_quite_sure_are_numbers(tmp_path: Path) -> None:
    """Some probabilities are 0 then, in single precision."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="surelabel[onnx] is not installed")
    pytest.importorskip("onnxscript", reason="surelabel[onnx] is not installed")
    logits = torch.tensor([[0.0, 300, 1, -1], [90, 0, 0, -30], [0, 1, 2, 20]])
    names = list(PREDICTED)
    program = onnx_program(
        Reduced(), logits, input_name="logits", output_names=names, any_length=True
    )
    program.save(str(tmp_path / "m.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    found = session.run(None, {"logits": logits.numpy()})
    for name, values, expected in zip(names, found, Reduced()(logits), strict=True):
        assert np.allclose(values, expected.numpy(), atol=1e-6), name
        assert np.isfinite(values).all(), name


def photographs(seed: int, n: int) -> tuple[Any, Any]:
    """Random pixels of random brightness; half of them are redder. One label in five is wrong."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 2
    images = rng.integers(0, 100, (n, 40, 40, 3)) + rng.integers(0, 120, (n, 1, 1, 1))
    images[truth == 0, ..., 0] += 20
    return images.astype(np.uint8), np.where(rng.random(n) < 0.2, 1 - truth, truth)


@pytest.mark.parametrize(
    ("net", "tail"),
    [
        ("lite0+lite2", "linear"),
        pytest.param("lite0", "linear", marks=pytest.mark.slow),
        pytest.param("lite0", "small", marks=pytest.mark.slow),
    ],
)
def test_photographs_agree(tmp_path: Path, net: str, tail: str) -> None:
    pytest.importorskip("onnxscript", reason="surelabel[onnx] is not installed")
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    images, truth = photographs(0, 60)
    run = surelabel.label(
        images,
        labels=np.where(np.arange(60) < 44, truth, -1),
        out=tmp_path / "run",
        cache=str(tmp_path / "cache"),
        net=net,
        image_size=64,
        tail=tail,
        steps=10,
        views=0,
        max_rounds=1,
        mc_samples=5,
    )
    written = run.export_model(tmp_path / "photos.onnx")
    new, _ = photographs(1, 30)
    table = run.predict(new, probabilities=True)
    assert_agrees(outputs_of(written, decoded(run, new)), table, run)
    assert table["probability"].std() > 0.01
    about = json.loads(written.preprocessing.read_text())
    assert about["input"]["resize"] == "bicubic"
    assert about["certified_thresholds"] == {}
    if tail == "linear":
        assert_agrees_with_a_vote(run, new, tmp_path)


def assert_agrees_with_a_vote(run: surelabel.Run, new: Any, folder: Path) -> None:
    """The same heads, with neighbors that have a say whatever the labels chose."""
    files, last = run.folder, run.folder.last_round()
    assert last is not None
    cache = cache_folder(files.config.cache)
    catalog = catalog_like(files.catalog, new, cache=cache)
    store = open_pixels(catalog, cache)
    inputs = open_inputs(files.config, catalog, store)
    heads = load_round(last.weights(), last.number, files.config, inputs)
    assert isinstance(heads, LinearEnsemble)
    heads = replace(heads, model=replace(heads.model, vote=0.4))
    as_module = last_round_of(files)
    as_module.module.predictor = LinearGraph(heads)
    found = outputs_of(write_onnx(folder / "vote.onnx", as_module), store.gather(catalog.digests))
    expected = heads.predict(catalog.ids)
    assert np.abs(found["probabilities"] - expected.probabilities).max() < TOLERANCE
    for name, values in all_measures(expected).items():
        assert np.abs(found[str(name)] - values).max() < TOLERANCE, name
