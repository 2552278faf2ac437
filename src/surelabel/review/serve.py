"""The server of the review page: from a run to an address that a person can open."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

import uvicorn

from surelabel.catalog.decode import strict_pillow
from surelabel.errors import InputError, OptionError
from surelabel.review.app import build_app
from surelabel.review.desk import Task
from surelabel.review.room import Room
from surelabel.review.security import LOOPBACK_NAMES, Keys, is_loopback
from surelabel.runs import RunFolder

WARNING = (
    "Warning: everyone who can reach {host} and learns a link can see the images and change "
    "labels, and what travels is not encrypted. Do this in a network you trust only."
)


@dataclass(frozen=True)
class Address:
    """Where to listen. Anything but this machine itself needs ``exposed``."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    exposed: bool = False
    names: tuple[str, ...] = field(default_factory=tuple)
    """Other names under which the server may be asked."""

    def check(self) -> None:
        """Raise a sentence for an address that others can reach without having been asked for."""
        if not is_loopback(self.host) and not self.exposed:
            raise OptionError(
                f"--host {self.host} lets other machines in: add --expose if you mean it."
            )


class _Server(uvicorn.Server):
    """Ends the streams of open pages first; otherwise they would keep the server alive."""

    def __init__(self, config: uvicorn.Config, room: Room) -> None:
        super().__init__(config)
        self._room = room

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._room.hub.close()
        super().handle_exit(sig, frame)


def serve(
    folder: RunFolder,
    task: Task,
    address: Address,
    say: Callable[[str], None],
    reviewer: str = "",
) -> None:
    """Serve the page until ctrl-C; ``say`` gets the link, and a new one when it has been used."""
    address.check()
    listener = _listen(address)
    port = int(listener.getsockname()[1])
    shown = f"[{address.host}]" if ":" in address.host else address.host
    if address.host in {"0.0.0.0", "::"}:
        shown = socket.gethostname()
    root = f"http://{shown}:{port}/"
    room = Room(folder, task, reviewer)
    keys = Keys(lambda token: say(f"Another browser or reviewer: {root}?token={token}"))
    hosts = LOOPBACK_NAMES | {shown, *address.names}
    app = build_app(
        room,
        keys,
        cookie=f"surelabel-{port}",
        hosts=hosts,
        any_address=not is_loopback(address.host),
    )
    if not is_loopback(address.host):
        say(WARNING.format(host=address.host))
    say(f"Review {folder.path} at {root}?token={keys.token}")
    say("The link works once. Stop with ctrl-C; every answer is on disk already.")
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=5,
    )
    with strict_pillow(), listener, contextlib.suppress(KeyboardInterrupt):
        _Server(config, room).run(sockets=[listener])


def default_reviewer() -> str:
    """The name of the person at this machine, as far as the system knows it."""
    return os.environ.get("USER", "") or os.environ.get("LOGNAME", "")


def _listen(address: Address) -> socket.socket:
    """A listening socket: pages that open the link at once wait instead of failing."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"{address.host}:{address.port} cannot be used ({error.strerror}): give another --port."
        ) from error
    listener.listen(128)
    return listener
