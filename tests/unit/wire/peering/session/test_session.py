"""Commands of a session: what is sent, what is refused, and what is left behind (nothing)."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

from laps_wire.errors import EncodeError, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp, laps2
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    Bases,
    Mode,
    RelayType,
    SnsRefusal,
    Stamp,
)
from laps_wire.peering.session import (
    CPP_16,
    LAPS2,
    AuthenticationRequired,
    Closed,
    ControlStreamLost,
    Event,
    NodesAdvertised,
    PeeringSession,
    Refused,
    Role,
    SnsAdvertised,
    SnsRefusedByPeer,
    SnsWithdrawn,
    StreamData,
    SubscribesAdvertised,
    SyncBegan,
    SyncEnded,
    SyncRequested,
)
from testkit.peering_pair import DIALLER, LISTENER, Pair, agreeable, config, node

A, B, C = NodeId(1), NodeId(2), NodeId(3)
SUBSCRIBE = laps2.SubscribeInfo(A, Stamp(1, 1), (1,), 2, 3)


# Messages


def test_send_and_receive() -> None:
    pair = Pair(chunk=1).establish()
    pair.dialler.send(pair.now, laps2.SyncBegin(Bases.NODES))
    pair.dialler.send(pair.now, laps2.NodeAdvertise((node(1), node(2))))
    pair.dialler.send(pair.now, laps2.SyncEnd(Bases.NODES))
    pair.dialler.send(pair.now, laps2.SyncRequest(Bases.SUBSCRIBES))
    pair.listener.send(pair.now, laps2.SubscribeAdvertise((SUBSCRIBE,)))
    pair.run()
    assert pair.events[LISTENER][:3] == [
        SyncBegan(bases=Bases.NODES),
        NodesAdvertised(nodes=(node(1), node(2))),
        SyncEnded(bases=Bases.NODES),
    ]
    assert pair.events[DIALLER] == [SubscribesAdvertised(subscribes=(SUBSCRIBE,))]


@pytest.mark.parametrize(
    "message",
    [
        laps2.Drain(5),
        laps2.ControlLatch(1),
        laps2.SnsAdvertise(1, 1, 0, (A,)),
        laps2.SnsRefused(1, 1, 1),
        laps2.ConnectRefused(1),
        object(),
    ],
)
def test_messages_with_a_command_of_their_own_are_not_sent(message: Any) -> None:
    session = Pair().establish().dialler
    with pytest.raises(StateError, match="is not sent with send"):
        session.send(200.0, message)


@pytest.mark.parametrize(
    ("mode", "message", "why"),
    [
        (Mode.DATA, laps2.NodeAdvertise(()), "node information on a session without control"),
        (Mode.DATA, laps2.SyncBegin(Bases.NODES), "has no place here"),
        (Mode.BOTH, laps2.SyncBegin(Bases.SNS), "has no place here"),
        (Mode.BOTH, laps2.SyncEnd(Bases.ALL), "has no place here"),
        (Mode.CONTROL, laps2.SyncRequest(Bases.SNS), "has no place here"),
    ],
)
def test_what_the_session_does_not_carry_is_not_sent(mode: Mode, message: Any, why: str) -> None:
    session = Pair(config(Role.DIALLER, mode=mode)).establish().dialler
    with pytest.raises(StateError, match=why):
        session.send(200.0, message)
    assert session.poll_transmit() is None


def test_a_synchronisation_begins_and_ends_once() -> None:
    pair = Pair().establish()
    session = pair.dialler
    with pytest.raises(StateError, match=r"Bases\.NODES.* has no place"):
        session.send(pair.now, laps2.SyncEnd(Bases.NODES))
    session.send(pair.now, laps2.SyncBegin(Bases.NODES | Bases.ANNOUNCES))
    with pytest.raises(StateError, match=r"Bases\.NODES.* has no place"):
        session.send(pair.now, laps2.SyncBegin(Bases.NODES | Bases.SUBSCRIBES))
    session.send(pair.now, laps2.SyncEnd(Bases.NODES))
    session.send(pair.now, laps2.SyncBegin(Bases.NODES))
    # A move makes it void: it is to be begun anew, and not to be ended.
    session.open_control_stream(pair.now, 4)
    with pytest.raises(StateError, match="has no place"):
        session.send(pair.now, laps2.SyncEnd(Bases.ANNOUNCES))
    session.send(pair.now, laps2.SyncBegin(Bases.ANNOUNCES))
    session.send(pair.now, laps2.SyncEnd(Bases.ANNOUNCES))
    pair.run()
    assert pair.listener.established


def test_a_stub_is_kept_from_its_own_mistakes() -> None:
    stub = Pair(config(Role.DIALLER, node_info=node(0, RelayType.STUB))).establish().dialler
    with pytest.raises(StateError, match="node information from a Stub"):
        stub.send(200.0, laps2.NodeAdvertise(()))
    with pytest.raises(StateError, match="subscriber node set from a Stub"):
        stub.advertise_sns(200.0, [A])
    stub.send(200.0, laps2.SubscribeAdvertise((SUBSCRIBE,)))


def test_a_message_that_can_not_be_written_changes_nothing() -> None:
    session = Pair().establish().dialler
    before = session.poll_timeout()
    with pytest.raises(EncodeError):
        session.send(session._now + 1, laps2.NodeWithdraw((B, A)))  # not ascending
    assert session.poll_transmit() is None
    assert session.poll_timeout() == before


def test_commands_before_the_session_is_established() -> None:
    session = Pair().dialler
    with pytest.raises(StateError, match="KEEPALIVE can not be sent: the session is idle"):
        session.send(1.0, laps2.Keepalive())
    with pytest.raises(StateError, match="PROOF can not be sent"):
        session.prove(1.0)
    with pytest.raises(StateError, match="nothing to accept: the session is idle"):
        session.accept(1.0)
    with pytest.raises(StateError, match="nothing to refuse"):
        session.refuse(1.0, 1)
    with pytest.raises(StateError, match="CONTROL_LATCH can not be sent"):
        session.open_control_stream(1.0, 4)
    with pytest.raises(StateError, match="DRAIN can not be sent"):
        session.drain(1.0, 5.0)
    for command in (
        lambda: session.advertise_sns(1.0, [A]),
        lambda: session.update_sns(1.0, 1, [A]),
        lambda: session.withdraw_sns(1.0, 1),
        lambda: session.refuse_sns(1.0, 1, SnsRefusal.POLICY),
    ):
        with pytest.raises(StateError, match="can not be sent"):
            command()
    with pytest.raises(StateError, match="CONNECT can not be sent: the session is listening"):
        Pair().listener.connect(1.0)
    session.connect(1.0)
    with pytest.raises(StateError, match="CONNECT can not be sent: the session is connect sent"):
        session.connect(1.0)


def test_closing() -> None:
    pair = Pair().establish()
    pair.listener.close(pair.now)
    with pytest.raises(StateError, match="closed already"):
        pair.listener.close(pair.now)
    with pytest.raises(StateError, match="the session is closed"):
        pair.listener.send(pair.now, laps2.Keepalive())
    pair.run()
    assert pair.events[DIALLER] == [Closed(code=0, by_peer=True)]


# Control streams


def test_only_newer_streams_of_the_dialler() -> None:
    pair = Pair().establish()
    with pytest.raises(StateError, match="not a newer bidirectional stream"):
        pair.dialler.open_control_stream(pair.now, 0)
    with pytest.raises(StateError, match="can not be sent"):
        pair.listener.open_control_stream(pair.now, 4)
    assert pair.dialler.poll_transmit() is None


def test_the_cpp_relay_has_one_control_stream() -> None:
    pair = Pair(flavour=CPP_16).establish()
    with pytest.raises(StateError, match="can not be sent"):
        pair.dialler.open_control_stream(pair.now, 4)


def test_sets_survive_a_move() -> None:
    pair = Pair(stream_delay={0: 3.0}).establish()
    first = pair.dialler.advertise_sns(pair.now, [A], scope="gold")
    second = pair.dialler.advertise_sns(pair.now, [B])
    pair.run()
    pair.forget()
    # These two are lost with the old stream; the synchronisation makes up for them.
    pair.dialler.update_sns(pair.now, first, [A, C])
    pair.dialler.withdraw_sns(pair.now, second)
    pair.flush(DIALLER)
    pair.dialler.open_control_stream(pair.now, 4)
    pair.run()
    sets = [
        event for event in pair.events[LISTENER] if isinstance(event, SnsAdvertised | SnsWithdrawn)
    ]
    assert sets == [
        SnsAdvertised(
            sns_id=first,
            version=3,
            hops=0,
            targets=frozenset({A, C}),
            added=(C,),
            removed=(),
            scope="gold",
        ),
        SnsWithdrawn(sns_id=second, targets=(B,)),
    ]


def test_a_synchronisation_that_lost_its_stream_is_not_ended_on_another() -> None:
    pair = Pair().establish()
    pair.dialler.send(pair.now, laps2.SyncBegin(Bases.NODES))
    pair.run()
    pair.dialler.handle_stop_sending(pair.now, 0)
    pair.dialler.send(pair.now, laps2.NodeAdvertise((node(7),)))
    pair.dialler.send(pair.now, laps2.SyncEnd(Bases.NODES))
    pair.dialler.open_control_stream(pair.now, 4)
    pair.run()
    assert pair.listener.established
    assert SyncEnded(bases=Bases.NODES) not in pair.events[LISTENER]
    assert NodesAdvertised(nodes=(node(7),)) in pair.events[LISTENER]
    assert SyncRequested(bases=Bases.ALL & ~Bases.SNS) in pair.events[DIALLER]


def refuse_every_set(session: PeeringSession, now: float, event: Event) -> None:
    agreeable(session, now, event)
    if isinstance(event, SnsAdvertised):
        session.refuse_sns(now, event.sns_id, SnsRefusal.POLICY)


@pytest.mark.parametrize("side", [DIALLER, LISTENER])
def test_a_refused_set_is_advertised_again_in_a_synchronisation_only(side: int) -> None:
    pair = Pair(answer=refuse_every_set).establish()
    session, peer = pair.sessions[side], pair.sessions[1 - side]
    first = session.advertise_sns(pair.now, [A])
    pair.run()
    assert pair.events[side] == [
        SnsRefusedByPeer(sns_id=first, version=1, code=SnsRefusal.POLICY, targets=())
    ]
    # Whatever happens to the set or to others: no SNS_ADVERTISE of an ID that the peer gave up.
    session.update_sns(pair.now, first, [A, B])
    session.advertise_sns(pair.now, [C])
    session.update_sns(pair.now, first, [B])
    pair.run()
    peer.send(pair.now, laps2.SyncRequest(Bases.SNS))
    pair.run()
    session.handle_stop_sending(pair.now, 0)
    session.update_sns(pair.now, first, [C])
    pair.dialler.open_control_stream(pair.now, 4)
    pair.run()
    session.withdraw_sns(pair.now, first)
    pair.run()
    assert session.established
    assert peer.established


def test_a_synchronisation_of_sets_that_is_cut_by_a_move_begins_anew() -> None:
    """The rest of it must not follow on the new stream: outside it would be a violation."""
    pair = Pair(answer=refuse_every_set).establish()
    large = [NodeId(number) for number in range(1, 4097)]
    for _ in range(4):
        pair.listener.advertise_sns(pair.now, large)
    pair.run()
    pair.listener.handle_stream_data(pair.now, 0, laps2.encode(laps2.SyncRequest(Bases.SNS)))
    begun = pair.listener.poll_transmit()  # the transport takes no more for now
    assert isinstance(begun, StreamData)
    pair.dialler.handle_stream_data(pair.now, 0, begun.data)
    pair.stream_delay[0] = 1.0  # the new stream is faster than the end of the old one
    pair.dialler.open_control_stream(pair.now, 4)
    pair.flush(DIALLER)
    while not pair.quiet:
        pair.hop()
    assert pair.closed == [None, None]
    assert pair.dialler.control_stream == pair.listener.control_stream == 4


# Growth


def reachable(session: PeeringSession) -> int:
    """How many objects a session keeps alive, code not counted."""
    code = (type, ModuleType, FunctionType, BuiltinFunctionType)
    found: dict[int, object] = {}
    waiting: list[object] = [session]
    while waiting:
        each = waiting.pop()
        if id(each) not in found and not isinstance(each, code):
            found[id(each)] = each
            waiting.extend(gc.get_referents(each))
    return len(found)


def test_sets_and_moves_leave_nothing_behind() -> None:
    pair = Pair(delay=0.0).establish()

    def churn(rounds: int) -> list[int]:
        for _ in range(rounds):
            for session in pair.sessions:
                sns_id = session.advertise_sns(pair.now, [A, B])
                session.update_sns(pair.now, sns_id, [B, C])
                session.withdraw_sns(pair.now, sns_id)
            newest = pair.dialler.control_stream
            assert newest is not None
            pair.dialler.open_control_stream(pair.now, newest + 4)
            pair.run()
        return [reachable(session) for session in pair.sessions]

    before, after = churn(10), churn(200)
    for was, now in zip(before, after, strict=True):
        assert now <= was + 10  # small numbers are shared, larger ones are not
    for session in pair.sessions:
        forwarding = session.forwarding
        assert forwarding is not None
        assert (len(forwarding.sender), len(forwarding.receiver)) == (0, 0)
        assert (session._streams.stale, session._streams.buffered) == (0, 0)


# The C++ relay


def test_a_whole_cpp_session() -> None:
    pair = Pair(flavour=CPP_16, chunk=5)
    pair.dialler.connect(pair.now)
    pair.run()
    assert pair.dialler.established
    info = cpp.NodeInfo(A, cpp.NodeType.EDGE, b"relay-b")
    pair.dialler.send(pair.now, cpp.NodeInfoAdvertise(info))
    sns_id = pair.dialler.advertise_sns(pair.now, [B])
    pair.dialler.update_sns(pair.now, sns_id, [B, C])
    pair.dialler.withdraw_sns(pair.now, sns_id)
    pair.run()
    nodes, made, changed, ended = pair.events[LISTENER][-4:]
    assert nodes == NodesAdvertised(nodes=(info,))
    assert isinstance(made, SnsAdvertised)
    assert made.sns_id == 2
    assert isinstance(changed, SnsAdvertised)
    assert changed.added == (C,)
    assert ended == SnsWithdrawn(sns_id=2, targets=(B, C))
    pair.advance(3600.0)
    assert pair.dialler.established  # it has no hold time


def test_a_cpp_listener_refuses() -> None:
    def refuse(session: PeeringSession, now: float, event: Event) -> None:
        if isinstance(event, AuthenticationRequired):
            session.refuse(now, CloseCode.NOT_AUTHORIZED, "no")

    pair = Pair(flavour=CPP_16, answer=refuse)
    pair.dialler.connect(pair.now)
    pair.run()
    assert pair.events[DIALLER] == [
        Refused(code=0x2, reason="C++ relay error 2"),
        Closed(code=0x2, reason="C++ relay error 2", by_peer=True),
    ]


def test_control_streams_that_are_lost_are_told_to_the_application() -> None:
    pair = Pair().establish()
    pair.listener.handle_stream_data(pair.now, 0, b"", fin=True)
    assert pair.listener.poll_events() == (ControlStreamLost(stream_id=0),)
    assert LAPS2.alpn == "laps-2"
