"""The public API: ``label``, ``resume``, ``open_run``, and a run as Python users hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from surelabel.config.settings import Config
from surelabel.dataset.extend import Added
from surelabel.export.export import ExportFormat, check_target, export_run, export_table
from surelabel.guarantees.forecast import Outlook
from surelabel.runs.folder import RunFolder
from surelabel.runs.summary import Summary, summarize
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import OnProgress, no_progress
from surelabel.workflows import audit as audits
from surelabel.workflows import label as session
from surelabel.workflows.audit import AuditResult
from surelabel.workflows.forecast import forecast_of
from surelabel.workflows.label import SILENT, Listeners


@dataclass(frozen=True)
class Checks:
    """A table of accepted labels that was written for people to check."""

    path: Path
    n: int
    began: bool
    """Whether a new audit began with it."""
    void: bool
    """Whether that was because the labels of an earlier one have changed."""


class Run:
    """A run folder, opened. Everything it says is read from disk when asked."""

    def __init__(self, path: str | Path) -> None:
        self._path = RunFolder.open(path).path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The run folder."""
        return self._path

    @property
    def folder(self) -> RunFolder:
        """The run folder as it is now: another process may have changed it."""
        return RunFolder.open(self._path)

    @property
    def config(self) -> Config:
        """The settings of the run."""
        return self.folder.config

    @property
    def annotations(self) -> pd.DataFrame:
        """One row for each image: id, path, label, guess, source, round, probability, score,
        threshold, weight, then each measure. ``label`` is empty where none was accepted.
        """
        return session.annotations_of(self.folder)

    @property
    def rounds(self) -> Sequence[RoundMetrics]:
        """The figures of each finished round."""
        return session.FolderStore(self.folder).history()

    @property
    def summary(self) -> Summary:
        """Where the run stands."""
        folder = self.folder
        rounds = session.FolderStore(folder).history()
        return summarize(folder, rounds, session.annotations_of(folder))

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
        """What people's checks say about the accepted labels, after taking in ``answers``."""
        if answers is None:
            return audits.audit_result(self.folder)
        return audits.take_answers(self.folder, Path(answers))

    def forecast(self, max_error: float | None = None) -> tuple[float, list[Outlook]]:
        """The error asked about, and what so many certify labels would give at it."""
        return forecast_of(self.folder, max_error)

    def report(self) -> Path:
        """Write ``report.html`` and its figures into the run folder; returns the page."""
        from surelabel.report.page import write_report

        return write_report(self.folder)

    def resume(
        self,
        listeners: Listeners = SILENT,
        *,
        images: Any = None,
        max_rounds: int | None = None,
    ) -> Run:
        """Go on after a stop, or after images or labels were added.

        ``images`` says where they are now, should they have moved; ``max_rounds`` asks for more.
        """
        session.train(self.folder, listeners, images=images, max_rounds=max_rounds)
        return self

    def add(
        self,
        images: Any = None,
        labels: Any = None,
        *,
        overwrite: bool = False,
        on_progress: OnProgress = no_progress,
    ) -> Added:
        """Bring new images, labels or classes into the run; ``resume`` then trains with them."""
        return session.add(
            self.folder, images, labels, overwrite=overwrite, on_progress=on_progress
        )

    def predict(
        self,
        images: Any,
        on_progress: OnProgress = no_progress,
        *,
        probabilities: bool = False,
    ) -> pd.DataFrame:
        """Labels with uncertainty for new images, in the columns of ``annotations``.

        With ``probabilities`` there is a column ``p_CLASS`` for each class too.
        """
        from surelabel.workflows.predict import predict

        return predict(self.folder, images, on_progress, probabilities=probabilities)

    def adapt(
        self,
        images: Any,
        labels: Any,
        out: str | Path,
        *,
        run1: str | Path | None = None,
        ks: Sequence[int] = (),
        listeners: Listeners = SILENT,
        **options: Any,
    ) -> Run:
        """Label another dataset with the nets of this run, without training them again.

        ``labels`` are some of the other dataset's; ``run1`` is a run on it, which is made from a
        part of the labels where none is given. ``options`` are those of ``Config``.
        """
        from surelabel.adaptation.adapt import Request, adapt_run

        first = Path(run1) if run1 is not None else None
        request = Request(images, labels, Path(out), first, ks, options)
        return Run(adapt_run(self.folder, request, listeners).path)

    def export(
        self,
        to: ExportFormat | str,
        out: str | Path,
        *,
        overwrite: bool = False,
        on_progress: OnProgress = no_progress,
    ) -> int:
        """Write the annotations as csv, parquet or folder; returns the number of images."""
        folder = self.folder
        table = session.annotations_of(folder)
        return export_run(folder, to, out, overwrite, on_progress, table)


def label(
    images: Any,
    labels: Any = None,
    out: str | Path = "runs/run",
    *,
    config: Config | None = None,
    listeners: Listeners = SILENT,
    **options: Any,
) -> Run:
    """Label ``images`` from a few ``labels``; the run folder is ``out``.

    ``images`` is a folder, a table, an IDX or NumPy file or an array; ``labels`` a table, a file
    or an array with -1 for unlabeled. ``options`` are those of ``Config``.
    """
    settings = config or Config()
    if options:
        plain = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
        settings = Config.from_mapping({**plain, **options})
    folder = session.start(images, labels, Path(out), settings, listeners)
    return Run(folder.path)


def resume(path: str | Path, listeners: Listeners = SILENT) -> Run:
    """Go on with the run at ``path`` after a crash, or after something was added to it."""
    return Run(path).resume(listeners)


def open_run(path: str | Path) -> Run:
    """The run at ``path``, to look at."""
    return Run(path)
