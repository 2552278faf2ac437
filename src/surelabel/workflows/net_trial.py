"""Small color images: photographs, or something a net learns better from scratch? A trial tells.

A short training of the compact net and a linear head on the features of a pre-trained net each
predict labels that they have not seen. Digits and glyphs are not tried: gray images keep the
compact net, which goes on to learn from the whole pool.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surelabel.config.choices import Effort, Net
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import build_catalog
from surelabel.dataset.items import LabelRow, Source
from surelabel.dataset.pixels import open_pixels
from surelabel.dataset.splits import is_none_of_these
from surelabel.selection.calibration import is_clear_gain
from surelabel.selftraining.round_inputs import round_inputs_from
from surelabel.types import FloatArray, OnProgress, Split, derive_seed, no_progress
from surelabel.workflows.model_inputs import SMALL_INPUT, decoding_of, open_inputs
from surelabel.workflows.problem import build_problem

_FEWEST, _MOST = 40, 400
"""Labels that a trial needs, and that it uses."""
_STEPS = 400
"""Of the compact net's training."""


@dataclass(frozen=True)
class Trial:
    """Losses in nats per label, of labels that were not trained on."""

    n_labels: int
    compact: float
    features: float
    features_win: bool
    """By more than chance explains."""


def is_color(source: Source) -> bool:
    """Whether some image has colors; the headers of ``source`` were read."""
    if source.array is not None:
        return source.array.ndim == 4 and source.array.shape[3] > 1
    return any(not header.gray for header in source.headers)


def try_features(
    config: Config,
    source: Source,
    rows: Mapping[str, LabelRow],
    on_progress: OnProgress = no_progress,
) -> Trial | None:
    """Compare the compact net with features on the labels in ``rows``; None with few labels.

    Certify labels are not used: nothing may be chosen by them.
    """
    known = {
        key: replace(row, split="")
        for key, row in rows.items()
        if row.label and row.split != Split.CERTIFY and not is_none_of_these(row.label)
    }
    if len(known) < max(_FEWEST, 2 * len({row.label for row in known.values()})):
        return None
    drawn = np.random.default_rng(derive_seed(config.seed, "trial")).permutation(sorted(known))
    some = _only(source, {key: known[key] for key in drawn[:_MOST].tolist()})
    quick = config.replace(effort=Effort.LOW, members=2, max_rounds=1, out_of_distribution=False)
    compact = quick.replace(net=str(Net.COMPACT), steps=config.steps or _STEPS, consistency=0.0)
    features = quick.replace(net=str(Net.EFFICIENTNET_LITE0), image_size=SMALL_INPUT)
    losses = [_losses(each, some, on_progress) for each in (compact, features)]
    ids = sorted(losses[0].keys() & losses[1].keys())
    by_compact, by_features = (np.array([each[i] for i in ids]) for each in losses)
    return Trial(
        n_labels=len(ids),
        compact=float(by_compact.mean()),
        features=float(by_features.mean()),
        features_win=is_clear_gain(by_compact - by_features),
    )


def _losses(config: Config, source: Source, on_progress: OnProgress) -> dict[str, float]:
    """By id, -ln p of each label, predicted by a model that was trained without it."""
    from surelabel.engines.earlier_round import losses_of
    from surelabel.engines.local import learner_for
    from surelabel.models.backbones import is_pretrained

    config = config.in_effect(pretrained=is_pretrained(config.net))
    cache = cache_folder(config.cache)
    catalog = build_catalog(
        source, seed=config.seed, tune_share=0.0, decoding=decoding_of(config), cache=cache
    )
    inputs = open_inputs(config, catalog, open_pixels(catalog, cache), on_progress)
    problem = build_problem(catalog, {}, 0)
    with tempfile.TemporaryDirectory() as folder:
        learner = learner_for(config, inputs)
        trained = learner.train(round_inputs_from(1, problem, None), Path(folder), on_progress)
        prediction = trained.predict_held_out(problem, on_progress)
    values: FloatArray = losses_of(prediction, problem)
    return dict(zip(prediction.ids.tolist(), values.tolist(), strict=True))


def _only(source: Source, rows: Mapping[str, LabelRow]) -> Source:
    """The images of ``source`` that ``rows`` label, with these labels."""
    kept = [i for i, key in enumerate(source.keys) if key in rows]
    return replace(
        source,
        keys=tuple(source.keys[i] for i in kept),
        files=tuple(source.files[i] for i in kept),
        array=None if source.array is None else source.array[kept],
        label_rows=tuple(rows[source.keys[i]] for i in kept),
        headers=(),
        skipped=(),
    )
