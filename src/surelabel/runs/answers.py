"""People's answers: an append-only history in SQLite, safe from crashes and other reviewers.

No row is ever changed or deleted; undoing an answer adds a row. The standing answer of an item
follows from its rows in order, so it can be read as of any earlier moment.

Answers have a purpose: an item has one standing answer per purpose. The answers of an audit, for
example, are kept apart from those that the next round is trained on.

Each row has a checksum, because SQLite does not notice a flipped bit in a label.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from surelabel.errors import RunDamagedError, RunError
from surelabel.runs.connection import KeptConnection

SCHEMA_VERSION = 3
"""Version 2 had no checksums; its rows are read, and the first writer adds the column."""
_APPLICATION_ID = 0x5375724C

_SCHEMA = """
CREATE TABLE answers (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    item_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('label', 'none', 'unsure', 'undo')),
    label TEXT CHECK ((kind = 'label') = (label IS NOT NULL)),
    reviewer TEXT NOT NULL,
    at TEXT NOT NULL,
    purpose TEXT NOT NULL DEFAULT 'review',
    checksum INTEGER
);
CREATE INDEX answers_by_item ON answers (item_id, seq);
CREATE TRIGGER answers_keep_rows BEFORE DELETE ON answers
    BEGIN SELECT RAISE(ABORT, 'answers are never deleted'); END;
CREATE TRIGGER answers_keep_values BEFORE UPDATE ON answers
    BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;
"""


class AnswerKind(StrEnum):
    """The kinds of answers about an image."""

    LABEL = "label"
    """It belongs to the class in ``label``."""
    NONE = "none"
    """It belongs to none of the classes."""
    UNSURE = "unsure"
    """The person cannot tell."""
    UNDO = "undo"
    """Undoes the item's newest standing answer; the one before it stands again."""


class Purpose(StrEnum):
    """What an answer is for."""

    REVIEW = "review"
    """A label for an image that the run left unlabeled; the next round is trained on it."""
    FIRST = "first"
    """A first label, for an image drawn at random before there is any round."""
    AUDIT = "audit"
    """A check of the run's label, in an audit's order; never trained on."""
    CERTIFY = "certify"
    """A label for a random sample of the pool, which certifies the run; never trained on."""
    BLIND = "blind"
    """A judgment of a listed image without seeing the run's label; never trained on."""


@dataclass(frozen=True)
class Answer:
    """One row of the history. Only ``AnswerKind.LABEL`` has a ``label``; ``at`` is UTC."""

    seq: int
    item_id: str
    kind: AnswerKind
    label: str | None
    reviewer: str
    at: str
    purpose: str = Purpose.REVIEW


class AnswerConflictError(RunError):
    """Somebody else answered first; ``standing`` is their answer, None if it was undone."""

    def __init__(self, item_id: str, standing: Answer | None) -> None:
        self.standing = standing
        who = (standing.reviewer if standing else "") or "someone else"
        what = f"now has another answer, by {who}" if standing else "no longer has an answer"
        super().__init__(f"{item_id} {what}: check it again before you answer.")


@dataclass(frozen=True)
class NewAnswer:
    """An answer to add. With ``expected_seq`` it is refused unless that answer stands now.

    0 stands for no answer.
    """

    item_id: str
    kind: AnswerKind
    label: str | None = None
    reviewer: str = ""
    expected_seq: int | None = None
    purpose: str = Purpose.REVIEW

    def __post_init__(self) -> None:
        if (self.kind is AnswerKind.LABEL) != bool(self.label):
            raise ValueError(
                f"an answer of kind '{self.kind}' cannot have the label {self.label!r}"
            )


@dataclass
class _Job:
    """Answers of one caller that wait for the next commit."""

    answers: Sequence[NewAnswer]
    results: list[int | RunError] = field(default_factory=list)
    error: BaseException | None = None
    is_done: bool = False


class AnswerStore:
    """The answers in one SQLite file, safe for several threads and processes at once.

    When ``add`` returns, the answer is on disk (WAL, ``synchronous=FULL``). Threads that add at the
    same time share a transaction, so that each waits for the disk once. Standing answers are kept
    in memory after they were first asked for, and rows that came since are added to them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise RunDamagedError(f"{path} is missing: it holds people's answers.")
        self._reader, self._writer = KeptConnection(path), KeptConnection(path)
        self._standing: _Standing | None = None
        self._standing_lock = threading.Lock()
        self._waiting: list[_Job] = []
        self._waiting_lock = threading.Lock()
        self._turn = threading.Lock()
        with self._reader.use() as connection:
            _check_version(connection, path)

    @classmethod
    def create(cls, path: Path) -> AnswerStore:
        """Make an empty store at ``path``, where no file may exist yet."""
        path.touch(exist_ok=False)
        stamps = (
            f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
        )
        try:
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(f"BEGIN; {_SCHEMA} {stamps} COMMIT;")
        except sqlite3.OperationalError as error:
            raise RunError(
                f"{path.parent}: the file of answers cannot be made there ({error}). Is the disk "
                "full? Make room, or give another --out."
            ) from error
        return cls(path)

    def add(
        self,
        item_id: str,
        kind: AnswerKind | str,
        label: str | None = None,
        reviewer: str = "",
        expected_seq: int | None = None,
        purpose: str = Purpose.REVIEW,
    ) -> int:
        """Append an answer and return its ``seq``.

        With ``expected_seq`` the answer is refused (``AnswerConflictError``) unless the item's
        standing answer is that one; 0 stands for no answer.
        """
        new = NewAnswer(item_id, AnswerKind(kind), label, reviewer, expected_seq, purpose)
        (result,) = self.add_all([new])
        if isinstance(result, RunError):
            raise result
        return result

    def add_all(self, answers: Sequence[NewAnswer]) -> list[int | RunError]:
        """Append ``answers`` in order; returns the ``seq`` of each, or why it was refused.

        All are on disk when it returns. Answers of other threads may share the transaction.
        """
        job = _Job(answers)
        with self._waiting_lock:
            self._waiting.append(job)
        with self._turn:
            if not job.is_done:
                with self._waiting_lock:
                    jobs, self._waiting = self._waiting, []
                self._store(jobs)
        if job.error is not None:
            raise job.error
        return job.results

    def _store(self, jobs: Sequence[_Job]) -> None:
        """Store the answers of ``jobs`` in one transaction."""
        try:
            with self._writer.use() as connection:
                with _transaction(connection):
                    _upgrade(connection)
                    stacks: dict[tuple[str, str], list[Answer]] = {}
                    for job in jobs:
                        job.results = [self._append(connection, a, stacks) for a in job.answers]
                self._writer.check_file()
        except BaseException as error:
            for job in jobs:
                job.error = error
        finally:
            for job in jobs:
                job.is_done = True

    def _append(
        self,
        connection: sqlite3.Connection,
        new: NewAnswer,
        stacks: dict[tuple[str, str], list[Answer]],
    ) -> int | RunError:
        """Insert one answer; ``stacks`` are the answers of items in this transaction so far."""
        key = (str(new.purpose), new.item_id)
        if key not in stacks:
            rows = _rows(connection, self.path, [new.item_id], purpose=new.purpose)
            stacks[key] = _stacks(rows).get(new.item_id, [])
        stack = stacks[key]
        standing = stack[-1] if stack else None
        if new.expected_seq is not None and new.expected_seq != (standing.seq if standing else 0):
            return AnswerConflictError(new.item_id, standing)
        if new.kind is AnswerKind.UNDO and standing is None:
            return RunError(f"{new.item_id} has no answer to undo.")
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        seq = _last_seq(connection) + 1
        row = Answer(seq, new.item_id, new.kind, new.label or None, new.reviewer, at, key[0])
        connection.execute(
            "INSERT INTO answers (seq, item_id, kind, label, reviewer, at, purpose, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*_values(row), _checksum(row)),
        )
        _push(stack, row)
        return seq

    def standing(self, upto: int | None = None, purpose: str = Purpose.REVIEW) -> dict[str, Answer]:
        """The standing answer of each item, now or as of answer number ``upto``."""
        with self._reader.use() as connection:
            if upto is not None:
                return _tops(_stacks(_rows(connection, self.path, upto=upto, purpose=purpose)))
            with self._standing_lock:
                if self._standing is None or self._standing.file != self._reader.file:
                    self._standing = _Standing(self._reader.file)
                self._standing.read_on(connection, self.path)
                return dict(self._standing.tops.get(str(purpose), {}))

    def standing_of(
        self, item_ids: Iterable[str], purpose: str = Purpose.REVIEW
    ) -> dict[str, Answer]:
        """The standing answers of a few items; items without one are left out."""
        wanted = list(item_ids)
        with self._reader.use() as connection:
            with self._standing_lock:
                if self._standing is not None and self._standing.file == self._reader.file:
                    self._standing.read_on(connection, self.path)
                    tops = self._standing.tops.get(str(purpose), {})
                    return {i: tops[i] for i in dict.fromkeys(wanted) if i in tops}
            return _tops(_stacks(_rows(connection, self.path, wanted, purpose=purpose)))

    def newest_by(self, reviewer: str, purpose: str = Purpose.REVIEW) -> Answer | None:
        """The newest standing answer of ``reviewer``: the one that an undo would remove."""
        own = (a for a in self.standing(purpose=purpose).values() if a.reviewer == reviewer)
        return max(own, key=lambda answer: answer.seq, default=None)

    def last_by(self, purpose: str = Purpose.REVIEW) -> dict[str, int]:
        """The ``seq`` of each reviewer's last answer, undone or not."""
        query = (
            "SELECT reviewer, max(seq) FROM answers WHERE purpose = ? AND kind != 'undo' "
            "GROUP BY reviewer"
        )
        with self._reader.use() as connection:
            return dict(connection.execute(query, (str(purpose),)).fetchall())

    def history(self, item_id: str, purpose: str = Purpose.REVIEW) -> list[Answer]:
        """All answers about an item, oldest first, with undos."""
        with self._reader.use() as connection:
            return list(_rows(connection, self.path, [item_id], purpose=purpose))

    def close(self) -> None:
        """Let go of the file; the next call opens it again."""
        self._reader.close()
        self._writer.close()

    def by_person(self, purposes: Iterable[str]) -> list[Answer]:
        """Each reviewer's newest answer to each item that was not undone, of these purposes."""
        found: dict[tuple[str, str], Answer] = {}
        with self._reader.use() as connection:
            for purpose in purposes:
                for stack in _stacks(_rows(connection, self.path, purpose=purpose)).values():
                    for answer in stack:
                        known = found.get((answer.item_id, answer.reviewer))
                        if known is None or known.seq < answer.seq:
                            found[answer.item_id, answer.reviewer] = answer
        return sorted(found.values(), key=lambda answer: answer.seq)

    def items_after(self, seq: int) -> list[str]:
        """The items with rows after number ``seq``, each once."""
        query = "SELECT DISTINCT item_id FROM answers WHERE seq > ?"
        with self._reader.use() as connection:
            return [item_id for (item_id,) in connection.execute(query, (seq,))]

    def last_seq(self) -> int:
        """The ``seq`` of the newest row; 0 if there is none."""
        with self._reader.use() as connection:
            return _last_seq(connection)


class _Standing:
    """The standing answers of all purposes, kept up to date by reading what was added since."""

    def __init__(self, file: tuple[int, ...]) -> None:
        self.file = file
        """Which file the answers are from; somebody may put another one in its place."""
        self.tops: dict[str, dict[str, Answer]] = {}
        """By purpose and item."""
        self._stacks: dict[tuple[str, str], list[Answer]] = {}
        self._last = 0

    def read_on(self, connection: sqlite3.Connection, path: Path) -> None:
        """Take in the rows that were added since the last time."""
        for row in _rows(connection, path, after=self._last, purpose=None):
            stack = self._stacks.setdefault((row.purpose, row.item_id), [])
            _push(stack, row)
            tops = self.tops.setdefault(row.purpose, {})
            if stack:
                tops[row.item_id] = stack[-1]
            else:
                tops.pop(row.item_id, None)
            self._last = row.seq


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _last_seq(connection: sqlite3.Connection) -> int:
    (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM answers").fetchone()
    return int(seq)


def _rows(
    connection: sqlite3.Connection,
    path: Path,
    item_ids: list[str] | None = None,
    upto: int | None = None,
    after: int = 0,
    purpose: str | None = Purpose.REVIEW,
) -> Iterator[Answer]:
    """The rows in the order they were added, for some items or for all, of one purpose or all."""
    checksum = "checksum" if _version(connection) >= 3 else "NULL"
    query = (
        f"SELECT seq, item_id, kind, label, reviewer, at, purpose, {checksum} FROM answers "
        "WHERE seq <= ? AND seq > ?"
    )
    values: list[int | str] = [2**62 if upto is None else upto, after]
    if purpose is not None:
        query += " AND purpose = ?"
        values.append(str(purpose))
    if item_ids is not None:
        query += " AND item_id IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(item_ids))
    for seq, item, kind, *rest, stored in connection.execute(f"{query} ORDER BY seq", values):
        try:
            row = Answer(seq, item, AnswerKind(kind), *rest)
            sound = stored is None or stored == _checksum(row)
        except (ValueError, TypeError):
            sound = False
        if not sound:
            raise RunDamagedError(
                f"{path}: answer number {seq} is damaged. Put back a copy of the file (surelabel "
                f"backup makes them); surelabel doctor {path.parent} says what else is damaged."
            )
        yield row


def _values(row: Answer) -> tuple[int | str | None, ...]:
    kind = row.kind.value
    return (row.seq, row.item_id, kind, row.label, row.reviewer, row.at, str(row.purpose))


def _checksum(row: Answer) -> int:
    return zlib.crc32(json.dumps(_values(row)).encode())


def _push(stack: list[Answer], row: Answer) -> None:
    """Add a row to the answers of its item that were not undone, oldest first."""
    if row.kind is not AnswerKind.UNDO:
        stack.append(row)
    elif stack:
        stack.pop()


def _stacks(rows: Iterable[Answer]) -> dict[str, list[Answer]]:
    """The answers of each item that were not undone, oldest first."""
    stacks: dict[str, list[Answer]] = {}
    for row in rows:
        _push(stacks.setdefault(row.item_id, []), row)
    return stacks


def _tops(stacks: dict[str, list[Answer]]) -> dict[str, Answer]:
    return {item_id: stack[-1] for item_id, stack in stacks.items() if stack}


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _upgrade(connection: sqlite3.Connection) -> None:
    """Add what a file of an earlier version lacks."""
    if _version(connection) < SCHEMA_VERSION:
        connection.execute("ALTER TABLE answers ADD COLUMN checksum INTEGER")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION_ID:
        raise RunDamagedError(f"{path} is not a database of answers: put back a copy of it.")
    if version > SCHEMA_VERSION:
        raise RunError(
            f"{path} was written by a newer surelabel (answers version {version}; this one reads "
            f"up to {SCHEMA_VERSION}): install a newer surelabel."
        )
