"""What a relay says of itself: stamps grow, and only news is said."""

from __future__ import annotations

from laps_relay.network.nodes.light_time import ESTIMATED
from laps_relay.network.nodes.own_node import OwnNode
from laps_sdk.peering.settings import Identity
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Label,
    Load,
    LoadClass,
    Location,
    NodeInfo,
    NodeSelf,
    NodeSignature,
    Reachable,
    RelayType,
    Stamp,
)

IDENTITY = Identity(
    node_id=NodeId(5), epoch=7, contacts=("a:1",), region="eu", longitude=8.0, latitude=50.0
)


def test_it_says_who_it_is() -> None:
    own = OwnNode(IDENTITY, RelayType.EDGE)
    node = own.info.node
    assert (node.node_id, node.relay_type, node.region) == (NodeId(5), RelayType.EDGE, "eu")
    assert node.location == Location(8.0, 50.0)
    assert node.stamp == Stamp(7, 1)
    assert own.info.path == ()
    assert own.node_id == NodeId(5)
    assert OwnNode(Identity(node_id=NodeId(5), epoch=1), RelayType.VIA).info.node.location is None


def test_all_that_it_originates_has_stamps_of_one_series() -> None:
    own = OwnNode(IDENTITY, RelayType.EDGE)
    assert [own.stamp(), own.stamp()] == [Stamp(7, 2), Stamp(7, 3)]
    assert own.set_load(Load(LoadClass.BUSY, 800))
    assert own.info.node.stamp == Stamp(7, 4)


def test_only_news_is_said() -> None:
    own = OwnNode(IDENTITY, RelayType.EDGE)
    assert not own.set_load(Load())
    assert not own.set_contacts(("a:1",))
    assert own.set_contacts(("b:2",))
    assert own.info.node.contacts == ("b:2",)
    before = own.info.node.labels
    assert not own.set_label("client", "")
    assert own.set_label("client", "moqt://a:1")
    assert not own.set_label("client", "moqt://a:1")
    assert own.set_label("client", "moqt://b:1")
    assert own.info.node.labels == (*before, Label("client", "moqt://b:1"))
    assert own.set_label("client", "")
    assert own.info.node.labels == before


def test_where_it_seems_to_stand_is_said_if_nobody_told_it() -> None:
    assert not OwnNode(IDENTITY, RelayType.EDGE).set_estimate(Location(13.4, 52.5))
    labels = (("rack", "4"), ("location", "the cellar"))
    own = OwnNode(Identity(node_id=NodeId(5), epoch=7, labels=labels), RelayType.EDGE)
    assert own.set_estimate(Location(13.4, 52.5))
    node = own.info.node
    assert (node.location, node.stamp) == (Location(13.4, 52.5), Stamp(7, 2))
    assert node.labels == (Label("rack", "4"), ESTIMATED)
    # A hundred kilometres are nothing.
    assert not own.set_estimate(Location(12.4, 51.7))
    assert own.info.node is node
    assert own.set_estimate(Location(2.35, 48.85))
    assert own.info.node.labels == node.labels


def test_round_trip_times_are_news_when_they_changed_much_or_somebody_came() -> None:
    own = OwnNode(IDENTITY, RelayType.EDGE)
    first = Reachable(NodeId(9), 50_000)
    assert own.set_reachable((first,))
    assert not own.set_reachable((first,))
    assert not own.set_reachable((Reachable(NodeId(9), 54_000),))
    assert own.set_reachable((Reachable(NodeId(9), 56_000),))
    assert not own.set_reachable((Reachable(NodeId(9), 54_500),))
    assert own.set_reachable((first, Reachable(NodeId(10), 1)))
    assert own.set_reachable(())


def test_what_it_says_is_signed() -> None:
    def sign(node: NodeSelf) -> NodeInfo:
        return NodeInfo(node, NodeSignature(2, bytes(32), bytes([node.stamp.sequence])))

    own = OwnNode(IDENTITY, RelayType.EDGE, sign)
    assert own.info.signature.signature == b"\x01"
    own.set_load(Load(LoadClass.BUSY, 1))
    assert own.info.signature.signature == b"\x02"
