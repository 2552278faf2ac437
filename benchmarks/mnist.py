"""The default run on real MNIST: 50 labels a class, 500 a class held out, the rest as pool.

The truth of the pool is used to report, never to decide. Needs ``../shared/data/mnist``.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared/data/mnist"


def main(*, tiny: bool, seed: int = 100) -> dict[str, Any]:
    from sklearn.metrics import cohen_kappa_score

    import surelabel
    from surelabel.catalog.idx import read_idx

    images_file = DATA / "train-images-idx3-ubyte.gz"
    if not images_file.exists():
        return {"skipped": "shared/data/mnist is not there"}
    images = read_idx(images_file)
    truth = read_idx(DATA / "train-labels-idx1-ubyte.gz").astype(np.int64)
    rng = np.random.default_rng(seed)
    order = [rng.permutation(np.flatnonzero(truth == k)) for k in range(10)]
    train = np.concatenate([rows[:50] for rows in order])
    tune = np.concatenate([rows[50:550] for rows in order])
    if tiny:
        tune = np.concatenate([rows[50:60] for rows in order])
        kept = np.concatenate([train, tune, *(rows[550:600] for rows in order)])
        images, truth = images[kept], truth[kept]
        train, tune = np.arange(500), np.arange(500, 600)
    table = _label_table(truth, train, tune)
    with tempfile.TemporaryDirectory() as folder:
        options = {"steps": 10, "max_rounds": 1} if tiny else {}
        config = surelabel.Config.from_mapping(
            {"seed": seed, "cache": f"{folder}/cache", **options}
        )
        started = time.monotonic()
        run = surelabel.label(images, table, f"{folder}/run", config=config)
        seconds = time.monotonic() - started
        result, n_rounds = run.annotations, len(run.rounds)
    labelled = (result["source"] == "pseudo").to_numpy()
    wrong = 1 - cohen_kappa_score(
        truth[labelled].astype(str), result["label"][labelled].to_numpy().astype(str)
    )
    return {
        "seed": seed,
        "pool": len(truth) - len(train) - len(tune),
        "one_minus_kappa": round(float(wrong), 5),
        "left": int((result["source"] == "").sum()),
        "rounds": n_rounds,
        "seconds": round(seconds),
    }


def _label_table(truth: Any, train: Any, tune: Any) -> Any:
    import pandas as pd

    rows = np.concatenate([train, tune])
    return pd.DataFrame(
        {
            "index": rows.astype(str),
            "label": truth[rows].astype(str),
            "split": ["train"] * len(train) + ["tune"] * len(tune),
        }
    )
