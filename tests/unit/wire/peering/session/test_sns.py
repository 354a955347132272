"""Subscriber node sets: both tables, their limits and rules, and a stateful pair of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import SnsViolationError
from laps_wire.peering.laps2.codepoints import SnsRefusal
from laps_wire.peering.laps2.sns import MAX_SNS_ID, is_later
from laps_wire.peering.session.sns import (
    SnsDiff,
    SnsReceiver,
    SnsRejection,
    SnsSender,
    SnsSet,
    SnsStanding,
)


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
