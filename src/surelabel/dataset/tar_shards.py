"""Images in tar archives, as WebDataset writes them: read by offset, never unpacked.

Files of one sample have one name up to its first dot: ``000017.jpg`` is the image, ``000017.cls``
or ``000017.json`` its label. An archive is read once from start to end, one file at a time; an
index of offsets, digests and labels is kept in the cache.
"""

from __future__ import annotations

import json
import posixpath
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from surelabel.dataset.decode import readable_suffixes, strict_pillow
from surelabel.dataset.file_index import Header, inspect_content
from surelabel.dataset.items import LabelRow, Skipped, Source, normalize_key
from surelabel.dataset.locations import MAX_BYTES, TOO_LARGE, Location, open_stream
from surelabel.dataset.parallel import ProgressCounter, map_batches
from surelabel.dataset.remote import as_os_error
from surelabel.dataset.shards import (
    BrokenShardError,
    Shard,
    broken,
    index_path,
    is_hidden,
    read_index,
    write_index,
)
from surelabel.dataset.tables import cell_text
from surelabel.errors import InputError
from surelabel.types import OnProgress, no_progress

TAR = frozenset({".tar"})
COMPRESSED_TAR = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")
_LABEL_FILES = (".cls", ".json")
_LABEL_KEYS = ("label", "cls", "class")
"""What a label may be called in a JSON file of a sample, the first that is there."""
_LARGEST_LABEL_FILE = 2**20
_END = 1024
"""Bytes of zeros at the end of an archive."""


@dataclass(frozen=True)
class _Image:
    name: str
    start: int
    length: int
    header: Header


@dataclass
class _Index:
    """What is in an archive."""

    images: list[_Image]
    labels: dict[str, str]
    """By the name of the sample."""
    problem: str = ""
    """Why the archive could not be read to its end."""


def read_tars(
    shards: Sequence[Shard], name: str, cache: Path, on_progress: OnProgress = no_progress
) -> Source:
    """The images in tar archives, with the labels beside them.

    Of an archive that is broken the images before the damage are used.
    """
    keys: dict[str, str] = {}
    headers: list[Header] = []
    rows: list[LabelRow] = []
    skipped: list[Skipped] = []

    def index_all(batch: Sequence[Shard]) -> list[_Index]:
        return [_index(shard, cache) for shard in batch]

    ticker = ProgressCounter(on_progress, "reading shards", len(shards))
    with strict_pillow():
        for (shard,), (index,) in map_batches(index_all, shards, 1):
            for image in index.images:
                key = normalize_key(posixpath.join(shard.name, image.name))
                if key in keys:
                    skipped.append(Skipped(key, "another file in the archive has the same name"))
                    continue
                suffix = PurePosixPath(image.name).suffix.lower()
                keys[key] = str(Location(shard.file, image.start, image.length, suffix))
                headers.append(image.header)
                label = index.labels.get(_sample(image.name), "")
                if label:
                    rows.append(LabelRow(key, f"{shard.file}: '{image.name}'", label))
            if index.problem:
                skipped.append(broken(shard, index.problem))
            ticker.advance(1)
    if not keys:
        why = f" {skipped[0].path}: {skipped[0].reason}." if skipped else ""
        raise InputError(f"{name} holds no images.{why}")
    return Source(
        name,
        None,
        tuple(keys),
        tuple(keys.values()),
        label_rows=tuple(rows),
        skipped=tuple(skipped),
        headers=tuple(headers),
        stamps={shard.file: shard.stamp for shard in shards},
    )


def _index(shard: Shard, cache: Path) -> _Index:
    path = index_path(cache, shard, "tar")
    known = read_index(path) if shard.stamp else None
    if known is not None:
        images = [_Image(name, at, n, Header(**facts)) for name, at, n, facts in known["images"]]
        return _Index(images, known["labels"])
    index = _read(shard)
    if shard.stamp and not index.problem:
        images_ = [(i.name, i.start, i.length, asdict(i.header)) for i in index.images]
        write_index(path, {"images": images_, "labels": index.labels})
    return index


def _read(shard: Shard) -> _Index:
    """Read an archive from start to end, as far as it can be read."""
    index = _Index([], {})
    try:
        with open_stream(shard.file) as stream:
            for member, content in _members(stream):
                if isinstance(content, str):
                    _add_problem(index, member, content)
                else:
                    _add(index, member, content)
    except BrokenShardError as error:
        index.problem = str(error)
    except OSError as error:
        index.problem = str(error.strerror or as_os_error(error).strerror)
    except Exception as error:  # a driver raises nearly anything while it reads
        index.problem = str(as_os_error(error).strerror)
    return index


def _members(stream: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, bytes | str]]:
    """Images and files of labels, with their bytes or the reason why they are not read.

    ``BrokenShardError`` where the archive ends too early.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # it would remember all
                if not _is_wanted(member):
                    continue
                problem = _unusable(member)
                if problem:
                    yield member, problem
                    continue
                opened = archive.extractfile(member)
                assert opened is not None
                yield member, opened.read()
            end = archive.offset
    except tarfile.TarError as error:
        raise BrokenShardError(f"it is no whole tar archive ({error})") from None
    stream.seek(end)
    block = stream.read(_END)
    if not block:
        raise BrokenShardError(f"it ends too early, after {end:,} bytes")
    if block.strip(b"\0"):
        raise BrokenShardError(f"it is damaged at byte {end:,}")


def _is_wanted(member: tarfile.TarInfo) -> bool:
    suffix = PurePosixPath(member.name).suffix.lower()
    if suffix in _LABEL_FILES:
        return not _unusable(member) and member.size <= _LARGEST_LABEL_FILE
    return suffix in readable_suffixes() and not member.isdir()


def _unusable(member: tarfile.TarInfo) -> str:
    """Why a member is not read: only bytes that are in the archive, as they are, become images."""
    if not member.isreg():
        return "in the archive it is a link or a device, not a file"
    if member.type == tarfile.GNUTYPE_SPARSE or member.sparse is not None:
        return "in the archive it is a file with holes: pack it again without --sparse"
    return TOO_LARGE if member.size > MAX_BYTES else ""


def _add_problem(index: _Index, member: tarfile.TarInfo, problem: str) -> None:
    name = _safe_name(member)
    if name:
        index.images.append(_Image(name, member.offset_data, 0, Header(problem=problem)))


def _safe_name(member: tarfile.TarInfo) -> str:
    """The name of a member; empty for one that is hidden, leads elsewhere or is no Unicode."""
    name = posixpath.normpath(member.name).lstrip("/")
    return "" if is_hidden(name) or not _is_unicode(name) else name  # ".." begins with a dot, too


def _add(index: _Index, member: tarfile.TarInfo, content: bytes) -> None:
    name = _safe_name(member)
    if not name:
        return
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in _LABEL_FILES:
        header = inspect_content(content)
        index.images.append(_Image(name, member.offset_data, member.size, header))
        return
    label = _label(content, suffix)
    if label:
        index.labels.setdefault(_sample(name), label)


def _label(content: bytes, suffix: str) -> str:
    """The class in the file of a sample; empty where it states none."""
    text = content.decode("utf-8", "replace").strip()
    if suffix == ".json":
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError):
            return ""
        named = facts if isinstance(facts, dict) else {}
        stated = (named.get(key) for key in _LABEL_KEYS)
        text = cell_text(next((each for each in stated if isinstance(each, str | int)), None))
    return "" if text == "-1" else normalize_key(text.strip())


def _sample(name: str) -> str:
    """The name of a sample: that of its files up to the first dot behind the last slash."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/{file.partition('.')[0]}"


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
