"""What a report needs to know about a run, read from its folder once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from surelabel.adaptation.clustering import CentroidSet
from surelabel.config.choices import Measure
from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.errors import RunError
from surelabel.guarantees.forecast import Outlook
from surelabel.inference.selective_risk import augrc, aurc
from surelabel.messages.run import LABEL_SECONDS
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import CENTROIDS, HELD_OUT_TABLE
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import FloatArray, Ids, JsonObject
from surelabel.workflows.attention import attention_maps, has_attention
from surelabel.workflows.audit import AuditResult, audit_result
from surelabel.workflows.effort import Effort, effort_of
from surelabel.workflows.forecast import forecast_of
from surelabel.workflows.label import FolderStore, annotations_of
from surelabel.workflows.summary import Summary, summarize


@dataclass(frozen=True)
class Forecast:
    """The coverage that more certify labels would give, or the reason why there is no forecast."""

    max_error: float
    outlooks: tuple[Outlook, ...]
    why_not: str = ""


@dataclass(frozen=True, eq=False)
class Facts:
    """The present state of a run."""

    summary: Summary
    config: Config
    about: JsonObject
    catalog: Catalog
    annotations: pd.DataFrame
    held_out: tuple[pd.DataFrame, ...]
    """One table per round: its predictions for the held-out labels."""
    audit: AuditResult | None
    """None if nobody has checked the present labels."""
    forecast: Forecast
    effort: Effort | None = None
    """Ways to the finished dataset; None where nothing is left to label."""
    attention: Callable[[Ids], FloatArray] | None = None
    """Where the nets looked in these images, (N, H, W); None for nets that look everywhere."""
    centroids: CentroidSet | None = None
    """Of both datasets, where the run was made by adaptation."""

    @property
    def rounds(self) -> tuple[RoundMetrics, ...]:
        """The metrics of each finished round."""
        return self.summary.rounds

    @property
    def last(self) -> pd.DataFrame | None:
        """The last round's predictions for the held-out labels; None if there are none."""
        return self.held_out[-1] if self.held_out and len(self.held_out[-1]) else None

    @property
    def round_classes(self) -> tuple[str, ...]:
        """The classes in the order of the class numbers in the last round's tables."""
        return self.rounds[-1].classes if self.rounds else self.summary.classes


def read_facts(folder: RunFolder) -> Facts:
    """Read everything at once. Certify labels are not read."""
    rounds = FolderStore(folder).history()
    annotations = annotations_of(folder)
    summary = summarize(folder, rounds, annotations)
    return Facts(
        summary=summary,
        config=folder.config,
        about=folder.about,
        catalog=folder.catalog,
        annotations=annotations,
        held_out=tuple(r.read_table(HELD_OUT_TABLE) for r in folder.finished_rounds()),
        audit=_audit(folder),
        forecast=_forecast(folder),
        effort=effort_of(folder, LABEL_SECONDS) if rounds and summary.n_left else None,
        attention=partial(attention_maps, folder) if has_attention(folder.config) else None,
        centroids=_centroids(folder),
    )


@dataclass(frozen=True)
class Ranking:
    """How well a measure ranks right predictions before wrong ones; lower is better."""

    measure: str
    aurc: float
    augrc: float
    used: bool
    """Whether the run accepts labels by this measure."""


def rankings(held_out: pd.DataFrame, score: Measure) -> list[Ranking]:
    """Every measure that has a value for all held-out labels, the best first."""
    wrong = ~held_out["correct"].to_numpy(dtype=bool)
    ranked = []
    for name in map(str, Measure):
        values = held_out[name].to_numpy(dtype=float) if name in held_out else np.full(1, np.nan)
        if len(wrong) and not np.isnan(values).any():
            areas = aurc(values, wrong), augrc(values, wrong)
            ranked.append(Ranking(name, *areas, used=name == str(score)))
    return sorted(ranked, key=lambda ranking: ranking.augrc)


def _centroids(folder: RunFolder) -> CentroidSet | None:
    last = folder.last_round()
    if last is None or not (last.path / CENTROIDS).is_file():
        return None
    return CentroidSet(**last.read_arrays(CENTROIDS))


def _audit(folder: RunFolder) -> AuditResult | None:
    if not folder.read_audits():
        return None
    try:
        result = audit_result(folder)
    except RunError:
        return None
    return result if result.all.n_checked else None


def _forecast(folder: RunFolder) -> Forecast:
    try:
        error, outlooks = forecast_of(folder)
    except RunError as why:
        return Forecast(0.0, (), str(why))
    return Forecast(error, tuple(outlooks))
