"""A run as Python users hold it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from surelabel import session
from surelabel.catalog import Added
from surelabel.config import Config
from surelabel.export import ExportFormat, export_run
from surelabel.runs import RunFolder
from surelabel.selftrain import RoundMetrics
from surelabel.session import SILENT, Listeners
from surelabel.summary import Summary, summarize
from surelabel.types import OnProgress, no_progress


class Run:
    """A run folder, opened. Everything it says is read from disk when asked."""

    def __init__(self, path: str | Path) -> None:
        self.folder = RunFolder.open(path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

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
        return summarize(self.folder, self.rounds, self.annotations)

    def resume(self, listeners: Listeners = SILENT) -> Run:
        """Go on after a stop, or after images or labels were added."""
        session.train(self.folder, listeners)
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

    def predict(self, images: Any, on_progress: OnProgress = no_progress) -> pd.DataFrame:
        """Labels with uncertainty for new images, in the columns of ``annotations``."""
        return session.predict(self.folder, images, on_progress)

    def export(self, to: ExportFormat | str, out: str | Path, *, overwrite: bool = False) -> int:
        """Write the annotations as csv, parquet or folder; returns the number of images."""
        return export_run(self.folder, to, out, overwrite)
