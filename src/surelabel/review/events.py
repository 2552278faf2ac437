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
_TOGETHER_SECONDS = 0.05
"""Events that come within this time go out together: fifty pages get what fifty people do."""


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
                await asyncio.sleep(_TOGETHER_SECONDS)
                while not listener.queue.empty():
                    more = listener.queue.get_nowait()
                    if more is None:
                        return
                    text += more
                yield text
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def _send(self, text: str | None) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Queue[str | None]]] = {}
        with self._lock:
            for listener in self._listeners:
                by_loop.setdefault(listener.loop, []).append(listener.queue)
        for loop, queues in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(_put, queues, text)


def _put(queues: list[asyncio.Queue[str | None]], text: str | None) -> None:
    for queue in queues:
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(text)
