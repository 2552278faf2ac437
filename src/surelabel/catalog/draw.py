"""Images to label first, picked at random when there are no labels yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surelabel.atomic import atomic_path
from surelabel.catalog.decode import UnreadableImageError, decode_image, strict_pillow
from surelabel.catalog.sources import Images, find_images
from surelabel.errors import InputError, OptionError
from surelabel.types import derive_seed

if TYPE_CHECKING:
    import pandas as pd


def draw(images: Images, n: int, *, seed: int) -> pd.DataFrame:
    """``path,label`` of ``n`` readable images, drawn uniformly, with the label left to fill in.

    The rows are in random order: who labels only the first half has a random sample still. All
    images come back when there are fewer than ``n``.
    """
    import pandas as pd

    if n < 1:
        raise OptionError(f"{n} images cannot be drawn: ask for 1 or more.")
    source = find_images(images)
    files = dict(zip(source.keys, source.files, strict=True))
    keys = sorted(files)
    chosen: list[str] = []
    with strict_pillow():
        for position in np.random.default_rng(derive_seed(seed, "draw")).permutation(len(keys)):
            if len(chosen) == n:
                break
            if source.array is not None or _is_readable(files[keys[position]]):
                chosen.append(keys[position])
    if not chosen:
        raise InputError(f"{source.name} has no image that can be read.")
    return pd.DataFrame({"path": chosen, "label": [""] * len(chosen)})


def write_draw(table: pd.DataFrame, path: Path) -> None:
    """Write ``table`` as CSV (TSV by its ending), never over a file that may hold answers."""
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        with atomic_path(path, replace=False) as scratch:
            table.to_csv(scratch, sep=separator, index=False)
    except FileExistsError:
        raise InputError(
            f"{path} is there already and may hold labels: name another file with --out."
        ) from None


def _is_readable(file: str) -> bool:
    try:
        decode_image(Path(file).read_bytes(), 16, 3)
    except (OSError, UnreadableImageError):
        return False
    return True
