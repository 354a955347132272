from __future__ import annotations

import pytest

from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.shapes import SHAPES, generate, with_control_servers
from laps_relay.sim.scenarios.topology import Topology, TopologyError, light_delay
from laps_wire.peering.laps2 import RelayType


def connected(topology: Topology) -> bool:
    near: dict[str, set[str]] = {relay.name: set() for relay in topology.relays}
    for link in topology.links:
        near[link.a].add(link.b)
        near[link.b].add(link.a)
    seen, todo = {topology.relays[0].name}, [topology.relays[0].name]
    while todo:
        for other in near[todo.pop()] - seen:
            seen.add(other)
            todo.append(other)
    return len(seen) == len(near)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [3, 12, 24])
def test_every_shape_is_connected_and_has_edges(shape: str, size: int) -> None:
    for seed in range(5):
        topology = generate(shape, size, Rng(seed))
        assert len(topology.relays) == size
        assert connected(topology), (shape, seed)
        edges = [relay for relay in topology.relays if relay.relay_type is RelayType.EDGE]
        assert len(edges) >= 2
        pairs = [frozenset((link.a, link.b)) for link in topology.links]
        assert len(set(pairs)) == len(pairs)
        assert topology == generate(shape, size, Rng(seed))


def test_a_ring_is_a_ring() -> None:
    topology = generate("ring", 5, Rng(1))
    assert len(topology.links) == 5


def test_regions_are_where_they_are() -> None:
    topology = generate("regions", 24, Rng(3))
    places = {relay.name: relay.location for relay in topology.relays}
    for link in topology.links:
        one, other = places[link.a], places[link.b]
        assert one is not None
        assert other is not None
        # The core does not believe in what is faster than light.
        assert link.delay >= light_delay(one, other)
    assert len({relay.region for relay in topology.relays}) >= 2


@pytest.mark.parametrize("shape", ["regions", "ring"])
def test_control_servers_are_no_faster_than_light_either(shape: str) -> None:
    """Two relays hear of each other through each of them, and must believe it."""
    topology = with_control_servers(generate(shape, 13, Rng(3)), 3)
    assert [relay.name for relay in topology.relays[13:]] == ["c1", "c2", "c3"]
    places = {relay.name: relay.location for relay in topology.relays}
    links = [link for link in topology.links if link.b.startswith("c")]
    edges = [relay for relay in topology.relays if relay.relay_type is RelayType.EDGE]
    assert len(links) == 3 * len(edges)
    for link in links:
        one, other = places[link.a], places[link.b]
        if one is None or other is None:
            assert (one, other, link.delay) == (None, None, 0.01)
        else:
            assert link.delay >= light_delay(one, other)


def test_what_cannot_be_made_is_said() -> None:
    with pytest.raises(TopologyError, match="no shape"):
        generate("star", 5, Rng(1))
    with pytest.raises(TopologyError, match="more than 16 relays"):
        generate("ring", 40, Rng(1))
