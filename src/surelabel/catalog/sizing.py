"""Which square all images are squeezed into."""

from __future__ import annotations

from collections.abc import Iterable

_KEEP = range(16, 65)
_SMALLEST = 24
_USUAL = 64


def choose_size(shapes: Iterable[tuple[int, int]]) -> int:
    """The side for images of these (width, height).

    One square shape of 16 to 64 pixels is kept; one shape under 16 is enlarged by the smallest
    whole factor that reaches 24; anything else becomes 64.
    """
    distinct = set(shapes)
    if len(distinct) != 1:
        return _USUAL
    width, height = distinct.pop()
    longer = max(width, height)
    if longer < _KEEP.start:
        return longer * -(-_SMALLEST // longer)
    return longer if width == height and longer in _KEEP else _USUAL
