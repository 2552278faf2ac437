"""Compare two or more runs: their results, and the settings in which they differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from surelabel.config.settings import Config, options
from surelabel.errors import OptionError
from surelabel.report.facts import rankings
from surelabel.report.text import option_text, promise_text
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE
from surelabel.types import JsonObject
from surelabel.workflows.label import FolderStore, annotations_of
from surelabel.workflows.summary import summarize


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run; None where one is not known."""

    path: str
    n_images: int
    n_human: int
    n_labeled: int
    n_left: int
    n_rounds: int
    n_held_out: int
    held_out_errors: int
    n_held_out_accepted: int
    held_out_accepted_errors: int
    promise: str
    aurc: float | None
    """Of the run's own score on its held-out labels; lower is better."""
    augrc: float | None
    seconds: float
    peak_memory: int | None


@dataclass(frozen=True)
class RunComparison:
    """The figures of each run, and the settings in which they differ."""

    runs: tuple[RunFigures, ...]
    settings: dict[str, tuple[str, ...]]
    """The values of an option, one per run; only options that differ."""
    same_images: bool
    same_held_out: bool
    """Whether the errors of all runs are on the same labels."""

    def to_json(self) -> JsonObject:
        """The comparison as JSON values."""
        return dataclasses.asdict(self)


def compare_runs(folders: Sequence[RunFolder]) -> RunComparison:
    """Figures of each run, in the order given."""
    if len(folders) < 2:
        raise OptionError("Name two runs or more to compare.")
    configs = [folder.config for folder in folders]
    return RunComparison(
        tuple(map(_figures, folders)),
        _differing(configs),
        len({tuple(sorted(folder.catalog.ids.tolist())) for folder in folders}) == 1,
        len({_held_out_ids(folder) for folder in folders}) == 1,
    )


def _figures(folder: RunFolder) -> RunFigures:
    rounds = FolderStore(folder).history()
    summary = summarize(folder, rounds, annotations_of(folder))
    last, files = (rounds[-1] if rounds else None), folder.last_round()
    table = files.read_table(HELD_OUT_TABLE) if files else None
    ranked = [] if table is None else rankings(table, folder.config.score)
    own = next((ranking for ranking in ranked if ranking.used), None)
    return RunFigures(
        path=str(folder.path),
        n_images=summary.n_images,
        n_human=summary.n_human,
        n_labeled=summary.n_labeled,
        n_left=summary.n_left,
        n_rounds=len(rounds),
        n_held_out=last.n_held_out if last else 0,
        held_out_errors=last.held_out_errors if last else 0,
        n_held_out_accepted=last.n_held_out_accepted if last else 0,
        held_out_accepted_errors=last.held_out_accepted_errors if last else 0,
        promise=promise_text(summary),
        aurc=own.aurc if own else None,
        augrc=own.augrc if own else None,
        seconds=summary.seconds,
        peak_memory=summary.peak_memory,
    )


def _held_out_ids(folder: RunFolder) -> tuple[str, ...]:
    last = folder.last_round()
    return tuple(sorted(last.read_table(HELD_OUT_TABLE)["id"])) if last else ()


def _differing(configs: Sequence[Config]) -> dict[str, tuple[str, ...]]:
    every = {
        option.name: tuple(option_text(getattr(config, option.name)) for config in configs)
        for option in options()
    }
    return {name: values for name, values in every.items() if len(set(values)) > 1}
