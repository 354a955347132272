from __future__ import annotations

import sys
from pathlib import Path

import pytest

from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.topology import (
    SHAPES,
    LinkSpec,
    RelaySpec,
    Topology,
    TopologyError,
    backbone,
    generate,
    light_delay,
    read_topology,
    with_control_servers,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

GOOD = """
[[relay]]
name = "sea"
region = "us"
location = [-122.3, 47.6]

[[relay]]
name = "lon"
type = "via"
location = [-0.1, 51.5]
node_id = "100.2:9"

[[link]]
a = "sea"
b = "lon"

[[link]]
a = "lon"
b = "sea"
delay_ms = 40
jitter_ms = 2
loss = 0.01
bandwidth_kbps = 1000
bandwidth_back_kbps = 200
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(GOOD, encoding="utf-8")
    topology = read_topology(file)
    assert topology.name == "net.toml"
    sea, lon = topology.relays
    assert (sea.relay_type, sea.region, sea.node_id) == (RelayType.EDGE, "us", NodeId(1))
    assert (lon.relay_type, str(lon.node_id)) == (RelayType.VIA, "100.2:0.9")
    assert topology.relay("lon") is lon
    light, given = topology.links
    assert 0.04 < light.delay < 0.06  # 7 700 km of cable with a detour
    assert given == LinkSpec(
        a="lon",
        b="sea",
        delay=0.04,
        jitter=0.002,
        loss=0.01,
        bandwidth=125_000,
        bandwidth_back=25_000,
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no [[relay]]"),
        ("nonsense", "not TOML"),
        ("[[relay]]\nnmae = 'a'", "unknown key 'nmae'"),
        ("[[relay]]\ntype = 'stub'", "type 'stub' is none of edge, via, control"),
        ("[[relay]]\nlocation = 3", "location is [longitude, latitude]"),
        ("[[relay]]\n[[link]]\na = 'r1'", "has no b"),
        ("[[relay]]\n[[link]]\na = 'r1'\nb = 'r9'\ndelay_ms = 1", "names 'r9', which is no relay"),
        ("[[relay]]\n[[relay]]\n[[link]]\na = 'r1'\nb = 'r2'", "give delay_ms, or two locations"),
        ("[[relay]]\n[[link]]\na = 'r1'\nb = 'r1'\ndelay_ms = 1", "has a link with itself"),
        ("[[relay]]\nname = 'a'\n[[relay]]\nname = 'a'", "the same name"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "net.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TopologyError) as caught:
        read_topology(file)
    assert problem in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="cannot be read"):
        read_topology(tmp_path / "none.toml")


def test_a_node_id_belongs_to_one_relay() -> None:
    twins = tuple(RelaySpec(name=name, node_id=NodeId(1)) for name in "ab")
    with pytest.raises(TopologyError, match="same node ID"):
        Topology(name="twins", relays=twins, links=())


def test_light_takes_its_time() -> None:
    here = (13.4, 52.5)
    assert light_delay(here, here) == pytest.approx(0.0005)
    # Berlin to Sydney: 16 000 km
    assert 0.09 < light_delay(here, (151.2, -33.9)) < 0.1
    assert light_delay(here, (151.2, -33.9)) == light_delay((151.2, -33.9), here)


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


def test_real_backbones_are_there() -> None:
    pytest.importorskip("topohub")
    abilene = backbone("topozoo/Abilene")
    assert (len(abilene.relays), len(abilene.links)) == (11, 14)
    assert all(0.0005 <= link.delay < 0.03 for link in abilene.links)
    germany = backbone("sndlib/germany50")
    assert (len(germany.relays), len(germany.links)) == (50, 88)
    assert len({relay.relay_type for relay in germany.relays}) == 2
    # Maps in several pieces: the largest is used, and its links are all inside it.
    europe = backbone("backbone/europe")
    names = {relay.name for relay in europe.relays}
    assert all(link.a in names and link.b in names for link in europe.links)


def test_an_unknown_one_is_said() -> None:
    pytest.importorskip("topohub")
    with pytest.raises(TopologyError, match="topohub has no 'topozoo/Nowhere'"):
        backbone("topozoo/Nowhere")


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "topohub", None)
    with pytest.raises(TopologyError, match=r"laps-relay\[sim\]"):
        backbone("topozoo/Abilene")
