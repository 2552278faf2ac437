"""The list of near duplicates that a run keeps."""

from __future__ import annotations

import pandas as pd

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.duplicates import find_near_duplicates
from surelabel.files.atomic import atomic_write_with
from surelabel.files.spreadsheet import write_guarded_csv
from surelabel.runs.folder import RunFolder
from surelabel.types import OnProgress


def write_near_duplicates(folder: RunFolder, store: PixelStore, on_progress: OnProgress) -> None:
    """Write ``near_duplicates.csv``, unless the run has it already.

    Each row is a pair: ``path``, ``near_duplicate`` and the ``correlation`` of their thumbnails.
    """
    if folder.near_duplicates_path.exists():
        return
    catalog = folder.catalog
    store_rows = store.rows(catalog.digests)
    pairs, correlation = find_near_duplicates(
        lambda rows: store.read(store_rows[rows]), len(catalog), on_progress
    )
    path, near_duplicate = (catalog.paths[pairs[:, side]] for side in (0, 1))
    table = pd.DataFrame(
        {"path": path, "near_duplicate": near_duplicate, "correlation": correlation.round(4)}
    )
    atomic_write_with(
        folder.near_duplicates_path,
        lambda temporary: write_guarded_csv(table, temporary),
        parents=False,
    )
