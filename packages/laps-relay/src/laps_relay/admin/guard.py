"""Access to the admin: a bearer token, checks of the origin, and security headers.

There are no cookies, so a page of another site cannot use a browser's rights here. Without a token
only loopback host names are served, against names of other sites that resolve to loopback.

The admin's own pages need no token, because a browser has none before its user typed it. The pages
hold no data: their scripts request it with the token.
"""

from __future__ import annotations

import hmac
import json
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["OPEN_PATHS", "Guard"]

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


class Guard:
    """ASGI middleware that checks every request."""

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
