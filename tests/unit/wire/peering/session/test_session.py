"""Peering sessions: configuration, commands, timers, draining and closes."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

from laps_wire.errors import EncodeError, MalformedError, ProtocolViolation, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp, laps2
from laps_wire.peering.errors import CloseCode, HoldExpiredError, PeeringError, PolicyError
from laps_wire.peering.laps2 import (
    Bases,
    Direction,
    Feature,
    Mode,
    RelayType,
    Settings,
    SnsRefusal,
    Stamp,
)
from laps_wire.peering.session import (
    CPP_16,
    LAPS2,
    AuthenticationRequired,
    Closed,
    ConnectionClose,
    ControlStreamLost,
    Draining,
    Event,
    NodesAdvertised,
    PeeringSession,
    Refused,
    Role,
    SessionConfig,
    SnsAdvertised,
    SnsRefusedByPeer,
    SnsWithdrawn,
    State,
    Staying,
    StreamData,
    SubscribesAdvertised,
    SyncBegan,
    SyncEnded,
    SyncRequested,
)
from laps_wire.peering.session import session as session_module
from laps_wire.peering.session.session import MAX_REASON_CHARACTERS, MAX_WAITING_BYTES
from testkit.peering_pair import DIALLER, LISTENER, Pair, agreeable, config, node

# Commands of a session: what is sent, what is refused, and what is left behind (nothing)


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
    pair = Pair(dialect=CPP_16).establish()
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
        assert (len(forwarding.sender), len(forwarding.receiver)) == (0, 0)
        assert (session._streams.stale, session._streams.buffered) == (0, 0)


# The C++ relay


def test_a_whole_cpp_session() -> None:
    pair = Pair(dialect=CPP_16, chunk=5)
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

    pair = Pair(dialect=CPP_16, answer=refuse)
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


# The parts of a session: what it answers to questions, its timers, what goes out, and its end


A = NodeId(1)


def silent(session: PeeringSession, now: float, event: object) -> None:
    """An application that does not answer."""


def transmits(session: PeeringSession) -> list[Any]:
    items = []
    while (item := session.poll_transmit()) is not None:
        items.append(item)
    return items


def half_way(dialler: Any = None, listener: Any = None) -> Pair:
    """A listener whose application is asked to verify."""
    pair = Pair(dialler, listener, answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    return pair


# Queries


def test_before_the_handshake_is_done_nothing_is_agreed() -> None:
    pair = half_way()
    for session in pair.sessions:
        assert not session.established
        assert session.agreement is None
        assert session.rights is None
    pair.listener.accept(pair.now)
    pair.run()
    # The dialler knows what was granted, but has not accepted it.
    assert pair.dialler.agreement is None
    assert pair.dialler.rights is None
    with pytest.raises(StateError, match="not established"):
        Pair().dialler._agreed  # noqa: B018


def test_what_is_agreed() -> None:
    pair = Pair(
        config(Role.DIALLER, mode=Mode.DATA, direction=Direction.UNIDIRECTIONAL)
    ).establish()
    one, other = pair.dialler, pair.listener
    assert one.agreement is not None
    assert other.agreement is not None
    assert (one.agreement.mode, other.agreement.mode) == (Mode.DATA, Mode.DATA)
    assert one.rights is not None
    assert other.rights is not None
    assert (one.rights.sends_data, one.rights.receives_data) == (True, False)
    assert (other.rights.sends_data, other.rights.receives_data) == (False, True)
    assert (one.control_stream, other.control_stream) == (0, 0)


def test_types_bind_in_laps2_and_not_with_the_cpp_relay() -> None:
    stub = node(0, RelayType.STUB)
    ours = Pair(config(Role.DIALLER, node_info=stub)).establish().listener.rights
    assert ours is not None
    assert ours.peer_type is RelayType.STUB
    theirs = Pair(config(Role.DIALLER, node_info=stub), dialect=CPP_16).establish().listener.rights
    assert theirs is not None
    assert theirs.peer_type is RelayType.EDGE


def test_sizes_that_were_agreed() -> None:
    pair = Pair(
        config(Role.DIALLER, settings=Settings(max_message_size=200_000)),
        config(Role.LISTENER, settings=Settings(max_message_size=70_000)),
    ).establish()
    large = laps2.UnknownMessage(0x21, bytes(100_000))
    with pytest.raises(ValueError, match="over the limit of 70000"):
        pair.dialler.send(pair.now, large)
    pair.listener.send(pair.now, large)
    pair.run()
    assert pair.dialler.established


def test_a_dialler_takes_what_it_offered_in_connect() -> None:
    """An answer may be longer than 65 536 bytes as soon as the dialler has said so (3.1)."""
    pair = Pair(config(Role.DIALLER, settings=Settings(max_message_size=200_000)), answer=silent)
    pair.dialler.connect(pair.now)
    ignored = laps2.encode(laps2.UnknownMessage(0x21, bytes(100_000)), max_size=200_000)
    pair.dialler.handle_stream_data(pair.now, 0, ignored)
    assert pair.dialler.state is State.CONNECT_SENT
    pair.listener.handle_stream_data(pair.now, 0, ignored)
    assert pair.listener.poll_events()[-1] == Closed(
        code=0xA, reason="a message body of 100000 bytes, at most 65536 were agreed"
    )


# Timers


def test_the_next_timer_is_the_earliest() -> None:
    pair = Pair(config(Role.DIALLER, settings=Settings(hold_ms=9_000))).establish()
    session = pair.dialler
    spoke, heard = session._sent_at, session._received_at
    assert session.poll_timeout() == min(spoke + 2.25, heard + 9.0)
    session.hold_data(pair.now, 1, "x", 1)
    assert session.poll_timeout() == pair.now + 1.0
    session.drain(pair.now, 0.5)
    assert session.poll_timeout() == pair.now + 0.5
    session.close(pair.now)
    assert session.poll_timeout() is None


def test_without_a_hold_time_there_is_no_timer() -> None:
    none = Settings(hold_ms=0)
    pair = Pair(
        config(Role.DIALLER, settings=none), config(Role.LISTENER, settings=none)
    ).establish()
    assert pair.dialler.poll_timeout() is None
    pair.dialler.handle_timeout(1e9)
    assert pair.dialler.established
    assert transmits(pair.dialler) == []


def test_two_idle_sides_keep_each_other_alive() -> None:
    pair = Pair().establish()
    pair.advance(120.0)
    assert pair.dialler.established
    assert pair.listener.established
    # A quarter of 15 s: about 32 keepalives each in two minutes, and no event.
    assert 28 <= len(pair.sent[DIALLER]) <= 34
    assert pair.events == ([], [])


def test_time_does_not_go_back() -> None:
    pair = Pair().establish()
    session, now = pair.listener, pair.now
    due = session.poll_timeout()
    keepalive = laps2.encode(laps2.Keepalive())
    session.handle_stream_data(now + 3, 0, keepalive)
    session.handle_stream_data(now - 50, 0, keepalive)
    session.handle_timeout(now - 50)
    assert session.poll_timeout() == due
    session.hold_data(now - 50, 3, "x", 1)
    assert session.poll_timeout() == min(due or 0, now + 4)
    for seconds in (6, 9, 12, 15, 17):  # 14 s after the last message
        session.handle_timeout(now + seconds)
        assert session.established
    session.handle_timeout(now + 18)
    assert session.state is State.CLOSED


def test_each_timer_fires_once() -> None:
    pair = Pair(config(Role.DIALLER, settings=Settings(hold_ms=9_000))).establish()
    session, fired = pair.dialler, []
    transmits(session)
    while (due := session.poll_timeout()) is not None:
        session.handle_timeout(due)
        later = session.poll_timeout()
        assert later is None or later > due  # no timer is left in the past
        fired.append((due, [type(item) for item in transmits(session)]))
    spoke, heard = fired[0][0] - 3.0, fired[-1][0] - 9.0
    assert [what for _, what in fired] == [[StreamData]] * (len(fired) - 1) + [[ConnectionClose]]
    assert abs(spoke - heard) < 1.0
    assert len(fired) in (3, 4)
    assert [type(event) for event in session.poll_events()] == [Closed]


# The handshake


def test_defaults_of_a_listener_are_what_it_is_configured_for() -> None:
    control = config(Role.LISTENER, mode=Mode.CONTROL, direction=Direction.UNIDIRECTIONAL)
    pair = Pair(listener=control).establish()
    agreement = pair.dialler.agreement
    assert agreement is not None
    assert (agreement.mode, agreement.direction) == (Mode.CONTROL, Direction.UNIDIRECTIONAL)


def test_defaults_of_a_listener_do_not_grant_more_than_was_asked_for() -> None:
    pair = Pair(config(Role.DIALLER, mode=Mode.DATA)).establish()
    assert pair.dialler.agreement is not None
    assert pair.dialler.agreement.mode is Mode.DATA


def test_the_application_may_choose_less() -> None:
    pair = half_way()
    pair.listener.accept(pair.now, mode=Mode.DATA, direction=Direction.UNIDIRECTIONAL)
    pair.run()
    (_, question) = pair.events[DIALLER]
    assert isinstance(question, AuthenticationRequired)
    assert (question.mode, question.direction) == (Mode.DATA, Direction.UNIDIRECTIONAL)


def test_nothing_can_be_chosen_where_nothing_is_asked() -> None:
    with pytest.raises(StateError, match="nothing was asked: the session is idle"):
        Pair().dialler.transcript()


def test_long_reasons_are_cut() -> None:
    pair = half_way()
    pair.listener._refuse_for(PolicyError("x" * 1000))
    assert pair.listener.state is State.REFUSED
    pair.run()
    (refused, closed) = pair.events[DIALLER][-2:]
    assert isinstance(refused, Refused)
    assert len(refused.reason) == MAX_REASON_CHARACTERS
    assert isinstance(closed, Closed)
    assert closed.code == 0x11


@pytest.mark.parametrize("before", [b"", laps2.encode(laps2.Keepalive())])
def test_reasons_do_not_depend_on_chunks(before: bytes) -> None:
    session = Pair().establish().listener
    session.handle_stream_data(200.0, 0, before + bytes.fromhex("0e0105"))
    assert session.poll_events()[-1] == Closed(
        code=0x3, reason="id: truncated: 1 more byte(s) needed, 0 left"
    )
    session = Pair().establish().listener
    session._fail(MalformedError("nowhere"))
    assert session.poll_events()[-1] == Closed(code=0x3, reason="nowhere")


# Out


def test_no_control_stream_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MAX_WAITING_BYTES", 1000)
    session = Pair().establish().listener
    session.handle_stop_sending(200.0, 0)
    message = laps2.UnknownMessage(0x21, bytes(300))
    for _ in range(3):
        session.send(200.0, message)
        assert session.established
    session.send(200.0, message)
    closed = session.poll_events()[-1]
    assert closed == Closed(code=0xF, reason="no control stream to send on")
    assert transmits(session) == [ConnectionClose(0xF, "no control stream to send on")]
    assert MAX_WAITING_BYTES == 16_777_216


def test_what_waited_leaves_on_the_next_stream() -> None:
    pair = Pair().establish()
    pair.dialler.handle_stop_sending(pair.now, 0)
    probe = laps2.Probe(1, A, 2)
    pair.dialler.send(pair.now, probe)
    assert transmits(pair.dialler) == []
    pair.dialler.open_control_stream(pair.now, 4)
    items = transmits(pair.dialler)
    data = b"".join(item.data for item in items if isinstance(item, StreamData))
    assert data.startswith(laps2.encode(laps2.ControlLatch(1)) + laps2.encode(probe))


def test_each_side_sends_all_its_bases_when_it_is_established() -> None:
    for mode, bases in ((Mode.BOTH, 7), (Mode.CONTROL, 7), (Mode.DATA, 0)):
        pair = Pair(config(Role.DIALLER, mode=mode))
        pair.dialler.connect(pair.now)
        pair.run()
        for side in (DIALLER, LISTENER):
            asked = [event for event in pair.events[side] if isinstance(event, SyncRequested)]
            assert asked == ([SyncRequested(bases=Bases(bases))] if bases else [])
            sent = b"".join(item.data for item in pair.sent[side] if isinstance(item, StreamData))
            marks = laps2.encode(laps2.SyncBegin(Bases.SNS)) + laps2.encode(
                laps2.SyncEnd(Bases.SNS)
            )
            assert (marks in sent) is mode.data


def test_a_listener_moves_with_the_dialler_and_nothing_else() -> None:
    session = Pair().establish().listener
    session.handle_stream_data(200.0, 4, laps2.encode(laps2.ControlLatch(3)))
    assert (session.control_stream, session.established) == (4, True)
    session.handle_stream_data(200.0, 8, laps2.encode(laps2.ControlLatch(3)))
    assert session.poll_events()[-1] == Closed(
        code=0x3, reason="CONTROL_LATCH of generation 3 after 3"
    )
    other = Pair().establish().listener
    other.handle_stream_data(200.0, 4, laps2.encode(laps2.Keepalive()))
    assert other.poll_events()[-1] == Closed(
        code=0x3, reason="a new control stream that does not begin with CONTROL_LATCH"
    )


def test_nobody_moves_before_the_session_is_established() -> None:
    session = half_way().listener
    session.handle_stream_data(200.0, 4, laps2.encode(laps2.ControlLatch(1)))
    assert session.poll_events()[-1] == Closed(
        code=0x3, reason="a new control stream before the session is established"
    )


def test_a_dialler_moves_with_any_message() -> None:
    pair = Pair().establish()
    pair.dialler.open_control_stream(pair.now, 4)
    pair.dialler.handle_stream_data(pair.now, 4, laps2.encode(laps2.Keepalive()))
    assert pair.dialler._streams.reading == 4


def test_events_go_to_the_application_and_rejections_to_the_peer() -> None:
    pair = Pair(listener=config(Role.LISTENER, settings=Settings(max_sns_sets=1))).establish()
    pair.listener.handle_stream_data(
        pair.now,
        0,
        laps2.encode(laps2.SnsAdvertise(1, 1, 0, (A,)))
        + laps2.encode(laps2.SnsAdvertise(2, 1, 0, (A,))),
    )
    (made,) = pair.listener.poll_events()
    assert isinstance(made, SnsAdvertised)
    (refused,) = transmits(pair.listener)
    assert refused.data == laps2.encode(laps2.SnsRefused(2, 1, laps2.SnsRefusal.TOO_MANY_SETS))


def test_a_cpp_relay_is_told_nothing_that_it_does_not_know() -> None:
    local = config(Role.LISTENER, settings=Settings(max_sns_sets=0))
    pair = Pair(listener=local, dialect=CPP_16).establish()
    pair.dialler.advertise_sns(pair.now, [A])
    pair.run()
    assert pair.sent[LISTENER] == []


def test_a_listener_that_carries_control_only_refuses_data() -> None:
    pair = Pair(config(Role.DIALLER, mode=Mode.DATA), config(Role.LISTENER, mode=Mode.CONTROL))
    pair.dialler.connect(pair.now)
    pair.run()
    assert pair.events[DIALLER][-1] == Closed(
        code=0x8, reason="mode DATA is not for this relay", by_peer=True
    )


def test_a_listener_that_refused_has_a_timer() -> None:
    pair = half_way()
    pair.listener.refuse(pair.now, 0x11, "policy")
    assert pair.listener.state is State.REFUSED
    assert pair.listener.poll_timeout() == pair.now + 1.0


def test_refusals_that_never_find_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MAX_WAITING_BYTES", 0)
    session = Pair().establish().listener
    session.handle_stop_sending(101.0, 0)
    session.hold_data(101.0, 7, "x", 1)
    session.hold_data(101.0, 8, "y", 1)
    session.handle_timeout(102.0)  # the first refusal ends the session, the second is not sent
    closed = [event for event in session.poll_events() if isinstance(event, Closed)]
    assert [event.code for event in closed] == [0xF]


# The end


def test_the_end_happens_once() -> None:
    session = Pair().establish().dialler
    session.close(200.0, 5, "y" * 1000)
    assert session.poll_events() == (Closed(code=5, reason="y" * 1000),)
    assert session.has_transmits
    assert transmits(session) == [ConnectionClose(5, "y" * MAX_REASON_CHARACTERS)]
    session.handle_connection_closed(201.0, 6, "late")
    session.handle_timeout(1e9)
    left = session.poll_events(), session.poll_transmit(), session.has_transmits
    assert left == ((), None, False)
    with pytest.raises(StateError, match="closed already"):
        session.close(202.0)


# The configuration of a session: values that could not be sent are refused


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"challenge": bytes(31)}, "challenge: 31 bytes where 32 belong"),
        ({"spki_hash": bytes(33)}, "spki_hash: 33 bytes where 32 belong"),
        ({"versions": (2, 1)}, r"versions: \(2, 1\) must strictly ascend"),
        ({"features": (3, 3)}, r"features: \(3, 3\) must strictly ascend"),
        ({"schemes": (1, 0)}, r"schemes: \(1, 0\) must strictly ascend"),
        ({"versions": ()}, "versions: at least one"),
        ({"schemes": ()}, "schemes: at least one"),
        ({"node_info": node(1).passed_on(NodeId(2), 5)}, "an empty path"),
    ],
)
def test_what_could_not_be_sent_is_refused_at_once(changes: dict[str, Any], why: str) -> None:
    values: dict[str, Any] = {
        "role": Role.LISTENER,
        "node_info": node(1),
        "challenge": bytes(32),
        "features": (),
    }
    with pytest.raises(EncodeError, match=why):
        SessionConfig(**{**values, **changes})


# A session that drains, ends, or stays after all


def test_draining() -> None:
    pair = Pair().establish()
    pair.dialler.drain(pair.now, 2.5, "upgrade", ("edge-2",))
    start = pair.now
    pair.run()
    assert pair.events[LISTENER] == [
        Draining(deadline=pair.now + 2.5, reason="upgrade", alternates=("edge-2",))
    ]
    with pytest.raises(StateError, match="DRAIN can not be sent: the session is draining"):
        pair.dialler.drain(pair.now, 1.0)
    pair.listener.drain(pair.now, 60.0)
    pair.run()
    assert pair.dialler.state is pair.listener.state is State.BOTH_DRAINING
    pair.advance(2.0)
    assert pair.dialler.established
    pair.advance(1.0)
    assert pair.events[DIALLER][-1] == Closed(code=0x10, reason="drained")
    assert pair.events[LISTENER][-1] == Closed(code=0x10, reason="drained", by_peer=True)
    assert pair.now >= start + 2.5


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_draining_takes_a_time(seconds: float) -> None:
    session = Pair().establish().dialler
    with pytest.raises(StateError, match="seconds"):
        session.drain(200.0, seconds)
    assert session.state is State.ESTABLISHED
    assert session.poll_transmit() is None


def test_draining_a_cpp_session_just_closes_later() -> None:
    pair = Pair(dialect=CPP_16).establish()
    pair.dialler.drain(pair.now, 1.0)
    pair.advance(0.9)
    assert (pair.events[LISTENER], pair.dialler.state) == ([], State.ESTABLISHED)
    pair.advance(0.2)
    assert pair.events[LISTENER] == [Closed(code=0x10, reason="drained", by_peer=True)]


def stayers() -> Pair:
    features = (Feature.STAYS,)
    return Pair(
        config(Role.DIALLER, features=features), config(Role.LISTENER, features=features)
    ).establish()


def test_a_drain_is_taken_back_and_said_again() -> None:
    pair = stayers()
    with pytest.raises(StateError, match="nothing can be taken back"):
        pair.dialler.stay(pair.now)
    for _ in range(2):
        pair.dialler.drain(pair.now, 2.5)
        pair.run()
        assert pair.dialler.can_stay
        pair.dialler.stay(pair.now)
        pair.run()
        assert pair.events[LISTENER][-1] == Staying()
        assert pair.dialler.state is pair.listener.state is State.ESTABLISHED
    pair.advance(10.0)
    assert pair.closed == [None, None]


def test_one_of_two_that_drain_stays() -> None:
    pair = stayers()
    pair.dialler.drain(pair.now, 5.0)
    pair.listener.drain(pair.now, 60.0)
    pair.run()
    pair.dialler.stay(pair.now)
    pair.run()
    assert pair.dialler.state is State.PEER_DRAINING
    assert pair.listener.state is State.DRAINING
    pair.advance(10.0)
    assert pair.closed == [None, None]


def test_who_does_not_know_how_is_not_told() -> None:
    pair = Pair().establish()
    pair.dialler.drain(pair.now, 2.5)
    assert not pair.dialler.can_stay
    with pytest.raises(StateError, match="nothing can be taken back: the session is draining"):
        pair.dialler.stay(pair.now)


def test_nobody_stays_who_has_not_said_that_he_goes() -> None:
    pair = stayers()
    pair.dialler.handle_stream_data(pair.now, 0, laps2.encode(laps2.Stay()))
    pair.run()
    closed = pair.events[DIALLER][-1]
    assert isinstance(closed, Closed)
    assert closed.code == CloseCode.PROTOCOL_VIOLATION


def test_a_cpp_session_just_stays() -> None:
    pair = Pair(dialect=CPP_16).establish()
    pair.dialler.drain(pair.now, 1.0)
    pair.dialler.stay(pair.now)
    pair.advance(5.0)
    assert pair.closed == [None, None]


# Events: what a close means, and that bytes are not printed


@pytest.mark.parametrize(
    ("code", "error"),
    [(0, None), (3, ProtocolViolation), (0xC, HoldExpiredError), (0x7777, PeeringError)],
)
def test_what_a_close_stands_for(code: int, error: type | None) -> None:
    assert Closed(code=code).error is error


def test_bytes_are_not_printed() -> None:
    assert "secret" not in repr(StreamData(0, b"secret"))
