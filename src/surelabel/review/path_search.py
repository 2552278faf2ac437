"""Which images have a text in their path: among a million, in some milliseconds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import numpy as np

from surelabel.files.mapped_arrays import concatenate, slices
from surelabel.types import Ids, IntArray

_END = "\0"
"""After each path; no path contains it."""


class PathSearch:
    """Looks through all paths as one text, without regard to case; it is mapped if it is large."""

    def __init__(self, paths: Ids) -> None:
        """``paths`` (N,)."""
        parts, ends, at = [np.empty(0, dtype=np.uint8)], [np.empty(0, dtype=np.int64)], 0
        for part in slices(len(paths)):
            text = _END.join([*map(str.casefold, paths[part].tolist()), ""])
            parts.append(np.frombuffer(_encoded(text), dtype=np.uint8))
            ends.append(np.flatnonzero(parts[-1] == ord(_END)) + at)
            at += len(parts[-1])
        self._text, self._ends = concatenate(parts), concatenate(ends)

    def find(self, text: str, n: int) -> IntArray:
        """The positions of the first ``n`` paths that contain ``text``, in their order."""
        wanted = text.casefold()
        if not wanted or _END in wanted:
            return np.empty(0, dtype=np.int64)
        return np.fromiter(islice(self._rows_with(wanted), n), dtype=np.int64)

    def _rows_with(self, wanted: str) -> Iterator[int]:
        pattern, at = re.compile(re.escape(_encoded(wanted))), 0
        text = self._text.data
        while found := pattern.search(text, at):
            row = int(np.searchsorted(self._ends, found.start()))
            yield row
            at = int(self._ends[row])


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # names of files may hold halves of characters
