"""A run is a folder: settings, catalog, rounds, people's answers and the result.

Every file in it is complete: files are written to a temporary name and renamed, and a round
appears by one rename once all its files are on disk. The constants below name the files.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import itertools
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.config.settings import Config
from surelabel.errors import OptionError, RunDamagedError, RunError
from surelabel.files.atomic import (
    atomic_folder,
    atomic_write_bytes,
    fsync,
    fsync_tree,
    remove_folder,
    remove_leftovers,
)
from surelabel.files.digests import known_digest
from surelabel.files.documents import read_json, read_table, to_json, write_json, write_parquet
from surelabel.files.spreadsheet import csv_bytes, unguard
from surelabel.runs.answers import AnswerStore
from surelabel.runs.document_digests import (
    DOCUMENT_DIGESTS,
    check_document,
    read_digests,
    record_documents,
    replace_document,
)
from surelabel.runs.lock import run_lock
from surelabel.runs.plan import PLAN, read_plan, write_plan
from surelabel.runs.rounds import (
    CHECKPOINTS,
    HELD_OUT_TABLE,
    POOL_TABLE,
    PartialRound,
    RoundFiles,
)
from surelabel.types import JsonObject

if TYPE_CHECKING:
    import pandas as pd

    from surelabel.dataset.catalog import Catalog

FORMAT_VERSION = 2
"""Goes up when a folder of the version before cannot be read any more."""

ABOUT = "run.json"
"""Format version, surelabel version, time, machine, sources of images and labels."""
CONFIG = "config.toml"
"""Every setting as it took effect."""
CATALOG = "catalog.parquet"
"""The images, and the labels that came with them."""
SKIPPED = "skipped.csv"
"""Images that were left out, and why."""
NEAR_DUPLICATES = "near_duplicates.csv"
"""Pairs of images that are nearly the same."""
ROUNDS = "rounds"
"""One folder per finished round: ``001``, ``002`` and so on."""
ANSWERS = "answers.sqlite"
"""People's answers on the review page."""
ANNOTATIONS = "annotations.parquet"
"""The result: one row per image."""
CERTIFICATION = "certification.json"
"""Every time that certify labels were read, and what they showed."""
AUDITS = "audits.json"
"""Audits of accepted labels, with people's checks."""
EMBEDDING = "embedding.npz"
"""Where the images lie in the features of the nets, for similar images and the map."""
REPORT = "report.html"
FIGURES = "report"
"""The folder of the report's figures."""
LOCK = "lock"

_ROUND_NAME = re.compile("[0-9]{3}|[1-9][0-9]{3,}")
_PARTIAL = ".partial"
"""Ending of the folder of a round that is not finished."""
_OWN = {
    *(ABOUT, CONFIG, CATALOG, SKIPPED, NEAR_DUPLICATES, ROUNDS, ANSWERS, ANNOTATIONS),
    *(CERTIFICATION, AUDITS, PLAN, EMBEDDING, REPORT, FIGURES, LOCK, DOCUMENT_DIGESTS),
}
_BESIDE = (f"{ANSWERS}-wal", f"{ANSWERS}-shm", f"{LOCK}.pid")
"""What SQLite and the lock keep beside the run's own files."""
DOCUMENTS = (ABOUT, CONFIG, CATALOG, CERTIFICATION, AUDITS, ANNOTATIONS)
"""The files whose digests are kept; see ``document_digests``."""
_SKIPPED_HEADER = ("path", "reason")
_HAS_DIGESTS = "digests"
"""Key in ``run.json``: whether the run was made with digests of its documents."""
_MADE_FROM = "made_from"
"""Attribute of the stored result: the digest of what it was made from."""


_CATALOG: dict[str, Catalog] = {}
"""The catalog that was read last, by digest."""
_CATALOG_LOCK = threading.Lock()


class RunFolder:
    """One run on disk. The constants of this module name its files."""

    def __init__(self, path: Path, about: JsonObject, config: Config) -> None:
        self.path = path
        self.about = about
        self.config = config
        self._catalog: Catalog | None = None
        self._answers: AnswerStore | None = None

    @classmethod
    def create(
        cls, path: Path | str, *, config: Config, catalog: Catalog, about: Mapping[str, object]
    ) -> RunFolder:
        """Make a new run at ``path``, which must be free. A crash meanwhile leaves no run.

        ``about`` (seed, torch build, threads, sources) is kept in ``run.json``, beside the
        versions and the time.
        """
        path = Path(path)
        cls.check_free(path)
        made = {"format": FORMAT_VERSION, "surelabel": _version(), "created": _now()}
        facts = {**about, **made, _HAS_DIGESTS: True}
        try:
            with atomic_folder(path) as folder:
                (folder / ROUNDS).mkdir()
                (folder / LOCK).touch()
                (folder / CONFIG).write_text(config.to_toml(), encoding="utf-8")
                catalog.to_parquet(folder / CATALOG)
                catalog.write_skipped_csv(folder / SKIPPED)
                AnswerStore.create(folder / ANSWERS)
                write_json(folder / ABOUT, facts)
                record_documents(folder, DOCUMENTS)
        except OSError as error:
            cls.check_free(path)
            raise RunError(f"{path}: the run cannot be made there ({error.strerror}).") from error
        return cls.open(path)

    @staticmethod
    def check_free(path: Path | str) -> None:
        """Raise ``RunError`` unless a run can be made at ``path``; call it before long work."""
        path = Path(path)
        try:
            is_run = (path / ABOUT).exists()
            is_used = path.is_dir() and any(path.iterdir())
        except OSError as error:
            why = f"{path} cannot be read ({error.strerror}): give another --out."
            raise RunError(why) from None
        if is_run:
            raise RunError(
                f"{path} already holds a run: use surelabel resume {path}, or another --out."
            )
        if is_used:
            raise RunError(f"{path} is not empty: give another --out, or empty it first.")
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file: give another --out.")
        if path.resolve() == Path.cwd():
            raise RunError(f"{path} is the folder you are in: give --out the name of a new one.")

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Open the run at ``path``; ``RunError`` says why if it cannot be used."""
        path = Path(path)
        if not path.is_dir():
            raise RunError(f"{path}: there is no such folder.")
        if not (path / ABOUT).is_file():
            raise RunError(f"{path} is not a run: it has no {ABOUT}.")
        check_kinds(path)
        about = read_json(path / ABOUT)
        version = about.get("format") if isinstance(about, dict) else None
        if not isinstance(version, int):
            raise RunDamagedError(f"{path / ABOUT} does not say its format version.")
        if version > FORMAT_VERSION:
            raise RunError(
                f"{path} was made by surelabel {about.get('surelabel')} (run format {version}; "
                f"this one reads up to {FORMAT_VERSION}): install a newer surelabel."
            )
        if version < FORMAT_VERSION:
            raise RunError(
                f"{path} was made by an earlier development version of surelabel (run format "
                f"{version}; this one reads {FORMAT_VERSION}). Export its human labels with the "
                "version that made it (surelabel export), then label again with them."
            )
        missing = [n for n in (CONFIG, CATALOG, ANSWERS, ROUNDS) if not (path / n).exists()]
        if missing:
            raise RunDamagedError(
                f"{path} is a damaged run: {', '.join(missing)} missing. Put back a copy of the "
                "folder."
            )
        if about.get(_HAS_DIGESTS) and read_digests(path) is None:
            raise RunDamagedError(
                f"{path / DOCUMENT_DIGESTS} is missing: put back a copy of it, or let surelabel "
                f"doctor {path} --repair make it again."
            )
        check_document(path, ABOUT)
        return cls(path, about, _read_config(path))

    def reopen(self) -> RunFolder:
        """The run as it is on disk now; what is known of people's answers is shared."""
        folder = RunFolder.open(self.path)
        folder._answers = self.answers
        return folder

    @property
    def catalog(self) -> Catalog:
        """The images and the labels that came with them; read on first use."""
        if self._catalog is None:
            check_document(self.path, CATALOG)
            self._catalog = _read_catalog(self.path / CATALOG)
        return self._catalog

    @property
    def answers(self) -> AnswerStore:
        """People's answers; the file is opened on first use."""
        if self._answers is None:
            self._answers = AnswerStore(self.path / ANSWERS)
        return self._answers

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run's lock; ``RunLockedError`` names the process that has it already.

        Only training and adding need it; reviewers do not. Half-written files of a killed
        process are removed, and catalog and settings are read again. A folder that is deleted or
        moved meanwhile is not made again: ``RunError``.
        """
        with run_lock(self.path / LOCK):
            remove_leftovers(self.path)
            self._catalog = None
            self.config = _read_config(self.path)
            try:
                yield
            except (OSError, RunError):
                self.check_there()
                raise

    def check_there(self) -> None:
        """``RunError`` if the folder was deleted or moved since it was opened."""
        if not (self.path / ABOUT).exists():
            raise RunError(
                f"{self.path} was deleted or moved while surelabel was at work in it. Nothing "
                "was written after that: put the folder back and call surelabel resume, or "
                "start again with another --out."
            )

    def replace_catalog(self, catalog: Catalog) -> None:
        """Replace the run's catalog; images that ``catalog`` skipped join the list of skipped."""
        add_skipped(self.skipped_path, [(item.path, item.reason) for item in catalog.skipped])
        if len(catalog) != len(self.catalog):
            self.near_duplicates_path.unlink(missing_ok=True)
        self._replace(CATALOG, catalog.write_parquet)
        self._catalog = catalog

    def replace_skipped(self, rows: Iterable[tuple[str, str]]) -> None:
        """Replace the list of images that were skipped by these (path, reason) pairs."""
        _write_skipped(self.skipped_path, rows)

    def replace_config(self, config: Config) -> None:
        """Replace the run's settings."""
        self._replace(CONFIG, lambda path: path.write_text(config.to_toml(), encoding="utf-8"))
        self.config = config

    def note(self, facts: Mapping[str, object]) -> None:
        """Add ``facts`` to ``run.json``."""
        self.about = {**self.about, **facts}
        self._replace(ABOUT, lambda path: path.write_bytes(to_json(self.about)))

    def _replace(self, name: str, writer: Callable[[Path], object]) -> None:
        replace_document(self.path, name, writer, DOCUMENTS)

    @property
    def skipped_path(self) -> Path:
        """The CSV file of images that were skipped, and why."""
        return self.path / SKIPPED

    @property
    def near_duplicates_path(self) -> Path:
        """The CSV file of pairs of nearly identical images; written when training begins."""
        return self.path / NEAR_DUPLICATES

    def finished_rounds(self) -> list[RoundFiles]:
        """All finished rounds in order; ``RunDamagedError`` if one was deleted."""
        folder = self.path / ROUNDS
        numbers = round_numbers(folder)
        for before, after in itertools.pairwise([0, *numbers]):
            if after > before + 1:
                raise RunDamagedError(f"{folder}: round {before + 1} is missing.")
        return [RoundFiles(folder / f"{number:03d}", number) for number in numbers]

    def last_round(self) -> RoundFiles | None:
        """The newest finished round; None before the first."""
        rounds = self.finished_rounds()
        return rounds[-1] if rounds else None

    def begin_round(self, number: int) -> PartialRound:
        """The folder of an unfinished round, new or as a crash left it.

        Other unfinished rounds are removed.
        """
        rounds = self.finished_rounds()
        if rounds and number != rounds[-1].number + 1:
            raise RunError(
                f"{self.path}: round {number} cannot begin after round {rounds[-1].number}."
            )
        for done in rounds:
            shutil.rmtree(done.path / CHECKPOINTS, ignore_errors=True)
        path = self.path / ROUNDS / f"{number:03d}{_PARTIAL}"
        for other in path.parent.glob(f"*{_PARTIAL}"):
            if other != path:
                remove_folder(other)
        remove_leftovers(path.parent)
        path.mkdir(exist_ok=True)
        partial = PartialRound(path, number)
        remove_leftovers(path)
        remove_leftovers(partial.checkpoints)
        return partial

    def discard_partial(self) -> None:
        """Delete the unfinished round: the data it was trained on has changed."""
        for partial in (self.path / ROUNDS).glob(f"*{_PARTIAL}"):
            remove_folder(partial)

    def commit_round(self, partial: PartialRound) -> RoundFiles:
        """Finish a round: its files are on disk, and one rename makes it count."""
        final = partial.path.with_name(f"{partial.number:03d}")
        if final.exists():
            raise RunError(f"{final} exists already: round {partial.number} is finished.")
        partial.write_digests()
        fsync_tree(partial.path)
        partial.path.rename(final)
        fsync(final.parent)
        shutil.rmtree(final / CHECKPOINTS, ignore_errors=True)
        return RoundFiles(final, partial.number)

    def read_certifications(self) -> list[JsonObject]:
        """All certification records so far, oldest first."""
        check_document(self.path, CERTIFICATION)
        path = self.path / CERTIFICATION
        records: list[JsonObject] = read_json(path)["records"] if path.exists() else []
        return records

    def write_certifications(self, records: list[JsonObject]) -> None:
        """Replace the certification records; they are on disk before anybody sees a result."""
        self._replace(CERTIFICATION, lambda path: path.write_bytes(to_json({"records": records})))

    def read_audits(self) -> list[JsonObject]:
        """All audits of accepted labels so far, oldest first."""
        check_document(self.path, AUDITS)
        path = self.path / AUDITS
        audits: list[JsonObject] = read_json(path)["audits"] if path.exists() else []
        return audits

    def write_audits(self, audits: list[JsonObject]) -> None:
        """Replace the audits, which hold people's checks."""
        self._replace(AUDITS, lambda path: path.write_bytes(to_json({"audits": audits})))

    def read_plan(self) -> JsonObject:
        """What people decided on the page; empty at first."""
        return read_plan(self.path)

    def write_plan(self, plan: JsonObject) -> None:
        """Replace what people decided."""
        write_plan(self.path, plan)

    def result_inputs(self, *, with_answers: bool = True) -> str:
        """Digest of everything that the result is made from, as it is on disk now.

        Equal results have equal digests: times are left out. Answers are only ever added, so the
        number of the last one stands for all of them.
        """
        last = self.last_round()
        digests = last.digests() if last else {}
        inputs = {
            "surelabel": _version(),
            "catalog": known_digest(self.path / CATALOG),
            "round": last.number if last else 0,
            "tables": [digests.get(POOL_TABLE), digests.get(HELD_OUT_TABLE)],
            "classes": last.metrics.get("classes") if last else None,
            "certifications": [{**record, "at": ""} for record in self.read_certifications()],
            "targets": [self.config.max_error, self.config.confidence],
            "answers": self.answers.last_seq() if with_answers else 0,
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()

    def write_annotations(self, table: pd.DataFrame, made_from: str) -> None:
        """Replace the stored result; ``made_from`` is what ``result_inputs`` was before."""
        stored = table.copy(deep=False)
        stored.attrs = {_MADE_FROM: made_from}
        self._replace(ANNOTATIONS, lambda path: write_parquet(path, stored))

    def read_annotations(self, made_from: str) -> pd.DataFrame | None:
        """The stored result, one row per image; None unless it was made from ``made_from``.

        A stored result that is damaged does not count either.
        """
        path = self.path / ANNOTATIONS
        if not path.exists():
            return None
        try:
            check_document(self.path, ANNOTATIONS)
            table = read_table(path)
        except RunDamagedError:  # it can be made again
            return None
        return table if table.attrs.pop(_MADE_FROM, None) == made_from else None


def refuse_run_file(out: Path) -> None:
    """``OptionError`` if ``out`` is a run, or a file of one: writing there would destroy it."""
    target = Path(os.path.realpath(out))
    for folder in (target, *target.parents):
        with contextlib.suppress(PermissionError):  # a folder above that may not be searched
            inside = target.relative_to(folder).parts
            is_run = (folder / ABOUT).is_file() and (folder / ROUNDS).is_dir()
            if is_run and (not inside or inside[0] in _OWN):
                raise OptionError(f"{out} belongs to the run {folder}: give another --out.")


def check_kinds(run: Path) -> None:
    """``RunDamagedError`` unless what has the name of a run's file is a file, and of its own.

    To read a pipe would wait forever, and through a link in a folder that somebody else made
    surelabel would write elsewhere.
    """
    rounds = run / ROUNDS
    inside = [*rounds.glob("*"), *rounds.glob(f"*/{CHECKPOINTS}")]
    for path in (*(run / name for name in sorted({*_OWN, *_BESIDE})), *inside):
        if path.is_symlink():
            raise RunDamagedError(
                f"{path} is a link, and what surelabel writes has to stay in the run: put the file "
                "or folder itself there. The run as a whole may be a link."
            )
    for name in sorted(_OWN - {ROUNDS, FIGURES}):
        if (run / name).exists() and not (run / name).is_file():
            raise RunDamagedError(f"{run / name} is not a file: remove it, and put back a copy.")


def round_numbers(rounds: Path) -> list[int]:
    """The numbers of the finished rounds in the folder ``rounds``, in order."""
    try:
        return sorted(int(p.name) for p in rounds.iterdir() if _ROUND_NAME.fullmatch(p.name))
    except FileNotFoundError:
        message = f"{rounds} is missing: if the run was moved, put it back, or open it there."
        raise RunDamagedError(message) from None


def _read_catalog(path: Path) -> Catalog:
    """The catalog in ``path``. The last one is kept: a server asks for it with every request."""
    from surelabel.dataset.catalog import Catalog

    digest = known_digest(path)
    with _CATALOG_LOCK:
        known = _CATALOG.get(digest)
    if known is not None:
        return known
    catalog = Catalog.from_parquet(path)
    if known_digest(path) == digest:  # nobody replaced it meanwhile
        with _CATALOG_LOCK:
            _CATALOG.clear()
            _CATALOG[digest] = catalog
    return catalog


def _read_config(run: Path) -> Config:
    check_document(run, CONFIG)
    return Config.from_toml(run / CONFIG)


def read_skipped(path: Path) -> list[tuple[str, str]]:
    """The (path, reason) pairs in the CSV file ``path``; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = [
            (unguard(row[0]), unguard(row[1]))
            for row in csv.reader(file)
            if len(row) == len(_SKIPPED_HEADER)
        ]
    return rows[1:]


def add_skipped(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Add (path, reason) pairs to the CSV file ``path``, unless they are in it already."""
    _write_skipped(path, dict.fromkeys([*read_skipped(path), *rows]))


def _write_skipped(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    atomic_write_bytes(path, csv_bytes(_SKIPPED_HEADER, rows), parents=False)


def _version() -> str:
    from importlib.metadata import version

    return version("surelabel")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
