"""Which images of a new dataset to label first, before a finished run is adapted to it.

A random part can report how good the adapted labels are. The others are diverse, and the ways that
need no label of the new dataset are unsure of them or disagree about them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from torch.nn import functional

from surelabel.adaptation.label_partition import MIN_REPORT
from surelabel.adaptation.old_run import OldRun, check_nets
from surelabel.adaptation.round import finished_round
from surelabel.adaptation.ways import LABEL_SHIFT, WAYS, Statistics, TwoDatasets
from surelabel.config.choices import Strategy
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import catalog_like
from surelabel.dataset.pixels import open_pixels
from surelabel.dataset.sources import Images
from surelabel.errors import InputError, OptionError
from surelabel.runs.folder import RunFolder
from surelabel.selection.coverage import coverage_order
from surelabel.types import FloatArray, IntArray, OnProgress, derive_seed, no_progress
from surelabel.workflows.model_inputs import name_of
from surelabel.workflows.problem import problem_of

if TYPE_CHECKING:
    import pandas as pd

_RANDOM_SHARE = 0.5
"""Of the images: most of them report, the others are learned from."""
_MOST = 5000
"""Images that are chosen among, a random part of a large collection."""


def draw_for_adaptation(
    run2: RunFolder, images: Images, n: int, seed: int, on_progress: OnProgress = no_progress
) -> pd.DataFrame:
    """``path,label,drawn`` of ``n`` new images, in an order in which every beginning is useful.

    Of a group, or of images with equal bytes, one is drawn.
    """
    import pandas as pd

    if n < 3 * MIN_REPORT:
        raise OptionError(
            f"{n} images are too few: half of them are drawn at random to see whether adaptation "
            f"helps. Ask for {3 * MIN_REPORT} or more, better 100."
        )
    finished_round(run2)
    cache = cache_folder(run2.config.cache)
    catalog = catalog_like(run2.catalog, images, cache=cache, on_progress=on_progress)
    catalog = replace(catalog, classes=problem_of(run2).classes)
    if not len(catalog):
        raise InputError(f"{name_of(images)} has no image that can be read.")
    store = open_pixels(catalog, cache)
    check_nets(run2, catalog, store)
    both = OldRun(run2, catalog, store, seed).both()
    _, first = np.unique(catalog.units(catalog.ids), return_index=True)
    rng = np.random.default_rng(derive_seed(seed, "adapt from"))
    at_random, chosen = rows_to_label(both, rng.permutation(first), n)
    order = _alternating(at_random, chosen)
    drawn = np.where(np.isin(order, chosen), str(Strategy.UNCERTAIN), str(Strategy.RANDOM))
    paths = catalog.paths[order].tolist()
    table = pd.DataFrame({"path": paths, "label": "", "drawn": drawn.tolist()})
    facts = {"seed": seed, "n": len(order), "strategy": "adaptation"}
    table.attrs["draw"] = {**facts, "adapt_from": str(run2.path)}
    return table


def rows_to_label(both: TwoDatasets, order: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """``n`` of the new images in the random ``order``: the first ones, and diverse, unclear ones.

    Both parts are in an order in which every beginning is useful.
    """
    at_random, rest = np.split(order, [min(len(order), round(_RANDOM_SHARE * n))])
    some = np.sort(rest[:_MOST])
    places = functional.normalize(both.spaces[Statistics.CENTERED].new, dim=1).numpy()
    best = coverage_order(
        places[some],
        places[some],
        n - len(at_random),
        weights=unclear(both, some),
        labeled=places[at_random],
    )
    return at_random, some[best]


def unclear(both: TwoDatasets, rows: IntArray) -> FloatArray:
    """(m,) how unclear new images are: the entropy of the mean of the ways without new labels.

    It is high where the ways are unsure and where they disagree. Label-shift correction is left
    out: it repeats direct inference.
    """
    nothing = np.empty(0, dtype=np.int64)
    able = [way for way in WAYS if not way.needs_labels and way is not LABEL_SHIFT]
    logs = [way.fit(both, nothing, nothing, way.settings[0])(rows) for way in able]
    mean = np.mean([np.exp(each) for each in logs], axis=0)
    entropy: FloatArray = -(mean * np.log(np.maximum(mean, 1e-12))).sum(axis=1)
    return entropy


def _alternating(one: IntArray, other: IntArray) -> IntArray:
    """Both in their order, by turns, so that a person may stop anywhere."""
    places = np.concatenate([np.arange(len(one)), np.arange(len(other)) + 0.5])
    order: IntArray = np.concatenate([one, other])[np.argsort(places, kind="stable")]
    return order
