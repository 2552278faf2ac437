"""Trackers of experiments: what each round found, in TensorBoard, MLflow or Weights & Biases.

A tracker listens to the events of a run and passes figures on through the tool's own client. It
starts with the first finished round, when the run folder is there.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from surelabel.config.choices import TrackerName
from surelabel.config.settings import Config
from surelabel.errors import InputError
from surelabel.selftraining.events import Event, OnEvent, RoundFinished, RunFinished
from surelabel.selftraining.metrics import RoundMetrics

PROJECT = "surelabel"
_PACKAGES = {
    TrackerName.TENSORBOARD: "tensorboard",
    TrackerName.MLFLOW: "mlflow",
    TrackerName.WANDB: "wandb",
}
_FIGURES = (
    "n_human",
    "n_pseudo",
    "n_accepted",
    "n_left",
    "n_changed",
    "threshold",
    "held_out_error",
    "held_out_accepted_error",
    "estimated_error",
    "lowest_error",
    "n_outliers",
    "temperature",
    "seconds",
)


class Client(Protocol):
    """One run in a tracking tool."""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Figures of round ``step``."""

    def close(self, outcome: Mapping[str, str]) -> None:
        """The run is over; ``outcome`` says how."""


class TensorBoardClient:
    """Event files in the folder ``tensorboard`` of the run."""

    def __init__(self, run: Path, settings: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(run / "tensorboard"))
        lines = "\n".join(f"    {name} = {value}" for name, value in settings.items())
        self._writer.add_text("settings", lines)

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """One scalar per figure."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, outcome: Mapping[str, str]) -> None:
        """Write what is left."""
        self._writer.add_text("outcome", ", ".join(f"{k}: {v}" for k, v in outcome.items()))
        self._writer.close()


class MlflowClient:
    """A run in the store that MLFLOW_TRACKING_URI names, or in MLflow's default one."""

    def __init__(self, run: Path, settings: Mapping[str, Any]) -> None:
        from mlflow.tracking import MlflowClient as Store

        self._store = Store()
        found = self._store.get_experiment_by_name(PROJECT)
        experiment = found.experiment_id if found else self._store.create_experiment(PROJECT)
        made = self._store.create_run(experiment, run_name=run.resolve().name)
        self._id = made.info.run_id
        for name, value in settings.items():
            self._store.log_param(self._id, name, value)

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """One metric per figure."""
        for name, value in figures.items():
            self._store.log_metric(self._id, name, value, step=step)

    def close(self, outcome: Mapping[str, str]) -> None:
        """Mark the run as finished."""
        for name, value in outcome.items():
            self._store.set_tag(self._id, name, value)
        self._store.set_terminated(self._id)


class WandbClient:
    """A run of Weights & Biases; WANDB_MODE=offline keeps it on this machine."""

    def __init__(self, run: Path, settings: Mapping[str, Any]) -> None:
        import wandb

        self._run: Any = wandb.init(
            project=PROJECT, name=run.resolve().name, config=dict(settings), dir=str(run)
        )

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """One entry per round."""
        self._run.log(dict(figures), step=step)

    def close(self, outcome: Mapping[str, str]) -> None:
        """Send what is left."""
        self._run.summary.update(dict(outcome))
        self._run.finish()


_CLIENTS: Mapping[TrackerName, Callable[[Path, Mapping[str, Any]], Client]] = {
    TrackerName.TENSORBOARD: TensorBoardClient,
    TrackerName.MLFLOW: MlflowClient,
    TrackerName.WANDB: WandbClient,
}


class Tracker:
    """Hands the events of a run to a client, and then to the next listener."""

    def __init__(self, name: TrackerName, run: Path, then: OnEvent) -> None:
        """Refuse at once where the tool is not installed."""
        if importlib.util.find_spec(_PACKAGES[name]) is None:
            raise InputError(
                f"--track {name} needs the package {_PACKAGES[name]}: "
                f"pip install 'surelabel[{name}]'."
            )
        self._name, self._run, self._then = name, run, then
        self._client: Client | None = None

    def on_event(self, event: Event) -> None:
        """Pass finished rounds and the end on."""
        self._then(event)
        if isinstance(event, RoundFinished):
            self._opened().log(figures_of(event.metrics), event.metrics.number)
        if isinstance(event, RunFinished) and self._client is not None:
            self._client.close({"stop_reason": str(event.reason), "rounds": str(event.n_rounds)})
            self._client = None

    def _opened(self) -> Client:
        if self._client is None:
            config = Config.from_toml(self._run / "config.toml")
            settings = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
            shown = {name: str(value) for name, value in settings.items()}
            self._client = _CLIENTS[self._name](self._run, shown)
        return self._client


def figures_of(metrics: RoundMetrics) -> dict[str, float]:
    """The numbers of a round that can be plotted; what is unknown or infinite is left out."""
    values = {name: getattr(metrics, name) for name in _FIGURES}
    numbers = {name: float(value) for name, value in values.items() if value is not None}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}
