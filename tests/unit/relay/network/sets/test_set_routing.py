"""What sets ask of the relay around them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.events import SetChanged, SetGone
from laps_relay.network.sets.set_records import Unserved
from laps_relay.network.sets.set_routing import SetLog
from laps_relay.network.steering.steering import Assignment
from laps_relay.policy.open_policy import OpenPolicy
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
