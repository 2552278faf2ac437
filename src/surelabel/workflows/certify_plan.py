"""Certification by looks for a run: draw the sample, and say what the answers so far show.

Only a target for the finished dataset can be certified so, and only the labels of a finished run:
scores must not change between the answers. The statistics are in ``guarantees.certify_plan``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from surelabel.dataset.catalog import Catalog, CertifyDraw
from surelabel.dataset.sampling import open_looks, record_look
from surelabel.dataset.splits import certify_population
from surelabel.errors import InputError
from surelabel.guarantees.bounds import smallest_sample, whole_share
from surelabel.guarantees.certification import CertifySample, look_spending
from surelabel.guarantees.certify_plan import PlanStatus, plan_status
from surelabel.guarantees.targets import parse_targets
from surelabel.runs.answers import Answer, AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.stopping import stop_reason
from surelabel.types import Ids, IntArray, Split, derive_seed
from surelabel.workflows.certify import (
    certify_sample,
    is_refused_adaptation,
    n_settled,
    subject_of,
)
from surelabel.workflows.problem import problem_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class CertifyPlan:
    """The sample of a run that is certified by looks, and what is known of it."""

    draw: CertifyDraw
    ids: Ids
    """(N,) the pool that the sample was drawn from."""
    sample: CertifySample
    """With the answers that are certify labels already."""
    guess: IntArray
    """(N,) class numbers in ``classes``."""
    classes: tuple[str, ...]
    max_error: float
    delta: float
    n_labels: int
    """Of the finished dataset."""

    def status(self, answers: Mapping[str, Answer]) -> PlanStatus:
        """What is shown when people have given ``answers``, by id, besides."""
        number = {name: k for k, name in enumerate(self.classes)}
        checked, wrong = self.sample.checked.copy(), self.sample.wrong.copy()
        drawn = set(self.draw.drawn)
        for row, item_id in enumerate(self.ids.tolist()):
            answer = answers.get(item_id) if item_id in drawn else None
            if answer is None or self.sample.checked[row]:
                continue
            named = answer.kind is AnswerKind.LABEL
            checked[row] = True
            wrong[row] = not named or number.get(answer.label or "", -1) != self.guess[row]
        now = replace(self.sample, checked=checked, wrong=wrong)
        return plan_status(now, self.max_error, self.delta, n_labels=self.n_labels)


def certifies_by_looks(folder: RunFolder) -> bool:
    """Whether the run is finished, and its only target is for the finished dataset."""
    targets, last = parse_targets(folder.config.max_error), folder.last_round()
    only = targets.dataset is not None and targets.accepted is None and targets.each is None
    if last is None or not only or targets.by_class or is_refused_adaptation(last.metrics):
        return False
    rounds = [RoundMetrics.from_json(each.metrics) for each in folder.finished_rounds()]
    return stop_reason(rounds, problem_of(folder).inputs, folder.config) is not None


def open_plan(folder: RunFolder) -> CertifyPlan | None:
    """The plan that the last draw began, if it is still about this run's labels and pool."""
    last = folder.last_round()
    if last is None or not certifies_by_looks(folder):
        return None
    catalog, config = folder.catalog, folder.config
    pool_ids = problem_of(folder).pool_ids
    draw = open_looks(catalog, pool_ids, subject_of(last, config))
    if draw is None:
        return None
    population = _free(catalog, pool_ids, draw)
    pool = last.read_table(POOL_TABLE)
    covered = pool[pool["id"].isin(population)]
    classes = tuple(last.metrics["classes"])
    certify = np.array(draw.certify, dtype=np.str_)
    max_error = parse_targets(config.max_error).dataset
    assert max_error is not None
    return CertifyPlan(
        draw=draw,
        ids=covered["id"].to_numpy().astype(np.str_),
        sample=certify_sample(folder, covered, certify, classes, draw),
        guess=covered["guess"].to_numpy(),
        classes=classes,
        max_error=max_error,
        delta=(1 - config.confidence) * config.alpha_share,
        n_labels=len(covered) + n_settled(folder, pool_ids),
    )


def next_to_certify(folder: RunFolder, n: int) -> Ids:
    """The images to ask about next, the surest first.

    Draws the first look, of ``n`` images or as many as can show the target at all, or the next one
    if the last is over. A look goes on until no answer can change its outcome. The next one draws
    as many units as all before together.
    """
    with folder.lock():
        plan = open_plan(folder)
        status = None if plan is None else plan.status(_answers(folder))
        if plan is None or status is None or status.is_over:
            _draw_look(folder, None if plan is None else plan.draw, n)
    plan = open_plan(folder)
    assert plan is not None
    status = plan.status(_answers(folder))
    if status.is_over:
        raise InputError(
            f"{folder.path}: all images that could be drawn are drawn, and they show no more. "
            f"Label what is left: surelabel review {folder.path}"
        )
    return plan.ids[status.to_ask]


def certify_table(folder: RunFolder, n: int) -> pd.DataFrame:
    """``path,label,split`` of the images to label next, from the top down, to add to the run."""
    import pandas as pd

    if not certifies_by_looks(folder):
        raise InputError(
            f"{folder.path} cannot be certified step by step: that takes a finished run whose only "
            "target is for the finished dataset (--max-error 0.02). Draw all certify images at "
            "once: surelabel draw IMAGES --without labels.csv --certify 1."
        )
    ids = next_to_certify(folder, n)
    catalog = folder.catalog
    paths = catalog.paths[catalog.rows(ids)]
    return pd.DataFrame({"path": paths, "label": "", "split": str(Split.CERTIFY)})


def shuffled_units(catalog: Catalog, ids: Ids, seed: int, salt: str) -> list[list[str]]:
    """``ids`` by sampling unit, their group or themselves, in a random order.

    The position of a unit follows from the seed and its own name, so adding or removing images
    does not move the others.
    """
    units: dict[str, list[str]] = {}
    for item_id, group in zip(ids, catalog.groups[catalog.rows(ids)], strict=True):
        units.setdefault(f"group {group}" if group else f"image {item_id}", []).append(str(item_id))
    order = sorted(units, key=lambda name: derive_seed(seed, salt, name))
    return [sorted(units[name]) for name in order]


def _answers(folder: RunFolder) -> dict[str, Answer]:
    return folder.answers.standing(purpose=Purpose.CERTIFY)


def _free(catalog: Catalog, pool_ids: Ids, draw: CertifyDraw | None) -> Ids:
    """The images that may be drawn: the population without certify images of other draws."""
    population, certify = certify_population(catalog, pool_ids)
    own = () if draw is None else draw.certify
    others = np.setdiff1d(certify, np.array(own, dtype=np.str_))
    free: Ids = population[~np.isin(population, others)]
    return free


def _draw_look(folder: RunFolder, draw: CertifyDraw | None, n: int) -> None:
    """Draw units in a random order that is fixed for all looks, and record them."""
    last, catalog, seed = folder.last_round(), folder.catalog, folder.config.seed
    assert last is not None
    pool_ids = problem_of(folder).pool_ids
    free = _free(catalog, pool_ids, draw)
    earlier = [other for other in catalog.draws if other.looks and other != draw]
    order = shuffled_units(catalog, free, seed, f"certify by looks, draw {len(earlier)}")
    n = max(n, _fewest(folder, pool_ids, len(order), len(free)))
    known = set() if draw is None else set(draw.drawn)
    rest = [unit for unit in order if not known & set(unit)]
    n_drawn = len(order) - len(rest)
    chosen: list[str] = []
    for count, unit in enumerate(rest):
        if count >= n_drawn if n_drawn else len(chosen) >= n:
            break
        chosen += unit
    if not chosen:
        raise InputError(f"{folder.path} has no image left to draw for certification.")
    look = np.array(chosen, dtype=np.str_)
    subject = subject_of(last, folder.config)
    folder.replace_catalog(record_look(catalog, pool_ids, look, subject, draw))


def _fewest(folder: RunFolder, pool_ids: Ids, n_units: int, n_images: int) -> int:
    """Images that have to be drawn so that the first look shows the target if none is wrong."""
    config = folder.config
    delta = (1 - config.confidence) * config.alpha_share * float(look_spending(1)[0])
    max_error = parse_targets(config.max_error).dataset or 0.0
    n_allowed = whole_share(max_error, n_images + n_settled(folder, pool_ids))
    per_unit = n_images / max(1, n_units)
    return math.ceil(per_unit * smallest_sample(int(n_allowed / per_unit), n_units, delta))
