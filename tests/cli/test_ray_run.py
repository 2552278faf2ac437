"""Whole runs on Ray by the command line: a driver that is killed, a cluster that is joined."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from cli_files import FAST, some, write_dataset, write_labels

if find_spec("ray") is None:  # importing it here would be too early for a cluster on loopback
    pytest.skip("the engine ray is not installed: make test-ray", allow_module_level=True)
COMMAND = [sys.executable, "-m", "surelabel"]


@pytest.mark.slow
def test_a_run_whose_driver_is_killed_is_resumed(tmp_path: Path) -> None:
    truth = write_dataset(tmp_path / "photos", 30)
    write_labels(tmp_path / "labels.csv", some(truth, 8))
    environment = {**os.environ, "SURELABEL_CHECKPOINT_SECONDS": "0.2"}
    options = [*FAST, "--steps", "2000", "--max-rounds", "1", "--cache", str(tmp_path / "cache")]
    options += ["--engine", "ray", "--ray-workers", "2"]
    label = [*COMMAND, "label", "photos", "--labels", "labels.csv", "--out", "run", *options]
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(label, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        deadline = time.monotonic() + 400
        while not list((tmp_path / "cache" / "ray").glob("*/checkpoint.safetensors")):
            assert run.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert not list((tmp_path / "run" / "rounds").glob("00?")), "the round was under way"
    time.sleep(5)  # Ray notices that its driver is gone
    done = subprocess.run(
        [*COMMAND, "resume", "run", "--no-report"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(tmp_path / "run" / "annotations.parquet")
    assert len(table) == 90
    guessed = table[table["guess"] != ""]
    assert (guessed["guess"] == guessed["path"].map(truth)).mean() > 0.7
    assert list((tmp_path / "cache" / "ray").iterdir()) == [], "nothing is left of the attempt"


CLUSTER = """
import os, sys, ray
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
print("address", ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_run_and_its_prediction_join_a_cluster(tmp_path: Path) -> None:
    truth = write_dataset(tmp_path / "photos", 30)
    write_labels(tmp_path / "labels.csv", some(truth, 8))
    loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "GLOO_SOCKET_IFNAME": "lo"}
    priority = {"RAY_worker_niceness": "0"}  # otherwise they starve on a busy machine
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = {**os.environ, **loopback, **priority, **token}
    cluster = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert cluster.stdout is not None
    address = next(line for line in cluster.stdout if line.startswith("address")).split()[1]
    options = [*FAST, "--steps", "60", "--max-rounds", "2", "--cache", "cache", "--engine", "ray"]
    label = ["label", "photos", "--labels", "labels.csv", "--out", "run", *options]
    try:
        for arguments in (
            [*label, "--ray-address", address],
            ["predict", "run", "photos", "--out", "new.csv"],
        ):
            done = subprocess.run(
                [*COMMAND, *arguments],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=400,
            )
            assert done.returncode == 0, done.stderr
        assert cluster.poll() is None, "it is left running"
    finally:
        cluster.communicate("")
    assert len(list((tmp_path / "run" / "rounds").glob("00?"))) == 2
    predicted = pd.read_csv(tmp_path / "new.csv")
    assert (predicted["guess"] == predicted["path"].map(truth)).mean() > 0.7
