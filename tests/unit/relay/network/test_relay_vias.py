"""Vias that are on no best path, other rankings of paths, and plans."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from laps_relay.network.nodes.node_table import ORDERS
from laps_relay.network.settings import NO_PLAN, Plan
from laps_relay.network.steering import PeeringDemand
from laps_relay.policy import OPEN_POLICY, OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.reports import Dialled
from laps_sdk.upstream.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Load,
    LoadClass,
    NodeSelf,
    RelayType,
    SubscribeCode,
)
from testkit.relay_net import TRACK, RelayNet, key_of

VIA = RelayType.VIA
ACCEPTED = (Answer.ACCEPTED, SubscribeCode.ACCEPTED)


# Vias, which are not the best way to anybody


def across(*, dynamic_peering: bool = True) -> RelayNet:
    """Edge 1 in the us and a publisher, Edges 2, 3, 4 in the eu, each its peer; Via 5 in the eu."""
    net = RelayNet()
    net.add(1, region="us", via_hold=2.0, dynamic_peering=dynamic_peering)
    net.add(5, VIA, region="eu", dynamic_peering=False)
    for number in (2, 3, 4):
        net.add(number, region="eu", dynamic_peering=False)
        net.join(1, number)
        net.join(number, 5)
    return net


def crowded(*, dynamic_peering: bool = True) -> RelayNet:
    """The same with the Via as a peer, which is used."""
    net = across(dynamic_peering=dynamic_peering)
    net.join(1, 5)
    net.run(2)
    net.publish(1)
    for number in (2, 3, 4):
        net.subscribe(number)
    net.run(1)
    assert hops_of(net) == [2, 3, 4]
    net.run(4)
    assert hops_of(net) == [5]
    return net


def hops_of(net: RelayNet, number: int = 1) -> list[int]:
    """Where new streams of a relay go."""
    rows = net.relays[number].tables.sets()
    return sorted(
        net.ends[number, row.session].other.owner
        for row in rows
        if not row.incoming and not row.retiring
    )


def test_a_via_that_drains_is_left_before_it_goes() -> None:
    net = crowded(dynamic_peering=False)
    before = net.begin(1, b"be")
    net.run(0.1)
    net.relays[5].drain(net.now, 10.0, "maintenance")
    net.run(1)
    assert hops_of(net) == [2, 3, 4]
    during = net.begin(1, b"dur")
    net.run(5)
    before.write(b"fore", fin=True)
    net.run(6)
    during.write(b"ing", fin=True)
    net.run(1)
    assert net.got(2, 3, 4) == [[b"before", b"during"]] * 3
    assert 5 not in [row.node for row in net.relays[1].tables.peers()]


def test_an_overloaded_via_is_left() -> None:
    net = crowded()
    net.relays[5].set_load(net.now, Load(LoadClass.OVERLOADED, 990))
    net.run(1)
    assert hops_of(net) == [5]
    net.run(2)
    assert hops_of(net) == [2, 3, 4]
    net.relays[5].set_load(net.now, Load(LoadClass.NORMAL, 100))
    net.run(3)
    assert hops_of(net) == [5]
    net.send(1, b"object")
    net.run()
    assert net.got(2, 3, 4) == [[b"object"]] * 3


def test_a_via_that_was_dialled_on_demand_is_used_and_kept() -> None:
    net = across()
    net.run(12)
    net.told(1, Dialled)
    net.publish(1)
    for number in (2, 3, 4):
        net.subscribe(number)
    net.run(3)
    assert hops_of(net) == [5]
    net.run(100)
    assert hops_of(net) == [5]
    assert [event.node for event in net.told(1, Dialled)] == [5]
    net.send(1, b"object")
    net.run()
    assert net.got(2, 3, 4) == [[b"object"]] * 3


def test_an_origin_that_becomes_overloaded_asks_for_a_via() -> None:
    net = crowded()
    net.unsubscribe(4)
    net.run(10)
    assert hops_of(net) == [2, 3]
    net.relays[1].set_load(net.now, Load(LoadClass.OVERLOADED, 990))
    net.run(3)
    assert hops_of(net) == [5]


def test_transit_by_another_way_than_the_best_leaves_who_drains() -> None:
    """1 - 2 - {3, 4, 5} - 6: policy at 2 forbids 3 for the class, so 4 is used, then 5."""

    class Gold(OpenPolicy):
        def scope(self, name: FullTrackName) -> str:
            return "gold"

    class NotThree(OpenPolicy):
        def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
            shut = scope == "gold" and any(node.node_id == 3 for node in nodes[1:-1])
            return Refusal("rule", "not there") if shut else None

    net = RelayNet()
    net.add(1, policy=Gold(), dynamic_peering=False)
    net.add(2, VIA, policy=NotThree(), dynamic_peering=False)
    net.add(6, dynamic_peering=False)
    net.join(1, 2)
    for number in (3, 4, 5):
        net.add(number, VIA, dynamic_peering=False)
        net.join(2, number)
        net.join(number, 6)
    net.run(2)
    assert net.way(2, 6) == (3, 6)
    net.publish(1)
    net.subscribe(6)
    net.run(2)
    assert hops_of(net, 2) == [4]
    before = net.begin(1, b"be")
    net.run(0.1)
    net.relays[4].drain(net.now, 5.0, "maintenance")
    net.run(1)
    assert hops_of(net, 2) == [5]
    during = net.begin(1, b"dur")
    net.run(1)
    before.write(b"fore", fin=True)
    net.run(6)
    during.write(b"ing", fin=True)
    net.run(1)
    assert net.got(6) == [[b"before", b"during"]]


def test_wishes_are_looked_for_only_when_something_has_changed() -> None:
    net = crowded()
    steering = net.relays[1].steering
    assert not steering.demand_due(net.now)
    net.publish(2, FullTrackName.parse("example-room--other"))
    net.run()
    asked: list[float] = []
    look = PeeringDemand.nodes

    def counted(book: PeeringDemand, now: float) -> list[NodeId]:
        asked.append(now)
        return look(book, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PeeringDemand, "nodes", counted)
        net.publish(2, FullTrackName.parse("example-room--another"))
        net.run()
        assert asked == []
        net.relays[5].set_own_label(net.now, "x", "y")
        net.run(0.5)
        assert asked
    assert hops_of(net) == [5]


# What others decide


def test_another_order_of_ways() -> None:
    """By time alone the slow link is not taken, though it is one hop."""
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, order=ORDERS["delay"])
    net.join(1, 2)
    net.join(2, 3)
    net.join(1, 3, delay=0.5)
    net.run(5)
    assert (net.way(1, 3), net.way(3, 1)) == ((2, 3), (2, 1))
    net.publish(1)
    net.subscribe(3)
    net.run(3)
    net.send(1, b"object")
    net.run(0.1)
    assert net.got(3) == [[b"object"]]


def test_a_plan_is_followed_from_when_it_comes_and_never_against_policy() -> None:
    class NotSix(OpenPolicy):
        def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
            shut = any(node.node_id == 6 for node in nodes[1:-1])
            return Refusal("rule", "not there") if shut else None

    net = crowded(dynamic_peering=False)
    net.add(6, VIA, region="eu", dynamic_peering=False)
    for number in (1, 2, 3, 4):
        net.join(number, 6)
    net.run(5)
    assert hops_of(net) == [5]
    origin = net.relays[1]
    origin.set_plan(net.now, Plan(classes={("", "eu"): NodeId(6)}))
    net.run(1)
    assert hops_of(net) == [5]
    net.run(2)
    assert hops_of(net) == [6]
    origin.set_policy(net.now, NotSix())
    assert 6 not in hops_of(net)
    net.run(3)
    assert hops_of(net) == [5]
    origin.set_policy(net.now, OPEN_POLICY)
    net.run(3)
    assert hops_of(net) == [6]
    origin.set_plan(net.now, Plan(tracks={(key_of(TRACK), "eu"): NodeId(5)}))
    net.run(3)
    assert hops_of(net) == [5]
    origin.set_plan(net.now, NO_PLAN)
    net.run(3)
    assert hops_of(net) == [5], "what is in use stays, unless another is clearly better"
    net.send(1, b"object")
    net.run()
    assert net.got(2, 3, 4) == [[b"object"]] * 3
