from __future__ import annotations

import json
import os
import queue
import threading
from pathlib import Path

import pytest
from review_data import browser_of, serving

from surelabel.errors import RunLockedError
from surelabel.review.training import Status, TrainingProcess, _Reporter
from surelabel.runs.folder import RunFolder
from surelabel.types import Progress


def test_rounds_run_in_the_background_and_pages_get_events(folder: RunFolder) -> None:
    events: queue.Queue[tuple[str, dict[str, object]]] = queue.Queue()
    with serving(folder) as server, browser_of(server) as client:
        ids = client.get("/api/queue").json()["ids"]
        one = {"id": ids[0], "kind": "label", "label": "down", "expected_seq": 0}
        body = {"reviewer": "ann", "client": "c1", "answers": [one]}

        def listen() -> None:
            with browser_of(server) as other, other.stream("GET", "/api/events") as stream:
                name = ""
                for line in stream.iter_lines():
                    if line.startswith("event: "):
                        name = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        events.put((name, json.loads(line.removeprefix("data: "))))

        thread = threading.Thread(target=listen)
        thread.start()
        assert events.get(timeout=60)[0] == "hello"
        client.post("/api/answers", json=body)
        name, values = events.get(timeout=60)
        assert (name, values["client"]) == ("answers", "c1")
        assert client.post("/api/train").json()["state"] == "running"
        assert client.post("/api/train").status_code == 422
        late = {**body, "answers": [{**one, "id": ids[1]}]}
        assert client.post("/api/answers", json=late).status_code == 200
        seen: list[tuple[str, dict[str, object]]] = []
        while not any(values.get("state") == "finished" for _, values in seen):
            seen.append(events.get(timeout=240))
        while seen[-1][0] != "queue":
            seen.append(events.get(timeout=60))
        assert "queue" in [name for name, _ in seen]
        now = client.get("/api/queue").json()["ids"]
        assert client.get("/api/state").json()["rounds"] == 2
        server.stop()
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert ids[0] not in now
    last = folder.last_round()
    assert last is not None
    assert last.metrics["n_human"] == 11
    assert folder.answers.standing()[ids[1]].label == "down"


def test_training_that_cannot_start_fails_with_a_reason(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('a file of the user was run')\n")
    monkeypatch.chdir(tmp_path)
    running: dict[str, bool] = {}
    ended = threading.Event()

    def record(status: Status) -> None:
        running[status.state] = trainer.running

    trainer = TrainingProcess(folder.path, record, ended.set)
    with folder.lock():
        trainer.start(0)
        with pytest.raises(RunLockedError):
            trainer.start(0)
        assert ended.wait(timeout=240)
    trainer.close()
    assert trainer.status.state == "failed"
    assert str(os.getpid()) in trainer.status.text
    assert running == {"running": True, "failed": False}, "the next can be started"


def test_a_step_is_told_with_its_units(capsys: pytest.CaptureFixture[str]) -> None:
    _Reporter().on_progress(Progress("features (4.0 MB)", 1, 2))
    status = json.loads(capsys.readouterr().out)
    assert status["text"].startswith("Features (4.0 MB)")


def test_a_process_that_dies_is_reported(folder: RunFolder) -> None:
    statuses: list[Status] = []
    trainer = TrainingProcess(folder.path / "nowhere", statuses.append, lambda: None)
    trainer.start(0)
    trainer.close()
    assert statuses[0].state == "running"
    assert statuses[-1].state in {"failed", "stopped"}
