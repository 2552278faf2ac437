"""Write the result where the user wants it: as CSV, as Parquet, or as folders of images."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.errors import InputError, OptionError
from surelabel.export.image_folder import Placement, place, write_class_map, write_image_folder
from surelabel.files.atomic import atomic_folder, atomic_write_with
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
    """The images themselves, a folder for each class (``ImageFolder``)."""


def parse_format(text: str) -> ExportFormat:
    """The format by name, or a sentence."""
    try:
        return ExportFormat(text)
    except ValueError:
        raise OptionError(f"--to is '{text}'; it can be {', '.join(ExportFormat)}.") from None


_ENDINGS = {".csv": ExportFormat.CSV, ".parquet": ExportFormat.PARQUET}


def choose_format(to: str | None, out: Path | None) -> ExportFormat:
    """What ``--to`` says, or else the ending of ``--out``; they must not contradict."""
    ending = _ENDINGS.get(out.suffix.lower()) if out is not None else None
    if to is None and out is not None and ending is None:
        raise OptionError(
            f"{out}: name a file that ends in .csv or .parquet, or say what it is to be: "
            f"--to {', '.join(ExportFormat)}."
        )
    if to is None:
        return ending or ExportFormat.CSV
    kind = parse_format(to)
    if ending not in (None, kind):
        raise OptionError(f"--to is {kind}, and {out} ends in {ending}: change one of them.")
    return kind


def export_target(run: Path, kind: ExportFormat) -> Path:
    """``photos.csv``, ``photos.parquet`` or ``photos-labeled`` for the run ``runs/photos``."""
    name = run.resolve().name
    return Path(f"{name}-labeled") if kind is ExportFormat.FOLDER else Path(f"{name}.{kind}")


def check_target(out: Path, *, overwrite: bool) -> ExportFormat:
    """The table format that the ending of ``out`` asks for, if a file can be written there."""
    kind = _ENDINGS.get(out.suffix.lower())
    if kind is None:
        raise OptionError(f"{out}: name a file that ends in .csv or .parquet.")
    refuse_taken(kind, out, overwrite=overwrite)
    return kind


def refuse_taken(kind: ExportFormat, out: Path, *, overwrite: bool) -> None:
    """``OptionError`` unless a table can be written to ``out``."""
    if out.is_dir():
        raise OptionError(
            f"{out} is a folder: give --out a file name such as {out / 'labels'}.{kind}."
        )
    if out.exists() and not overwrite:
        raise OptionError(f"{out} exists already: give another --out, or --overwrite.")


def export_table(annotations: pd.DataFrame, path: Path | str, to: ExportFormat) -> None:
    """Write ``annotations`` to the file ``path``; the bytes depend on nothing but the table.

    CSV is UTF-8 with a line feed at the end of each line; what is missing is empty, and every
    number reads back to the same number.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    match to:
        case ExportFormat.CSV:
            atomic_write_with(path, lambda temporary: _write_csv(annotations, temporary))
        case ExportFormat.PARQUET:
            atomic_write_with(
                path, lambda temporary: annotations.to_parquet(temporary, index=False)
            )
        case ExportFormat.FOLDER:
            raise OptionError(f"{path}: a table can be written as csv or parquet, not as folder.")


def _write_csv(annotations: pd.DataFrame, path: Path) -> None:
    """Floats get the fewest digits from which their own type reads back the same number."""
    annotations.to_csv(path, index=False, encoding="utf-8", lineterminator="\n")


#: Marks a folder as an export, which another export may replace.
MARKER = "export.json"


def export_run(
    folder: RunFolder,
    to: ExportFormat | str,
    out: Path | str,
    overwrite: bool = False,
    on_progress: OnProgress = no_progress,
    annotations: pd.DataFrame | None = None,
) -> int:
    """Write the run's annotations to ``out`` and return how many images are in it.

    Without ``annotations`` those are taken that the last finished round left on disk.
    Whatever ``to`` is, ``out`` appears whole or not at all. As a folder it may lack images whose
    source is gone; ``missing.csv`` in it lists them.
    """
    to, out = ExportFormat(to), Path(out)
    if folder.owns(out):
        raise OptionError(f"{out} belongs to the run itself: give another --out.")
    try:
        if to is ExportFormat.FOLDER:
            _refuse_occupied(out, overwrite)
        else:
            refuse_taken(to, out, overwrite=overwrite)
        table = folder.read_annotations() if annotations is None else annotations
        if to is ExportFormat.FOLDER:
            return _export_folder(folder, table, out, overwrite, on_progress)
        export_table(table, out, to)
        return len(table)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}.") from error


def _export_folder(
    folder: RunFolder,
    annotations: pd.DataFrame,
    out: Path,
    overwrite: bool,
    on_progress: OnProgress,
) -> int:
    labels = [str(label) for label in annotations["label"].fillna("")]
    placements = place(folder.catalog, annotations["id"].tolist(), labels)
    if overwrite:
        _refuse_sources_inside(out, placements, folder)
    with atomic_folder(out, replace=overwrite) as target:
        write_class_map(target, labels)
        missing = write_image_folder(target, placements, _pixels(folder), on_progress)
        counts = {"images": len(placements) - len(missing), "missing": len(missing)}
        about = {"made_by": "surelabel", **counts, "files": _files_in(target)}
        (target / MARKER).write_text(json.dumps(about) + "\n")
    return counts["images"]


def missing_in(out: Path) -> int:
    """How many images an exported folder lacks; ``missing.csv`` in it lists them."""
    return int(json.loads((out / MARKER).read_text())["missing"])


def _refuse_occupied(out: Path, overwrite: bool) -> None:
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out} is a file: give --out a folder.")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not overwrite:
        raise OptionError(f"{out} is not empty: give another --out, or --overwrite.")
    written = _files_of_export(out)
    if written is None:
        raise OptionError(
            f"{out} is not empty, and not an earlier export (it has no {MARKER}): its files are "
            "not deleted. Give another --out."
        )
    strange = sorted(set(_files_in(out)) - {MARKER, *written})
    if strange:
        raise OptionError(
            f"{out} holds {len(strange)} files that are not of the earlier export (the first is "
            f"{strange[0]}): they are not deleted. Move them, or give another --out."
        )


def _files_of_export(folder: Path) -> list[str] | None:
    """What an earlier export wrote to ``folder``; None if there was none."""
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


def _refuse_sources_inside(out: Path, placements: Sequence[Placement], folder: RunFolder) -> None:
    """Replacing ``out`` deletes what is in it, which must not be what the run is made from."""
    target = out.resolve()
    held = (Path(each.file).resolve() for each in placements if each.file)
    if any(each.is_relative_to(target) for each in (folder.path.resolve(), *held)):
        raise OptionError(f"{out} holds images or the run itself: give another --out.")


def _pixels(folder: RunFolder) -> PixelStore:
    from surelabel.dataset.array_store import cache_folder
    from surelabel.dataset.pixels import open_pixels

    return open_pixels(folder.catalog, cache_folder(folder.config.cache))
