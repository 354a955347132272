"""Subscriber node sets of a session, and data that comes before them."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Direction,
    Mode,
    SnsRefusal,
)
from laps_wire.peering.session import (
    CPP_16,
    Closed,
    DataDropped,
    Drop,
    Dropped,
    Role,
    SnsAdvertised,
    SnsRefusedByPeer,
    SnsStanding,
    SnsWithdrawn,
    State,
)
from testkit.peering_pair import DIALLER, LISTENER, Pair, config, silent

A, B, C = NodeId(1), NodeId(2), NodeId(3)


def test_sets() -> None:
    pair = Pair().establish()
    sns_id = pair.dialler.advertise_sns(pair.now, [B, A], hops=1, scope="gold")
    pair.dialler.update_sns(pair.now, sns_id, [A, C])
    pair.dialler.update_sns(pair.now, sns_id, [A, C])  # no change, no message
    pair.dialler.withdraw_sns(pair.now, sns_id)
    pair.run()
    made, changed, ended = pair.events[LISTENER]
    assert isinstance(made, SnsAdvertised)
    assert (made.sns_id, made.hops, made.targets) == (1, 1, frozenset({A, B}))
    assert isinstance(changed, SnsAdvertised)
    assert (changed.added, changed.removed) == ((C,), (B,))
    assert made.scope == changed.scope == "gold"
    assert ended == SnsWithdrawn(sns_id=1, targets=(A, C))


def test_a_set_that_is_emptied_before_it_ends() -> None:
    pair = Pair().establish()
    sns_id = pair.dialler.advertise_sns(pair.now, [A, B])
    pair.dialler.withdraw_sns(pair.now, sns_id, empty=True)
    pair.run()
    _, emptied, ended = pair.events[LISTENER]
    assert isinstance(emptied, SnsAdvertised)
    assert (emptied.targets, emptied.removed) == (frozenset(), (A, B))
    assert ended == SnsWithdrawn(sns_id=1, targets=())


def test_refusing_targets_and_sets() -> None:
    pair = Pair().establish()
    sns_id = pair.dialler.advertise_sns(pair.now, [A, B])
    pair.run()
    pair.listener.refuse_sns(pair.now, sns_id, SnsRefusal.NOT_ADVERTISED, [B, B])
    pair.run()
    assert pair.events[DIALLER] == [
        SnsRefusedByPeer(sns_id=1, version=1, code=SnsRefusal.NOT_ADVERTISED, targets=(B,))
    ]
    assert pair.listener.hold_data(pair.now, sns_id, "x", 1) == (SnsStanding.LIVE, ())
    pair.listener.refuse_sns(pair.now, sns_id, SnsRefusal.POLICY)
    pair.run()
    assert pair.events[DIALLER][-1] == SnsRefusedByPeer(
        sns_id=1, version=1, code=SnsRefusal.POLICY, targets=()
    )
    assert pair.listener.hold_data(pair.now, sns_id, "x", 1)[0] is SnsStanding.GONE
    with pytest.raises(StateError, match="no subscriber node set 1"):
        pair.listener.refuse_sns(pair.now, sns_id, SnsRefusal.POLICY)


def test_sets_need_data_in_that_direction() -> None:
    one_way = Pair(config(Role.DIALLER, direction=Direction.UNIDIRECTIONAL)).establish()
    with pytest.raises(StateError, match="sends no data"):
        one_way.listener.advertise_sns(one_way.now, [A])
    with pytest.raises(StateError, match="to the side that sends no data"):
        one_way.dialler.refuse_sns(one_way.now, 1, SnsRefusal.POLICY)
    assert one_way.dialler.advertise_sns(one_way.now, [A]) == 1


def test_data_that_overtakes_its_set() -> None:
    pair = Pair().establish()
    sns_id = pair.dialler.advertise_sns(pair.now, [A])
    assert pair.listener.hold_data(pair.now, sns_id, "first", 10) == (SnsStanding.UNKNOWN, ())
    pair.run()
    (made,) = pair.events[LISTENER]
    assert isinstance(made, SnsAdvertised)
    assert made.released == ("first",)


def test_data_before_the_dialler_has_verified_the_listener_waits() -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    pair.listener.accept(pair.now)
    sns_id = pair.listener.advertise_sns(pair.now, [A])
    pair.run()
    assert pair.dialler.hold_data(pair.now, sns_id, "x", 1) == (SnsStanding.UNKNOWN, ())
    pair.dialler.accept(pair.now)
    made = pair.dialler.poll_events()[-1]
    assert isinstance(made, SnsAdvertised)
    assert made.released == ("x",)


def test_data_that_overtakes_the_acceptance_waits() -> None:
    """A listener is established when it answers; its data may be faster than its answer."""
    pair = waiting_for_the_answer()
    session = pair.dialler
    assert session.hold_data(pair.now, 1, "x", 1) == (SnsStanding.UNKNOWN, ())
    pair.listener.accept(pair.now)
    pair.listener.advertise_sns(pair.now, [A])
    pair.run()
    session.accept(pair.now)
    made = session.poll_events()[-1]
    assert isinstance(made, SnsAdvertised)
    assert made.released == ("x",)


def waiting_for_the_answer(**changes: Any) -> Pair:
    pair = Pair(config(Role.DIALLER, **changes), answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    return pair


def test_data_that_overtakes_the_acceptance_of_a_cpp_relay_waits() -> None:
    pair = Pair(dialect=CPP_16)
    pair.dialler.connect(pair.now)
    assert pair.dialler.hold_data(pair.now, 2, "x", 1) == (SnsStanding.UNKNOWN, ())
    pair.run()
    pair.listener.advertise_sns(pair.now, [A])
    pair.run()
    made = pair.events[DIALLER][-1]
    assert isinstance(made, SnsAdvertised)
    assert (made.sns_id, made.released) == (2, ("x",))


def test_data_that_overtook_an_acceptance_without_data() -> None:
    pair = waiting_for_the_answer()
    pair.dialler.hold_data(pair.now, 1, "x", 1)
    pair.listener.accept(pair.now, mode=Mode.CONTROL)
    pair.run()
    dropped, closed = pair.events[DIALLER][-2:]
    assert dropped == DataDropped(dropped=(Dropped(1, "x", Drop.CLOSED),))
    assert closed == Closed(code=0x3, reason="data from the side that sends no data")


def test_data_before_the_answer_that_can_not_be_granted() -> None:
    pair = waiting_for_the_answer(direction=Direction.UNIDIRECTIONAL)
    pair.dialler.hold_data(pair.now, 1, "x", 1)
    assert pair.dialler.state is State.CLOSED


def test_the_end_of_a_session_leaves_no_data_waiting() -> None:
    pair = waiting_for_the_answer()
    pair.dialler.hold_data(pair.now, 1, "x", 1)
    pair.dialler.close(pair.now)
    dropped = pair.dialler.poll_events()[0]
    assert dropped == DataDropped(dropped=(Dropped(1, "x", Drop.CLOSED),))
    # And what comes after the end does not wait for what can not come.
    gone = (SnsStanding.GONE, (Dropped(1, "y", Drop.GONE),))
    assert pair.dialler.hold_data(pair.now, 1, "y", 1) == gone
    session = Pair().establish().listener
    session.close(200.0)
    assert session.hold_data(200.0, 1, "y", 1) == gone
    assert session.forwarding is not None
    assert len(session.forwarding.unknown) == 0


def test_data_whose_time_is_over_is_told_also_when_newer_data_comes_first() -> None:
    """A timer may be late; the peer is told all the same that its set did not come."""
    pair = Pair().establish()
    pair.listener.hold_data(pair.now, 5, "x", 1)
    pair.now += 1.5
    assert pair.listener.hold_data(pair.now, 6, "y", 1) == (SnsStanding.UNKNOWN, ())
    pair.run()
    assert pair.events[LISTENER] == [DataDropped(dropped=(Dropped(5, "x", Drop.TIME),))]
    assert pair.events[DIALLER] == [
        SnsRefusedByPeer(sns_id=5, version=0, code=SnsRefusal.UNKNOWN_SET, targets=())
    ]


@pytest.mark.parametrize(
    ("pair", "side"),
    [
        (Pair(config(Role.DIALLER, mode=Mode.CONTROL)).establish(), LISTENER),
        (Pair(config(Role.DIALLER, direction=Direction.UNIDIRECTIONAL)).establish(), DIALLER),
        (Pair(), LISTENER),
    ],
)
def test_data_from_the_side_that_sends_none(pair: Pair, side: int) -> None:
    session = pair.sessions[side]
    gone = (SnsStanding.GONE, (Dropped(1, "x", Drop.GONE),))
    assert session.hold_data(pair.now, 1, "x", 1) == gone
    closed = session.poll_events()[-1]
    assert closed == Closed(code=0x3, reason="data from the side that sends no data")
    assert session.hold_data(pair.now, 1, "x", 1) == gone  # nothing more happens
