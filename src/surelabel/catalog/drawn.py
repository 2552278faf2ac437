"""What the certify images were drawn from: the promise holds for that and for nothing else.

Certify images are a random sample of the images that could be drawn when they were. Images that
come later could not, and when people label images that do not certify, the certify images left are
no random sample of the rest. The catalog itself keeps it, so that no crash comes between the two.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import replace

import numpy as np

from surelabel.catalog.items import Catalog, Draw
from surelabel.types import Ids, Split


def note_draw(
    catalog: Catalog, pool_ids: Ids | None = None, *, everywhere: bool = False
) -> Catalog:
    """``catalog``, knowing which part of the pool its new certify images come from.

    ``pool_ids`` are what the run labels; without them, all in the pool and to certify.
    ``everywhere``: they were drawn from all of it. Else from the images that were added together
    with them, or as many times of adding as they stretch over.
    """
    sizes = catalog.sizes
    if len(catalog) > sizes[-1]:
        sizes = (*sizes, len(catalog))
    known = {item_id for draw in catalog.draws for item_id in draw.certify}
    certify = catalog.in_split(Split.CERTIFY)
    fresh = tuple(item_id for item_id in certify.tolist() if item_id not in known)
    if not fresh:
        return replace(catalog, sizes=sizes)
    if pool_ids is None:
        pool_ids = np.concatenate([catalog.in_split(Split.POOL), certify])
    rows = catalog.rows(np.array(fresh, dtype=np.str_))
    first = 0 if everywhere else max(size for size in sizes if size <= rows.min())
    end = sizes[-1] if everywhere else min(size for size in sizes if size > rows.max())
    draw = Draw(fresh, first, end, _digest(_between(catalog, pool_ids, first, end)))
    return replace(catalog, sizes=sizes, draws=(*catalog.draws, draw))


def drawn_from(
    catalog: Catalog, pool_ids: Ids, population: Ids, certify: Ids
) -> tuple[Ids, Ids] | None:
    """The part of ``population`` that most of ``certify`` are a random sample of, and those.

    None when there is none: ``pool_ids`` is not what any of them was drawn from.
    """
    by_part: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for draw in catalog.draws:
        if _digest(_between(catalog, pool_ids, draw.first, draw.end)) == draw.pool:
            by_part[draw.first, draw.end] += draw.certify
    samples = {part: certify[np.isin(certify, ids)] for part, ids in by_part.items()}
    part = max(samples, key=lambda part: len(samples[part]), default=None)
    if part is None or not len(samples[part]):
        return None
    others = {item_id for draw in catalog.draws for item_id in draw.certify} - set(by_part[part])
    inside = _between(catalog, population, *part)
    return inside[~np.isin(inside, sorted(others))], samples[part]


def _between(catalog: Catalog, ids: Ids, first: int, end: int) -> Ids:
    rows = catalog.rows(ids)
    return ids[(rows >= first) & (rows < end)]


def _digest(ids: Ids) -> str:
    return hashlib.sha256("\n".join(sorted(ids.tolist())).encode()).hexdigest()
