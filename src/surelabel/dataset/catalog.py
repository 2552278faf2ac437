"""The catalog: one row for each readable image, by stable id, with its label and split."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from surelabel.dataset.decode import Decoding
from surelabel.dataset.items import ID_LENGTH, Skipped
from surelabel.dataset.splits import connected_components
from surelabel.errors import RunDamagedError
from surelabel.files.atomic import atomic_path, atomic_write_bytes
from surelabel.files.mapped_arrays import mapped, slices, take, zeros
from surelabel.files.spreadsheet import csv_bytes
from surelabel.types import UNLABELED, BoolArray, Ids, IntArray, LabelSource, Split

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_TEXT_COLUMNS = ("ids", "paths", "sources", "splits", "groups", "digests", "files")
_FORMAT = 1
_ROW_GROUP = 1 << 17
"""Images that are written and read at a time."""
_VALUE_OF_DIGIT = np.full(128, 255, dtype=np.uint64)
_VALUE_OF_DIGIT[[ord(digit) for digit in "0123456789abcdef"]] = np.arange(16)


@dataclass(frozen=True)
class CertifyDraw:
    """Certify images that were drawn together, and what they were drawn from."""

    certify: tuple[str, ...]
    first: int
    end: int
    """They were drawn from the pool images in the rows ``first`` to ``end``."""
    pool: str
    """Digest of the ids of those images."""
    looks: tuple[tuple[str, ...], ...] = ()
    """Of a sample that grows: all images drawn at each look, of which people label some, the surest
    first. Empty if they were asked to label all."""
    subject: str = ""
    """With looks: digest of the scores and targets that decide who is asked about what."""

    @property
    def drawn(self) -> tuple[str, ...]:
        """All images that were drawn."""
        return tuple(i for look in self.looks for i in look) if self.looks else self.certify


@dataclass(frozen=True, eq=False)
class Catalog:
    """All readable images with labels, splits and the keys of their pixels.

    Arrays have one entry for each of N images, in the same order. Nothing outside may rely on
    that order: items travel by id.
    """

    ids: Ids
    """(N,) stable ids, a hash of ``paths``."""
    paths: Ids
    """(N,) path relative to the dataset root with '/', or the key of an array's row."""
    labels: IntArray
    """(N,) index into ``classes``; -1 for no label, -2 for none of these."""
    sources: Ids
    """(N,) a ``LabelSource``: given, copied or empty."""
    splits: Ids
    """(N,) a ``Split``. Copied labels are in ``pool`` but not among ``in_split(POOL)``."""
    groups: Ids
    """(N,) lot, camera or burst, which no split divides; empty for none."""
    digests: Ids
    """(N,) content key into the ``PixelStore``; equal for images with the same bytes."""
    files: Ids
    """(N,) absolute path of the image file; empty for rows of an array."""
    classes: tuple[str, ...]
    size: int
    channels: int
    cross_fit: bool
    """There are too few labels for a tune split: out-of-fold predictions take its place."""
    skipped: tuple[Skipped, ...] = ()
    resize: str = ""
    """How the images were resized to ``size``; see ``decode``."""
    undivided: tuple[str, ...] = ()
    """With ``cross_fit``: ids that may be held out once there are more labels. The others may not,
    because their split was given or they are no random sample."""
    sizes: tuple[int, ...] = (0,)
    """The number of images after each addition."""
    first_upto: int = 0
    """Answers up to this number are in the catalog as first labels."""
    draws: tuple[CertifyDraw, ...] = ()
    """What the certify images were drawn from; see ``sampling``."""
    votes: tuple[tuple[str, str, str], ...] = ()
    """(id, annotator, label) of labels that came with the name of a person."""

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, name)) for name in (*_TEXT_COLUMNS, "labels")}
        if len(lengths) != 1:
            raise ValueError(f"a catalog has columns of different lengths: {sorted(lengths)}")
        for name in _TEXT_COLUMNS:
            object.__setattr__(self, name, mapped(getattr(self, name)))
        if (self._sorted[1:] == self._sorted[:-1]).any():
            raise ValueError("a catalog has the same id twice")

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _keys(self) -> Ids | npt.NDArray[np.uint64]:
        """(N,) what rows are found by: the ids as numbers where they are, in the same order."""
        numbers = as_numbers(self.ids)
        return self.ids if numbers is None else mapped(numbers)

    @cached_property
    def _order(self) -> IntArray:
        return mapped(np.argsort(self._keys).astype(np.int64))

    @cached_property
    def _sorted(self) -> Ids | npt.NDArray[np.uint64]:
        keys: npt.NDArray[Any] = self._keys
        return take(keys, self._order)

    @cached_property
    def n_copies(self) -> int:
        """Images whose bytes an earlier one has."""
        return len(self) - len(set(self.digests.tolist()))

    @cached_property
    def folders(self) -> dict[str, int]:
        """Images in each folder directly below that of the images, the largest first."""
        counts = Counter(path.partition("/")[0] for path in self.paths.tolist() if "/" in path)
        return dict(counts.most_common())

    def rows(self, ids: Ids) -> IntArray:
        """(M,) positions of ``ids`` in the arrays; ``ValueError`` names ids that are unknown."""
        wanted = np.asarray(ids, dtype=np.str_)
        rows, known = self._find(wanted)
        if not known.all():
            unknown = np.flatnonzero(~known)
            few = ", ".join(wanted[unknown[:3]])
            raise ValueError(f"{len(unknown)} ids are not in the catalog, the first: {few}")
        return rows

    def row_of(self, item_id: str) -> int | None:
        """The position of one image; None if it is unknown."""
        rows, known = self._find(np.array([item_id], dtype=np.str_))
        return int(rows[0]) if known[0] else None

    def has(self, ids: Ids) -> BoolArray:
        """(M,) which of ``ids`` are in the catalog."""
        return self._find(np.asarray(ids, dtype=np.str_))[1]

    def among(self, ids: Ids, others: Ids) -> BoolArray:
        """(M,) which of ``ids`` are among ``others``; all of them are in the catalog.

        By their rows, because texts take long to compare.
        """
        chosen = np.zeros(len(self), dtype=np.bool_)
        chosen[self.rows(others)] = True
        return chosen[self.rows(ids)]

    def _find(self, wanted: Ids) -> tuple[IntArray, BoolArray]:
        """(M,) positions, and (M,) whether the id is there at all."""
        rows, known = np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
        for part in slices(len(wanted)) if len(self) else ():
            some: Ids | npt.NDArray[np.uint64] = wanted[part]
            if self._keys.dtype == np.uint64:
                numbers = as_numbers(wanted[part])
                if numbers is None:  # some are no ids: compare what is written
                    rows[part], known[part] = self._find_as_text(wanted[part])
                    continue
                some = numbers
            at = np.minimum(np.searchsorted(self._sorted, some), len(self) - 1)
            rows[part], known[part] = self._order[at], self._sorted[at] == some
        return rows, known

    def _find_as_text(self, wanted: Ids) -> tuple[IntArray, BoolArray]:
        at = np.searchsorted(self.ids, wanted, sorter=self._order)
        rows: IntArray = self._order[np.minimum(at, len(self) - 1)]
        return rows, self.ids[rows] == wanted

    def in_split(self, split: Split) -> Ids:
        """Ids of a split. The pool has no copied labels: it is what is left to label."""
        chosen = self.splits == split
        if split is Split.POOL:
            chosen &= self.sources == LabelSource.NONE
        return take(self.ids, chosen)

    @property
    def decoding(self) -> Decoding:
        """How the images were decoded."""
        return Decoding(self.size, self.channels, self.resize)

    @property
    def copied(self) -> Ids:
        """Ids of images whose label is copied from an identical, human-labeled image."""
        copied: Ids = self.ids[self.sources == LabelSource.COPIED]
        return copied

    def labels_of(self, ids: Ids) -> IntArray:
        """(M,) labels of ``ids``."""
        return self.labels[self.rows(ids)]

    def units(self, ids: Ids) -> IntArray:
        """(M,) a number for each of ``ids``, equal for images of one group or of equal bytes.

        Folds that divide no unit do not leak, just as the splits do not.
        """
        rows = self.rows(ids)
        return connected_components(self.groups[rows], self.digests[rows])

    @cached_property
    def training_digest(self) -> str:
        """``digest`` as if the certify images had no labels: nothing is learned from those."""
        return self._digest(self.splits == Split.CERTIFY)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of images, labels and splits; the order of the rows does not matter."""
        return self._digest(np.zeros(len(self), dtype=np.bool_))

    def _digest(self, hidden: BoolArray) -> str:
        """The digest as if the images ``hidden`` (N,) were in the pool without labels."""
        total = hashlib.sha256()
        facts: list[object] = [list(self.classes), self.size, self.channels, self.cross_fit]
        facts += [self.resize] if self.resize else []
        total.update(json.dumps(facts).encode())
        unread = {"sources": "", "splits": str(Split.POOL)}
        for name in ("ids", "sources", "splits", "groups", "digests"):
            total.update(b"[")
            for part in slices(len(self)):
                rows = self._order[part]
                column = getattr(self, name)[rows]
                if name in unread:
                    column = np.where(hidden[rows], unread[name], column)
                total.update(b", " if part.start else b"")
                total.update(json.dumps(column.tolist())[1:-1].encode())
            total.update(b"]")
        labels = np.where(hidden, UNLABELED, self.labels)[self._order]
        total.update(labels.astype("<i8").tobytes())
        return total.hexdigest()

    def to_parquet(self, path: Path) -> None:
        """Write everything but ``skipped`` to ``path``, atomically."""
        with atomic_path(path) as scratch:
            self.write_parquet(scratch)

    def write_parquet(self, path: Path) -> None:
        """What ``to_parquet`` writes, into a file that the caller puts in its place."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        facts = {
            "format": _FORMAT,
            "classes": list(self.classes),
            "size": self.size,
            "channels": self.channels,
            "cross_fit": self.cross_fit,
            "resize": self.resize,
            "undivided": list(self.undivided),
            "first_upto": self.first_upto,
            "sizes": list(self.sizes),
            "votes": self.votes,
            "draws": [dataclasses.asdict(draw) for draw in self.draws],
        }
        fields = [*((name, pa.string()) for name in _TEXT_COLUMNS), ("labels", pa.int64())]
        schema = pa.schema(fields, metadata={"surelabel": json.dumps(facts)})
        with pq.ParquetWriter(path, schema) as writer:
            for part in slices(len(self), _ROW_GROUP) if len(self) else [slice(0, 0)]:
                columns = [pa.array(getattr(self, n)[part].tolist(), t) for n, t in fields]
                writer.write_table(pa.table(columns, schema=schema), _ROW_GROUP)

    @classmethod
    def from_parquet(cls, path: Path) -> Catalog:
        """Read what ``to_parquet`` wrote; ``skipped`` comes back empty."""
        columns, labels, facts = _read_parquet(path)
        try:
            return cls._from_parts(columns, labels, facts)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _not_a_catalog(path, error) from None

    @classmethod
    def _from_parts(
        cls, columns: dict[str, Ids], labels: IntArray, facts: dict[str, Any]
    ) -> Catalog:
        return cls(
            ids=columns["ids"],
            paths=columns["paths"],
            labels=labels,
            sources=columns["sources"],
            splits=columns["splits"],
            groups=columns["groups"],
            digests=columns["digests"],
            files=columns["files"],
            classes=tuple(facts["classes"]),
            size=facts["size"],
            channels=facts["channels"],
            cross_fit=facts["cross_fit"],
            resize=facts.get("resize", ""),
            undivided=tuple(facts.get("undivided", ())),
            first_upto=facts.get("first_upto", 0),
            sizes=tuple(facts.get("sizes", (0, len(labels)))),
            draws=tuple(_read_draw(draw) for draw in facts.get("draws", ())),
            votes=tuple((i, who, label) for i, who, label in facts.get("votes", ())),
        )

    def write_skipped_csv(self, path: Path) -> None:
        """Write ``path,reason`` of every file that was left out; only the header if none was."""
        rows = ((item.path, item.reason) for item in self.skipped)
        atomic_write_bytes(path, csv_bytes(("path", "reason"), rows))


def _read_draw(facts: dict[str, Any]) -> CertifyDraw:
    looks = tuple(tuple(look) for look in facts.get("looks", ()))
    return CertifyDraw(**{**facts, "certify": tuple(facts["certify"]), "looks": looks})


def _read_parquet(path: Path) -> tuple[dict[str, Ids], IntArray, dict[str, Any]]:
    """Text columns, labels and facts of a catalog file, or a ``RunDamagedError``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            facts = json.loads(file.schema_arrow.metadata[b"surelabel"])
            columns = {name: _read_text(file, name) for name in _TEXT_COLUMNS}
            labels = np.zeros(file.metadata.num_rows, dtype=np.int64)
            for part, column in _read_column(file, "labels"):
                labels[part] = column.to_pylist()
        version = facts.get("format")
    except FileNotFoundError:
        raise RunDamagedError(f"{path}: the catalog is missing.") from None
    except (OSError, pa.ArrowException, AttributeError, KeyError, TypeError, ValueError) as error:
        raise _not_a_catalog(path, error) from None
    if version != _FORMAT:
        raise RunDamagedError(
            f"{path} has format {version}, and this version of surelabel reads {_FORMAT}: open "
            "the run with the version that made it."
        )
    return columns, labels, facts


def _read_column(file: pq.ParquetFile, name: str) -> Iterator[tuple[slice, pa.Array]]:
    """Parts of a column, and where they are."""
    start = 0
    for batch in file.iter_batches(batch_size=_ROW_GROUP, columns=[name]):
        column = batch.column(name)
        yield slice(start, start + len(column)), column
        start += len(column)


def _read_text(file: pq.ParquetFile, name: str) -> Ids:
    """A column of text, which is mapped if it is large."""
    import pyarrow.compute as pc

    longest = 1
    for _, column in _read_column(file, name):
        if column.null_count:
            raise ValueError(f"the column {name} has empty cells")
        longest = max(longest, pc.max(pc.utf8_length(column)).as_py() or 1)
    texts = zeros((file.metadata.num_rows,), f"<U{longest}")
    for part, column in _read_column(file, name):
        texts[part] = column.to_pylist()
    return texts


def as_numbers(texts: Ids, n_digits: int = ID_LENGTH) -> npt.NDArray[np.uint64] | None:
    """(N,) the first ``n_digits`` hexadecimal digits as numbers; None if some are no such digits.

    Ids of 16 digits sort as their numbers do.
    """
    width = texts.dtype.itemsize // 4
    if width < n_digits or (n_digits == ID_LENGTH != width):
        return None
    numbers = np.zeros(len(texts), dtype=np.uint64)
    for part in slices(len(texts)):
        codes = np.ascontiguousarray(texts[part]).view(np.uint32).reshape(-1, width)[:, :n_digits]
        values = _VALUE_OF_DIGIT[np.minimum(codes, len(_VALUE_OF_DIGIT) - 1)]
        if (values > 15).any():
            return None
        for place in range(n_digits):
            numbers[part] = (numbers[part] << np.uint64(4)) | values[:, place]
    return numbers


def _not_a_catalog(path: Path, error: Exception) -> RunDamagedError:
    return RunDamagedError(
        f"{path} is not a catalog that surelabel wrote: {error}. Put back a copy of the file, or "
        "label the images again."
    )
