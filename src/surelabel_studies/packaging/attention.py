"""Does the tail detail look at the date? The share of its attention inside the recorded boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from PIL import Image

from surelabel.api import Run
from surelabel.workflows.attention import CELL
from surelabel_studies.packaging.sets import parse_box


@dataclass(frozen=True)
class InBoxes:
    """The attention of one experiment with one seed, over test photographs with a complete date."""

    key: str
    seed: int
    n: int
    share: float
    """Mean share of the attention inside the boxes of day and month."""
    area: float
    """Mean share of the photograph that the boxes cover: what attention everywhere would give."""


def attention_in_boxes(
    key: str, seed: int, run: Run, boxes: pd.DataFrame, test: pd.Index
) -> InBoxes | None:
    """``boxes`` has columns file, day_box and month_box, by the path of the run; None without any.

    Photographs that were made from others have no boxes of their own and do not count.
    """
    ids = run.annotations.set_index("path")["id"]
    there = boxes.index.isin(test) & boxes.index.isin(ids.index)
    both = (boxes["day_box"] != "") & (boxes["month_box"] != "")
    some = boxes[there & both]
    if not len(some):
        return None
    size = run.folder.catalog.size
    columns = zip(some["file"], some["day_box"], some["month_box"], strict=True)
    inside = [box_mask(str(file), (str(day), str(month)), size) for file, day, month in columns]
    maps = run.attention(ids[some.index].tolist())
    shares = [share_inside(each, mask) for each, mask in zip(maps, inside, strict=True)]
    areas = [mask.mean() for mask in inside]
    return InBoxes(key, seed, len(some), float(np.mean(shares)), float(np.mean(areas)))


def box_mask(file: str, boxes: Sequence[str], size: int) -> np.ndarray:
    """(size, size) whether each pixel of the decoded photograph is in one of ``boxes``."""
    with Image.open(file) as photo:
        width, height = photo.size
    mask = np.zeros((size, size), dtype=bool)
    for box in boxes:
        left, top, right, bottom = parse_box(box)
        rows = slice(int(top * size / height), int(np.ceil(bottom * size / height)))
        mask[rows, int(left * size / width) : int(np.ceil(right * size / width))] = True
    return mask


def share_inside(attention: np.ndarray, mask: np.ndarray) -> float:
    """The share of (H, W) ``attention``, spread evenly over each cell, that is under ``mask``."""
    size = len(mask)
    pixels = np.kron(attention, np.ones((CELL, CELL)))[:size, :size]
    return float(pixels[mask].sum() / pixels.sum())
