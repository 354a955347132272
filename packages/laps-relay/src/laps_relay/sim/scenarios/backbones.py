"""Real backbones: the topologies of the PyPI package ``topohub``.

The package is optional: ``pip install -e "packages/laps-relay[sim]"``. A name is a key of its
repository, such as ``topozoo/Abilene``, ``sndlib/germany50`` or ``backbone/europe``. Cities become
Edges. Cities with many links forward too, as any relay does, and every fourth of them is a pure
Via. Delays follow from the length of the cables.
"""

from __future__ import annotations

import importlib.resources
import json
from typing import Any, Final

from laps_relay.sim.scenarios.topology import (
    LinkSpec,
    RelaySpec,
    Topology,
    TopologyError,
    light_delay,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["backbone"]

_HUB: Final = 5
"""From this many links on a city is a hub."""


def backbone(key: str) -> Topology:
    """The topology with this key."""
    try:
        package = importlib.resources.files("topohub")
    except ModuleNotFoundError:
        raise TopologyError(
            'real backbones need topohub: pip install -e "packages/laps-relay[sim]"'
        ) from None
    # Its own ``get`` leaves files open; the data lies where that function looks for it.
    file = package.joinpath("data", *f"{key}.json".split("/"))
    if ".." in key or not file.is_file():
        raise TopologyError(
            f"topohub has no {key!r}; try topozoo/Abilene, sndlib/germany50, backbone/europe"
        )
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    # Some maps number their nodes, some name them: here they are numbers, in the map's order.
    numbers = {node["id"]: number for number, node in enumerate(data["nodes"])}
    places = [(float(node["pos"][0]), float(node["pos"][1])) for node in data["nodes"]]
    pairs: dict[tuple[int, int], None] = {}
    for edge in data["edges"]:
        one, other = sorted((numbers[edge["source"]], numbers[edge["target"]]))
        if one != other:
            pairs[one, other] = None
    degree = [0] * len(places)
    for pair in pairs:
        for end in pair:
            degree[end] += 1
    reachable = _largest_part(len(places), list(pairs))
    hubs = [node for node in reachable if degree[node] >= _HUB]
    relays = tuple(
        RelaySpec(
            name=f"n{node}",
            node_id=NodeId(0x64_0003_0000_0000 + node + 1),
            relay_type=RelayType.VIA if node in hubs[::4] else RelayType.EDGE,
            location=places[node],
        )
        for node in reachable
    )
    links = tuple(
        LinkSpec(a=f"n{a}", b=f"n{b}", delay=light_delay(places[a], places[b]))
        for a, b in pairs
        if a in reachable
    )
    return Topology(name=key, relays=relays, links=links)


def _largest_part(size: int, pairs: list[tuple[int, int]]) -> dict[int, None]:
    """Some of the collected maps are in several pieces: the largest one is used."""
    near: dict[int, list[int]] = {node: [] for node in range(size)}
    for a, b in pairs:
        near[a].append(b)
        near[b].append(a)
    best: dict[int, None] = {}
    seen: set[int] = set()
    for start in range(size):
        if start in seen:
            continue
        part = {start: None}
        todo = [start]
        while todo:
            for other in near[todo.pop()]:
                if other not in part:
                    part[other] = None
                    todo.append(other)
        seen.update(part)
        if len(part) > len(best):
            best = part
    return dict.fromkeys(sorted(best))
