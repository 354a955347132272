"""Changes of our sets: what is made, changed, retired and ended, also without room for it."""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.sets.set_records import IngressRecord, OutSet, SetsCounters, Unserved
from laps_relay.network.sets.set_routing import Choice, Chooser
from laps_relay.network.sets.sets import EgressSets, Step, Switch, plan
from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import SnsRefusal
from testkit.set_world import SetRelay, SetWorld

A, B, C, D = (NodeId(number) for number in (5, 6, 7, 8))
LOST = Unserved(SnsRefusal.NOT_ADVERTISED, "no way", 3.0)
NOW = 1.0
NONE: frozenset[NodeId] = frozenset()


class Bench:
    """One ingress of a relay with two peers, 2 at session 1 and 3 at session 2."""

    def __init__(self) -> None:
        self.relay = SetWorld(3, [(1, 2), (1, 3)])[1]
        self.plane = self.relay.plane
        self.egress = EgressSets(self.relay, cast("PeerPlane", self.relay.plane), SetsCounters())
        self.chooser = Chooser(self.relay, self.relay.world.settings)
        self.record = IngressRecord(Ingress(LOCAL, 1), 5, 0, "", None)
        self.stretched = False
        """Whether the last switch has given a set targets in place."""

    def switch(
        self,
        homes: dict[NodeId, int],
        *lost: NodeId,
        gone: frozenset[NodeId] = NONE,
        cut: bool = False,
        renew: bool = False,
    ) -> bool:
        """Choose, once; gives whether everything was taken."""
        record = self.record
        record.targets = (record.targets | homes.keys() | set(lost)) - gone
        hops = {1: NodeId(2), 2: NodeId(3)}
        choice = Choice(homes, hops, dict.fromkeys(lost, LOST))
        switch = Switch(record, self.egress, self.chooser)
        done = switch.change(NOW, choice, gone=gone, cut=cut, renew=renew)
        assert switch.began or not done
        switch.finish(NOW)
        self.stretched = switch.stretched
        return done

    @property
    def sent(self) -> dict[int, dict[int, frozenset[NodeId]]]:
        return {session: sets for session, sets in self.relay.sent.items() if sets}


def nodes(*given: NodeId) -> frozenset[NodeId]:
    return frozenset(given)


def test_made_changed_and_ended() -> None:
    bench = Bench()
    assert bench.switch({A: 1, B: 1, C: 2})
    assert bench.sent == {1: {1: nodes(A, B)}, 2: {1: nodes(C)}}
    assert bench.record.home == bench.record.last == {A: 1, B: 1, C: 2}
    assert bench.switch({D: 1}, gone=nodes(A, C))
    assert bench.sent == {1: {1: nodes(B, D)}}
    assert bench.plane.cuts == [(EgressSet(2, 1), 0x4C02)]
    assert bench.record.home == {B: 1, D: 1}
    assert not bench.record.displaced


def test_only_who_comes_stretches_a_set() -> None:
    bench = Bench()
    stretched = []
    for homes, gone in (({A: 1, B: 1}, ()), ({C: 1}, ()), ({}, (A,))):
        assert bench.switch(homes, gone=nodes(*gone))
        stretched.append(bench.stretched)
    assert stretched == [False, True, False]  # the first time the set is new
    assert bench.record.stretched  # until its streams go on anew


def test_a_move_retires_both() -> None:
    bench = Bench()
    bench.switch({A: 1, B: 1, C: 2})
    assert bench.switch({A: 2, B: 1})
    assert bench.sent == {1: {1: nodes(A, B), 2: nodes(B)}, 2: {1: nodes(C), 2: nodes(A, C)}}
    assert list(bench.plane.retired) == list(bench.record.retired) == [(1, 1), (2, 1)]
    assert bench.egress.counters.moved == 2
    # Who goes now goes from the retired sets too; one that is for nobody any more ends.
    assert bench.switch({}, gone=nodes(A, C))
    assert bench.sent == {1: {1: nodes(B), 2: nodes(B)}}
    assert list(bench.record.retired) == [(1, 1)]


def test_with_a_cut_nothing_goes_the_old_way() -> None:
    bench = Bench()
    bench.switch({A: 1, B: 1, C: 2})
    bench.switch({A: 2})
    assert bench.switch({A: 1, B: 1, C: 2}, cut=True)
    # Session 1 gets a new set, since A comes back to it; in the old ones is nobody who was looked
    # at, except those that have stayed where they were.
    assert bench.sent == {1: {2: nodes(B), 3: nodes(A, B)}, 2: {2: nodes(C)}}
    assert list(bench.record.retired) == [(1, 2)]
    assert bench.record.home == {A: 1, B: 1, C: 2}


def test_everything_anew() -> None:
    bench = Bench()
    bench.switch({A: 1, B: 2})
    assert bench.switch({A: 1, B: 2}, renew=True)
    assert bench.sent == {1: {1: nodes(A), 2: nodes(A)}, 2: {1: nodes(B), 2: nodes(B)}}


def test_a_target_without_a_way_leaves_and_comes_back_with_a_new_set() -> None:
    bench = Bench()
    bench.switch({A: 1, B: 1})
    assert bench.switch({}, A)
    assert bench.sent == {1: {1: nodes(A, B), 2: nodes(B)}}
    assert (bench.record.displaced, bench.record.unserved) == ({A}, {A: LOST})
    # What it was told first stays due.
    bench.record.unserved[A] = LOST._replace(due=2.0)
    bench.switch({}, A)
    assert bench.record.unserved[A].due == 2.0
    assert bench.switch({A: 1})
    assert bench.sent[1][3] == nodes(A, B)
    assert not bench.record.displaced
    assert not bench.record.unserved


def test_a_target_that_keeps_its_place() -> None:
    bench = Bench()
    bench.switch({A: 1})
    assert bench.switch({A: 1}, A)
    assert bench.sent == {1: {1: nodes(A)}}
    assert bench.record.unserved == {A: LOST}


def test_a_peer_that_takes_no_more_sets_is_avoided_and_nothing_has_changed() -> None:
    bench = Bench()
    bench.switch({A: 1})
    bench.relay.max_sets[2] = 0
    assert not bench.switch({A: 2, B: 1})
    assert bench.sent == {1: {1: nodes(A)}}
    assert bench.record.home == {A: 1}
    assert list(bench.record.blocks) == [A]
    assert bench.record.avoided(A) == {NodeId(3)}


def test_what_was_made_before_another_peer_said_no_is_withdrawn() -> None:
    bench = Bench()
    bench.relay.max_sets[2] = 0
    assert not bench.switch({A: 1, B: 2})
    assert bench.sent == {}
    assert bench.record.current == {}
    assert bench.record.avoided(A) == NONE
    assert bench.record.avoided(B) == {NodeId(3)}


def test_without_room_for_a_new_set_the_old_one_is_changed_in_place() -> None:
    bench = Bench()
    bench.switch({A: 1, B: 1})
    bench.relay.max_sets[1] = 1
    assert bench.switch({A: 2})
    assert bench.sent == {1: {1: nodes(B)}, 2: {1: nodes(A)}}
    assert bench.record.home == {A: 2, B: 1}
    assert not bench.record.retired


def test_targets_that_are_too_many_are_left_out() -> None:
    bench = Bench()
    bench.switch({A: 1})
    bench.relay.max_targets[1] = 1
    assert not bench.switch({A: 1, B: 1})
    assert bench.sent == {1: {1: nodes(A)}}
    assert bench.record.home == {A: 1}
    assert bench.record.avoided(B) == {NodeId(2)}
    assert not bench.record.displaced  # it was nowhere
    # The old set is for nobody any more, and the new targets are too many for it.
    assert not bench.switch({B: 1, C: 1}, gone=nodes(A))
    assert bench.sent == {}
    assert bench.record.home == {}
    assert bench.record.current == {}


def test_a_target_that_moved_in_vain_counts_as_displaced() -> None:
    bench = Bench()
    bench.switch({A: 1, B: 2})
    bench.relay.max_sets[2] = 1
    bench.relay.max_targets[2] = 1
    assert not bench.switch({A: 2})
    assert bench.record.home == {B: 2}
    assert bench.record.displaced == {A}
    assert bench.sent == {1: {1: nodes(A)}, 2: {1: nodes(B)}}  # until it is idle
    assert list(bench.plane.retired) == [(1, 1)]


NODES = [NodeId(number) for number in range(1, 7)]
HOMES = st.dictionaries(st.sampled_from(NODES), st.integers(1, 3))
SOME = st.frozensets(st.sampled_from(NODES))


def ids(*numbers: int) -> frozenset[NodeId]:
    return frozenset(NodeId(number) for number in numbers)


NONE = ids()


def test_targets_that_come_and_go() -> None:
    steps = plan({1: ids(1, 2), 2: ids(3)}, {1: ids(1, 4), 3: ids(5)}, wanted=NONE, moved=NONE)
    assert steps == [
        Step(1, ids(1, 4), False, NONE),
        Step(2, NONE, False, NONE),
        Step(3, NONE, False, ids(5)),
    ]


def test_nothing_to_do() -> None:
    same = {1: ids(1, 2)}
    assert plan(same, same, wanted=ids(1, 2), moved=NONE) == []
    assert plan({1: NONE}, {1: NONE}, wanted=NONE, moved=NONE) == []


def test_a_target_that_moves_replaces_both_sets() -> None:
    """The figure of laps-2, 6.3."""
    steps = plan({1: ids(1, 2), 2: ids(3)}, {1: ids(2), 2: ids(1, 3)}, wanted=ids(1), moved=ids(1))
    assert steps == [Step(1, ids(1, 2), True, ids(2)), Step(2, ids(3), True, ids(1, 3))]


def test_the_last_target_of_a_set_moves_while_another_goes() -> None:
    steps = plan({1: ids(1, 2)}, {2: ids(1)}, wanted=ids(1), moved=ids(1))
    assert steps == [Step(1, ids(1), True, NONE), Step(2, NONE, False, ids(1))]


def test_a_target_that_arrives_where_all_others_have_gone() -> None:
    steps = plan({2: ids(3)}, {2: ids(1)}, wanted=ids(1), moved=ids(1))
    assert steps == [Step(2, NONE, False, ids(1))]


def test_plan_renews_everything() -> None:
    same = {1: ids(1), 2: ids(2)}
    assert plan(same, same, wanted=ids(1, 2), moved=NONE, renew=True) == [
        Step(1, ids(1), True, ids(1)),
        Step(2, ids(2), True, ids(2)),
    ]


def by_session(homes: dict[NodeId, int]) -> dict[int, frozenset[NodeId]]:
    return {
        session: frozenset(node for node, home in homes.items() if home == session)
        for session in homes.values()
    }


@given(before=HOMES, after=HOMES, wanted=SOME, came_back=SOME, renew=st.booleans())
def test_what_holds_for_every_plan(
    before: dict[NodeId, int],
    after: dict[NodeId, int],
    wanted: frozenset[NodeId],
    came_back: frozenset[NodeId],
    renew: bool,
) -> None:
    moved = came_back | {node for node in after if before.get(node, after[node]) != after[node]}
    old, new = by_session(before), by_session(after)
    steps = plan(old, new, wanted=wanted, moved=moved, renew=renew)
    assert [step.session for step in steps] == sorted({step.session for step in steps})
    begins = dict(old)  # with what streams begin from now on
    for step in steps:
        was, is_to_be = old.get(step.session, NONE), new.get(step.session, NONE)
        goes_on = NONE if step.retire else step.keep
        begins[step.session] = step.make or goes_on
        # The set that is there loses exactly those that nobody wants here.
        if was and (step.retire or step.make or not step.keep):
            assert was - step.keep == (was - is_to_be) - wanted
        # Who changes its place, or comes back to one, is not added in place.
        assert not (goes_on - was) & moved
        assert not (step.make and goes_on)
    assert {session: nodes for session, nodes in begins.items() if nodes} == new
    # Nobody who is still wanted is cut off.
    for node in wanted & before.keys():
        assert all(node in each.keep for each in steps if each.session == before[node])


def parts() -> tuple[EgressSets, SetRelay, IngressRecord]:
    relay = SetWorld(3, [(1, 2), (1, 3)])[1]
    egress = EgressSets(relay, cast("PeerPlane", relay.plane), SetsCounters())
    return egress, relay, IngressRecord(Ingress(LOCAL, 1), 5, 3, "gold", None)


def made(egress: EgressSets, record: IngressRecord, session: int, *targets: int) -> OutSet:
    item = egress.make(1.0, session, ids(*targets), record)
    assert item is not None
    return item


def test_a_set_lives_until_it_is_withdrawn() -> None:
    egress, relay, record = parts()
    item = made(egress, record, 1, 2, 3)
    assert relay.world.control[relay.node, 1].pop() == ("advertise", 1, ids(2, 3), 3, "gold")
    assert egress.get(EgressSet(1, 1)) is item
    assert (egress.on(1), egress.on(2), len(egress)) == (1, 0, 1)
    assert egress.update(1.0, item, ids(2, 3))  # no change, no message
    assert egress.update(1.0, item, ids(2))
    assert (item.targets, relay.sent) == (ids(2), {1: {1: ids(2)}})
    egress.withdraw(1.0, item)
    assert (egress.get(EgressSet(1, 1)), len(egress), relay.sent) == (None, 0, {1: {}})
    assert egress.counters == SetsCounters(made=1, ended=1)


def test_a_retired_set_leaves_its_owner_when_it_is_withdrawn() -> None:
    egress, relay, record = parts()
    item, other = made(egress, record, 1, 2), made(egress, record, 1, 3)
    record.retired[item.egress] = item
    egress.retire(1.0, item)
    assert item.retired
    assert list(relay.plane.retired) == [item.egress]
    egress.withdraw(1.0, item)
    assert not record.retired
    other.owner = None  # the ingress has ended
    egress.withdraw(1.0, other)
    assert len(egress) == 0


def test_the_end_resets_what_is_under_way() -> None:
    egress, relay, record = parts()
    item = made(egress, record, 1, 2)
    egress.end(1.0, item)
    assert relay.plane.cuts == [(EgressSet(1, 1), StreamCode.NO_SUBSCRIBERS)]
    assert relay.sent == {1: {}}
    # The peer lets go of what it has, too: it would not if the set were only withdrawn.
    assert list(relay.world.control[relay.node, 1])[1:] == [
        ("update", 1, ids()),
        ("withdraw", 1),
    ]


def test_a_policy_is_enforced_on_sets_whose_ingress_has_ended() -> None:
    egress, relay, record = parts()
    owned, some, none = (made(egress, record, session, 2, 3) for session in (1, 1, 2))
    for item in (some, none):
        item.relays = {NodeId(2): (NodeId(2),), NodeId(3): (NodeId(2), NodeId(3))}
        item.orphan("silver")
    none.relays.pop(NodeId(2))  # nobody knows where that goes
    asked = []

    def permits(scope: str, relays: tuple[NodeId, ...]) -> bool:
        asked.append(scope)
        return relays == (NodeId(2),)

    egress.enforce(1.0, permits)
    assert set(asked) == {"silver"}
    assert relay.sent == {1: {1: ids(2, 3), 2: ids(2)}, 2: {}}
    assert (owned.targets, some.targets) == (ids(2, 3), ids(2))
    assert relay.plane.cuts == [(none.egress, StreamCode.NO_SUBSCRIBERS)]


def test_a_session_may_not_take_a_set_or_a_change() -> None:
    egress, relay, record = parts()
    relay.max_sets[1] = 1
    relay.max_targets[2] = 1
    item = made(egress, record, 1, 2)
    assert egress.make(1.0, 1, ids(3), record) is None
    other = made(egress, record, 2, 3)
    assert not egress.update(1.0, other, ids(2, 3))
    assert other.targets == ids(3)
    assert egress.counters == SetsCounters(made=2)
    assert relay.not_taken == [(1, ids(3)), (2, ids(2, 3))]
    # A session that has ended, before it was said so.
    del relay.world.links[2]
    egress.shrink(1.0, other, ids(2))
    assert other.targets == ids(2)
    del relay.sent[2]
    assert egress.session_gone(2) == [other]
    assert egress.session_gone(2) == []
    assert len(egress) == 1
    egress.shrink(1.0, item, ids(2))
    assert item.targets == ids(2)
    assert relay.not_taken == [(1, ids(3)), (2, ids(2, 3)), (2, ids(2))]


def test_withdrawing_on_a_session_that_is_about_to_end() -> None:
    egress, relay, record = parts()
    item = made(egress, record, 1, 2)
    del relay.world.links[1]
    egress.withdraw(1.0, item)
    assert len(egress) == 0
