"""How long the review page's server takes to answer, request by request, in this process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
from fastapi.testclient import TestClient

from surelabel.review.app import build_app
from surelabel.review.security import AccessTokens
from surelabel.review.session import ReviewSession

_FROM_THE_PAGE = {"Origin": "http://127.0.0.1"}


def latencies(session: ReviewSession, n: int) -> dict[str, dict[str, float]]:
    """Median and 99th percentile in milliseconds, by kind of request."""
    tokens = AccessTokens()
    client = TestClient(
        build_app(session, tokens), base_url="http://127.0.0.1", headers=_FROM_THE_PAGE
    )
    client.get("/", params={"token": tokens.token})
    ids = list(session.queue.ids)
    draw = random.Random(0)

    def some(k: int) -> str:
        return ",".join(draw.sample(ids, min(k, len(ids))))

    def answer() -> object:
        item = session.queue.describe([draw.choice(ids)])[0]
        standing = item["answer"]
        body = {
            "id": item["id"],
            "kind": "label",
            "label": session.queue.classes[0],
            "expected_seq": standing["seq"] if standing else 0,
        }
        return client.post("/api/answers", json={"reviewer": "a", "client": "c", "answers": [body]})

    kinds: dict[str, Callable[[], object]] = {
        "state": lambda: client.get("/api/state"),
        "counts": lambda: client.get("/api/counts"),
        "queue": lambda: client.get("/api/queue"),
        "queue by class": lambda: client.get("/api/queue", params={"order": "class"}),
        "items": lambda: client.get("/api/items", params={"ids": some(24)}),
        "similar": lambda: client.get("/api/similar", params={"id": draw.choice(ids)}),
        "search": lambda: client.get("/api/search", params={"q": str(draw.randrange(10**6))}),
        "image": lambda: client.get(f"/image/{draw.choice(ids)}"),
        "answer": answer,
    }
    return {name: _times(ask, n) for name, ask in kinds.items()}


def _times(ask: Callable[[], object], n: int) -> dict[str, float]:
    taken: list[float] = []
    began = time.monotonic()
    while len(taken) < n and (time.monotonic() - began < 20 or len(taken) < 3):
        started = time.perf_counter()
        response = ask()
        taken.append(1000 * (time.perf_counter() - started))
        status = getattr(response, "status_code", 0)
        assert status == 200, (status, getattr(response, "text", ""))
    return {
        "median": round(float(np.median(taken)), 2),
        "p99": round(float(np.percentile(taken, 99)), 2),
        "n": len(taken),
    }
