"""An audit: people check accepted labels in one random order, and a bound holds at every moment.

It needs no certify labels and no trust in the model: the accepted labels are frozen, and which of
them are checked is decided by a seeded permutation of all of them. Why the bound may be looked at
after every check: ``surelabel.accept.sequence``.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from surelabel.errors import InputError, LabelsError, RunError
from surelabel.guarantees.confidence_sequence import most_wrong_any_time
from surelabel.runs.answers import AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE
from surelabel.types import BoolArray, Ids, LabelSource, derive_seed
from surelabel.workflows.certify import apply_certification, standing_certification

_RIGHT = frozenset({"right", "correct", "yes", "y", "true", "1", "ok", "x"})


@dataclass(frozen=True)
class Audit:
    """One audit, as kept in ``audits.json``."""

    digest: str
    """Of the accepted labels: the audit is about these and void when they change."""
    seed: int
    answers_upto: int
    """The last answer that people had given in review when it began."""
    confidence: float
    checks: Mapping[str, bool] = field(default_factory=dict)
    """By id: whether a person found the label right."""


@dataclass(frozen=True)
class Checked:
    """What the checks say of some accepted labels."""

    n_accepted: int
    n_checked: int
    n_wrong: int
    """Found wrong, or passed over."""
    at_most: int
    """At most so many of all accepted are wrong."""

    @property
    def error(self) -> float:
        """The same as a share; 1 where nothing is accepted."""
        return self.at_most / self.n_accepted if self.n_accepted else 1.0


@dataclass(frozen=True)
class AuditResult:
    """Where an audit stands."""

    confidence: float
    all: Checked
    by_class: dict[str, Checked]
    """By accepted label, all of them together at the confidence."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)


def checks_table(folder: RunFolder, n: int) -> pd.DataFrame:
    """``path,label,source,answer`` of the first n accepted labels of the audit's order, to fill in.

    Begins an audit, or goes on with one that is about the same labels; ``attrs["began"]`` says
    which. Answers given before are filled in, as far as the audit has come: one from an earlier
    audit would end up anywhere in the order, and all before it would count as passed over. The
    column ``source`` says that the labels are the machine's.
    """
    audit, accepted, began = _begun(folder)
    order = _order(audit, accepted)
    done = set(order[: _n_checked(folder, audit, order)].tolist())
    order = order[: max(1, n)]
    checks = {i: yes for i, yes in _checks(folder, audit, accepted).items() if i in done}
    catalog = folder.catalog
    known = {True: "right", False: "wrong"}
    table = pd.DataFrame(
        {
            "path": catalog.paths[catalog.rows(order)],
            "label": [accepted[item] for item in order.tolist()],
            "source": str(LabelSource.PSEUDO),
            "answer": [known[checks[i]] if i in checks else "" for i in order.tolist()],
        }
    )
    table.attrs["began"] = began
    return table


def ids_to_check(folder: RunFolder, n: int) -> Ids:
    """The first n accepted images of the audit's order, for the review page; begins an audit."""
    audit, accepted, _ = _begun(folder)
    return _order(audit, accepted)[: max(1, n)]


def take_answers(folder: RunFolder, answers: Path) -> AuditResult:
    """Bring the filled-in table ``answers`` into the audit and say where it stands.

    ``answer`` is ``right``, ``wrong`` or the true class. Anything else counts as wrong, and so
    does an image that was passed over before one with an answer.
    """
    table = _read(answers)
    with folder.lock():
        _, accepted, _ = _current(folder, begin=False)
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
    """Add people's checks, by id, to the audit that is under way; the caller holds the lock."""
    audits = folder.read_audits()
    audits[-1] = {**audits[-1], "checks": {**audits[-1]["checks"], **checks}}
    folder.write_audits(audits)


def audit_result(folder: RunFolder) -> AuditResult:
    """What the checks so far say about the accepted labels."""
    audit, accepted, _ = _current(folder, begin=False)
    order = _order(audit, accepted)
    checks = _checks(folder, audit, accepted)
    n_checked = _n_checked(folder, audit, order)
    wrong = np.array([not checks.get(i, False) for i in order[:n_checked].tolist()], bool)
    delta = 1 - audit.confidence
    labels = np.array([accepted[item] for item in order.tolist()], dtype=object)
    names = sorted(set(labels.tolist()))
    return AuditResult(
        audit.confidence,
        _checked(len(order), wrong, delta),
        {
            name: _checked(
                int((labels == name).sum()), wrong[labels[:n_checked] == name], delta / len(names)
            )
            for name in names
        },
    )


def is_right(answer: str, label: str, classes: set[str]) -> bool:
    """Whether ``answer`` confirms ``label``; the name of a class, in any case, means that class."""
    text = answer.strip()
    if text in classes or text == label:
        return text == label
    if text.casefold() in {name.casefold() for name in classes}:
        return text.casefold() == label.casefold()
    return text.casefold() in _RIGHT


def _checked(n_all: int, wrong: BoolArray, delta: float) -> Checked:
    bounds = most_wrong_any_time(n_all, wrong, delta)
    at_most = int(bounds[-1]) if len(bounds) else n_all
    return Checked(n_all, len(wrong), int(wrong.sum()), at_most)


def _begun(folder: RunFolder) -> tuple[Audit, dict[str, str], bool]:
    """The audit of the labels as they are, written down; these labels; whether it is new."""
    with folder.lock():
        audit, accepted, began = _current(folder, begin=True)
        if began:
            folder.write_audits([*folder.read_audits(), dataclasses.asdict(audit)])
    return audit, accepted, began


def _checks(folder: RunFolder, audit: Audit, accepted: dict[str, str]) -> dict[str, bool]:
    """By id, whether the label was found right: by answers on the review page, and by tables."""
    answers = folder.answers.standing(purpose=Purpose.AUDIT)
    on_page = {
        item: answer.kind is AnswerKind.LABEL and answer.label == accepted[item]
        for item, answer in answers.items()
        if item in accepted
    }
    return {**on_page, **audit.checks}


def _n_checked(folder: RunFolder, audit: Audit, order: Ids) -> int:
    """How far along its order the audit is: to the last image that was checked for it.

    An answer on the page from before the audit tells the class of its image still, but where it
    stands in this order is chance.
    """
    answers = folder.answers.standing(purpose=Purpose.AUDIT)
    late = {item for item, answer in answers.items() if answer.seq > audit.answers_upto}
    there = [item in late or item in audit.checks for item in order.tolist()]
    return int(np.flatnonzero(there).max(initial=-1)) + 1


def _current(folder: RunFolder, *, begin: bool) -> tuple[Audit, dict[str, str], bool]:
    """The audit of the labels as they are, these labels by id, and whether it is a new one."""
    audits = folder.read_audits()
    if audits:
        audit = Audit(**audits[-1])
        accepted = _accepted(folder, audit.answers_upto)
        if _digest(accepted) == audit.digest:
            return audit, accepted, False
    if not begin:
        raise RunError(
            f"{folder.path}: the labels are not those of the audit any more, so it is void. "
            f"surelabel audit {folder.path} --checks 300 begins a new one."
            if audits
            else f"{folder.path} has no audit yet: call surelabel audit {folder.path} --checks 300."
        )
    upto = folder.answers.last_seq()
    accepted = _accepted(folder, upto)
    if not len(accepted):
        raise InputError(f"{folder.path} has no accepted label to check.")
    config = folder.config
    return Audit(_digest(accepted), config.seed, upto, config.confidence), accepted, True


def _accepted(folder: RunFolder, upto: int) -> dict[str, str]:
    """The labels that the machine gave, by id, without those that people reviewed before."""
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
    if not {"path", "answer"} <= set(table.columns):
        raise LabelsError(
            f"{path} has the columns {', '.join(table.columns)}; path and answer are needed."
        )
    return table
