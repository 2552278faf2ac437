"""Hours of review with training beside it: memory stays flat and no answer is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.stats import theilslopes

from faults.reviewers import Connection
from faults.scene import CLASSES, Outcome, Server, finished_run, scratch, serving
from surelabel.runs.answers import Answer
from surelabel.runs.folder import RunFolder

PACE = (2.0, 8.0)
"""Seconds that a reviewer looks at an image."""
MAX_SLOPE = 1.0
"""Megabytes a minute that the server may grow by after its warm-up."""
_WARM_UP = 1 / 3
_PROBE_SECONDS = 5.0


@dataclass
class _Log:
    """What the reviewers did, and how the server was meanwhile."""

    stored: dict[int, tuple[str, str | None, str]] = field(default_factory=dict)
    """By ``seq`` what was acknowledged: image, label (None for an undo), reviewer."""
    latencies: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Minutes since the beginning, and megabytes."""
    n_trainings: int = 0
    failures: list[str] = field(default_factory=list)


class _Reviewer:
    """Looks at its own images in turn, answers, now and then undoes or answers again."""

    def __init__(self, number: int, server: Server, ids: list[str], seed: int) -> None:
        self._name, self._client = f"reviewer {number}", f"c{number}"
        self._ids, self._rng = ids, random.Random(seed + number)
        self._page, self._events = Connection(server), Connection(server)
        self._seen: dict[str, list[int]] = {}
        """The standing answers of each image, the newest last."""

    async def work(self, end: float, log: _Log) -> None:
        await self._page.open()
        await self._events.open()
        listening = asyncio.create_task(self._events.listen())
        try:
            await asyncio.sleep(self._rng.uniform(0, PACE[1]))
            while time.monotonic() < end:
                await self._one_image(self._rng.choice(self._ids), log)
        finally:
            listening.cancel()
            self._page.close()
            self._events.close()

    async def _one_image(self, item_id: str, log: _Log) -> None:
        viewing = json.dumps({"client": self._client, "id": item_id}).encode()
        for method, path, body in (
            ("POST", "/api/viewing", viewing),
            ("GET", f"/api/items?ids={item_id}", b""),
            ("GET", f"/image/{item_id}", b""),
            ("GET", "/api/counts", b""),
        ):
            status, text = await self._page.request(method, path, body)
            if status != 200:
                log.failures.append(f"{path}: {status} {text[:200]!r}")
        await asyncio.sleep(self._rng.uniform(*PACE))
        seen = self._seen.setdefault(item_id, [])
        undo = bool(seen) and self._rng.random() < 0.3
        label = None if undo else self._rng.choice(CLASSES)
        began = time.perf_counter()
        status, text = await self._page.request("POST", *self._change(item_id, seen, label))
        log.latencies.append(time.perf_counter() - began)
        results = json.loads(text)["results"] if status == 200 else []
        if not results or "answer" not in results[0]:
            log.failures.append(f"{item_id}: {status} {text[:200]!r}")
        elif undo:
            seen.pop()
        else:
            seq = results[0]["answer"]["seq"]
            seen.append(seq)
            log.stored[seq] = (item_id, label, self._name)

    def _change(self, item_id: str, seen: list[int], label: str | None) -> tuple[str, bytes]:
        """Path and body of an answer, or of an undo of the last one."""
        who = {"reviewer": self._name, "client": self._client}
        if label is None:
            undone = {"id": item_id, "seq": seen[-1]}
            return "/api/undo", json.dumps({**who, "answers": [undone]}).encode()
        expected = seen[-1] if seen else 0
        one = {"id": item_id, "kind": "label", "label": label, "expected_seq": expected}
        return "/api/answers", json.dumps({**who, "answers": [one]}).encode()


async def _train(server: Server, end: float, pause: float, log: _Log) -> None:
    """Start a training, wait for its end and a pause, and again."""
    page = Connection(server)
    await page.open()
    state = "idle"
    while time.monotonic() < end:
        _, text = await page.request("GET", "/api/state")
        state = json.loads(text)["training"]["state"]
        if state == "failed":
            log.failures.append(f"training: {json.loads(text)['training']['text']}")
        if state != "running":
            await asyncio.sleep(min(pause, max(0.0, end - time.monotonic())))
            status, text = await page.request("POST", "/api/train", b"{}")
            log.n_trainings += status == 200
            if status != 200:
                log.failures.append(f"/api/train: {status} {text[:200]!r}")
        await asyncio.sleep(2.0)
    page.close()


async def _probe(server: Server, began: float, end: float, log: _Log) -> None:
    while time.monotonic() < end:
        minutes = (time.monotonic() - began) / 60
        log.memory.append((minutes, server.memory() / 2**20))
        await asyncio.sleep(_PROBE_SECONDS)


def soak(seed: int, *, n_reviewers: int, minutes: float, pause: float) -> Outcome:
    """Reviewers at a human pace for ``minutes``, with a training every ``pause`` seconds."""
    log = _Log()
    with scratch() as place:
        run = finished_run(place, 500, max_rounds=1, accept="q1")
        with serving(run) as server:
            ids = server.get("/api/queue")["ids"]
            people = [_Reviewer(n, server, ids[n::n_reviewers], seed) for n in range(n_reviewers)]

            async def together() -> None:
                began = time.monotonic()
                end = began + 60 * minutes
                await asyncio.gather(
                    *(each.work(end, log) for each in people),
                    _train(server, end, pause, log),
                    _probe(server, began, end, log),
                )

            asyncio.run(together())
        failures = log.failures + _lost_or_doubled(run, log)
    warm = np.array([pair for pair in log.memory if pair[0] >= _WARM_UP * minutes])
    slope = float(theilslopes(warm[:, 1], warm[:, 0])[0])
    # Within some minutes the noise of the allocator is larger than the limit.
    if minutes >= 30 and slope > MAX_SLOPE:
        failures.append(f"memory grew by {slope:.2f} MB a minute")
    p50, p99 = np.percentile(log.latencies, [50, 99]) * 1000
    figures = (
        f"{n_reviewers} reviewers, {minutes:g} minutes, {log.n_trainings} trainings; memory "
        f"{warm[0, 1]:.0f} to {warm[-1, 1]:.0f} MB, slope {slope:.2f} MB a minute; "
        f"p50 {p50:.0f} ms, p99 {p99:.0f} ms"
    )
    return Outcome("soak: answers beside trainings", len(log.latencies), tuple(failures), figures)


def _lost_or_doubled(run: Path, log: _Log) -> list[str]:
    """Compare what was acknowledged with what is on disk, row by row."""
    store = RunFolder.open(run).answers
    rows: dict[int, Answer] = {}
    for item_id in {item for item, _, _ in log.stored.values()}:
        rows |= {row.seq: row for row in store.history(item_id)}
    lost = [
        f"answer {seq} to {item} was lost"
        for seq, (item, label, reviewer) in log.stored.items()
        if seq not in rows
        or (rows[seq].item_id, rows[seq].label, rows[seq].reviewer) != (item, label, reviewer)
    ]
    n_sent = len(log.latencies)
    if store.last_seq() > n_sent:
        lost.append(f"{store.last_seq()} answers are stored, {n_sent} were sent")
    return lost
