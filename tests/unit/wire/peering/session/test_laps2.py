"""The laps-2 dialect: a kind for every message, an event for every one that informs."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.nodeid import NodeId
from laps_wire.peering import laps2
from laps_wire.peering.errors import MessageTooLargeError
from laps_wire.peering.laps2 import Bases, SnsRefusal, Stamp
from laps_wire.peering.laps2.messages import LAYOUTS
from laps_wire.peering.session import events
from laps_wire.peering.session.dialect import Dialect, SnsChange, SnsDescription, SnsEnd
from laps_wire.peering.session.handshake import Laps2Handshake
from laps_wire.peering.session.laps2 import LAPS2
from laps_wire.peering.session.sns import SnsDiff, SnsRejection, SnsSet
from laps_wire.peering.session.state import Kind, Role, Shape
from testkit.peering_pair import config, node

A, B, C = NodeId(1), NodeId(2), NodeId(3)
DIALECT: Dialect = LAPS2  # it has everything that a dialect needs


def test_what_it_is() -> None:
    assert DIALECT.alpn == "laps-2"
    assert DIALECT.shape is Shape.PROVED
    assert not DIALECT.single_stream
    assert not DIALECT.single_messages
    assert DIALECT.checks_types
    assert DIALECT.ordered_sns
    assert DIALECT.first_sns_id == 1
    assert isinstance(DIALECT.handshake(config(Role.DIALLER)), Laps2Handshake)


def test_every_message_has_a_kind() -> None:
    blank: Any
    for layout in LAYOUTS.values():
        blank = object.__new__(layout.cls)
        assert isinstance(DIALECT.kind(blank), Kind), layout.cls
    assert DIALECT.kind(laps2.UnknownMessage(0x21, b"")) is Kind.IGNORED
    assert DIALECT.kind(object()) is None


def test_every_kind_of_message_exists() -> None:
    kinds = {DIALECT.kind(object.__new__(layout.cls)) for layout in LAYOUTS.values()}
    assert kinds == set(Kind) - {Kind.IGNORED, Kind.ACCEPTED}


RESPONSE = laps2.SubscribeResponse(A, 5, Stamp(1, 2), B, 0)
FETCHES = (
    laps2.FetchRequest(A, B, 7, 0, (1,), 2, 3),
    laps2.FetchResponse(A, 7, B, 0, 0),
    laps2.FetchCancel(A, B, 7, 0),
)
PROBE = laps2.Probe(1, A, 2)
ANSWER = laps2.ProbeResponse(1, A, 2, 3)
NOTICE = laps2.PlanNotice(b"plan", 1, laps2.PlanState.ACTIVE)
SUBSCRIBE = laps2.SubscribeInfo(A, Stamp(1, 1), (1,), 2, 3)
SUBSCRIBE_END = laps2.SubscribeWithdrawal(A, Stamp(1, 2), 3)
ANNOUNCE = laps2.AnnounceInfo(A, Stamp(1, 1), laps2.AnnounceKind.NAMESPACE, (1,), None, 3)
ANNOUNCE_END = laps2.AnnounceWithdrawal(A, Stamp(1, 2), laps2.AnnounceKind.NAMESPACE, 3)


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (
            laps2.ConnectRefused(5, "no", 100, ("other",)),
            events.Refused(code=5, reason="no", retry_after_ms=100, redirect=("other",)),
        ),
        (laps2.NodeAdvertise((node(1),)), events.NodesAdvertised(nodes=(node(1),))),
        (laps2.NodeWithdraw((A, B)), events.NodesWithdrawn(nodes=(A, B))),
        (
            laps2.AnnounceAdvertise((ANNOUNCE,)),
            events.AnnouncesAdvertised(announces=(ANNOUNCE,)),
        ),
        (
            laps2.AnnounceWithdraw((ANNOUNCE_END,)),
            events.AnnouncesWithdrawn(announces=(ANNOUNCE_END,)),
        ),
        (
            laps2.SubscribeAdvertise((SUBSCRIBE,)),
            events.SubscribesAdvertised(subscribes=(SUBSCRIBE,)),
        ),
        (
            laps2.SubscribeWithdraw((SUBSCRIBE_END,)),
            events.SubscribesWithdrawn(subscribes=(SUBSCRIBE_END,)),
        ),
        (RESPONSE, events.SubscribeAnswered(response=RESPONSE)),
        (laps2.SyncRequest(Bases.NODES), events.SyncRequested(bases=Bases.NODES)),
        (laps2.SyncBegin(Bases.SNS), events.SyncBegan(bases=Bases.SNS)),
        (laps2.SyncEnd(Bases.ALL), events.SyncEnded(bases=Bases.ALL)),
        (
            laps2.SnsRefused(7, 2, 1, (A,)),
            events.SnsRefusedByPeer(sns_id=7, version=2, code=1, targets=(A,)),
        ),
        *((message, events.FetchSaid(message=message)) for message in FETCHES),
        (PROBE, events.ProbeReceived(probe=PROBE)),
        (ANSWER, events.ProbeAnswered(response=ANSWER)),
        (NOTICE, events.PlanNoticed(notice=NOTICE)),
        (
            laps2.Drain(2500, "upgrade", ("edge-2",)),
            events.Draining(deadline=102.5, reason="upgrade", alternates=("edge-2",)),
        ),
        (laps2.Stay(), events.Staying()),
        (laps2.Keepalive(), None),
        (laps2.UnknownMessage(0x21, b""), None),
    ],
)
def test_events(message: Any, event: events.Event | None) -> None:
    assert DIALECT.event(100.0, message) == event


def test_messages_of_the_session_itself() -> None:
    assert DIALECT.refusal(5, "no", 10, ("x",)) == laps2.ConnectRefused(5, "no", 10, ("x",))
    assert DIALECT.keepalive() == laps2.Keepalive()
    assert DIALECT.latch(3) == laps2.ControlLatch(3)
    assert DIALECT.generation(laps2.ControlLatch(3)) == 3
    assert DIALECT.generation(laps2.Keepalive()) is None
    assert DIALECT.drain(1.5, "why", ("x",)) == laps2.Drain(1500, "why", ("x",))
    assert DIALECT.drain(-1.0, "", ()) == laps2.Drain(0)
    assert DIALECT.stay() == laps2.Stay()
    assert DIALECT.sync(Bases.SNS, begin=True) == laps2.SyncBegin(Bases.SNS)
    assert DIALECT.sync(Bases.SNS, begin=False) == laps2.SyncEnd(Bases.SNS)


def test_bytes() -> None:
    data = DIALECT.encode(laps2.Keepalive(), 65_536)
    assert data == bytes.fromhex("0e0100")
    assert DIALECT.decode(b"x" + data + b"rest", 1, 65_536) == (laps2.Keepalive(), 4)
    with pytest.raises(MessageTooLargeError):
        DIALECT.decode(data, 0, 0)


def test_reading_sets() -> None:
    assert list(DIALECT.read_sns(laps2.SnsAdvertise(7, 1, 2, (A, B)))) == [
        SnsDescription(7, 1, (A, B), 2)
    ]
    with_class = laps2.SnsAdvertise(7, 1, 2, (A,), laps2.scope_parameters("gold"))
    assert list(DIALECT.read_sns(with_class)) == [SnsDescription(7, 1, (A,), 2, "gold")]
    steps = (SnsDiff(7, 1, (A,)),)
    now = SnsSet(7, 1, frozenset({A}), hops=2, scope="gold")
    assert list(DIALECT.write_sns(steps, now, whole=True)) == [with_class]
    assert list(DIALECT.read_sns(laps2.SnsUpdate(7, 2, (C,), (A,)))) == [
        SnsChange(7, 2, (C,), (A,))
    ]
    assert list(DIALECT.read_sns(laps2.SnsWithdraw((7, 9)))) == [SnsEnd(7), SnsEnd(9)]


def test_writing_sets() -> None:
    steps = (SnsDiff(7, 1, (A, B)), SnsDiff(7, 2, (C,)))
    now = SnsSet(7, 2, frozenset({A, B, C}), hops=4)
    assert list(DIALECT.write_sns(steps, now, whole=True)) == [
        laps2.SnsAdvertise(7, 1, 4, (A, B)),
        laps2.SnsUpdate(7, 2, (C,)),
    ]
    change = (SnsDiff(7, 3, (), (A,)),)
    assert list(DIALECT.write_sns(change, now, whole=False)) == [laps2.SnsUpdate(7, 3, (), (A,))]
    assert DIALECT.write_sns_end(7) == laps2.SnsWithdraw((7,))
    assert DIALECT.write_sns_refusal(
        SnsRejection(7, 3, SnsRefusal.TOO_MANY_SETS)
    ) == laps2.SnsRefused(7, 3, SnsRefusal.TOO_MANY_SETS)
    assert DIALECT.write_sns_refusal(
        SnsRejection(7, 3, SnsRefusal.NOT_ADVERTISED, targets=(A, C))
    ) == laps2.SnsRefused(7, 3, SnsRefusal.NOT_ADVERTISED, (A, C))
