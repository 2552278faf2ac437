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
    """``photos.csv``, ``photos.parquet`` or ``photos-labelled`` for the run ``runs/photos``."""
    name = run.resolve().name
    return Path(f"{name}-labelled") if kind is ExportFormat.FOLDER else Path(f"{name}.{kind}")


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
