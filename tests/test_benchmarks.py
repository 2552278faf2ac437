from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    "name", ["mc_sampling", "help_time", "pixel_store", "review_page", "mnist"]
)
def test_benchmarks_work_at_a_tiny_scale(name: str) -> None:
    command = [sys.executable, str(BENCHMARKS / "run.py"), name, "--scale", "tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    assert result["benchmark"] == name
    if "skipped" in result:
        pytest.skip(result["skipped"])
    assert any(result.get(figure, 0) > 0 for figure in ("ratio", "pool"))
