"""Many reviewers at a human pace: how long an answer takes, and that none is lost or doubled."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import time
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from faults.scene import CLASSES, Outcome, Server, finished_run, scratch, serving
from surelabel.runs.folder import RunFolder

PACE = (0.5, 3.5)
"""Seconds between two answers of a reviewer."""
TARGET_SECONDS = 0.1


@dataclass
class _Traffic:
    latencies: list[float] = field(default_factory=list)
    acknowledged: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class Listening(Protocol):
    """A server that has been logged in to."""

    host: str
    origin: str
    cookie: str


class Connection:
    """One kept connection, as a browser has; opened again when the server closed it meanwhile."""

    def __init__(self, server: Listening) -> None:
        self._server = server

    async def log_in(self, token: str) -> str:
        """The cookie that the token is exchanged for."""
        self._writer.write(
            f"GET /?token={token} HTTP/1.1\r\nHost: {self._server.host}\r\n\r\n".encode()
        )
        text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        found = re.search(r"(?i)^set-cookie: ([^;]+)", text, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"the link gave no cookie: {text}")
        return found[1]

    async def open(self) -> None:
        host, _, port = self._server.host.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._server.host}\r\n"
            f"Origin: {self._server.origin}\r\nCookie: {self._server.cookie}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        sent = head.encode() + body
        try:
            return await self._exchange(sent)
        except (ConnectionError, asyncio.IncompleteReadError):
            # The server closed the idle connection as the request was sent: browsers send again.
            self.close()
            await self.open()
            return await self._exchange(sent)

    async def _exchange(self, sent: bytes) -> tuple[int, bytes]:
        self._writer.write(sent)
        await self._writer.drain()
        status, length = await self.head()
        return status, await self._reader.readexactly(length)

    async def head(self) -> tuple[int, int]:
        text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = int(text.split(" ", 2)[1])
        lengths = [line for line in text.split("\r\n") if line.lower().startswith("content-length")]
        return status, int(lengths[0].split(":")[1]) if lengths else 0

    async def listen(self) -> None:
        """Read server-sent events until cancelled."""
        head = (
            f"GET /api/events HTTP/1.1\r\nHost: {self._server.host}\r\n"
            f"Cookie: {self._server.cookie}\r\n\r\n"
        )
        self._writer.write(head.encode())
        while await self._reader.read(65536):
            pass

    def close(self) -> None:
        self._writer.close()


async def _reviewer(
    number: int, server: Server, ids: list[str], end: float, traffic: _Traffic, rng: random.Random
) -> None:
    events, page = Connection(server), Connection(server)
    await events.open()
    await page.open()
    listening = asyncio.create_task(events.listen())
    try:
        await asyncio.sleep(rng.uniform(0, PACE[1]))
        for item_id in ids:
            if time.monotonic() > end:
                return
            viewing = json.dumps({"client": f"c{number}", "id": item_id}).encode()
            await page.request("POST", "/api/viewing", viewing)
            label = rng.choice(CLASSES)
            each = {"id": item_id, "kind": "label", "label": label, "expected_seq": 0}
            body = {"reviewer": f"reviewer {number}", "client": f"c{number}", "answers": [each]}
            began = time.perf_counter()
            status, text = await page.request("POST", "/api/answers", json.dumps(body).encode())
            traffic.latencies.append(time.perf_counter() - began)
            if status != 200 or "answer" not in json.loads(text)["results"][0]:
                traffic.failures.append(f"{item_id}: {status} {text[:200]!r}")
            else:
                traffic.acknowledged[item_id] = label
            await asyncio.sleep(rng.uniform(*PACE))
    finally:
        listening.cancel()
        events.close()
        page.close()


def on_one_page(n_reviewers: int, seconds: float, seed: int) -> Outcome:
    """Reviewers who each answer images of their own, on one server."""
    traffic = _Traffic()
    with scratch() as place, contextlib.ExitStack() as ends:
        run = finished_run(place, 1000, max_rounds=1, accept="q1")
        server = ends.enter_context(serving(run))
        ids = server.get("/api/queue")["ids"]
        share = len(ids) // n_reviewers
        before = server.processor_seconds()

        async def all_of_them() -> None:
            end = time.monotonic() + seconds
            shares = [ids[n * share : (n + 1) * share] for n in range(n_reviewers)]
            people = (
                _reviewer(n, server, own, end, traffic, random.Random(seed + n))
                for n, own in enumerate(shares)
            )
            await asyncio.gather(*people)

        asyncio.run(all_of_them())
        busy = server.processor_seconds() - before
        answers = RunFolder.open(run).answers
        standing, n_stored = answers.standing(), answers.last_seq()
    for item_id, label in traffic.acknowledged.items():
        if item_id not in standing or standing[item_id].label != label:
            traffic.failures.append(f"{item_id}: the answer {label} was lost")
    n = len(traffic.latencies)
    if n_stored > n:
        traffic.failures.append(f"{n_stored - n} answers more than were sent")
    p50, p99 = np.percentile(traffic.latencies, [50, 99]) * 1000
    if n_reviewers >= 50 and p99 > 1000 * TARGET_SECONDS:
        traffic.failures.append(f"p99 is {p99:.0f} ms")
    figures = (
        f"{n_reviewers} reviewers, {n / seconds:.1f} answers a second: p50 {p50:.0f} ms, "
        f"p99 {p99:.0f} ms, {busy / n * 1000:.1f} ms of processor per answer"
    )
    return Outcome("reviewers at a human pace", n, tuple(traffic.failures), figures)
