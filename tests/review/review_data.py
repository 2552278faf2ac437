"""A tiny trained run to copy, and the review page on it, in this process or in one of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
from starlette.testclient import TestClient

sys.path.append(str(Path(__file__).parents[1] / "workflows"))

from workflow_data import photos_and_labels, tiny

import surelabel
from surelabel.review.app import build_app
from surelabel.review.queue import Task
from surelabel.review.security import AccessTokens
from surelabel.review.server import Address, ReviewServer
from surelabel.review.session import ReviewSession
from surelabel.runs.folder import RunFolder

ORIGIN = "http://127.0.0.1:8000"


def train_once(place: Path, **changes: Any) -> Path:
    """A run of one round on forty striped images, most of them left unlabeled."""
    photos, labels = photos_and_labels(place)
    config = tiny(place / "cache", max_rounds=1, steps=8, accept="top:4", **changes)
    return surelabel.label(photos, labels, place / "run", config=config).path


def copy_run(run: Path, target: Path) -> RunFolder:
    shutil.copytree(run, target)
    return RunFolder.open(target)


@dataclass(frozen=True)
class Reviewing:
    """The process, its first link, and an HTTP client that used it."""

    process: subprocess.Popen[str]
    link: str
    client: httpx.Client
    begun: str
    """What the process printed up to the link."""

    def stop(self) -> str:
        """Press ctrl-C; returns what the process printed until it ended."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        printed = self.process.stdout.read()
        self.process.wait()
        return printed


class Page:
    """The page without a server: requests as an admitted browser sends them."""

    def __init__(self, folder: RunFolder, task: Task | None = None) -> None:
        self.folder = folder
        self.session = ReviewSession(folder, task or Task(), "ann")
        self.tokens = AccessTokens()
        self.app = build_app(self.session, self.tokens)
        self.client = TestClient(self.app, base_url=ORIGIN, headers={"origin": ORIGIN})
        self.client.get("/", params={"token": self.tokens.token})

    def get(self, path: str, **query: Any) -> Any:
        response = self.client.get(path, params=query)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, **body: object) -> httpx.Response:
        return self.client.post(path, json={"reviewer": "ann", "client": "c1", **body})

    def answer(self, item_id: str, label: str | None, **more: Any) -> dict[str, Any]:
        """Answer one image; the one result."""
        kind = "label" if label else "none"
        one = {"id": item_id, "kind": kind, "label": label, "expected_seq": 0, **more}
        reviewer = one.pop("reviewer", "ann")
        response = self.post("/api/answers", answers=[one], reviewer=reviewer)
        assert response.status_code == 200, response.text
        (result,) = response.json()["results"]
        return dict(result)

    def ids(self, order: str = "useful") -> list[str]:
        return list(self.get("/api/queue", order=order)["ids"])


@contextlib.contextmanager
def serving(folder: RunFolder, task: Task | None = None) -> Iterator[ReviewServer]:
    """A real server on a free port, in a thread."""
    server = ReviewServer(folder, task or Task(), Address(), lambda _: None, "ann")
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(timeout=90)
        assert not thread.is_alive()


@contextlib.contextmanager
def browser_of(server: ReviewServer) -> Iterator[httpx.Client]:
    """An HTTP client that used a link and sends the headers of a browser."""
    origin = server.root.rstrip("/")
    with httpx.Client(base_url=origin, headers={"origin": origin}, timeout=60) as client:
        assert client.get("/", params={"token": server.tokens.token}).status_code == 303
        yield client


@contextlib.contextmanager
def reviewing(*arguments: str | Path, cwd: Path, browser: str = "") -> Iterator[Reviewing]:
    """``surelabel review`` in a process of its own, which ends with the block.

    The page is opened in ``browser``, a program; without it in none.
    """
    screen = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": browser}
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "surelabel", "review", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**os.environ, "SURELABEL_CACHE": str(cwd / "cache"), "USER": "ann", **screen},
        start_new_session=True,
    )
    with process:
        try:
            link, begun = _link(process)
            root = link.partition("/?")[0]
            with httpx.Client(base_url=root, headers={"origin": root}, timeout=60) as client:
                assert client.get(link).status_code == 303
                yield Reviewing(process, link, client, begun)
        finally:
            process.kill()


def wait_until(happens: Callable[[], bool], seconds: float = 180) -> None:
    """Wait until ``happens`` is true; generous, because machines may be slow."""
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)


def _link(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The link, and all that was printed up to it."""
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        link = re.search(r"http://\S+/\?token=\S+", line)
        if link:
            return link[0], printed
    raise AssertionError(printed)


def write_colors(folder: Path, n: int) -> dict[str, str]:
    """n plain red and n plain green images of 12x12 pixels, a little noisy; path to color."""
    from PIL import Image

    folder.mkdir(parents=True)
    truth = {}
    for number in range(n):
        for channel, color in enumerate(("red", "green")):
            pixels = np.random.default_rng([number, channel]).integers(0, 60, (12, 12, 3))
            pixels[..., channel] += 180
            name = f"{number:02d}{channel}.png"
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
            truth[name] = color
    return truth
