"""Every fault and attack by name, small and at full size, and how one is run."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

from faults import (
    crashes,
    damage,
    disks,
    hostile,
    hostile_sources,
    memory,
    names,
    odd_data,
    page_attacks,
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
    "memory": memory.hostile_images,
    "tables": partial(hostile.tables, 300),
    "shards": partial(hostile_sources.shards, 100),
    "addresses": hostile_sources.addresses,
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
    "browsing": partial(page_attacks.browsing, 300),
    "schema": partial(server_attacks.openapi, 100),
    "slow-clients": partial(server_attacks.slow_clients, 30),
    "reviewers": partial(reviewers.on_one_page, 10, 6),
    "soak": partial(soak.soak, n_reviewers=20, minutes=1, pause=10),
}
FULL: dict[str, Trial] = {
    "memory": memory.hostile_images,
    "tables": partial(hostile.tables, 1000),
    "images": partial(hostile.images, 10_000),
    "shards": partial(hostile_sources.shards, 3_000),
    "addresses": hostile_sources.addresses,
    "names": names.hostile_names,
    "data": odd_data.odd_datasets,
    "shuffled": partial(odd_data.shuffled_labels, 200),
    "training": partial(odd_data.odd_trainings, 100),
    "pickles": damage.pickles,
    "damage": partial(damage.damaged_files, 100),
    "requests": partial(hostile.requests, 10_000),
    "browsing": partial(page_attacks.browsing, 5_000),
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
