"""The labels of a dataset that is adapted to, in their three parts, and the second facet.

- fit: name clusters, and train net 1;
- decide: choose the number of clusters and the removals;
- report: the tune split. Nothing above sees them; they set the threshold and compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.errors import LabelsError, RunError, TooFewLabelsError
from surelabel.runs.answers import AnswerKind
from surelabel.runs.folder import RunFolder
from surelabel.types import UNLABELED, Ids, LabelSource, Split
from surelabel.workflows.label import Listeners, train

REPORT_SHARE = 0.4
"""Of each class's labels; the rest is halved to fit and to decide."""
_LEAST_REPORT = 20


@dataclass(frozen=True)
class Parts:
    """Ids of the labeled images by what they are for."""

    fit: Ids
    decide: Ids
    report: Ids


def divide(catalog: Catalog, seed: int) -> Parts:
    """The train labels halved, class by class and no group divided; tune labels report."""
    from surelabel.engines.member_training import fold_of

    train_ids, report = catalog.in_split(Split.TRAIN), catalog.in_split(Split.TUNE)
    if catalog.cross_fit or len(report) < _LEAST_REPORT:
        raise TooFewLabelsError(
            f"{len(train_ids) + len(report)} labels are too few to adapt with: a part of them has "
            "to be held out to tell whether it helps. Give 100 or more, or tell which to hold out "
            f"in a column split (tune, {_LEAST_REPORT} at least)."
        )
    labels = catalog.labels_of(train_ids)
    folds = fold_of(labels, catalog.units(train_ids), 2, seed)
    for k, name in enumerate(catalog.classes):
        n_fit, n_decide = (int(((labels == k) & (folds == f)).sum()) for f in (0, 1))
        if n_fit < 2 or not n_decide:
            raise TooFewLabelsError(
                f"Of the labels of '{name}', {n_fit} are left to name clusters and {n_decide} to "
                "choose among them; 2 and 1 are needed. Label some more images of it."
            )
    return Parts(train_ids[folds == 0], train_ids[folds == 1], report)


def check_classes(catalog: Catalog, known: tuple[str, ...], run: Path) -> None:
    """Refuse classes that the run to adapt from has never seen."""
    new = [name for name in catalog.classes if name not in known]
    if new:
        raise LabelsError(
            f"The labels have the class '{new[0]}', which {run} does not know (it knows "
            f"{', '.join(known[:8])}): adaptation is between datasets of the same classes. "
            "Use surelabel label for new ones."
        )


def hide_from_report(catalog: Catalog, runs: Sequence[RunFolder]) -> Catalog:
    """``catalog`` without report labels of images that a run has learned labels of.

    What a group or equal bytes tie to such an image goes with it. Certify images cannot be moved:
    without the ones that were seen the others would be no random part of the pool.
    """
    seen = np.zeros(len(catalog), dtype=bool)
    for run in runs:
        seen |= np.isin(catalog.digests, _digests_learned(run))
    units = catalog.units(catalog.ids)
    seen = np.isin(units, units[seen])
    named = " and ".join(str(run.path) for run in runs)
    n_certify = int((seen & (catalog.splits == Split.CERTIFY)).sum())
    if n_certify:
        raise LabelsError(
            f"{named} learned labels of {n_certify} of the certify images (or of images of their "
            "groups), so these cannot show how good the adapted labels are. Draw certify labels "
            "among images that no net has learned from."
        )
    report = catalog.splits == Split.TUNE
    moved, left = seen & report, int((report & ~seen).sum())
    if moved.any() and left < _LEAST_REPORT:
        raise TooFewLabelsError(
            f"{named} learned so many of these labels that {left} are left to tell whether "
            f"adaptation helps, and {_LEAST_REPORT} are needed. Give labels of other images, or "
            "leave out --run1 if that is the run."
        )
    return replace(catalog, splits=np.where(moved, str(Split.TRAIN), catalog.splits))


def _digests_learned(run: RunFolder) -> Ids:
    """Of the images whose labels by people the run was trained or tuned on."""
    catalog = run.catalog
    given = (catalog.labels != UNLABELED) & np.isin(catalog.splits, [Split.TRAIN, Split.TUNE])
    answers = run.answers.standing()
    answered = [i for i, answer in answers.items() if answer.kind is AnswerKind.LABEL]
    given |= np.isin(catalog.ids, np.array(answered, dtype=np.str_))
    found: Ids = catalog.digests[given]
    return found


def one_a_unit(catalog: Catalog, ids: Ids) -> Ids:
    """The first image of each group and of equal bytes: the others would count it again."""
    _, first = np.unique(catalog.units(ids), return_index=True)
    return ids[np.sort(first)]


def facet_catalog(catalog: Catalog, fit: Ids) -> Catalog:
    """``catalog`` as if nobody had labeled anything but ``fit``."""
    chosen = np.isin(catalog.ids, fit)
    copies = (catalog.sources == LabelSource.COPIED) & np.isin(
        catalog.digests, catalog.digests[chosen]
    )
    shown = chosen | copies
    return replace(
        catalog,
        labels=np.where(shown, catalog.labels, UNLABELED),
        sources=np.where(shown, catalog.sources, ""),
        splits=np.where(chosen, str(Split.TRAIN), str(Split.POOL)),
        cross_fit=True,
    )


def train_facet(path: Path, catalog: Catalog, config: Config, listeners: Listeners) -> RunFolder:
    """Net 1: an ordinary run at ``path`` from the fit labels; goes on with one begun before."""
    from surelabel.engines.device import prepare

    if not (path / "run.json").exists():
        about = {**prepare(config), "images": "", "labels": "", "seed": config.seed}
        folder = RunFolder.create(path, config=config, catalog=catalog, about=about)
    else:
        folder = RunFolder.open(path)
        if folder.catalog.digest != catalog.digest or folder.config != config:
            raise RunError(
                f"{path} holds the second facet of other images, labels or settings: delete it, "
                "or give another --out."
            )
    train(folder, listeners)
    return folder
