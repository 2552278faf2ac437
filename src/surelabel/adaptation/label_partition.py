"""The parts of the new dataset's labels, and run 1, which is trained on the first part.

- learn: the ways are fitted to these labels and chosen by them, with cross-fitting;
- report: the tune split. No way and no choice uses these labels. They set the threshold and
  compare the chosen way with simpler ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.splits import LabeledItems, draw_tune
from surelabel.errors import LabelsError, RunError, TooFewLabelsError
from surelabel.runs.answers import AnswerKind
from surelabel.runs.folder import RunFolder
from surelabel.types import UNLABELED, Ids, LabelSource, Split
from surelabel.workflows.label import Listeners, train

REPORT_SHARE = 0.4
"""Share of each class's labels that report."""
MIN_REPORT = 20


@dataclass(frozen=True)
class LabelPartition:
    """Ids of the labeled images of the new dataset, by what the labels are used for."""

    learn: Ids
    report: Ids


def partition_labels(catalog: Catalog) -> LabelPartition:
    """Train labels are learned from, tune labels report."""
    train_ids, report = catalog.in_split(Split.TRAIN), catalog.in_split(Split.TUNE)
    if catalog.cross_fit or len(report) < MIN_REPORT:
        raise TooFewLabelsError(
            f"{len(train_ids) + len(report)} labels are too few for adaptation: some have to be "
            "held out to see whether it helps. Give 100 or more, or name those to hold out in a "
            f"column split (tune, at least {MIN_REPORT})."
        )
    return LabelPartition(train_ids, report)


def hold_out_report(catalog: Catalog, seed: int) -> Catalog:
    """``catalog`` with report labels also where an ordinary run would hold out none.

    To set a threshold takes more labels than to compare ways. Chosen images never report.
    """
    if not catalog.cross_fit:
        return catalog
    rows = np.flatnonzero((catalog.splits == Split.TRAIN) & (catalog.labels >= 0))
    ids = catalog.ids[rows]
    items = LabeledItems(
        ids=ids,
        labels=catalog.labels[rows],
        splits=np.full(len(rows), "", dtype="<U8"),
        groups=catalog.groups[rows],
        digests=catalog.digests[rows],
        is_random=np.isin(ids, np.array(catalog.undivided, dtype=np.str_)),
        where=catalog.paths[rows],
    )
    moved = draw_tune(items, items.splits, seed=seed, tune_share=REPORT_SHARE)
    if len(moved) < MIN_REPORT:
        return catalog
    splits = catalog.splits.copy()
    splits[rows[moved]] = str(Split.TUNE)
    return replace(catalog, splits=splits, cross_fit=False, undivided=())


def check_classes(catalog: Catalog, known: tuple[str, ...], run: Path) -> None:
    """Refuse classes that the run to adapt from does not have."""
    new = [name for name in catalog.classes if name not in known]
    if not new:
        return
    listed = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
    if len(new) == len(catalog.classes):
        raise LabelsError(
            f"No label is of a class of {run}: the labels have '{new[0]}', the run has {listed}. "
            "If the classes are the same under other names, write the run's names into the "
            "labels; otherwise use surelabel label."
        )
    raise LabelsError(
        f"The labels have the class '{new[0]}', which is not a class of {run} ({listed}). If it is "
        "another name for one of these, use that name; to adapt to the classes that both have, "
        "leave its labels out; to learn a new class, use surelabel label."
    )


def hide_from_report(catalog: Catalog, run: RunFolder) -> Catalog:
    """``catalog`` with report labels moved to train where ``run`` was trained on that label.

    Images with equal bytes and images of the same group move too. Certify images cannot be moved:
    without them the others would be no random sample of the pool.
    """
    units = catalog.units(catalog.ids)
    seen = np.isin(units, units[np.isin(catalog.digests, _trained_digests(run))])
    n_certify = int((seen & (catalog.splits == Split.CERTIFY)).sum())
    if n_certify:
        raise LabelsError(
            f"{run.path}: trained on labels of {n_certify} of the certify images (or of images of "
            "their groups), so these cannot show how good the adapted labels are. Draw certify "
            "labels among images that no net was trained on."
        )
    report = catalog.splits == Split.TUNE
    moved, left = seen & report, int((report & ~seen).sum())
    if moved.any() and left < MIN_REPORT:
        raise TooFewLabelsError(
            f"{run.path}: trained on so much of these labels that {left} are left to see whether "
            f"adaptation helps; {MIN_REPORT} are needed. Give labels of other images."
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


def with_learn_labels(catalog: Catalog, learn: Ids) -> Catalog:
    """``catalog`` as if only the images ``learn`` were labeled: the dataset of run 1."""
    chosen = np.isin(catalog.ids, learn)
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


def train_run1(path: Path, catalog: Catalog, config: Config, listeners: Listeners) -> RunFolder:
    """Train run 1: an ordinary run at ``path`` on these labels. Continues one that was begun."""
    from surelabel.engines.device import prepare

    if not (path / "run.json").exists():
        about = {**prepare(config), "images": "", "labels": "", "seed": config.seed}
        folder = RunFolder.create(path, config=config, catalog=catalog, about=about)
    else:
        folder = RunFolder.open(path)
        if folder.catalog.digest != catalog.digest or folder.config != config:
            raise RunError(
                f"{path} holds a run on other images, labels or settings: delete it, or give "
                "another --out."
            )
    train(folder, listeners)
    return folder
