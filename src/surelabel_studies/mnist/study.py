"""The MNIST study: all its runs, one after the other, and the report on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surelabel.config.choices import Net
from surelabel.errors import OptionError
from surelabel.files.atomic import atomic_write_bytes
from surelabel.types import JsonObject
from surelabel_studies.datasets.mnist import Digits
from surelabel_studies.mnist.figures import draw_pictures
from surelabel_studies.mnist.results import RowResult, accuracy_on_test, result_of
from surelabel_studies.mnist.rows import DEFAULT, NAMES, config_of
from surelabel_studies.mnist.split import LABELS, StudySplit, draw_split, draw_total
from surelabel_studies.mnist.tables import cost_table, curve_table, study_csv, study_table
from surelabel_studies.mnist.verdicts import verdicts_page
from surelabel_studies.runner import Announce, run_row


@dataclass(frozen=True)
class StudySettings:
    """The settings of the command line; 0 and None mean: as in the paper."""

    models: tuple[str, ...]
    net: Net = Net.COMPACT
    seed: int = 0
    labels_per_class: int = LABELS
    total: int = 0
    pool_size: int = 0
    test_size: int = 0
    epochs: int | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        if self.total and self.models != (DEFAULT,):
            raise OptionError(
                "--total leaves the split to the tool, which the paper's models do not do: "
                "use it with --model default."
            )
        if self.total and self.labels_per_class != LABELS:
            raise OptionError("Give --total or --labels-per-class, not both.")

    def folder(self, name: str) -> str:
        """The name of a run's or report's folder: ``name``, and the number of labels if not 50."""
        if self.total:
            return f"{name}-total-{self.total}"
        few = self.labels_per_class != LABELS
        return f"{name}-{self.labels_per_class}" if few else name

    @property
    def report(self) -> str:
        """The folder of the report; that on all six models is not overwritten by one on fewer."""
        whole = set(NAMES) <= set(self.models)
        return self.folder("report" if whole else "-".join(["report", *self.models]))

    def split(self, digits: Digits) -> StudySplit:
        """The split that all models share."""
        sizes = {"pool_size": self.pool_size, "test_size": self.test_size}
        if self.total:
            return draw_total(digits, self.seed, self.total, **sizes)
        per_class = self.labels_per_class
        return draw_split(digits, self.seed, labels_per_class=per_class, **sizes)


@dataclass(frozen=True)
class Report:
    """A finished study: its results, and the report on them."""

    results: list[RowResult]
    folder: Path
    text: str
    """The tables, then the verdicts."""

    def to_json(self) -> JsonObject:
        """The results as JSON values."""
        rows = {result.model: result.to_json() for result in self.results}
        return {"report": str(self.folder), "models": rows}


def run_study(settings: StudySettings, digits: Digits, out: Path, announce: Announce) -> Report:
    """Run what is not finished yet below ``out``, then write the report.

    The same call continues an interrupted study where it stopped.
    """
    split = settings.split(digits)
    results = []
    for model in settings.models:
        name = settings.folder(model)
        config = config_of(
            model, settings.net, seed=settings.seed, epochs=settings.epochs, rounds=settings.rounds
        )
        with announce(name) as listeners:
            run = run_row(out / name, config, split, listeners)
            notes = out / f"{name}.test.json"
            accuracy = accuracy_on_test(run, split, notes, listeners.on_progress)
        results.append(result_of(model, run, split, accuracy))
    return write_report(results, split, settings.net, out / settings.report)


def write_report(results: list[RowResult], split: StudySplit, net: Net, folder: Path) -> Report:
    """Tables as Markdown and CSV, verdicts, and figures with captions, in ``folder``."""
    tables = [study_table(results), curve_table(results), cost_table(results)]
    table = "\n".join(text for text in tables if text)
    verdicts = verdicts_page(results, split, net)
    captions = draw_pictures(results, split, folder / "figures")
    shown = [f"![{name}](figures/{name}.png)\n\n{caption}\n" for name, caption in captions.items()]
    pages = {
        "table.md": table,
        "table.csv": study_csv(results),
        "verdicts.md": verdicts,
        "figures.md": "\n".join(shown),
    }
    for name, text in pages.items():
        atomic_write_bytes(folder / name, text.encode())
    return Report(results, folder, f"{table}\n{verdicts}")
