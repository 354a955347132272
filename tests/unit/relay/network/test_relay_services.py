"""What the rooms use of the relay around them."""

from __future__ import annotations

from typing import cast

import pytest

from laps_relay.network.events import SubscribeRefused
from laps_relay.peer_forwarding.feed import PlaneFeed
from laps_relay.policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.upstream.interfaces import Feed
from laps_wire.moqt.control import encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceKind,
    NodeSelf,
    SubscribeData,
)
from testkit.relay_ends import Clients
from testkit.relay_net import OTHER, TRACK, RelayNet, key_of
from testkit.relay_shapes import square

A, B, D = (NodeId(number) for number in (1, 2, 4))


# Feeds


def test_something_else_of_a_track_reaches_the_publisher_in_the_same_feed() -> None:
    net = square()
    net.publish(1)
    net.run()
    net.subscribe(4)
    net.run()
    feed = net.feed(1)
    pulls: list[tuple[SubscribeData, bool]] = []
    clients = net.clients[1]

    def serve_track(
        self: Clients, now: float, key: int, name: FullTrackName, data: SubscribeData, to: Feed
    ) -> None:
        pulls.append((data, to is feed))

    message = Subscribe(0, TRACK, Parameters(new_group_request=7))
    data = SubscribeData(Draft.D18, encode_subscribe_body(message, Draft.D18))
    stream = net.begin(1, b"one ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(clients), "serve_track", serve_track)
        net.relays[4].subscribe(net.now, TRACK, data)
        net.run()
    assert pulls == [(data, True)]
    stream.write(b"stream", fin=True)
    net.run()
    assert net.got(4) == [[b"one stream"]]


def test_a_publisher_that_comes_back_has_another_feed_and_nothing_is_left_of_the_first() -> None:
    net = square()
    net.publish(1)
    net.run()
    net.subscribe(4)
    net.run()
    relay, first = net.relays[1], net.feed(1)
    # It ends, and is asked for again before anything else happens.
    relay.subscriptions.origin.publisher_ended(net.now, key_of(TRACK), "a pause")
    relay.subscriptions.set_policy(net.now, relay.policy)
    net.run()
    second = cast("PlaneFeed", net.feed(1))
    assert second is not first
    assert [row.ingress for row in relay.sets.rows()] == [second.ingress]
    net.send(1, b"object")
    net.run()
    assert net.got(4) == [[b"object"]]
    net.unsubscribe(4)
    net.run(10)
    relay.withdraw(net.now, AnnounceKind.TRACK, TRACK)
    net.run()
    assert net.at_rest() == []


# Interests


def test_what_nodes_say_of_themselves() -> None:
    net = square()
    relay = net.relays[1]
    own, other = relay.node(A), relay.node(D)
    assert own is not None
    assert other is not None
    assert (own.node_id, other.node_id, relay.node(NodeId(77))) == (A, D, None)
    assert relay.policy is net.relays[2].policy
    assert relay.own.stamp() < relay.own.stamp()


def test_without_clients_nothing_is_answered_and_nothing_breaks() -> None:
    net = square()
    via = net.relays[2]
    via.announce(net.now, AnnounceKind.TRACK, TRACK)
    via.subscribe(net.now, OTHER)
    net.publish(1, OTHER)
    net.subscribe(4)
    net.run(2)
    assert {row.source for row in net.relays[4].tables.announce_rows()} == {A, B}
    assert [row.key for row in via.tables.sets() if not row.incoming] == [key_of(TRACK)]
    via.unsubscribe(net.now, OTHER)
    net.unsubscribe(4)
    net.relays[1].withdraw(net.now, AnnounceKind.TRACK, OTHER)
    net.run(10)
    assert via.tables.sets() == []
    assert net.relays[1].tables.sets() == []


class Narrow(OpenPolicy):
    """Our clients may not have one of the tracks."""

    __slots__ = ()

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        return Refusal("tracks", "not here") if name == OTHER else None


def test_what_our_own_policy_denies_to_our_clients_is_logged() -> None:
    net = RelayNet()
    net.add(1, policy=Narrow())
    net.subscribe(1, OTHER)
    net.run(0.1)
    (event,) = net.told(1, SubscribeRefused)
    assert (event.source, event.reason) == (A, "not here")
