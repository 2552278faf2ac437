"""Write a result as a table, as a folder of images per class, or in the format of another tool.

Whatever is written appears whole or not at all, and nothing of the user's is overwritten unasked.
"""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.dataset.locations import local_files
from surelabel.errors import InputError, OptionError
from surelabel.export.annotation_files import (
    write_class_tree,
    write_coco,
    write_cvat,
    write_fiftyone,
)
from surelabel.export.huggingface import write_metadata_folder, write_parquet_shards
from surelabel.export.image_folder import Missing
from surelabel.export.label_studio import LabelStudioOptions, write_project
from surelabel.export.names import UNLABELED
from surelabel.files.atomic import atomic_folder, atomic_write_with
from surelabel.files.documents import write_parquet
from surelabel.files.large_tables import ids_of
from surelabel.files.spreadsheet import write_csv, write_guarded_csv
from surelabel.runs.folder import RunFolder, refuse_run_file
from surelabel.types import Ids, OnProgress, no_progress

if TYPE_CHECKING:
    import pandas as pd

    from surelabel.dataset.array_store import PixelStore


class ExportFormat(StrEnum):
    """What ``surelabel export --to`` writes."""

    CSV = "csv"
    """A table as text, one row per image."""
    LABELS = "labels"
    """A CSV file of ``path`` and ``label`` and nothing else."""
    PARQUET = "parquet"
    """The same table with types."""
    FOLDER = "folder"
    """The images themselves, one folder per class (``ImageFolder``)."""
    HF_FOLDER = "hf-folder"
    """For Hugging Face datasets: the images in one folder, with metadata.parquet."""
    HF_PARQUET = "hf-parquet"
    """For Hugging Face datasets: Parquet files with the images inside."""
    LABEL_STUDIO = "label-studio"
    """A Label Studio project: tasks with predictions, and the labeling interface."""
    FIFTYONE = "fiftyone"
    """FiftyOne's image classification dataset: images and labels.json with confidences."""
    FIFTYONE_TREE = "fiftyone-tree"
    """FiftyOne's directory tree: one folder per class, and _unlabeled."""
    CVAT = "cvat"
    """Labels for CVAT, as ImageNet text in a ZIP file."""
    COCO = "coco"
    """COCO's JSON with one annotation per labeled image, without boxes."""

    @property
    def suffix(self) -> str:
        """How the name of the file ends; empty for a folder."""
        endings = {
            ExportFormat.CVAT: ".zip",
            ExportFormat.COCO: ".json",
            ExportFormat.LABELS: ".csv",
        }
        tables = {kind: f".{kind}" for kind in (ExportFormat.CSV, ExportFormat.PARQUET)}
        return {**endings, **tables}.get(self, "")


MARKER = "export.json"
"""Marks a folder as an export, which another export may replace; lists its files."""
_TABLES = {".csv": ExportFormat.CSV, ".parquet": ExportFormat.PARQUET}
_ENDINGS = {
    kind.suffix: kind for kind in ExportFormat if kind.suffix and kind is not ExportFormat.LABELS
}


def choose_format(to: str | None, out: Path | None) -> ExportFormat:
    """The format by ``--to``, or else by the ending of ``--out``; they must not contradict.

    Only a table is known by its ending: JSON and ZIP can be many things.
    """
    suffix = out.suffix.lower() if out is not None else ExportFormat.CSV.suffix
    if to is None and suffix not in _TABLES:
        raise OptionError(
            f"{out}: give a file name that ends in {', '.join(_TABLES)}, or name the format with "
            f"--to ({', '.join(ExportFormat)})."
        )
    if to is None:
        return _TABLES[suffix]
    ending = _ENDINGS.get(suffix) if out is not None else None
    try:
        kind = ExportFormat(to)
    except ValueError:
        raise OptionError(f"--to is '{to}'; it can be {', '.join(ExportFormat)}.") from None
    if kind is ExportFormat.LABELS and ending is ExportFormat.CSV:
        return kind
    if ending not in (None, kind):
        raise OptionError(f"--to is {kind}, but {out} ends in {ending}: change one of them.")
    return kind


def default_target(run: Path, kind: ExportFormat) -> Path:
    """``photos.csv``, ``photos-labeled``, ``photos-hf-folder``, ... for the run ``runs/photos``."""
    name = run.resolve().name
    if kind is ExportFormat.FOLDER:
        return Path(f"{name}-labeled")
    if kind is ExportFormat.LABELS:
        return Path(f"{name}-labels.csv")
    return Path(f"{name}{kind.suffix}" if kind.suffix else f"{name}-{kind}")


def check_target(out: Path, *, overwrite: bool) -> ExportFormat:
    """The format of the table ``out`` by its ending; ``OptionError`` if it cannot be written."""
    kind = _TABLES.get(out.suffix.lower())
    if kind is None:
        raise OptionError(f"{out}: give a file name that ends in .csv or .parquet.")
    refuse_run_file(out)
    _refuse_taken_file(kind, out, overwrite=overwrite)
    return kind


def export_table(
    table: pd.DataFrame, path: Path | str, to: ExportFormat, *, guard: bool = True
) -> None:
    """Write ``table`` to the file ``path``; its bytes depend on nothing but the rows.

    CSV is UTF-8 with a line feed after each row. Missing values are empty, and floats get the
    fewest digits from which their own type reads back the same number. With ``guard``, text that
    a spreadsheet would run as a formula gets an apostrophe in CSV; see ``files.spreadsheet``.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if to is ExportFormat.LABELS:
        table, to = table[["path", "label"]], ExportFormat.CSV
    match to:
        case ExportFormat.CSV:
            write = write_guarded_csv if guard else write_csv
            atomic_write_with(path, lambda temporary: write(table, temporary))
        case ExportFormat.PARQUET:
            rows = table.copy(deep=False)
            rows.attrs = {}  # notes for Python users, which Parquet cannot always hold
            atomic_write_with(path, lambda temporary: write_parquet(temporary, rows))
        case _:
            raise OptionError(f"{path}: a table can be written as csv or parquet, not as {to}.")


def export_run(
    folder: RunFolder,
    annotations: pd.DataFrame,
    to: ExportFormat | str,
    out: Path | str,
    *,
    overwrite: bool = False,
    guard: bool = True,
    label_studio: LabelStudioOptions | None = None,
    on_progress: OnProgress = no_progress,
) -> int:
    """Write the run's ``annotations`` to ``out``; returns the number of images in it.

    A folder may lack images whose files are gone; ``missing.csv`` in it lists them.
    """
    to, out = ExportFormat(to), Path(out)
    refuse_run_file(out)
    try:
        if not to.suffix:
            _refuse_occupied_folder(out, overwrite=overwrite)
            if overwrite:
                _refuse_sources_inside(out, folder)
            with atomic_folder(out, replace=overwrite) as target:
                if to is ExportFormat.LABEL_STUDIO:
                    options = label_studio or LabelStudioOptions()
                    n = write_project(target, annotations, folder.catalog, options)
                    return _mark(target, n, [])
                missing = _write_folder(to, target, annotations, folder, on_progress)
                return _mark(target, len(annotations) - len(missing), missing)
        _refuse_taken_file(to, out, overwrite=overwrite)
        match to:
            case ExportFormat.CVAT:
                atomic_write_with(out, lambda path: write_cvat(path, annotations, folder.catalog))
            case ExportFormat.COCO:
                sizes = _sizes(folder, ids_of(annotations["id"]), on_progress)
                atomic_write_with(
                    out, lambda path: write_coco(path, annotations, folder.catalog, sizes)
                )
            case _:
                export_table(annotations, out, to, guard=guard)
        return len(annotations)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}.") from error


def n_missing_in(out: Path) -> int:
    """How many images the exported folder ``out`` lacks."""
    return int(json.loads((out / MARKER).read_text(encoding="utf-8"))["missing"])


def _mark(target: Path, n: int, missing: list[Missing]) -> int:
    """Mark the folder ``target`` as an export; returns ``n``, the number of images in it."""
    counts = {"images": n, "missing": len(missing)}
    about = {"made_by": "surelabel", **counts, "files": _files_in(target)}
    (target / MARKER).write_text(json.dumps(about) + "\n", encoding="utf-8")
    return n


def _write_folder(
    to: ExportFormat,
    target: Path,
    annotations: pd.DataFrame,
    folder: RunFolder,
    on_progress: OnProgress,
) -> list[Missing]:
    """Fill the folder ``target``; returns the images that could not be written."""
    catalog, store = folder.catalog, _pixels(folder)
    match to:
        case ExportFormat.HF_FOLDER:
            return write_metadata_folder(target, annotations, catalog, store, on_progress)
        case ExportFormat.HF_PARQUET:
            return write_parquet_shards(target, annotations, catalog, store, on_progress)
        case ExportFormat.FIFTYONE:
            return write_fiftyone(target, annotations, catalog, store, on_progress)
        case ExportFormat.FIFTYONE_TREE:
            return write_class_tree(target, annotations, catalog, store, on_progress)
        case _:
            return write_class_tree(target, annotations, catalog, store, on_progress, UNLABELED)


def _sizes(folder: RunFolder, ids: Ids, on_progress: OnProgress) -> list[tuple[int, int]]:
    """Width and height of images; those that came as an array have the size of the run."""
    from surelabel.dataset.array_store import cache_folder
    from surelabel.dataset.file_index import read_headers

    catalog = folder.catalog
    files = catalog.files[catalog.rows(ids)].tolist()
    named = [file for file in files if file]
    headers = read_headers(named, cache_folder(folder.config.cache), on_progress)
    known = {file: (h.width, h.height) for file, h in zip(named, headers, strict=True)}
    return [known.get(file, (catalog.size, catalog.size)) for file in files]


def _refuse_taken_file(kind: ExportFormat, out: Path, *, overwrite: bool) -> None:
    if out.is_dir():
        raise OptionError(
            f"{out} is a folder: give --out a file name such as {out / 'labels'}{kind.suffix}."
        )
    if out.exists() and not overwrite:
        raise OptionError(f"{out} already exists: give another --out, or --overwrite.")


def _refuse_occupied_folder(out: Path, *, overwrite: bool) -> None:
    """Refuse a folder with files in it, unless all of them are from an earlier export."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out} is a file: give --out a folder.")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not overwrite:
        raise OptionError(f"{out} is not empty: give another --out, or --overwrite.")
    exported = _files_of_export(out)
    if exported is None:
        raise OptionError(
            f"{out} is not empty, and not an earlier export (it has no {MARKER}): its files are "
            "not deleted. Give another --out."
        )
    others = sorted(set(_files_in(out)) - {MARKER, *exported})
    if others:
        raise OptionError(
            f"{out} holds {len(others)} files that are not from the earlier export (the first is "
            f"{others[0]}): they are not deleted. Move them, or give another --out."
        )


def _files_of_export(folder: Path) -> list[str] | None:
    """The files that an earlier export wrote to ``folder``; None if there was none."""
    try:
        about = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return list(about["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _files_in(folder: Path) -> list[str]:
    """Paths of all files below ``folder``, relative to it."""
    return sorted(
        str((Path(parent) / name).relative_to(folder))
        for parent, _, names in os.walk(folder)
        for name in names
    )


def _refuse_sources_inside(out: Path, folder: RunFolder) -> None:
    """Replacing ``out`` deletes its files, so the run and its images must not be inside."""
    target = out.resolve()
    held = (Path(file).resolve() for file in local_files(folder.catalog.files.tolist()))
    if any(each.is_relative_to(target) for each in (folder.path.resolve(), *held)):
        raise OptionError(f"{out} holds images or the run itself: give another --out.")


def _pixels(folder: RunFolder) -> PixelStore:
    from surelabel.dataset.array_store import cache_folder
    from surelabel.dataset.pixels import open_pixels

    return open_pixels(folder.catalog, cache_folder(folder.config.cache))
