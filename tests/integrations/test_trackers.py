"""Figures of rounds arrive in each tracking tool, and are read back with its own reader."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from surelabel.config.choices import TrackerName
from surelabel.config.settings import Config
from surelabel.errors import InputError
from surelabel.integrations.trackers import Tracker, figures_of
from surelabel.selftraining.events import Event, RoundFinished, RunFinished
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import StopReason


def metrics(number: int) -> RoundMetrics:
    return RoundMetrics(
        number=number,
        inputs="x",
        n_human=20,
        n_pseudo=5 * number,
        n_pool=100,
        n_accepted=40 + number,
        n_left=60 - number,
        n_changed=3,
        threshold=-float("inf") if number == 1 else 0.25,
        n_held_out=20,
        held_out_errors=2,
        n_held_out_accepted=10,
        held_out_accepted_errors=0,
        classes=("a", "b"),
    )


def track(name: TrackerName, run: Path) -> list[Event]:
    """Two rounds and the end; returns what the next listener got."""
    run.mkdir(exist_ok=True)
    (run / "config.toml").write_text(Config(seed=7).to_toml())
    passed: list[Event] = []
    tracker = Tracker(name, run, passed.append)
    tracker.on_event(RoundFinished(metrics(1)))
    tracker.on_event(RoundFinished(metrics(2)))
    tracker.on_event(RunFinished(StopReason.ROUND_LIMIT, 2))
    assert len(passed) == 3
    return passed


def test_figures_are_finite_numbers() -> None:
    assert "threshold" not in figures_of(metrics(1))
    assert figures_of(metrics(2))["threshold"] == 0.25
    assert figures_of(metrics(2))["held_out_error"] == 0.1
    assert "lowest_error" not in figures_of(metrics(2))


def test_a_missing_tool_is_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"surelabel\[mlflow\]"):
        Tracker(TrackerName.MLFLOW, tmp_path, lambda _: None)


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_the_figures_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="surelabel[tensorboard] is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    track(TrackerName.TENSORBOARD, tmp_path / "run")
    found: Any = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    found.Reload()
    points = [(each.step, each.value) for each in found.Scalars("n_accepted")]
    assert points == [(1, 41.0), (2, 42.0)]
    assert [each.step for each in found.Scalars("threshold")] == [2]


@pytest.mark.filterwarnings("ignore")
def test_mlflow_keeps_the_figures_in_a_local_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="surelabel[mlflow] is not installed")
    from mlflow.tracking import MlflowClient

    store = f"sqlite:///{tmp_path}/store.db"
    if importlib.util.find_spec("sqlalchemy") is None:
        store = (tmp_path / "store").as_uri()
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    track(TrackerName.MLFLOW, tmp_path / "leaves")
    client = MlflowClient()
    experiment = client.get_experiment_by_name("surelabel")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "leaves"
    assert run.info.status == "FINISHED"
    assert run.data.params["seed"] == "7"
    assert run.data.tags["stop_reason"] == "round_limit"
    history = client.get_metric_history(run.info.run_id, "n_left")
    assert [(each.step, each.value) for each in history] == [(1, 59.0), (2, 58.0)]


@pytest.mark.filterwarnings("ignore")
def test_wandb_keeps_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="surelabel[wandb] is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    track(TrackerName.WANDB, tmp_path / "run")
    wandb.teardown()  # its service writes the file, sometimes after the run ends; so at exit
    (kept,) = (tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb")
    content = kept.read_bytes()
    assert b"n_accepted" in content
    assert b"round_limit" in content
