"""Where did the nets look? The attention of the tail detail over images of a run."""

from __future__ import annotations

import dataclasses

from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.errors import RunError
from surelabel.runs.folder import RunFolder
from surelabel.types import FloatArray, Ids, OnProgress, no_progress
from surelabel.workflows.label import as_recorded
from surelabel.workflows.model_inputs import open_inputs

CELL = 8
"""Side of a cell in pixels of the decoded image."""


def has_attention(config: Config) -> bool:
    """Whether the nets of a run with these settings decide where to look."""
    from surelabel.models.backbones import is_pretrained

    return config.tail is Tail.DETAIL and is_pretrained(config.net)


def attention_maps(
    folder: RunFolder, ids: Ids, on_progress: OnProgress = no_progress
) -> FloatArray:
    """(N, H, W): how much each cell of each of ``ids`` counted in the last round; sums to 1.

    A cell is 8 x 8 pixels of the decoded, square image. The mean over heads and nets.
    """
    from surelabel.engines.device import prepare
    from surelabel.engines.ensemble import load_ensemble

    if not has_attention(folder.config):
        raise RunError(
            f"{folder.path} has nets that look at the whole image alike: label the images with "
            "--net lite0 --tail detail to see where they look."
        )
    last = folder.last_round()
    if last is None or not last.weights():
        raise RunError(f"{folder.path} has no nets: call surelabel resume {folder.path} first.")
    last.verify()
    prepare(as_recorded(folder))
    config, cache = folder.config, cache_folder(folder.config.cache)
    some = _only(folder.catalog, ids)
    inputs = open_inputs(config, some, open_pixels(some, cache), on_progress)
    return load_ensemble(last.weights(), last.number, config, inputs).attention(some.ids)


def _only(catalog: Catalog, ids: Ids) -> Catalog:
    """The images ``ids`` of ``catalog``, in that order."""
    rows = catalog.rows(ids)
    columns = ("ids", "paths", "labels", "sources", "splits", "groups", "digests", "files")
    return dataclasses.replace(catalog, **{name: getattr(catalog, name)[rows] for name in columns})
