from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from workflow_data import tiny

import surelabel


def test_a_run_lists_near_duplicates(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 200, (24, 16, 16), dtype=np.uint8)
    images[20] = images[3] + 20
    labels = pd.DataFrame({"index": range(12), "label": ["a", "b"] * 6})
    config = tiny(tmp_path / "cache").replace(max_rounds=1)
    run = surelabel.label(images, labels, tmp_path / "run", config=config)
    assert run.summary.n_near_duplicates == 1
    listed = pd.read_csv(tmp_path / "run" / "near_duplicates.csv")
    assert [path.rpartition(":")[2] for path in listed.iloc[0, :2]] == ["00003", "00020"]
