"""The admin's HTTP server: uvicorn in the relay's own loop, access to it, and the live stream.

There are no cookies, so a page of another site cannot use a browser's rights here. Without a token
only loopback host names are served, against names of other sites that resolve to loopback.

The admin's own pages need no token, because a browser has none before its user typed it. The pages
hold no data: their scripts request it with the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import hmac
import json
import socket
import time
from collections.abc import AsyncGenerator, Generator
from typing import Final

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from laps_relay.admin.views import Live, RelayView, session_item, totals, track_item

__all__ = ["MAX_WATCHERS", "OPEN_PATHS", "AdminServer", "Guard", "LiveFeed"]

OPEN_PATHS: Final = frozenset({"/healthz"})
"""Paths that need no token, for load balancers."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})
# blob: is for pictures that the player received; https: for WebTransport to any relay.
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; connect-src 'self' https:; img-src 'self' data: blob:;"
        " media-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MAX_WATCHERS: Final = 16
_ROWS: Final = 100
"""Sessions and tracks in a snapshot; the tables have all of them."""


class _Quiet(uvicorn.Server):
    """A server that leaves signals to the relay, and tells when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture no signal."""
        yield


class AdminServer:
    """The admin on a TCP port; signals and log set-up are the relay's."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        feed: LiveFeed | None = None,
        sock: socket.socket | None = None,
    ) -> None:
        """``sock`` is a bound TCP socket to use instead of host and port."""
        self._app = app
        self._host = host
        self._port = port
        self._feed = feed
        self._socket = sock
        self._server: _Quiet | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address that it answers at."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Bind and serve. Raises ``OSError`` if the port is taken."""
        # Bound here and not by uvicorn, which would end the process if it cannot.
        if self._socket is None:
            self._socket = socket.create_server(
                (self._host, self._port),
                family=socket.AF_INET6 if ":" in self._host else socket.AF_INET,
            )
        self._host, self._port = self._socket.getsockname()[:2]
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=10,
            timeout_keep_alive=5,
            limit_concurrency=256,
        )
        self._server = _Quiet(config)
        self._task = asyncio.create_task(
            self._server.serve(sockets=[self._socket]), name="laps-admin"
        )
        await self._server.up.wait()

    async def stop(self) -> None:
        """Answer requests under way, then close."""
        if self._feed is not None:
            self._feed.stop()
        if self._server is not None:
            self._server.should_exit = True
        if self._task is not None:
            await self._task
            self._task = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Guard:
    """ASGI middleware that checks every request: bearer token, origin; adds security headers."""

    def __init__(
        self, app: ASGIApp, token: str | None, pages: frozenset[str] = frozenset()
    ) -> None:
        """``pages`` are paths of static files, which anybody may read."""
        self._app = app
        self._pages = pages
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401, 403 or 421."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # WebSockets and whatever comes next: nothing here uses them, and nothing guards them.
            raise RuntimeError(f"the admin does not serve {scope['type']}")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        if scope["path"] not in OPEN_PATHS:
            if self._token is not None:
                known = self._knows(headers.get("authorization", ""))
                if not known and not self._is_page(scope):
                    await _refuse(with_headers, 401, "a bearer token is needed")
                    return
            elif not _is_loopback(headers.get("host", "")):
                await _refuse(with_headers, 421, "use a loopback name such as 127.0.0.1")
                return
            if _is_foreign(headers):
                await _refuse(with_headers, 403, "pages of other origins may not use this")
                return
        await self._app(scope, receive, with_headers)

    def _is_page(self, scope: Scope) -> bool:
        return scope["method"] in ("GET", "HEAD") and scope["path"] in self._pages

    def _knows(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        # Compared also if the scheme is wrong, so that the time reveals nothing.
        same = hmac.compare_digest(given.strip().encode(), self._token or b"")
        return same and scheme.lower() == "bearer"


def _is_loopback(host: str) -> bool:
    name = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
    return name in _LOOPBACK


def _is_foreign(headers: Headers) -> bool:
    """Return whether another site's page makes the request; links to the admin may be followed."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
        return True
    # Pictures and scripts of other pages come without Origin, but not without these.
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    return site in ("cross-site", "same-site") and mode != "navigate"


async def _refuse(send: Send, status: int, words: str) -> None:
    body = json.dumps({"detail": words}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class LiveFeed:
    """Makes one snapshot a second while a page watches, as server-sent events for all pages."""

    def __init__(self, view: RelayView, interval: float = 1.0) -> None:
        self._view = view
        self._interval = interval
        self.watchers = 0
        self._stopping = asyncio.Event()
        self._making = asyncio.Lock()
        self._made: tuple[float, bytes] | None = None

    def stop(self) -> None:
        """End all streams, because the relay stops."""
        self._stopping.set()

    @property
    def full(self) -> bool:
        """Whether no further watcher is accepted."""
        return self.watchers >= MAX_WATCHERS

    async def snapshot(self) -> Live:
        """Return a snapshot, busiest tracks first."""
        view, now = self._view, self._view.now
        tracks = await view.tracks_in_parts()
        busiest = heapq.nlargest(_ROWS, tracks, key=lambda row: row.counters.bytes_out)
        sessions = list(view.sessions())[-_ROWS:]
        return Live(
            time=time.time(),
            totals=totals(view, tracks),
            sessions=[session_item(row, view.connection(row.session), now) for row in sessions],
            tracks=[track_item(row) for row in busiest],
        )

    async def stream(self) -> AsyncGenerator[bytes]:
        """Yield server-sent events until the page closes or the relay stops."""
        self.watchers += 1
        try:
            while not self._stopping.is_set():
                yield await self._current()
                try:
                    async with asyncio.timeout(self._interval):
                        await self._stopping.wait()
                except TimeoutError:
                    continue
        finally:
            self.watchers -= 1

    async def _current(self) -> bytes:
        """Return the snapshot of this second, made at most once."""
        async with self._making:
            now = self._view.now
            if self._made is None or now - self._made[0] >= self._interval / 2:
                text = (await self.snapshot()).model_dump_json()
                self._made = (now, f"event: live\ndata: {text}\n\n".encode())
            return self._made[1]
