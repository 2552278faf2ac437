"""The round trip through a real Label Studio server; `make test-interop` installs and names it.

What the server was asked and answered is printed: the log of the round trip.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from surelabel.config.settings import Config
from surelabel.dataset.build import unlabeled_catalog
from surelabel.dataset.labels import attach_labels
from surelabel.dataset.sources import find_images
from surelabel.errors import LabelsError
from surelabel.export.columns import COLUMNS
from surelabel.export.label_studio import LabelStudioOptions
from surelabel.export.writers import export_run
from surelabel.runs.folder import RunFolder

PROGRAM = os.environ.get("SURELABEL_LABEL_STUDIO", "")
OWNER, BOT, TOKEN = "owner@example.org", "surelabel@example.org", "0123456789" * 4
NAMES = ["plain.png", "lot 3/ümlaut & plus+.png", "lot 3/50%#1.png", "deep/er/x.png"]
"""Names whose characters mean something in an address."""

pytestmark = pytest.mark.skipif(not PROGRAM, reason="call make test-interop")


@dataclass
class Server:
    """A running server, whose document root is ``root``."""

    address: str
    root: Path
    log: Path

    def call(self, method: str, path: str, body: object = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.address}{path}", content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                raw: bytes = reply.read()
                kind = reply.headers.get("Content-Type", "")
        except urllib.error.HTTPError as error:
            print(f"{method} {path}: {error.code}")
            raise
        print(f"{method} {path}: {reply.status}, {len(raw):,} bytes of {kind}")
        return json.loads(raw) if "json" in kind else raw


@pytest.fixture(name="server", scope="module")
def fixture_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("label-studio")
    (folder / "root").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = {
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
        "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(folder / "root"),
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder / "data"),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "COLLECT_ANALYTICS": "False",
        "LATEST_VERSION_CHECK": "False",
    }
    command = [PROGRAM, "start", "--no-browser", "--internal-host", "127.0.0.1"]
    command += ["--port", str(port), "--username", OWNER, "--password", "a long secret"]
    command += ["--user-token", TOKEN]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=log, stderr=log, cwd=folder
        )
        try:
            server = Server(f"http://127.0.0.1:{port}", folder / "root", folder / "log")
            _wait(server, process, folder / "log")
            yield server
        finally:
            process.terminate()
            process.wait(60)


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(900):
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            version = server.call("GET", "/api/version")["label-studio-os-package"]["version"]
            print(f"Label Studio {version} on {server.address}")
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(1)
    raise AssertionError(f"no answer in 900 seconds: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(name="run")
def fixture_run(server: Server, tmp_path: Path) -> RunFolder:
    """A run on photographs below the document root: two accepted, two left."""
    photos = server.root / "photos"
    for shade, name in enumerate(NAMES):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 20), (shade * 40, 9, 9)).save(photos / name)
    catalog = unlabeled_catalog(photos, cache=tmp_path / "cache")
    run = RunFolder.create(
        tmp_path / "run", config=Config(cache=str(tmp_path / "cache")), catalog=catalog, about={}
    )
    table = pd.DataFrame({"id": catalog.ids, "path": catalog.paths}).reindex(columns=list(COLUMNS))
    table["guess"] = ["c&t", "dog", "dog", "c&t"]
    table["label"] = ["c&t", "", "", "c&t"]
    table["source"] = ["pseudo", "", "", "pseudo"]
    table["probability"] = [0.99, 0.5, 0.6, 0.98]
    table["mutual_information"] = [0.01, 0.2, 0.7, 0.02]
    table["round"] = 1
    table["reason"] = ""
    run.write_annotations(table, run.result_inputs())
    return run


def export(run: RunFolder, out: Path, options: LabelStudioOptions) -> list[dict[str, Any]]:
    table = run.read_annotations(run.result_inputs())
    assert table is not None
    export_run(run, table, "label-studio", out, label_studio=options)
    tasks: list[dict[str, Any]] = json.loads((out / "tasks.json").read_text(encoding="utf-8"))
    return tasks


def new_project(server: Server, out: Path) -> int:
    config = (out / "labeling-config.xml").read_text(encoding="utf-8")
    project = server.call("POST", "/api/projects", {"title": "round trip", "label_config": config})[
        "id"
    ]
    storage = {"project": project, "path": str(server.root / "photos"), "use_blob_urls": True}
    server.call("POST", "/api/storages/localfiles", storage)
    return int(project)


def annotate(server: Server, task: int, label: str) -> None:
    names = {"from_name": "choice", "to_name": "image", "type": "choices"}
    result = [{"id": "1", **names, "value": {"choices": [label]}}]
    server.call("POST", f"/api/tasks/{task}/annotations/", {"result": result})


def labels_in(run: RunFolder, file: Path, server: Server) -> dict[str, tuple[str, str]]:
    source = attach_labels(find_images(server.root / "photos"), file)
    return {row.key: (row.label, row.annotator) for row in source.label_rows}


def test_the_round_trip_loses_nothing(server: Server, run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "project"
    written = export(run, out, LabelStudioOptions(document_root=server.root))
    project = new_project(server, out)
    imported = server.call("POST", f"/api/projects/{project}/import", written)
    assert (imported["task_count"], imported["prediction_count"]) == (2, 2)
    assert imported["annotation_count"] == 0
    print(f"imported: {imported}")
    assert "validation failed" not in server.log.read_text(errors="replace")

    tasks = server.call("GET", f"/api/tasks?project={project}&fields=all")["tasks"]
    by_order = sorted(tasks, key=lambda task: int(task["id"]))
    paths = [task["data"]["surelabel_path"] for task in by_order]
    useful = dict(zip(run.catalog.paths, [0.01, 0.2, 0.7, 0.02], strict=True))
    assert paths == sorted(paths, key=lambda path: -useful[path]), "most useful first"
    files = dict(zip(run.catalog.paths, run.catalog.files, strict=True))
    for task in by_order:
        path = task["data"]["surelabel_path"]
        assert server.call("GET", task["data"]["image"]) == Path(files[path]).read_bytes()
        assert task["meta"]["mutual_information"] == useful[path]
        assert task["predictions"][0]["score"] == task["meta"]["probability"]
        assert task["predictions"][0]["model_version"].startswith("surelabel-")

    wanted = {}
    for task, label in zip(by_order, ["c&t", "none of these"], strict=True):
        annotate(server, task["id"], label)
        wanted[task["data"]["surelabel_path"]] = (label, "1")
    for kind, ending in (("JSON", "json"), ("JSON_MIN", "json"), ("CSV", "csv"), ("TSV", "tsv")):
        content = server.call("GET", f"/api/projects/{project}/export?exportType={kind}")
        file = tmp_path / f"{kind}.{ending}"
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        assert labels_in(run, file, server) == wanted, kind
        print(f"{kind} read back: {wanted}")


def test_labels_become_annotations_of_an_account_that_is_no_persons(
    server: Server, run: RunFolder, tmp_path: Path
) -> None:
    out = tmp_path / "project"
    written = export(run, out, LabelStudioOptions(server.root, annotate_as=BOT))
    project = new_project(server, out)
    server.call("POST", "/api/users/", {"email": BOT, "username": BOT})
    imported = server.call("POST", f"/api/projects/{project}/import", written)
    assert (imported["task_count"], imported["annotation_count"]) == (4, 2)
    print(f"imported: {imported}")
    tasks = server.call("GET", f"/api/projects/{project}/export?exportType=JSON")
    owner = server.call("GET", "/api/current-user/whoami")["id"]
    assert all(a["completed_by"] != owner for task in tasks for a in task["annotations"])
    file = tmp_path / "all.json"
    file.write_text(json.dumps(tasks))
    with pytest.raises(LabelsError, match="annotate"):
        labels_in(run, file, server)
    annotate(server, tasks[0]["id"], "dog")
    content = server.call("GET", f"/api/projects/{project}/export?exportType=JSON")
    file.write_text(json.dumps(content))
    assert list(labels_in(run, file, server).values()) == [("dog", str(owner))]
    table = server.call("GET", f"/api/projects/{project}/export?exportType=CSV")
    (tmp_path / "all.csv").write_bytes(table)
    with pytest.raises(LabelsError, match="JSON"):
        labels_in(run, tmp_path / "all.csv", server)


def test_an_unknown_account_is_refused_by_the_server(
    server: Server, run: RunFolder, tmp_path: Path
) -> None:
    options = LabelStudioOptions(server.root, annotate_as="nobody@example.org")
    written = export(run, tmp_path / "project", options)
    project = new_project(server, tmp_path / "project")
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.call("POST", f"/api/projects/{project}/import", written)
    assert refused.value.code == 400
    assert b"nobody@example.org" in refused.value.read()


def test_other_addresses_are_found_again(server: Server, run: RunFolder, tmp_path: Path) -> None:
    """Tasks that surelabel did not write: only Label Studio's own link says which image it is."""
    out = tmp_path / "project"
    written = export(run, out, LabelStudioOptions(server.root))
    project = new_project(server, out)
    bare = [{"data": {"image": task["data"]["image"]}} for task in written]
    server.call("POST", f"/api/projects/{project}/import", bare)
    tasks = server.call("GET", f"/api/tasks?project={project}")["tasks"]
    annotate(server, tasks[0]["id"], "dog")
    content = server.call("GET", f"/api/projects/{project}/export?exportType=JSON")
    file = tmp_path / "bare.json"
    file.write_text(json.dumps(content))
    found = labels_in(run, file, server)
    assert list(found.values()) == [("dog", "1")]
    assert set(found) <= set(np.asarray(run.catalog.paths).tolist())
