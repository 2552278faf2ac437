"""The labels that several people gave to the images of a run: agreement, disputes, consensus."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surelabel.config.choices import Consensus
from surelabel.dataset.items import Vote, class_order, majority, string_array
from surelabel.runs.answers import AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE
from surelabel.selection.annotators import (
    Agreement,
    agreement,
    class_alphas,
    class_counts,
    defined,
    weighted_consensus,
)
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.round import N_RUNNERS_UP
from surelabel.types import NONE_TEXT, UNLABELED, FloatArray, IntArray, Split

if TYPE_CHECKING:
    import pandas as pd

_INDEPENDENT = (Purpose.REVIEW, Purpose.FIRST, Purpose.CERTIFY, Purpose.BLIND)
"""Answers in which a person names a class. Checks of an audit are not: they judge a given one."""


@dataclass(frozen=True)
class PeopleLabels:
    """Who gave which label to which image."""

    ids: tuple[str, ...]
    people: tuple[str, ...]
    classes: tuple[str, ...]
    ratings: IntArray
    """(N, A) class numbers, -1 for none."""

    def votes(self, row: int) -> list[Vote]:
        """The labels of one image."""
        named = zip(self.people, self.ratings[row].tolist(), strict=True)
        return [Vote(who, self.classes[k]) for who, k in named if k != UNLABELED]


@dataclass(frozen=True)
class AgreementReport:
    """How far people agree, in all and by class."""

    overall: Agreement
    by_class: tuple[tuple[str, int, float | None], ...]
    """Class, number of labels, and Krippendorff's alpha of the class against the others."""
    n_open: int
    """Disputed images that nobody has settled on the review page."""


def people_labels(folder: RunFolder) -> PeopleLabels:
    """All labels that came with a person's name, in label tables and on the review page."""
    votes = {(item_id, who): label for item_id, who, label in folder.catalog.votes}
    answers = list(folder.answers.by_person(_INDEPENDENT))
    known = folder.catalog.has(string_array(answer.item_id for answer in answers))
    for answer, is_known in zip(answers, known.tolist(), strict=True):
        if is_known and answer.reviewer and answer.kind is not AnswerKind.UNSURE:
            label = NONE_TEXT if answer.kind is AnswerKind.NONE else answer.label or ""
            votes[answer.item_id, answer.reviewer] = label
    ids = tuple(sorted({item_id for item_id, _ in votes}))
    people = tuple(sorted({who for _, who in votes}))
    given = set(votes.values())
    names = [name for name in folder.catalog.classes if name in given]
    classes = (*names, *class_order(given - set(names)))
    ratings = np.full((len(ids), len(people)), UNLABELED, dtype=np.int64)
    row, column = ({name: k for k, name in enumerate(each)} for each in (ids, people))
    number = {name: k for k, name in enumerate(classes)}
    for (item_id, who), label in votes.items():
        ratings[row[item_id], column[who]] = number[label]
    return PeopleLabels(ids, people, classes, ratings)


def agreement_of(folder: RunFolder) -> AgreementReport | None:
    """How far people agree; None if no image has labels by two of them."""
    labels = people_labels(folder)
    overall = agreement(labels.ratings, len(labels.classes))
    if not overall.n_images:
        return None
    several = labels.ratings[(labels.ratings != UNLABELED).sum(axis=1) >= 2]
    counts = class_counts(several, len(labels.classes)).sum(axis=0)
    alphas = class_alphas(labels.ratings, len(labels.classes))
    by_class = tuple(
        (name, count, defined(alpha))
        for name, count, alpha in zip(labels.classes, counts.tolist(), alphas.tolist(), strict=True)
        if count
    )
    return AgreementReport(overall, by_class, len(disputed_ids(folder, labels)))


def disputed_ids(folder: RunFolder, labels: PeopleLabels | None = None) -> list[str]:
    """Images whose labels differ and that no review answer settles: the most contested first."""
    known = people_labels(folder) if labels is None else labels
    settled = {
        i for i, a in folder.answers.standing().items() if a.kind is not AnswerKind.UNSURE
    } | set(folder.catalog.ids[folder.catalog.splits == Split.CERTIFY].tolist())
    shares = {}
    for row, item_id in enumerate(known.ids):
        counts = Counter(vote.label for vote in known.votes(row))
        if len(counts) > 1 and item_id not in settled:
            shares[item_id] = max(counts.values()) / counts.total()
    return sorted(shares, key=lambda item_id: (shares[item_id], item_id))


def consensus_table(folder: RunFolder, rule: Consensus) -> pd.DataFrame:
    """One row per image with labels by several people: the consensus, and who said what.

    Certify images are left out: their labels are for the certification alone.
    """
    import pandas as pd

    labels = people_labels(folder)
    certify = set(folder.catalog.ids[folder.catalog.splits == Split.CERTIFY].tolist())
    rows = [
        row
        for row, item_id in enumerate(labels.ids)
        if len(labels.votes(row)) > 1 and item_id not in certify
    ]
    ids = [labels.ids[row] for row in rows]
    votes = [labels.votes(row) for row in rows]
    if rule is Consensus.MAJORITY or not rows:
        chosen = [majority(each) for each in votes]
        share = [max(Counter(v.label for v in each).values()) / len(each) for each in votes]
        sure: FloatArray = np.array(share, dtype=np.float64)
    else:
        best, sure = weighted_consensus(labels.ratings[rows], _beliefs(folder, ids, labels.classes))
        chosen = [labels.classes[k] for k in best.tolist()]
    paths = dict(zip(folder.catalog.ids.tolist(), folder.catalog.paths.tolist(), strict=True))
    return pd.DataFrame(
        {
            "id": ids,
            "path": [paths[item_id] for item_id in ids],
            "label": chosen,
            "probability" if rule is Consensus.WEIGHTED else "share": sure,
            "disputed": [len({vote.label for vote in each}) > 1 for each in votes],
            "labels": ["; ".join(f"{v.annotator}: {v.label}" for v in each) for each in votes],
        }
    ).sort_values(["disputed", "id"], ascending=[False, True], ignore_index=True)


def _beliefs(folder: RunFolder, ids: list[str], classes: tuple[str, ...]) -> FloatArray:
    """(N, K) what the last round thinks of the images, without having learned their labels.

    Of an image that it was trained on it says nothing: all classes alike.
    """
    beliefs = np.full((len(ids), len(classes)), 1 / len(classes))
    last = folder.last_round()
    if last is None:
        return beliefs
    names = RoundMetrics.from_json(last.metrics).classes
    number = {name: k for k, name in enumerate(classes)}
    wanted = {item_id: row for row, item_id in enumerate(ids)}
    places = ["", *(f"_{place}" for place in range(2, N_RUNNERS_UP + 2))]
    for table in (last.read_table(POOL_TABLE), last.read_table(HELD_OUT_TABLE)):
        for row in table[table["id"].isin(ids)].to_dict("records"):
            known = {
                number[names[int(row[f"guess{p}"])]]: float(row[f"probability{p}"])
                for p in places
                if int(row[f"guess{p}"]) != UNLABELED and names[int(row[f"guess{p}"])] in number
            }
            rest = max(0.0, 1 - sum(known.values())) / max(1, len(classes) - len(known))
            beliefs[wanted[str(row["id"])]] = [known.get(k, rest) for k in range(len(classes))]
    return beliefs
