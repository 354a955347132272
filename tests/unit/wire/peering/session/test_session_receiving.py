"""What comes in: one case for each violation with its code, and everything that is no violation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp, laps2
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import Bases, Direction, Mode, RelayType, Settings, Stamp
from laps_wire.peering.session import (
    CPP_16,
    LAPS2,
    AuthenticationRequired,
    Closed,
    ConnectionClose,
    ControlStreamLost,
    ControlStreamMoved,
    DataDropped,
    Dialect,
    Draining,
    Drop,
    Dropped,
    Ending,
    Established,
    NodesAdvertised,
    NodesWithdrawn,
    PeeringSession,
    ProbeReceived,
    Refused,
    Role,
    SnsAdvertised,
    SnsRefusedByPeer,
    SnsWithdrawn,
    State,
    StreamData,
    StreamEnd,
    SubscribesAdvertised,
    SyncBegan,
    SyncEnded,
    SyncRequested,
)
from laps_wire.peering.session.session import MAX_EARLY_BYTES
from testkit.peering_pair import DIALLER, LISTENER, Pair, config, node, silent

A, B = NodeId(1), NodeId(2)
ONE_WAY = Direction.UNIDIRECTIONAL
SUBSCRIBE = laps2.SubscribeInfo(A, Stamp(1, 1), (1,), 2, 3)
ANNOUNCE = laps2.AnnounceInfo(A, Stamp(1, 1), laps2.AnnounceKind.NAMESPACE, (1,), None, 3)


def give(session: PeeringSession, message: Any, *, stream_id: int = 0, now: float = 200.0) -> None:
    """A message of the peer arrives, out of nowhere."""
    data = message if isinstance(message, bytes) else laps2.encode(message)
    session.handle_stream_data(now, stream_id, data)


def transmits(session: PeeringSession) -> list[Any]:
    items = []
    while (item := session.poll_transmit()) is not None:
        items.append(item)
    return items


def messages(session: PeeringSession) -> list[Any]:
    """The control messages that a session has to send."""
    found = []
    for item in transmits(session):
        data = item.data if isinstance(item, StreamData) else b""
        while data:
            message, used = laps2.decode(data)
            found.append(message)
            data = data[used:]
    return found


def established(
    side: int = LISTENER,
    mode: Mode = Mode.BOTH,
    direction: Direction = Direction.BIDIRECTIONAL,
    dialler_type: RelayType = RelayType.EDGE,
    **settings: Any,
) -> PeeringSession:
    number = 0 if dialler_type is RelayType.STUB else 10
    one = config(Role.DIALLER, node_info=node(number, dialler_type), mode=mode, direction=direction)
    other = config(Role.LISTENER, settings=Settings(hash_check=7, **settings))
    return Pair(one, other).establish().sessions[side]


def check_closed(session: PeeringSession, code: int, why: str) -> None:
    """The session has ended by itself, with this code, and says so to both sides."""
    assert session.state is State.CLOSED
    closed = session.poll_events()[-1]
    assert isinstance(closed, Closed)
    assert (closed.code, closed.by_peer) == (code, False)
    assert why in closed.reason
    assert transmits(session)[-1] == ConnectionClose(code, closed.reason)
    assert session.poll_timeout() is None
    # Nothing matters any more.
    give(session, laps2.Keepalive())
    assert (session.poll_events(), transmits(session)) == ((), [])


# Violations of an established session


@pytest.mark.parametrize(
    ("message", "code", "why"),
    [
        (b"\x0e\x05\x00\x00\x00\x00\x00", 0x3, "left over"),
        (b"\x0e\x01\x05", 0x3, "truncated"),
        (b"\x3e\x00", 0x9, "0x3e is even and unknown"),
        (b"\x18\x80\x01\x00\x01", 0xA, "65537 bytes, at most 65536"),
        (laps2.Challenge(0x200, (), A, bytes(32), (0,)), 0x3, "CHALLENGE while"),
        (laps2.Proof(Mode.BOTH, ONE_WAY, laps2.NO_EVIDENCE), 0x3, "PROOF while"),
        (laps2.ConnectResponse(Mode.BOTH, ONE_WAY, node(1)), 0x3, "CONNECT_RESPONSE while"),
        (laps2.ConnectRefused(5), 0x3, "CONNECT_REFUSED while"),
        (laps2.ControlLatch(1), 0x3, "CONTROL_LATCH on a stream that is in use"),
        (laps2.SyncEnd(Bases.NODES), 0x3, "SYNC_END without SYNC_BEGIN"),
        (laps2.SnsUpdate(4, 2, (A,)), 0x14, "before it is made"),
        (laps2.SnsWithdraw((4,)), 0x14, "before it is made"),
    ],
)
def test_violations_of_the_dialler(message: Any, code: int, why: str) -> None:
    session = established()
    give(session, message)
    check_closed(session, code, why)


def test_connect_twice() -> None:
    pair = Pair().establish()
    again = laps2.Connect(
        (0x200,), (), Mode.BOTH, Direction.BIDIRECTIONAL, bytes(32), (0,), node(10)
    )
    give(pair.listener, again)
    check_closed(pair.listener, 0x3, "CONNECT while the session is established")


def test_a_listener_never_latches() -> None:
    session = established(DIALLER)
    give(session, laps2.ControlLatch(1))
    check_closed(session, 0x3, "CONTROL_LATCH while the session is established")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (laps2.NodeAdvertise((node(1),)), "node information"),
        (laps2.NodeWithdraw((A,)), "node information"),
        (laps2.AnnounceAdvertise((ANNOUNCE,)), "announce information"),
        (laps2.SubscribeAdvertise((SUBSCRIBE,)), "subscribe information"),
        (laps2.SubscribeResponse(A, 1, Stamp(1, 1), B, 0), "SUBSCRIBE_RESPONSE"),
    ],
)
def test_information_on_a_data_session(message: Any, why: str) -> None:
    session = established(mode=Mode.DATA)
    give(session, message)
    check_closed(session, 0x3, f"{why} on a session without control")


@pytest.mark.parametrize("message", [laps2.SnsAdvertise(1, 1, 0, (A,)), laps2.SnsWithdraw((1,))])
def test_sets_on_a_control_session(message: Any) -> None:
    session = established(mode=Mode.CONTROL)
    give(session, message)
    check_closed(session, 0x3, "subscriber node set from the side that sends no data")


def test_sets_against_the_direction() -> None:
    session = established(DIALLER, direction=ONE_WAY)
    give(session, laps2.SnsAdvertise(1, 1, 0, (A,)))
    check_closed(session, 0x3, "from the side that sends no data")


def test_refusals_of_sets_against_the_direction() -> None:
    session = established(LISTENER, direction=ONE_WAY)
    give(session, laps2.SnsRefused(1, 1, 1))
    check_closed(session, 0x3, "SNS_REFUSED to the side that sends no data")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (laps2.NodeAdvertise((node(1),)), "node information from a Stub"),
        (laps2.SnsAdvertise(1, 1, 0, (A,)), "subscriber node set from a Stub"),
        (laps2.SyncBegin(Bases.NODES), "Bases.NODES"),
        (laps2.SyncRequest(Bases.ANNOUNCES), "Bases.ANNOUNCES"),
    ],
)
def test_what_a_stub_may_not_say(message: Any, why: str) -> None:
    session = established(LISTENER, dialler_type=RelayType.STUB)
    give(session, message)
    check_closed(session, 0x3, why)


@pytest.mark.parametrize(
    "message", [laps2.NodeAdvertise((node(1),)), laps2.AnnounceAdvertise((ANNOUNCE,))]
)
def test_what_nobody_may_say_to_a_stub(message: Any) -> None:
    session = established(DIALLER, dialler_type=RelayType.STUB)
    give(session, message)
    check_closed(session, 0x3, "to a Stub")


def test_a_stub_sends_announces_and_gets_subscribes() -> None:
    edge = established(LISTENER, dialler_type=RelayType.STUB)
    give(edge, laps2.SyncBegin(Bases.ANNOUNCES | Bases.SUBSCRIBES))
    give(edge, laps2.AnnounceAdvertise((ANNOUNCE,)))
    give(edge, laps2.SubscribeAdvertise((SUBSCRIBE,)))
    assert len(edge.poll_events()) == 3
    stub = established(DIALLER, dialler_type=RelayType.STUB)
    give(stub, laps2.SubscribeAdvertise((SUBSCRIBE,)))
    assert stub.poll_events() == (SubscribesAdvertised(subscribes=(SUBSCRIBE,)),)


@pytest.mark.parametrize("stream_id", [1, 2, 3, 5])
def test_streams_that_are_not_the_diallers(stream_id: int) -> None:
    session = established()
    session.handle_stream_data(200.0, stream_id, b"")
    check_closed(session, 0x3, "only the dialler opens them")


# Synchronising


def test_synchronisation_of_the_peer() -> None:
    session = established()
    give(session, laps2.SyncBegin(Bases.NODES | Bases.SNS))
    give(session, laps2.NodeAdvertise((node(1),)))
    give(session, laps2.SnsAdvertise(1, 1, 0, (A,)))
    give(session, laps2.SyncEnd(Bases.SNS))
    give(session, laps2.SyncEnd(Bases.NODES))
    began, nodes, made, ended = session.poll_events()
    assert (began, ended) == (SyncBegan(bases=Bases.NODES), SyncEnded(bases=Bases.NODES))
    assert nodes == NodesAdvertised(nodes=(node(1),))
    assert isinstance(made, SnsAdvertised)


def test_synchronisation_of_sets_ends_those_that_are_not_named() -> None:
    session = established()
    give(session, laps2.SnsAdvertise(1, 1, 0, (A,)))
    session.poll_events()
    give(session, laps2.SyncBegin(Bases.SNS))
    give(session, laps2.SyncEnd(Bases.SNS))
    assert session.poll_events() == (SnsWithdrawn(sns_id=1, targets=(A,)),)


def test_synchronisation_inside_a_synchronisation() -> None:
    session = established()
    give(session, laps2.SyncBegin(Bases.NODES | Bases.ANNOUNCES))
    give(session, laps2.SyncBegin(Bases.SUBSCRIBES))  # another base: fine
    give(session, laps2.SyncBegin(Bases.ANNOUNCES))
    check_closed(session, 0x3, "SYNC_BEGIN inside a synchronisation of the same bases")


def test_synchronisation_of_a_base_that_the_session_does_not_carry() -> None:
    session = established(mode=Mode.DATA)
    give(session, laps2.SyncBegin(Bases.SUBSCRIBES))
    check_closed(session, 0x3, "has no place here")


def test_synchronisation_on_request() -> None:
    pair = Pair().establish()
    sns_id = pair.listener.advertise_sns(pair.now, [A])
    messages(pair.listener)
    give(pair.listener, laps2.SyncRequest(Bases.ALL))
    assert pair.listener.poll_events() == (SyncRequested(bases=Bases.ALL & ~Bases.SNS),)
    assert messages(pair.listener) == [
        laps2.SyncBegin(Bases.SNS),
        laps2.SnsAdvertise(sns_id, 2, 0, (A,)),
        laps2.SyncEnd(Bases.SNS),
    ]
    give(pair.listener, laps2.SyncRequest(Bases.SNS))
    assert pair.listener.poll_events() == ()


# Messages that only inform, or nothing


def test_messages_become_events() -> None:
    session = established()
    probe = laps2.Probe(1, A, 2)
    for message in (
        laps2.Keepalive(),
        laps2.UnknownMessage(0x21, b"from the future"),
        laps2.NodeWithdraw((A, B)),
        probe,
        laps2.SnsRefused(9, 1, 6, (A,)),
        laps2.Drain(1500, "upgrade", ("edge-9",)),
    ):
        give(session, message)
    assert session.poll_events() == (
        NodesWithdrawn(nodes=(A, B)),
        ProbeReceived(probe=probe),
        SnsRefusedByPeer(sns_id=9, version=1, code=6, targets=(A,)),
        Draining(deadline=201.5, reason="upgrade", alternates=("edge-9",)),
    )
    assert session.state is State.PEER_DRAINING
    give(session, laps2.Drain(0))
    check_closed(session, 0x3, "DRAIN while the session is peer draining")


def test_sets_that_we_do_not_serve_are_refused() -> None:
    session = established(max_sns_sets=1)
    give(session, laps2.SnsAdvertise(1, 1, 0, (A,)))
    give(session, laps2.SnsAdvertise(2, 1, 0, (A,)))
    assert messages(session) == [laps2.SnsRefused(2, 1, laps2.SnsRefusal.TOO_MANY_SETS)]
    assert session.established


# The handshake


def test_a_handshake_hop_by_hop() -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(pair.now)
    pair.flush(DIALLER)
    # CONNECT arrives: the listener chooses by itself.
    assert pair.hop() == []
    assert pair.listener.state is State.CHALLENGE_SENT
    # CHALLENGE arrives: the dialler's application is asked to sign.
    (question,) = pair.hop()
    assert isinstance(question, AuthenticationRequired)
    assert (pair.dialler.state, question.peer) == (State.SIGNING, 20)
    pair.dialler.prove(pair.now)
    pair.flush(DIALLER)
    # PROOF arrives: the listener's application is asked to verify.
    (question,) = pair.hop()
    assert isinstance(question, AuthenticationRequired)
    assert (pair.listener.state, question.peer) == (State.VERIFYING, 10)
    pair.listener.accept(pair.now)
    (up, sync) = pair.flush(LISTENER)
    assert isinstance(up, Established)
    assert sync == SyncRequested(bases=Bases.ALL & ~Bases.SNS)
    # CONNECT_RESPONSE and the listener's sets arrive: the dialler's application verifies.
    (question,) = pair.hop()
    assert isinstance(question, AuthenticationRequired)
    assert pair.dialler.state is State.VERIFYING
    assert not pair.dialler.established
    pair.dialler.accept(pair.now)
    (up, sync) = pair.flush(DIALLER)
    assert isinstance(up, Established)
    assert (pair.dialler.state, pair.listener.state) == (State.ESTABLISHED, State.ESTABLISHED)


HANDSHAKE: list[tuple[Callable[[Pair], PeeringSession], Any, str]] = [
    (lambda pair: pair.listener, laps2.Keepalive(), "KEEPALIVE while the session is listening"),
    (lambda pair: pair.listener, laps2.NodeAdvertise(()), "node information while"),
    (lambda pair: pair.listener, laps2.Probe(1, A, 2), "PROBE"),
    (lambda pair: pair.listener, laps2.ControlLatch(1), "CONTROL_LATCH while"),
    (lambda pair: pair.dialler, laps2.SyncBegin(Bases.SNS), "SYNC_BEGIN or SYNC_END while"),
    (
        lambda pair: pair.dialler,
        laps2.ConnectResponse(Mode.BOTH, ONE_WAY, node(20)),
        "CONNECT_RESPONSE while the session is connect sent",
    ),
]


@pytest.mark.parametrize(("side", "message", "why"), HANDSHAKE)
def test_anything_else_in_the_handshake(
    side: Callable[[Pair], PeeringSession], message: Any, why: str
) -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(pair.now)
    session = side(pair)
    give(session, message)
    check_closed(session, 0x3, why)


def test_what_may_be_ignored_may_come_in_the_handshake() -> None:
    pair = Pair()
    give(pair.listener, laps2.UnknownMessage(0x21, b"hello"))
    pair.establish()


def test_a_listener_refuses_with_a_message_and_waits_a_second() -> None:
    pair = Pair(config(Role.DIALLER, versions=(0x300,)), answer=silent)
    pair.dialler.connect(pair.now)
    pair.flush(DIALLER)
    pair.hop()
    assert pair.listener.state is State.REFUSED
    refused_at = pair.now
    assert pair.listener.poll_timeout() == refused_at + 1.0
    # The dialler hears it, tells its application, and closes with the same code.
    refused, closed = pair.hop()
    assert refused == Refused(code=0x4, reason="no protocol version in common")
    assert closed == Closed(code=0x4, reason="no protocol version in common", by_peer=True)
    assert pair.closed[DIALLER] == (0x4, "no protocol version in common")
    give(pair.listener, b"anything")  # nothing matters to a listener that refused
    # The close arrives.
    assert pair.hop() == [Closed(code=0x4, reason="no protocol version in common", by_peer=True)]
    assert pair.listener.poll_transmit() is None


def test_a_listener_that_refused_closes_by_itself() -> None:
    pair = Pair(config(Role.DIALLER, versions=(0x300,)), answer=silent)
    pair.dialler.connect(pair.now)
    pair.flush(DIALLER)
    pair.hop()
    messages(pair.listener)
    pair.listener.handle_timeout(pair.now + 0.9)
    assert pair.listener.state is State.REFUSED
    pair.listener.handle_timeout(pair.now + 1.0)
    check_closed(pair.listener, 0x4, "no protocol version")


def test_a_dialler_that_finds_a_fault_closes() -> None:
    pair = Pair(config(Role.DIALLER, settings=Settings(expected_node=99)), answer=silent)
    challenge = laps2.Challenge(0x200, (), NodeId(20), bytes(32), (0,))
    pair.dialler.connect(pair.now)
    messages(pair.dialler)
    give(pair.dialler, challenge)
    check_closed(pair.dialler, 0x13, "reached node 0.0:0.20")


def test_malformed_bytes_are_not_worth_a_refusal() -> None:
    pair = Pair()
    give(pair.listener, b"\x02\x01\x00")
    check_closed(pair.listener, 0x3, "count 0 is outside")


def test_a_listener_that_grants_control_only_refuses_data() -> None:
    pair = Pair(config(Role.DIALLER, mode=Mode.DATA), config(Role.LISTENER, mode=Mode.CONTROL))
    pair.dialler.connect(pair.now)
    pair.run()
    assert pair.events[DIALLER][-2] == Refused(code=0x8, reason="mode DATA is not for this relay")


def test_what_a_listener_says_before_it_is_verified_waits() -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    pair.listener.accept(pair.now)
    pair.listener.send(pair.now, laps2.NodeAdvertise((node(1),)))
    pair.run()
    kinds = [type(event) for event in pair.events[DIALLER]]
    assert kinds == [AuthenticationRequired, AuthenticationRequired]
    pair.dialler.accept(pair.now)
    events = pair.dialler.poll_events()
    assert isinstance(events[0], Established)
    assert events[-1] == NodesAdvertised(nodes=(node(1),))


def test_a_fault_before_verification_counts_after_it() -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    pair.listener.accept(pair.now)
    pair.run()
    give(pair.dialler, laps2.SyncEnd(Bases.NODES))
    give(pair.dialler, laps2.NodeAdvertise(()))
    assert pair.dialler.state is State.VERIFYING
    pair.dialler.accept(pair.now)
    check_closed(pair.dialler, 0x3, "SYNC_END without SYNC_BEGIN")


def test_too_much_before_verification() -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    pair.listener.accept(pair.now)
    pair.run()
    chunk = laps2.encode(laps2.UnknownMessage(0x21, bytes(65_000)))
    for _ in range(MAX_EARLY_BYTES // len(chunk)):
        give(pair.dialler, chunk)
        assert pair.dialler.state is State.VERIFYING
    give(pair.dialler, chunk)
    check_closed(pair.dialler, 0xB, "before the listener was verified")


# Control streams


def test_moving_hop_by_hop() -> None:
    pair = Pair().establish()
    pair.dialler.advertise_sns(pair.now, [A])
    pair.run()
    pair.forget()
    pair.dialler.open_control_stream(pair.now, 4)
    assert pair.flush(DIALLER) == [SyncRequested(bases=Bases.ALL & ~Bases.SNS)]
    first, second = pair.sent[DIALLER]
    assert first == StreamEnd(0, Ending.FINISH, StreamCode.LATCHED)
    assert isinstance(second, StreamData)
    assert second.stream_id == 4
    assert second.data.startswith(laps2.encode(laps2.ControlLatch(1)))
    # The old stream's end arrives.
    assert pair.hop() == [ControlStreamLost(stream_id=0)]
    # CONTROL_LATCH and the sets arrive; the listener moves and says so on the new stream.
    moved, sync = pair.hop()
    assert moved == ControlStreamMoved(old=0, new=4, clean=True, discarded=0)
    assert sync == SyncRequested(bases=Bases.ALL & ~Bases.SNS)
    assert pair.listener.control_stream == 4
    finish, answer = pair.sent[LISTENER]
    assert finish == StreamEnd(0, Ending.FINISH, StreamCode.LATCHED)
    assert isinstance(answer, StreamData)
    assert answer.data.startswith(laps2.encode(laps2.Keepalive()))
    # The listener's end of the old stream, then its first message on the new one.
    assert pair.hop() == []
    assert pair.hop() == [ControlStreamMoved(old=0, new=4, clean=True, discarded=0)]
    assert pair.quiet


def test_moving_when_the_new_stream_is_faster() -> None:
    pair = Pair(stream_delay={0: 5.0}).establish()
    pair.dialler.send(pair.now, laps2.NodeAdvertise((node(1),)))
    pair.flush(DIALLER)
    pair.dialler.open_control_stream(pair.now, 4)
    pair.run()
    (moved,) = [each for each in pair.events[LISTENER] if isinstance(each, ControlStreamMoved)]
    assert not moved.clean
    # What was under way on the old stream is gone for good, and both are asked to synchronise.
    assert not any(isinstance(each, NodesAdvertised) for each in pair.events[LISTENER])
    for side in (DIALLER, LISTENER):
        assert SyncRequested(bases=Bases.ALL & ~Bases.SNS) in pair.events[side]
    assert StreamEnd(0, Ending.RESET, StreamCode.LATCHED) in pair.sent[LISTENER]
    assert StreamEnd(0, Ending.STOP, StreamCode.LATCHED) in pair.sent[LISTENER]


def test_a_move_in_the_middle_of_a_synchronisation_makes_it_void() -> None:
    session = established()
    give(session, laps2.SnsAdvertise(1, 1, 0, (A,)))
    give(session, laps2.SyncBegin(Bases.SNS | Bases.NODES))
    give(session, laps2.ControlLatch(1), stream_id=4)
    give(session, laps2.SnsUpdate(1, 7, (B,)), stream_id=4)  # does not fit: dropped
    give(session, laps2.SyncBegin(Bases.SNS | Bases.NODES), stream_id=4)
    give(session, laps2.SnsAdvertise(1, 8, 0, (A, B)), stream_id=4)
    give(session, laps2.SyncEnd(Bases.SNS | Bases.NODES), stream_id=4)
    assert session.established
    give(session, laps2.SnsUpdate(1, 7, (B,)), stream_id=4)
    check_closed(session, 0x14, "version 7 updated after 8")


def test_a_stream_that_the_dialler_stops_before_it_moves() -> None:
    session = established()
    session.handle_stop_sending(200.0, 4)
    give(session, laps2.ControlLatch(1), stream_id=4)
    lost = [type(event) for event in session.poll_events()]
    assert lost == [ControlStreamMoved]
    assert session.control_stream is None


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (laps2.Keepalive(), "does not begin with CONTROL_LATCH"),
        (laps2.ControlLatch(0), "generation 0 after 0"),
    ],
)
def test_new_streams_that_may_not_be(first: Any, why: str) -> None:
    session = established()
    give(session, first, stream_id=4)
    check_closed(session, 0x3, why)


def test_generations_grow() -> None:
    session = established()
    give(session, laps2.ControlLatch(2), stream_id=4)
    give(session, laps2.ControlLatch(2), stream_id=8)
    check_closed(session, 0x3, "generation 2 after 2")


def test_two_latches_on_one_stream() -> None:
    session = established()
    give(session, laps2.ControlLatch(1), stream_id=4)
    give(session, laps2.ControlLatch(2), stream_id=4)
    check_closed(session, 0x3, "in use already")


def test_a_lost_control_stream_is_told() -> None:
    session = established(DIALLER)
    session.handle_stream_reset(200.0, 0)
    session.handle_stop_sending(200.0, 0)
    assert session.poll_events() == (
        ControlStreamLost(stream_id=0),
        ControlStreamLost(stream_id=0),
    )
    assert session.control_stream is None


# The end of the connection and time


def test_the_peer_closes() -> None:
    pair = Pair().establish()
    pair.dialler.close(pair.now, 0x11, "policy")
    pair.run()
    assert pair.events[DIALLER] == [Closed(code=0x11, reason="policy")]
    assert pair.events[LISTENER] == [Closed(code=0x11, reason="policy", by_peer=True)]
    assert pair.closed == [(0x11, "policy"), None]


def test_the_end_drops_early_data_and_empties_the_tables() -> None:
    session = established()
    give(session, laps2.SnsAdvertise(1, 1, 0, (A,)))
    session.hold_data(200.0, 9, "early", 5)
    session.poll_events()
    session.handle_connection_closed(201.0)
    assert session.poll_events() == (
        DataDropped(dropped=(Dropped(9, "early", Drop.CLOSED),)),
        Closed(code=0, by_peer=True),
    )
    session.handle_connection_closed(202.0)
    assert session.poll_events() == ()
    assert session.forwarding is not None
    assert len(session.forwarding.receiver) == 0


@pytest.mark.parametrize("side", [DIALLER, LISTENER])
def test_a_handshake_that_stands_still(side: int) -> None:
    pair = Pair(answer=silent)
    session = pair.sessions[side]
    assert session.poll_timeout() == 110.0
    session.handle_timeout(109.9)
    assert session.state is not State.CLOSED
    session.handle_timeout(110.0)
    check_closed(session, 0xE, "not finished in time")


def test_each_step_of_the_handshake_has_its_own_time() -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(105.0)
    assert pair.dialler.poll_timeout() == 115.0
    give(pair.dialler, laps2.Challenge(0x200, (), NodeId(20), bytes(32), (0,)), now=112.0)
    assert pair.dialler.poll_timeout() == 122.0
    pair.dialler.prove(120.0)
    assert pair.dialler.poll_timeout() == 130.0


def test_hold_time() -> None:
    pair = Pair(
        config(Role.DIALLER, settings=Settings(hold_ms=9_000)),
        config(Role.LISTENER, settings=Settings(hold_ms=6_000)),
    ).establish()
    start = pair.now
    give(pair.dialler, laps2.Keepalive(), now=start + 1)
    for moment in (1.5, 3.0, 4.5, 6.0):
        pair.dialler.handle_timeout(start + moment)
        assert messages(pair.dialler) == [laps2.Keepalive()]
    assert pair.dialler.poll_timeout() == start + 7
    pair.dialler.handle_timeout(start + 7)
    check_closed(pair.dialler, 0xC, "nothing heard for 6 s")


def test_a_clock_that_was_late_gives_the_peer_another_chance() -> None:
    pair = Pair(config(Role.DIALLER, settings=Settings(hold_ms=6_000))).establish()
    start = pair.now
    pair.dialler.handle_timeout(start + 60)
    assert pair.dialler.established
    assert pair.dialler.poll_timeout() == start + 61.5
    pair.dialler.handle_timeout(start + 61.5)
    assert pair.dialler.established
    pair.dialler.handle_timeout(start + 63)
    check_closed(pair.dialler, 0xC, "nothing heard for 6 s")


def test_the_hold_time_is_at_least_four_round_trips() -> None:
    pair = Pair(config(Role.DIALLER, settings=Settings(hold_ms=1_000))).establish()
    session, start = pair.dialler, pair.now
    now = start
    session.round_trip = 0.5
    while session.established:
        now = session.poll_timeout() or 0.0
        session.handle_timeout(now)
    assert 1.9 <= now - start <= 2.1


def test_the_time_between_keepalives_can_be_set() -> None:
    settings = Settings(hold_ms=10_000)
    for wanted, got in ((0.0, 2.5), (4.0, 4.0), (60.0, 5.0)):
        pair = Pair(config(Role.DIALLER, settings=settings, keepalive_seconds=wanted)).establish()
        session = pair.dialler
        session.send(pair.now, laps2.Keepalive())
        assert session.poll_timeout() == pair.now + got


def test_draining_ends_with_its_code() -> None:
    session = established()
    session.drain(200.0, 2.0)
    messages(session)
    give(session, laps2.Keepalive(), now=201.0)
    session.handle_timeout(201.9)
    session.handle_timeout(202.0)
    check_closed(session, 0x10, "drained")


def test_a_peer_goes_away_once() -> None:
    session = established()
    give(session, laps2.Drain(5_000))
    assert session.state is State.PEER_DRAINING
    give(session, laps2.Drain(5_000))
    check_closed(session, 0x3, "DRAIN while the session is peer draining")


def test_early_data_expires() -> None:
    session = established()
    session.hold_data(200.0, 5, "x", 1)
    give(session, laps2.Keepalive(), now=200.5)
    messages(session)
    session.handle_timeout(201.0)
    assert session.poll_events() == (DataDropped(dropped=(Dropped(5, "x", Drop.TIME),)),)
    assert laps2.SnsRefused(5, 0, laps2.SnsRefusal.UNKNOWN_SET) in messages(session)


# Any bytes


@given(st.lists(st.binary(max_size=40), max_size=8), st.booleans(), st.sampled_from([0, 1, 2]))
def test_random_bytes_never_raise(chunks: list[bytes], cut: bool, stage: int) -> None:
    for dialect in (LAPS2, CPP_16):
        for side in (DIALLER, LISTENER):
            session = at_stage(dialect, side, stage)
            for index, chunk in enumerate(chunks):
                stream_id = 4 * (index // 3) if side == LISTENER else 0
                session.handle_stream_data(200.0 + index, stream_id, chunk, fin=cut)
            session.handle_timeout(300.0)
            drained = transmits(session)
            if session.state is State.CLOSED:
                assert isinstance(drained[-1], ConnectionClose)


def at_stage(dialect: Dialect, side: int, stage: int) -> PeeringSession:
    """A session before, in the middle of and after its handshake."""
    pair = Pair(dialect=dialect, answer=silent) if stage < 2 else Pair(dialect=dialect)
    if stage or side == DIALLER:
        pair.dialler.connect(pair.now)
    if stage:
        pair.run()
    transmits(pair.sessions[side])
    return pair.sessions[side]


MESSAGES = st.sampled_from(
    [
        laps2.Keepalive(),
        laps2.NodeAdvertise((node(1),)),
        laps2.SyncBegin(Bases.ALL),
        laps2.SyncEnd(Bases.ALL),
        laps2.SnsAdvertise(1, 1, 0, (A,)),
        laps2.SnsUpdate(1, 2, (B,), (A,)),
        laps2.SnsUpdate(1, 2, (A, B)),
        laps2.SnsUpdate(1, 2, (), (A,)),
        laps2.SnsAdvertise(1, 3, 0, (A, B)),
        laps2.SnsAdvertise(2, 1, 0, (A,)),
        laps2.SnsWithdraw((1,)),
        laps2.SnsRefused(1, 1, 1),
        laps2.ControlLatch(1),
        laps2.Drain(5),
        laps2.SyncRequest(Bases.SNS),
        laps2.Challenge(0x200, (), A, bytes(32), (0,)),
        laps2.ConnectRefused(1),
    ]
)


@given(st.lists(st.tuples(st.sampled_from([0, 4, 8]), MESSAGES), max_size=12))
def test_any_order_of_whole_messages_never_raises(script: list[tuple[int, Any]]) -> None:
    session = established(max_sns_targets=1, max_sns_sets=1)
    for stream_id, message in script:
        give(session, message, stream_id=stream_id)
    events = session.poll_events()
    closed = [event for event in events if isinstance(event, Closed)]
    assert len(closed) == (session.state is State.CLOSED)


def test_the_cpp_relay_is_taken_as_it_is() -> None:
    pair = Pair(dialect=CPP_16).establish()
    stub = cpp.NodeInfo(A, cpp.NodeType.STUB, b"stub")
    pair.dialler.send(pair.now, cpp.NodeInfoAdvertise(stub))
    pair.dialler.send(pair.now, cpp.UnknownMessage(99, b"?"))
    pair.run()
    assert pair.events[LISTENER] == [NodesAdvertised(nodes=(stub,))]
    assert all(item.alone for item in pair.sent[DIALLER] if isinstance(item, StreamData))
    assert len(pair.sent[DIALLER]) == 2
