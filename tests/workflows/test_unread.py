"""Shards and remote images that cannot be read at first: resume takes them up."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from surelabel import api
from surelabel.runs.folder import read_skipped
from surelabel.selftraining.events import Advice
from surelabel.workflows.label import Listeners

sys.path += [str(Path(__file__).parents[1] / name) for name in ("cli", "dataset")]
from cli_files import (
    CLASSES,
    FAST,
    draw_image,
    some,
    write_dataset,
    write_labels,
)
from remote_store import Store, running_store

SETTINGS: dict[str, Any] = {
    "net": "compact",
    "steps": 40,
    "consistency": 0.0,
    "batch_size": 16,
    "members": 1,
    "mc_samples": 2,
    "width": 0.25,
    "threads": 1,
    "max_rounds": 1,
    "accept": "tukey",
}


def heard(events: list[str]) -> Listeners:
    return Listeners(on_event=lambda e: events.append(e.text) if isinstance(e, Advice) else None)


def write_shard(path: Path, number: int, n: int = 24) -> None:
    """Every second sample has a label in a file of its own."""
    rng = np.random.default_rng(number)
    with tarfile.open(path, "w") as archive:
        for i in range(n):
            kind, content = CLASSES[i % 3], io.BytesIO()
            draw_image(kind, rng).save(content, "PNG")
            files = {f"{number}-{i:03d}.png": content.getvalue()}
            if i % 2:
                files[f"{number}-{i:03d}.cls"] = kind.encode()
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def test_a_broken_shard_is_named_and_read_by_resume_once_it_is_mended(tmp_path: Path) -> None:
    shards, cache = tmp_path / "shards", str(tmp_path / "cache")
    shards.mkdir()
    for number in range(3):
        write_shard(shards / f"{number}.tar", number)
    whole = (shards / "1.tar").read_bytes()
    (shards / "1.tar").write_bytes(whole[:600])
    said: list[str] = []
    run = api.label(shards, out=tmp_path / "run", listeners=heard(said), cache=cache, **SETTINGS)
    assert len(run.annotations) == 48
    assert any("1.tar" in text and "resume" in text for text in said)
    assert [path for path, _ in read_skipped(run.folder.skipped_path)] == ["1.tar"]
    before = run.annotations.set_index("id")
    again: list[str] = []
    run.resume(heard(again))
    assert len(run.annotations) == 48, "it is still broken"
    assert any("1.tar" in text for text in again)
    (shards / "1.tar").write_bytes(whole)
    said.clear()
    run.resume(heard(said), max_rounds=2)
    after = run.annotations.set_index("id")
    assert len(after) == 72
    assert any("24" in text for text in said)
    assert read_skipped(run.folder.skipped_path) == []
    given = before[before["source"] == "given"]
    assert (after.loc[given.index, "label"] == given["label"]).all(), "nothing is lost"
    assert int((after["source"] == "given").sum()) == 36
    assert set(after[after["path"].str.startswith("1.tar")]["source"]) >= {"given"}


@pytest.fixture(name="store")
def fixture_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    with running_store() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def test_keys_that_expire_while_a_bucket_is_read(tmp_path: Path, store: Store) -> None:
    truth = write_dataset(tmp_path / "photos", 20)
    address = store.put_folder(tmp_path / "photos", "photos")
    write_labels(tmp_path / "labels.csv", some(truth, 8))
    labels = store.put("labels.csv", (tmp_path / "labels.csv").read_bytes())
    store.put("photos/999.png", b"")
    command = [sys.executable, "-m", "surelabel"]
    options = [*FAST, "--max-rounds", "1", "--cache", str(tmp_path / "cache")]

    def surelabel(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments], cwd=tmp_path, text=True, capture_output=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return " ".join((done.stdout + done.stderr).split())

    store.refuse_after(30)
    refused = subprocess.run(
        [*command, "label", address, "--labels", labels, "--out", "run", *options],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert refused.returncode == 2
    assert "access was refused" in refused.stderr
    assert not (tmp_path / "run").exists()
    store.refuse_after(80)  # the images that were looked at before are not looked at again
    said = surelabel("label", address, "--labels", labels, "--out", "run", *options)
    assert "access was refused" in said
    assert "surelabel resume" in said
    table = pd.read_parquet(tmp_path / "run" / "annotations.parquet")
    assert 24 <= len(table) < 60
    still = surelabel("resume", "run", "--no-report")
    assert "access was refused" in still
    store.refuse_after(float("inf"))
    surelabel("resume", "run", "--no-report", "--max-rounds", "2")
    table = pd.read_parquet(tmp_path / "run" / "annotations.parquet")
    assert len(table) == 60
    assert int((table["source"] == "given").sum()) == 24
    skipped = read_skipped(tmp_path / "run" / "skipped.csv")
    assert skipped == [("999.png", "the file is empty")]
