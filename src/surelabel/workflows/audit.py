"""An audit: people check accepted labels in a random order, and the bound holds after every check.

It needs no certify labels and no assumption about the model: the accepted labels are frozen, and a
seeded permutation of all of them decides which are checked. ``guarantees.confidence_sequence``
explains why the bound may be read after every check.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from surelabel.errors import InputError, LabelsError, RunError
from surelabel.files.spreadsheet import unguard
from surelabel.guarantees.advice import DEFAULT_ERROR, right_checks_to_go
from surelabel.guarantees.bounds import whole_share
from surelabel.guarantees.confidence_sequence import anytime_upper_bound
from surelabel.guarantees.targets import parse_targets
from surelabel.runs.answers import AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE
from surelabel.types import BoolArray, Ids, JsonObject, LabelSource, derive_seed
from surelabel.workflows.certify import apply_certification, standing_certification

_RIGHT = frozenset({"right", "correct", "yes", "y", "true", "1", "ok", "x"})


@dataclass(frozen=True)
class Audit:
    """One audit, as kept in ``audits.json``."""

    digest: str
    """Digest of the accepted labels; the audit is void when they change."""
    seed: int
    answers_upto: int
    """The number of the last review answer when the audit began."""
    confidence: float
    checks: Mapping[str, bool] = field(default_factory=dict)
    """By id: whether the label is right, from tables of answers."""


@dataclass(frozen=True)
class AuditBound:
    """What the checks show about a set of accepted labels."""

    n_accepted: int
    n_checked: int
    n_wrong: int
    """Wrong labels among the checked ones; a label that was skipped counts as wrong."""
    at_most: int
    """The upper bound on the number of accepted labels that are wrong."""

    @property
    def error(self) -> float:
        """The bound as a share of the accepted labels; 1 where none is accepted."""
        return self.at_most / self.n_accepted if self.n_accepted else 1.0


@dataclass(frozen=True)
class AuditResult:
    """The state of an audit."""

    confidence: float
    all: AuditBound
    by_class: dict[str, AuditBound]
    """By accepted label; all these bounds hold together at the confidence."""
    n_dataset: int = 0
    """Labels of the finished dataset: accepted ones, those of people, and what is left to them."""
    n_left: int = 0
    """Images that people have not labeled yet."""
    max_error: float = DEFAULT_ERROR
    """The share of wrong labels that the finished dataset may have: the run's target, or 2 %."""
    n_more: int = 0
    """Further checks, all right, that show it; 0 if it is shown, -1 if it cannot be any more."""

    @property
    def dataset_error(self) -> float:
        """The bound as a share of the finished dataset, in which labels of people are right."""
        return self.all.at_most / self.n_dataset if self.n_dataset else 1.0

    def to_json(self) -> JsonObject:
        """Plain values."""
        return dataclasses.asdict(self)


def checks_table(folder: RunFolder, n: int) -> pd.DataFrame:
    """``path,label,source,answer`` of the first n accepted labels in the audit's order, to fill in.

    Begins an audit, or continues the one about the same labels; ``attrs["began"]`` tells which.
    Answers are filled in up to where the audit has come. One from an earlier audit could stand
    anywhere in this order, and everything before it would count as skipped. The column ``source``
    marks the labels as pseudo-labels.
    """
    audit, accepted, began = _continue_or_begin(folder)
    order = _order(audit, accepted)
    done = set(order[: _n_checked(folder, audit, order)].tolist())
    order = order[: max(1, n)]
    checks = {i: right for i, right in _checks(folder, audit, accepted).items() if i in done}
    catalog = folder.catalog
    text_of = {True: "right", False: "wrong"}
    table = pd.DataFrame(
        {
            "path": catalog.paths[catalog.rows(order)],
            "label": [accepted[item] for item in order.tolist()],
            "source": str(LabelSource.PSEUDO),
            "answer": [text_of[checks[i]] if i in checks else "" for i in order.tolist()],
        }
    )
    table.attrs["began"] = began
    return table


def ids_to_check(folder: RunFolder, n: int) -> Ids:
    """The first n accepted images in the audit's order, for the review page.

    Begins an audit, or continues the one about the same labels.
    """
    audit, accepted, _ = _continue_or_begin(folder)
    return _order(audit, accepted)[: max(1, n)]


def take_answers(folder: RunFolder, answers: Path) -> AuditResult:
    """Add the filled-in table ``answers`` to the audit and return its state.

    ``answer`` is ``right``, ``wrong`` or the true class. Anything else counts as wrong, and so
    does an image that was skipped before one with an answer.
    """
    table = _read(answers)
    with folder.lock():
        _, accepted = _require_current(folder)
        by_path = _ids_by_path(folder, accepted)
        last = folder.last_round()
        named = last.metrics["classes"] if last else ()
        classes = {*accepted.values(), *folder.catalog.classes, *named}
        checks = {}
        for row, (path, text) in enumerate(zip(table["path"], table["answer"], strict=True), 2):
            if not text.strip():
                continue
            if path not in by_path:
                raise LabelsError(
                    f"{answers}, row {row}: '{path}' is not among the accepted labels of "
                    f"{folder.path}. Fill in the table that surelabel audit --checks wrote."
                )
            item = by_path[path]
            checks[item] = is_right(text, accepted[item], classes)
        if not checks:
            raise LabelsError(f"{answers} has no answer yet: fill in the column 'answer'.")
        record_checks(folder, checks)
    return audit_result(folder)


def record_checks(folder: RunFolder, checks: Mapping[str, bool]) -> None:
    """Add people's checks, by id, to the current audit; the caller holds the lock."""
    audits = folder.read_audits()
    audits[-1] = {**audits[-1], "checks": {**audits[-1]["checks"], **checks}}
    folder.write_audits(audits)


def audit_result(folder: RunFolder) -> AuditResult:
    """What the checks so far show about the accepted labels."""
    audit, accepted = _require_current(folder)
    order = _order(audit, accepted)
    checks = _checks(folder, audit, accepted)
    n_checked = _n_checked(folder, audit, order)
    wrong = np.array([not checks.get(i, False) for i in order[:n_checked].tolist()], bool)
    delta = 1 - audit.confidence
    labels = np.array([accepted[item] for item in order.tolist()], dtype=object)
    names = sorted(set(labels.tolist()))
    max_error = parse_targets(folder.config.max_error).dataset or DEFAULT_ERROR
    allowed = whole_share(max_error, len(folder.catalog))
    return AuditResult(
        audit.confidence,
        _bound(len(order), wrong, delta),
        {
            name: _bound(
                int((labels == name).sum()), wrong[labels[:n_checked] == name], delta / len(names)
            )
            for name in names
        },
        n_dataset=len(folder.catalog),
        n_left=_n_left(folder, len(order)),
        max_error=max_error,
        n_more=right_checks_to_go(len(order), wrong, allowed, delta),
    )


def current_audit(folder: RunFolder) -> AuditResult | None:
    """What people's checks show about the current labels; None if nobody has checked any."""
    if _current(folder) is None:
        return None
    result = audit_result(folder)
    return result if result.all.n_checked else None


def is_void(folder: RunFolder) -> bool:
    """Whether people checked labels that have changed since, so that their checks show nothing."""
    audits = folder.read_audits()
    if not audits or _current(folder) is not None:
        return False
    last = Audit(**audits[-1])
    answers = folder.answers.standing(purpose=Purpose.AUDIT).values()
    return bool(last.checks) or any(answer.seq > last.answers_upto for answer in answers)


def _n_left(folder: RunFolder, n_accepted: int) -> int:
    """Images without a label of people, which the run did not accept."""
    catalog = folder.catalog
    nobody = set(catalog.ids[catalog.sources == str(LabelSource.NONE)].tolist())
    settled = {
        item
        for item, answer in folder.answers.standing().items()
        if answer.kind is not AnswerKind.UNSURE
    }
    return max(0, len(nobody - settled) - n_accepted)


def is_right(answer: str, label: str, classes: set[str]) -> bool:
    """Whether ``answer`` confirms ``label``; the name of a class, in any case, means that class."""
    text = answer.strip()
    if text in classes or text == label:
        return text == label
    if text.casefold() in {name.casefold() for name in classes}:
        return text.casefold() == label.casefold()
    return text.casefold() in _RIGHT


def _bound(n_all: int, wrong: BoolArray, delta: float) -> AuditBound:
    bounds = anytime_upper_bound(n_all, wrong, delta)
    at_most = int(bounds[-1]) if len(bounds) else n_all
    return AuditBound(n_all, len(wrong), int(wrong.sum()), at_most)


def _continue_or_begin(folder: RunFolder) -> tuple[Audit, dict[str, str], bool]:
    """The audit of the current labels, those labels by id, and whether the audit is new."""
    with folder.lock():
        current = _current(folder)
        if current:
            return *current, False
        last_answer = folder.answers.last_seq()
        accepted = _accepted(folder, last_answer)
        if not accepted:
            raise InputError(f"{folder.path} has no accepted label to check.")
        config = folder.config
        audit = Audit(_digest(accepted), config.seed, last_answer, config.confidence)
        folder.write_audits([*folder.read_audits(), dataclasses.asdict(audit)])
    return audit, accepted, True


def _require_current(folder: RunFolder) -> tuple[Audit, dict[str, str]]:
    """The audit of the current labels, and those labels by id; ``RunError`` without one."""
    current = _current(folder)
    if current:
        return current
    raise RunError(
        f"{folder.path}: the labels have changed since the audit, so its checks no longer count. "
        f"surelabel audit {shlex.quote(str(folder.path))} --checks N begins a new one."
        if folder.read_audits()
        else f"{folder.path} has no audit yet: surelabel audit {shlex.quote(str(folder.path))} "
        "--checks N begins one."
    )


def _current(folder: RunFolder) -> tuple[Audit, dict[str, str]] | None:
    """The last audit and the accepted labels by id, if it is about the current labels."""
    audits = folder.read_audits()
    if not audits:
        return None
    audit = Audit(**audits[-1])
    accepted = _accepted(folder, audit.answers_upto)
    return (audit, accepted) if _digest(accepted) == audit.digest else None


def _checks(folder: RunFolder, audit: Audit, accepted: dict[str, str]) -> dict[str, bool]:
    """By id, whether the label is right, from answers on the review page and from tables."""
    answers = folder.answers.standing(purpose=Purpose.AUDIT)
    on_page = {
        item: answer.kind is AnswerKind.LABEL and answer.label == accepted[item]
        for item, answer in answers.items()
        if item in accepted
    }
    return {**on_page, **audit.checks}


def _n_checked(folder: RunFolder, audit: Audit, order: Ids) -> int:
    """How far along its order the audit has come: up to the last image that was checked for it.

    Page answers from before the audit do not count here. They still tell the class of their image,
    but where they stand in this order is chance.
    """
    answers = folder.answers.standing(purpose=Purpose.AUDIT)
    recent = {item for item, answer in answers.items() if answer.seq > audit.answers_upto}
    checked = [item in recent or item in audit.checks for item in order.tolist()]
    return int(np.flatnonzero(checked).max(initial=-1)) + 1


def _accepted(folder: RunFolder, upto: int) -> dict[str, str]:
    """The pseudo-labels of the run by id, without images that people reviewed before."""
    last = folder.last_round()
    if last is None:
        return {}
    classes = np.array(last.metrics["classes"], dtype=object)
    pool = apply_certification(
        last.read_table(POOL_TABLE), standing_certification(folder), last.metrics["classes"]
    )
    catalog = folder.catalog
    free = set(catalog.ids[catalog.sources == str(LabelSource.NONE)].tolist())
    free -= set(folder.answers.standing(upto))
    pool = pool[pool["accepted"] & pool["id"].isin(free)].sort_values("id")
    names = classes[pool["label"].to_numpy()].tolist()
    return dict(zip(pool["id"].tolist(), names, strict=True))


def _digest(accepted: dict[str, str]) -> str:
    text = "\n".join(f"{item}={label}" for item, label in accepted.items())
    return hashlib.sha256(text.encode()).hexdigest()


def _order(audit: Audit, accepted: dict[str, str]) -> Ids:
    ids = np.array(list(accepted), dtype=np.str_)
    rng = np.random.default_rng(derive_seed(audit.seed, "audit", audit.digest))
    order: Ids = ids[rng.permutation(len(ids))]
    return order


def _ids_by_path(folder: RunFolder, accepted: dict[str, str]) -> dict[str, str]:
    catalog = folder.catalog
    ids = np.array(list(accepted), dtype=np.str_)
    return dict(zip(catalog.paths[catalog.rows(ids)].tolist(), ids.tolist(), strict=True))


def _read(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(
            path, sep=None, engine="python", dtype=str, keep_default_na=False, encoding="utf-8-sig"
        )
    except FileNotFoundError:
        raise LabelsError(f"{path}: there is no such file of answers.") from None
    except (OSError, ValueError, pd.errors.ParserError) as error:
        raise LabelsError(f"{path} cannot be read as a table: {error}.") from None
    table = table.map(lambda cell: unguard(cell) if isinstance(cell, str) else cell)
    if not {"path", "answer"} <= set(table.columns):
        raise LabelsError(
            f"{path} has the columns {', '.join(table.columns)}; path and answer are needed."
        )
    return table
