"""The parts of a session: what it answers to questions, its timers, what goes out, and its end."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.errors import MalformedError, StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering import laps2
from laps_wire.peering.errors import PolicyError
from laps_wire.peering.laps2 import Bases, Direction, Mode, RelayType, Settings
from laps_wire.peering.session import (
    CPP_16,
    AuthenticationRequired,
    Closed,
    ConnectionClose,
    PeeringSession,
    Refused,
    Role,
    SnsAdvertised,
    State,
    StreamData,
    SyncRequested,
    core,
)
from laps_wire.peering.session.core import MAX_REASON_CHARACTERS, MAX_WAITING_BYTES
from testkit.peering_pair import DIALLER, LISTENER, Pair, config, node

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
    assert one.forwarding is not None


def test_types_bind_in_laps2_and_not_with_the_cpp_relay() -> None:
    stub = node(0, RelayType.STUB)
    ours = Pair(config(Role.DIALLER, node_info=stub)).establish().listener.rights
    assert ours is not None
    assert ours.peer_type is RelayType.STUB
    theirs = Pair(config(Role.DIALLER, node_info=stub), flavour=CPP_16).establish().listener.rights
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
    spoke, heard = session._spoke, session._heard
    assert session.poll_timeout() == min(spoke + 3.0, heard + 9.0)
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
    # A third of 15 s: about 24 keepalives each in two minutes, and no event.
    assert 20 <= len(pair.sent[DIALLER]) <= 26
    assert pair.events == ([], [])


def test_time_does_not_go_back() -> None:
    pair = Pair().establish()
    session, now = pair.listener, pair.now
    due = session.poll_timeout()
    keepalive = laps2.encode(laps2.Keepalive())
    session.handle_stream_data(now + 4, 0, keepalive)
    session.handle_stream_data(now - 50, 0, keepalive)
    session.handle_timeout(now - 50)
    assert session.poll_timeout() == due
    session.hold_data(now - 50, 3, "x", 1)
    assert session.poll_timeout() == min(due or 0, now + 5)
    session.handle_timeout(now + 18)  # 14 s after the last message
    assert session.established
    session.handle_timeout(now + 19)
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
    monkeypatch.setattr(core, "MAX_WAITING_BYTES", 1000)
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
    pair = Pair(listener=local, flavour=CPP_16).establish()
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
    monkeypatch.setattr(core, "MAX_WAITING_BYTES", 0)
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
