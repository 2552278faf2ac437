"""Blind checks: the list of images to judge comes from a CSV file, the answers go to another."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from surelabel.dataset.catalog import Catalog
from surelabel.errors import InputError
from surelabel.files.atomic import atomic_write_bytes
from surelabel.files.spreadsheet import csv_bytes
from surelabel.runs.answers import Answer, AnswerKind, Purpose
from surelabel.runs.folder import RunFolder

ANSWER_COLUMNS = ("file", "answer", "kind", "reviewer", "at")
_ID_COLUMNS = ("id", "file", "path")


def read_list(path: Path, catalog: Catalog) -> list[str]:
    """The ids listed in the CSV file ``path``, in its order; the column is id, file or path."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            column = next((name for name in _ID_COLUMNS if name in (reader.fieldnames or ())), None)
            if column is None:
                raise InputError(f"{path} has no column called file: its first line must name one.")
            named = [str(row[column]) for row in reader if row[column]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a CSV file of images: {error}.") from None
    ids = catalog.ids.tolist()
    known = dict(zip(ids if column == "id" else catalog.paths.tolist(), ids, strict=True))
    unknown = [name for name in named if name not in known]
    if unknown:
        raise InputError(
            f"{path} lists {len(unknown)} images that the run does not have, the first: "
            f"{unknown[0]}."
        )
    if not named:
        raise InputError(f"{path} lists no images.")
    return list(dict.fromkeys(known[name] for name in named))


def blind_answers(folder: RunFolder, purpose: str = Purpose.BLIND) -> list[tuple[str, Answer]]:
    """(path below the image folder, answer) of each answered image, sorted by path."""
    catalog = folder.catalog
    paths = dict(zip(catalog.ids.tolist(), catalog.paths.tolist(), strict=True))
    standing = folder.answers.standing(purpose=purpose)
    return sorted(
        ((paths[item_id], answer) for item_id, answer in standing.items() if item_id in paths),
        key=lambda pair: pair[0],
    )


def check_target(out: Path) -> None:
    """Refuse to write answers over a file that holds something else."""
    if out.is_dir():
        raise InputError(f"{out} is a folder: name a file for the answers.")
    if not out.exists() or not out.stat().st_size:
        return
    with out.open(encoding="utf-8", errors="replace") as file:
        if file.readline().strip() != ",".join(ANSWER_COLUMNS):
            raise InputError(f"{out} exists and holds something else: name another file.")


def write_answers(folder: RunFolder, out: Path, purpose: str = Purpose.BLIND) -> int:
    """Write ``file,answer,kind,reviewer,at`` to the CSV ``out``; returns how many rows.

    ``answer`` is the class; it is empty where ``kind`` is ``none`` (of the classes) or ``unsure``.
    """
    answers = blind_answers(folder, purpose)
    rows = (_row(path, answer) for path, answer in answers)
    atomic_write_bytes(out, csv_bytes(ANSWER_COLUMNS, rows))
    return len(answers)


def _row(path: str, answer: Answer) -> Sequence[str]:
    label = answer.label or "" if answer.kind is AnswerKind.LABEL else ""
    return (path, label, str(answer.kind), answer.reviewer, answer.at)
