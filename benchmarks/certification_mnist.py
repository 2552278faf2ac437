"""True error and certified error on MNIST: 500 train, 500 tune and certify labels, drawn uniformly.

One run per seed. Its last round is then certified with 300, 1,000 and 5,000 certify labels and for
every target, each time as if for the first time. Needs ``../shared/data/mnist``. The true labels of
the pool are used to report, never to decide.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import surelabel
from settings import Settings
from surelabel.dataset.arrays import read_idx
from surelabel.dataset.catalog import Catalog
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE
from surelabel.types import UNLABELED, IntArray, Split
from surelabel.workflows.certify import apply_certification, certify_run
from surelabel.workflows.problem import problem_of

DATA = Path(__file__).resolve().parents[2] / "shared/data/mnist"
TARGETS = (0.005, 0.01, 0.02)


def main(settings: Settings) -> dict[str, Any]:
    if not (DATA / "train-images-idx3-ubyte.gz").exists():
        return {"skipped": "shared/data/mnist is not there"}
    if settings.tiny:
        n_pool, sizes, n_seeds = 300, (20, 50, 100), 1
        options: dict[str, Any] = {"steps": 10, "max_rounds": 1, "members": 1}
    else:
        n_pool, sizes, n_seeds = settings.images or 10_000, (300, 1000, 5000), settings.n_seeds
        options = {"effort": "low"}
    rows = []
    for seed in range(settings.seed, settings.seed + n_seeds):
        for row in one_run(seed, n_pool, sizes, options):
            rows.append({"seed": seed, **row})
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    certified = [row for row in rows if row["status"] == "certified"]
    return {
        "pool": n_pool,
        "tested": len(rows),
        "certified": len(certified),
        "violated": sum(row["violated"] for row in certified),
        "by_size_and_target": _by_size_and_target(rows),
    }


def one_run(
    seed: int, n_pool: int, sizes: tuple[int, ...], options: dict[str, Any]
) -> list[dict[str, Any]]:
    """A row for each number of certify labels and each target, all from one run.

    Images come in random order: the first thousand are train and tune images, the next certify
    images. The run does not depend on the number of certify labels: it reads them at its very end.
    """
    images = read_idx(DATA / "train-images-idx3-ubyte.gz")
    truth = read_idx(DATA / "train-labels-idx1-ubyte.gz").astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(truth))[: 1000 + n_pool]
    truth = truth[order]
    splits = ["train"] * 500 + ["tune"] * 500 + ["certify"] * max(sizes)
    n = len(splits)
    table = pd.DataFrame({"index": range(n), "label": truth[:n].astype(str), "split": splits})
    rows = []
    with tempfile.TemporaryDirectory() as place:
        config = surelabel.Config.from_mapping(
            {
                "seed": seed,
                "cache": f"{place}/cache",
                "accept": "tukey",
                "net": "compact",
                "max_error": f"accepted={TARGETS[0]}",
                **options,
            }
        )
        folder = surelabel.label(images[order], table, f"{place}/run", config=config).folder
        whole = folder.catalog
        for size in sizes:
            folder.replace_catalog(_with_fewer(whole, size))
            for target in TARGETS:
                row = _certify(folder, f"accepted={target}", truth)
                rows.append({"certify": size, "target": target, **row})
    return rows


def _with_fewer(catalog: Catalog, n_certify: int) -> Catalog:
    """The catalog as it would be with the first ``n_certify`` of the certify labels alone."""
    place = np.array([int(path.split(":")[1]) for path in catalog.paths])
    extra = (catalog.splits == Split.CERTIFY) & (place >= 1000 + n_certify)
    return dataclasses.replace(
        catalog,
        labels=np.where(extra, UNLABELED, catalog.labels),
        sources=np.where(extra, "", catalog.sources),
        splits=np.where(extra, str(Split.POOL), catalog.splits),
    )


def _by_size_and_target(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Counts over the seeds; coverage and errors are those of certified labels."""
    out = []
    for size, target in sorted({(row["certify"], row["target"]) for row in rows}):
        tested = [r for r in rows if (r["certify"], r["target"]) == (size, target)]
        certified = [r for r in tested if r["status"] == "certified"]
        figures: dict[str, float] = {}
        if certified:
            errors = [r["true_error"] for r in certified]
            coverages = [r["accepted"] / r["of"] for r in certified]
            figures = {
                "mean_coverage": round(float(np.mean(coverages)), 4),
                "mean_true_error": round(float(np.mean(errors)), 5),
                "worst_true_error": max(errors),
            }
        violated = sum(r["violated"] for r in certified)
        counts = {"runs": len(tested), "certified": len(certified), "violated": violated}
        out.append({"certify": size, "target": target, **counts, **figures})
    return out


def _certify(folder: RunFolder, target: str, truth: IntArray) -> dict[str, Any]:
    """The certified error and the true one, among all accepted labels of the pool.

    Certify images carry their human label in the result, which is right.
    """
    folder.write_certifications([])
    folder.replace_config(folder.config.replace(max_error=target))
    record, last = certify_run(folder, problem_of(folder).pool_ids), folder.last_round()
    assert record is not None
    assert last is not None
    classes = last.metrics["classes"]
    pool = apply_certification(last.read_table(POOL_TABLE), record, classes)
    pool = pool[pool["accepted"]]
    catalog = folder.catalog
    rows = catalog.rows(pool["id"].to_numpy().astype(np.str_))
    right = truth[[int(path.split(":")[1]) for path in catalog.paths[rows]]].astype(str)
    wrong = np.array(classes, dtype=object)[pool["guess"].to_numpy()] != right
    wrong &= catalog.splits[rows] != Split.CERTIFY
    (part,) = record.parts
    error = float(wrong.mean()) if len(wrong) else 0.0
    return {
        "status": part.status,
        "accepted": len(pool),
        "of": len(truth) - 1000,
        "true_error": round(error, 5),
        "violated": bool(part.holds and error > part.error + 1e-12),
    }
