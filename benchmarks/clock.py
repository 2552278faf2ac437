"""Ratios of times measured side by side: on shared cores nothing else means much."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best_times(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least seconds of each work; the works take turns, so noise hits all of them."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - started)
    return best
