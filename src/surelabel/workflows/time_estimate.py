"""Before any photograph is decoded: how long reading them and computing their features takes.

Some images, drawn at random, are decoded and shown to the net first, and timed. What they give is
kept in the cache, so nothing is done twice.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from surelabel.config.settings import Config
from surelabel.dataset.array_store import PixelStore, cache_folder
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import Source
from surelabel.dataset.parallel import n_workers
from surelabel.dataset.pixels import read_catalog, source_contents, with_headers
from surelabel.selftraining.events import OnEvent, TimeEstimate
from surelabel.types import IntArray, OnProgress, derive_seed, no_progress
from surelabel.workflows.model_inputs import decoding_of, open_features

_SAMPLE = 48
_SAMPLE_PER_CORE = 8
"""Images that are decoded; three quarters of them are timed."""


def estimate_time(
    config: Config, source: Source, on_progress: OnProgress, on_event: OnEvent
) -> Source:
    """Tell how long a pre-trained net takes with ``source``, where many of its images are new.

    The source comes back with the headers of its files, which are read for this.
    """
    from surelabel.engines.first_look import FEWEST_IMAGES, timed_pace
    from surelabel.models.backbones import is_pretrained

    if not is_pretrained(config.net) or len(source.keys) < FEWEST_IMAGES:
        return source
    cache, decoding = cache_folder(config.cache), decoding_of(config)
    source = with_headers(source, cache, on_progress)
    contents = source_contents(source, cache, on_progress)
    store = PixelStore(cache, decoding.size, decoding.channels, decoding.resize)
    undecoded = store.missing(contents.digests)
    if len(undecoded) < FEWEST_IMAGES:
        return source  # features alone are timed when they begin
    rows = np.array(contents.rows)[np.isin(contents.digests, undecoded)]
    rng = np.random.default_rng(derive_seed(config.seed, "time estimate"))
    sample = rng.permutation(rows)[: max(_SAMPLE, _SAMPLE_PER_CORE * n_workers())]
    warm_up, timed = (np.sort(part) for part in np.split(sample, [len(sample) // 4]))
    _decode(config, source, warm_up)
    started = time.monotonic()
    catalog = _decode(config, source, timed)
    pace = (time.monotonic() - started) / len(timed)
    features = open_features(config, catalog, store)
    n_pixels, n_features = len(undecoded), len(features.store.missing(contents.digests))
    missing = features.missing(catalog.ids)
    seconds = timed_pace(features, missing, no_progress) if len(missing) else 0.0
    n_bytes = n_pixels * store.row_bytes + n_features * features.store.row_bytes
    on_event(TimeEstimate(n_pixels, n_pixels * pace, n_features * seconds, n_bytes))
    return source


def _decode(config: Config, source: Source, rows: IntArray) -> Catalog:
    """The images at ``rows``, decoded into the cache."""
    part = replace(
        source,
        keys=tuple(source.keys[row] for row in rows),
        files=tuple(source.files[row] for row in rows),
        headers=tuple(source.headers[row] for row in rows) if source.headers else (),
        array=source.array[rows] if source.array is not None else None,
        label_rows=(),
        skipped=(),
    )
    return read_catalog(part, cache_folder(config.cache), no_progress, decoding_of(config))
