from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from rich.console import Console

from laps_relay.admin.app import make_app
from laps_relay.admin.server import AdminServer, LiveFeed
from laps_sdk.cli import top as top_module
from laps_sdk.cli.top import Rates, screen
from laps_sdk.forwarding.interfaces import TrackCounters
from testkit.edge_thread import LoopThread, loop_thread
from testkit.laps_command import laps, one_fault
from testkit.logs import restored_logging
from testkit.relay_views import NO_COUNTERS, FakeView, connection_stats, session_row, track_row

TRACK = {
    "track": "demo--t", "subscribers": 3, "objects_in": 10, "objects_out": 30, "bytes_in": 100,
    "bytes_out": 300, "dropped_objects": 1, "cached_bytes": 2048,
}  # fmt: skip
SESSION = {
    "session": 7, "address": "192.0.2.7:5000", "draft": "moqt-18", "webtransport": True,
    "publishes": 1, "subscriptions": 2, "rtt_ms": None, "queued_bytes": 5,
}  # fmt: skip
ADMIN_WORD = "for the admin"
INFO = {"version": "1.2", "url": "moqt://127.0.0.1:1", "uptime_seconds": 12.0}


def answers(track: dict[str, Any] | None = None) -> dict[str, object]:
    return {
        "/v1/info": INFO,
        "/v1/sessions": {"total": 1, "items": [SESSION]},
        "/v1/tracks": {"total": 1, "items": [track or TRACK]},
    }


@contextmanager
def serving(known: dict[str, object]) -> Generator[tuple[str, list[str | None]]]:
    """A server with these answers: bytes as they are, numbers as codes, the rest as JSON."""
    asked: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            answer = known.get(self.path.partition("?")[0], 404)
            if isinstance(answer, bytes):
                self.wfile.write(answer)
                return
            code = answer if isinstance(answer, int) else 200
            body = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Location", "/v1/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def admin() -> Iterator[str]:
    """The admin of a relay, with a relay that is not there."""
    view = FakeView()
    view.session_rows = [session_row(1), session_row(2)]
    view.stats = {1: connection_stats()}
    view.track_rows = [
        track_row(1, NO_COUNTERS),
        track_row(2, TrackCounters(*[5] * len(TrackCounters._fields))),
    ]
    feed = LiveFeed(view, 30.0)
    app = make_app(view, token=ADMIN_WORD, page_limit=1000, version="1", feed=feed)
    with restored_logging(), loop_thread() as loop:
        runner = LoopThread(loop)
        server = AdminServer(app, "127.0.0.1", 0, feed=feed)
        runner.do(server.start())
        try:
            yield server.url
        finally:
            runner.do(server.stop())


def test_a_real_admin(admin: str) -> None:
    ended = laps("top", admin, "--json", "-n", 2, "-i", "0.1", LAPS_ADMIN_TOKEN=ADMIN_WORD)
    assert (ended.exit_code, ended.stderr) == (0, "")
    first, second = map(json.loads, ended.stdout.splitlines())
    assert first == second
    assert (first["sessions"], first["tracks"]) == (2, 2)
    assert first["per_second"]["objects_in"] == 0.0
    shown = laps("top", admin, "-n", 1, LAPS_ADMIN_TOKEN=ADMIN_WORD)
    assert shown.exit_code == 0
    assert "example-canary--video" in shown.stdout
    one_fault(
        laps("top", admin, "-n", 1),
        1,
        f"laps top: {admin}: needs the admin token in LAPS_ADMIN_TOKEN",
    )


def test_every_look_is_printed_where_nothing_can_be_overwritten() -> None:
    with serving(answers()) as (url, asked):
        shown = laps("top", url.removeprefix("http://") + "/", "-n", 2, "-i", "0.1")
    assert shown.exit_code == 0, shown.output
    assert (
        shown.stdout.count("moqt://127.0.0.1:1  laps-relay 1.2  up 12 s  1 session  1 track") == 2
    )
    assert "moqt-18 wt" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert asked == [None] * 6


def test_a_terminal_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(
        top_module,
        "terminal",
        lambda: Console(file=out, force_terminal=True, width=100, legacy_windows=False),
    )
    with serving(answers()) as (url, _):
        assert laps("top", url, "-n", 2, "-i", "0.1", TERM="xterm").exit_code == 0
    assert "\x1b[1A" in out.getvalue()


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"/v1/info": 500}, 1, "/v1/info: answered with status 500"),
        ({"/v1/info": 302}, 1, "/v1/info: answered with status 302"),
        ({"/v1/sessions": 404}, 1, "/v1/sessions?limit=15: answered with status 404"),
        ({"/v1/info": []}, 2, "is not the admin address of a relay"),
        ({"/v1/info": {}}, 2, "is not the admin address of a relay"),
        ({"/v1/tracks": {"total": 1, "items": [{}]}}, 2, "is not the admin address of a relay"),
        ({"/v1/tracks": {"total": 1, "items": [3]}}, 2, "is not the admin address of a relay"),
        ({"/v1/info": b"HTTP/1.0 200 OK\r\n\r\n<html>"}, 2, "is not the admin address of a relay"),
        ({"/v1/info": b"SSH-2.0-x\r\n"}, 2, "is not the admin address of a relay"),
    ],
    ids=str,
)
def test_servers_that_are_no_admin(changed: dict[str, object], code: int, words: str) -> None:
    with serving({**answers(), **changed}) as (url, _):
        one_fault(laps("top", url, "-n", 1), code, f"laps top: {url}", words)


def test_nobody_there_and_addresses_that_are_none() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        one_fault(laps("top", url, "-n", 1), 1, f"{url}: ", "is the relay running")
    one_fault(laps("top", "http://[x", "-n", 1), 2, "is not the admin address of a relay")
    one_fault(laps("top", "127.0.0.1:port", "-n", 1), 2, "is not the admin address of a relay")


def test_proxies_are_not_asked() -> None:
    with serving(answers()) as (url, _):
        assert laps("top", url, "-n", 1, http_proxy="http://127.0.0.1:1").exit_code == 0


def test_ctrl_c_is_how_one_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("laps_sdk.cli.top.time.sleep", interrupted)
    with serving(answers()) as (url, _):
        assert laps("top", url).exit_code == 0


def test_rates() -> None:
    rates = Rates()
    assert rates.of({"in": 10.0}, 100.0) == {"in": 0.0}
    assert rates.of({"in": 30.0, "out": 5.0}, 102.0) == {"in": 10.0, "out": 0.0}
    assert rates.of({"in": 20.0, "out": 6.0}, 103.0) == {"in": 0.0, "out": 1.0}  # a track ended
    assert rates.of({"in": 30.0, "out": 6.0}, 103.0) == {"in": 0.0, "out": 0.0}


def test_names_of_strangers_are_text() -> None:
    hostile = "[red]x[/red]\x1b[2J\r\n\x9b\u202e:smile:"
    look = {
        **INFO, "url": hostile, "sessions": 1, "tracks": 1,
        "per_second": dict.fromkeys(top_module.TOTALS, 0.0),
        "track_rows": [{**TRACK, "track": hostile}],
        "session_rows": [{**SESSION, "address": hostile, "draft": hostile, "rtt_ms": 1.25}],
    }  # fmt: skip
    out = io.StringIO()
    Console(file=out, width=300, color_system=None).print(screen(look))
    shown = out.getvalue()
    assert shown.count(r"[red]x[/red]\x1b[2J\r\n\x9b\u202e:smile:") == 4
    assert not set("\x1b\r\x9b\u202e") & set(shown)
