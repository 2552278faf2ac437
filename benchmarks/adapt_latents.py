"""Time and memory of adaptation after feature extraction; k-means with and without mini-batches."""

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
LABELS = 2_000
CHUNK = 4_096
K = 40


def main(settings: Settings) -> dict[str, Any]:
    """Run in a process of its own, so that the memory of other benchmarks does not count."""
    n = settings.size(settings.images, 100_000, 3_000)
    d = 256 if settings.tiny else 2_048
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
    """All of ``adapt`` and its check: n latents of the old dataset, and n of the new one twice."""
    from surelabel.adaptation.clustering import DatasetLatents, adapt, default_ks
    from surelabel.adaptation.comparison import labels_alone
    from surelabel.adaptation.domain_gap import domain_gap

    (old, old_labels), (new, truth) = latents(n, d, 1, 0.0), latents(n, d, 2, 0.3)
    own = latents(n, d, 2, 0.0)[0]
    n_labels = min(LABELS, n // 2)
    fit, decide = np.arange(n_labels // 2), np.arange(n_labels // 2, n_labels)
    given = np.where(np.arange(n) < len(fit), truth, -1)
    both = DatasetLatents(old, old_labels, own, new, given, decide, truth[decide], CLASSES)
    ks = default_ks(CLASSES, n)
    started, worked = time.perf_counter(), time.process_time()
    adaptation = adapt(both, ks, seed=0)
    labels_alone((new[fit], truth[fit]), (new[decide], truth[decide]), ks, seed=0)
    adaptation.probabilities(new)
    adaptation.distance(new)
    gap = domain_gap(old, np.zeros(len(old), dtype=bool), new, adaptation.k, 0)
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "processor_seconds": round(time.process_time() - worked, 1),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
        "latents": n,
        "dimensions": d,
        "ks": ks,
        "k": adaptation.k,
        "farther": round(gap.farther, 3),
        "right": round(float(np.mean(adaptation.predict(new[n_labels:]) == truth[n_labels:])), 4),
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
