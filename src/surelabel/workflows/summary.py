"""The state of a run in plain values, which the command line prints as text or as JSON."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from surelabel.config.settings import Config
from surelabel.dataset.items import string_array
from surelabel.guarantees.advice import DEFAULT_ERROR, certify_labels_advised, checks_advised
from surelabel.guarantees.targets import parse_targets
from surelabel.runs.certification_record import CertificationRecord
from surelabel.runs.folder import RunFolder
from surelabel.selection.reasons import Reason
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.stopping import stop_reason
from surelabel.types import JsonObject, LabelSource, StopReason
from surelabel.workflows.annotators import AgreementReport, agreement_of
from surelabel.workflows.audit import AuditResult, current_audit, is_void
from surelabel.workflows.certify import (
    StandingPromise,
    standing_certification,
    standing_promise,
)
from surelabel.workflows.coverage_change import CoverageChange, coverage_change
from surelabel.workflows.first_labels import waiting_first_answers
from surelabel.workflows.looser_rules import LooserRule, looser_rules
from surelabel.workflows.net_trial import Trial
from surelabel.workflows.problem import problem_of

PREPARATION = "preparation_seconds"
"""Key in ``run.json``."""
TRIAL = "trial"
"""Key in ``run.json``: how ``auto`` decided."""


@dataclass(frozen=True)
class Summary:
    """The state of a run."""

    path: str
    n_images: int
    n_human: int
    """Images with a person's label."""
    n_copied: int
    """Exact copies of those, which get the same label."""
    n_labeled: int
    """Images that the run labeled."""
    n_left: int
    """Images left unlabeled."""
    n_skipped: int
    """Files that could not be used."""
    n_near_duplicates: int
    """Pairs of images that are nearly the same."""
    classes: tuple[str, ...]
    rounds: tuple[RoundMetrics, ...]
    stop_reason: StopReason | None
    """None if the run is not finished."""
    counts: dict[str, dict[str, int]]
    """By class, the number of images: ``human`` and ``labeled`` by label, ``left`` by guess."""
    cross_fit: bool
    """Whether held-out labels were predicted by cross-fitting."""
    held_out_is_random: bool = True
    """Whether held-out labels are known as a random sample, so that an estimate can rest on it."""
    preparation_seconds: float = 0.0
    """Time that reading, decoding and computing features took before the rounds."""
    trial: Trial | None = None
    """How ``auto`` decided between two ways of learning; None where there was no trial."""
    certification: CertificationRecord | None = None
    """What the certify labels showed about the current labels; None if they were not read."""
    promise: StandingPromise | None = None
    """What that means for all labels as they are now; None where nothing is promised of all."""
    n_waiting: int = 0
    """Of ``n_human``: first labels from the review page that no training has used yet."""
    n_suspicious: int = 0
    """Labels by people that look wrong and that nobody has looked at since."""
    audit: AuditResult | None = None
    """What people's checks show about the current labels; None without checks of these."""
    audit_is_void: bool = False
    """Whether there was an audit and the labels have changed since."""
    agreement: AgreementReport | None = None
    """How far several people agree; None if no image has labels by two of them."""
    change: CoverageChange | None = None
    """What labels or images that were added changed; None if there were none."""
    looser: tuple[LooserRule, ...] = ()
    """Where the run labeled nothing: rules that would label some images."""
    wanted_error: float = DEFAULT_ERROR
    """The share of wrong labels that advice is about: the run's target, or 2 %."""
    delta: float = 0.05
    """The probability with which a bound may fail."""

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing to do until labels or images are added."""
        return self.stop_reason is not None

    @property
    def n_to_certify(self) -> int:
        """How many certify labels can show the error that is wanted, though one is wrong."""
        n_pool = self.n_labeled + self.n_left
        return certify_labels_advised(n_pool, self.n_images, self.wanted_error, self.delta)

    @property
    def n_to_check(self) -> int:
        """How many checks of accepted labels can show that error, though one label is wrong."""
        return checks_advised(self.n_labeled, self.wanted_error, self.delta)

    @property
    def seconds(self) -> float:
        """Time that the finished rounds took."""
        return sum(r.seconds for r in self.rounds)

    @property
    def peak_memory(self) -> int | None:
        """The largest memory use of a round in bytes; None if it was not measured."""
        known = [r.learner["peak_memory"] for r in self.rounds if r.learner.get("peak_memory")]
        return max(known, default=None)

    def to_json(self) -> JsonObject:
        """Plain values for ``--json``."""
        rounds = [r.to_json() for r in self.rounds]
        trial = self.trial.to_json() if self.trial is not None else None
        plain = {**dataclasses.asdict(self), "rounds": rounds, "trial": trial}
        return {**plain, "finished": self.is_finished}


def summarize(
    folder: RunFolder, rounds: Sequence[RoundMetrics], annotations: pd.DataFrame
) -> Summary:
    """Count the labels in ``annotations``, and say whether the run is finished."""
    problem, config = problem_of(folder), folder.config
    source, label = annotations["source"], annotations["label"]
    pseudo = source == str(LabelSource.PSEUDO)
    human = source.isin([str(LabelSource.GIVEN), str(LabelSource.REVIEWED)])
    left = source == str(LabelSource.NONE)
    guess, record = annotations["guess"], standing_certification(folder)
    of_kind = {
        "human": label[human].value_counts(),
        "labeled": label[pseudo].value_counts(),
        "left": guess[left].value_counts(),
    }
    counts = {
        name: {kind: int(count.get(name, 0)) for kind, count in of_kind.items()}
        for name in problem.classes
    }
    return Summary(
        path=str(folder.path),
        n_images=len(annotations),
        n_human=int(human.sum()),
        n_copied=int((source == str(LabelSource.COPIED)).sum()),
        n_labeled=int(pseudo.sum()),
        n_left=int(left.sum()),
        n_skipped=_count_rows(folder.skipped_path),
        n_near_duplicates=_count_rows(folder.near_duplicates_path),
        classes=problem.classes,
        rounds=tuple(rounds),
        stop_reason=stop_reason(rounds, problem.inputs, config),
        counts=counts,
        cross_fit=problem.cross_fit,
        held_out_is_random=bool(folder.catalog.undivided) or not problem.cross_fit,
        preparation_seconds=float(folder.about.get(PREPARATION, 0.0)),
        trial=Trial.from_json(folder.about[TRIAL]) if TRIAL in folder.about else None,
        certification=record,
        promise=standing_promise(folder, record, int(left.sum())),
        n_waiting=_n_waiting(folder),
        n_suspicious=int((annotations["reason"] == str(Reason.SUSPICIOUS)).sum()),
        audit=current_audit(folder),
        audit_is_void=is_void(folder),
        change=coverage_change(folder, rounds),
        agreement=agreement_of(folder),
        looser=looser_rules(folder) if left.any() and not pseudo.any() else (),
        wanted_error=wanted_error(config),
        delta=(1 - config.confidence) * config.alpha_share,
    )


def wanted_error(config: Config) -> float:
    """The share of wrong labels that advice is about: the target of the run, or 2 %."""
    targets = parse_targets(config.max_error)
    return targets.dataset or targets.accepted or targets.each or DEFAULT_ERROR


def _n_waiting(folder: RunFolder) -> int:
    """First labels on disk that the catalog lacks: the next training takes them over."""
    catalog, standing = folder.catalog, folder.answers.standing()
    waiting = string_array(i for i in waiting_first_answers(folder) if i not in standing)
    rows = catalog.rows(waiting[catalog.has(waiting)])
    return int((catalog.sources[rows] == str(LabelSource.NONE)).sum())


def _count_rows(path: Path) -> int:
    if not path.exists():
        return 0
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        return max(0, sum(1 for _ in csv.reader(file)) - 1)
