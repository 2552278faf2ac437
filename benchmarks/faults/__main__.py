"""``python -m faults``: try every fault and attack, and print one line for each.

``--scale small`` takes minutes, ``full`` as long as ``--minutes`` allows. Everything stays on this
machine: servers listen on loopback only.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

os.environ.setdefault("OMP_NUM_THREADS", "1")

from faults import (
    crashes,
    damage,
    disks,
    hostile,
    names,
    odd_data,
    reviewers,
    server_attacks,
    soak,
    together,
)
from faults.scene import Outcome

Trial = Callable[[int], Outcome]

SMALL: dict[str, Trial] = {
    "kill-steps": lambda seed: crashes.kills_between_steps(5, seed),
    "kill-random": lambda seed: crashes.kills_at_random(5, seed),
    "kill-review": lambda seed: crashes.kills_of_review(5, seed),
    "disk-full": lambda seed: crashes.full_disk(5, seed),
    "small-disk": lambda seed: disks.full_disk(7, seed),
    "permission": lambda seed: disks.no_permission(6, seed),
    "deleted": lambda seed: disks.folder_removed(2, seed),
    "damage": lambda seed: damage.damaged_files(2, seed),
    "pickles": lambda seed: damage.pickles(seed),
    "images": lambda seed: hostile.images(300, seed),
    "tables": lambda seed: hostile.tables(300, seed),
    "names": lambda seed: names.hostile_names(seed),
    "data": lambda seed: odd_data.odd_datasets(seed),
    "shuffled": lambda seed: odd_data.shuffled_labels(10, seed),
    "training": lambda seed: odd_data.odd_trainings(10, seed),
    "two-programs": lambda seed: together.two_programs(4, seed),
    "cache": lambda seed: together.two_runs_on_one_cache(2, seed),
    "one-image": lambda seed: together.two_reviewers_on_one_image(10, seed),
    "clock": lambda seed: together.clock_set_back(2, seed),
    "stopped": lambda seed: together.stopped_and_continued(2, 1, seed),
    "beside": lambda seed: together.review_beside_resume(5, seed),
    "requests": lambda seed: hostile.requests(150, seed),
    "schema": lambda seed: server_attacks.openapi(100, seed),
    "slow-clients": lambda seed: server_attacks.slow_clients(30, seed),
    "reviewers": lambda seed: reviewers.on_one_page(10, 6, seed),
    "soak": lambda seed: soak.soak(n_reviewers=20, minutes=1, pause=10, seed=seed),
}
FULL: dict[str, Trial] = {
    "tables": lambda seed: hostile.tables(1000, seed),
    "images": lambda seed: hostile.images(10_000, seed),
    "names": lambda seed: names.hostile_names(seed),
    "data": lambda seed: odd_data.odd_datasets(seed),
    "shuffled": lambda seed: odd_data.shuffled_labels(200, seed),
    "training": lambda seed: odd_data.odd_trainings(100, seed),
    "pickles": lambda seed: damage.pickles(seed),
    "damage": lambda seed: damage.damaged_files(100, seed),
    "requests": lambda seed: hostile.requests(10_000, seed),
    "schema": lambda seed: server_attacks.openapi(2_000, seed),
    "slow-clients": lambda seed: server_attacks.slow_clients(200, seed),
    "one-image": lambda seed: together.two_reviewers_on_one_image(100, seed),
    "reviewers": lambda seed: reviewers.on_one_page(50, 60, seed),
    "kill-review": lambda seed: crashes.kills_of_review(60, seed),
    "kill-steps": lambda seed: crashes.kills_between_steps(70, seed),
    "kill-random": lambda seed: crashes.kills_at_random(70, seed),
    "disk-full": lambda seed: crashes.full_disk(50, seed),
    "small-disk": lambda seed: disks.full_disk(50, seed),
    "permission": lambda seed: disks.no_permission(30, seed),
    "deleted": lambda seed: disks.folder_removed(10, seed),
    "two-programs": lambda seed: together.two_programs(40, seed),
    "cache": lambda seed: together.two_runs_on_one_cache(20, seed),
    "clock": lambda seed: together.clock_set_back(20, seed),
    "stopped": lambda seed: together.stopped_and_continued(20, 5, seed),
    "stopped-a-minute": lambda seed: together.stopped_and_continued(1, 60, seed),
    "beside": lambda seed: together.review_beside_resume(60, seed),
    "soak": lambda seed: soak.soak(n_reviewers=20, minutes=60, pause=100, seed=seed),
}


def apart(trial: Trial, seed: int) -> Outcome:
    """Run a trial in a process of its own: it forks, and a process that has trained should not."""
    receiving, sending = multiprocessing.Pipe(duplex=False)

    def work(answer: Connection) -> None:
        answer.send(trial(seed))

    process = multiprocessing.get_context("fork").Process(target=work, args=(sending,))
    process.start()
    sending.close()
    try:
        outcome: Outcome = receiving.recv()
    except EOFError:
        outcome = Outcome("a trial ended early", 0, (f"exit code {process.exitcode}",))
    process.join()
    return outcome


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
        outcome = apart(trials[name], options.seed)
        failed |= not outcome.holds
        cells = [outcome.name, f"{outcome.n:,}", len(outcome.failures)]
        cells += [f"{time.monotonic() - began:.0f}", outcome.figures]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        for failure in outcome.failures[:20]:
            print(f"    {failure}", file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
