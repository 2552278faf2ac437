"""Events for every open page, as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass

_MAX_WAITING = 256
"""Events kept for a page that does not read; after that it loses the oldest."""
_HEARTBEAT_SECONDS = 15.0


@dataclass(frozen=True)
class _Listener:
    queue: asyncio.Queue[str | None]
    loop: asyncio.AbstractEventLoop


class EventHub:
    """Passes each event to all listeners; ``publish`` may be called from any thread."""

    def __init__(self) -> None:
        self._listeners: set[_Listener] = set()
        self._lock = threading.Lock()
        self._closed = False

    def publish(self, name: str, **values: object) -> None:
        """Send an event to all pages that listen now."""
        self._send(f"event: {name}\ndata: {json.dumps(values)}\n\n")

    def close(self) -> None:
        """End every stream, so that the server can end."""
        self._closed = True
        self._send(None)

    async def stream(self) -> AsyncIterator[str]:
        """The events from now on, as text, until the hub closes."""
        listener = _Listener(asyncio.Queue(_MAX_WAITING), asyncio.get_running_loop())
        with self._lock:
            self._listeners.add(listener)
        try:
            yield "retry: 1000\nevent: hello\ndata: {}\n\n"
            while not self._closed:
                try:
                    text = await asyncio.wait_for(listener.queue.get(), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    text = ": heartbeat\n\n"
                if text is None:
                    return
                yield text
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def _send(self, text: str | None) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            with contextlib.suppress(RuntimeError):  # its event loop has ended
                listener.loop.call_soon_threadsafe(_put, listener.queue, text)


def _put(queue: asyncio.Queue[str | None], text: str | None) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(text)
