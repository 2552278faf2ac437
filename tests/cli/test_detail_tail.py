"""The tail detail through the real command line: train, predict, report, and where it looked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_files import surelabel
from PIL import Image

import surelabel as package
from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.dataset.sources import find_images
from surelabel.errors import InputError, OptionError, RunError
from surelabel.models.backbones import photos_installed
from surelabel.workflows.model_inputs import choose_net

QUICK = ["--steps", "60", "--members", "1", "--mc-samples", "5", "--max-rounds", "1"]
QUICK += ["--views", "0", "--threads", "1", "--accept", "top:10"]
SIDE = 128
pytestmark = pytest.mark.skipif(not photos_installed(), reason="surelabel[photos] is not installed")


def write_marked(folder: Path, n: int = 60) -> Path:
    """Noise with a small cross or a small circle somewhere, and labels for two thirds of them."""
    rng = np.random.default_rng(0)
    lines = ["path,label"]
    for i in range(n):
        pixels = rng.integers(90, 160, (SIDE, SIDE, 3)).astype(np.uint8)
        y, x = rng.integers(8, SIDE - 32, 2)
        rows, columns = np.mgrid[-12:12, -12:12]
        cross = (abs(rows) < 3) | (abs(columns) < 3)
        circle = abs(np.hypot(rows, columns) - 9) < 2.5
        pixels[y : y + 24, x : x + 24][cross if i % 2 else circle] = 255
        Image.fromarray(pixels).save(folder / f"{i:02}.png")
        if i < 2 * n // 3:
            lines.append(f"{i:02}.png,{'cross' if i % 2 else 'circle'}")
    table = folder / "labels.csv"
    table.write_text("\n".join(lines), encoding="utf-8")
    return table


def test_a_run_with_the_tail_detail_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    images = tmp_path / "images"
    images.mkdir()
    table = write_marked(images)
    Image.new("1", (10_000, 10_000)).save(images / "huge.png")
    net = ["--labels", str(table), "--net", "lite0", "--tail", "detail", *QUICK]
    done = surelabel("label", images, *net, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (cache,) = (tmp_path / "cache").glob("features-*-128-bicubic*")
    assert (cache / "features.f16").stat().st_size == 60 * 272 * 8 * 8 * 2
    skipped = (tmp_path / "run" / "skipped.csv").read_text(encoding="utf-8")
    assert "huge.png" in skipped
    assert "million pixels" in skipped
    run = package.open_run(tmp_path / "run")
    assert run.config.image_size == SIDE
    table_of = run.annotations.set_index("path")
    assert table_of["aleatoric_variance"].notna().any()
    assert table_of["mutual_information"].notna().any()
    chosen = run.annotations["id"].tolist()[:3]
    maps = run.attention(chosen)
    assert maps.shape == (3, 16, 16)
    np.testing.assert_allclose(maps.sum((1, 2)), 1, rtol=1e-4)
    np.testing.assert_allclose(run.attention(chosen[1:]), maps[1:], atol=1e-5)
    new = surelabel("predict", "run", images, "--out", "new.csv", cwd=tmp_path)
    assert new.returncode == 0, new.stderr
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "where the nets looked" in page


def test_small_images_are_refused_and_large_ones_shrunk(tmp_path: Path) -> None:
    config = Config(net="lite0", tail=Tail.DETAIL, cache=str(tmp_path))
    with pytest.raises(OptionError, match=r"96 pixels.*64 or less"):
        choose_net(config, find_images(np.zeros((2, 64, 200, 3), dtype=np.uint8)))
    for side, seen in ((299, 299), (1000, 448)):
        source = find_images(np.zeros((2, side, side, 3), dtype=np.uint8))
        assert choose_net(config, source)[0].image_size == seen


def test_no_room_for_the_maps_is_told_before_they_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10_000))
    images = np.random.default_rng(0).integers(0, 255, (30, 96, 96, 3)).astype(np.uint8)
    labels = np.where(np.arange(30) < 24, np.arange(30) % 2, -1)
    config = Config(net="lite0", tail=Tail.DETAIL, cache=str(tmp_path / "cache"))
    # 27.6 kB of pixels and 19.6 kB of maps for each of thirty images
    with pytest.raises(InputError, match=r"30 images take 1\.4 MB.*--cache"):
        package.label(images, labels, tmp_path / "run", config=config)
    assert not list(tmp_path.glob("cache/*/pixels*"))  # nothing was decoded


def test_other_nets_look_everywhere(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (40, 16, 16)).astype(np.uint8)
    labels = np.where(np.arange(40) < 30, np.arange(40) % 2, -1)
    config = Config(steps=2, members=1, max_rounds=1, cache=str(tmp_path / "cache"))
    run = package.label(images, labels, tmp_path / "run", config=config)
    with pytest.raises(RunError, match="--tail detail"):
        run.attention(run.annotations["id"].tolist()[:1])
