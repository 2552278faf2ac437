"""``auto`` decides by evidence: a trial on labels that were left out.

Small images are learned by a compact net from scratch, or from the features of a pre-trained one.
Photographs are labeled from features that are pooled over the image, or from maps in which a net
looks for detail. Each way predicts labels that it has not seen, up to a thousand; the usual
way stays unless the other one is clearly better. Certify labels are never used.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from surelabel.config.choices import Effort, Net, Tail
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import LabelRow, Source
from surelabel.dataset.pixels import open_pixels
from surelabel.dataset.splits import is_none_of_these
from surelabel.messages.run import trial_begins_sentence
from surelabel.selection.calibration import is_clear_gain, losses_at_best_temperature
from surelabel.selftraining.events import Advice, OnEvent, no_events
from surelabel.selftraining.round_inputs import Problem, round_inputs_from
from surelabel.types import (
    FloatArray,
    IntArray,
    JsonObject,
    OnProgress,
    Progress,
    Split,
    derive_seed,
    no_progress,
)
from surelabel.workflows.model_inputs import (
    PHOTOGRAPH_NETS,
    SMALL_INPUT,
    decoding_of,
    detail_size,
    open_inputs,
)
from surelabel.workflows.problem import build_problem

if TYPE_CHECKING:
    from surelabel.engines.inputs import Features, Images

_FEWEST = 60
"""Labels that a trial needs."""
_MOST = {"compact": 400, "detail": 1000}
"""Labels that it uses: with a few hundred, a net cannot show yet what detail is worth."""
_POOL = 2000
"""Images without a label that the compact net learns from by consistency."""
_STEPS = {"compact": 400, "detail": 300}
"""Of a net's training."""
_FOLDS_USED = 3
"""Of the five folds of a linear head: so many nets are trained at most."""
_CLEAR = 2.0
"""Standard errors of the mean difference at which no further net is trained."""
_GOOD_ENOUGH = 0.02
"""Share of wrong predictions by pooled features below which there is no need for detail."""


class Way(StrEnum):
    """A way to learn from images."""

    COMPACT = "compact"
    """A compact net, trained from scratch."""
    POOLED = "pooled"
    """Features of pre-trained nets, pooled over the image."""
    DETAIL = "detail"
    """Maps of a pre-trained net, and attention over them."""


Ways: TypeAlias = dict[Way, Config]
"""The settings of a run for each way, the usual one first."""


@dataclass(frozen=True)
class Trial:
    """What was tried, and what it showed."""

    n_labels: int
    """Labels that both ways predicted, each by a model that was trained without it."""
    usual: Way
    other: Way
    usual_loss: float
    """Nats per label."""
    other_loss: float
    """nan where the other way was not tried, because the usual one is good enough."""
    usual_error: float
    """Share of wrong predictions."""
    other_error: float
    chosen: Way
    seconds: float

    def to_json(self) -> JsonObject:
        """Plain values; what is nan is None."""
        return {k: None if v != v else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, values: JsonObject) -> Trial:
        """What ``to_json`` wrote."""
        known: dict[str, Any] = {k: float("nan") if v is None else v for k, v in values.items()}
        ways = {name: Way(known[name]) for name in ("usual", "other", "chosen")}
        return cls(**{**known, **ways})


def ways_for(asked: Config, settled: Config, side: int) -> Ways:
    """The ways between which a trial decides; none where the user or the effort decided.

    ``asked`` are the user's settings, ``settled`` what follows from the size of the images, whose
    median shorter side is ``side``.
    """
    from surelabel.models.backbones import photos_installed

    is_free = asked.net == Net.AUTO and asked.tail is Tail.LINEAR
    is_free &= not asked.image_size and not asked.net_weights and asked.effort is not Effort.LOW
    if not is_free or not photos_installed():
        return {}
    if settled.net == Net.COMPACT:
        pooled = asked.replace(net=PHOTOGRAPH_NETS, image_size=SMALL_INPUT)
        return {Way.COMPACT: settled, Way.POOLED: pooled.in_effect(pretrained=True)}
    detail = asked.replace(
        net=str(Net.EFFICIENTNET_LITE0), tail=Tail.DETAIL, image_size=detail_size(side)
    )
    return {Way.POOLED: settled, Way.DETAIL: detail.in_effect(pretrained=True)}


def try_ways(
    ways: Ways,
    source: Source,
    rows: Mapping[str, LabelRow],
    on_progress: OnProgress = no_progress,
    on_event: OnEvent = no_events,
) -> Trial | None:
    """Compare both ways on the labels in ``rows``; None with few labels."""
    started = time.monotonic()
    known = {
        key: replace(row, split="")
        for key, row in rows.items()
        if row.label and row.split != Split.CERTIFY and not is_none_of_these(row.label)
    }
    if len(known) < max(_FEWEST, 2 * len({row.label for row in known.values()})):
        return None
    if all(key in known for key in source.keys):
        return None  # there is nothing to label, as the run will say
    (usual, config), (other, _) = ways.items()
    drawn = np.random.default_rng(derive_seed(config.seed, "trial")).permutation(sorted(known))
    net = usual if usual is not Way.POOLED else other
    labels = {key: known[key] for key in drawn[: _MOST[net]].tolist()}

    def report(progress: Progress) -> None:
        on_progress(replace(progress, what=f"trial, {progress.what}"))

    on_event(Advice(trial_begins_sentence(usual, other, len(labels))))
    pooled = _pooled(_quick(ways, Way.POOLED), _only(source, labels), report)
    by_way = {Way.POOLED: pooled}
    if usual is not Way.POOLED or _error(pooled) > _GOOD_ENOUGH:
        n_pool = _POOL if net is Way.COMPACT else 0
        some = _only(source, labels, n_pool=n_pool, seed=config.seed)
        by_way[net] = _by_nets(_quick(ways, net), some, pooled, report)
        by_way[Way.POOLED] = _at(pooled, by_way[net])
    losses = {way: _losses(each) for way, each in by_way.items()}
    wins = other in losses and is_clear_gain(losses[usual] - losses[other])
    return Trial(
        n_labels=len(losses[usual]),
        usual=usual,
        other=other,
        usual_loss=float(losses[usual].mean()),
        other_loss=float(losses[other].mean()) if other in losses else float("nan"),
        usual_error=_error(by_way[usual]),
        other_error=_error(by_way[other]) if other in by_way else float("nan"),
        chosen=other if wins else usual,
        seconds=time.monotonic() - started,
    )


@dataclass(frozen=True)
class _HeldOut:
    """Labels by id with the probabilities (K,) that a model without them gives."""

    probabilities: Mapping[str, FloatArray]
    labels: Mapping[str, int]

    def arrays(self) -> tuple[FloatArray, IntArray]:
        """(N, K) and (N,), in the order of the ids."""
        ids = sorted(self.probabilities)
        p = np.stack([self.probabilities[i] for i in ids]).astype(np.float64)
        return p, np.array([self.labels[i] for i in ids], dtype=np.int64)


def _losses(held_out: _HeldOut) -> FloatArray:
    """(N,) in nats, by id; being more or less sure is no merit."""
    return losses_at_best_temperature(*held_out.arrays())


def _error(held_out: _HeldOut) -> float:
    p, labels = held_out.arrays()
    return float((p.argmax(1) != labels).mean())


def _at(held_out: _HeldOut, other: _HeldOut) -> _HeldOut:
    """``held_out`` at the ids of ``other``."""
    chosen = {i: p for i, p in held_out.probabilities.items() if i in other.probabilities}
    return replace(held_out, probabilities=chosen)


def _quick(ways: Ways, way: Way) -> Config:
    """The settings of ``way`` for the trial: as in a run where that is soon done."""
    config = ways[way].replace(max_rounds=1, out_of_distribution=False)
    if way is not Way.POOLED:
        return config.replace(steps=config.steps or _STEPS[way], epochs=0, views=0)
    if Way.COMPACT in ways:
        # A fifth of the cost of both nets, and nearly as good on images of a few pixels.
        config = config.replace(net=str(Net.EFFICIENTNET_LITE0))
    return config


def _opened(
    config: Config, source: Source, on_progress: OnProgress
) -> tuple[Catalog, Images | Features, Problem]:
    """Every label of ``source`` is trained on and left out in turn."""
    cache = cache_folder(config.cache)
    catalog = build_catalog(
        source,
        seed=config.seed,
        tune_share=0.0,
        decoding=decoding_of(config),
        cache=cache,
        on_progress=on_progress,
    )
    inputs = open_inputs(config, catalog, open_pixels(catalog, cache), on_progress)
    return catalog, inputs, build_problem(catalog, {}, 0)


def _pooled(config: Config, source: Source, on_progress: OnProgress) -> _HeldOut:
    """All labels, by the linear heads that left them out."""
    from surelabel.engines.local import learner_for

    _, inputs, problem = _opened(config, source, on_progress)
    with tempfile.TemporaryDirectory() as folder:
        learner = learner_for(config, inputs)
        trained = learner.train(round_inputs_from(1, problem, None), Path(folder), on_progress)
        prediction = trained.predict_held_out(problem, on_progress)
    labels = dict(zip(problem.human_ids.tolist(), problem.human_labels.tolist(), strict=True))
    found = zip(prediction.ids.tolist(), prediction.probabilities, strict=True)
    return _HeldOut(dict(found), labels)


def _by_nets(config: Config, source: Source, pooled: _HeldOut, on_progress: OnProgress) -> _HeldOut:
    """The labels of some folds, each by a net that left it out.

    One net after the other, until it is clear which way is better: these folds are those of the
    linear heads, so that both ways learn from the same labels.
    """
    from surelabel.engines.cross_fitting import folds_of
    from surelabel.engines.ensemble import load_ensemble
    from surelabel.engines.linear_model import N_FOLDS
    from surelabel.engines.member_training import MemberTraining
    from surelabel.engines.storage import weights_path

    catalog, inputs, problem = _opened(config, source, on_progress)
    folds = folds_of(problem, catalog, N_FOLDS, config.seed)
    found = _HeldOut({}, pooled.labels)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        training = MemberTraining(
            round_inputs_from(1, problem, None), inputs, config, N_FOLDS, place
        )
        for fold in range(_FOLDS_USED):
            out = problem.human_ids[folds == fold]
            if not len(out):
                continue
            training.train(fold, on_progress)
            net = load_ensemble([weights_path(place, fold)], 1, config, inputs)
            predicted = zip(out.tolist(), net.predict(out).probabilities, strict=True)
            found = replace(found, probabilities={**found.probabilities, **dict(predicted)})
            gains = _losses(_at(pooled, found)) - _losses(found)
            if abs(gains.mean()) > _CLEAR * gains.std() / np.sqrt(len(gains)):
                break
    return found


def _only(
    source: Source, rows: Mapping[str, LabelRow], *, n_pool: int = 0, seed: int = 0
) -> Source:
    """The images of ``source`` that ``rows`` label, with these labels, and some without any."""
    others = [i for i, key in enumerate(source.keys) if key not in rows]
    rng = np.random.default_rng(derive_seed(seed, "trial pool"))
    drawn = {others[i] for i in rng.permutation(len(others))[:n_pool].tolist()}
    kept = [i for i, key in enumerate(source.keys) if key in rows or i in drawn]
    return replace(
        source,
        keys=tuple(source.keys[i] for i in kept),
        files=tuple(source.files[i] for i in kept),
        array=None if source.array is None else source.array[kept],
        label_rows=tuple(rows[source.keys[i]] for i in kept if source.keys[i] in rows),
        headers=(),
        skipped=(),
    )
