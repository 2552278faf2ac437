from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surelabel_studies.packaging.attention import box_mask, share_inside


def test_the_share_inside_a_box_is_its_part_of_the_attention(tmp_path: Path) -> None:
    Image.new("RGB", (80, 40)).save(tmp_path / "photo.png")
    mask = box_mask(str(tmp_path / "photo.png"), ("0 0 20 20", "40 20 60 40"), 40)
    assert mask.sum() == 2 * 10 * 20  # each box is 10 wide and 20 high after squeezing
    even = np.full((5, 5), 1 / 25)
    assert share_inside(even, mask) == pytest.approx(mask.mean())
    first_cell = np.zeros((5, 5))
    first_cell[0, 0] = 1
    assert share_inside(first_cell, mask) == pytest.approx(1)
    half = np.zeros((5, 5))
    half[0, 1] = 1  # pixels 8 to 16 across, of which the box has 8 and 9
    assert share_inside(half, mask) == pytest.approx(2 / 8)


def test_cells_beyond_the_border_do_not_count(tmp_path: Path) -> None:
    Image.new("RGB", (36, 36)).save(tmp_path / "photo.png")
    mask = box_mask(str(tmp_path / "photo.png"), ("0 0 36 36",), 36)
    assert share_inside(np.random.default_rng(0).random((6, 6)), mask) == pytest.approx(1)
