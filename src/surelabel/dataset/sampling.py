"""Draw the images to label first, and record what the certify images were drawn from."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surelabel.config.choices import Strategy
from surelabel.dataset.catalog import Catalog, CertifyDraw, as_numbers
from surelabel.dataset.decode import UnreadableImageError, decode_image, strict_pillow
from surelabel.dataset.items import Source
from surelabel.dataset.labels import Labels, attach_labels
from surelabel.dataset.locations import read_content
from surelabel.dataset.sources import Images, find_images
from surelabel.errors import InputError, OptionError
from surelabel.files.atomic import atomic_path, atomic_write_bytes
from surelabel.files.mapped_arrays import slices, take
from surelabel.files.spreadsheet import write_guarded_csv
from surelabel.types import Ids, Split, derive_seed

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MIN_CERTIFY = 59
"""Fewer certify images cannot show an error below 5 % at 95 % confidence, even if all are right."""
MIN_DRAWN = 3 * _MIN_CERTIFY
"""Of so many images or more, a third is set aside to certify, unless the user says otherwise."""


def draw(
    images: Images,
    n: int,
    *,
    seed: int,
    certify: float | None = None,
    without: Labels | None = None,
) -> pd.DataFrame:
    """``path,label`` of ``n`` readable images, drawn uniformly, with the label left to fill in.

    A share ``certify`` of them has the split certify: their labels are hidden until the end. With
    None it is a third, if that is enough to certify anything. The rows are in random order, so
    the first half alone is a random sample too. Where the images have groups, whole groups are
    drawn. Images that the table ``without`` lists are not drawn again. If there are fewer than
    ``n`` images, all are returned. The table's ``attrs`` record how to repeat the draw.
    """
    import pandas as pd

    if n < 1:
        raise OptionError(f"{n} images cannot be drawn: ask for 1 or more.")
    if certify is not None and not 0 <= certify <= 1:
        raise OptionError(
            f"certify is {certify:g}; it is the share of the drawn images, from 0 to 1."
        )
    source = find_images(images)
    listed = () if without is None else attach_labels(source, without).label_rows
    units = _units(source, {row.key for row in listed})
    drawn = _draw_units(source, units, n, seed)
    if not drawn:
        raise InputError(f"{source.name} has no image that can be read.")
    table = pd.DataFrame({"path": [key for key, _ in drawn], "label": ""})
    share = (1 / 3 if len(drawn) >= MIN_DRAWN else 0.0) if certify is None else certify
    if share > 0:
        table["split"] = [str(Split.CERTIFY) if _is_certify(i, share) else "" for _, i in drawn]
    frame = hashlib.sha256("\n".join(k for unit in units for k in unit).encode()).hexdigest()
    facts = {"seed": seed, "n": n, "strategy": str(Strategy.RANDOM), "certify": share}
    table.attrs["draw"] = {**facts, "of": frame, "units": len(units)}
    return table


def write_draw(table: pd.DataFrame, path: Path) -> None:
    """Write ``table`` as CSV or TSV, but never over an existing file, which may hold answers.

    How to repeat the draw is recorded beside it, in ``NAME.draw.json``.
    """
    if path.suffix.lower() not in _SEPARATORS:
        raise OptionError(f"{path}: name a file that ends in {' or '.join(_SEPARATORS)}.")
    separator = _SEPARATORS[path.suffix.lower()]
    try:
        with atomic_path(path, replace=False) as scratch:
            write_guarded_csv(table, scratch, separator)
        if "draw" in table.attrs:
            facts = {**table.attrs["draw"], "paths": table["path"].tolist()}
            text = json.dumps(facts, indent=1, ensure_ascii=False)
            atomic_write_bytes(path.with_name(f"{path.name}.draw.json"), text.encode())
    except FileExistsError:
        raise InputError(
            f"{path} exists already and may hold labels: name another file with --out."
        ) from None


def record_draw(
    catalog: Catalog,
    pool_ids: Ids | None = None,
    *,
    from_all: bool = False,
    looks: CertifyDraw | None = None,
) -> Catalog:
    """``catalog`` with a record of which part of the pool its new certify images were drawn from.

    ``pool_ids`` are the images that the run labels; by default the pool and the certify images.
    With ``from_all`` they were drawn from all of them, otherwise from the images that were added
    together with them (from several additions, if they span several). If they were all drawn at
    the ``looks`` of an earlier draw, they are added to it.
    """
    sizes = catalog.sizes
    if len(catalog) > sizes[-1]:
        sizes = (*sizes, len(catalog))
    known = {item_id for draw in catalog.draws for item_id in draw.certify}
    certify = catalog.in_split(Split.CERTIFY)
    fresh = tuple(item_id for item_id in certify.tolist() if item_id not in known)
    if not fresh:
        return replace(catalog, sizes=sizes)
    if looks is not None and set(fresh) <= set(looks.drawn):
        more = replace(looks, certify=(*looks.certify, *fresh))
        return replace(catalog, sizes=sizes, draws=_replaced(catalog, looks, more))
    if pool_ids is None:
        pool_ids = np.concatenate([catalog.in_split(Split.POOL), certify])
    rows = catalog.rows(np.array(fresh, dtype=np.str_))
    first = 0 if from_all else max(size for size in sizes if size <= rows.min())
    end = sizes[-1] if from_all else min(size for size in sizes if size > rows.max())
    draw = CertifyDraw(fresh, first, end, _digest(_between(catalog, pool_ids, first, end)))
    return replace(catalog, sizes=sizes, draws=(*catalog.draws, draw))


def open_looks(catalog: Catalog, pool_ids: Ids, subject: str) -> CertifyDraw | None:
    """The last draw, if it is by looks, about ``subject``, and from the pool as it is now."""
    draw = catalog.draws[-1] if catalog.draws else None
    if draw is None or not draw.looks or draw.subject != subject:
        return None
    same = _digest(_between(catalog, pool_ids, draw.first, draw.end)) == draw.pool
    return draw if same else None


def record_look(
    catalog: Catalog, pool_ids: Ids, drawn: Ids, subject: str, looks: CertifyDraw | None
) -> Catalog:
    """``catalog`` with one look more: images ``drawn`` from the whole pool, none labeled yet."""
    look = tuple(drawn.tolist())
    if looks is not None:
        more = replace(looks, looks=(*looks.looks, look))
        return replace(catalog, draws=_replaced(catalog, looks, more))
    draw = CertifyDraw((), 0, catalog.sizes[-1], _digest(pool_ids), (look,), subject)
    return replace(catalog, draws=(*catalog.draws, draw))


def sampling_frame(
    catalog: Catalog, pool_ids: Ids, population: Ids, certify: Ids
) -> tuple[Ids, Ids] | None:
    """The part of ``population`` that most of ``certify`` are a random sample of, and that sample.

    None if there is no such part: none of them was drawn from ``pool_ids``. A draw by looks stands
    for itself, and comes before others.
    """
    by_part: defaultdict[tuple[int, int, int], list[str]] = defaultdict(list)
    for number, draw in enumerate(catalog.draws, 1):
        if _digest(_between(catalog, pool_ids, draw.first, draw.end)) == draw.pool:
            by_part[draw.first, draw.end, number if draw.looks else 0] += draw.certify
    samples = {part: certify[np.isin(certify, ids)] for part, ids in by_part.items()}
    part = max(
        samples,
        key=lambda part: (part[2] if len(samples[part]) else 0, len(samples[part])),
        default=None,
    )
    if part is None or not len(samples[part]):
        return None
    others = {item_id for draw in catalog.draws for item_id in draw.certify} - set(by_part[part])
    inside = _between(catalog, population, *part[:2])
    return inside[~np.isin(inside, sorted(others))], samples[part]


def _units(source: Source, without: set[str]) -> list[list[str]]:
    """Keys that are drawn together, a group or a single image; none that is in ``without``."""
    group = {row.key: row.group for row in source.label_rows if row.group}
    units: dict[tuple[str, str], list[str]] = {}
    for key in sorted(set(source.keys)):
        named = ("group", group[key]) if key in group else ("image", key)
        units.setdefault(named, []).append(key)
    return [unit for unit in units.values() if not without & set(unit)]


def _draw_units(source: Source, units: list[list[str]], n: int, seed: int) -> list[tuple[str, int]]:
    """Readable keys of random units, at least ``n`` in all, each with the number of its unit."""
    files = dict(zip(source.keys, source.files, strict=True))
    drawn: list[tuple[str, int]] = []
    order = np.random.default_rng(derive_seed(seed, "draw")).permutation(len(units))
    with strict_pillow():
        for number, unit in enumerate(units[position] for position in order):
            if len(drawn) >= n:
                break
            readable = [k for k in unit if source.array is not None or _is_readable(files[k])]
            drawn += [(key, number) for key in readable]
    return drawn


def _is_certify(number: int, share: float) -> bool:
    """Whether unit ``number`` belongs to the ``share``, spread evenly over the random order."""
    return math.floor((number + 1) * share) > math.floor(number * share)


def _is_readable(file: str) -> bool:
    try:
        decode_image(read_content(file), 16, 3)
    except (OSError, UnreadableImageError):
        return False
    return True


def _replaced(catalog: Catalog, old: CertifyDraw, new: CertifyDraw) -> tuple[CertifyDraw, ...]:
    return tuple(new if draw == old else draw for draw in catalog.draws)


def _between(catalog: Catalog, ids: Ids, first: int, end: int) -> Ids:
    rows = catalog.rows(ids)
    inside = (rows >= first) & (rows < end)
    return ids if inside.all() else take(ids, inside)


def _digest(ids: Ids) -> str:
    numbers = as_numbers(ids)
    order = np.argsort(ids if numbers is None else numbers)
    total = hashlib.sha256()
    for part in slices(len(ids)):
        total.update(b"\n" if part.start else b"")
        total.update("\n".join(ids[order[part]].tolist()).encode())
    return total.hexdigest()
