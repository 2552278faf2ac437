"""Predictions in parts: one for all images of a large collection is put together, mapped."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from surelabel.files.mapped_arrays import concatenate as join
from surelabel.files.mapped_arrays import zeros
from surelabel.types import FloatArray, Ids, Prediction


def concatenate(parts: Sequence[Prediction]) -> Prediction:
    """One prediction from those for different items; its distances only if all parts have them."""
    return from_parts(iter(parts), sum(map(len, parts)))


def from_parts(parts: Iterator[Prediction], n: int, ids: Ids | None = None) -> Prediction:
    """One prediction for ``n`` items from its parts, in order; large fields are mapped.

    ``ids`` are those of all parts, where they are in one array already.
    """
    first = next(parts)
    if len(first) == n:
        return first
    columns = [zeros((n, *values.shape[1:]), values.dtype) for values in _fields(first)]
    names, start, has_distance = [], 0, True
    for part in itertools.chain([first], parts):
        at = slice(start, start + len(part))
        for column, values in zip(columns, _fields(part), strict=True):
            column[at] = values
        if ids is None:
            names.append(part.ids)
        has_distance &= part.distance is not None
        start = at.stop
    known = join(names) if ids is None else ids
    probabilities, entropy, square, variance, distance = columns
    far = distance if has_distance else None
    return Prediction(known, probabilities, entropy, square, variance, far)


def _fields(prediction: Prediction) -> tuple[FloatArray, ...]:
    distance = prediction.distance
    return (
        prediction.probabilities,
        prediction.expected_entropy,
        prediction.expected_square,
        prediction.aleatoric_variance,
        np.full(len(prediction), np.nan) if distance is None else distance,
    )
