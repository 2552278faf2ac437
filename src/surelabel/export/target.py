"""Where an export goes when the user says little."""

from __future__ import annotations

from pathlib import Path

from surelabel.errors import OptionError
from surelabel.export.formats import ExportFormat


def parse_format(text: str) -> ExportFormat:
    """The format by name, or a sentence."""
    try:
        return ExportFormat(text)
    except ValueError:
        raise OptionError(f"--to is '{text}'; it can be {', '.join(ExportFormat)}.") from None


def export_target(run: Path, to: str) -> Path:
    """``photos.csv``, ``photos.parquet`` or ``photos-labelled`` for the run ``runs/photos``."""
    name = run.resolve().name
    kind = parse_format(to)
    return Path(f"{name}-labelled") if kind is ExportFormat.FOLDER else Path(f"{name}.{kind}")


def check_target(out: Path, *, overwrite: bool) -> ExportFormat:
    """The table format that the ending of ``out`` asks for, if a file can be written there."""
    kind = {".csv": ExportFormat.CSV, ".parquet": ExportFormat.PARQUET}.get(out.suffix.lower())
    if kind is None:
        raise OptionError(f"{out}: name a file that ends in .csv or .parquet.")
    if out.is_dir():
        raise OptionError(f"{out} is a folder: name a file.")
    if out.exists() and not overwrite:
        raise OptionError(f"{out} exists already: give another --out, or --overwrite.")
    return kind
