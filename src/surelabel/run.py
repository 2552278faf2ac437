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

    def predict(self, images: Any, on_progress: OnProgress = no_progress) -> pd.DataFrame:
        """Labels with uncertainty for new images, in the columns of ``annotations``."""
        return session.predict(self.folder, images, on_progress)

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
