from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd
import pytest

from surelabel.errors import RunDamagedError
from surelabel.runs.rounds import PartialRound, RoundFiles


@pytest.fixture(name="partial")
def fixture_partial(tmp_path: Path) -> PartialRound:
    return PartialRound(tmp_path, 1)


def test_what_is_written_can_be_read(partial: PartialRound) -> None:
    partial.write_json("metrics.json", {"error": 0.25})
    partial.write_table("scores.parquet", pd.DataFrame({"id": ["a"]}))
    assert partial.metrics == {"error": 0.25}
    assert partial.read_table("scores.parquet")["id"].tolist() == ["a"]
    assert partial.has("scores.parquet")
    assert not partial.has("tune.parquet")


def test_a_finished_round_cannot_be_written() -> None:
    assert not hasattr(RoundFiles, "write_json")
    assert not hasattr(RoundFiles, "write_table")
    assert dataclasses.is_dataclass(RoundFiles)


def test_weights_are_in_the_order_of_members(partial: PartialRound) -> None:
    for member in (10, 2, 0):
        (partial.path / f"weights-{member}.safetensors").touch()
    (partial.path / "weights-x.safetensors").touch()
    (partial.checkpoints / "weights-1.safetensors").touch()
    names = [path.name for path in partial.weights()]
    assert names == [f"weights-{member}.safetensors" for member in (0, 2, 10)]


def test_digests_cover_the_files_that_stay(partial: PartialRound) -> None:
    partial.write_json("metrics.json", {})
    (partial.checkpoints / "step.json").touch()
    (partial.path / ".metrics.json.0123456789abcdef.tmp").touch()
    partial.write_digests()
    partial.write_digests()
    assert list(partial.digests()) == ["metrics.json"]
    partial.verify()


def test_a_changed_or_missing_file_is_noticed(partial: PartialRound) -> None:
    partial.write_json("metrics.json", {})
    partial.write_digests()
    (partial.path / "metrics.json").write_text("{ }")
    with pytest.raises(RunDamagedError, match=r"metrics\.json .*round 1.*surelabel resume"):
        partial.verify()
    (partial.path / "metrics.json").unlink()
    with pytest.raises(RunDamagedError, match=r"metrics\.json"):
        partial.verify()
