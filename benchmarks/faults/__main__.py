"""``python -m faults``: try every fault and attack, and print one line for each.

``--scale small`` takes a minute or two, ``full`` as long as ``--minutes`` allows. Everything stays
on this machine: servers listen on loopback only.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from faults import crashes, damage, hostile
from faults.reviewers import many_reviewers
from faults.scene import Outcome, finished_run

Trial = Callable[[int], Outcome]


def _reviewers(n_reviewers: int, seconds: float, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory() as scratch:
        run = finished_run(Path(scratch), 1000, max_rounds=1, accept="q1")
        return many_reviewers(run, n_reviewers=n_reviewers, seconds=seconds, seed=seed)


SMALL: dict[str, Trial] = {
    "kill-steps": lambda seed: crashes.kills_between_steps(5, seed),
    "kill-random": lambda seed: crashes.kills_at_random(5, seed),
    "disk-full": lambda seed: crashes.full_disk(5, seed),
    "deleted": lambda seed: crashes.folder_removed(2, seed),
    "cache": lambda seed: crashes.two_runs_on_one_cache(1, seed),
    "beside": lambda seed: crashes.review_beside_resume(5, seed),
    "damage": lambda seed: damage.damaged_files(2, seed),
    "pickles": lambda seed: damage.pickles(seed),
    "images": lambda seed: hostile.images(300, seed),
    "tables": lambda seed: hostile.tables(300, seed),
    "requests": lambda seed: hostile.requests(150, seed),
    "reviewers": lambda seed: _reviewers(10, 6, seed),
}
FULL: dict[str, Trial] = {
    "tables": lambda seed: hostile.tables(1000, seed),
    "images": lambda seed: hostile.images(10_000, seed),
    "pickles": lambda seed: damage.pickles(seed),
    "damage": lambda seed: damage.damaged_files(100, seed),
    "requests": lambda seed: hostile.requests(10_000, seed),
    "reviewers": lambda seed: _reviewers(50, 60, seed),
    "beside": lambda seed: crashes.review_beside_resume(60, seed),
    "cache": lambda seed: crashes.two_runs_on_one_cache(10, seed),
    "deleted": lambda seed: crashes.folder_removed(10, seed),
    "disk-full": lambda seed: crashes.full_disk(50, seed),
    "kill-random": lambda seed: crashes.kills_at_random(100, seed),
    "kill-steps": lambda seed: crashes.kills_between_steps(100, seed),
}


def main() -> int:
    """Run the trials; returns 1 if something did not hold."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(SMALL)}; default all")
    parser.add_argument("--scale", choices=("small", "full"), default="full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=180.0, help="begin no trial after this")
    options = parser.parse_args()
    trials = SMALL if options.scale == "small" else FULL
    end, failed = time.monotonic() + 60 * options.minutes, False
    print("| Fault or attack | Tried | Did not hold | Seconds | Figures |")
    print("|---|---|---|---|---|")
    for name in options.names or trials:
        if time.monotonic() > end:
            print(f"| {name} | 0 | | | not begun: the time was over |", flush=True)
            continue
        began = time.monotonic()
        outcome = trials[name](options.seed)
        failed |= not outcome.holds
        cells = [outcome.name, f"{outcome.n:,}", len(outcome.failures)]
        cells += [f"{time.monotonic() - began:.0f}", outcome.figures]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        for failure in outcome.failures[:20]:
            print(f"    {failure}", file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
