from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from laps_relay.admin.app import make_app
from laps_relay.admin.server import MAX_WATCHERS, AdminServer, Guard, LiveFeed
from testkit.http import http_client
from testkit.logs import restored_logging
from testkit.relay_views import NO_COUNTERS, FakeView, connection_stats, session_row, track_row


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def make(port: int = 0, host: str = "127.0.0.1", sock: socket.socket | None = None) -> AdminServer:
    view = FakeView()
    feed = LiveFeed(view, 30.0)
    app = make_app(view, token=None, page_limit=10, version="1", feed=feed)
    return AdminServer(app, host, port, feed=feed, sock=sock)


def test_it_serves_in_the_loop_and_stops_with_a_watcher_there() -> None:
    async def run() -> None:
        server = make()
        await server.start()
        async with http_client(server.url) as http:
            assert (await http.get("/healthz")).text == "ok\n"
            async with http.stream("GET", "/v1/live") as answer:
                lines = answer.aiter_lines()
                assert await anext(lines) == "event: live"
                await server.stop()
                rest = [line async for line in lines]
                assert rest[0].startswith("data: ")
        await server.stop()

    asyncio.run(run())


def test_a_taken_port_is_an_error_of_the_system() -> None:
    async def run() -> None:
        first = make()
        await first.start()
        try:
            with pytest.raises(OSError, match="in use"):
                await make(int(first.url.rpartition(":")[2])).start()
        finally:
            await first.stop()

    asyncio.run(run())


def test_a_socket_that_was_handed_over() -> None:
    async def run() -> None:
        sock = socket.create_server(("127.0.0.1", 0))
        server = make(sock=sock)
        await server.start()
        assert server.url == f"http://127.0.0.1:{sock.getsockname()[1]}"
        await server.stop()

    asyncio.run(run())


def test_urls_of_both_families() -> None:
    assert make(5).url == "http://127.0.0.1:5"
    assert make(5, "::1").url == "http://[::1]:5"


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


def filled() -> FakeView:
    view = FakeView()
    view.session_rows = [session_row(number) for number in range(150)]
    view.stats = {149: connection_stats()}
    view.track_rows = [
        track_row(number, NO_COUNTERS._replace(bytes_out=number)) for number in range(150)
    ]
    return view


def test_a_snapshot_holds_the_busiest_and_the_newest() -> None:
    live = asyncio.run(LiveFeed(filled()).snapshot())
    assert live.totals.tracks == live.totals.sessions == 150
    assert len(live.tracks) == len(live.sessions) == 100
    assert live.tracks[0].number == 149
    assert live.sessions[-1].rtt_ms == 25.0


def test_a_stream_ends_when_the_relay_stops() -> None:
    view = filled()

    async def watch() -> list[bytes]:
        feed = LiveFeed(view, 0.001)
        seen: list[bytes] = []
        async for chunk in feed.stream():
            assert feed.watchers == 1
            seen.append(chunk)
            view.now += 1.0
            if len(seen) == 3:
                feed.stop()
        assert feed.watchers == 0
        return seen

    seen = asyncio.run(watch())
    assert len(seen) == 3
    lines = seen[0].decode().splitlines()
    assert lines[0] == "event: live"
    assert json.loads(lines[1].removeprefix("data: "))["totals"]["sessions"] == 150


def test_watchers_share_a_snapshot() -> None:
    view = filled()
    feed = LiveFeed(view)
    first = asyncio.run(feed._current())
    assert asyncio.run(feed._current()) is first
    view.now += 1.0
    assert asyncio.run(feed._current()) is not first


def test_watchers_are_limited() -> None:
    feed = LiveFeed(FakeView())
    assert not feed.full
    feed.watchers = MAX_WATCHERS
    assert feed.full
