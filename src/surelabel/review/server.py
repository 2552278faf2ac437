"""Serves the review page of a run at an address that a person can open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from surelabel.dataset.decode import strict_pillow
from surelabel.errors import InputError, OptionError
from surelabel.review.app import build_app
from surelabel.review.queue import Task
from surelabel.review.security import LOOPBACK_NAMES, AccessTokens, is_loopback
from surelabel.review.session import ReviewSession
from surelabel.runs.folder import RunFolder
from surelabel.types import derive_seed

WARNING = (
    "Warning: anyone who can reach {host} and gets hold of a link can see the images and change "
    "labels, and the connection is not encrypted. Do this only in a network you trust."
)
_FIRST_PORT, _N_PORTS = 20_000, 10_000
"""Ports to choose from: below those that systems use for outgoing connections."""


HEAD_SECONDS = 30.0
"""How long the head of a request may take to arrive."""
KEEP_SECONDS = 75
"""How long an idle connection is kept: longer than people look at an image, so that an answer
hardly ever meets a connection that is being closed."""


@dataclass(frozen=True)
class Address:
    """Where to listen. Any address that other machines can reach needs ``exposed``."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a port derived from the run's path, so that open pages find a restarted server; if
    that is taken, a free one."""
    exposed: bool = False
    names: tuple[str, ...] = field(default_factory=tuple)
    """Other host names that the server answers to."""

    def check(self) -> None:
        """Refuse an address that other machines can reach unless ``exposed`` allows it."""
        if not is_loopback(self.host) and not self.exposed:
            raise OptionError(
                f"--host {self.host} lets other machines in: add --expose to allow that."
            )


class ReviewServer:
    """The page of one task at one address. Listens from the start, responds once it runs."""

    def __init__(
        self,
        folder: RunFolder,
        task: Task,
        address: Address,
        echo: Callable[[str], None],
        reviewer: str = "",
        *,
        guided: bool = False,
    ) -> None:
        address.check()
        self._listener = _listen(address, str(folder.path.resolve()))
        self.session = ReviewSession(folder, task, reviewer, guided=guided)
        self.root = f"http://{_shown(address)}:{self._listener.getsockname()[1]}/"
        self.tokens = AccessTokens(lambda _: echo(f"Another browser or reviewer: {self.link}"))
        open_to_all = not is_loopback(address.host)
        app = build_app(
            self.session,
            self.tokens,
            cookie=f"surelabel-{self._listener.getsockname()[1]}",
            hosts=LOOPBACK_NAMES | {_shown(address), *address.names},
            any_address=open_to_all,
        )
        self._server = _Server(_settings(app), self.session)
        if open_to_all:
            echo(WARNING.format(host=address.host))
        echo(f"The page of {folder.path} is at {self.link}")
        echo("The link works once. Stop with ctrl-C; answers are saved as you give them.")

    @property
    def link(self) -> str:
        """The address with the token that works next."""
        return f"{self.root}?token={self.tokens.token}"

    def run(self) -> None:
        """Serve until ``stop``, ctrl-C or a signal to end."""
        if self.session.guide is not None:
            self.session.guide.begin()
        self.session.prepare_gallery()
        with self._listener, contextlib.suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        """Make ``run`` return; called from another thread."""
        self.session.events.close()
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """Ends the event streams of open pages first: they would keep the server alive."""

    def __init__(self, config: uvicorn.Config, session: ReviewSession) -> None:
        super().__init__(config)
        self._session = session

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._session.events.close()
        super().handle_exit(sig, frame)


class _Protocol(H11Protocol):
    """Closes connections on which no whole head arrives: uvicorn would wait for it forever."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None


def serve(
    folder: RunFolder,
    task: Task,
    address: Address,
    echo: Callable[[str], None],
    reviewer: str = "",
    *,
    browser: bool = False,
    guided: bool = False,
) -> None:
    """Serve the page until ctrl-C; ``echo`` gets the link, and the next one once it was used.

    With ``browser`` the page is opened, where there is a screen to open it on. With ``guided`` it
    leads through all steps.
    """
    with strict_pillow():
        server = ReviewServer(folder, task, address, echo, reviewer, guided=guided)
        if browser and has_screen():
            threading.Thread(target=webbrowser.open, args=(server.link,), daemon=True).start()
        server.run()


def has_screen() -> bool:
    """Whether a browser with windows can be opened: text browsers would take the terminal."""
    if sys.platform in {"darwin", "win32"}:
        return "SSH_CONNECTION" not in os.environ
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def default_reviewer() -> str:
    """The user name on this machine; empty if unknown."""
    return os.environ.get("USER", "") or os.environ.get("LOGNAME", "")


def _settings(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=_Protocol,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=5,
    )


def _shown(address: Address) -> str:
    """The host as links show it."""
    if address.host in {"0.0.0.0", "::"}:
        return socket.gethostname()
    return f"[{address.host}]" if ":" in address.host else address.host


def _listen(address: Address, run: str) -> socket.socket:
    """A listening socket: a browser that opens the link at once waits instead of failing."""
    if address.port == 0:
        with contextlib.suppress(InputError):
            return _bind(address.host, _FIRST_PORT + derive_seed(0, "port", run) % _N_PORTS)
    return _bind(address.host, address.port)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends small packets at once; else the second half of each
    # response waits 40 ms for the browser to acknowledge the first.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise InputError(
            f"{host}:{port} cannot be used ({error.strerror}): choose another --port."
        ) from error
    return listener
