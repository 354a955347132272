"""What goes to whom."""

from __future__ import annotations

from laps_relay.network.events import SubscribeRefused
from laps_relay.policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.upstream.interfaces import Answer
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    NodeSelf,
    RelayType,
    SubscribeCode,
    SubscribeInfo,
)
from testkit.relay_net import OTHER, RelayNet
from testkit.relay_shapes import square

CONTROL = RelayType.CONTROL
A = NodeId(1)


class Secretive(OpenPolicy):
    """Some peers hear of nothing."""

    __slots__ = ("peers",)

    def __init__(self, *peers: int) -> None:
        self.peers = peers

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("export", "no") if peer.node_id in self.peers else None

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("export", "no") if peer.node_id in self.peers else None


def test_what_policy_lets_out() -> None:
    net = RelayNet()
    net.add(1, policy=Secretive(3))
    net.add(2)
    net.add(3)
    net.join(1, 2)
    net.join(1, 3)
    net.publish(1)
    net.publish(2)
    net.subscribe(1)
    net.run()
    assert [row.source for row in net.relays[2].tables.announce_rows()] == [2, 1]
    assert [row.source for row in net.relays[2].tables.subscribe_rows()] == [1]
    assert net.relays[3].tables.announce_rows() == []
    assert net.relays[3].tables.subscribe_rows() == []
    # Another policy: what was kept back is told, and taken back again.
    net.relays[1].set_policy(net.now, OpenPolicy())
    net.run()
    assert [row.source for row in net.relays[3].tables.announce_rows()] == [1, 2]
    net.relays[1].set_policy(net.now, Secretive(3))
    net.run(8)
    assert net.relays[3].tables.announce_rows() == []


def test_an_export_to_a_session_that_is_not_there() -> None:
    net = square()
    relay = net.relays[1]
    net.publish(1)
    net.subscribe(1, OTHER)
    (announce,) = relay.announces.live()
    (subscribe,) = relay.subscribes.live()
    assert not relay.exports.announce(99, announce)
    assert not relay.exports.subscribe(99, subscribe)
    assert relay.exports.announce(net.session(1, 2), announce)


def test_a_control_server_has_rules_of_its_own_even_when_it_is_empty() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.add(9, CONTROL)
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.publish(1)
    net.run(2)
    # Namespaces are for everybody to discover; tracks are too many.
    assert [row.source for row in net.relays[9].tables.announce_rows()] == [A]
    assert net.relays[2].tables.announce_rows() == []


def test_a_control_server_says_what_it_keeps_from_who_announced_it() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.add(9, CONTROL, policy=Secretive(1))
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.publish(1)
    net.publish(2)  # who asks has announced it, too: it does not serve itself
    net.run(2)
    net.subscribe(2)
    net.run(3)
    server = net.relays[9]
    (subscribe,) = server.subscribes.live()
    assert [event.reason for event in net.told(9, SubscribeRefused)] == ["no"]
    assert (Answer.REFUSED, SubscribeCode.POLICY) in net.answers(2)
    assert net.relays[1].subscribes.get(subscribe.identity) is None
