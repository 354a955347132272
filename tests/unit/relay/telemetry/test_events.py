from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from laps_relay.telemetry.events import _TABLE, EdgeObserver, host_of
from laps_relay.telemetry.logs import Names, configure
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.telemetry import TelemetrySettings, TelemetryWriter
from laps_sdk.edge import events as core
from laps_sdk.forwarding.interfaces import SubscriptionCounters
from laps_wire.moqt.session import Kind
from laps_wire.moqt.versions import Draft
from laps_wire.telemetry import SessionClose, SessionOpen, load_line
from testkit.logs import restored_logging
from testkit.relay_views import TRACK, session_info

INFO = session_info()
COUNTERS = SubscriptionCounters(1, 2, 3, 4, 5, 6, 7)
NS = TRACK.namespace
EVENTS: list[core.RelayEvent] = [
    core.SessionOpened(session=1, info=INFO, implementation="x\x1b"),
    core.NamespaceAdded(session=1, namespace=NS),
    core.NamespaceGone(session=1, namespace=NS),
    core.PrefixAdded(session=1, prefix=NS, namespaces=True, tracks=False),
    core.PrefixGone(session=1, prefix=NS),
    core.TrackAdded(track=TRACK, number=1),
    core.PublisherAdded(session=1, track=TRACK, pushed=True),
    core.SubscriberAdded(session=1, request_id=2, track=TRACK, pushed=False),
    core.SubscriberGone(session=1, request_id=2, track=TRACK, reason="left", counters=COUNTERS),
    core.PublisherGone(session=1, track=TRACK, reason="left"),
    core.TrackRemoved(track=TRACK, number=1),
    core.RequestDenied(session=1, request_id=4, kind=None, code=1, reason="no"),
    core.RequestDenied(session=1, request_id=4, kind=Kind.SUBSCRIBE, code=1, reason="no"),
    core.FetchServed(session=1, track=TRACK, complete=True),
    core.FetchRelayed(session=1, track=TRACK, publisher=2),
    core.FetchFailed(session=1, track=TRACK, reason="gone"),
    core.ReportsRefused(1, "rate", "too many", 7),
    core.SessionFaulted(session=1, code=3, reason="garbage"),
    core.SessionLeaving(session=1, by_peer=True),
    core.SessionClosed(session=1, code=0, reason="bye", by_peer=True),
]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def test_every_event_of_the_core_has_a_row() -> None:
    assert set(_TABLE) == set(get_args(core.RelayEvent))
    assert {type(event) for event in EVENTS} == set(_TABLE)


def observe(tmp_path: Path, *, plain: bool = False) -> tuple[list[dict[str, Any]], str, list[Any]]:
    out, metrics = io.StringIO(), Metrics()
    writer = TelemetryWriter(TelemetrySettings(directory=tmp_path, relay="0.1:0.2", boot=1))
    writer.start()
    observer = EdgeObserver(configure("json", "debug", out), Names(plain=plain), metrics, writer)
    observer.observe(10.0, EVENTS[:-1], lambda _session: (5, 6))
    observer.observe(12.5, EVENTS[-1:], lambda _session: (5, 6))
    writer.stop()
    bodies = [
        load_line(line).body
        for path in tmp_path.glob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return (
        [json.loads(line) for line in out.getvalue().splitlines()],
        metrics.render().decode(),
        bodies,
    )


def test_events_become_lines_records_and_counts(tmp_path: Path) -> None:
    lines, metrics, bodies = observe(tmp_path)
    assert len(lines) == len(EVENTS)
    assert lines[0]["network"] == "192.0.2.0/24"
    assert 'laps_sessions_opened_total{draft="moqt-16"} 1.0' in metrics
    assert 'laps_requests_denied_total{code="0x1",kind="subscribe"} 1.0' in metrics
    assert 'laps_fetches_answered_total{outcome="failed"} 1.0' in metrics
    opened, closed = bodies
    assert isinstance(opened, SessionOpen)
    assert (opened.alpn, opened.draft, opened.addr_prefix) == ("moqt-16", 16, "192.0.2.0/24")
    assert isinstance(closed, SessionClose)
    assert (closed.duration_ms, closed.in_bytes, closed.out_bytes) == (2500.0, 5, 6)
    assert (closed.closed_by, closed.reason) == ("remote", "bye")


def test_no_name_and_no_address_leaves_the_relay(tmp_path: Path) -> None:
    lines, metrics, bodies = observe(tmp_path)
    seen = repr(lines) + metrics + repr(bodies)
    for secret in ("canary", "192.0.2.7", "video"):
        assert secret not in seen
    # The port as a number of its own: times and hashes hold any four digits now and then.
    assert re.search(r"(?<![\w.])5000(?![\w.])", seen) is None


def test_plain_names_if_the_operator_wants_them(tmp_path: Path) -> None:
    lines, _, bodies = observe(tmp_path, plain=True)
    assert "example-canary--video" in repr(lines)
    assert "canary" not in repr(bodies)


def test_sessions_of_every_kind() -> None:
    observer = EdgeObserver(configure("json", "error", io.StringIO()), Names(), Metrics())
    odd = session_info(peer_address="memory:1", draft=Draft.D18, webtransport=True)
    event = core.SessionOpened(session=1, info=odd)
    observer.observe(1.0, [event], lambda _session: (0, 0))
    body = observer.body(1.0, event, lambda _session: (0, 0))
    assert isinstance(body, SessionOpen)
    assert (body.alpn, body.draft, body.addr_prefix) == ("h3", 18, None)
    late = core.SessionClosed(session=9, code=0, reason="", by_peer=False)
    body = observer.body(1.0, late, lambda _session: (0, 0))
    assert isinstance(body, SessionClose)
    assert (body.duration_ms, body.reason, body.closed_by) == (0.0, None, "local")


@pytest.mark.parametrize(
    ("address", "host"), [("192.0.2.7:5", "192.0.2.7"), ("[2001:db8::1]:5", "2001:db8::1")]
)
def test_the_host_of_an_address(address: str, host: str) -> None:
    assert host_of(session_info(peer_address=address)) == host
