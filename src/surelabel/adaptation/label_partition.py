"""The three parts of the new dataset's labels, and net 1, which is trained on the first part.

- fit: give clusters their class, and train net 1;
- decide: choose the number of clusters and the removals;
- report: the tune split. Neither of the above uses these labels. They set the threshold and
  compare adaptation with simpler classifiers.
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
"""Share of each class's labels that report; the rest is halved into fit and decide."""
_MIN_REPORT = 20


@dataclass(frozen=True)
class LabelPartition:
    """Ids of the labeled images of the new dataset, by what the labels are used for."""

    fit: Ids
    decide: Ids
    report: Ids


def partition_labels(catalog: Catalog, seed: int) -> LabelPartition:
    """Halve the train labels, class by class, without dividing a group; tune labels report."""
    from surelabel.engines.cross_fitting import assign_folds

    train_ids, report = catalog.in_split(Split.TRAIN), catalog.in_split(Split.TUNE)
    if catalog.cross_fit or len(report) < _MIN_REPORT:
        raise TooFewLabelsError(
            f"{len(train_ids) + len(report)} labels are too few for adaptation: some have to be "
            "held out to see whether it helps. Give 100 or more, or name those to hold out in a "
            f"column split (tune, at least {_MIN_REPORT})."
        )
    labels = catalog.labels_of(train_ids)
    folds = assign_folds(labels, catalog.units(train_ids), 2, seed)
    for k, name in enumerate(catalog.classes):
        n_fit, n_decide = (int(((labels == k) & (folds == f)).sum()) for f in (0, 1))
        if n_fit < 2 or not n_decide:
            raise TooFewLabelsError(
                f"Of the labels of '{name}', {n_fit} can be used to name clusters and {n_decide} "
                "to choose among them; 2 and 1 are needed. Label more images of that class."
            )
    return LabelPartition(train_ids[folds == 0], train_ids[folds == 1], report)


def check_classes(catalog: Catalog, known: tuple[str, ...], run: Path) -> None:
    """Refuse classes that the run to adapt from does not have."""
    new = [name for name in catalog.classes if name not in known]
    if new:
        raise LabelsError(
            f"The labels have the class '{new[0]}', which is not a class of {run} "
            f"({', '.join(known[:8])}). Adaptation needs datasets with the same classes; use "
            "surelabel label for new ones."
        )


def hide_from_report(catalog: Catalog, runs: Sequence[RunFolder]) -> Catalog:
    """``catalog`` with report labels moved to train where a run was trained on that image's label.

    Images with equal bytes and images of the same group move too. Certify images cannot be moved:
    without them the others would be no random sample of the pool.
    """
    seen = np.zeros(len(catalog), dtype=bool)
    for run in runs:
        seen |= np.isin(catalog.digests, _trained_digests(run))
    units = catalog.units(catalog.ids)
    seen = np.isin(units, units[seen])
    named = " and ".join(str(run.path) for run in runs)
    n_certify = int((seen & (catalog.splits == Split.CERTIFY)).sum())
    if n_certify:
        raise LabelsError(
            f"{named}: trained on labels of {n_certify} of the certify images (or of images of "
            "their groups), so these cannot show how good the adapted labels are. Draw certify "
            "labels among images that no net was trained on."
        )
    report = catalog.splits == Split.TUNE
    moved, left = seen & report, int((report & ~seen).sum())
    if moved.any() and left < _MIN_REPORT:
        raise TooFewLabelsError(
            f"{named}: trained on so much of these labels that {left} are left to see whether "
            f"adaptation helps; {_MIN_REPORT} are needed. Give labels of other images, or leave "
            "out --run1 if that is the run."
        )
    return replace(catalog, splits=np.where(moved, str(Split.TRAIN), catalog.splits))


def _trained_digests(run: RunFolder) -> Ids:
    """Digests of the images whose human labels the run was trained or tuned on."""
    catalog = run.catalog
    given = (catalog.labels != UNLABELED) & np.isin(catalog.splits, [Split.TRAIN, Split.TUNE])
    answers = run.answers.standing()
    answered = [i for i, answer in answers.items() if answer.kind is AnswerKind.LABEL]
    given |= np.isin(catalog.ids, np.array(answered, dtype=np.str_))
    digests: Ids = catalog.digests[given]
    return digests


def one_per_unit(catalog: Catalog, ids: Ids) -> Ids:
    """The first image of each group and of equal bytes, so that none counts twice."""
    _, first = np.unique(catalog.units(ids), return_index=True)
    return ids[np.sort(first)]


def with_fit_labels(catalog: Catalog, fit: Ids) -> Catalog:
    """``catalog`` as if only the images ``fit`` were labeled: the dataset of net 1."""
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


def train_net1(path: Path, catalog: Catalog, config: Config, listeners: Listeners) -> RunFolder:
    """Train net 1: an ordinary run at ``path`` on the fit labels. Continues one that was begun."""
    from surelabel.engines.device import prepare

    if not (path / "run.json").exists():
        about = {**prepare(config), "images": "", "labels": "", "seed": config.seed}
        folder = RunFolder.create(path, config=config, catalog=catalog, about=about)
    else:
        folder = RunFolder.open(path)
        if folder.catalog.digest != catalog.digest or folder.config != config:
            raise RunError(
                f"{path} holds net 1 of other images, labels or settings: delete it, or give "
                "another --out."
            )
    train(folder, listeners)
    return folder
