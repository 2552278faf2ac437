"""Attacks on what the page shows besides the queue: gallery, map, similar images, guided steps."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from faults.scene import Outcome, Server, finished_run, scratch, serving, wait_for
from surelabel.runs.folder import RunFolder

_READS = (
    "/api/gallery",
    "/api/gallery/counts",
    "/api/map",
    "/api/map/points",
    "/api/similar?id={id}",
    "/api/journey",
    "/api/wish?max_error=0.05",
    "/api/effort",
    "/attention/{id}",
    "/download/csv",
    "/report",
)
_CHANGES: dict[str, object] = {
    "/api/map": {},
    "/api/plan/classes": {"names": ["evil"]},
    "/api/plan/folders": {"are_classes": True},
    "/api/plan/by-hand": {"by_hand": True},
    "/api/plan/wish": {"max_error": 0.5, "n": 1},
    "/api/ask": {"what": "label"},
    "/api/export": {"to": "csv"},
    "/api/train": {},
    "/api/train/stop": {},
}
_TRAVERSALS = (
    "/download/../../etc/passwd",
    "/download/%2e%2e%2fconfig.toml",
    "/download/..%2f..%2frun.json",
    "/download/csv%00.toml",
    "/attention/..%2f..%2frun.json",
    "/image/..%2f..%2fanswers.sqlite",
    "/static/..%2f..%2fapp.py",
    "/static/%2e%2e/%2e%2e/security.py",
    "/report/../run.json",
    "//etc/passwd",
)
_TEXTS = ("", "NaN", "\x00", "\u202e", "<script>", "../../etc/passwd", "'; DROP TABLE", "x" * 290)
_NUMBERS = ("-1", "1e400", "nan", "inf", "-inf", "0x10", "1_000", "2" * 400, str(2**63), str(2**70))
_BAD_BODIES: tuple[tuple[str, object], ...] = (
    ("/api/plan/wish", {"max_error": float("nan")}),
    ("/api/plan/wish", {"max_error": float("inf")}),
    ("/api/plan/wish", {"max_error": -0.1, "n": 5}),
    ("/api/plan/wish", {"max_error": 0.1, "n": 0}),
    ("/api/plan/wish", {"max_error": 0.1, "n": 2**70}),
    ("/api/plan/wish", {"max_error": "\ud800"}),
    ("/api/plan/classes", {"names": ["a\x1b[31m"]}),
    ("/api/plan/classes", {"names": ["\ud800"]}),
    ("/api/plan/classes", {"names": ["x" * 1001]}),
    ("/api/plan/classes", {"names": ["c"] * 5001}),
    ("/api/plan/classes", {"names": "abc"}),
    ("/api/plan/folders", {"are_classes": [1]}),
    ("/api/ask", {"what": "../../etc/passwd"}),
    ("/api/export", {"to": "../../etc/passwd"}),
    ("/api/export", {"to": "csv", "out": "/etc/passwd"}),
    ("/api/map", [[[[]]]] * 400_000),
    ("/api/answers", {"reviewer": "r", "client": "c", "answers": [{}] * 201}),
)


def browsing(n: int, seed: int) -> Outcome:
    """n hostile requests to the guided page of a run with a map; none may change anything."""
    rng, failures, slowest = random.Random(seed), [], 0.0
    counts: Counter[int] = Counter()
    with scratch() as place:
        run = finished_run(place)
        with serving(run, page="start") as server:
            server.request("POST", "/api/map", b"{}")
            if not wait_for(lambda: server.get("/api/map")["is_current"], 120):
                failures.append("there is no map after two minutes")
            ids = [str(i) for i in RunFolder.open(run).catalog.ids]
            before, memory = _files(place), server.memory()
            for number in range(n):
                began = time.monotonic()
                status, allowed, what = _attack(server, rng, ids)
                slowest = max(slowest, time.monotonic() - began)
                counts[status] += 1
                if status not in allowed:
                    failures.append(f"request {number}: {what[:150]}: {status}")
            grown = server.memory() - memory
            failures += [f"{name} has changed" for name, _ in _files(place) ^ before]
        if RunFolder.open(run).answers.last_seq():
            failures.append("an answer was stored")
    shown = ", ".join(f"{status}: {count:,}" for status, count in sorted(counts.items()))
    figures = f"{shown}; slowest {slowest:.1f} s; {grown / 1e6:.0f} MB more memory"
    return Outcome("gallery, map and guided page", n, tuple(failures), figures)


def _files(place: Path) -> set[tuple[str, bytes]]:
    """Every file of the run and beside it, with what is in it."""
    found = (p for p in place.rglob("*") if p.is_file() and "answers.sqlite" not in p.name)
    return {(str(p.relative_to(place)), p.read_bytes()) for p in found if "cache" not in p.parts}


_REFUSED = {400, 404, 405, 413, 422}
_ANY = {200, *_REFUSED}


def _attack(server: Server, rng: random.Random, ids: list[str]) -> tuple[int, set[int], str]:
    """One request: its status, those that are right, and what it was."""
    read = rng.choice(_READS).format(id=rng.choice(ids))
    match rng.randrange(8):
        case 0:
            cookie = rng.choice(["x=1", f"{server.cookie}x", server.cookie.partition("=")[0] + "="])
            return server.request("GET", read, cookie=cookie)[0], {403}, f"no cookie, {read}"
        case 1:
            host = rng.choice(["evil.example", f"127.0.0.1.evil.example:{server.port}", "[::2]:1"])
            return server.request("GET", read, host=host)[0], {421}, f"{host}, {read}"
        case 2:
            path, body = rng.choice(list(_CHANGES.items()))
            origin = rng.choice(["http://evil.example", "null", f"https://{server.host}"])
            status = server.request("POST", path, json.dumps(body).encode(), origin=origin)[0]
            return status, {403}, f"{origin}, {path}"
        case 3:
            path = rng.choice(_TRAVERSALS)
            return server.request("GET", path)[0], {400, 404, 405, 422}, path
        case 4:
            path, body = rng.choice(_BAD_BODIES)
            status = server.request("POST", path, json.dumps(body).encode())[0]
            return status, _REFUSED, f"{path}, {str(body)[:80]}"
        case 5:
            path = f"/api/wish?{urlencode({'max_error': rng.choice(_NUMBERS)})}"
            return server.request("GET", path)[0], _REFUSED, path
        case 6:
            path = f"/api/similar?{urlencode({'id': rng.choice([*ids, *_TEXTS])})}"
            path += f"&n={quote(rng.choice([*_NUMBERS, '1', '100', '101']))}"
            return server.request("GET", path)[0], _ANY, path
        case _:
            path = f"/api/gallery?{urlencode(_selection(rng, ids))}"
            status, _, content = server.request("GET", path)
            return status, _ANY if _is_small(status, content, ids) else {-1}, path


def _selection(rng: random.Random, ids: list[str]) -> dict[str, Any]:
    """Parameters of the gallery, some of them odd."""
    values: dict[str, tuple[str, ...]] = {
        "label": ("across", "none of these", *_TEXTS),
        "source": ("pseudo", "given", "nobody", *_TEXTS),
        "reason": ("suspicious", "disputed", *_TEXTS),
        "round": ("1", "2", "0", *_NUMBERS),
        "least": ("0", "0.5", "1", *_NUMBERS),
        "most": ("0", "0.5", "1", *_NUMBERS),
        "text": ("across", *_TEXTS),
        "within": tuple(_polygon(rng, corners) for corners in (1, 2, 3, 400, 401, 1000)),
        "like": (rng.choice(ids), "0" * 16, *_TEXTS),
        "sorting": ("errors", "unsure", "sure", "path", "evil"),
        "offset": ("0", "7", *_NUMBERS),
        "n": ("1", "200", "201", *_NUMBERS),
        "version": ("0", "1", *_NUMBERS),
        "other": ("1",),
    }
    names = rng.sample(list(values), rng.randrange(1, 4))
    return {name: rng.choice(values[name]) for name in names}


def _polygon(rng: random.Random, corners: int) -> str:
    scale = rng.choice((0.1, 1.0, 1e9, 1e200, 1e308))
    drawn = [f"{rng.uniform(-scale, scale):.3g}" for _ in range(2 * corners)]
    return ",".join(rng.choice((drawn, drawn[:-1], [*drawn[:-1], rng.choice(_NUMBERS)])))


def _is_small(status: int, content: bytes, ids: list[str]) -> bool:
    """Whether a page of the gallery holds images of the run only, and not more than one page."""
    if status != 200:
        return True
    items = json.loads(content)["items"]
    return len(items) <= 200 and all(item["id"] in ids for item in items)
