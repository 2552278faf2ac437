"""Hostile input: images, tables and requests as nobody sane would make them."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import socket
import string
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from faults.scene import Outcome, Server, finished_run, scratch, serving
from surelabel.dataset.labels import attach_labels
from surelabel.dataset.pixels import read_catalog
from surelabel.dataset.sources import find_images
from surelabel.errors import SurelabelError
from surelabel.runs.folder import RunFolder
from surelabel.types import no_progress

_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")


def _seeds(rng: random.Random) -> list[bytes]:
    """Small valid images in every format and mode that people have."""
    made = []
    for kind in _FORMATS:
        for mode in ("RGB", "L", "CMYK", "I;16", "P", "RGBA", "1"):
            pixels = np.random.default_rng(rng.randrange(99)).integers(0, 255, (24, 31), np.uint8)
            image = Image.fromarray(pixels)
            file = io.BytesIO()
            try:
                image.convert(mode).save(file, kind)
            except (OSError, ValueError, KeyError):
                continue
            made.append(file.getvalue())
    return made


def mutate(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 2, 5, 20))):
        at = rng.randrange(len(changed)) if changed else 0
        choice = rng.randrange(5)
        if choice == 0 and changed:
            changed[at] ^= 1 << rng.randrange(8)
        elif choice == 1:
            del changed[at : at + rng.randrange(1, 40)]
        elif choice == 2:
            changed[at:at] = rng.randbytes(rng.randrange(1, 40))
        elif choice == 3:
            changed[at : at + 4] = rng.choice(
                (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0")
            )
        else:
            changed = changed[: rng.randrange(len(changed) + 1)]
    return bytes(changed)


def _special(folder: Path) -> int:
    """What is named like an image and is something else; returns how many there are."""
    os.mkfifo(folder / "fifo.png")
    (folder / "loop.png").symlink_to(folder / "loop.png")
    (folder / "gone.png").symlink_to(folder / "nowhere")
    (folder / "device.png").symlink_to("/dev/zero")
    (folder / "empty.png").touch()
    (folder / "text.jpg").write_text("hello")
    (folder / "drawing.svg").write_text("<svg/>")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket.png"))
    Image.new("L", (1, 50_000)).save(folder / "thin.png")
    bomb = "import sys; from PIL import Image; Image.new('L', (30_000, 30_000)).save(sys.argv[1])"
    # In a process of its own: making it takes the memory that reading it must not take.
    subprocess.run([sys.executable, "-c", bomb, str(folder / "bomb.png")], check=True)
    return 9


def images(n: int, seed: int) -> Outcome:
    """n mutated files beside special ones: each is read or reported, in little memory."""
    rng, failures, began = random.Random(seed), [], time.monotonic()
    with scratch() as place:
        folder = place / "photos"
        folder.mkdir()
        seeds = _seeds(rng)
        for number in range(n):
            (folder / f"{number}.png").write_bytes(mutate(rng.choice(seeds), rng))
        (folder / "good.png").write_bytes(seeds[0])
        special = _special(folder)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        source = find_images(folder)
        catalog = read_catalog(source, place / "cache", no_progress)
        known = len(catalog) + len(catalog.skipped)
        if known < n + 1 + special - 1:
            failures.append(f"{n + special + 1 - known} files are neither read nor reported")
        if "good.png" not in catalog.paths.tolist():
            failures.append("a good image was left out")
        silent = [each.path for each in catalog.skipped if not each.reason]
        failures += [f"{path}: no reason" for path in silent]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    figures = (
        f"{len(catalog)} read, {len(catalog.skipped)} reported; {peak / 1024:.0f} MB more memory; "
        f"{time.monotonic() - began:.0f} s"
    )
    return Outcome("mutated and odd image files", n + special, tuple(failures), figures)


_NAMES = ["a.png", "b.png", "=x.png", "../a.png", "/etc/passwd", "", "a.png\x00", "\u202eb.png"]
_LABELS = [
    "cat",
    "",
    "NaN",
    "-1",
    "=1+1",
    "x" * 5000,
    "a\x1b[31m",
    "none",
    "\ud7ff",
    "'",
    '"',
    "😀",
]


def _table(rng: random.Random) -> bytes:
    header = rng.choice(
        ["path,label", "path;label", "label,path", "file,label", "path", "", "a\0b"]
    )
    lines = [header]
    for _ in range(rng.randrange(8)):
        cells = [rng.choice(_NAMES), rng.choice(_LABELS), rng.choice(["", "train", "x"])]
        rng.shuffle(cells)
        lines.append(rng.choice(",;\t|").join(cells[: rng.randrange(1, 4)]))
    text = rng.choice(["\n", "\r\n", "\r"]).join(lines)
    if rng.random() < 0.3:
        text = "".join(rng.choice(string.printable) for _ in range(rng.randrange(200)))
    encoding = rng.choice(["utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32"])
    content = text.encode(encoding, errors="replace")
    return mutate(content, rng) if rng.random() < 0.3 and content else content


def tables(n: int, seed: int) -> Outcome:
    """n tables of labels: a sentence that names the file, or a right result."""
    rng, failures, refused = random.Random(seed), [], 0
    with scratch() as place:
        (place / "photos").mkdir()
        for name in ("a.png", "b.png", "=x.png"):
            Image.new("L", (8, 8), 9).save(place / "photos" / name)
        source = find_images(place / "photos")
        known = set(source.keys)
        for number in range(n):
            table = place / "labels.csv"
            table.write_bytes(_table(rng))
            try:
                rows = attach_labels(source, table).label_rows
                odd = [r for r in rows if r.key not in known and not r.key.startswith("/")]
                if odd:
                    failures.append(f"{number}: a row about {odd[0].key!r}")
            except SurelabelError as error:
                refused += 1
                if "labels.csv" not in str(error) and "photos" not in str(error):
                    failures.append(f"{number}: the file is not named: {error}")
            except Exception as error:
                failures.append(f"{number}: {type(error).__name__}: {error}")
    return Outcome("tables of labels", n, tuple(failures), f"{refused} refused with a sentence")


def _requests(server: Server, rng: random.Random, ids: list[str]) -> tuple[int, bool]:
    """One hostile request: its status, and whether it had to be refused."""
    paths = ["/api/answers", "/api/undo", "/api/viewing"]
    odd_texts = ["NaN", "\ud800", "x" * 300, "\x00", "<script>", "../../etc/passwd", "", "\u202e"]
    match rng.randrange(7):
        case 0:
            status, _, _ = server.request("GET", rng.choice(_READS), cookie="x=1")
            return status, True
        case 1:
            host = rng.choice(["evil.example", "127.0.0.1.evil.example", "0.0.0.0:1"])
            return server.request("GET", "/api/state", host=host)[0], True
        case 2:
            origin = rng.choice(["http://evil.example", "null", "https://" + server.host])
            return server.request("POST", rng.choice(paths), b"{}", origin=origin)[0], True
        case 3:
            path = rng.choice(["/static/%2e%2e/app.py", "/image/../../etc/passwd", "/image/%00"])
            return server.request("GET", path)[0], True
        case 4:
            body = mutate(json.dumps(_body(rng, ids)).encode(), rng)
            return server.request("POST", rng.choice(paths), body)[0], False
        case 5:
            values: list[object] = [None, 1e400, [], {}, True, -1, 2**70, *odd_texts]
            answers = _body(rng, ids)
            each: Any = answers if rng.random() < 0.5 else answers["answers"][0]
            each[rng.choice([*each, "other"])] = rng.choice(values)
            text = json.dumps(answers).encode()
            return server.request("POST", "/api/answers", text)[0], False
        case _:
            body = b"[" * rng.choice((10, 100_000)) if rng.random() < 0.5 else b"x" * (2**20 + 1)
            return server.request("POST", rng.choice(paths), body)[0], True


_READS = ("/", "/api/state", "/api/queue", "/api/items?ids=a", "/api/search?q=a")


def _body(rng: random.Random, ids: list[str]) -> dict[str, Any]:
    each = {"id": rng.choice(ids), "kind": "label", "label": "no such class", "expected_seq": 0}
    return {"reviewer": "r", "client": "c", "answers": [each]}


def requests(n: int, seed: int) -> Outcome:
    """n hostile requests to a real server: refused with 4xx, never 5xx, and nothing changes."""
    rng, failures, began = random.Random(seed), [], time.monotonic()
    counts: dict[int, int] = {}
    with scratch() as place:
        run = finished_run(place)
        with serving(run) as server:
            ids = [str(i) for i in RunFolder.open(run).catalog.ids]
            before = server.memory()
            for number in range(n):
                status, must_refuse = _requests(server, rng, ids)
                counts[status] = counts.get(status, 0) + 1
                if status >= 500 or (must_refuse and not 400 <= status < 500):
                    failures.append(f"request {number}: {status}")
            grown = server.memory() - before
        if RunFolder.open(run).answers.last_seq():
            failures.append("a refused request changed something")
    shown = ", ".join(f"{status}: {count}" for status, count in sorted(counts.items()))
    figures = f"{shown}; {grown / 1e6:.0f} MB more memory; {time.monotonic() - began:.0f} s"
    return Outcome("hostile requests", n, tuple(failures), figures)
