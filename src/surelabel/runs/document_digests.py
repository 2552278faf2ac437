"""Digests of a run's documents: a document that is not what surelabel wrote is refused.

``digests.json`` holds the SHA-256 digests that each document may have. Before a document is
replaced, the digest of its next version joins that of the present one, and afterwards only the new
one stays. So a program that is killed between the writes leaves a document that fits, be it the
old one or the new one. Whoever replaces a document holds the run's lock; readers never wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from surelabel.errors import RunDamagedError
from surelabel.files.atomic import atomic_path
from surelabel.files.digests import file_digest, known_digest
from surelabel.files.documents import read_json, write_json

DOCUMENT_DIGESTS = "digests.json"
Digests: TypeAlias = dict[str, list[str | None]]
"""By name of a document, the digests that it may have; None stands for no file."""
_TRIES = 20


def check_document(run: Path, name: str) -> None:
    """``RunDamagedError`` unless the document ``name`` of ``run`` is what surelabel wrote."""
    path = run / name
    for _ in range(_TRIES):
        digests = read_digests(run)
        if digests is None or _digest(path) in digests.get(name, [None]):
            return
        if read_digests(run) == digests:  # otherwise it was being replaced: look again
            break
    state = f"does not fit its digest in {DOCUMENT_DIGESTS}: one of them was changed or damaged"
    raise RunDamagedError(
        f"{path} {state if path.exists() else 'is missing'}. Put back a copy. surelabel doctor "
        f"{run} checks the other files; people's answers are safe in answers.sqlite."
    )


def record_documents(run: Path, names: tuple[str, ...]) -> None:
    """Record the documents of ``run`` as they are now, which have to be known as sound."""
    write_json(run / DOCUMENT_DIGESTS, {name: [_digest(run / name)] for name in names})


def replace_document(
    run: Path, name: str, writer: Callable[[Path], object], documents: tuple[str, ...]
) -> None:
    """Replace a document by what ``writer`` writes; one of ``documents``, the names of all.

    In a run of an earlier version, the present documents are recorded first.
    """
    digests = read_digests(run)
    if digests is None:
        record_documents(run, documents)
        digests = read_digests(run) or {}
    before = digests.get(name, [None])
    with atomic_path(run / name, parents=False) as temporary:
        writer(temporary)
        new = file_digest(temporary)
        write_json(run / DOCUMENT_DIGESTS, {**digests, name: [*before, new]})
    write_json(run / DOCUMENT_DIGESTS, {**digests, name: [new]})


def read_digests(run: Path) -> Digests | None:
    """The digests that the documents of ``run`` may have; None in runs of earlier versions."""
    path = run / DOCUMENT_DIGESTS
    if not path.exists():
        return None
    digests = read_json(path)
    if not isinstance(digests, dict) or not all(isinstance(d, list) for d in digests.values()):
        raise RunDamagedError(f"{path} does not hold the digests of a run's documents.")
    return digests


def _digest(path: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        return known_digest(path)
    return None
