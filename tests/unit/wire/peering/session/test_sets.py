"""Subscriber node sets: at the sender, at the receiver, and data for unknown sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp, laps2
from laps_wire.peering.errors import SnsViolationError
from laps_wire.peering.laps2 import (
    Bases,
    Direction,
    Mode,
    Settings,
    SnsRefusal,
)
from laps_wire.peering.laps2.forwarding import MAX_SNS_ID, is_later
from laps_wire.peering.session import (
    CPP_16,
    LAPS2,
    Closed,
    DataDropped,
    Dialect,
    Drop,
    Dropped,
    ForwardingState,
    Role,
    SnsAdvertised,
    SnsRefusedByPeer,
    SnsStanding,
    SnsWithdrawn,
    State,
)
from laps_wire.peering.session.dialect import SnsDiff, SnsRejection, SnsSet
from laps_wire.peering.session.forwarding import (
    HELD_ITEM_COST,
    MAX_MISSED_SETS,
    Effect,
    SnsReceiver,
    SnsSender,
    UnknownBuffer,
)
from testkit.peering_pair import DIALLER, LISTENER, Pair, config, silent

# Subscriber node sets of a session, and data that comes before them


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


# Subscriber node sets: both tables, their limits and rules, and a stateful pair of them


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


def diff(
    sns_id: int, version: int, *, added: Iterable[int] = (), removed: Iterable[int] = ()
) -> SnsDiff:
    return SnsDiff(sns_id, version, nodes(*added), nodes(*removed))


def test_diff_between() -> None:
    old, new = frozenset(nodes(1, 2, 9)), frozenset(nodes(2, 5, 4))
    assert SnsDiff.between(3, 7, old, new) == diff(3, 7, added=(4, 5), removed=(1, 9))
    assert SnsDiff.between(3, 7, old, new)
    assert not SnsDiff.between(3, 7, old, old)


# The sender


def sender(
    *, max_sets: int = 4, max_targets: int = 4, chunk: int = 100, last: int = 0
) -> SnsSender:
    return SnsSender(max_sets=max_sets, max_targets=max_targets, chunk=chunk, last=last)


def made(sets: SnsSender, *numbers: int) -> int:
    """Advertise a set; gives its id."""
    return sets.advertise(nodes(*numbers))[0].sns_id


def test_ids_start_at_one_and_grow() -> None:
    sets = sender()
    assert [made(sets, 7) for _ in range(3)] == [1, 2, 3]
    sets.withdraw(3)
    assert made(sets, 7) == 4  # a withdrawn id does not come back


def test_ids_wrap_to_one_and_skip_live_sets() -> None:
    sets = sender(last=MAX_SNS_ID - 1)
    assert [made(sets, 7), made(sets, 7), made(sets, 7)] == [MAX_SNS_ID, 1, 2]
    again = sender()
    assert made(again, 1) == 1
    again._last = MAX_SNS_ID
    assert made(again, 2) == 2  # 1 is still live
    assert again[1].targets == {1}


def test_update_gives_the_difference_and_keeps_the_id() -> None:
    sets = sender()
    assert sets.advertise(nodes(3, 1), hops=2, scope="gold") == (diff(1, 1, added=(1, 3)),)
    assert sets.update(1, nodes(1, 2)) == (diff(1, 2, added=(2,), removed=(3,)),)
    assert sets.update(1, nodes(2, 1)) == ()
    assert sets[1] == SnsSet(1, 2, frozenset(nodes(1, 2)), 2, "gold")
    assert sets[1].ordered == nodes(1, 2)


def test_a_large_set_goes_in_steps_with_a_version_each() -> None:
    sets = sender(max_targets=10, chunk=3)
    assert sets.advertise(nodes(1, 2, 3, 4, 5, 6, 7)) == (
        diff(1, 1, added=(1, 2, 3)),
        diff(1, 2, added=(4, 5, 6)),
        diff(1, 3, added=(7,)),
    )
    assert sets[1].version == 3
    # Targets leave first; a step that has room for both takes both.
    assert sets.update(1, nodes(1, 2, 3, 8, 9)) == (
        diff(1, 4, removed=(4, 5, 6)),
        diff(1, 5, removed=(7,), added=(8, 9)),
    )
    assert sets.renew() == ((diff(1, 6, added=(1, 2, 3)), diff(1, 7, added=(8, 9))),)
    assert sets[1] == SnsSet(1, 7, frozenset(nodes(1, 2, 3, 8, 9)))


def test_a_set_is_emptied_in_steps_and_then_it_ends() -> None:
    sets = sender(max_targets=10, chunk=3)
    sns_id = made(sets, 1, 2, 3, 4)
    assert sets.empty(sns_id) == (diff(1, 3, removed=(1, 2, 3)), diff(1, 4, removed=(4,)))
    assert sets.withdraw(sns_id) == SnsSet(1, 4, frozenset())


def test_withdraw_forgets() -> None:
    sets = sender()
    sns_id = made(sets, 3, 1)
    assert sets.withdraw(sns_id).targets == {1, 3}
    assert sns_id not in sets
    assert len(sets) == 0


def test_renewal_is_in_the_order_of_making_also_across_the_wrap() -> None:
    sets = sender(last=MAX_SNS_ID - 2)
    ids = [made(sets, number) for number in range(1, 5)]
    assert ids == [MAX_SNS_ID - 1, MAX_SNS_ID, 1, 2]
    assert [steps[0].sns_id for steps in sets.renew()] == ids
    assert [each.version for each in sets] == [2, 2, 2, 2]


def test_sender_misuse_is_local_and_changes_nothing() -> None:
    sets = sender(max_sets=1, max_targets=2)
    with pytest.raises(StateError, match="at most 2 targets"):
        sets.advertise(nodes(1, 2, 3))
    with pytest.raises(StateError, match="at most 64 bytes"):
        sets.advertise(nodes(1), scope="g" * 65)
    sns_id = made(sets, 1, 2)
    with pytest.raises(StateError, match="at most 1 subscriber"):
        sets.advertise(nodes(1))
    with pytest.raises(StateError, match="without targets"):
        sets.update(sns_id, ())
    with pytest.raises(StateError, match="at most 2 targets"):
        sets.update(sns_id, nodes(1, 2, 3))
    with pytest.raises(StateError, match="9 is not live"):
        sets.withdraw(9)
    with pytest.raises(StateError, match="9 is not live"):
        sets.empty(9)
    with pytest.raises(StateError, match="9 is not live"):
        sets.update(9, nodes(1))
    assert list(sets) == [SnsSet(1, 1, frozenset(nodes(1, 2)))]
    sets.clear()
    assert made(sets, 1) == 2


# The receiver


def receiver(*, max_sets: int = 4, max_targets: int = 4, ordered: bool = True) -> SnsReceiver:
    return SnsReceiver(max_sets=max_sets, max_targets=max_targets, ordered=ordered)


def test_advertise_update_withdraw() -> None:
    sets = receiver()
    assert sets.advertise(5, 1, nodes(10, 20), hops=3, scope="x") == diff(5, 1, added=(10, 20))
    again = sets.advertise(5, 4, nodes(20, 30), hops=2, scope="gold")
    assert again == diff(5, 4, added=(30,), removed=(10,))
    assert sets.update(5, 5, nodes(40), nodes(20)) == diff(5, 5, added=(40,), removed=(20,))
    assert sets.get(5) == SnsSet(5, 5, frozenset(nodes(30, 40)), 2, "gold")
    assert sets.withdraw(5) == diff(5, 5, removed=(30, 40))
    assert len(sets) == 0
    assert sets.get(5) is None


def test_standing_of_an_id_that_comes_with_data() -> None:
    sets = receiver()
    assert sets.standing(1) is SnsStanding.UNKNOWN
    sets.advertise(3, 1, nodes(10))
    sets.advertise(5, 1, nodes(10))
    assert sets.standing(5) is SnsStanding.LIVE
    assert sets.standing(6) is SnsStanding.UNKNOWN
    assert sets.standing(4) is SnsStanding.GONE  # skipped: it can not come any more
    sets.withdraw(5)
    assert sets.standing(5) is SnsStanding.GONE
    assert sets.standing(0) is SnsStanding.GONE
    assert sets.standing(3) is SnsStanding.LIVE


def test_ids_may_skip_and_wrap_but_not_go_back() -> None:
    sets = receiver()
    for sns_id in (1, 9, 0x7000_0000, 0xE000_0000, MAX_SNS_ID, 1):
        assert sets.advertise(sns_id, 1, nodes(1)) == diff(sns_id, 1, added=(1,))
        sets.withdraw(sns_id)
    assert sets.standing(2) is SnsStanding.UNKNOWN
    for sns_id in (1, MAX_SNS_ID):
        with pytest.raises(SnsViolationError, match=f"set {sns_id} is made after set 1"):
            sets.advertise(sns_id, 1, nodes(1))


def test_zero_is_no_set() -> None:
    with pytest.raises(SnsViolationError, match="0 is no subscriber node set") as caught:
        receiver().advertise(0, 1, nodes(1))
    assert caught.value.code == 0x14


@pytest.mark.parametrize("version", [0, 1, 3, 5])
def test_an_update_that_skips_or_repeats_a_version(version: int) -> None:
    sets = receiver()
    sets.advertise(1, 1, nodes(1))
    if version > 2:
        sets.update(1, 2, nodes(2), ())
        version += version == 3
    with pytest.raises(SnsViolationError, match=f"version {version} updated after"):
        sets.update(1, version, nodes(3), ())


@pytest.mark.parametrize("version", [4, 5])
def test_an_advertisement_that_does_not_raise_the_version(version: int) -> None:
    sets = receiver()
    sets.advertise(1, 5, nodes(1))
    with pytest.raises(SnsViolationError, match=f"version {version} advertised after 5"):
        sets.advertise(1, version, nodes(1))


@pytest.mark.parametrize("what", ["updated", "withdrawn"])
def test_a_set_that_was_never_made(what: str) -> None:
    sets = receiver()
    with pytest.raises(SnsViolationError, match=f"7 is {what} before it is made"):
        sets.update(7, 2, nodes(1), ()) if what == "updated" else sets.withdraw(7)


def test_over_the_limit_of_sets_the_session_goes_on() -> None:
    sets = receiver(max_sets=2)
    sets.advertise(1, 1, nodes(1))
    sets.advertise(2, 1, nodes(1))
    assert sets.advertise(3, 1, nodes(1)) == SnsRejection(3, 1, SnsRefusal.TOO_MANY_SETS)
    assert sets.standing(3) is SnsStanding.GONE
    assert not sets.update(3, 2, nodes(2), ())  # it was under way when we refused
    assert not sets.withdraw(3)
    # Live ones may still change.
    assert sets.advertise(2, 2, nodes(5)) == diff(2, 2, added=(5,), removed=(1,))
    sets.withdraw(1)
    assert sets.advertise(4, 1, nodes(1)) == diff(4, 1, added=(1,))


def test_over_the_limit_of_targets_the_set_is_given_up() -> None:
    sets = receiver(max_targets=2)
    assert sets.advertise(1, 1, nodes(1, 2, 3)) == SnsRejection(1, 1, SnsRefusal.TOO_MANY_TARGETS)
    assert 1 not in sets
    sets.advertise(2, 1, nodes(1, 2))
    assert sets.update(2, 2, nodes(3), nodes(1)) == diff(2, 2, added=(3,), removed=(1,))
    rejection = SnsRejection(2, 3, SnsRefusal.TOO_MANY_TARGETS, removed=nodes(2, 3))
    assert sets.update(2, 3, nodes(4), ()) == rejection
    assert sets.standing(2) is SnsStanding.GONE


def test_a_set_that_we_refuse_is_gone() -> None:
    sets = receiver()
    sets.advertise(1, 3, nodes(8))
    assert sets.refuse(1) == diff(1, 3, removed=(8,))
    assert not sets.refuse(1)
    assert not sets.update(1, 4, nodes(9), ())
    assert len(sets) == 0


def test_synchronisation_ends_what_is_not_named() -> None:
    sets = receiver()
    for sns_id in (1, 2, 3):
        sets.advertise(sns_id, 1, nodes(sns_id))
    sets.begin_sync()
    assert sets.advertise(2, 2, nodes(2, 9)) == diff(2, 2, added=(9,))
    assert sets.withdraw(3) == diff(3, 1, removed=(3,))
    assert sets.advertise(4, 1, nodes(4)) == diff(4, 1, added=(4,))
    assert sets.end_sync() == (diff(1, 1, removed=(1,)),)
    assert sets.end_sync() == ()
    assert 2 in sets
    assert 4 in sets


def test_a_set_that_grows_over_the_limit_in_a_synchronisation_ends_once() -> None:
    sets = receiver(max_targets=2)
    sets.advertise(1, 1, nodes(1, 2))
    sets.begin_sync()
    rejection = SnsRejection(1, 2, SnsRefusal.TOO_MANY_TARGETS, removed=nodes(1, 2))
    assert sets.update(1, 2, nodes(3), ()) == rejection
    assert sets.end_sync() == ()
    assert len(sets) == 0


def test_synchronisation_may_name_an_id_that_got_lost() -> None:
    sets = receiver()
    sets.advertise(5, 1, nodes(5))
    sets.begin_sync()
    assert sets.advertise(3, 1, nodes(3)) == diff(3, 1, added=(3,))
    assert not sets.advertise(5, 2, nodes(5))
    assert sets.end_sync() == ()
    # The latest id is still 5.
    assert sets.standing(4) is SnsStanding.GONE
    with pytest.raises(SnsViolationError):
        sets.advertise(4, 1, nodes(4))


def test_after_a_move_what_does_not_fit_waits_for_the_synchronisation() -> None:
    sets = receiver()
    sets.advertise(5, 1, nodes(5))
    sets.begin_sync()
    sets.moved()  # in the middle of a synchronisation: it is void
    assert sets.update(5, 3, nodes(6), ()) == SnsDiff(5, 1)
    assert not sets.update(6, 2, nodes(6), ())
    assert not sets.withdraw(7)
    assert sets.standing(2) is SnsStanding.UNKNOWN  # its advertisement may be what got lost
    sets.begin_sync()
    assert sets.advertise(5, 4, nodes(5, 6)) == diff(5, 4, added=(6,))
    assert sets.end_sync() == ()
    assert sets.standing(2) is SnsStanding.GONE
    with pytest.raises(SnsViolationError):
        sets.update(5, 9, nodes(6), ())


def test_ids_of_the_cpp_relay_follow_no_order() -> None:
    sets = receiver(ordered=False)
    assert not sets.update(9, 2, nodes(1), ())
    assert not sets.withdraw(9)
    sets.advertise(9, 1, nodes(1))
    sets.advertise(2, 1, nodes(1))
    sets.withdraw(9)
    assert sets.standing(9) is SnsStanding.UNKNOWN
    assert sets.advertise(9, 1, nodes(1)) == diff(9, 1, added=(1,))
    with pytest.raises(SnsViolationError):
        sets.advertise(0, 1, nodes(1))


def test_clear() -> None:
    sets = receiver()
    sets.advertise(1, 1, nodes(1))
    sets.begin_sync()
    sets.clear()
    assert len(sets) == 0
    assert sets.end_sync() == ()


TARGETS = st.sets(st.integers(1, 6).map(NodeId), min_size=1, max_size=6)


class SetsMachine(RuleBasedStateMachine):
    """A sender and a receiver with the same limits, over an ordered, lossless control stream.

    Whatever the sender does, the receiver follows: same sets, no violation, also across the wrap.
    """

    MAX = 5

    @initialize(
        last=st.sampled_from([0, 1, 0x7FFF_FFFE, MAX_SNS_ID - 3]), chunk=st.sampled_from([1, 2, 99])
    )
    def begin(self, last: int, chunk: int) -> None:
        self.sender = SnsSender(max_sets=self.MAX, max_targets=6, chunk=chunk, last=last)
        self.receiver = SnsReceiver(max_sets=self.MAX, max_targets=6)
        self.last = 0
        self.model: dict[int, set[NodeId]] = {}

    def apply(self, target: SnsReceiver, steps: tuple[SnsDiff, ...], *, whole: bool) -> None:
        for index, step in enumerate(steps):
            assert len(step.added) + len(step.removed) <= self.sender.chunk
            if whole and index == 0:
                target.advertise(step.sns_id, step.version, step.added)
            else:
                assert target.update(step.sns_id, step.version, step.added, step.removed) == step

    @precondition(lambda self: len(self.model) < self.MAX)
    @rule(targets_=TARGETS)
    def advertise(self, targets_: set[NodeId]) -> None:
        steps = self.sender.advertise(targets_)
        sns_id = steps[0].sns_id
        assert sns_id not in self.model
        assert self.last == 0 or is_later(sns_id, self.last)
        assert self.receiver.standing(sns_id) is SnsStanding.UNKNOWN
        self.last = sns_id
        self.model[sns_id] = targets_
        self.apply(self.receiver, steps, whole=True)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), targets_=TARGETS)
    def update(self, data: st.DataObject, targets_: set[NodeId]) -> None:
        sns_id = data.draw(st.sampled_from(sorted(self.model)))
        steps = self.sender.update(sns_id, targets_)
        assert bool(steps) == (targets_ != self.model[sns_id])
        self.model[sns_id] = targets_
        self.apply(self.receiver, steps, whole=False)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        sns_id = data.draw(st.sampled_from(sorted(self.model)))
        gone = self.sender.withdraw(sns_id)
        assert gone.targets == self.model.pop(sns_id)
        assert self.receiver.withdraw(sns_id).removed == gone.ordered
        assert self.receiver.standing(sns_id) is SnsStanding.GONE

    @rule(lossy=st.booleans())
    def synchronise(self, lossy: bool) -> None:
        if lossy:  # the control stream moved, and took what was under way with it
            for sns_id in sorted(self.model)[:1]:
                self.model[sns_id] = self.model[sns_id] ^ {NodeId(6)} or {NodeId(1)}
                self.sender.update(sns_id, self.model[sns_id])
            self.receiver.moved()
        self.receiver.begin_sync()
        for steps in self.sender.renew():
            self.apply(self.receiver, steps, whole=True)
        assert self.receiver.end_sync() == ()

    @rule()
    def synchronise_from_nothing(self) -> None:
        fresh = SnsReceiver(max_sets=self.MAX, max_targets=6)
        for steps in self.sender.renew():
            self.apply(fresh, steps, whole=True)
            self.apply(self.receiver, steps, whole=True)
        for each in self.sender:
            assert fresh.get(each.sns_id) == each

    @invariant()
    def both_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        assert {each.sns_id: each.targets for each in self.sender} == self.model
        assert len(self.receiver) == len(self.model)
        for each in self.sender:
            assert self.receiver.get(each.sns_id) == each


TestSetsMachine = SetsMachine.TestCase


# Sets in a session: messages in, events and refusals out, and data that came early


A, B, C, D = (NodeId(number) for number in (1, 2, 3, 4))


def forwarding(
    local: Settings | None = None, peer: Settings | None = None, dialect: Dialect = LAPS2
) -> ForwardingState:
    state = ForwardingState(dialect, local or Settings())
    state.apply_settings(peer or Settings())
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


def test_forwarding_a_set_that_is_emptied_before_it_ends() -> None:
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
    state.apply_settings(Settings())
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


# Data before its set: time, bytes, order, and a count for everything that is dropped


def buffer(items: int = 3, *, seconds: float = 1.0, size: int = 100) -> UnknownBuffer[str]:
    """A buffer with room for ``items`` items of ``size`` bytes."""
    return UnknownBuffer(seconds=seconds, max_bytes=items * (size + HELD_ITEM_COST))


def test_released_in_order_of_arrival_and_only_once() -> None:
    held = buffer()
    assert held.hold(0.0, 7, "a", 100) == ()
    assert held.hold(0.1, 8, "other", 100) == ()
    assert held.hold(0.2, 7, "b", 100) == ()
    assert held.ids == {7, 8}
    assert held.release(7) == ("a", "b")
    assert held.release(7) == ()
    assert held.ids == {8}
    assert held.used_bytes == 100 + HELD_ITEM_COST
    assert not held.dropped


def test_dropped_when_time_is_over_and_not_before() -> None:
    held = buffer(seconds=2.0)
    held.hold(10.0, 7, "a", 5)
    held.hold(11.0, 8, "b", 6)
    assert held.deadline == 12.0
    assert held.expire(11.999) == ()
    assert held.expire(12.0) == (Dropped(7, "a", Drop.TIME),)
    assert held.deadline == 13.0
    assert held.ids == {8}
    assert held.expire(13.0) == (Dropped(8, "b", Drop.TIME),)
    assert held.dropped == {Drop.TIME: 2}
    assert held.dropped_bytes == {Drop.TIME: 11}
    assert held.used_bytes == 0


def test_an_empty_buffer_has_no_deadline() -> None:
    assert buffer().deadline is None


def test_oldest_leaves_first_when_room_runs_out() -> None:
    held = buffer(3)
    for index, name in enumerate("abc"):
        assert held.hold(0.0, index + 1, name, 100) == ()
    assert held.hold(0.0, 1, "d", 100) == (Dropped(1, "a", Drop.SPACE),)
    # One large item needs the room of two.
    assert held.hold(0.0, 9, "e", 100 + HELD_ITEM_COST + 100) == (
        Dropped(2, "b", Drop.SPACE),
        Dropped(3, "c", Drop.SPACE),
    )
    assert held.release(1) == ("d",)
    assert held.release(9) == ("e",)
    assert held.dropped == {Drop.SPACE: 3}
    assert held.dropped_bytes == {Drop.SPACE: 300}


def test_an_item_larger_than_the_buffer_drives_nothing_else_out() -> None:
    held = buffer(1)
    held.hold(0.0, 1, "a", 100)
    assert held.hold(0.0, 2, "huge", 101) == (Dropped(2, "huge", Drop.SPACE),)
    assert held.release(1) == ("a",)


def test_what_is_due_leaves_before_anything_is_driven_out() -> None:
    held = buffer(2, seconds=1.0)
    held.hold(0.0, 1, "a", 100)
    held.hold(0.5, 2, "b", 100)
    assert held.hold(1.2, 3, "c", 100) == (Dropped(1, "a", Drop.TIME),)
    assert held.ids == {2, 3}


def test_empty_items_take_room_too() -> None:
    held: UnknownBuffer[int] = UnknownBuffer(seconds=1.0, max_bytes=10 * HELD_ITEM_COST)
    for number in range(25):
        held.hold(0.0, 1, number, 0)
    assert len(held) == 10
    assert held.dropped == {Drop.SPACE: 15}


@pytest.mark.parametrize("reason", [Drop.GONE, Drop.TIME])
def test_discard_drops_one_set_with_its_reason(reason: Drop) -> None:
    held = buffer()
    held.hold(0.0, 1, "a", 3)
    held.hold(0.0, 2, "b", 4)
    assert held.discard(1, reason) == (Dropped(1, "a", reason),)
    assert held.discard(1) == ()
    assert held.dropped == {reason: 1}
    assert held.release(2) == ("b",)


def test_refused_items_are_counted_though_they_never_waited() -> None:
    held = buffer()
    assert held.refuse(4, "late", 50) == Dropped(4, "late", Drop.GONE)
    assert held.dropped_bytes == {Drop.GONE: 50}
    assert len(held) == 0


def test_clear_gives_everything_back() -> None:
    held = buffer()
    held.hold(0.0, 1, "a", 1)
    held.hold(0.0, 2, "b", 1)
    assert held.clear() == (Dropped(1, "a", Drop.CLOSED), Dropped(2, "b", Drop.CLOSED))
    assert (len(held), held.used_bytes, held.ids, held.deadline) == (0, 0, frozenset(), None)
    assert held.clear() == ()


class BufferMachine(RuleBasedStateMachine):
    """Against a plain list of (id, item, size, arrival) that is searched from the front."""

    def __init__(self) -> None:
        super().__init__()
        self.real: UnknownBuffer[int] = UnknownBuffer(seconds=3.0, max_bytes=600)
        self.model: list[tuple[int, int, int, float]] = []
        self.counts: Counter[Drop] = Counter()
        self.now = 0.0
        self.number = 0

    def leave(self, gone: list[tuple[int, int, int, float]], reason: Drop) -> list[Dropped[int]]:
        self.model = [each for each in self.model if each not in gone]
        self.counts[reason] += len(gone)
        return [Dropped(sns_id, item, reason) for sns_id, item, _, _ in gone]

    def due(self) -> list[Dropped[int]]:
        return self.leave([each for each in self.model if each[3] + 3.0 <= self.now], Drop.TIME)

    @rule(sns_id=st.integers(1, 5), size=st.integers(0, 700))
    def hold(self, sns_id: int, size: int) -> None:
        expected = self.due()
        self.number += 1
        entry = (sns_id, self.number, size, self.now)
        if size + HELD_ITEM_COST > 600:
            expected += self.leave([entry], Drop.SPACE)
        else:
            self.model.append(entry)
            while sum(each[2] + HELD_ITEM_COST for each in self.model) > 600:
                expected += self.leave(self.model[:1], Drop.SPACE)
        assert list(self.real.hold(self.now, sns_id, self.number, size)) == expected

    @rule(sns_id=st.integers(1, 5))
    def release(self, sns_id: int) -> None:
        expected = [each for each in self.model if each[0] == sns_id]
        self.model = [each for each in self.model if each[0] != sns_id]
        assert list(self.real.release(sns_id)) == [item for _, item, _, _ in expected]

    @rule(sns_id=st.integers(1, 5))
    def discard(self, sns_id: int) -> None:
        gone = [each for each in self.model if each[0] == sns_id]
        assert list(self.real.discard(sns_id)) == self.leave(gone, Drop.GONE)

    @rule(step=st.floats(0, 4))
    def time(self, step: float) -> None:
        self.now += step
        assert list(self.real.expire(self.now)) == self.due()

    @precondition(lambda self: self.model)
    @rule()
    def until_the_deadline(self) -> None:
        deadline = self.real.deadline
        assert deadline is not None
        self.now = max(self.now, deadline)
        dropped = list(self.real.expire(self.now))
        assert dropped
        assert dropped == self.due()

    @invariant()
    def agrees(self) -> None:
        assert len(self.real) == len(self.model)
        assert self.real.ids == {each[0] for each in self.model}
        assert self.real.used_bytes == sum(each[2] + HELD_ITEM_COST for each in self.model) <= 600
        assert self.real.dropped == self.counts


TestBufferMachine = BufferMachine.TestCase
