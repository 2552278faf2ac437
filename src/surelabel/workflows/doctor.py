"""Checks a run folder from end to end, and mends what can be made again from the rest."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.locations import exists
from surelabel.errors import RunDamagedError, RunError, SurelabelError
from surelabel.files.atomic import is_leftover, remove_leftovers
from surelabel.files.documents import read_json
from surelabel.runs.answers import AnswerStore
from surelabel.runs.document_digests import (
    DOCUMENT_DIGESTS,
    check_document,
    read_digests,
    record_documents,
)
from surelabel.runs.folder import (
    ABOUT,
    ANNOTATIONS,
    ANSWERS,
    CATALOG,
    CONFIG,
    DOCUMENTS,
    LOCK,
    ROUNDS,
    RunFolder,
    check_kinds,
    round_numbers,
)
from surelabel.runs.lock import run_lock
from surelabel.runs.plan import PLAN, read_plan
from surelabel.runs.rounds import RoundFiles
from surelabel.types import JsonObject

SET_ASIDE = ".damaged"
"""Ending of the folder of a round that was set aside; it is no round any more."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    what: str
    problem: str = ""
    """What is wrong and what to do; empty if nothing is."""
    repair: Callable[[], object] | None = None
    """Mends it; None where only a person can."""
    note: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problem

    def to_json(self) -> JsonObject:
        """Plain values."""
        can_repair = self.repair is not None
        return {
            "what": self.what,
            "problem": self.problem,
            "can_repair": can_repair,
            "note": self.note,
        }


def examine(run: Path) -> list[Finding]:
    """Everything that can be checked about the run folder ``run``, in order of importance."""
    if not run.is_dir():
        raise RunError(f"{run}: there is no such folder.")
    if not any((run / name).exists() for name in (ABOUT, ANSWERS, CATALOG, ROUNDS)):
        raise RunError(f"{run} is not a run: it has no {ABOUT}.")
    check_kinds(run)
    findings = [_answers(run / ANSWERS), *_documents(run), _plan(run), *_rounds(run)]
    with contextlib.suppress(SurelabelError):
        findings.extend(_images(RunFolder.open(run)))
    findings.append(_leftovers(run))
    return findings


def mend(run: Path, findings: list[Finding]) -> list[Finding]:
    """Repair what can be repaired while nobody trains; returns what is found afterwards."""
    with run_lock(run / LOCK):
        for finding in findings:
            if finding.repair is not None:
                finding.repair()
    return examine(run)


def _answers(path: Path) -> Finding:
    what = "people's answers"
    try:
        store = AnswerStore(path)
        n = store.last_seq()
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as d:
            faults = [str(row[0]) for row in d.execute("PRAGMA integrity_check(5)")]
            (n_rows,) = d.execute("SELECT count(*) FROM answers").fetchone()
        store.standing()
    except (RunError, sqlite3.Error, UnicodeDecodeError) as error:
        return Finding(what, f"{error} Put back a backup of {path}.")
    if faults != ["ok"]:
        return Finding(
            what,
            f"{path}: {faults[0]}. Every answer fits its checksum; the index can be made again.",
            lambda: _reindex(path),
        )
    if n_rows != n:
        return Finding(what, f"{path} lacks {n - n_rows} of {n} answers. Put back a backup of it.")
    return Finding(what, note=f"{n:,} rows")


def _reindex(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("REINDEX")


def _documents(run: Path) -> Iterator[Finding]:
    try:
        digests = read_digests(run)
    except RunDamagedError as error:
        digests, problem = None, str(error)
    else:
        problem = "" if digests is not None else f"{run / DOCUMENT_DIGESTS} is missing."
    if problem:
        try:
            _read_documents(run)
        except SurelabelError as error:
            yield Finding("documents", f"{problem} {error}")
            return
        yield Finding(
            "documents",
            f"{problem} The documents can be read; their digests can be made again, but nobody "
            "knows whether they are what was written.",
            lambda: record_documents(run, DOCUMENTS),
        )
        return
    for name in DOCUMENTS:
        try:
            check_document(run, name)
        except RunDamagedError as error:
            yield _damaged_document(run, name, error)
        else:
            yield Finding(name)


def _damaged_document(run: Path, name: str, error: RunDamagedError) -> Finding:
    if name != ANNOTATIONS:
        return Finding(name, str(error))
    if not (run / name).exists():
        return Finding(name, note="will be built when it is needed")

    def rebuild() -> None:
        (run / name).unlink()

    return Finding(name, f"{run / name} is damaged; it is built again from the rest.", rebuild)


def _plan(run: Path) -> Finding:
    try:
        read_plan(run)
    except RunDamagedError as error:
        return Finding(PLAN, str(error))
    return Finding(PLAN)


def _read_documents(run: Path) -> None:
    """Read every document without its digest."""
    read_json(run / ABOUT)
    Config.from_toml(run / CONFIG)
    Catalog.from_parquet(run / CATALOG)
    for name in DOCUMENTS:
        if name.endswith(".json") and (run / name).exists():
            read_json(run / name)


def _rounds(run: Path) -> Iterator[Finding]:
    folder = run / ROUNDS
    if not folder.is_dir():
        yield Finding("rounds", f"{folder} is missing: put back a copy, or label again.")
        return
    numbers = round_numbers(folder)
    for expected, number in enumerate(numbers, start=1):
        files = RoundFiles(folder / f"{number:03d}", number)
        try:
            if number != expected:
                raise RunDamagedError(f"{folder}: round {expected} is missing.")
            files.verify()
        except (RunDamagedError, OSError) as error:
            later = [RoundFiles(folder / f"{n:03d}", n) for n in numbers if n >= number]
            yield Finding(
                f"round {number}",
                f"{error} This round and later ones can be set aside.",
                partial(_set_aside, later),
            )
            return
        yield Finding(f"round {number}")


def _set_aside(rounds: list[RoundFiles]) -> None:
    for each in reversed(rounds):
        target = each.path.with_name(each.path.name + SET_ASIDE)
        n = 1
        while target.exists():
            n += 1
            target = each.path.with_name(f"{each.path.name}{SET_ASIDE}-{n}")
        each.path.rename(target)


def _images(folder: RunFolder) -> Iterator[Finding]:
    catalog = folder.catalog
    files = [file for file in catalog.files.tolist() if file]
    missing = [file for file in files if not exists(file)]
    if missing:
        yield Finding(
            "images",
            f"{len(missing):,} of {len(files):,} image files are not where they were; the first is "
            f"{missing[0]}. If they were moved: surelabel resume {folder.path} --images FOLDER.",
        )
    else:
        yield Finding("images", note=f"{len(files):,} files")
    from surelabel.dataset.pixels import open_pixels

    with contextlib.suppress(SurelabelError):
        lacking = len(
            open_pixels(catalog, cache_folder(folder.config.cache)).missing(catalog.digests)
        )
        note = f"{lacking:,} of {len(catalog):,} images will be decoded again" if lacking else ""
        yield Finding("decoded images", note=note)


def _leftovers(run: Path) -> Finding:
    found = [p for p in run.iterdir() if is_leftover(p.name)]
    if not found:
        return Finding("half-written files")
    return Finding(
        "half-written files",
        f"{len(found)} files of a program that was killed, such as {found[0].name}.",
        lambda: remove_leftovers(run),
    )
