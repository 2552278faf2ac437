"""The public API: ``label``, ``resume``, ``open_run``, and ``Run``, a run folder in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from surelabel.config.settings import Config
from surelabel.dataset.extend import Added
from surelabel.export.label_studio import LabelStudioOptions
from surelabel.export.writers import ExportFormat, check_target, export_run, export_table
from surelabel.guarantees.forecast import Outlook
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import FloatArray, OnProgress, no_progress
from surelabel.workflows import audit as audits
from surelabel.workflows.audit import AuditResult
from surelabel.workflows.effort import Effort, effort_of
from surelabel.workflows.forecast import forecast_of
from surelabel.workflows.label import (
    SILENT,
    FolderStore,
    Listeners,
    add,
    annotations_of,
    start,
    train,
)
from surelabel.workflows.summary import Summary, summarize

if TYPE_CHECKING:
    from surelabel.dataset.labels import Labels
    from surelabel.dataset.sources import Images


@dataclass(frozen=True)
class Checks:
    """A table of accepted labels that was written for people to check."""

    path: Path
    n: int
    began: bool
    """Whether it begins a new audit."""
    void: bool
    """Whether it does because the labels have changed since an earlier audit."""


class Run:
    """A run folder. Every property reads from disk, so other processes may change the folder."""

    def __init__(self, path: str | Path) -> None:
        self._path = RunFolder.open(path).path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The path of the run folder."""
        return self._path

    @property
    def folder(self) -> RunFolder:
        """The run folder as it is now."""
        return RunFolder.open(self._path)

    @property
    def config(self) -> Config:
        """The settings of the run."""
        return self.folder.config

    @property
    def annotations(self) -> pd.DataFrame:
        """The result: one row per image, with these columns and then each measure of uncertainty.

        id, path, label, guess, source, round, probability, score, threshold, weight, reason,
        calibrated, distance. ``label`` is empty where none was accepted.
        """
        return annotations_of(self.folder)

    @property
    def rounds(self) -> Sequence[RoundMetrics]:
        """The figures of each finished round."""
        return FolderStore(self.folder).history()

    @property
    def summary(self) -> Summary:
        """How many images are labeled, how the rounds went, and whether the run is finished."""
        folder = self.folder
        return summarize(folder, FolderStore(folder).history(), annotations_of(folder))

    def resume(
        self,
        listeners: Listeners = SILENT,
        *,
        images: Images | None = None,
        max_rounds: int | None = None,
    ) -> Run:
        """Continue the run after a crash, or after images or labels were added.

        ``images`` is where the images are now, if they were moved; ``max_rounds`` is a new limit.
        """
        train(self.folder, listeners, images=images, max_rounds=max_rounds)
        return self

    def add(
        self,
        images: Images | None = None,
        labels: Labels | None = None,
        *,
        overwrite: bool = False,
        on_progress: OnProgress = no_progress,
    ) -> Added:
        """Add images, labels or classes to the run; ``resume`` then trains with them.

        With ``overwrite``, new labels replace given ones and review answers that differ.
        """
        return add(self.folder, images, labels, overwrite=overwrite, on_progress=on_progress)

    def predict(
        self,
        images: Images,
        on_progress: OnProgress = no_progress,
        *,
        probabilities: bool = False,
    ) -> pd.DataFrame:
        """Labels with uncertainties for other images, in the columns of ``annotations``.

        With ``probabilities`` there is also a column ``p_CLASS`` for each class.
        """
        from surelabel.workflows.predict import predict

        return predict(self.folder, images, on_progress, probabilities=probabilities)

    def attention(self, ids: Sequence[str]) -> FloatArray:
        """Where nets with the tail detail looked in the images ``ids``, (N, H, W); sums to 1.

        A cell stands for 8 x 8 pixels of the image as the nets saw it, squeezed to a square.
        """
        from surelabel.workflows.attention import attention_maps

        return attention_maps(self.folder, np.asarray(ids, dtype=np.str_))

    def adapt(
        self,
        images: Images,
        labels: Labels,
        out: str | Path,
        *,
        run1: str | Path | None = None,
        ks: Sequence[int] = (),
        listeners: Listeners = SILENT,
        **options: object,
    ) -> Run:
        """Label another dataset with the nets of this run, without training them again.

        ``labels`` are some labels of the other dataset. ``run1`` is a run on it; without one, a run
        is made from a part of the labels. ``ks`` are numbers of clusters per dataset to choose
        from. ``options`` are those of ``Config``.
        """
        from surelabel.adaptation.adapt import AdaptRequest, adapt_run

        first = Path(run1) if run1 is not None else None
        request = AdaptRequest(images, labels, Path(out), first, ks, options)
        return Run(adapt_run(self.folder, request, listeners).path)

    def export(
        self,
        to: ExportFormat | str,
        out: str | Path,
        *,
        overwrite: bool = False,
        guard: bool = True,
        label_studio: LabelStudioOptions | None = None,
        on_progress: OnProgress = no_progress,
    ) -> int:
        """Write the annotations in one of ``ExportFormat``; returns the number of images.

        With ``guard``, text in CSV that a spreadsheet would run as a formula gets an apostrophe.
        ``label_studio`` says how Label Studio finds the images.
        """
        folder = self.folder
        return export_run(
            folder,
            annotations_of(folder),
            to,
            out,
            overwrite=overwrite,
            guard=guard,
            label_studio=label_studio,
            on_progress=on_progress,
        )

    def report(self) -> Path:
        """Write ``report.html`` and its figures into the run folder; returns its path."""
        from surelabel.report.page import write_report

        return write_report(self.folder)

    def write_checks(
        self, n: int, out: str | Path | None = None, *, overwrite: bool = False
    ) -> Checks:
        """Write the first n accepted labels in random order, for a person to check."""
        folder = self.folder
        target = Path(out) if out is not None else Path(f"{folder.path.resolve().name}-audit.csv")
        to = check_target(target, overwrite=overwrite)
        before = len(folder.read_audits())
        table = audits.checks_table(folder, n)
        export_table(table, target, to)
        began = bool(table.attrs["began"])
        return Checks(target, len(table), began, began and before > 0)

    def audit(self, answers: str | Path | None = None) -> AuditResult:
        """What people's checks show about the accepted labels, after reading ``answers``."""
        if answers is None:
            return audits.audit_result(self.folder)
        return audits.take_answers(self.folder, Path(answers))

    def effort(self, label_seconds: float = 5.0) -> Effort:
        """People's answers so far, and how many a finished dataset still takes, by strategy."""
        return effort_of(self.folder, label_seconds)

    def forecast(self, max_error: float | None = None) -> tuple[float, list[Outlook]]:
        """``max_error``, or the run's own target, and the coverage by number of certify labels."""
        return forecast_of(self.folder, max_error)


def label(
    images: Images,
    labels: Labels | None = None,
    out: str | Path = "runs/run",
    *,
    config: Config | None = None,
    listeners: Listeners = SILENT,
    **options: object,
) -> Run:
    """Label ``images`` from a few ``labels``, in a new run folder ``out``.

    ``images`` is a folder, a table, an IDX or NumPy file, or an array. ``labels`` is a table, a
    file, or an array with -1 for unlabeled; without it, class folders are the labels. ``options``
    are those of ``Config`` and change ``config``.
    """
    settings = config or Config()
    if options:
        given = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
        settings = Config.from_mapping({**given, **options})
    return Run(start(images, labels, Path(out), settings, listeners).path)


def resume(path: str | Path, listeners: Listeners = SILENT) -> Run:
    """Continue the run at ``path`` after a crash, or after something was added to it."""
    return Run(path).resume(listeners)


def open_run(path: str | Path) -> Run:
    """Open the run at ``path``."""
    return Run(path)
