"""A copy of what people gave to a run: their answers, labels and checks, what they decided, and the
settings.

The copy is a run without rounds: ``surelabel resume`` trains it again from the same labels, and
any file in it can be put back in the place of a damaged one.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

from surelabel.errors import OptionError, RunDamagedError, RunError
from surelabel.files.atomic import atomic_folder
from surelabel.runs.answers import AnswerStore
from surelabel.runs.document_digests import DOCUMENT_DIGESTS, check_document, read_digests
from surelabel.runs.folder import (
    ANNOTATIONS,
    ANSWERS,
    DOCUMENTS,
    LOCK,
    ROUNDS,
    SKIPPED,
    RunFolder,
    refuse_run_file,
)
from surelabel.runs.plan import write_plan

_TRIES = 5


def back_up(run: Path, out: Path) -> int:
    """Copy what people gave to ``run`` into the new folder ``out``; returns the number of answers.

    A server or a training may be at work: answers are copied by SQLite's own backup, and documents
    are compared with their digests in the copy.
    """
    folder = RunFolder.open(run)
    if out.exists():
        raise OptionError(f"{out} exists already: give another --out.")
    refuse_run_file(out)
    plan = folder.read_plan()
    try:
        with atomic_folder(out) as target:
            (target / ROUNDS).mkdir()
            (target / LOCK).touch()
            _copy_documents(run, target)
            if plan:
                write_plan(target, plan)
            _copy_answers(run / ANSWERS, target / ANSWERS)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror or error}.") from error
    return AnswerStore(out / ANSWERS).last_seq()


def _copy_documents(run: Path, target: Path) -> None:
    names = [name for name in DOCUMENTS if name != ANNOTATIONS]
    for attempt in range(_TRIES):
        for name in (*names, DOCUMENT_DIGESTS, SKIPPED):
            (target / name).unlink(missing_ok=True)
            if (run / name).exists():
                shutil.copyfile(run / name, target / name)
        try:
            for name in names:
                check_document(target, name)
            read_digests(target)
        except RunDamagedError:
            # A document may have been replaced while it was copied; if not, the run says why.
            if attempt + 1 == _TRIES:
                for name in names:
                    check_document(run, name)
                raise
        else:
            return


def _copy_answers(source: Path, target: Path) -> None:
    """Copy the answers as of one moment, and compare every checksum in the copy."""
    try:
        with (
            contextlib.closing(
                sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
            ) as database,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            database.backup(copy)
            copy.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as error:
        raise RunError(f"{source}: the answers cannot be copied ({error}).") from error
    store = AnswerStore(target)
    store.standing()
    store.close()
