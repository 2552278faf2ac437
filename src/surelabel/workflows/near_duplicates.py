"""The list of near copies that a run keeps."""

from __future__ import annotations

import pandas as pd

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.duplicates import near_copies
from surelabel.files.atomic import atomic_write_bytes
from surelabel.runs.folder import RunFolder
from surelabel.types import OnProgress


def list_near_copies(folder: RunFolder, store: PixelStore, on_progress: OnProgress) -> None:
    """Write the pairs of images that are nearly the same, unless they are written already."""
    if folder.near_copies_path.exists():
        return
    catalog = folder.catalog
    rows = store.rows(catalog.digests)
    pairs, alike = near_copies(lambda some: store.read(rows[some]), len(catalog), on_progress)
    one, other = (catalog.paths[pairs[:, side]] for side in (0, 1))
    table = pd.DataFrame({"path": one, "nearly_the_same": other, "correlation": alike.round(4)})
    atomic_write_bytes(folder.near_copies_path, table.to_csv(index=False).encode())
