"""The borders inside the network hold: who stands on either side has the shape that is expected."""

from __future__ import annotations

import pytest

from laps_relay.network.interfaces import Candidate, LocalSide, NetworkSettings, NodeLookup, Policy
from laps_relay.network.nodes.nib import Nib
from laps_relay.policy import OpenPolicy, RulePolicy
from laps_relay.upstream.network import NetworkBridge
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodePathItem, NodeSelf, RelayType, Stamp

# For the type checker: these lines fail if one side of a border moves alone.
LOOKUP: type[NodeLookup] = Nib
LOCAL_SIDE: type[LocalSide] = NetworkBridge
OPEN: type[Policy] = OpenPolicy
RULES: type[Policy] = RulePolicy


@pytest.mark.parametrize(
    ("border", "made"),
    [
        (NodeLookup, Nib),
        (LocalSide, NetworkBridge),
        (Policy, OpenPolicy),
        (Policy, RulePolicy),
    ],
)
def test_every_method_of_a_border_is_there(border: type, made: type) -> None:
    wanted = [name for name in vars(border) if not name.startswith("_")]
    assert wanted
    assert [name for name in wanted if not hasattr(made, name)] == []


def test_a_way_counts_its_relays_and_its_cost() -> None:
    near, far = NodeId(2), NodeId(3)
    info = NodeInfo(
        NodeSelf(far, RelayType.EDGE, Stamp(1, 1)),
        path=(NodePathItem(NodeId(4), 100), NodePathItem(near, 20)),
    )
    way = Candidate(far, near, info, 7, forwards=True)
    assert (way.hops, way.cost_us) == (2, 127)
    # The last of a path is the next hop: data passes it first.
    assert way.relays == (near, NodeId(4), far)


def test_a_neighbour_is_its_own_next_hop() -> None:
    info = NodeInfo(NodeSelf(NodeId(2), RelayType.VIA, Stamp(1, 1)))
    way = Candidate(NodeId(2), NodeId(2), info, 7, forwards=True)
    assert (way.hops, way.cost_us, way.relays) == (0, 7, (NodeId(2),))


def test_a_relay_is_an_edge_if_nobody_says_otherwise() -> None:
    assert NetworkSettings().relay_type is RelayType.EDGE
