"""Hostile archives and addresses: bombs, links, lies about sizes, servers that lead elsewhere."""

from __future__ import annotations

import contextlib
import http.server
import io
import random
import resource
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from PIL import Image

from faults.hostile import mutate
from faults.inject import run_child
from faults.scene import Outcome, make_scene, scratch, write_photos
from surelabel.dataset.labels import attach_labels
from surelabel.dataset.pixels import read_catalog
from surelabel.dataset.sources import find_images
from surelabel.errors import SurelabelError
from surelabel.types import no_progress

SECRET = b"kept-to-myself"
_END = bytes(1024)
_MOST_MEMORY = 300 * 2**20
_MOST_SECONDS = 30.0


def _png(shade: int = 9, side: int = 8) -> bytes:
    file = io.BytesIO()
    Image.new("L", (side, side), shade).save(file, "PNG")
    return file.getvalue()


def _member(name: str, content: bytes = b"", **facts: object) -> bytes:
    """One file of an archive; ``facts`` of its header may be lies."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for fact, value in facts.items():
        setattr(info, fact, value)
    return info.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % 512)


def _with_holes(name: str, claimed: int) -> bytes:
    """A file of 512 bytes in the archive that claims to be much larger."""
    info = tarfile.TarInfo(name)
    info.size, info.type = 512, tarfile.GNUTYPE_SPARSE
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[386:398], head[398:410] = b"%011o\0" % (claimed - 512), b"%011o\0" % 512
    head[483:495] = b"%011o\0" % claimed
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + bytes(512)


def _archives() -> dict[str, bytes]:
    """Archives that a good image begins, and what comes after it."""
    bomb = _png(side=12_000)
    sparse = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "b.png"}
    after = {
        "names that lead elsewhere": b"".join(
            _member(name, _png(i))
            for i, name in enumerate(("../up.png", "/abs.png", "x/../../up.png", "..\\up.png"))
        ),
        "a name that leads elsewhere in a long header": _member(
            "b.png", _png(), pax_headers={"path": "../../up.png"}
        ),
        "links": _member("link.png", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        + _member("hard.png", type=tarfile.LNKTYPE, linkname="../outside/secret.txt")
        + _member("link.cls", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        "devices": _member("device.png", type=tarfile.CHRTYPE, devmajor=1, devminor=5)
        + _member("fifo.png", type=tarfile.FIFOTYPE),
        "a folder": _member("folder.png", type=tarfile.DIRTYPE),
        "holes of 4 GB": _with_holes("b.png", 2**32),
        "holes of 8 GB, by name": _member(
            "b.png",
            b"1\n0\n512\n".ljust(512, b"\0"),
            pax_headers={**sparse, "GNU.sparse.realsize": str(2**33)},
        ),
        "a size that is not there": _member("b.png", size=2**33),
        "an absurd size": _member("b.png", size=2**62),
        "a negative size": _member("b.png", _png(), pax_headers={"size": "-512"}),
        "a long name": _member("n" * 2**20 + ".png", _png()),
        "odd names": _member("line\nbreak\x1b[31m.png", _png(1))
        + _member("\u202egnp.png", _png(2)),
        "many of one name": _member("b.png", _png()) * 500,
        "144 million pixels": _member("b.png", bomb),
        "deep JSON": _member("good.json", b"[" * 900_000),
        "a huge label": _member("good.cls", b"x" * 2**21),
        "an archive in an archive": _member("b.tar", _member("c.png", _png()) + _END),
        "no end": b"",
    }
    good = _member("good.png", _png(77, 20))
    return {name: good + each + (_END if name != "no end" else b"") for name, each in after.items()}


def shards(n: int, seed: int) -> Outcome:
    """n mutated archives beside special ones: read or told, in bounds of memory and time."""
    rng, failures, reported = random.Random(seed), [], 0
    special = _archives()
    whole = b"".join(_member(f"{i}.png", _png(i)) + _member(f"{i}.cls", b"a") for i in range(6))
    with scratch() as place:
        (place / "outside").mkdir()
        (place / "outside" / "secret.txt").write_bytes(SECRET)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tar = place / "shards" / "a.tar"
        tar.parent.mkdir()
        mutated = {f"mutated {i}": mutate(whole + _END, rng) for i in range(n)}
        for name, content in {**special, **mutated}.items():
            tar.write_bytes(content)
            began = time.monotonic()
            try:
                source = find_images(tar.parent, place / "cache")
                catalog = read_catalog(source, place / "cache", no_progress)
                reported += len(catalog.skipped)
                if name in special and "a.tar/good.png" not in catalog.paths.tolist():
                    failures.append(f"{name}: the good image was left out")
                failures += [f"{name}: {p!r}" for p in catalog.paths.tolist() if ".." in p[:10]]
            except SurelabelError as error:
                if name in special or ("a.tar" not in str(error) and "shards" not in str(error)):
                    failures.append(f"{name}: {error}")
            except Exception as error:
                failures.append(f"{name}: {type(error).__name__}: {error}")
            grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak)
            if grown > _MOST_MEMORY or time.monotonic() - began > _MOST_SECONDS:
                failures.append(f"{name}: {grown / 1e6:.0f} MB, {time.monotonic() - began:.0f} s")
        failures += _a_whole_run(place)
        unknown = {p.name for p in place.iterdir()} - _KNOWN
        failures += [f"{name}: appeared outside" for name in unknown]
    figures = f"{reported:,} reported; {grown / 2**20:.0f} MB more memory"
    return Outcome("tar archives", len(special) + n, tuple(failures), figures)


_KNOWN = {"outside", "shards", "cache", "photos", "labels.csv", "more.csv", "settings.toml"}
_KNOWN |= {"run", "exported"}


def _a_whole_run(place: Path) -> Iterator[str]:
    """Label and export images of an archive whose names lead elsewhere."""
    out = make_scene(place)
    tar = place / "shards" / "a.tar"
    files = sorted((place / "photos").iterdir())
    parts = [_archives()["names that lead elsewhere"][: -len(_END)], _archives()["links"][:-1024]]
    for number, path in enumerate(files):
        parts.append(_member(f"sub/../{path.name}" if number % 2 else path.name, path.read_bytes()))
        if number % 3 == 0:
            parts.append(_member(f"{path.stem}.cls", path.stem.partition("-")[0].encode()))
    tar.write_bytes(b"".join([*parts, _END]))
    words = ["label", tar.parent, "--out", out, "--config", place / "settings.toml", "--quiet"]
    ended = run_child([*map(str, words)])
    if ended.code:
        yield f"label: {ended.code}: {ended.output[-300:]}"
        return
    words = ["export", out, "--to", "folder", "--out", place / "exported"]
    ended = run_child([*map(str, words)])
    if ended.code:
        yield f"export: {ended.code}: {ended.output[-300:]}"
    for folder in (out, place / "exported", place / "cache"):
        for path in folder.rglob("*"):
            if path.is_file() and SECRET in path.read_bytes():
                yield f"{path.relative_to(place)} holds what a text file holds"


_ODD_ADDRESSES = (
    "file://{place}/outside/image.png",
    "FILE://{place}/outside",
    "local://{place}/outside",
    "file://localhost{place}/outside",
    "dir://{place}/outside",
    "zip://x.png::file://{place}/a.zip",
    "simplecache::file://{place}/outside",
    "simplecache://{place}/outside",
    "filecache://{place}/outside",
    "reference://{place}/outside",
    "memory://../../../..{place}/outside",
    "ssh://127.0.0.1:1/x",
    "ftp://127.0.0.1:1/x",
    "webhdfs://127.0.0.1:1/x",
    "http://127.0.0.1:1/x/",
    "http://127.0.0.1:99999/x/",
    "http://[::1/x/",
    "http:///x/",
    "http://127.0.0.1:1\r\nHost: evil/x/",
    "python://os.system",
    "://x",
    "s3://",
    "a" * 300 + "://x",
)


class _Hostile(http.server.BaseHTTPRequestHandler):
    """Answers each address in another bad way."""

    place: Path
    elsewhere: str

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.strip("/").partition("/")[0]
        match path:
            case "to-a-file":
                self._redirect(f"file://{self.place}/outside/image.png")
            case "to-itself":
                self._redirect(self.path)
            case "to-a-scheme":
                self._redirect("javascript:alert(1)")
            case "links" if self.path.rstrip("/") == "/links":
                links = (
                    f"file://{self.place}/outside/image.png",
                    f"{self.elsewhere}/other.png",
                    "../up.png",
                    "%2e%2e/up.png",
                    "..%2fup.png",
                    "a.png",
                    "javascript:b.png",
                    "n" * 3000 + ".png",
                )
                page = "".join(f'<a href="{link}">{link}</a>' for link in links)
                self._send(page.encode(), "text/html")
            case "links" if self.path == "/links/a.png":
                self._send(_png(), "image/png")
            case "short":
                self._send(b"path,label\n", "text/csv", claimed=5000)
            case "no-length":
                self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\npath,label\nx.png,a\n")
            case "garbage":
                self.wfile.write(b"\x00\xff garbage \r\n\r\n")
            case "negative":
                self._send(b"path,label\n", "text/csv", claimed=-5)
            case "local-files" | "local-paths" | "local-names":
                scheme = {"local-files": "file://", "local-names": "local://"}.get(path, "")
                text = f"path,label\n{scheme}{self.place}/outside/image.png,a\n"
                self._send(text.encode(), "text/csv")
            case _:
                self.send_error(500 if path == "error" else 404)

    def _redirect(self, to: str) -> None:
        self.send_response(302)
        self.send_header("Location", to)
        self.end_headers()

    def _send(self, content: bytes, kind: str, claimed: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content) if claimed is None else claimed))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: every request here is meant to fail."""


_PATHS: tuple[str, ...] = (
    "to-a-file",
    "to-itself",
    "to-a-scheme",
    "links",
    "short",
    "no-length",
    "garbage",
)
_PATHS += ("negative", "local-files", "local-names", "local-paths", "error", "gone")


@contextlib.contextmanager
def _server(place: Path) -> Iterator[tuple[str, list[str]]]:
    """A hostile server on loopback, and what another one, that it points to, was asked for."""
    asked: list[str] = []

    class Elsewhere(_Hostile):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with contextlib.ExitStack() as running:

        def begin(handler: type[http.server.BaseHTTPRequestHandler]) -> str:
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
            running.enter_context(server)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            running.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        _Hostile.place, _Hostile.elsewhere = place, begin(Elsewhere)
        yield begin(_Hostile), asked


def addresses(seed: int) -> Outcome:
    """Odd addresses as images, as labels and in tables: a sentence, and no file of this machine."""
    failures: list[str] = []
    with scratch() as place, _server(place) as (server, asked):
        outside = place / "outside"
        outside.mkdir()
        (outside / "image.png").write_bytes(_png(200, 30))
        write_photos(place / "photos", 2)
        odd = [each.format(place=place) for each in _ODD_ADDRESSES]
        odd += [f"{server}/{path}{end}" for path in _PATHS for end in ("/", "/a.csv", "/a.tar")]
        random.Random(seed).shuffle(odd)
        for address in odd:
            for read in (_as_images, _as_labels, _in_a_table):
                failures += _is_told(address, partial(read, address, place))
        if asked:
            failures.append(f"a page led to another server: {asked[:3]}")
    figures = "each a sentence, or images reported"
    return Outcome("odd addresses", 3 * len(odd), tuple(failures), figures)


def _as_images(address: str, place: Path) -> list[str]:
    catalog = read_catalog(find_images(address, place / "cache"), place / "cache", no_progress)
    return [str(file) for file in catalog.files]


def _as_labels(address: str, place: Path) -> list[str]:
    return list(attach_labels(find_images(place / "photos"), address).files)


def _in_a_table(address: str, place: Path) -> list[str]:
    table = place / "table.csv"
    table.write_text(f'path,label\n"{address}",a\n', encoding="utf-8", newline="")
    return _as_images(str(table), place)


def _is_told(address: str, read: Callable[[], list[str]]) -> Iterator[str]:
    """What is wrong with what came of an address; local files may be named by local tables."""
    began = time.monotonic()
    try:
        led = [file for file in read() if "outside" in file]
        if led and address.startswith("http"):
            yield f"{address[:80]} led to {led[0]}"
    except SurelabelError as error:
        if len(str(error)) > 8000 or "Traceback" in str(error):
            yield f"{address[:80]}: {str(error)[:200]}"
    except Exception as error:
        yield f"{address[:80]}: {type(error).__name__}: {error}"
    if time.monotonic() - began > _MOST_SECONDS:
        yield f"{address[:80]}: {time.monotonic() - began:.0f} s"
