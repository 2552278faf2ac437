from __future__ import annotations

import csv
import re
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
from review_data import browser_of, reviewing, serving, wait_until
from workflow_data import id_of

from surelabel.api import Run
from surelabel.messages.guarantees import certification_sentences
from surelabel.review import server as review_server
from surelabel.review.app import HERE
from surelabel.review.queue import Task
from surelabel.review.server import Address, ReviewServer
from surelabel.runs.folder import RunFolder

ROOT = Path(__file__).parents[2]


def call(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "surelabel", "review", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_a_blind_check_from_the_command_line_to_a_table(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("file\ndown-09.png\nacross-12.png\n", encoding="utf-8")
    options = ("--blind", "list.csv", "--answers", "answers.csv", "--reviewer", "bob")
    with reviewing(folder.path, *options, cwd=tmp_path) as review:
        client = review.client
        state = client.get("/api/state").json()
        assert (state["blind"], state["reviewer"]) == (True, "bob")
        ids = client.get("/api/queue").json()["ids"]
        one = {"id": ids[0], "kind": "label", "label": "down", "expected_seq": 0}
        client.post("/api/answers", json={"reviewer": "bob", "client": "c1", "answers": [one]})
        printed = review.stop()
        assert review.process.returncode == 0, printed
    assert re.search(r"http://127\.0\.0\.1:\d+/\?token=", printed), "the link for the next reviewer"
    assert "answers.csv" in printed
    assert ids == [id_of(folder, "down-09.png"), id_of(folder, "across-12.png")]
    with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["file"], row["answer"], row["kind"]) == ("down-09.png", "down", "label")


def certify(folder: RunFolder, cwd: Path, answers: slice) -> str:
    """Answer some of the six images to certify on the page; what the command printed."""
    with reviewing(folder.path, "--certify", "6", cwd=cwd) as review:
        ids = review.client.get("/api/queue").json()["ids"]
        assert len(ids) == 6
        for item_id in ids[answers]:
            one = {"id": item_id, "kind": "label", "label": "down", "expected_seq": 0}
            body = {"reviewer": "ann", "client": "c1", "answers": [one]}
            assert review.client.post("/api/answers", json=body).status_code == 200
        printed = review.stop()
        assert review.process.returncode == 0, printed
    return printed


def test_certify_labels_from_the_page_to_the_promise(folder: RunFolder, tmp_path: Path) -> None:
    printed = certify(folder, tmp_path, slice(0, 2))
    assert "2 of 6" in printed
    assert not folder.read_certifications()
    printed = certify(folder, tmp_path, slice(2, 6))
    (record,) = folder.read_certifications()
    assert len(record["certify_ids"]) == 6
    assert certification_sentences(Run(folder.path).summary)[0] in printed
    assert (folder.path / "report.html").is_file()


@pytest.mark.parametrize(("options", "opened"), [([], True), (["--no-browser"], False)])
def test_the_page_opens_by_itself_unless_told_not_to(
    folder: RunFolder, tmp_path: Path, options: list[str], opened: bool
) -> None:
    note = tmp_path / "opened"
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {note}\n', encoding="utf-8")
    script.chmod(0o755)
    with reviewing(folder.path, *options, cwd=tmp_path, browser=str(script)) as review:
        if opened:
            wait_until(lambda: note.exists() and note.read_text().strip() == review.link)
        else:
            assert review.client.get("/api/state").status_code == 200
            assert not note.exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--audit", "3", "--certify", "3"], ["--audit", "--certify", "--blind"]),
        (["--host", "0.0.0.0"], ["--host 0.0.0.0", "--expose"]),
        (["--answers", "a.csv"], ["--answers", "--blind"]),
        (["--blind", "nowhere.csv"], ["nowhere.csv"]),
        (["--reviewer", "a\x1b]0;x\x07"], ["--reviewer", "U+001B"]),
        (["--reviewer", "a" * 61], ["--reviewer", "60"]),
    ],
)
def test_options_that_cannot_be_used_are_named(
    folder: RunFolder, tmp_path: Path, options: list[str], named: list[str]
) -> None:
    done = call(folder.path, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert all(each in done.stderr for each in named)
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


def test_a_restarted_server_takes_the_same_port_and_a_second_another(folder: RunFolder) -> None:
    with serving(folder) as first:
        port = first.root
        with serving(folder) as second:
            assert second.root != port
    with serving(folder) as again:
        assert again.root == port


def test_the_browser_asks_whether_an_image_is_still_the_same(folder: RunFolder) -> None:
    ids = folder.catalog.ids.tolist()
    with serving(folder) as server, browser_of(server) as client:
        one, other = (client.get(f"/image/{item_id}?side=256") for item_id in ids[:2])
        assert one.headers["cache-control"] == "private, no-cache"
        for tag, status in ((one.headers["etag"], 304), (other.headers["etag"], 200)):
            response = client.get(f"/image/{ids[0]}?side=256", headers={"if-none-match": tag})
            assert response.status_code == status
            assert bool(response.content) == (status == 200)


def test_a_wider_binding_warns(folder: RunFolder) -> None:
    printed: list[str] = []
    server = ReviewServer(folder, Task(), Address("0.0.0.0", exposed=True), printed.append)
    assert "0.0.0.0" in printed[0]
    assert "not encrypted" in printed[0]
    assert server.link in printed[1]
    assert "127.0.0.1" not in server.link
    server.stop()
    server.run()


def test_the_page_is_part_of_the_package() -> None:
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = facts["tool"]["setuptools"]["package-data"]["surelabel"]
    shipped = {file for pattern in patterns for file in HERE.parent.glob(pattern)}
    page = {file for folder in ("static", "templates") for file in (HERE / folder).rglob("*")}
    assert {file for file in page if file.is_file()} <= shipped
    assert len(page) >= 12


def test_review_needs_no_torch() -> None:
    program = "import sys, surelabel.review.server; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_response_does_not_wait_for_its_first_half_to_be_acknowledged(folder: RunFolder) -> None:
    """On a kept connection, as browsers have one, that costs 40 ms per request."""
    seconds = []
    with serving(folder) as server, browser_of(server) as client:
        for _ in range(30):
            began = time.perf_counter()
            assert client.post("/api/viewing", json={"client": "c1"}).status_code == 200
            seconds.append(time.perf_counter() - began)
    assert min(seconds[10:]) < 0.035


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
@pytest.mark.parametrize("used", [False, True])
def test_a_connection_without_a_whole_request_is_closed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, begun: bytes, used: bool
) -> None:
    monkeypatch.setattr(review_server, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(review_server, "KEEP_SECONDS", 1)
    with serving(folder) as server:
        address = urlsplit(server.root)
        with socket.create_connection((address.hostname, address.port), timeout=20) as slow:
            if used:
                slow.sendall(f"GET /static/x HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
                assert b"404" in slow.recv(65536)
            slow.sendall(begun)
            while slow.recv(65536):
                pass
        with browser_of(server) as client:
            assert client.get("/api/state").status_code == 200


def own_address() -> str:
    """An address of this machine that others could reach; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def test_an_exposed_page_listens_where_it_says_and_demands_a_link_from_everybody(
    folder: RunFolder, tmp_path: Path
) -> None:
    host = own_address()
    if not host or host.startswith("127."):
        pytest.skip("this machine has no address besides its own loopback")
    with reviewing(folder.path, "--host", host, "--expose", cwd=tmp_path) as review:
        port = urlsplit(review.link).port
        assert port is not None
        assert review.link.startswith(f"http://{host}:{port}/?token=")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)
        root = f"http://{host}:{port}"
        for path in ("/", "/api/state", "/api/gallery", "/api/map/points", "/?token=guess"):
            assert httpx.get(f"{root}{path}").status_code == 403, path
        assert httpx.post(f"{root}/api/answers", json={}).status_code == 403
        assert review.client.get("/api/state").status_code == 200
        rebound = {"host": f"evil.example:{port}"}
        assert review.client.get("/api/state", headers=rebound).status_code == 421
        elsewhere = {"origin": "http://evil.example"}
        assert review.client.post("/api/map", headers=elsewhere).status_code == 403
        used = httpx.get(review.link)
        assert used.status_code == 403, "a link works once"
        assert "not encrypted" in review.begun
        assert host in review.begun
