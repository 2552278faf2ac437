"""Draw the images to label first by what they look like, or by what a run is uncertain of.

Such images are no random sample. Their labels train, and the column ``drawn`` of their table says
where they come from: they are never held out while there are random ones, and never certify.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from surelabel.config.choices import Measure, Strategy
from surelabel.config.settings import Config
from surelabel.dataset.array_store import PixelStore, cache_folder
from surelabel.dataset.build import unlabeled_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.labels import Labels, attach_labels
from surelabel.dataset.pixels import open_pixels, restore_pixels
from surelabel.dataset.sources import find_images
from surelabel.dataset.thumbnails import thumbnail_vectors
from surelabel.errors import InputError, OptionError, RunError
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE
from surelabel.selection.coverage import coverage_order
from surelabel.types import FloatArray, Ids, OnProgress, Split, derive_seed, no_progress
from surelabel.workflows.model_inputs import choose_net, decoding_of, open_inputs
from surelabel.workflows.problem import problem_of

if TYPE_CHECKING:
    import pandas as pd

    from surelabel.dataset.sources import Images

_MOST = 5000
"""Images that are drawn from, and that are to be covered: a random part of a large collection."""
_SIDE = 16
"""Of the thumbnails that small images are compared by."""
_BATCH = 1024


def draw_by_coverage(
    images: Images,
    n: int,
    config: Config,
    without: Labels | None = None,
    on_progress: OnProgress = no_progress,
) -> pd.DataFrame:
    """``path,label,drawn`` of ``n`` typical and diverse images, the most useful first.

    Photographs are compared by the features of pre-trained nets, which later runs find in the
    cache; small images by thumbnails. Images that the table ``without`` lists count as labeled.
    """
    _check(n)
    cache = cache_folder(config.cache)
    source = find_images(images, cache)
    listed = () if without is None else attach_labels(source, without).label_rows
    config, source = choose_net(config, source, on_progress)
    catalog = unlabeled_catalog(
        source, decoding=decoding_of(config), cache=cache, on_progress=on_progress
    )
    store = (
        open_pixels(catalog, cache)
        if source.array is None
        else restore_pixels(catalog, cache=cache, images=images, on_progress=on_progress)
    )
    known = np.isin(catalog.paths, sorted({row.key for row in listed}))
    order = coverage_of(catalog, store, config, n, labeled=catalog.ids[known])
    return _table(catalog, order, Strategy.COVERAGE, config.seed)


def coverage_of(
    catalog: Catalog,
    store: PixelStore,
    config: Config,
    n: int,
    *,
    labeled: Ids | None = None,
    on_progress: OnProgress = no_progress,
) -> Ids:
    """The ids of ``n`` images, none of them ``labeled``, that stand for many others."""
    done = catalog.ids[:0] if labeled is None else labeled
    some = _some(np.sort(catalog.ids[~np.isin(catalog.ids, done)]), config.seed)
    vectors = _vectors(catalog, store, config, np.concatenate([some, done]), on_progress)
    own = vectors[: len(some)]
    chosen: Ids = some[coverage_order(own, own, n, labeled=vectors[len(some) :])]
    return chosen


def draw_uncertain(
    folder: RunFolder, n: int, on_progress: OnProgress = no_progress
) -> pd.DataFrame:
    """The same for a run: images like many others that its last round is uncertain of.

    The predictive entropy says how uncertain. Certify images are not drawn.
    """
    _check(n)
    last = folder.last_round()
    if last is None:
        raise RunError(
            f"{folder.path} has no finished round, so it is not known what is uncertain: call "
            f"surelabel resume {folder.path}, or draw with --strategy coverage."
        )
    catalog, config, problem = folder.catalog, folder.config, problem_of(folder)
    pool = last.read_table(POOL_TABLE).set_index("id")
    free = problem.pool_ids[~np.isin(problem.pool_ids, catalog.in_split(Split.CERTIFY))]
    some = _some(np.sort(free[np.isin(free, pool.index.to_numpy(dtype=np.str_))]), config.seed)
    if not len(some):
        raise InputError(f"{folder.path} has no image left to draw.")
    cache = cache_folder(config.cache)
    store = restore_pixels(catalog, cache=cache, images=None, on_progress=on_progress)
    ids = np.concatenate([some, problem.human_ids])
    vectors = _vectors(catalog, store, config, ids, on_progress)
    own, entropy = vectors[: len(some)], pool[str(Measure.PREDICTIVE_ENTROPY)].reindex(some)
    order = coverage_order(
        own, own, n, weights=entropy.to_numpy(dtype=float), labeled=vectors[len(some) :]
    )
    return _table(catalog, some[order], Strategy.UNCERTAIN, config.seed)


def _check(n: int) -> None:
    if n < 1:
        raise OptionError(f"{n} images cannot be drawn: ask for 1 or more.")


def _some(ids: Ids, seed: int) -> Ids:
    """All ids, or a random part of them."""
    rng = np.random.default_rng(derive_seed(seed, "coverage"))
    return ids[np.sort(rng.permutation(len(ids))[:_MOST])]


def _vectors(
    catalog: Catalog, store: PixelStore, config: Config, ids: Ids, on_progress: OnProgress
) -> FloatArray:
    """(N, D) unit vectors: centered features of the last layers, or thumbnails."""
    from surelabel.engines.inputs import Features

    inputs: Any = open_inputs(config, catalog, store, on_progress)
    parts = []
    for start in range(0, len(ids), _BATCH):
        some = ids[start : start + _BATCH]
        if isinstance(inputs, Features):
            rows = inputs.pixels(inputs.rows(some)).flatten(1)
            layers = inputs.backbone.layers
            places = layers.up_to(0) if layers else [slice(None)]
            parts.append(np.concatenate([rows[:, at].float().numpy() for at in places], axis=1))
        else:
            digests = catalog.digests[catalog.rows(some)]
            parts.append(thumbnail_vectors(store.gather(digests), _SIDE))
    return unit_vectors(np.concatenate(parts))


def unit_vectors(values: FloatArray) -> FloatArray:
    """(N, D) centered rows of length 1."""
    centered = values - values.mean(axis=0)
    length = np.linalg.norm(centered, axis=1, keepdims=True)
    return np.asarray(centered / np.maximum(length, 1e-12), dtype=np.float32)


def _table(catalog: Catalog, ids: Ids, strategy: Strategy, seed: int) -> pd.DataFrame:
    import pandas as pd

    paths = catalog.paths[catalog.rows(ids)].tolist()
    table = pd.DataFrame({"path": paths, "label": "", "drawn": str(strategy)})
    table.attrs["draw"] = {"seed": seed, "n": len(ids), "strategy": str(strategy)}
    return table
