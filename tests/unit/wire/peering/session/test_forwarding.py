"""Sets in a session: messages in, events and refusals out, and data that came early."""

from __future__ import annotations

from typing import Any

import pytest

from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp, laps2
from laps_wire.peering.errors import SnsViolationError
from laps_wire.peering.laps2 import Bases, Settings, SnsRefusal
from laps_wire.peering.session.cpp import CPP_16
from laps_wire.peering.session.dialect import Dialect
from laps_wire.peering.session.events import DataDropped, SnsAdvertised, SnsWithdrawn
from laps_wire.peering.session.forwarding import MAX_MISSED_SETS, Effect, ForwardingState
from laps_wire.peering.session.laps2 import LAPS2
from laps_wire.peering.session.sns import SnsRejection, SnsStanding
from laps_wire.peering.session.unknown import Drop, Dropped

A, B, C, D = (NodeId(number) for number in (1, 2, 3, 4))


def forwarding(
    local: Settings | None = None, peer: Settings | None = None, dialect: Dialect = LAPS2
) -> ForwardingState:
    state = ForwardingState(dialect, local or Settings())
    state.meet(peer or Settings())
    return state


def receive(state: ForwardingState, message: Any) -> list[Effect]:
    return list(state.receive(message))


def advertised(
    sns_id: int,
    version: int,
    targets: tuple[NodeId, ...],
    *,
    added: tuple[NodeId, ...] = (),
    removed: tuple[NodeId, ...] = (),
    hops: int = 0,
    released: tuple[Any, ...] = (),
    scope: str = "",
) -> SnsAdvertised:
    return SnsAdvertised(
        sns_id=sns_id,
        version=version,
        hops=hops,
        targets=frozenset(targets),
        added=added,
        removed=removed,
        released=released,
        scope=scope,
    )


def test_a_set_is_made_changed_and_ended() -> None:
    state = forwarding()
    assert receive(state, laps2.SnsAdvertise(1, 1, 3, (A, B))) == [
        advertised(1, 1, (A, B), added=(A, B), hops=3)
    ]
    assert receive(state, laps2.SnsUpdate(1, 2, (C,), (A,))) == [
        advertised(1, 2, (B, C), added=(C,), removed=(A,), hops=3)
    ]
    assert receive(state, laps2.SnsWithdraw((1,))) == [SnsWithdrawn(sns_id=1, targets=(B, C))]
    assert receive(state, laps2.SnsWithdraw((1,))) == []


def test_what_changes_nothing_is_no_event() -> None:
    state = forwarding()
    receive(state, laps2.SnsAdvertise(1, 1, 0, (A,)))
    assert receive(state, laps2.SnsAdvertise(1, 2, 0, (A,))) == []
    assert receive(state, laps2.SnsAdvertise(1, 3, 1, (A,))) == [advertised(1, 3, (A,), hops=1)]
    assert receive(state, laps2.SnsUpdate(1, 4)) == []
    # An empty set is a set: it is made, and can be forwarded to nobody.
    assert receive(state, laps2.SnsAdvertise(2, 1, 0, ())) == [advertised(2, 1, ())]


def test_several_sets_end_in_one_message() -> None:
    state = forwarding()
    for sns_id in (1, 2, 3):
        receive(state, laps2.SnsAdvertise(sns_id, 1, 0, (A,)))
    assert receive(state, laps2.SnsWithdraw((1, 3))) == [
        SnsWithdrawn(sns_id=1, targets=(A,)),
        SnsWithdrawn(sns_id=3, targets=(A,)),
    ]


def test_limits_that_we_told_the_peer() -> None:
    state = forwarding(local=Settings(max_sns_sets=1, max_sns_targets=2))
    assert receive(state, laps2.SnsAdvertise(1, 1, 0, (A, B))) != []
    assert receive(state, laps2.SnsAdvertise(2, 1, 0, (A,))) == [
        SnsRejection(2, 1, SnsRefusal.TOO_MANY_SETS)
    ]
    assert receive(state, laps2.SnsUpdate(1, 2, (C,))) == [
        SnsWithdrawn(sns_id=1, targets=(A, B)),
        SnsRejection(1, 2, SnsRefusal.TOO_MANY_TARGETS, removed=(A, B)),
    ]
    assert receive(state, laps2.SnsUpdate(1, 3, (), (C,))) == []  # not served any more


def test_rules_of_the_tables_hold() -> None:
    with pytest.raises(SnsViolationError, match="before it is made"):
        receive(forwarding(), laps2.SnsUpdate(1, 2, (A,)))


def test_synchronisation_of_the_peer() -> None:
    state = forwarding()
    receive(state, laps2.SnsAdvertise(1, 1, 0, (A,)))
    receive(state, laps2.SnsAdvertise(2, 1, 0, (B,)))
    state.receiver.begin_sync()
    receive(state, laps2.SnsAdvertise(2, 2, 0, (B,)))
    assert list(state.end_sync()) == [SnsWithdrawn(sns_id=1, targets=(A,))]


def test_the_class_of_service_stays_until_a_set_is_described_anew() -> None:
    state = forwarding()
    gold, none = laps2.scope_parameters("gold"), laps2.NO_PARAMETERS
    assert receive(state, laps2.SnsAdvertise(1, 1, 0, (A,), gold)) == [
        advertised(1, 1, (A,), added=(A,), scope="gold")
    ]
    assert receive(state, laps2.SnsUpdate(1, 2, (B,))) == [
        advertised(1, 2, (A, B), added=(B,), scope="gold")
    ]
    assert receive(state, laps2.SnsAdvertise(1, 3, 0, (A, B), gold)) == []
    assert receive(state, laps2.SnsAdvertise(1, 4, 0, (A, B), none)) == [advertised(1, 4, (A, B))]


# What we say


def test_our_sets_have_their_class_of_service_also_in_a_synchronisation() -> None:
    state = forwarding()
    gold = laps2.scope_parameters("gold")
    assert state.advertise([A], 0, "gold") == (1, [laps2.SnsAdvertise(1, 1, 0, (A,), gold)])
    assert state.update(1, [B]) == [laps2.SnsUpdate(1, 2, (B,), (A,))]
    assert list(state.synchronise())[1] == laps2.SnsAdvertise(1, 3, 0, (B,), gold)


def test_our_sets_as_messages() -> None:
    state = forwarding()
    assert state.advertise([B, A], 2) == (1, [laps2.SnsAdvertise(1, 1, 2, (A, B))])
    assert state.update(1, [A, C]) == [laps2.SnsUpdate(1, 2, (C,), (B,))]
    assert state.update(1, [C, A]) == []
    assert list(state.synchronise()) == [
        laps2.SyncBegin(Bases.SNS),
        laps2.SnsAdvertise(1, 3, 2, (A, C)),
        laps2.SyncEnd(Bases.SNS),
    ]
    assert state.withdraw(1) == [laps2.SnsWithdraw((1,))]
    with pytest.raises(StateError):
        state.withdraw(1)


def test_a_set_that_is_emptied_before_it_ends() -> None:
    state = forwarding()
    state.advertise([A, B], 0)
    assert state.withdraw(1, empty=True) == [
        laps2.SnsUpdate(1, 2, (), (A, B)),
        laps2.SnsWithdraw((1,)),
    ]
    # Without targets it could not be described anew.
    assert list(state.synchronise()) == [laps2.SyncBegin(Bases.SNS), laps2.SyncEnd(Bases.SNS)]


def test_before_the_peer_has_said_what_it_takes() -> None:
    state = ForwardingState(LAPS2, Settings())
    assert state.hold(1.0, 1, "x", 1) == (SnsStanding.UNKNOWN, ())
    with pytest.raises(StateError, match="at most 0"):
        state.advertise([A], 0)
    state.meet(Settings())
    assert state.advertise([A], 0)[0] == 1
    assert receive(state, laps2.SnsAdvertise(1, 1, 0, (A,))) == [
        advertised(1, 1, (A,), added=(A,), released=("x",))
    ]


def test_limits_that_the_peer_told_us() -> None:
    state = forwarding(peer=Settings(max_sns_sets=1, max_sns_targets=2))
    with pytest.raises(StateError, match="at most 2 targets"):
        state.advertise([A, B, C], 0)
    state.advertise([A], 0)
    with pytest.raises(StateError, match="at most 1 sub"):
        state.advertise([A], 0)


def test_large_sets_fit_into_the_peers_messages() -> None:
    peer = Settings(max_sns_targets=20_000)
    state = forwarding(peer=peer)
    targets = [NodeId(number) for number in range(1, 10_001)]
    sns_id, messages = state.advertise(targets, 16)
    assert [type(message).__name__ for message in messages] == [
        "SnsAdvertise",
        "SnsUpdate",
        "SnsUpdate",
    ]
    other = forwarding(local=peer)
    for message in messages:
        assert len(laps2.encode(message, max_size=peer.max_message_size)) < peer.max_message_size
        receive(other, message)
    served = other.receiver.get(sns_id)
    assert served is not None
    assert served.targets == set(targets)


def test_the_cpp_relay_has_no_synchronisation_and_no_versions() -> None:
    state = forwarding(dialect=CPP_16)
    assert list(state.synchronise()) == []
    assert state.advertise([A], 0) == (2, [cpp.SubscribeNodeSetAdvertised(2, 2, (A,))])
    assert state.update(2, [B]) == [cpp.SubscribeNodeSetAdvertised(2, 2, (B,))]
    assert receive(state, cpp.SubscribeNodeSetAdvertised(9, 2, (A,))) == [
        advertised(9, 1, (A,), added=(A,))
    ]
    assert receive(state, cpp.SubscribeNodeSetAdvertised(9, 2, (B,))) == [
        advertised(9, 2, (B,), added=(B,), removed=(A,))
    ]


def test_a_set_without_targets_that_is_given_up_ends_too() -> None:
    state = forwarding(Settings(max_sns_targets=1))
    receive(state, laps2.SnsAdvertise(1, 1, 0, ()))
    assert receive(state, laps2.SnsUpdate(1, 2, (A, B))) == [
        SnsWithdrawn(sns_id=1, targets=()),
        SnsRejection(1, 2, SnsRefusal.TOO_MANY_TARGETS),
    ]
    # One that never lived does not end.
    assert receive(state, laps2.SnsAdvertise(2, 1, 0, (A, B))) == [
        SnsRejection(2, 1, SnsRefusal.TOO_MANY_TARGETS)
    ]


# Early data


def test_after_a_move_data_waits_until_all_sets_are_named() -> None:
    state = forwarding()
    receive(state, laps2.SnsAdvertise(5, 1, 0, (A,)))
    state.receiver.moved()
    for sns_id in (2, 3, 9):
        assert state.hold(1.0, sns_id, sns_id, 1) == (SnsStanding.UNKNOWN, ())
    state.receiver.begin_sync()
    receive(state, laps2.SnsAdvertise(5, 2, 0, (A,)))
    assert receive(state, laps2.SnsAdvertise(3, 1, 0, (A,))) == [
        advertised(3, 1, (A,), added=(A,), released=(3,))
    ]
    assert list(state.end_sync()) == [DataDropped(dropped=(Dropped(2, 2, Drop.GONE),))]
    assert state.unknown.ids == {9}  # it may still come


def test_early_data_waits_for_its_set() -> None:
    state = forwarding()
    assert state.hold(5.0, 1, "a", 10) == (SnsStanding.UNKNOWN, ())
    assert state.hold(5.1, 1, "b", 10) == (SnsStanding.UNKNOWN, ())
    assert receive(state, laps2.SnsAdvertise(1, 1, 0, (A,))) == [
        advertised(1, 1, (A,), added=(A,), released=("a", "b"))
    ]
    assert state.hold(5.2, 1, "c", 10) == (SnsStanding.LIVE, ())
    receive(state, laps2.SnsWithdraw((1,)))
    gone = Dropped(1, "d", Drop.GONE)
    assert state.hold(5.3, 1, "d", 10) == (SnsStanding.GONE, (gone,))
    assert state.unknown.dropped == {Drop.GONE: 1}


def test_early_data_for_a_set_that_is_refused() -> None:
    state = forwarding(local=Settings(max_sns_sets=0))
    state.hold(5.0, 1, "a", 10)
    assert receive(state, laps2.SnsAdvertise(1, 1, 0, (A,))) == [
        DataDropped(dropped=(Dropped(1, "a", Drop.GONE),)),
        SnsRejection(1, 1, SnsRefusal.TOO_MANY_SETS),
    ]


def test_early_data_whose_set_does_not_come_is_dropped_and_the_peer_is_told_once() -> None:
    state = forwarding(local=Settings(unknown_sns_ms=500))
    state.hold(5.0, 2, "a", 10)
    state.hold(5.0, 1, "b", 10)
    assert list(state.expire(5.4)) == []
    assert list(state.expire(5.5)) == [
        DataDropped(dropped=(Dropped(2, "a", Drop.TIME), Dropped(1, "b", Drop.TIME))),
        SnsRejection(1, 0, SnsRefusal.UNKNOWN_SET),
        SnsRejection(2, 0, SnsRefusal.UNKNOWN_SET),
    ]
    state.hold(6.0, 2, "c", 10)
    assert list(state.expire(7.0)) == [DataDropped(dropped=(Dropped(2, "c", Drop.TIME),))]


def test_what_the_peer_was_told_is_bounded() -> None:
    state = forwarding(local=Settings(unknown_sns_ms=0))
    for sns_id in range(1, MAX_MISSED_SETS + 11):
        state.hold(5.0, sns_id, "x", 1)
        list(state.expire(5.0))
    assert len(state._missed) == MAX_MISSED_SETS
    assert 1 not in state._missed


def test_too_much_early_data_drops_the_oldest() -> None:
    state = forwarding(local=Settings(unknown_sns_bytes=200))
    state.hold(5.0, 1, "a", 100)
    standing, dropped = state.hold(5.0, 2, "b", 100)
    assert (standing, dropped) == (SnsStanding.UNKNOWN, (Dropped(1, "a", Drop.SPACE),))


def test_everything_returns_to_nothing() -> None:
    state = forwarding(local=Settings(unknown_sns_ms=0))
    state.hold(4.0, 8, "z", 10)
    list(state.expire(4.0))
    state.advertise([A], 0)
    receive(state, laps2.SnsAdvertise(1, 1, 0, (A,)))
    state.hold(5.0, 7, "a", 10)
    assert list(state.clear()) == [DataDropped(dropped=(Dropped(7, "a", Drop.CLOSED),))]
    sizes = (len(state.sender), len(state.receiver), len(state.unknown), len(state._missed))
    assert sizes == (0, 0, 0, 0)
    assert list(state.clear()) == []


def test_data_that_waits_for_a_set_that_ends_before_it_is_known() -> None:
    state = forwarding()
    receive(state, laps2.SnsAdvertise(8, 1, 0, (A,)))
    state.receiver.moved()  # the advertisement of 7 may have been lost
    assert state.hold(5.0, 7, "a", 10)[0] is SnsStanding.UNKNOWN
    assert receive(state, laps2.SnsWithdraw((7,))) == [
        DataDropped(dropped=(Dropped(7, "a", Drop.GONE),))
    ]


def test_a_set_that_came_after_all_may_be_missed_again() -> None:
    state = forwarding(Settings(unknown_sns_ms=500), dialect=CPP_16)
    missing = SnsRejection(9, 0, SnsRefusal.UNKNOWN_SET)
    state.hold(5.0, 9, "a", 10)
    assert list(state.expire(5.5))[-1] == missing
    receive(state, cpp.SubscribeNodeSetAdvertised(9, 2, (A,)))
    receive(state, cpp.SubscribeNodeSetWithdrawn(9))
    state.hold(6.0, 9, "b", 10)
    assert list(state.expire(6.5))[-1] == missing


def test_the_buffer_is_as_we_told_the_peer() -> None:
    state = forwarding(local=Settings(unknown_sns_ms=750, unknown_sns_bytes=12_345))
    assert (state.unknown.seconds, state.unknown.max_bytes) == (0.75, 12_345)
