"""A real S3-compatible server on loopback, for tests that read from a store."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUCKET = "surelabel-tests"
KEYS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Store:
    """The server, as its owner sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": url}

    def put(self, key: str, content: bytes) -> str:
        """Store an object; returns its address."""
        self._client().put_object(Bucket=BUCKET, Key=key, Body=content)
        return f"s3://{BUCKET}/{key}"

    def put_folder(self, folder: Path, prefix: str) -> str:
        """Store all files below ``folder``; returns the address of the remote folder."""
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            self.put(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"s3://{BUCKET}/{prefix}"

    def delete(self, key: str) -> None:
        self._client().delete_object(Bucket=BUCKET, Key=key)

    def refuse_after(self, n_requests: float) -> None:
        """Refuse the keys of the tests after so many more requests: they have expired."""
        data = str(n_requests).encode()
        address, kind = f"{self.url}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        request = urllib.request.Request(address, data, kind, method="POST")
        urllib.request.urlopen(request).close()

    def _client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id="owner",
            aws_secret_access_key="owner",
            region_name="us-east-1",
        )


@contextmanager
def running_store() -> Iterator[Store]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(command, env={**os.environ, **KEYS}, **quiet)  # type: ignore[call-overload]
    try:
        store = Store(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{store.url}/moto-api/data.json").close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.1)
        store._client().create_bucket(Bucket=BUCKET)
        yield store
    finally:
        server.kill()
        server.wait()
