"""``make bench-scale`` in small: every stage runs and is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scale.stages import ON_FEATURES, ON_PIXELS
from surelabel.models.backbones import photos_installed

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run_scale(kind: str, *options: str) -> list[str]:
    command = [sys.executable, "-m", "scale", "--steps", "2", "--kinds", kind, *options]
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pixels", "features"])
def test_every_stage_is_measured_at_two_sizes(kind: str) -> None:
    if kind == "features" and not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    lines = run_scale(kind, "--sizes", "400", "600")
    measured = [json.loads(line) for line in lines if line.startswith("{")]
    stages = [stage.__name__ for stage in (ON_PIXELS if kind == "pixels" else ON_FEATURES)]
    assert [each["stage"] for each in measured] == 2 * stages
    assert all(each["peak_mb"] > 0 and each["seconds"] >= 0 for each in measured)
    assert sum(line.startswith(f"| {kind} |") for line in lines) == len(stages)


def test_two_stages_of_a_small_pool() -> None:
    lines = run_scale(
        "pixels", "--sizes", "300", "--source", "npy", "--stages", "decode", "catalog"
    )
    assert sum(line.startswith("| pixels |") for line in lines) == 2
