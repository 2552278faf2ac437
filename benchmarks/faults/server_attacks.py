"""Attacks on a review server: requests made from its own schema, slow clients, many at once."""

from __future__ import annotations

import contextlib
import importlib
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import requests
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from faults.scene import CLASSES, Outcome, Server, finished_run, scratch, serving
from surelabel.review.app import build_app
from surelabel.review.queue import Task
from surelabel.review.security import AccessControl, AccessTokens
from surelabel.review.session import ReviewSession
from surelabel.runs.folder import RunFolder

_LEFT_OUT = ("/api/events", "/api/train")
"""A stream without an end, and what would train for minutes."""


def openapi(n: int, number: int) -> Outcome:
    """n requests that schemathesis makes from the OpenAPI schema of the page, valid and not."""
    try:
        schemathesis: Any = importlib.import_module("schemathesis")
    except ImportError:
        return Outcome("requests from the schema", 0, ("schemathesis is not installed",))
    failures: list[str] = []
    counts: Counter[int] = Counter()
    with scratch() as place:
        run = finished_run(place)
        schema = schemathesis.openapi.from_dict(_schema(run))
        for path in _LEFT_OUT:
            schema = schema.exclude(path=path)
        modes = list(schemathesis.GenerationMode)
        cases = st.one_of([schema.as_strategy(generation_mode=mode) for mode in modes])
        with serving(run) as server, requests.Session() as browser:
            answers = RunFolder.open(run).answers

            @seed(number)
            @settings(
                max_examples=n,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(cases)
            def attack(case: Any) -> None:
                before = answers.last_seq()
                status = _send(browser, server, case)
                counts[status] += 1
                if status >= 500:
                    failures.append(f"{case.method} {case.path}: {status}: {case.body!r}")
                if status >= 400 and answers.last_seq() != before:
                    failures.append(f"{case.method} {case.path}: refused, and something changed")

            attack()
            if server.request("GET", "/api/state")[0] != 200:
                failures.append("the server does not answer any more")
    shown = ", ".join(f"{status}: {count:,}" for status, count in sorted(counts.items()))
    return Outcome("requests from the schema", counts.total(), tuple(failures), shown)


def _schema(run: Path) -> dict[str, Any]:
    """The OpenAPI schema of the page, which the server itself does not show."""
    session = ReviewSession(RunFolder.open(run), Task())
    app = build_app(session, AccessTokens())
    assert isinstance(app, AccessControl)
    made: dict[str, Any] = app.app.openapi()  # type: ignore[attr-defined]
    session.close()
    return made


def _send(browser: requests.Session, server: Server, case: Any) -> int:
    """The status of the response; requests that HTTP has no way to write count as refused."""
    case.headers = {**(case.headers or {}), "Origin": server.origin, "Cookie": server.cookie}
    try:
        response = case.call(base_url=server.origin, session=browser, allow_redirects=False)
    except (requests.RequestException, ValueError):
        return 400
    return int(response.status_code)


def slow_clients(n: int, seed: int) -> Outcome:
    """n connections that begin a request and never end it, while somebody answers."""
    failures: list[str] = []
    seconds: list[float] = []
    with scratch() as place, contextlib.ExitStack() as opened:
        run = finished_run(place, n=80, accept="q1", max_rounds=1)
        server = opened.enter_context(serving(run))
        host, _, port = server.host.rpartition(":")
        connections = []
        for k in range(n):
            slow = opened.enter_context(socket.create_connection((host, int(port)), timeout=60))
            slow.sendall(_begun(server, k))
            connections.append(slow)
        for number, item_id in enumerate(server.get("/api/queue")["ids"][:50]):
            began = time.perf_counter()
            status, body = server.answer(item_id, CLASSES[(seed + number) % 2])
            seconds.append(time.perf_counter() - began)
            if status != 200 or "answer" not in body["results"][0]:
                failures.append(f"{item_id}: {status} {body}")
        left = sum(not _is_closed(slow) for slow in connections)
        if left:
            failures.append(f"{left} connections are still open after a minute")
        if RunFolder.open(run).answers.last_seq() != len(seconds):
            failures.append("answers were lost, or a request without an end was believed")
    p99 = np.percentile(seconds, 99) * 1000
    figures = f"{n} at once, all closed; p99 of an answer beside them {p99:.0f} ms"
    return Outcome("clients that never end a request", n, tuple(failures), figures)


def _begun(server: Server, k: int) -> bytes:
    """Nothing, half a head, or a head with half a body."""
    head = f"POST /api/answers HTTP/1.1\r\nHost: {server.host}\r\n"
    whole = (
        f"{head}Origin: {server.origin}\r\nCookie: {server.cookie}\r\nContent-Length: 900\r\n\r\n"
    )
    return (b"", head.encode(), whole.encode() + b'{"reviewer": "r"')[k % 3]


def _is_closed(connection: socket.socket) -> bool:
    """Whether the server ends the connection within a minute, after a refusal or without."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True
