from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from laps_relay.admin.guard import Guard

WORD = "0123456789abcdef"


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"cache-control", b"max-age=5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"yes"})


def ask(
    token: str | None,
    path: str = "/v1/info",
    kind: str = "http",
    method: str = "GET",
    **headers: str,
) -> tuple[int, dict[bytes, bytes]]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    scope: dict[str, Any] = {
        "type": kind,
        "path": path,
        "method": method,
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ],
    }
    asyncio.run(Guard(answer, token, frozenset({"/", "/app.js"}))(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"])


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {WORD}", 200),
        (f"bearer  {WORD}", 200),
        (WORD, 401),
        (f"Basic {WORD}", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("", 401),
        (f"Bearer {WORD}x", 401),
        (f"Bearer {WORD[:-1]}", 401),
        ("Bearer \u00e4\u00f6", 401),
    ],
)
def test_the_token(authorization: str, status: int) -> None:
    found, headers = ask(WORD, host="relay.example", authorization=authorization)
    assert found == status
    assert (b"www-authenticate" in headers) == (status == 401)


def test_health_needs_none() -> None:
    assert ask(WORD, "/healthz")[0] == 200
    assert ask(None, "/healthz", host="relay.example")[0] == 200
    assert ask(WORD, "/healthz/../v1/info")[0] == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:33480", 200),
        ("localhost:1", 200),
        ("[::1]:33480", 200),
        ("[::1]", 200),
        ("rebound.example:33480", 421),
        ("127.0.0.1.example", 421),
        ("", 421),
    ],
)
def test_without_a_token_only_loopback_names(host: str, status: int) -> None:
    assert ask(None, host=host)[0] == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:33480", 200),
        ("http://127.0.0.1:8000", 403),
        ("https://elsewhere.example", 403),
        ("null", 403),
    ],
)
def test_pages_of_other_origins_are_refused(origin: str, status: int) -> None:
    assert ask(None, host="127.0.0.1:33480", origin=origin)[0] == status


@pytest.mark.parametrize(
    ("site", "mode", "status"),
    [
        ("same-origin", "cors", 200),
        ("none", "navigate", 200),
        ("cross-site", "navigate", 200),
        ("cross-site", "no-cors", 403),
        ("same-site", "no-cors", 403),
    ],
)
def test_what_other_pages_embed_is_refused(site: str, mode: str, status: int) -> None:
    found, _ = ask(None, host="127.0.0.1:1", sec_fetch_site=site, sec_fetch_mode=mode)
    assert found == status


def test_pages_are_read_without_a_token_and_nothing_else_is() -> None:
    for path in ("/", "/app.js"):
        assert ask(WORD, path, host="relay.example")[0] == 200
        assert ask(WORD, path, method="POST", host="relay.example")[0] == 401
        assert ask(None, path, host="rebound.example")[0] == 421
    for path in ("/app.js/", "//", "/app.js/../v1/info", "/APP.JS", "/v1/live"):
        assert ask(WORD, path, host="relay.example")[0] == 401


def test_headers_are_added_and_not_replaced() -> None:
    _, headers = ask(None, host="localhost")
    assert headers[b"cache-control"] == b"max-age=5"
    assert headers[b"x-frame-options"] == b"DENY"


def test_what_nothing_guards_is_not_passed_on() -> None:
    assert ask(WORD, kind="lifespan")[0] == 200
    with pytest.raises(RuntimeError, match="does not serve websocket"):
        ask(WORD, kind="websocket")
