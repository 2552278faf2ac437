"""Time and memory of all ways to adapt; k-means with and without mini-batches."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from settings import Settings

CLASSES = 10
BLOBS = 30
LABELS = 600
OLD = 10_000
"""Old images that adaptation uses, as in ``surelabel adapt``."""
CHUNK = 4_096
K = 40


def main(settings: Settings) -> dict[str, Any]:
    """Run in a process of its own, so that the memory of other benchmarks does not count."""
    n = settings.size(settings.images, 100_000, 3_000)
    d = 256 if settings.tiny else 1_280
    sizes = [500, 1_000] if settings.tiny else [2_500, 5_000, 10_000, 20_000]
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), json.dumps([n, d, sizes])],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def latents(n: int, d: int, seed: int, shift: float) -> tuple[Any, Any]:
    """(n, d) in blobs, moved by ``shift`` in a part of the dimensions; and their classes."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(0).normal(0, 0.3, (BLOBS, d)).astype(np.float32)
    blob = rng.integers(0, BLOBS, n)
    made = np.empty((n, d), dtype=np.float32)
    rng.standard_normal(out=made, dtype=np.float32)
    for start in range(0, n, CHUNK):
        made[start : start + CHUNK] += centers[blob[start : start + CHUNK]]
    made[:, : d // 4] += shift
    return made, (blob % CLASSES).astype(np.int64)


def whole(n: int, d: int) -> dict[str, Any]:
    """All ways cross-fitted, the choice, and its predictions: n images of each dataset."""
    import torch

    from surelabel.adaptation.clustering import DatasetLatents, cluster_both, default_ks
    from surelabel.adaptation.spaces import Stored, spaces_of
    from surelabel.adaptation.stacking import choose, cross_fit
    from surelabel.adaptation.ways import WAYS, Statistics, TwoDatasets, log_floor
    from surelabel.models.backbones import Layers

    (old, old_labels), (new, truth) = latents(n, d, 1, 0.0), latents(n, d, 2, 0.3)
    rows = np.arange(min(LABELS, n // 2))
    shown, folds = truth[rows], rows % 5
    started, worked = time.perf_counter(), time.process_time()
    some = np.sort(np.random.default_rng(0).permutation(n)[:OLD])
    stored = [
        Stored(len(some), lambda at: torch.from_numpy(old[some[at]])),
        Stored(n, lambda at: torch.from_numpy(new[at])),
    ]
    spaces = spaces_of(stored[0], stored[1], Layers((d,), (0,)), 0, seed=0)
    space, old_labels = spaces[Statistics.OLD], old_labels[some]
    first = TwoDatasets(spaces, old_labels, np.zeros((n, CLASSES)))
    direct = log_floor(first.old_head(Statistics.OLD).logits(space.new).double().numpy())
    nobody = np.empty(0, dtype=np.int64)
    own = spaces[Statistics.CENTERED].new.numpy()
    both = DatasetLatents(
        space.old.numpy(),
        old_labels,
        own,
        space.new.numpy(),
        np.full(n, -1),
        nobody,
        nobody,
        CLASSES,
    )
    ks = default_ks(CLASSES, len(some))
    data = TwoDatasets(spaces, old_labels, direct, [cluster_both(both, k, 0) for k in ks])
    candidates = [cross_fit(way, lambda _: data, rows, shown, folds) for way in WAYS]
    choice = choose(candidates, shown, folds)
    rest = np.arange(len(rows), n)
    right = {each.name: each.predict(rest).argmax(1) == truth[rest] for each in candidates}
    chosen = choice.predict(rest).argmax(1) == truth[rest]
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "processor_seconds": round(time.process_time() - worked, 1),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
        "latents": n,
        "dimensions": d,
        "chosen": choice.name,
        "right": round(float(chosen.mean()), 4),
        "right_by_way": {name: round(float(each.mean()), 4) for name, each in right.items()},
    }


def both_ways(n: int, d: int) -> dict[str, Any]:
    """K-means on all latents and on mini-batches: processor seconds, and distances in clusters."""
    from surelabel.adaptation.clustering import cluster

    made, labels = latents(n, d, 3, 0.0)
    seconds, within = {}, {}
    for name, minibatch_above in (("whole", n * d), ("batches", 0)):
        started = time.process_time()
        clusters = cluster(made, labels, K, seed=0, minibatch_above=minibatch_above)
        seconds[name] = round(time.process_time() - started, 2)
        rows = range(0, n, CHUNK)
        parts = [
            made[s : s + CHUNK] - clusters.centroids[clusters.members[s : s + CHUNK]] for s in rows
        ]
        within[name] = float(sum((part**2).sum(dtype=np.float64) for part in parts))
    return {
        "latents": n,
        "processor_seconds": seconds,
        "distances_ratio": round(within["batches"] / within["whole"], 4),
    }


if __name__ == "__main__":
    n_latents, n_dimensions, n_by_size = json.loads(sys.argv[1])
    result = whole(n_latents, n_dimensions)
    result["by_size"] = [both_ways(size, n_dimensions) for size in n_by_size]
    last = result["by_size"][-1]["processor_seconds"]
    result["ratio"] = round(last["batches"] / max(last["whole"], 0.01), 3)
    print(json.dumps(result))
