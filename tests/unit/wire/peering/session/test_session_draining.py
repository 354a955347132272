"""A session that drains, ends, or stays after all."""

from __future__ import annotations

import pytest

from laps_wire.errors import StateError
from laps_wire.peering import laps2
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    Feature,
)
from laps_wire.peering.session import (
    CPP_16,
    Closed,
    Draining,
    Role,
    State,
    Staying,
)
from testkit.peering_pair import DIALLER, LISTENER, Pair, config


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
