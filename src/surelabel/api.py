"""The public API: ``label``, ``resume``, ``open_run``, and ``Run``, a run folder in Python.

Long steps show their progress in a terminal and in a notebook. ``progress=False`` switches that
off, and ``listeners`` or ``on_progress`` take its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from surelabel.config.choices import Consensus
from surelabel.config.settings import Config
from surelabel.dataset.extend import Added
from surelabel.dataset.labels import Labels
from surelabel.dataset.sources import Images
from surelabel.export.label_studio import LabelStudioOptions
from surelabel.export.writers import ExportFormat, check_target, export_run, export_table
from surelabel.guarantees.forecast import Outlook
from surelabel.integrations.exported_model import ExportedModel
from surelabel.messages.run import headline
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import FloatArray, OnProgress
from surelabel.workflows import audit as audits
from surelabel.workflows.annotators import consensus_table
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
from surelabel.workflows.unread import take_up_unread


@dataclass(frozen=True)
class Checks:
    """A table of accepted labels that was written for people to check."""

    path: Path
    n: int
    began: bool
    """Whether it begins a new audit."""
    void: bool
    """Whether it does because the labels have changed since an earlier audit."""


class Forecast(NamedTuple):
    """What more certify labels would give."""

    max_error: float
    """The share of wrong labels that the forecast is for."""
    outlooks: list[Outlook]
    """The coverage by number of certify labels."""

    def _repr_html_(self) -> str:
        from surelabel.cli.notebook import forecast_html

        return forecast_html(self.max_error, self.outlooks)


class Rounds(list[RoundMetrics]):
    """The figures of each finished round; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        from surelabel.cli.notebook import rounds_html

        return rounds_html(self)


class Run:
    """A run folder. Every property reads from disk, so other processes may change the folder.

    >>> run = surelabel.open_run("runs/photos")
    >>> run
    Run('runs/photos': The run labeled 28 of the 30 images that you have not labeled. 2 are left
    for you.)
    >>> run.summary.n_human
    10
    """

    def __init__(self, path: str | Path) -> None:
        self._path = RunFolder.open(path).path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {headline(self.summary)})"

    def _repr_html_(self) -> str:
        from surelabel.cli.notebook import run_html

        return run_html(self.summary)

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

        >>> run.annotations["source"].value_counts().to_dict()
        {'pseudo': 28, 'given': 10, '': 2}
        """
        return annotations_of(self.folder)

    @property
    def label_errors(self) -> pd.DataFrame:
        """People's labels that look wrong, the least credible first.

        One row per label: id, path, label, the class ``suggested``, its probability, and the
        label's own. Labels that were reviewed since are not among them.
        """
        from surelabel.workflows.label_errors import label_errors_of

        return label_errors_of(self.folder)

    @property
    def rounds(self) -> Rounds:
        """The figures of each finished round.

        >>> [(metrics.number, metrics.n_pool) for metrics in run.rounds]
        [(1, 30)]
        """
        return Rounds(FolderStore(self.folder).history())

    @property
    def summary(self) -> Summary:
        """How many images are labeled, how the rounds went, and whether the run is finished."""
        folder = self.folder
        return summarize(folder, FolderStore(folder).history(), annotations_of(folder))

    def resume(
        self,
        listeners: Listeners | None = None,
        *,
        images: Images | None = None,
        max_rounds: int | None = None,
        progress: bool = True,
    ) -> Run:
        """Continue the run after a crash, or after images or labels were added.

        ``images`` is where the images are now, if they were moved; ``max_rounds`` is a new limit.

        >>> run.resume(max_rounds=1).rounds[-1].number
        2
        """
        with _listening(listeners, show=progress) as heard:
            take_up_unread(self.folder, images, heard)
            train(self.folder, heard, images=images, max_rounds=max_rounds)
        return self

    def add(
        self,
        images: Images | None = None,
        labels: Labels | None = None,
        *,
        overwrite: bool = False,
        on_progress: OnProgress | None = None,
        progress: bool = True,
    ) -> Added:
        """Add images, labels or classes to the run; ``resume`` then trains with them.

        With ``overwrite``, new labels replace given ones and review answers that differ.

        >>> run.add(labels="more.csv").labels
        4
        """
        with _watching(on_progress, show=progress) as heard:
            return add(self.folder, images, labels, overwrite=overwrite, on_progress=heard)

    def predict(
        self,
        images: Images,
        on_progress: OnProgress | None = None,
        *,
        probabilities: bool = False,
        progress: bool = True,
    ) -> pd.DataFrame:
        """Labels with uncertainties for other images, in the columns of ``annotations``.

        With ``probabilities`` there is also a column ``p_CLASS`` for each class.

        >>> new = run.predict("more/", probabilities=True)
        >>> new[["path", "guess"]].iloc[0].tolist()
        ['across-90.png', 'across']
        >>> new.columns[-2:].tolist()
        ['p_across', 'p_down']
        """
        from surelabel.workflows.predict import predict

        with _watching(on_progress, show=progress) as heard:
            return predict(self.folder, images, heard, probabilities=probabilities)

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
        ks: Sequence[int] = (),
        listeners: Listeners | None = None,
        progress: bool = True,
        **options: object,
    ) -> Run:
        """Label another dataset of the same classes with the help of this run.

        ``labels`` are some labels of the other dataset; they choose the way that is used. ``ks``
        are numbers of clusters per dataset that the paper's way tries. ``options`` are those of
        ``Config``.
        """
        from surelabel.adaptation.adapt import AdaptRequest, adapt_run

        request = AdaptRequest(images, labels, Path(out), ks, options)
        with _listening(listeners, show=progress) as heard:
            return Run(adapt_run(self.folder, request, heard).path)

    def export(
        self,
        to: ExportFormat | str,
        out: str | Path,
        *,
        overwrite: bool = False,
        guard: bool = True,
        label_studio: LabelStudioOptions | None = None,
        on_progress: OnProgress | None = None,
        progress: bool = True,
    ) -> int:
        """Write the annotations in one of ``ExportFormat``; returns the number of images.

        With ``guard``, text in CSV that a spreadsheet would run as a formula gets an apostrophe.
        ``label_studio`` says how Label Studio finds the images.

        >>> run.export("csv", "all.csv")
        40
        """
        folder = self.folder
        with _watching(on_progress, show=progress) as heard:
            return export_run(
                folder,
                annotations_of(folder),
                to,
                out,
                overwrite=overwrite,
                guard=guard,
                label_studio=label_studio,
                on_progress=heard,
            )

    def export_model(self, out: str | Path, *, overwrite: bool = False) -> ExportedModel:
        """Write the nets of the last round as ONNX to ``out``, and beside it what they expect."""
        from surelabel.integrations.onnx_export import export_model

        return export_model(self.folder, Path(out), overwrite=overwrite)

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

    def consensus(self, rule: Consensus | str = Consensus.MAJORITY) -> pd.DataFrame:
        """One label per image from the labels of several people, by majority or weighted."""
        return consensus_table(self.folder, Consensus(rule))

    def effort(self, label_seconds: float = 5.0) -> Effort:
        """People's answers so far, and how many a finished dataset still takes, by strategy."""
        return effort_of(self.folder, label_seconds)

    def forecast(self, max_error: float | None = None) -> Forecast:
        """``max_error``, or the run's own target, and the coverage by number of certify labels."""
        return Forecast(*forecast_of(self.folder, max_error))


def label(
    images: Images,
    labels: Labels | None = None,
    out: str | Path = "runs/run",
    *,
    config: Config | None = None,
    listeners: Listeners | None = None,
    progress: bool = True,
    **options: object,
) -> Run:
    """Label ``images`` from a few ``labels``, in a new run folder ``out``.

    ``images`` is a folder, a table, an IDX or NumPy file, or an array. ``labels`` is a table, a
    file, or an array with -1 for unlabeled; without it, class folders are the labels. ``options``
    are those of ``Config`` and change ``config``.

    >>> run = surelabel.label("photos/", labels="labels.csv", out="runs/photos", max_rounds=1)
    >>> run.annotations[["path", "label", "source"]].iloc[0].tolist()
    ['across-00.png', 'across', 'given']
    """
    settings = config or Config()
    if options:
        given = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
        settings = Config.from_mapping({**given, **options})
    with _listening(listeners, show=progress) as heard:
        return Run(start(images, labels, Path(out), settings, heard).path)


def resume(path: str | Path, listeners: Listeners | None = None, *, progress: bool = True) -> Run:
    """Continue the run at ``path`` after a crash, or after something was added to it."""
    return Run(path).resume(listeners, progress=progress)


def open_run(path: str | Path) -> Run:
    """Open the run at ``path``."""
    return Run(path)


@contextmanager
def _listening(listeners: Listeners | None, *, show: bool) -> Iterator[Listeners]:
    """``listeners``; without them, ones that show progress where somebody is looking."""
    if listeners is not None or not show:
        yield listeners or SILENT
        return
    from surelabel.cli.progress import watching

    with watching() as reporter:
        yield Listeners(reporter.on_progress, reporter.on_event)


@contextmanager
def _watching(on_progress: OnProgress | None, *, show: bool) -> Iterator[OnProgress]:
    """The same for steps that report progress only."""
    listeners = None if on_progress is None else Listeners(on_progress)
    with _listening(listeners, show=show) as heard:
        yield heard.on_progress
