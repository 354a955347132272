from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from laps_relay.network import events as core
from laps_relay.network.views import TableSizes
from laps_relay.peer_forwarding.forwarding import PeerPlaneCounters
from laps_relay.telemetry.events import MOST_LINES, MOST_RECORDS
from laps_relay.telemetry.logs import Names, configure
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.network import (
    _MOST,
    _TABLE,
    NetworkObserver,
    NetworkSample,
    NetworkSampler,
    Refusals,
    advice,
    hash_text,
    node_text,
    peer_session,
    record_of,
)
from laps_relay.telemetry.telemetry import TelemetrySettings, TelemetryWriter
from laps_sdk.peering import reports
from laps_sdk.quic.base import ConnectionStats
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    Location,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    RelayType,
    SnsRefusal,
    Stamp,
    SubscribeInfo,
)
from laps_wire.telemetry import (
    DialFail,
    NodeWd,
    PeerRefuse,
    QuicSample,
    RouteChange,
    SubWd,
    load_line,
)
from testkit.logs import restored_logging
from testkit.network_views import FakeNetwork

A, B = NodeId(1), NodeId(2)
STAMP = Stamp(7, 3)
TRACK = AnnounceInfo(A, STAMP, AnnounceKind.TRACK, (1, 2), 3, 4)
SPACE = AnnounceInfo(A, STAMP, AnnounceKind.NAMESPACE, (1,), None, 5)
WANTED = SubscribeInfo(B, STAMP, (1, 2), 3, 4)
NODE = NodeInfo(
    NodeSelf(A, RelayType.CONTROL, STAMP, location=Location(8.0, 50.0)),
    path=(NodePathItem(B, 900),),
)
EVENTS: list[core.NetworkEvent] = [
    reports.PeerAdded(
        session=1,
        node=A,
        relay_type=RelayType.VIA,
        mode="both",
        alpn="laps-2",
        control=True,
        dialled=True,
        implementation="x\x1b",
    ),
    reports.PeerTurnedDown(session=2, node=None, code=2, reason="no proof"),
    reports.PeerFaulted(session=1, node=A, code=3, reason="garbage"),
    reports.PeerLeaving(session=1, node=A, reason="upgrade", by_peer=True),
    reports.Dialled(contact="a:1", node=A, dynamic=True),
    reports.PeerStays(session=1, node=A),
    reports.Dialled(contact="a:1", node=None, dynamic=False, failed="nobody there"),
    core.NodeAdded(info=NODE, peer=B, best=True),
    core.NodeAdded(info=NodeInfo(NodeSelf(A, RelayType.EDGE, STAMP)), peer=None, best=False),
    core.NodeGone(node=A, reason="withdrawn"),
    reports.NodeSuspected(node=A, peer=B, reason="faster than light"),
    core.RouteChanged(node=A, peer=B, hops=1, cost_us=1000),
    core.AnnounceAdded(entry=TRACK, session=1),
    core.AnnounceAdded(entry=SPACE, session=None),
    core.AnnounceGone(entry=SPACE),
    core.SubscribeAdded(entry=WANTED, session=1),
    core.SubscribeGone(entry=WANTED),
    core.SubscribeRefused(key=4, source=B, code=1, reason="not there"),
    core.SetChanged(session=1, sns_id=1, incoming=True, added=(B,), removed=(), members=1, key=4),
    core.SetChanged(session=1, sns_id=2, incoming=False, added=(), removed=(A,), members=0),
    core.SetGone(session=1, sns_id=1, incoming=True, removed=(B,), key=4),
    core.SetGone(session=1, sns_id=2, incoming=False, removed=()),
    core.SetRefused(session=1, node=A, sns_id=3, code=SnsRefusal.NOT_ADVERTISED, targets=2),
    reports.KeyForgotten(node=NodeId(9)),
    core.PolicyChanged(),
    reports.PeerGone(session=1, node=A, code=0xC, reason="nothing heard", by_peer=False),
]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def test_every_event_of_the_network_has_a_row() -> None:
    assert set(_TABLE) == set(get_args(core.NetworkEvent))
    assert {type(event) for event in EVENTS} == set(_TABLE)


def test_logs_metrics_and_telemetry_hear_of_all_that_happens(tmp_path: Path) -> None:
    out = io.StringIO()
    logger = configure("json", "debug", out)
    writer = TelemetryWriter(TelemetrySettings(directory=tmp_path, relay="0:1", boot=1))
    writer.start()
    metrics = Metrics()
    observer = NetworkObserver(logger, Names(b"key"), metrics, writer)
    observer.observe(10.0, EVENTS[:-1], lambda _session: (0, 0))
    observer.observe(12.0, EVENTS[-1:], lambda _session: (100, 200))
    writer.stop()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(lines) == len(EVENTS)
    assert "\x1b" not in out.getvalue()
    (file,) = tmp_path.glob("*.jsonl*")
    records = [load_line(line) for line in file.read_bytes().splitlines()]
    kinds = [record.body.TYPE for record in records]  # type: ignore[union-attr]
    assert kinds == [
        "session.open", "peer.refuse", "peer.fault", "peer.drain", "dial.fail",
        "node.adv", "node.adv", "node.wd", "node.suspect", "ann.adv", "ann.adv", "ann.wd",
        "sub.adv", "sub.wd", "sub.refuse", "sns.adv", "sns.adv", "sns.wd", "sns.wd", "sns.refuse",
        "policy.change", "route.change", "session.close",
    ]  # fmt: skip
    closed = records[-1].body
    assert (closed.session_id, closed.duration_ms, closed.out_bytes) == ("p1", 2000.0, 200)  # type: ignore[union-attr]
    text = metrics.render().decode()
    assert 'laps_peers_opened_total{type="via"} 1.0' in text
    assert 'laps_peers_dialled_total{outcome="failed"} 1.0' in text


def test_without_telemetry_logs_are_all() -> None:
    out = io.StringIO()
    observer = NetworkObserver(configure("json", "info", out), Names(b"key"), Metrics())
    observer.observe(0.0, EVENTS, lambda _session: (0, 0))
    words = [json.loads(line)["event"] for line in out.getvalue().splitlines()]
    assert "peer broke the protocol" in words
    assert "node advertised" not in words  # debug


def test_nobody_fills_the_log() -> None:
    out = io.StringIO()
    metrics = Metrics()
    observer = NetworkObserver(configure("json", "info", out), Names(b"key"), metrics)
    lie, other = (reports.NodeSuspected(node=A, peer=peer, reason="too fast") for peer in (A, B))
    observer.observe(10.0, [lie] * 1_000 + [other], lambda _session: (0, 0))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(lines) == MOST_LINES + 1
    assert [line.get("more") for line in lines].count("not logged in this minute") == 1
    assert lines[-1]["peer"] == str(B)  # others are still heard of
    assert "laps_nodes_suspected_total 1001.0" in metrics.render().decode()
    observer.observe(70.0, [lie], lambda _session: (0, 0))
    assert len(out.getvalue().splitlines()) == MOST_LINES + 2


def test_sessions_of_peers_are_not_taken_for_clients() -> None:
    assert peer_session(12) == "p12"


def lines_of(*events: core.NetworkEvent) -> list[dict[str, object]]:
    """What is logged at the default level."""
    text = io.StringIO()
    with restored_logging():
        observer = NetworkObserver(configure("json", "info", text), Names(None), Metrics())
        for event in events:
            observer.observe(0.0, [event], lambda _session: (0, 0))
    return [json.loads(line) for line in text.getvalue().splitlines()]


def failed(reason: str, *, dynamic: bool = False, contact: str = "a:1") -> reports.Dialled:
    return reports.Dialled(contact=contact, node=None, dynamic=dynamic, failed=reason)


def test_a_configured_relay_that_is_not_reached_is_said_once_for_each_reason() -> None:
    lines = lines_of(
        *[failed("nobody answers")] * 3,
        failed("no protocol in common (ALPN)"),
        failed("nobody answers", dynamic=True, contact="b:1"),
        failed("nobody answers"),
    )
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("relay not reached", "nobody answers"),
        ("relay not reached", "no protocol in common (ALPN)"),
        ("relay not reached", "nobody answers"),
    ]
    assert {line["contact"] for line in lines} == {"a:1"}
    assert "--peer-port" in str(lines[1]["advice"])


def test_a_relay_that_was_reached_meanwhile_is_news_again() -> None:
    added = EVENTS[0]
    assert isinstance(added, reports.PeerAdded)
    up = replace(added, contact="a:1")
    lines = lines_of(failed("nobody answers"), up, failed("nobody answers"))
    assert [line["event"] for line in lines].count("relay not reached") == 2


def test_who_refuses_us_is_named_with_what_to_do() -> None:
    refused = reports.PeerTurnedDown(
        session=2, node=None, code=7, reason="names are hashed with another key", contact="a:1"
    )
    # The dialler tells the same again.
    lines = lines_of(refused, failed(refused.reason), refused, failed(refused.reason))
    (line,) = lines
    assert (line["event"], line["contact"]) == ("peering refused", "a:1")
    assert "network.key_file" in str(line["advice"])


def test_who_is_refused_by_us_has_no_contact() -> None:
    (line,) = lines_of(reports.PeerTurnedDown(session=2, node=None, code=4, reason="no"))
    assert not {"contact", "advice"} & set(line)


def test_ways_that_flap_are_one_record_when_they_have_settled(tmp_path: Path) -> None:
    """While a network starts each way changes many times."""
    writer = TelemetryWriter(TelemetrySettings(directory=tmp_path, relay="0:1", boot=1))
    writer.start()
    observer = NetworkObserver(configure("json", "error", io.StringIO()), Names(None), Metrics())
    observer._telemetry = writer

    def changed(node: NodeId, hops: int) -> core.RouteChanged:
        return core.RouteChanged(node=node, peer=B, hops=hops, cost_us=1)

    nothing = lambda _session: (0, 0)  # noqa: E731
    observer.observe(1.0, [changed(A, hops) for hops in range(1000)], nothing)
    observer.observe(
        1.5, [changed(B, 1), core.RouteChanged(node=A, peer=None, hops=0, cost_us=0)], nothing
    )
    observer.settle(1.9)
    observer.settle(2.0)
    observer.observe(2.0, [changed(A, 7)], nothing)
    observer.settle(0.0, at_once=True)
    observer.settle(9.0)
    writer.stop()
    (file,) = tmp_path.glob("*.jsonl")
    found = [load_line(line).body for line in file.read_bytes().splitlines()]
    assert found == [
        RouteChange(node_id=str(B), changes=1, hops=1, cost_us=1, next_hop=str(B)),
        RouteChange(node_id=str(A), changes=1001, hops=0, cost_us=0),
        RouteChange(node_id=str(A), changes=1, hops=7, cost_us=1, next_hop=str(B)),
    ]


def test_nobody_fills_the_disk(tmp_path: Path) -> None:
    writer = TelemetryWriter(TelemetrySettings(directory=tmp_path, relay="0:1", boot=1))
    logger = configure("json", "error", io.StringIO())
    observer = NetworkObserver(logger, Names(None), Metrics(), writer)
    refused = reports.PeerTurnedDown(session=2, node=None, code=2, reason="no proof")
    observer.observe(0.0, [refused] * 5_000, lambda _session: (0, 0))
    assert writer._seq == MOST_RECORDS


def test_what_can_be_done() -> None:
    assert "network.type" in advice(CloseCode.MODE_REFUSED, "no Stubs here")
    assert "for peers" in advice(None, "nobody answers")
    assert advice(CloseCode.NO_ERROR, "bye") == ""


def test_reasons_are_remembered_for_so_many_contacts() -> None:
    refusals = Refusals()
    for number in range(_MOST + 1):
        assert refusals.news(f"a:{number}", "x")
    assert not refusals.news(f"a:{_MOST}", "x")
    assert refusals.news("a:0", "x")
    refusals.reached("a:0")
    refusals.reached("never seen")
    assert refusals.news("a:0", "x")


# Records


def test_texts() -> None:
    assert (hash_text(255), node_text(None), node_text(A)) == ("00000000000000ff", None, str(A))


def test_why_a_node_is_gone() -> None:
    for why in ("withdrawn", "session_closed"):
        assert record_of(core.NodeGone(node=A, reason=why)) == NodeWd(node_id=str(A), reason=why)


def test_whether_an_unsubscribe_was_held_back() -> None:
    entry = SubscribeInfo(A, Stamp(7, 3), (1, 2), 3, 4)
    for delayed in (False, True):
        body = record_of(core.SubscribeGone(entry=entry, delayed=delayed))
        assert isinstance(body, SubWd)
        assert body.delayed is delayed


def test_dials_and_refusals() -> None:
    begun = reports.Dialled(contact="a:1", node=A, dynamic=True)
    assert record_of(begun) is None
    failed = reports.Dialled(contact="a:1\x1b", node=A, dynamic=True, failed="no")
    body = record_of(failed)
    assert isinstance(body, DialFail)
    assert (body.on_demand, body.peer, "\x1b" in body.contact) == (True, str(A), False)
    refused = reports.PeerTurnedDown(session=3, node=None, code=7, reason="", contact="a:1")
    assert record_of(refused) == PeerRefuse(session_id="p3", code=7, contact="a:1")
    assert record_of(core.PolicyChanged()) is None


ZERO = PeerPlaneCounters(*[0] * len(PeerPlaneCounters._fields))
STATS = ConnectionStats(*[7] * len(ConnectionStats._fields))


def sample(counters: PeerPlaneCounters, collisions: int = 0) -> NetworkSample:
    network = FakeNetwork()
    return NetworkSample(
        peers=network.peers(),
        unreached=1,
        sizes=TableSizes(nodes=3, announces=1, subscribes=2, sets_in=0, sets_out=1, fib=4),
        counters=counters,
        collisions=collisions,
        connections={3: STATS, 4: STATS._replace(rtt=None)},
    )


def test_tables_are_gauges_and_totals_grow(tmp_path: Path) -> None:
    metrics = Metrics()
    writer = TelemetryWriter(TelemetrySettings(directory=tmp_path, relay="0:1", boot=1))
    writer.start()
    sampler = NetworkSampler(metrics, writer)
    sampler.take(sample(ZERO._replace(bytes_in=100, held_bytes=5)))
    sampler.take(
        sample(ZERO._replace(bytes_in=150, unknown_streams=2, unsent_streams=3)), telemetry=False
    )
    writer.stop()
    text = metrics.render().decode()
    for line in (
        'laps_peers_open{type="via"} 1.0',  # the one whose handshake is under way does not count
        "laps_nodes_known 3.0",
        "laps_contacts_unreached 1.0",
        'laps_sets_open{direction="out"} 1.0',
        "laps_fib_entries 4.0",
        "laps_held_bytes 0.0",
        'laps_network_bytes_total{direction="in"} 150.0',
        'laps_network_dropped_streams_total{reason="unknown_set"} 2.0',
        'laps_network_dropped_streams_total{reason="session_ended"} 3.0',
    ):
        assert line in text
    (file,) = tmp_path.glob("*.jsonl")
    bodies = [load_line(line).body for line in file.read_bytes().splitlines()]
    (quic,) = (body for body in bodies if isinstance(body, QuicSample))
    (row,) = (row for row in FakeNetwork().peers() if row.session == 3)
    assert (quic.session_id, quic.peer) == ("p3", str(row.node))  # both ends of a link are joined


def test_without_telemetry() -> None:
    metrics = Metrics()
    NetworkSampler(metrics).take(sample(ZERO))
    assert "laps_network_subscribes_known 2.0" in metrics.render().decode()


def test_what_is_lost_and_what_collides_is_counted() -> None:
    metrics = Metrics()
    sampler = NetworkSampler(metrics)
    lost = ZERO._replace(unknown_datagrams=2, dropped_datagrams=3, unknown_kinds=4)
    for _ in range(2):
        sampler.take(sample(lost, collisions=5))
    text = metrics.render().decode()
    for line in (
        'laps_network_dropped_datagrams_total{reason="unknown_set"} 2.0',
        'laps_network_dropped_datagrams_total{reason="too_large"} 3.0',
        "laps_network_unknown_kinds_total 4.0",
        "laps_hash_collisions_total 5.0",
    ):
        assert line in text
