"""People's answers: an append-only history in SQLite, safe from crashes and other reviewers.

No row is ever changed or deleted; undoing an answer adds a row. The standing answer of an item
follows from its rows in order, so it can be read as of any earlier moment.

Answers have a purpose: an item has one standing answer per purpose. The answers of an audit, for
example, are kept apart from those that the next round is trained on.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from surelabel.errors import RunDamagedError, RunError

SCHEMA_VERSION = 2
_APPLICATION_ID = 0x5375724C
_BUSY_SECONDS = 60.0

_SCHEMA = """
CREATE TABLE answers (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    item_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('label', 'none', 'unsure', 'undo')),
    label TEXT CHECK ((kind = 'label') = (label IS NOT NULL)),
    reviewer TEXT NOT NULL,
    at TEXT NOT NULL,
    purpose TEXT NOT NULL DEFAULT 'review'
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


class AnswerStore:
    """The answers in one SQLite file, safe for several threads and processes at once.

    Each call opens its own connection (WAL, ``synchronous=FULL``) and makes at most one
    transaction: when ``add`` returns, the answer is on disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise RunDamagedError(f"{path} is missing: it holds people's answers.")
        with self._connect() as connection:
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
        kind = AnswerKind(kind)
        if (kind is AnswerKind.LABEL) != bool(label):
            raise ValueError(f"an answer of kind '{kind}' cannot have the label {label!r}")
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        with self._connect() as connection, _transaction(connection):
            standing = _replay(_rows(connection, [item_id], purpose=purpose)).get(item_id)
            if expected_seq is not None and expected_seq != (standing.seq if standing else 0):
                raise AnswerConflictError(item_id, standing)
            if kind is AnswerKind.UNDO and standing is None:
                raise RunError(f"{item_id} has no answer to undo.")
            cursor = connection.execute(
                "INSERT INTO answers (item_id, kind, label, reviewer, at, purpose) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (item_id, kind.value, label or None, reviewer, at, str(purpose)),
            )
            seq = cursor.lastrowid
        assert seq is not None
        return seq

    def standing(self, upto: int | None = None, purpose: str = Purpose.REVIEW) -> dict[str, Answer]:
        """The standing answer of each item, now or as of answer number ``upto``."""
        with self._connect() as connection:
            return _replay(_rows(connection, upto=upto, purpose=purpose))

    def standing_of(
        self, item_ids: Iterable[str], purpose: str = Purpose.REVIEW
    ) -> dict[str, Answer]:
        """The standing answers of a few items; items without one are left out."""
        with self._connect() as connection:
            return _replay(_rows(connection, list(item_ids), purpose=purpose))

    def last_by(self, purpose: str = Purpose.REVIEW) -> dict[str, int]:
        """The ``seq`` of each reviewer's last answer, undone or not."""
        query = (
            "SELECT reviewer, max(seq) FROM answers WHERE purpose = ? AND kind != 'undo' "
            "GROUP BY reviewer"
        )
        with self._connect() as connection:
            return dict(connection.execute(query, (str(purpose),)).fetchall())

    def history(self, item_id: str, purpose: str = Purpose.REVIEW) -> list[Answer]:
        """All answers about an item, oldest first, with undos."""
        with self._connect() as connection:
            return list(_rows(connection, [item_id], purpose=purpose))

    def last_seq(self) -> int:
        """The ``seq`` of the newest row; 0 if there is none."""
        with self._connect() as connection:
            (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM answers").fetchone()
        return int(seq)

    def _mode(self) -> str:
        """Read-only where the folder cannot be written to and no journal has to be replayed."""
        if os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK):
            return "rw"
        journal = self.path.with_name(f"{self.path.name}-wal")
        try:
            waits = journal.stat().st_size > 0
        except FileNotFoundError:  # the last connection to close deletes it
            waits = False
        return "rw" if waits else "ro&immutable=1"

    @contextlib.contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            uri = f"{self.path.absolute().as_uri()}?mode={self._mode()}"
            connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
            with contextlib.closing(connection):
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.OperationalError as error:
            raise RunError(f"{self.path}: the answers cannot be read ({error}).") from error
        except sqlite3.DatabaseError as error:
            raise RunDamagedError(f"{self.path} is damaged ({error}).") from error


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _rows(
    connection: sqlite3.Connection,
    item_ids: list[str] | None = None,
    upto: int | None = None,
    purpose: str = Purpose.REVIEW,
) -> Iterator[Answer]:
    """The rows of one purpose in the order they were added, for some items or for all."""
    query = (
        "SELECT seq, item_id, kind, label, reviewer, at, purpose FROM answers "
        "WHERE seq <= ? AND purpose = ?"
    )
    values: list[int | str] = [2**62 if upto is None else upto, str(purpose)]
    if item_ids is not None:
        query += " AND item_id IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(item_ids))
    for seq, item, kind, *rest in connection.execute(f"{query} ORDER BY seq", values):
        yield Answer(seq, item, AnswerKind(kind), *rest)


def _replay(rows: Iterable[Answer]) -> dict[str, Answer]:
    """The newest answer of each item that was not undone."""
    stacks: dict[str, list[Answer]] = {}
    for row in rows:
        stack = stacks.setdefault(row.item_id, [])
        if row.kind is not AnswerKind.UNDO:
            stack.append(row)
        elif stack:
            stack.pop()
    return {item_id: stack[-1] for item_id, stack in stacks.items() if stack}


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION_ID:
        raise RunDamagedError(f"{path} is not a database of answers.")
    if version > SCHEMA_VERSION:
        raise RunError(
            f"{path} was written by a newer surelabel (answers version {version}; this one reads "
            f"up to {SCHEMA_VERSION}): install a newer surelabel."
        )
