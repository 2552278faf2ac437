"""A small real run on disk, and a real review server, for the faults to hit."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from surelabel.config.choices import Measure, Mode, Optimizer
from surelabel.config.settings import Config

SIDE = 16
CLASSES = ("across", "down")


@dataclass(frozen=True)
class Outcome:
    """What one fault showed: how often it was tried, how often it did not hold, and figures."""

    name: str
    n: int
    failures: tuple[str, ...]
    figures: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "failures", tuple(each[:300] for each in self.failures))

    @property
    def holds(self) -> bool:
        return not self.failures and self.n > 0


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one trial; in memory where that is possible, because trials fsync a lot."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="surelabel-faults-", dir=place) as folder:
        yield Path(folder)


def write_photos(folder: Path, n: int) -> list[str]:
    """n noisy images of stripes per class; no two are alike."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for number in range(n):
        for name in CLASSES:
            rng = np.random.default_rng([number, *name.encode()])
            pixels = rng.integers(0, 90, (SIDE, SIDE), dtype=np.uint8)
            lines = ((np.arange(SIDE) + number) % 4 < 2).astype(np.uint8) * 150
            pixels += lines[:, None] if name == "across" else lines[None, :]
            names.append(f"{name}-{number:04d}.png")
            Image.fromarray(pixels).save(folder / names[-1])
    return names


def write_labels(table: Path, names: list[str]) -> Path:
    lines = [f"{name},{name.split('-')[0]}" for name in names]
    table.write_text("\n".join(["path,label", *lines]) + "\n", encoding="utf-8")
    return table


def settings(cache: Path, **changes: Any) -> Config:
    """Settings that label stripes in a second or two."""
    plain: dict[str, Any] = {
        "seed": 3,
        "steps": 20,
        "batch_size": 16,
        "members": 1,
        "mc_samples": 3,
        "width": 0.25,
        "max_rounds": 2,
        "accept": "q3",
        "mode": Mode.RELABEL,
        "score": Measure.LEAST_CONFIDENCE,
        "stop_below": 0,
        "stop_after_empty": 1000,
        "augment": False,
        "consistency": 0.0,
        "optimizer": Optimizer.ADAM,
        "learning_rate": 0.01,
        "weight_average": 0.5,
        "threads": 1,
        "device": "cpu",
        "cache": str(cache),
    }
    return Config(**{**plain, **changes})


def make_scene(place: Path, n: int = 20, **changes: Any) -> Path:
    """Photos, labels, settings and cache in ``place``; returns where the run will be."""
    names = write_photos(place / "photos", n)
    write_labels(place / "labels.csv", names[: 2 * 5])
    write_labels(place / "more.csv", names[2 * 5 : 2 * 7])
    config = settings(place / "cache", **changes)
    (place / "settings.toml").write_text(config.to_toml(), encoding="utf-8")
    return place / "run"


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "surelabel", *map(str, words)]


def label_command(place: Path, out: Path) -> list[str]:
    photos, labels, toml = place / "photos", place / "labels.csv", place / "settings.toml"
    return command("label", photos, "--labels", labels, "--out", out, "--config", toml, "--quiet")


def call(*words: object, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run a command of surelabel to its end."""
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=timeout)


def finished_run(place: Path, n: int = 20, **changes: Any) -> Path:
    """A scene whose run is finished."""
    out = make_scene(place, n, **changes)
    subprocess.run(label_command(place, out), check=True, capture_output=True)
    return out


def copy_run(run: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(run, to)
    return to


class Server:
    """A review server in a process of its own, and a browser that is logged in."""

    def __init__(self, run: Path, *options: object, page: str = "review") -> None:
        """``page`` is the command that serves it: ``review`` or ``start``."""
        self.process = subprocess.Popen(
            command(page, run, "--no-browser", *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        link = None
        for line in self.process.stdout:
            link = re.search(r"http://([^/]+)/\?token=(\S+)", line)
            if link:
                break
        if link is None:
            raise RuntimeError("the server printed no link")
        self.host, token = link[1], link[2]
        self.origin, self.port = f"http://{self.host}", int(self.host.rpartition(":")[2])
        status, headers, _ = self.request("GET", f"/?token={token}", cookie="")
        if status != 303:
            raise RuntimeError(f"the link gave {status}")
        self.cookie = headers["set-cookie"].split(";")[0]

    def request(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the response; as the logged-in page unless told."""
        name, _, port = self.host.rpartition(":")
        connection = http.client.HTTPConnection(name, int(port), timeout=60)
        sent = {"Host": self.host, "Origin": self.origin, "Cookie": getattr(self, "cookie", "")}
        sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, {k: v for k, v in sent.items() if v})
            response = connection.getresponse()
            shown = {k.lower(): v for k, v in response.getheaders()}
            return response.status, shown, response.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        return json.loads(self.request("GET", path)[2])

    def answer(self, item_id: str, label: str, reviewer: str = "r") -> tuple[int, Any]:
        each = {"id": item_id, "kind": "label", "label": label, "expected_seq": 0}
        body = {"reviewer": reviewer, "client": "c", "answers": [each]}
        status, _, text = self.request("POST", "/api/answers", json.dumps(body).encode())
        return status, json.loads(text)

    def memory(self) -> int:
        """Resident bytes of the server."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(15)
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextlib.contextmanager
def serving(run: Path, *options: object, page: str = "review") -> Iterator[Server]:
    server = Server(run, *options, page=page)
    try:
        yield server
    finally:
        server.stop()


def wait_for(done: Any, seconds: float = 60) -> bool:
    """Whether ``done()`` became true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if done():
            return True
        time.sleep(0.02)
    return False
