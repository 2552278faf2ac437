"""Write a result as a table, as a folder of images per class, or in the format of another tool.

Whatever is written appears whole or not at all, and nothing of the user's is overwritten unasked.
"""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.errors import InputError, OptionError
from surelabel.export.image_folder import Missing, place, write_class_map, write_image_folder
from surelabel.files.atomic import atomic_folder, atomic_write_with
from surelabel.files.spreadsheet import guard_table
from surelabel.runs.folder import RunFolder
from surelabel.types import OnProgress, no_progress

if TYPE_CHECKING:
    import pandas as pd

    from surelabel.dataset.array_store import PixelStore


class ExportFormat(StrEnum):
    """What ``surelabel export --to`` writes."""

    CSV = "csv"
    """A table as text, one row per image."""
    PARQUET = "parquet"
    """The same table with types."""
    FOLDER = "folder"
    """The images themselves, one folder per class (``ImageFolder``)."""
    HF_FOLDER = "hf-folder"
    """For Hugging Face datasets: the images in one folder, with metadata.jsonl."""
    HF_PARQUET = "hf-parquet"
    """For Hugging Face datasets: Parquet files with the images inside."""

    @property
    def is_table(self) -> bool:
        """Whether it is one file with a row per image; else it is a folder."""
        return self in (ExportFormat.CSV, ExportFormat.PARQUET)


MARKER = "export.json"
"""Marks a folder as an export, which another export may replace; lists its files."""
_ENDINGS = {".csv": ExportFormat.CSV, ".parquet": ExportFormat.PARQUET}


def choose_format(to: str | None, out: Path | None) -> ExportFormat:
    """The format by ``--to``, or else by the ending of ``--out``; they must not contradict."""
    ending = _ENDINGS.get(out.suffix.lower()) if out is not None else None
    if to is None and out is not None and ending is None:
        raise OptionError(
            f"{out}: give a file name that ends in .csv or .parquet, or name the format with "
            f"--to ({', '.join(ExportFormat)})."
        )
    if to is None:
        return ending or ExportFormat.CSV
    try:
        kind = ExportFormat(to)
    except ValueError:
        raise OptionError(f"--to is '{to}'; it can be {', '.join(ExportFormat)}.") from None
    if ending not in (None, kind):
        raise OptionError(f"--to is {kind}, but {out} ends in {ending}: change one of them.")
    return kind


def default_target(run: Path, kind: ExportFormat) -> Path:
    """``photos.csv``, ``photos-labeled``, ``photos-hf-folder``, ... for the run ``runs/photos``."""
    name = run.resolve().name
    if kind is ExportFormat.FOLDER:
        return Path(f"{name}-labeled")
    return Path(f"{name}.{kind}" if kind.is_table else f"{name}-{kind}")


def check_target(out: Path, *, overwrite: bool) -> ExportFormat:
    """The format of the table ``out`` by its ending; ``OptionError`` if it cannot be written."""
    kind = _ENDINGS.get(out.suffix.lower())
    if kind is None:
        raise OptionError(f"{out}: give a file name that ends in .csv or .parquet.")
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
    match to:
        case ExportFormat.CSV:
            shown = guard_table(table) if guard else table
            atomic_write_with(
                path,
                lambda temporary: shown.to_csv(
                    temporary, index=False, encoding="utf-8", lineterminator="\n"
                ),
            )
        case ExportFormat.PARQUET:
            rows = table.copy(deep=False)
            rows.attrs = {}  # notes for Python users, which Parquet cannot always hold
            atomic_write_with(path, lambda temporary: rows.to_parquet(temporary, index=False))
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
    on_progress: OnProgress = no_progress,
) -> int:
    """Write the run's ``annotations`` to ``out``; returns the number of images in it.

    A folder may lack images whose files are gone; ``missing.csv`` in it lists them.
    """
    to, out = ExportFormat(to), Path(out)
    if folder.owns(out):
        raise OptionError(f"{out} belongs to the run itself: give another --out.")
    try:
        if not to.is_table:
            _refuse_occupied_folder(out, overwrite=overwrite)
            return _export_folder(folder, annotations, to, out, overwrite, on_progress)
        _refuse_taken_file(to, out, overwrite=overwrite)
        export_table(annotations, out, to, guard=guard)
        return len(annotations)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}.") from error


def n_missing_in(out: Path) -> int:
    """How many images the exported folder ``out`` lacks."""
    return int(json.loads((out / MARKER).read_text())["missing"])


def _export_folder(
    folder: RunFolder,
    annotations: pd.DataFrame,
    to: ExportFormat,
    out: Path,
    overwrite: bool,
    on_progress: OnProgress,
) -> int:
    if overwrite:
        _refuse_sources_inside(out, folder)
    with atomic_folder(out, replace=overwrite) as target:
        missing = _write_folder(to, target, annotations, folder, on_progress)
        counts = {"images": len(annotations) - len(missing), "missing": len(missing)}
        about = {"made_by": "surelabel", **counts, "files": _files_in(target)}
        (target / MARKER).write_text(json.dumps(about) + "\n")
    return counts["images"]


def _write_folder(
    to: ExportFormat,
    target: Path,
    annotations: pd.DataFrame,
    folder: RunFolder,
    on_progress: OnProgress,
) -> list[Missing]:
    """Fill the folder ``target``; returns the images that could not be written."""
    from surelabel.export.huggingface import write_metadata_folder, write_parquet_shards

    catalog, store = folder.catalog, _pixels(folder)
    match to:
        case ExportFormat.HF_FOLDER:
            return write_metadata_folder(target, annotations, catalog, store, on_progress)
        case ExportFormat.HF_PARQUET:
            return write_parquet_shards(target, annotations, catalog, store, on_progress)
    labels = [str(label) for label in annotations["label"].fillna("")]
    placements = place(catalog, annotations["id"].tolist(), labels)
    write_class_map(target, labels)
    return write_image_folder(target, placements, store, on_progress)


def _refuse_taken_file(kind: ExportFormat, out: Path, *, overwrite: bool) -> None:
    if out.is_dir():
        raise OptionError(
            f"{out} is a folder: give --out a file name such as {out / 'labels'}.{kind}."
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
        about = json.loads((folder / MARKER).read_text())
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
    held = (Path(file).resolve() for file in folder.catalog.files.tolist() if file)
    if any(each.is_relative_to(target) for each in (folder.path.resolve(), *held)):
        raise OptionError(f"{out} holds images or the run itself: give another --out.")


def _pixels(folder: RunFolder) -> PixelStore:
    from surelabel.dataset.array_store import cache_folder
    from surelabel.dataset.pixels import open_pixels

    return open_pixels(folder.catalog, cache_folder(folder.config.cache))
