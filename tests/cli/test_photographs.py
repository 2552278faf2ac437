"""Synthetic photographs through the real command line with the real pre-trained net."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import json
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from cli_files import surelabel

from surelabel.api import open_run
from surelabel.config.settings import Config
from surelabel.dataset.decode import Decoding
from surelabel.dataset.sources import find_images
from surelabel.errors import InputError, OptionError, RunError
from surelabel.models.backbones import load_backbone, photos_installed, weights_of
from surelabel.models.densenet import PublicDenseNet
from surelabel.selftraining.events import Advice, Event
from surelabel.workflows.label import start
from surelabel.workflows.model_inputs import choose_net, decoding_of
from surelabel_studies.use_by_dates.records import Settings
from surelabel_studies.use_by_dates.sets import Like
from surelabel_studies.use_by_dates.writer import write_use_by_dates

QUICK = ["--steps", "60", "--members", "1", "--mc-samples", "5", "--max-rounds", "1"]
QUICK += ["--views", "0", "--threads", "1", "--batch-size", "32", "--accept", "top:10"]


def write_photographs(folder: Path, seed: int = 1) -> tuple[Path, Path]:
    """63 synthetic photographs and labels for the first 40 of them."""
    data, table = folder / "data", folder / "data" / "some.csv"
    write_use_by_dates(data, Settings(Like.SET4, seed, 0.0045, 299), workers=1)
    with (data / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["path"], row["label"]) for row in csv.DictReader(file)]
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *rows[:40]])
    return data / "images", table


def test_photographs_are_labeled_by_a_pretrained_net(tmp_path: Path) -> None:
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    images, table = write_photographs(tmp_path)
    run = ["--labels", str(table), "--net", "efficientnet-lite0", *QUICK, "--json"]
    done = surelabel("label", images.parent, *run, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_labeled"] == 10
    (cache,) = (tmp_path / "cache").glob("features-*-320-bicubic*")
    n_images = len(list(images.glob("*.jpg")))
    width = 1280 + 320 + 192 + 112 + 40  # five layers
    assert (cache / "features.f16").stat().st_size == n_images * width * 2
    again = surelabel("label", images.parent, *run, "--out", "again", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    bare = [*run, "--no-feature-cache", "--out", "bare"]
    uncached = surelabel("label", images.parent, *bare, cwd=tmp_path)
    assert uncached.returncode == 0, uncached.stderr
    names = ("run", "again", "bare")
    scores = [(tmp_path / name / "annotations.parquet").read_bytes() for name in names]
    assert scores[0] == scores[1] == scores[2]
    new = surelabel("predict", "run", images, "--out", "new.csv", cwd=tmp_path)
    assert new.returncode == 0, new.stderr
    assert "--adapt-from" not in new.stderr  # labeled images are at distance 0: no drift
    report = surelabel("report", "run", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "data:image/jpeg" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


KILLED = """
import os, signal, sys
import surelabel.engines.inputs as inputs
from surelabel.cli.main import run
from surelabel.dataset.array_store import FeatureStore

inputs._SAVE = 8
calls, add = [], FeatureStore.add

def add_and_die(store, digests, arrays):
    add(store, digests, arrays)
    calls.append(len(digests))
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

FeatureStore.add = add_and_die
sys.exit(run(sys.argv[1:]))
"""


def test_a_run_killed_in_extraction_ends_with_the_same_labels(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    images, table = write_photographs(tmp_path)
    label = ["label", str(images.parent), "--labels", str(table), "--net", "efficientnet-lite0"]
    whole = surelabel(*label, *QUICK, "--out", "whole", "--cache", "other", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *label, *QUICK, "--out", "run", "--cache", "cache"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not list((tmp_path / "run" / "rounds").glob("*"))
    (features,) = (tmp_path / "cache").glob("features-*-onnxruntime")
    with contextlib.closing(sqlite3.connect(features / "index.sqlite")) as index:
        assert index.execute("SELECT count(*) FROM features").fetchone() == (24,)
    done = surelabel("resume", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = [tmp_path / name / "annotations.parquet" for name in ("run", "whole")]
    resumed, uninterrupted = map(pd.read_parquet, results)
    pd.testing.assert_frame_equal(resumed, uninterrupted)


def test_a_run_on_photographs_is_adapted_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    images, table = write_photographs(tmp_path)
    net = ["--net", "efficientnet-lite0", "--keep-aspect", *QUICK]
    old = surelabel("label", images.parent, "--labels", table, *net, "--out", "old", cwd=tmp_path)
    assert old.returncode == 0, old.stderr
    others, table = write_photographs(tmp_path / "others", seed=2)
    first, *rows = table.read_text(encoding="utf-8").splitlines()
    parts = [f"{row},{'tune' if i < 20 else 'train'}" for i, row in enumerate(rows)]
    table.write_text("\n".join([f"{first},split", *parts]), encoding="utf-8")
    new = ["--labels", str(table), "--k", "2", "--out", "new"]
    done = surelabel("adapt", "old", others.parent, *new, cwd=tmp_path)
    # 4: where no guess is sure enough, none is accepted.
    assert done.returncode in (0, 4), done.stderr
    assert "direct inference" in done.stderr
    assert len(list((tmp_path / "cache").glob("features-*-320-bicubic-pad*"))) == 1
    drawn = surelabel("draw", "new", "-n", "3", "--strategy", "uncertain", cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    monkeypatch.setattr("surelabel.models.backbones.weights_digest", lambda *_: "another")
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="other weights of efficientnet-lite0"):
        open_run("old").adapt(others.parent, table, "newer")
    assert not list(tmp_path.glob("newer*"))


def settled(tmp_path: Path, shape: tuple[int, ...], **options: object) -> tuple[str, list[Event]]:
    events: list[Event] = []
    config = Config(cache=str(tmp_path), **options)  # type: ignore[arg-type]
    source = find_images(np.zeros(shape, dtype=np.uint8))
    return choose_net(config, source, on_event=events.append)[0].net, events


def test_auto_is_compact_for_small_images(tmp_path: Path) -> None:
    assert settled(tmp_path, (2, 95, 400, 3)) == ("compact", [])
    assert settled(tmp_path, (2, 400, 400, 3), image_size=64) == ("compact", [])
    assert settled(tmp_path, (2, 8, 8), net="densenet") == ("densenet", [])


def test_auto_shows_small_photographs_to_the_nets_at_a_smaller_size(tmp_path: Path) -> None:
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    for side, size in ((150, 224), (300, 320)):
        source = find_images(np.zeros((2, side, side, 3), dtype=np.uint8))
        config, _ = choose_net(Config(cache=str(tmp_path)), source)
        assert config.net == "efficientnet-lite0+efficientnet-lite2"
        assert decoding_of(config).size == size


@pytest.mark.skipif(not photos_installed(), reason="surelabel[photos] is not installed")
def test_several_nets_side_by_side_give_the_features_of_each() -> None:
    pixels = torch.randint(0, 256, (2, 3, 96, 96), dtype=torch.uint8)
    backbones = [load_backbone(Config(net=net)) for net in ("lite0", "lite2", "lite0+lite2")]
    with torch.no_grad():
        first, second, both = (net(net.standardize(pixels)) for net in backbones)
    torch.testing.assert_close(both, torch.cat([first, second], dim=1), rtol=1e-4, atol=1e-4)
    layers = backbones[2].layers
    assert layers is not None
    assert sum(layers.sizes) == both.shape[1]
    assert layers.depths == (0, 1, 2, 3, 4) * 2


def test_several_nets_with_one_file_of_weights_are_refused() -> None:
    for options in ({"net_weights": "w.pth"}, {"tail": "wide"}):
        with pytest.raises(OptionError, match="several nets"):
            load_backbone(Config.from_mapping({"net": "lite0+lite2", **options}))


@pytest.mark.parametrize("net", ["auto", "compact", "densenet"])
def test_weights_for_a_net_that_takes_none_are_refused(tmp_path: Path, net: str) -> None:
    with pytest.raises(OptionError, match=r"net_weights is w\.pth, and the net .* with --net"):
        settled(tmp_path, (2, 8, 8), net=net, net_weights="w.pth")


def test_auto_is_pretrained_for_photographs_or_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surelabel.models import backbones

    assert settled(tmp_path, (2, 96, 400, 3), net_weights="w.pth")[0] == "efficientnet-lite0"
    missing = {
        name: replace(carried, package="a_package_that_is_not_installed")
        for name, carried in backbones._CARRIED.items()
    }
    monkeypatch.setattr(backbones, "_CARRIED", missing)
    net, (advice,) = settled(tmp_path, (2, 96, 400, 3))
    assert net == "compact"
    assert isinstance(advice, Advice)
    assert "surelabel[photos]" in advice.text
    with pytest.raises(InputError, match=r"surelabel\[photos\]"):
        load_backbone(Config(net="efficientnet-lite0"))


def test_the_same_weights_have_the_same_digest_each_time() -> None:
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    config = Config(net="efficientnet-lite0")
    assert load_backbone(config).digest == load_backbone(config).digest


def test_each_net_has_its_size_channels_and_resize_method() -> None:
    assert decoding_of(Config(net="lite0+lite2")) == Decoding(320, 3, "bicubic")
    for options in ({"effort": "low"}, {"tail": "small"}):
        lite0 = decoding_of(Config.from_mapping({"net": "efficientnet-lite0", **options}))
        assert lite0 == Decoding(224, 3, "bicubic")
    padded = decoding_of(Config(net="densenet201", image_size=299, keep_aspect=True))
    assert padded == Decoding(299, 3, "bilinear-pad")
    plain = decoding_of(Config(net="compact"))
    assert plain == Decoding(0, 0, "")


def test_a_net_that_cannot_be_loaded_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"densenet201 needs its weights.*--net-weights"):
        load_backbone(Config(net="densenet201"))
    with pytest.raises(OptionError, match=r"no net 'resnet50'.*surelabel\[timm\]"):
        load_backbone(Config(net="resnet50"))
    with pytest.raises(OptionError, match=r"last_block .*timm's nets.*efficientnet-lite0"):
        load_backbone(Config.from_mapping({"net": "inception_v3", "tail": "last_block"}))


def test_a_run_finds_its_weights_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = find_images(np.zeros((2, 8, 8), dtype=np.uint8))
    config, _ = choose_net(Config(net="densenet121", net_weights="w.pth"), source)
    assert config.net_weights == str(tmp_path / "w.pth")


def test_images_that_are_too_small_for_a_net_are_refused(tmp_path: Path) -> None:
    torch.save(PublicDenseNet("densenet121").state_dict(), tmp_path / "w.pth")
    backbone = load_backbone(Config(net="densenet121", net_weights=str(tmp_path / "w.pth")))
    with pytest.raises(OptionError, match=r"images of 8x8: .* 224"):
        backbone.shape(8)
    assert backbone.to("meta").shape(64) == (1024,)


def test_the_origin_of_weights_is_named() -> None:
    assert weights_of(Config(net="efficientnet-lite0")) == "ImageNet weights"
    file = Config(net="densenet201", net_weights="far/away/w.pth")
    assert weights_of(file) == "weights from the file w.pth"
    assert weights_of(Config(net="inception_v3")) == "weights from the hub"


def test_very_many_classes_are_refused_before_features_are_computed(tmp_path: Path) -> None:
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    images = np.random.default_rng(0).integers(0, 256, (4100, 8, 8, 3), dtype=np.uint8)
    labels = np.arange(len(images)) // 2
    labels[-2:] = -1
    config = Config(net="lite0", cache=str(tmp_path), image_size=8)
    with pytest.raises(InputError, match=r"2,049 classes.*--tail small"):
        start(images, labels, tmp_path / "run", config)
    assert not (tmp_path / "run").exists()
