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
from functools import partial
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
    "kill-steps": partial(crashes.kills_between_steps, 5),
    "kill-random": partial(crashes.kills_at_random, 5),
    "kill-review": partial(crashes.kills_of_review, 5),
    "disk-full": partial(crashes.full_disk, 5),
    "small-disk": partial(disks.full_disk, 7),
    "permission": partial(disks.no_permission, 6),
    "deleted": partial(disks.folder_removed, 2),
    "damage": partial(damage.damaged_files, 2),
    "pickles": damage.pickles,
    "images": partial(hostile.images, 300),
    "tables": partial(hostile.tables, 300),
    "names": names.hostile_names,
    "data": odd_data.odd_datasets,
    "shuffled": partial(odd_data.shuffled_labels, 10),
    "training": partial(odd_data.odd_trainings, 10),
    "two-programs": partial(together.two_programs, 4),
    "cache": partial(together.two_runs_on_one_cache, 2),
    "one-image": partial(together.two_reviewers_on_one_image, 10),
    "clock": partial(together.clock_set_back, 2),
    "stopped": partial(together.stopped_and_continued, 2, 1),
    "beside": partial(together.review_beside_resume, 5),
    "requests": partial(hostile.requests, 150),
    "schema": partial(server_attacks.openapi, 100),
    "slow-clients": partial(server_attacks.slow_clients, 30),
    "reviewers": partial(reviewers.on_one_page, 10, 6),
    "soak": partial(soak.soak, n_reviewers=20, minutes=1, pause=10),
}
FULL: dict[str, Trial] = {
    "tables": partial(hostile.tables, 1000),
    "images": partial(hostile.images, 10_000),
    "names": names.hostile_names,
    "data": odd_data.odd_datasets,
    "shuffled": partial(odd_data.shuffled_labels, 200),
    "training": partial(odd_data.odd_trainings, 100),
    "pickles": damage.pickles,
    "damage": partial(damage.damaged_files, 100),
    "requests": partial(hostile.requests, 10_000),
    "schema": partial(server_attacks.openapi, 2_000),
    "slow-clients": partial(server_attacks.slow_clients, 200),
    "one-image": partial(together.two_reviewers_on_one_image, 100),
    "reviewers": partial(reviewers.on_one_page, 50, 60),
    "kill-review": partial(crashes.kills_of_review, 60),
    "kill-steps": partial(crashes.kills_between_steps, 70),
    "kill-random": partial(crashes.kills_at_random, 70),
    "disk-full": partial(crashes.full_disk, 50),
    "small-disk": partial(disks.full_disk, 50),
    "permission": partial(disks.no_permission, 30),
    "deleted": partial(disks.folder_removed, 10),
    "two-programs": partial(together.two_programs, 40),
    "cache": partial(together.two_runs_on_one_cache, 20),
    "clock": partial(together.clock_set_back, 20),
    "stopped": partial(together.stopped_and_continued, 20, 5),
    "stopped-a-minute": partial(together.stopped_and_continued, 1, 60),
    "beside": partial(together.review_beside_resume, 60),
    "soak": partial(soak.soak, n_reviewers=20, minutes=60, pause=100),
}


def apart(trial: Trial, seed: int) -> Outcome:
    """Run a trial in a process of its own: it forks, and a process that has trained should not."""
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload(["torch", "surelabel.api"])
    receiving, sending = fresh.Pipe(duplex=False)
    process = fresh.Process(target=_send_outcome, args=(trial, seed, sending))
    process.start()
    sending.close()
    try:
        outcome: Outcome = receiving.recv()
    except EOFError:
        process.join()
        outcome = Outcome("a trial ended early", 0, (f"exit code {process.exitcode}",))
    process.join()
    return outcome


def _send_outcome(trial: Trial, seed: int, answer: Connection) -> None:
    answer.send(trial(seed))


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
