"""Routing of sets: events and messages, the session of each target, and refusals."""

from __future__ import annotations

from collections.abc import Container, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.events import SetChanged, SetGone
from laps_relay.network.sets.set_records import Block, IngressRecord, OutSet, Unserved
from laps_relay.network.sets.set_routing import Choice, Chooser, SetLog
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering import Assignment
from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress
from laps_relay.policy.interface import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.upstream.interfaces import Answer
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NodeSelf,
    SnsRefusal,
    SubscribeCode,
)
from testkit.relay_net import OTHER, TRACK, key_of
from testkit.relay_shapes import square
from testkit.set_world import SetRelay, SetWorld

B, C, D = (NodeId(number) for number in (2, 3, 4))


class NoTransit(OpenPolicy):
    """Data does not go through one relay."""

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        if any(node.node_id == B for node in nodes[1:-1]):
            return Refusal("transit", f"{scope} does not pass {B}")
        return None


def test_telemetry_hears_of_every_change_of_a_set_and_of_its_track() -> None:
    net = square()
    net.add(5)
    net.join(5, 2)
    net.publish(1)
    net.run()
    net.subscribe(4)
    net.run()
    session = net.session(1, 2)
    made = SetChanged(
        session=session,
        sns_id=1,
        incoming=False,
        added=(D,),
        removed=(),
        members=1,
        key=key_of(TRACK),
    )
    assert net.told(1, SetChanged) == [made]
    net.subscribe(5)
    net.run()
    (grown,) = net.told(1, SetChanged)
    assert (grown.added, grown.removed, grown.members) == ((NodeId(5),), (), 2)
    assert grown.key == key_of(TRACK)
    net.unsubscribe(4)
    net.run(6)
    (shrunk,) = net.told(1, SetChanged)
    assert (shrunk.added, shrunk.removed, shrunk.members) == ((), (D,), 1)
    net.unsubscribe(5)
    net.run(8)
    (gone,) = net.told(1, SetGone)
    assert (gone.removed, gone.key, gone.incoming) == ((NodeId(5),), key_of(TRACK), False)
    # A Via sees sets only, no tracks: what it makes has no key.
    events = net.told(2, SetChanged)
    assert {event.key for event in events} == {None}
    assert {event.incoming for event in events} == {True, False}
    ended = net.told(2, SetGone)
    assert sorted(event.incoming for event in ended) == [False, False, True]


def test_a_set_that_its_session_can_not_take_is_not_told() -> None:
    net = square()
    relay = net.relays[1]
    session = net.session(1, 2)
    with pytest.raises(StateError):
        relay.set_routing.withdraw_sns(net.now, session, 9)
    with pytest.raises(StateError):
        relay.set_routing.advertise_sns(net.now, session, (), 0, "")
    with pytest.raises(StateError):
        relay.set_routing.update_sns(net.now, session, 9, (B,))
    with pytest.raises(StateError):
        relay.set_routing.refuse_sns(net.now, session, 9, SnsRefusal.POLICY, (B,))
    net.run(0.1)
    assert (net.told(1, SetChanged), net.told(1, SetGone)) == ([], [])


def test_the_next_hop_and_its_alternates() -> None:
    net = square()
    relay = net.relays[1]
    ways = relay.set_routing.assign(net.now, None, frozenset({D}), "", arrived_on=None)
    assert ways == Assignment({D: B}, {})
    nobody: frozenset[NodeId] = frozenset()
    assert relay.set_routing.detour(D, "", arrived_on=None, avoid=nobody) == B
    assert relay.set_routing.detour(D, "", arrived_on=None, avoid=frozenset({B})) == C
    assert relay.set_routing.detour(D, "", arrived_on=B, avoid=nobody) == C
    assert isinstance(relay.set_routing.detour(D, "", arrived_on=B, avoid=frozenset({C})), Refusal)
    assert [relay.set_routing.length(peer, D, "", arrived_on=None) for peer in (B, C, D)] == [
        1,
        1,
        None,
    ]
    assert relay.set_routing.length(B, D, "", arrived_on=B) is None


def test_the_relays_on_a_way_and_what_policy_says_of_them() -> None:
    net = square()
    relay = net.relays[1]
    assert [relay.set_routing.relays(peer, D) for peer in (B, C, D)] == [(B, D), (C, D), ()]
    assert relay.set_routing.relays(B, B) == (B,)
    assert relay.set_routing.permits("gold", (B, D))
    relay.set_policy(net.now, NoTransit())
    assert not relay.set_routing.permits("gold", (B, D))
    assert relay.set_routing.permits("gold", (C, D))


def test_a_way_on_which_a_relay_drains() -> None:
    net = square()
    relay = net.relays[1]

    def drains(*, arrived_on: NodeId | None = None) -> list[bool]:
        return [relay.set_routing.drains(peer, D, "", arrived_on=arrived_on) for peer in (B, C, D)]

    assert drains() == [False, False, False]
    net.relays[2].drain(net.now, 10.0, "")
    net.run(0.5)
    assert drains() == [True, False, False]
    assert not relay.set_routing.drains(
        B, B, "", arrived_on=None
    )  # on the way to itself it does not count
    assert drains(arrived_on=B) == [False, False, False]


def test_sessions_and_the_nodes_at_their_ends() -> None:
    net = square()
    relay = net.relays[1]
    session = net.session(1, 2)
    assert (relay.set_routing.session_to(B, 7), relay.set_routing.node_of(session)) == (session, B)
    assert relay.set_routing.session_to(D, 7) is None
    with pytest.raises(StateError, match="no peer on session 99"):
        relay.set_routing.node_of(99)


def test_whom_a_peer_may_name() -> None:
    net = square()
    session = net.session(2, 1)
    via = net.relays[2]
    assert via.set_routing.may_serve(session, B)
    assert via.set_routing.may_serve(session, D)
    assert not via.set_routing.may_serve(session, NodeId(77))
    assert not via.set_routing.may_serve(99, D)


def test_who_gets_nothing_is_told_why_and_when() -> None:
    net = square()
    net.add(5, dynamic_peering=False)
    net.join(5, 2)
    for number in (1, 5):
        net.publish(number, TRACK if number == 1 else OTHER)
    net.run()
    for name in (TRACK, OTHER):
        net.subscribe(4, name)
    net.run()
    net.answers(4)
    key, other = key_of(TRACK), key_of(OTHER)
    denied = Unserved(SnsRefusal.POLICY, "not through CA", net.now)
    # 4 could be dialled by 1, if policy is not against that; and not by 5.
    net.relays[1].set_routing.report_routing(net.now, key, frozenset((D,)), "", {D: denied})
    net.relays[5].set_routing.report_routing(net.now, other, frozenset((D,)), "", {D: denied})
    net.run(1)
    assert net.clients[4].answers == [(other, Answer.ENDED, SubscribeCode.POLICY, "not through CA")]
    net.answers(4)
    net.run(2)
    assert net.clients[4].answers == [(key, Answer.ENDED, SubscribeCode.POLICY, "not through CA")]
    net.answers(4)
    for number, each in ((1, key), (5, other)):
        net.relays[number].set_routing.report_routing(net.now, each, frozenset((D,)), "", {})
    net.run(2)
    assert [code for _, code in net.answers(4)] == [SubscribeCode.ACCEPTED] * 2
    away = Unserved(SnsRefusal.NOT_ADVERTISED, "no way", net.now)
    net.relays[1].set_routing.report_routing(net.now, key, frozenset((D,)), "", {D: away})
    net.run(4)
    assert net.answers(4) == []
    net.run(2)
    assert net.answers(4) == [(Answer.ENDED, SubscribeCode.UNREACHABLE)]


A, B, C = NodeId(1), NodeId(2), NodeId(3)


def test_a_set_is_told_when_it_is_made_and_when_its_targets_change() -> None:
    log = SetLog()
    made = log.changed(7, 1, [B, A], incoming=False, key=99)
    assert made == SetChanged(
        session=7, sns_id=1, incoming=False, added=(A, B), removed=(), members=2, key=99
    )
    assert log.changed(7, 1, (A, B), incoming=False) is None
    assert log.changed(7, 1, (B, C), incoming=False) == SetChanged(
        session=7, sns_id=1, incoming=False, added=(C,), removed=(A,), members=2, key=99
    )
    assert len(log) == 1


def test_the_end_of_a_set_tells_what_it_had() -> None:
    log = SetLog()
    log.changed(7, 1, (B, A), incoming=True)
    log.changed(7, 1, (C,), incoming=False, key=5)
    assert log.gone(7, 1, incoming=True) == SetGone(
        session=7, sns_id=1, incoming=True, removed=(A, B)
    )
    assert log.gone(7, 1, incoming=True) is None
    assert log.gone(7, 1, incoming=False) == SetGone(
        session=7, sns_id=1, incoming=False, removed=(C,), key=5
    )
    assert (log.gone(8, 1, incoming=False), len(log)) == (None, 0)


def test_a_session_takes_its_sets_with_it() -> None:
    log = SetLog()
    log.changed(7, 2, (A,), incoming=True)
    log.changed(7, 1, (B,), incoming=False)
    log.changed(8, 1, (C,), incoming=False)
    gone = log.session_gone(7)
    assert [(each.sns_id, each.incoming) for each in gone] == [(1, False), (2, True)]
    assert (log.session_gone(7), len(log)) == ([], 1)


@given(st.lists(st.frozensets(st.integers(1, 6), min_size=1), max_size=12))
def test_added_and_removed_lead_from_each_state_to_the_next(states: list[frozenset[int]]) -> None:
    log, had = SetLog(), frozenset[NodeId]()
    for state in states:
        targets = frozenset(NodeId(number) for number in state)
        news = log.changed(1, 1, targets, incoming=False)
        if news is None:
            assert targets == had
            continue
        assert not had & set(news.added)
        had = had - frozenset(news.removed) | frozenset(news.added)
        assert (had, news.members) == (targets, len(targets))


SETTINGS = NetworkSettings(batch=0.1, convergence=30.0)
ONE, TWO, THREE, FOUR = (NodeId(number) for number in (1, 2, 3, 4))
NOW = 10.0


class Host(SetRelay):
    """A relay between two others, 2 and 3; 4 is behind both. Sessions 1 and 2 lead there."""

    def __init__(self) -> None:
        super().__init__(SetWorld(4, [(1, 2), (1, 3), (2, 4), (3, 4)]), ONE, SETTINGS)
        self.hop = {TWO: TWO, THREE: THREE, FOUR: TWO}
        self.ways: Assignment | None = None
        """What steering says instead."""
        self.closed: set[NodeId] = set()
        self.lengths: dict[NodeId, int] | None = None
        """What peers say of how far it is to 4, instead."""

    def length(
        self, peer: NodeId, target: NodeId, scope: str, *, arrived_on: NodeId | None
    ) -> int | None:
        if self.lengths is not None:
            return self.lengths.get(peer)
        return super().length(peer, target, scope, arrived_on=arrived_on)

    def assign(
        self,
        now: float,
        key: int | None,
        targets: frozenset[NodeId],
        scope: str,
        *,
        arrived_on: NodeId | None,
    ) -> Assignment:
        if self.ways is not None:
            return self.ways
        return super().assign(now, key, targets, scope, arrived_on=arrived_on)

    def session_to(self, node: NodeId, key: int, used: Container[int] = ()) -> int | None:
        return None if node in self.closed else super().session_to(node, key, used)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def chooser(host: Host) -> Chooser:
    return Chooser(host, SETTINGS)


def feed() -> IngressRecord:
    return IngressRecord(Ingress(LOCAL, 1), 5, 0, "", None)


def transit(hops: int = 1) -> IngressRecord:
    return IngressRecord(Ingress(2, 1), None, hops, "", THREE)


def test_sessions_by_next_hop(chooser: Chooser) -> None:
    assert chooser.choose(NOW, feed(), [TWO, THREE, FOUR]) == Choice(
        {TWO: 1, THREE: 2, FOUR: 1}, {1: TWO, 2: THREE}, {}
    )


def test_targets_of_a_set_follow_those_that_have_a_session_already(
    host: Host, chooser: Chooser
) -> None:
    record = transit()
    record.current[1] = OutSet(EgressSet(1, 1), frozenset({TWO}), record)
    before = [number for number in range(20) if _homes(chooser, number, record) == {FOUR: 1}]
    assert len(before) == 20
    host.world.links[9] = (ONE, TWO)  # a parallel one, which would be better for some
    assert all(_homes(chooser, number, record) == {FOUR: 1} for number in range(20))
    del record.current[1]
    assert {_homes(chooser, number, record)[FOUR] for number in range(20)} == {1, 9}
    record.current[9] = OutSet(EgressSet(9, 1), frozenset({TWO}), record)
    assert all(_homes(chooser, number, record) == {FOUR: 9} for number in range(20))
    del host.world.links[9]
    assert _homes(chooser, 1, record) == {FOUR: 1}


def _homes(chooser: Chooser, number: int, record: IngressRecord) -> dict[NodeId, int]:
    """The same record as if its set had this number."""
    record.ingress = Ingress(2, number)
    return chooser.choose(NOW, record, [FOUR]).homes


def test_all_targets_of_a_feed_are_chosen_for_together(host: Host, chooser: Chooser) -> None:
    host.world.links[9] = (ONE, TWO)
    record = feed()
    homes = []
    for key in range(20):
        record.key = key
        homes.append(chooser.choose(NOW, record, [TWO, FOUR]).homes)
        record.current = {1: OutSet(EgressSet(1, 1), frozenset({TWO}), record)}
    assert all(each[TWO] == each[FOUR] for each in homes)
    assert {each[TWO] for each in homes} == {1, 9}


def test_nobody_to_choose_for(host: Host, chooser: Chooser) -> None:
    assert chooser.choose(NOW, feed(), []) == Choice({}, {}, {})
    assert host.assigned == 0


def test_a_set_that_is_too_deep_is_not_forwarded(chooser: Chooser) -> None:
    assert chooser.choose(NOW, transit(16), [FOUR]).homes == {FOUR: 1}
    choice = chooser.choose(NOW, transit(17), [FOUR])
    assert choice.unserved == {FOUR: Unserved(SnsRefusal.TOO_MANY_HOPS, "16 sets lead here", NOW)}


def test_targets_that_were_not_advertised_to_the_sender(host: Host, chooser: Chooser) -> None:
    host.denied.add(FOUR)
    refused = {FOUR: Unserved(SnsRefusal.NOT_ADVERTISED, "not advertised to this peer", NOW)}
    assert chooser.choose(NOW, transit(), [FOUR]) == Choice({}, {}, refused)
    assert chooser.choose(NOW, feed(), [FOUR]).homes == {FOUR: 1}  # our own clients may
    # It was, before: data may be under way, so it keeps its place.
    record = transit()
    record.home[FOUR] = 1
    assert chooser.choose(NOW, record, [FOUR]) == Choice({FOUR: 1}, {}, refused)


@pytest.mark.parametrize(
    ("ways", "closed", "reason"),
    [
        (Assignment({}, {FOUR: Refusal("", "no way")}), False, "no way"),
        (Assignment({}, {}), False, f"no way to {FOUR}"),
        (Assignment({FOUR: THREE}, {}), False, f"the way leads back to {THREE}"),
        (Assignment({FOUR: TWO}, {}), True, f"no session for data to {TWO}"),
    ],
)
def test_what_may_heal_is_told_later(
    host: Host, chooser: Chooser, ways: Assignment, closed: bool, reason: str
) -> None:
    host.ways = ways
    host.closed = {TWO} if closed else set()
    lost = {FOUR: Unserved(SnsRefusal.NOT_ADVERTISED, reason, NOW + 0.2)}
    assert chooser.choose(NOW, transit(), [FOUR]) == Choice({}, {}, lost)
    record = transit()
    record.home[FOUR] = 1
    assert chooser.choose(NOW, record, [FOUR]) == Choice({FOUR: 1}, {}, lost)


def test_what_policy_forbids_is_told_at_once_and_loses_its_place(
    host: Host, chooser: Chooser
) -> None:
    host.policy.add(FOUR)
    record = transit()
    record.home[FOUR] = 1
    assert chooser.choose(NOW, record, [FOUR]) == Choice(
        {}, {}, {FOUR: Unserved(SnsRefusal.POLICY, "policy", NOW)}
    )


def test_a_target_of_a_feed_keeps_no_place(host: Host, chooser: Chooser) -> None:
    host.ways = Assignment({}, {})
    record = feed()
    record.home[FOUR] = 1
    assert chooser.choose(NOW, record, [FOUR]).homes == {}


# Refusals


def test_a_peer_that_refused_is_avoided(chooser: Chooser) -> None:
    record = feed()
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.NOT_ADVERTISED)
    assert chooser.choose(NOW, record, [FOUR]).homes == {FOUR: 2}
    assert chooser.choose(NOW, record, [TWO]).homes == {TWO: 1}
    chooser.block(NOW, record, FOUR, THREE, SnsRefusal.NOT_ADVERTISED)
    choice = chooser.choose(NOW, record, [FOUR])
    assert choice.unserved[FOUR] == Unserved(
        SnsRefusal.NOT_ADVERTISED, f"refused by {TWO}, {THREE}", NOW + 0.2
    )
    chooser.block(NOW, record, FOUR, THREE, SnsRefusal.POLICY)
    assert chooser.choose(NOW, record, [FOUR]).unserved[FOUR].code is SnsRefusal.POLICY


def test_a_place_at_the_peer_that_refused_is_not_kept(chooser: Chooser) -> None:
    record = transit()
    record.home[FOUR] = 1
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.NOT_ADVERTISED)
    choice = chooser.choose(NOW, record, [FOUR])
    assert choice == Choice(
        {}, {}, {FOUR: Unserved(SnsRefusal.NOT_ADVERTISED, f"refused by {TWO}", NOW + 0.2)}
    )


def test_refusals_are_forgotten_when_the_route_changes(host: Host, chooser: Chooser) -> None:
    record = feed()
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.POLICY)
    host.hop[FOUR] = THREE
    assert chooser.choose(NOW, record, [FOUR]).homes == {FOUR: 2}
    assert record.blocks == {}
    host.hop[FOUR] = TWO
    assert chooser.choose(NOW, record, [FOUR]).homes == {FOUR: 1}


def test_a_host_whose_detour_is_none(
    host: Host, chooser: Chooser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "detour", lambda *_, **__: TWO)
    record = feed()
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.TOO_MANY_SETS)
    assert chooser.choose(NOW, record, [FOUR]).unserved[FOUR].reason == f"refused by {TWO}"


def test_each_refusal_waits_longer() -> None:
    chooser, record = Chooser(Host(), SETTINGS), feed()
    waits = []
    for _ in range(20):
        chooser.block(NOW, record, FOUR, TWO, SnsRefusal.NOT_ADVERTISED)
        waits.append(record.blocks[FOUR][TWO].until - NOW)
    assert waits[:4] == pytest.approx([0.4, 0.8, 1.6, 3.2])
    assert waits[-1] == 30.0
    chooser.block(NOW, record, FOUR, THREE, SnsRefusal.TOO_MANY_SETS)
    assert record.blocks[FOUR][THREE] == Block(SnsRefusal.TOO_MANY_SETS, 1, NOW + 30, True, 1)


def test_trying_again(chooser: Chooser) -> None:
    record = feed()
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.NOT_ADVERTISED)
    assert chooser.expire(NOW + 0.3, record) == []
    assert chooser.expire(NOW + 0.4, record) == [FOUR]
    assert chooser.expire(NOW + 0.5, record) == []
    assert chooser.choose(NOW, record, [FOUR]).homes == {FOUR: 1}
    # The count goes on if it is refused again.
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.NOT_ADVERTISED)
    assert record.blocks[FOUR][TWO].tries == 2


def test_policy_is_tried_again_only_if_there_is_nothing_to_lose(chooser: Chooser) -> None:
    record = feed()
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.POLICY)
    record.home[FOUR] = 2
    assert chooser.expire(NOW + 30, record) == []
    assert record.blocks[FOUR][TWO] == Block(SnsRefusal.POLICY, 1, NOW + 60, True, 1)
    del record.home[FOUR]
    assert chooser.expire(NOW + 60, record) == [FOUR]


def test_a_peer_that_had_lost_a_target_is_tried_when_it_has_another_way(
    host: Host, chooser: Chooser
) -> None:
    record = feed()
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.NOT_ADVERTISED)
    chooser.block(NOW, record, FOUR, THREE, SnsRefusal.POLICY)
    host.lengths = {TWO: 1, THREE: 9}
    chooser.unblock(record, FOUR)
    assert record.avoided(FOUR) == {TWO, THREE}  # figures alone are no news
    host.lengths = {TWO: 2, THREE: 9}
    chooser.unblock(record, FOUR)
    assert record.avoided(FOUR) == {THREE}
    chooser.unblock(record, TWO)
    assert chooser.choose(NOW, record, [FOUR]).homes == {FOUR: 1}


# In between


def passing(chooser: Chooser) -> IngressRecord:
    """A set of a peer whose target goes to 2."""
    record = IngressRecord(Ingress(9, 1), None, 1, "", NodeId(8))
    record.home = chooser.choose(NOW, record, [FOUR]).homes
    assert record.home == {FOUR: 1}
    return record


def test_a_relay_in_between_does_not_look_for_another_way(host: Host, chooser: Chooser) -> None:
    record = passing(chooser)
    host.hop[FOUR] = THREE
    host.lengths = {THREE: 1}  # 2 has withdrawn it, and 3 has not heard of that
    refusal = Unserved(SnsRefusal.NOT_ADVERTISED, f"the way to {FOUR} through {TWO} is lost", NOW)
    assert chooser.choose(NOW, record, [FOUR]) == Choice({FOUR: 1}, {}, {FOUR: refusal})
    host.lengths = {TWO: 1, THREE: 1}
    del record.home[FOUR]  # the session ended, but not all with that peer
    assert chooser.choose(NOW, record, [FOUR]) == Choice({}, {}, {FOUR: refusal})
    host.hop[FOUR] = TWO
    assert chooser.choose(NOW, record, [FOUR]).homes == {FOUR: 1}


@pytest.mark.parametrize("hop", [TWO, THREE])
def test_a_relay_in_between_passes_the_news_of_a_loss_on(
    host: Host, chooser: Chooser, hop: NodeId
) -> None:
    record = passing(chooser)
    host.hop[FOUR] = hop
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.TOO_MANY_HOPS)
    refusal = Unserved(SnsRefusal.NOT_ADVERTISED, f"refused by {TWO}", NOW)
    assert chooser.choose(NOW, record, [FOUR]) == Choice({}, {}, {FOUR: refusal})


def test_a_relay_in_between_finds_a_way_around_policy(host: Host, chooser: Chooser) -> None:
    record = passing(chooser)
    chooser.block(NOW, record, FOUR, TWO, SnsRefusal.POLICY)
    assert chooser.choose(NOW, record, [FOUR]).homes == {FOUR: 2}


def test_a_way_that_is_lost_where_policy_forbids_all_others_may_come_back(
    host: Host, chooser: Chooser
) -> None:
    """The node behind it starts again, say: for a moment there are forbidden ways only."""
    record = passing(chooser)
    del record.home[FOUR]
    host.policy.add(FOUR)
    later = Unserved(SnsRefusal.POLICY, "policy", NOW + 0.2)
    assert chooser.choose(NOW, record, [FOUR]) == Choice({}, {}, {FOUR: later})
    host.policy.clear()
    assert chooser.choose(NOW + 0.1, record, [FOUR]) == Choice({FOUR: 1}, {1: TWO}, {})


def test_what_a_peer_refused_for_policy_is_passed_on_at_once(host: Host, chooser: Chooser) -> None:
    record = passing(chooser)
    for peer in (TWO, THREE):
        chooser.block(NOW, record, FOUR, peer, SnsRefusal.POLICY)
    refused = Unserved(SnsRefusal.POLICY, f"refused by {TWO}, {THREE}", NOW)
    assert chooser.choose(NOW, record, [FOUR]) == Choice({}, {}, {FOUR: refused})


def test_a_better_way_that_is_no_longer_is_taken_at_once(host: Host, chooser: Chooser) -> None:
    record = passing(chooser)
    host.hop[FOUR] = THREE
    host.lengths = {TWO: 7, THREE: 1}  # 2 still has it, if only in a roundabout way
    assert chooser.choose(NOW, record, [FOUR]).homes == {FOUR: 2}
    assert record.next_due() is None


def test_a_longer_way_is_taken_when_the_old_one_has_held(host: Host, chooser: Chooser) -> None:
    record = passing(chooser)
    host.hop[FOUR] = THREE
    host.lengths = {TWO: 2, THREE: 2}
    for later in (0.0, 0.5):
        assert chooser.choose(NOW + later, record, [FOUR]).homes == {FOUR: 1}
        assert record.next_due() == NOW + 1.0
    assert chooser.expire(NOW + 0.9, record) == []
    assert chooser.expire(NOW + 1.0, record) == [FOUR]
    assert chooser.choose(NOW + 1.0, record, [FOUR]).homes == {FOUR: 2}
    assert record.taken[FOUR] == (THREE, 2)
    host.hop[FOUR] = TWO
    host.lengths = {TWO: 3, THREE: 2}
    assert chooser.choose(NOW + 1.5, record, [FOUR]).homes == {FOUR: 2}
    host.hop[FOUR] = THREE  # it is the best again: nobody waits any more
    assert chooser.choose(NOW + 1.6, record, [FOUR]).homes == {FOUR: 2}
    assert record.next_due() is None


def test_a_longer_way_is_taken_at_once_if_a_relay_drains_on_the_old_one(
    host: Host, chooser: Chooser
) -> None:
    record = passing(chooser)
    host.hop[FOUR] = THREE
    host.lengths = {TWO: 2, THREE: 2}
    host.leaving.add(THREE)  # not on the way that it has
    assert chooser.choose(NOW, record, [FOUR]).homes == {FOUR: 1}
    assert record.next_due() == NOW + 1.0
    host.leaving = {TWO}
    assert chooser.choose(NOW + 0.1, record, [FOUR]).homes == {FOUR: 2}
    assert record.next_due() is None
    assert record.taken[FOUR] == (THREE, 2)


def test_where_streams_may_go_on(host: Host, chooser: Chooser) -> None:
    record = feed()
    way = chooser.relays(FOUR, 1)
    assert way == (TWO, FOUR)
    assert chooser.may_stay(record.scope, way)
    assert not chooser.may_stay(record.scope, ())  # nobody knows where they go
    host.forbidden.add((TWO, FOUR))
    assert not chooser.may_stay(record.scope, way)
    assert chooser.may_stay(record.scope, chooser.relays(FOUR, 2))
