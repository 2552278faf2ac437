"""The server of the review page: from a run to an address that a person can open."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from surelabel.dataset.decode import strict_pillow
from surelabel.errors import InputError, OptionError
from surelabel.review.app import build_app
from surelabel.review.queue import Task
from surelabel.review.security import LOOPBACK_NAMES, Keys, is_loopback
from surelabel.review.session import ReviewSession
from surelabel.runs.folder import RunFolder
from surelabel.types import derive_seed

_OWN_PORTS = (20_000, 10_000)
"""The first of them and their number: below those that systems give to outgoing connections."""
WARNING = (
    "Warning: everyone who can reach {host} and learns a link can see the images and change "
    "labels, and what travels is not encrypted. Do this in a network you trust only."
)


@dataclass(frozen=True)
class Address:
    """Where to listen. Anything but this machine itself needs ``exposed``."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes one of the run's own, so that a page finds a server that was started anew; or, where
    that is taken, a free one."""
    exposed: bool = False
    names: tuple[str, ...] = field(default_factory=tuple)
    """Other names under which the server may be asked."""

    def check(self) -> None:
        """Raise a sentence for an address that others can reach without having been asked for."""
        if not is_loopback(self.host) and not self.exposed:
            raise OptionError(
                f"--host {self.host} lets other machines in: add --expose if you mean it."
            )


class ReviewServer:
    """The page of one task at one address. Listens from the start; answers once it runs."""

    def __init__(
        self,
        folder: RunFolder,
        task: Task,
        address: Address,
        say: Callable[[str], None],
        reviewer: str = "",
    ) -> None:
        address.check()
        self._listener = _listen(address, str(folder.path.resolve()))
        self.session = ReviewSession(folder, task, reviewer)
        self.root = f"http://{_shown(address)}:{self._listener.getsockname()[1]}/"
        self.keys = Keys(lambda _: say(f"Another browser or reviewer: {self.link}"))
        open_to_all = not is_loopback(address.host)
        app = build_app(
            self.session,
            self.keys,
            cookie=f"surelabel-{self._listener.getsockname()[1]}",
            hosts=LOOPBACK_NAMES | {_shown(address), *address.names},
            any_address=open_to_all,
        )
        self._server = _Server(_settings(app), self.session)
        if open_to_all:
            say(WARNING.format(host=address.host))
        say(f"Review {folder.path} at {self.link}")
        say("The link works once. Stop with ctrl-C; every answer is on disk already.")

    @property
    def link(self) -> str:
        """The address with the token that works next."""
        return f"{self.root}?token={self.keys.token}"

    def run(self) -> None:
        """Answer until ``stop``, ctrl-C or a signal to end."""
        with self._listener, contextlib.suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        """Let ``run`` end, from another thread."""
        self.session.hub.close()
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """Ends the streams of open pages first; otherwise they would keep the server alive."""

    def __init__(self, config: uvicorn.Config, session: ReviewSession) -> None:
        super().__init__(config)
        self._session = session

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._session.hub.close()
        super().handle_exit(sig, frame)


def serve(
    folder: RunFolder,
    task: Task,
    address: Address,
    say: Callable[[str], None],
    reviewer: str = "",
) -> None:
    """Serve the page until ctrl-C; ``say`` gets the link, and a new one when it has been used."""
    with strict_pillow():
        ReviewServer(folder, task, address, say, reviewer).run()


def _settings(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=5,
    )


def _shown(address: Address) -> str:
    """The host as it stands in a link."""
    if address.host in {"0.0.0.0", "::"}:
        return socket.gethostname()
    return f"[{address.host}]" if ":" in address.host else address.host


def default_reviewer() -> str:
    """The name of the person at this machine, as far as the system knows it."""
    return os.environ.get("USER", "") or os.environ.get("LOGNAME", "")


def _listen(address: Address, run: str) -> socket.socket:
    """A listening socket: pages that open the link at once wait instead of failing."""
    if address.port == 0:
        first, n = _OWN_PORTS
        with contextlib.suppress(InputError):
            return _bind(address.host, first + derive_seed(0, "port", run) % n)
    return _bind(address.host, address.port)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise InputError(
            f"{host}:{port} cannot be used ({error.strerror}): give another --port."
        ) from error
    return listener
