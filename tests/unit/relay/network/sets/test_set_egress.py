"""Our own sets on all sessions."""

from __future__ import annotations

from typing import cast

from laps_relay.network.sets.set_egress import EgressSets
from laps_relay.network.sets.set_records import IngressRecord, OutSet, SetsCounters
from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import StreamCode
from testkit.set_world import SetRelay, SetWorld


def ids(*numbers: int) -> frozenset[NodeId]:
    return frozenset(NodeId(number) for number in numbers)


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


def test_withdrawing_on_a_session_that_is_about_to_end() -> None:
    egress, relay, record = parts()
    item = made(egress, record, 1, 2)
    del relay.world.links[1]
    egress.withdraw(1.0, item)
    assert len(egress) == 0
