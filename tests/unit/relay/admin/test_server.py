from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from laps_relay.admin.app import make_app
from laps_relay.admin.live import LiveFeed
from laps_relay.admin.server import AdminServer
from testkit.http import http_client
from testkit.logs import restored_logging
from testkit.relay_views import FakeView


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
