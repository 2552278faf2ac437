"""The tail detail through the real command line: train, predict, report, and where it looked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_files import surelabel
from PIL import Image
from safetensors.numpy import load_file

import surelabel as package
from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.dataset.sources import find_images
from surelabel.errors import InputError, OptionError, RunDamagedError, RunError
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


def made_up(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """40 noisy photographs, 30 of them labeled."""
    images = np.random.default_rng(seed).integers(0, 255, (40, 96, 96, 3)).astype(np.uint8)
    return images, np.where(np.arange(40) < 30, np.arange(40) % 2, -1)


def test_a_run_starts_from_the_layers_of_another(tmp_path: Path) -> None:
    short = Config(net="lite0", tail=Tail.DETAIL, steps=2, members=1, max_rounds=1, views=0)
    short = short.replace(cache=str(tmp_path / "cache"), accept="top:5")
    package.label(*made_up(0), tmp_path / "first", config=short)
    still = short.replace(seed=1, steps=1, learning_rate=1e-9, weight_average=0.0)
    found = {}
    for name, start in (("new", ""), ("started", str(tmp_path / "first"))):
        config = still.replace(start_from=start)
        run = package.label(*made_up(1), tmp_path / name, config=config)
        assert run.config.start_from == (str(tmp_path / "first/rounds/001") if start else "")
    for name in ("first", "new", "started"):
        found[name] = load_file(tmp_path / name / "rounds/001/weights-0.safetensors")
    layer, head = "stem.blocks.0.layers.0.weight", "tail.out.weight"
    np.testing.assert_allclose(found["started"][layer], found["first"][layer], atol=1e-6)
    assert np.abs(found["new"][layer] - found["first"][layer]).max() > 1e-3
    np.testing.assert_allclose(found["started"][head], found["new"][head], atol=1e-6)
    # What a run has recorded can be given to another, and to study it again.
    again = package.label(*made_up(1), tmp_path / "again", config=run.config)
    assert again.config.start_from == run.config.start_from
    weights = tmp_path / "first/rounds/001/weights-0.safetensors"
    content = bytearray(weights.read_bytes())
    content[-9] ^= 4
    weights.write_bytes(content)
    with pytest.raises(RunDamagedError, match="weights-0"):
        again.resume(max_rounds=2, progress=False)


def test_a_run_that_does_not_fit_is_no_start(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (40, 16, 16)).astype(np.uint8)
    config = Config(steps=2, members=1, max_rounds=1, cache=str(tmp_path / "cache"))
    package.label(pixels, made_up(0)[1], tmp_path / "digits", config=config)
    detail = Config(net="lite0", tail=Tail.DETAIL, cache=str(tmp_path / "cache"))
    for options, start, error, reason in (
        (detail, "digits", OptionError, r"digits .*--net lite0 --tail detail.*compact"),
        (detail, "nowhere", RunError, "nowhere"),
        (config, "digits", OptionError, "--tail detail"),
    ):
        chosen = options.replace(start_from=str(tmp_path / start))
        with pytest.raises(error, match=reason):
            package.label(*made_up(0), tmp_path / "run", config=chosen)
    assert not (tmp_path / "run").exists()


def test_other_nets_look_everywhere(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (40, 16, 16)).astype(np.uint8)
    labels = np.where(np.arange(40) < 30, np.arange(40) % 2, -1)
    config = Config(steps=2, members=1, max_rounds=1, cache=str(tmp_path / "cache"))
    run = package.label(images, labels, tmp_path / "run", config=config)
    with pytest.raises(RunError, match="--tail detail"):
        run.attention(run.annotations["id"].tolist()[:1])
