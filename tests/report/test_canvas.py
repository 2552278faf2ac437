from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from surelabel.report.canvas import COLORS, MARKERS, canvas, save_figure


def draw(stem: Path) -> list[Path]:
    with canvas(4.0, 3.0) as figure:
        axes = figure.subplots()
        axes.plot([1, 2, 3], [3, 1, 2])
        return save_figure(figure, stem, "Three points & a line.")


def test_a_figure_is_a_png_an_svg_and_a_caption(tmp_path: Path) -> None:
    files = draw(tmp_path / "new" / "line")
    assert [p.name for p in files] == ["line.png", "line.svg", "line.txt"]
    with Image.open(files[0]) as image:
        assert image.size == (600, 450)
        assert image.info["Description"] == "Three points & a line."
    assert "Three points &amp; a line." in files[1].read_text(encoding="utf-8")
    assert files[2].read_text(encoding="utf-8") == "Three points & a line.\n"


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    one, other = draw(tmp_path / "a" / "line"), draw(tmp_path / "b" / "line")
    for mine, again in zip(one, other, strict=True):
        assert mine.read_bytes() == again.read_bytes()


def test_the_style_ends_with_the_canvas() -> None:
    before = dict(mpl.rcParams)
    with canvas():
        assert not mpl.rcParams["axes.spines.top"]
        cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
        assert [f"#{c.lstrip('#')}" for c in cycle] == list(COLORS)
    assert dict(mpl.rcParams) == before


def test_colors_differ_in_brightness_or_marker() -> None:
    """Whoever sees no color has the markers; whoever sees few has the brightness too."""
    assert len(set(MARKERS)) == len(COLORS) == len(MARKERS)
    channels = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in COLORS])
    brightness = channels @ [0.299, 0.587, 0.114]
    assert np.diff(np.sort(brightness)).max() > 30
    assert brightness.max() < 190, "still to be seen on white"


def test_a_canvas_needs_no_display(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    assert draw(tmp_path / "line")[0].exists()
