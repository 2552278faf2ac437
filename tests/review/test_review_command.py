from __future__ import annotations

import csv
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from review_data import browser_of, reviewing, serving
from workflow_data import id_of

from surelabel.api import Run
from surelabel.messages.guarantees import promise_sentences
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
        said = review.stop()
        assert review.process.returncode == 0, said
    assert "Another browser or reviewer: http://127.0.0.1:" in said
    assert "Wrote 1 answer to" in said
    assert ids == [id_of(folder, "down-09.png"), id_of(folder, "across-12.png")]
    with (tmp_path / "answers.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["file"], row["answer"], row["kind"]) == ("down-09.png", "down", "label")


def certify(folder: RunFolder, cwd: Path, answers: slice) -> str:
    """Answer some of the six images to certify on the page; what the command said."""
    with reviewing(folder.path, "--certify", "6", cwd=cwd) as review:
        ids = review.client.get("/api/queue").json()["ids"]
        assert len(ids) == 6
        for item_id in ids[answers]:
            one = {"id": item_id, "kind": "label", "label": "down", "expected_seq": 0}
            body = {"reviewer": "ann", "client": "c1", "answers": [one]}
            assert review.client.post("/api/answers", json=body).status_code == 200
        said = review.stop()
        assert review.process.returncode == 0, said
    return said


def test_certify_labels_from_the_page_to_the_promise(folder: RunFolder, tmp_path: Path) -> None:
    said = certify(folder, tmp_path, slice(0, 2))
    assert "2 of 6 answered; nothing was compared yet" in said
    assert not folder.read_certifications()
    said = certify(folder, tmp_path, slice(2, 6))
    assert "6 images certify now." in said
    (look,) = folder.read_certifications()
    assert len(look["certify"]) == 6
    assert promise_sentences(Run(folder.path).summary)[0] in said
    assert (folder.path / "report.html").is_file()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--audit", "3", "--certify", "3"], "Give one of --audit, --certify and --blind"),
        (["--host", "0.0.0.0"], "add --expose if you mean it"),
        (["--answers", "a.csv"], "--answers belongs to --blind"),
        (["--blind", "nowhere.csv"], "cannot be read"),
    ],
)
def test_options_that_cannot_be_used_end_in_a_sentence(
    folder: RunFolder, tmp_path: Path, options: list[str], problem: str
) -> None:
    done = call(folder.path, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_started_anew_is_where_it_was_and_two_at_once_are_apart(folder: RunFolder) -> None:
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
            told = client.get(f"/image/{ids[0]}?side=256", headers={"if-none-match": tag})
            assert told.status_code == status
            assert bool(told.content) == (status == 200)


def test_a_wider_binding_warns(folder: RunFolder) -> None:
    said: list[str] = []
    server = ReviewServer(folder, Task(), Address("0.0.0.0", exposed=True), said.append)
    assert "Do this in a network you trust only" in said[0]
    assert server.link in said[1]
    assert "127.0.0.1" not in server.link
    server.stop()
    server.run()


def test_the_page_is_part_of_the_package() -> None:
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = facts["tool"]["setuptools"]["package-data"]["surelabel"]
    shipped = {file for pattern in patterns for file in HERE.parent.glob(pattern)}
    page = {file for folder in ("static", "templates") for file in (HERE / folder).rglob("*")}
    assert {file for file in page if file.is_file()} <= shipped
    assert len(page) > 15


def test_review_needs_no_torch() -> None:
    program = "import sys, surelabel.review.server; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
