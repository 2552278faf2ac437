"""What the certify images were drawn from: the promise holds for that and for nothing else.

Certify images are a random sample of the images that could be drawn when they were. Images that
come later could not, and when people label images that do not certify, the certify images left are
no random sample of the rest.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from surelabel.catalog import Catalog
from surelabel.runs import RunFolder
from surelabel.types import Ids, Split


@dataclass(frozen=True)
class Draw:
    """Certify images that came together, as kept in ``draws.json``."""

    certify: tuple[str, ...]
    first: int
    end: int
    """They were drawn from the catalog's rows ``first`` to ``end``, as far as in the pool."""
    pool: str
    """Digest of those."""


def note_draw(folder: RunFolder, pool_ids: Ids, *, everywhere: bool = False) -> None:
    """Remember which part of the pool the certify images come from that are new in the catalog.

    ``everywhere``: they were drawn from all of it. Else from the images that were added together
    with them, or as many times of adding as they stretch over.
    """
    catalog = folder.catalog
    sizes, draws = _notes(folder)
    if len(catalog) > sizes[-1]:
        sizes = [*sizes, len(catalog)]
    known = {item_id for draw in draws for item_id in draw.certify}
    certify = catalog.ids[catalog.splits == Split.CERTIFY]
    fresh = tuple(item_id for item_id in certify.tolist() if item_id not in known)
    if fresh:
        rows = catalog.rows(np.array(fresh, dtype=np.str_))
        first = 0 if everywhere else max(size for size in sizes if size <= rows.min())
        end = sizes[-1] if everywhere else min(size for size in sizes if size > rows.max())
        digest = _digest(_between(catalog, pool_ids, first, end))
        draws = [*draws, Draw(fresh, first, end, digest)]
    written = [dataclasses.asdict(draw) for draw in draws]
    folder.write_draws({"sizes": sizes, "draws": written})


def drawn_from(
    folder: RunFolder, pool_ids: Ids, population: Ids, certify: Ids
) -> tuple[Ids, Ids] | None:
    """The part of ``population`` that most of ``certify`` are a random sample of, and those.

    None when there is none: ``pool_ids`` is not what any of them was drawn from.
    """
    _, draws = _notes(folder)
    by_part: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for draw in draws:
        if _digest(_between(folder.catalog, pool_ids, draw.first, draw.end)) == draw.pool:
            by_part[draw.first, draw.end] += draw.certify
    samples = {part: certify[np.isin(certify, ids)] for part, ids in by_part.items()}
    part = max(samples, key=lambda part: len(samples[part]), default=None)
    if part is None or not len(samples[part]):
        return None
    others = {item_id for draw in draws for item_id in draw.certify} - set(by_part[part])
    inside = _between(folder.catalog, population, *part)
    return inside[~np.isin(inside, sorted(others))], samples[part]


def _notes(folder: RunFolder) -> tuple[list[int], list[Draw]]:
    """How many images the catalog had each time it grew, from 0 on; and the draws."""
    notes = folder.read_draws()
    draws = [Draw(**{**draw, "certify": tuple(draw["certify"])}) for draw in notes["draws"]]
    return notes["sizes"], draws


def _between(catalog: Catalog, ids: Ids, first: int, end: int) -> Ids:
    rows = catalog.rows(ids)
    return ids[(rows >= first) & (rows < end)]


def _digest(ids: Ids) -> str:
    return hashlib.sha256("\n".join(sorted(ids.tolist())).encode()).hexdigest()
