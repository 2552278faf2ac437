"""Who may use the review page, and what a browser may do with what it gets.

- A link with a one-time token is exchanged for a cookie; without the cookie nothing of the run is
  shown. Each link works once; after that the terminal shows the next one.
- ``Host`` must be an address of this server: a foreign name that resolves to this machine
  (DNS rebinding) gets nothing.
- A change must come from the page itself: ``Origin`` must be this server.
- A request body may have a megabyte and half a minute: a page sends a few kilobytes at once.
- The browser is told to load nothing from elsewhere and to run no inline script.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import threading
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
OPEN_PATHS = ("/static/",)
_SAFE_METHODS = frozenset({"GET", "HEAD"})
MAX_BODY = 2**20
"""Bytes in the body of a request."""
BODY_SECONDS = 30.0

CONTENT_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ]
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class AccessTokens:
    """One-time tokens and the cookies they were exchanged for. Both live as long as the server."""

    def __init__(self, on_token: Callable[[str], None] = lambda _: None) -> None:
        self._on_token = on_token
        self._sessions: set[str] = set()
        self._lock = threading.Lock()
        self.token = secrets.token_urlsafe(32)

    def exchange(self, token: str) -> str | None:
        """A cookie for the token, which works once; None for any other text."""
        with self._lock:
            if not secrets.compare_digest(token.encode(), self.token.encode()):
                return None
            self.token = secrets.token_urlsafe(32)
            session = secrets.token_urlsafe(32)
            self._sessions.add(session)
        self._on_token(self.token)
        return session

    def admits(self, session: str) -> bool:
        """Whether ``session`` is a cookie that this server gave out."""
        return session in self._sessions


class AccessControl:
    """ASGI middleware that refuses requests without a cookie or from elsewhere."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: AccessTokens,
        cookie: str,
        hosts: Iterable[str],
        *,
        any_address: bool,
    ) -> None:
        self.app, self._tokens, self._cookie = app, tokens, cookie
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None and scope["method"] not in _SAFE_METHODS:
            body = await _whole_body(Headers(scope=scope), receive)
            if isinstance(body, bytes):
                receive = _replay(body, receive)
            else:
                refusal = body
        await (refusal or self.app)(scope, receive, send_safely)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._knows_host(host):
            return PlainTextResponse("This server does not answer to that host name.\n", 421)
        path = scope["path"]
        if path.startswith(OPEN_PATHS) and scope["method"] in _SAFE_METHODS:
            return None
        exchanging = path == "/" and scope["query_string"].startswith(b"token=")
        if not exchanging and not self._tokens.admits(self._session(headers)):
            return PlainTextResponse(
                "Open the link that surelabel printed in the terminal. Each link works once; "
                "after that the terminal shows the next one.\n",
                403,
            )
        if scope["method"] not in _SAFE_METHODS and not _from_here(headers, host, scope["scheme"]):
            return PlainTextResponse("Changes are accepted from the page itself only.\n", 403)
        return None

    def _session(self, headers: Headers) -> str:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return cookie.value if cookie else ""

    def _knows_host(self, host: str) -> bool:
        name = host.lower().rpartition(":")[0] if _has_port(host) else host.lower()
        return name in self._hosts or (self._any_address and _is_address(name))


async def _whole_body(headers: Headers, receive: Receive) -> bytes | PlainTextResponse:
    """The body of a request, or the response to one that is too long or too slow."""
    stated = headers.get("content-length", "0")
    if stated.isdigit() and int(stated) > MAX_BODY:
        return _too_long()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return PlainTextResponse("The request ended before its body did.\n", 400)
                body += message.get("body", b"")
                if len(body) > MAX_BODY:
                    return _too_long()
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        closing = {"Connection": "close"}
        return PlainTextResponse("The request took too long to arrive.\n", 408, closing)


def _too_long() -> PlainTextResponse:
    return PlainTextResponse(f"A request may have at most {MAX_BODY:,} bytes.\n", 413)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives ``body`` first, and then what comes after it."""
    is_read = False

    async def replay() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _from_here(headers: Headers, host: str, scheme: str) -> bool:
    """Whether the request comes from a page of this server."""
    origin = headers.get("origin")
    if origin is not None:
        return origin.lower() == f"{scheme}://{host}".lower()
    return headers.get("sec-fetch-site") == "same-origin"


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
