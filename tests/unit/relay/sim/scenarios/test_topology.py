from __future__ import annotations

from pathlib import Path

import pytest

from laps_relay.sim.scenarios.topology import (
    LinkSpec,
    RelaySpec,
    Topology,
    TopologyError,
    light_delay,
    read_topology,
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
