"""A run is a folder: everything about it is in there, and only complete things are."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surelabel.config.settings import Config
from surelabel.errors import RunDamagedError, RunError
from surelabel.files.atomic import (
    atomic_folder,
    atomic_write_bytes,
    fsync,
    fsync_tree,
    remove_folder,
    remove_leftovers,
)
from surelabel.files.documents import read_json, read_table, write_json, write_table
from surelabel.runs.answers import AnswerStore
from surelabel.runs.lock import run_lock
from surelabel.runs.rounds import CHECKPOINTS, PartialRound, RoundFiles
from surelabel.runs.skipped import add_skipped

if TYPE_CHECKING:
    import pandas as pd

    from surelabel.dataset.catalog import Catalog

FORMAT_VERSION = 1
ABOUT = "run.json"
CONFIG = "config.toml"
CATALOG = "catalog.parquet"
SKIPPED = "skipped.csv"
NEAR_COPIES = "near_copies.csv"
ROUNDS = "rounds"
ANSWERS = "answers.sqlite"
ANNOTATIONS = "annotations.parquet"
PROMISE = "certification.json"
AUDITS = "audits.json"
REPORT = "report.html"
FIGURES = "report"
"""The folder of the report's figures."""
LOCK = "lock"
_PARTIAL = ".partial"
_OWN = {
    *(ABOUT, CONFIG, CATALOG, SKIPPED, ROUNDS, ANSWERS, ANNOTATIONS, PROMISE, AUDITS),
    LOCK,
    *(REPORT, FIGURES, NEAR_COPIES),
}


class RunFolder:
    """One run on disk; see the module's package for what each file is."""

    def __init__(self, path: Path, about: dict[str, Any], config: Config) -> None:
        self.path = path
        self.about = about
        self.config = config
        self._catalog: Catalog | None = None

    @classmethod
    def create(
        cls, path: Path | str, *, config: Config, catalog: Catalog, about: Mapping[str, Any]
    ) -> RunFolder:
        """Make a new run at ``path``, which must be free; a crash on the way leaves none.

        ``about`` is what else should be remembered (seed, torch build, threads, source); it
        stands in ``run.json`` beside the versions and the time.
        """
        path = Path(path)
        cls.check_free(path)
        facts = {**about, "format": FORMAT_VERSION, "surelabel": _version(), "created": _now()}
        try:
            with atomic_folder(path) as folder:
                (folder / ROUNDS).mkdir()
                (folder / LOCK).touch()
                (folder / CONFIG).write_text(config.to_toml(), encoding="utf-8")
                catalog.to_parquet(folder / CATALOG)
                catalog.write_skipped_csv(folder / SKIPPED)
                AnswerStore.create(folder / ANSWERS)
                write_json(folder / ABOUT, facts)
        except OSError as error:
            cls.check_free(path)
            raise RunError(f"{path}: the run cannot be made there ({error.strerror}).") from error
        return cls.open(path)

    @staticmethod
    def check_free(path: Path | str) -> None:
        """Raise a sentence unless a run can be made at ``path``; ask before long work."""
        path = Path(path)
        if (path / ABOUT).exists():
            raise RunError(
                f"{path} holds a run already: use surelabel resume {path}, or another --out."
            )
        if path.is_dir() and any(path.iterdir()):
            raise RunError(f"{path} is not empty: give another --out, or empty it first.")
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file: give another --out.")
        if path.resolve() == Path.cwd():
            raise RunError(f"{path} is the folder you are in: give --out the name of a new one.")

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """The run at ``path``, or a sentence on why there is none that can be used."""
        path = Path(path)
        if not path.is_dir():
            raise RunError(f"{path}: there is no such folder, so there is no run in it.")
        if not (path / ABOUT).is_file():
            raise RunError(f"{path} is not a run: it has no {ABOUT}.")
        about = read_json(path / ABOUT)
        version = about.get("format") if isinstance(about, dict) else None
        if not isinstance(version, int):
            raise RunDamagedError(f"{path / ABOUT} does not say its format version.")
        if version > FORMAT_VERSION:
            raise RunError(
                f"{path} was made by surelabel {about.get('surelabel')} (run format {version}; "
                f"this one reads up to {FORMAT_VERSION}): install a newer surelabel."
            )
        missing = [n for n in (CONFIG, CATALOG, ANSWERS, ROUNDS) if not (path / n).exists()]
        if missing:
            raise RunDamagedError(f"{path} is a damaged run: {', '.join(missing)} missing.")
        return cls(path, about, Config.from_toml(path / CONFIG))

    @property
    def catalog(self) -> Catalog:
        """The images and the labels they came with; read when it is first asked for."""
        if self._catalog is None:
            from surelabel.dataset.catalog import Catalog

            self._catalog = Catalog.from_parquet(self.path / CATALOG)
        return self._catalog

    @property
    def answers(self) -> AnswerStore:
        """People's answers."""
        return AnswerStore(self.path / ANSWERS)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only process that trains this run; ``RunLockedError`` names one that does.

        Reviewers take no lock. What a killed trainer left half written is removed.
        """
        with run_lock(self.path / LOCK):
            remove_leftovers(self.path)
            self._catalog = None
            self.config = Config.from_toml(self.path / CONFIG)
            yield

    def replace_catalog(self, catalog: Catalog) -> None:
        """Put ``catalog`` in the place of the run's catalog; what it skipped joins the list."""
        add_skipped(self.skipped_path, [(item.path, item.reason) for item in catalog.skipped])
        if len(catalog) != len(self.catalog):
            self.near_copies_path.unlink(missing_ok=True)
        catalog.to_parquet(self.path / CATALOG)
        self._catalog = catalog

    def replace_config(self, config: Config) -> None:
        """Put ``config`` in the place of the run's settings."""
        atomic_write_bytes(self.path / CONFIG, config.to_toml().encode())
        self.config = config

    def note(self, facts: Mapping[str, Any]) -> None:
        """Remember what else is known about the run."""
        self.about = {**self.about, **facts}
        write_json(self.path / ABOUT, self.about)

    @property
    def skipped_path(self) -> Path:
        """The CSV file of images that were left out, and why."""
        return self.path / SKIPPED

    @property
    def near_copies_path(self) -> Path:
        """The CSV file of images that are nearly the same; written when training begins."""
        return self.path / NEAR_COPIES

    def finished_rounds(self) -> list[RoundFiles]:
        """Every finished round in order; a gap means that somebody deleted one."""
        folder = self.path / ROUNDS
        numbers = sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit())
        for before, after in itertools.pairwise([0, *numbers]):
            if after > before + 1:
                raise RunDamagedError(f"{folder}: round {before + 1} is missing.")
        return [RoundFiles(folder / f"{number:03d}", number) for number in numbers]

    def last_round(self) -> RoundFiles | None:
        """The newest finished round, None before the first."""
        rounds = self.finished_rounds()
        return rounds[-1] if rounds else None

    def begin_round(self, number: int) -> PartialRound:
        """The round under way, as a crash left it or new; other unfinished rounds are removed."""
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
        """Forget the round under way: what it learns from is no longer so."""
        for partial in (self.path / ROUNDS).glob(f"*{_PARTIAL}"):
            remove_folder(partial)

    def commit_round(self, partial: PartialRound) -> RoundFiles:
        """Finish a round: from one instant to the next it counts, and its files are on disk."""
        final = partial.path.with_name(f"{partial.number:03d}")
        if final.exists():
            raise RunError(f"{final} exists already: round {partial.number} is finished.")
        partial.write_digests()
        fsync_tree(partial.path)
        partial.path.rename(final)
        fsync(final.parent)
        shutil.rmtree(final / CHECKPOINTS, ignore_errors=True)
        return RoundFiles(final, partial.number)

    def read_certifications(self) -> list[dict[str, Any]]:
        """Every look at the certify labels so far, oldest first."""
        path = self.path / PROMISE
        looks: list[dict[str, Any]] = read_json(path)["looks"] if path.exists() else []
        return looks

    def write_certifications(self, looks: list[dict[str, Any]]) -> None:
        """Keep the looks; they are on disk before anybody is told what was seen."""
        write_json(self.path / PROMISE, {"looks": looks})

    def read_audits(self) -> list[dict[str, Any]]:
        """Every audit of accepted labels so far, oldest first."""
        path = self.path / AUDITS
        audits: list[dict[str, Any]] = read_json(path)["audits"] if path.exists() else []
        return audits

    def write_audits(self, audits: list[dict[str, Any]]) -> None:
        """Keep the audits with the answers that people gave."""
        write_json(self.path / AUDITS, {"audits": audits})

    def owns(self, path: Path) -> bool:
        """Whether ``path`` is, or would be, one of the files that make up the run."""
        run, path = self.path.resolve(), path.resolve()
        if not path.is_relative_to(run):
            return False
        inside = path.relative_to(run).parts
        return not inside or inside[0] in _OWN

    def write_annotations(self, table: pd.DataFrame) -> None:
        """Put ``table``, one row per image, in the place of the run's result."""
        write_table(self.path / ANNOTATIONS, table)

    def read_annotations(self) -> pd.DataFrame:
        """The run's result: one row per image in the order of the catalog."""
        path = self.path / ANNOTATIONS
        if not path.exists():
            raise RunError(f"{self.path} has no result yet: call surelabel resume {self.path}.")
        return read_table(path)


def _version() -> str:
    from importlib.metadata import version

    return version("surelabel")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
