"""How many answers of people a finished dataset still takes, by what they do next."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from surelabel.guarantees.advice import DEFAULT_ERROR
from surelabel.guarantees.forecast import Outlook, dataset_test, forecast
from surelabel.guarantees.targets import Scope, parse_targets
from surelabel.runs.answers import Answer, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE
from surelabel.types import BoolArray, FloatArray, JsonObject, LabelSource, derive_seed
from surelabel.workflows.certify import n_settled, standing_certification
from surelabel.workflows.forecast import SIZES, best_outlook
from surelabel.workflows.label import annotations_of
from surelabel.workflows.problem import problem_of

_BREAK_SECONDS = 60.0
_MIN_INTERVALS = 10
_FINISH = "label what is left"
_CERTIFY = "certify, then label what is left"
_MORE = "label the {n:,} least sure and train again, certify, then label what is left"
_LITTLE_LEFT = 1 / 20
"""Of all images: where certifying now leaves no more to people, training again gains little."""
_BY_HAND = "label everything by hand"


@dataclass(frozen=True)
class EffortPlan:
    """One way to finish the dataset."""

    name: str
    n_answers: int
    """Answers that it still takes."""
    n_certify: int = 0
    """Of these, answers that certify."""
    most: int = 0
    """Answers if the forecast is far too good: one in a hundred takes more."""
    is_promised: bool = True
    """Whether the finished dataset is then shown to keep the target."""
    is_guess: bool = False
    """Whether the number rests on the rule of thumb that errors fall with the root of labels."""


@dataclass(frozen=True)
class Effort:
    """What people have done for a run, and what is left to do."""

    n_answered: int
    """Images with a label by people."""
    n_checked: int
    """Accepted labels that people checked besides, in audits and blind checks."""
    max_error: float
    """The share of wrong labels that the finished dataset may have."""
    confidence: float
    seconds_per_answer: float
    is_measured: bool
    """Whether that is the pace of the answers on the page; otherwise it was assumed."""
    plans: tuple[EffortPlan, ...]
    """Ways to finish, the one with the fewest answers first."""

    def minutes(self, n_answers: int) -> float:
        """How long people need for that many answers."""
        return n_answers * self.seconds_per_answer / 60

    def to_json(self) -> JsonObject:
        """Plain values."""
        return dataclasses.asdict(self)


def effort_of(folder: RunFolder, label_seconds: float) -> Effort:
    """Human effort so far, and by strategy what a finished dataset that keeps the target takes.

    The target is that of the run for the finished dataset, or 2 %. Numbers are a forecast from
    held-out labels; certify labels are not read. ``label_seconds`` is used where there are too few
    answers on the page to measure the pace.
    """
    config, annotations = folder.config, annotations_of(folder)
    target = parse_targets(config.max_error).dataset
    by_people = [str(LabelSource.GIVEN), str(LabelSource.REVIEWED)]
    n_left = int((annotations["source"] == str(LabelSource.NONE)).sum())
    answers = [
        answer
        for purpose in Purpose
        for answer in folder.answers.standing(purpose=purpose).values()
    ]
    pace = seconds_per_answer(answers)
    record, by_run = standing_certification(folder), LabelSource.PSEUDO
    is_shown = record is not None and any(
        part.holds and part.scope == Scope.DATASET and part.error <= (target or DEFAULT_ERROR)
        for part in record.parts
    )
    n_by_hand = n_left + int((annotations["source"] == str(by_run)).sum())
    plans = [EffortPlan(_BY_HAND, n_by_hand, most=n_by_hand)]
    if is_shown or not n_left:
        plans.append(EffortPlan(_FINISH, n_left, most=n_left, is_promised=is_shown))
    if not is_shown:
        plans += _plans(folder, target or DEFAULT_ERROR)
    return Effort(
        n_answered=int(annotations["source"].isin(by_people).sum()),
        n_checked=sum(a.purpose in (Purpose.AUDIT, Purpose.BLIND) for a in answers),
        max_error=target or DEFAULT_ERROR,
        confidence=config.confidence,
        seconds_per_answer=label_seconds if pace is None else pace,
        is_measured=pace is not None,
        plans=tuple(sorted(plans, key=lambda plan: plan.n_answers)),
    )


def seconds_per_answer(answers: Sequence[Answer]) -> float | None:
    """The median time between answers of one person, without breaks; None with too few."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for answer in answers:
        times[answer.reviewer].append(datetime.fromisoformat(answer.at).timestamp())
    pauses = [np.diff(np.sort(each)) for each in times.values()]
    intervals = np.concatenate([np.empty(0), *pauses])
    intervals = intervals[intervals < _BREAK_SECONDS]
    return float(np.median(intervals)) if len(intervals) >= _MIN_INTERVALS else None


def _plans(folder: RunFolder, max_error: float) -> list[EffortPlan]:
    """Certify now; or label some of what would be left, the least sure first, train and certify.

    Those answers are needed anyway, and what the run learns from them comes on top. How much that
    is, is not known before: errors are taken to fall with the square root of the labels, to half
    of them at best.
    """
    last = folder.last_round()
    if last is None:
        return []
    problem, held_out = problem_of(folder), last.read_table(HELD_OUT_TABLE)
    n_pool = len(problem.pool_ids)
    scores = held_out["score"].to_numpy(dtype=float)
    scores = np.where(held_out["outlier"].to_numpy(dtype=bool), np.inf, scores)
    correct = held_out["correct"].to_numpy(dtype=bool)
    settled = n_settled(folder, problem.pool_ids)
    now = _certify_plan(folder, scores, correct, n_pool, settled, max_error)
    if now is None:
        return []
    n_more = (now.n_answers - now.n_certify) // 2
    if 2 * n_more <= _LITTLE_LEFT * len(folder.catalog):
        return [now]
    n_labels = max(1, len(problem.human_ids) + len(problem.tune_ids))
    rng = np.random.default_rng(derive_seed(folder.config.seed, "effort"))
    still_wrong = max(0.5, np.sqrt(n_labels / (n_labels + n_more)))
    mended = correct | (rng.random(len(correct)) > still_wrong)
    kept = np.argsort(scores, kind="stable")[: round(len(scores) * (1 - n_more / n_pool))]
    later = _certify_plan(
        folder, scores[kept], mended[kept], n_pool - n_more, settled + n_more, max_error
    )
    if later is None:
        return [now]
    more = dataclasses.replace(
        later,
        name=_MORE.format(n=n_more),
        n_answers=later.n_answers + n_more,
        most=now.most,
        is_guess=True,
    )
    return [now, more]


def _certify_plan(
    folder: RunFolder,
    scores: FloatArray,
    correct: BoolArray,
    n_pool: int,
    n_settled: int,
    max_error: float,
) -> EffortPlan | None:
    """Certify with the best sample size, then label what is left."""
    config = folder.config
    delta = (1 - config.confidence) * config.alpha_share
    outlooks: list[Outlook] = forecast(
        scores,
        correct,
        n_pool=n_pool,
        sizes=SIZES,
        certify=dataset_test(max_error, delta, n_settled / max(1, n_pool)),
        rng=np.random.default_rng(derive_seed(config.seed, "forecast")),
    )
    if not outlooks:
        return None
    best = best_outlook(outlooks)
    certify = round(best.n_surest)
    most = min(n_pool, round(n_pool * (1 - best.low)) + best.n_certify)
    return EffortPlan(_CERTIFY, certify + round(best.n_left), n_certify=certify, most=most)
