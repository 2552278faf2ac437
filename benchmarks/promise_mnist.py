"""True error beside the bound on real MNIST: 500 train, 500 tune, certify labels drawn uniformly.

One run a seed and number of certify labels; every target is then asked of the same finished round,
as if it were the first look. Needs ``../shared/data/mnist``; the truth of the pool is used to
report, never to decide. By hand: ``python benchmarks/promise_mnist.py --seeds 10 --pool 10000``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from settings import Settings
from surelabel.runs import POOL_TABLE, RunFolder
from surelabel.types import IntArray

DATA = Path(__file__).resolve().parents[2] / "shared/data/mnist"
TARGETS = (0.005, 0.01, 0.02)


def main(settings: Settings) -> dict[str, Any]:
    if not (DATA / "train-images-idx3-ubyte.gz").exists():
        return {"skipped": "shared/data/mnist is not there"}
    if settings.tiny:
        rows = study(1, 300, (100,), {"steps": 10, "max_rounds": 1, "members": 1})
        return {"pool": 300, "rows": rows}
    return {"pool": 10_000, "rows": study(10, 10_000, (300, 1000, 5000), {})}


def study(
    n_seeds: int, n_pool: int, sizes: tuple[int, ...], options: dict[str, Any]
) -> list[dict[str, Any]]:
    """A row for each seed, number of certify labels and target."""
    from surelabel.catalog.idx import read_idx

    images = read_idx(DATA / "train-images-idx3-ubyte.gz")
    truth = read_idx(DATA / "train-labels-idx1-ubyte.gz").astype(np.int64)
    rows = []
    for seed in range(n_seeds):
        order = np.random.default_rng(seed).permutation(len(truth))[: 1000 + n_pool]
        for n_certify in sizes:
            for row in one_run(images[order], truth[order], n_certify, seed, options):
                rows.append({"seed": seed, "certify": n_certify, **row})
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def one_run(
    images: np.ndarray[Any, Any],
    truth: IntArray,
    n_certify: int,
    seed: int,
    options: dict[str, Any],
) -> list[dict[str, Any]]:
    """Images come in random order: the first thousand train and tune, the next certify."""
    import surelabel

    splits = ["train"] * 500 + ["tune"] * 500 + ["certify"] * n_certify
    n = len(splits)
    table = pd.DataFrame({"index": range(n), "label": truth[:n].astype(str), "split": splits})
    rows = []
    with tempfile.TemporaryDirectory() as place:
        settings = {"seed": seed, "cache": f"{place}/cache", **options}
        config = surelabel.Config.from_mapping({**settings, "max_error": TARGETS[0]})
        run = surelabel.label(images, table, f"{place}/run", config=config)
        for target in TARGETS:
            rows.append({"target": target, **_ask(run.folder, str(target), truth)})
    return rows


def _ask(folder: RunFolder, target: str, truth: IntArray) -> dict[str, Any]:
    """The promise beside the truth, among all accepted images of the pool."""
    from surelabel.promise import apply_promise, renew_promise
    from surelabel.session import problem_of

    folder.write_looks([])
    folder.replace_config(folder.config.replace(max_error=target))
    look, last = renew_promise(folder, problem_of(folder).pool_ids), folder.last_round()
    assert look is not None
    assert last is not None
    classes = last.metrics["classes"]
    pool = apply_promise(last.read_table(POOL_TABLE), look, classes)
    pool = pool[pool["accepted"]]
    catalog = folder.catalog
    paths = catalog.paths[catalog.rows(pool["id"].to_numpy().astype(np.str_))]
    right = truth[[int(path.split(":")[1]) for path in paths]].astype(str)
    wrong = np.array(classes, dtype=object)[pool["guess"].to_numpy()] != right
    (part,) = look.parts
    error = float(wrong.mean()) if len(wrong) else 0.0
    return {
        "finding": part.finding,
        "accepted": len(pool),
        "of": len(truth) - 1000,
        "true_error": round(error, 5),
        "kept": bool(not part.holds or error <= part.error + 1e-12),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--pool", type=int, default=10_000)
    parser.add_argument("--certify", type=int, nargs="+", default=[300, 1000, 5000])
    parser.add_argument("--effort", default="normal")
    given = parser.parse_args()
    found = study(given.seeds, given.pool, tuple(given.certify), {"effort": given.effort})
    promised = [row for row in found if row["finding"] == "certified"]
    broken = sum(not row["kept"] for row in promised)
    print(json.dumps({"promised": len(promised), "broken": broken, "rows": len(found)}))
