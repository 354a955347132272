"""Which relays there are and how they are connected.

A topology is data: names, types, places and links. It comes from a TOML file, from a generator, or
from a real backbone. The file is::

    [[relay]]
    name = "sea1"                # also its contact
    type = "edge"                # edge, via, control
    region = "us"
    country = "US"
    location = [-122.3, 47.6]    # longitude, latitude

    [[link]]
    a = "sea1"                   # dials
    b = "lon1"
    delay_ms = 38.5              # one way; the light time of the two places if it is not given
    jitter_ms = 0.5
    loss = 0.001
    bandwidth_kbps = 10000
    bandwidth_back_kbps = 2000   # from b to a, if that is another one

The same in JSON is an object with the lists ``relay`` and ``link``.

**Generated topologies** (:func:`generate`) are rings, chords, trees, random graphs and regions. All
are connected and small in diameter (a path has at most 16 relays). They come from a
:class:`~laps_relay.sim.net.clock.Rng`, so a seed always makes the same topology.

**Real backbones** (:func:`backbone`) are the topologies of the PyPI package ``topohub``. The
package is optional: ``pip install -e "packages/laps-relay[sim]"``. A name is a key of its
repository, such as ``topozoo/Abilene``, ``sndlib/germany50`` or ``backbone/europe``. Cities become
Edges. Cities with many links forward too, as any relay does, and every fourth of them is a pure
Via. Delays follow from the length of the cables.
"""

from __future__ import annotations

import importlib.resources
import json
import math
import random
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from laps_relay.sim.net.clock import Rng
from laps_wire.errors import LapsError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = [
    "SHAPES",
    "LinkSpec",
    "RelaySpec",
    "Topology",
    "TopologyError",
    "backbone",
    "generate",
    "light_delay",
    "read_document",
    "read_topology",
    "topology_of",
    "with_control_servers",
]

_EARTH_KM: Final = 6371.0
_FIBRE_KM_PER_SECOND: Final = 200_000.0
_DETOUR: Final = 1.2
"""Cables are longer than the distance."""
_BASE: Final = 0.0005
_TYPES: Final = {"edge": RelayType.EDGE, "via": RelayType.VIA, "control": RelayType.CONTROL}


class TopologyError(LapsError):
    """A topology that cannot be used, and what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySpec:
    """One relay; its name is its contact too."""

    name: str
    node_id: NodeId
    relay_type: RelayType = RelayType.EDGE
    region: str = ""
    location: tuple[float, float] | None = None
    """Longitude and latitude in degrees."""
    country: str = ""
    """Two letters; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """A configured peering: ``a`` dials ``b``."""

    a: str
    b: str
    delay: float
    """One-way delay in seconds."""
    jitter: float = 0.0
    loss: float = 0.0
    bandwidth: float | None = None
    """Bytes a second from ``a`` to ``b``; None: no limit."""
    bandwidth_back: float | None = None
    """The same from ``b`` to ``a``; None: as much as there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Relays and links."""

    name: str
    relays: tuple[RelaySpec, ...]
    links: tuple[LinkSpec, ...]

    def __post_init__(self) -> None:
        names = {relay.name for relay in self.relays}
        if len(names) != len(self.relays):
            raise TopologyError(f"{self.name}: two relays have the same name")
        if len({relay.node_id for relay in self.relays}) != len(self.relays):
            raise TopologyError(f"{self.name}: two relays have the same node ID")
        for link in self.links:
            for end in (link.a, link.b):
                if end not in names:
                    raise TopologyError(f"{self.name}: a link names {end!r}, which is no relay")
            if link.a == link.b:
                raise TopologyError(f"{self.name}: {link.a!r} has a link with itself")

    def relay(self, name: str) -> RelaySpec:
        """By its name."""
        return next(relay for relay in self.relays if relay.name == name)


def light_delay(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the one-way time of light in a cable between two places, with a detour."""
    (lon1, lat1), (lon2, lat2) = (map(math.radians, place) for place in (one, other))
    half = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    distance = 2 * _EARTH_KM * math.asin(math.sqrt(min(1.0, half)))
    return round(_BASE + _DETOUR * distance / _FIBRE_KM_PER_SECOND, 6)


def read_topology(file: Path) -> Topology:
    """A topology from a TOML or JSON file."""
    return topology_of(file, read_document(file))


def read_document(file: Path) -> Mapping[str, Any]:
    """Read a TOML or JSON file without checking its contents."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TopologyError(f"{file}: not UTF-8") from None
    if file.suffix != ".json":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise TopologyError(f"{file}: not TOML: {error}") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"{file}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise TopologyError(f"{file}: not an object with relay and link")
    return data


def topology_of(file: Path, data: Mapping[str, Any]) -> Topology:
    """Return the topology in the contents of a file; ``file`` is for messages."""
    relays = tuple(
        _read_relay(file, number, entry) for number, entry in enumerate(data.get("relay", []), 1)
    )
    if not relays:
        raise TopologyError(f"{file}: no [[relay]]")
    by_name = {relay.name: relay for relay in relays}
    links = tuple(_read_link(file, entry, by_name) for entry in data.get("link", []))
    return Topology(name=file.name, relays=relays, links=links)


def _read_relay(file: Path, number: int, entry: Mapping[str, Any]) -> RelaySpec:
    known = {"name", "type", "region", "country", "location", "node_id"}
    _no_others(file, f"relay {number}", entry, known)
    kind = entry.get("type", "edge")
    if kind not in _TYPES:
        raise TopologyError(f"{file}: relay {number}: type {kind!r} is none of {', '.join(_TYPES)}")
    place = entry.get("location")
    if place is not None and (not isinstance(place, list) or len(place) != 2):
        raise TopologyError(f"{file}: relay {number}: location is [longitude, latitude]")
    return RelaySpec(
        name=str(entry.get("name", f"r{number}")),
        node_id=NodeId.parse(entry["node_id"]) if "node_id" in entry else NodeId(number),
        relay_type=_TYPES[kind],
        region=str(entry.get("region", "")),
        location=None if place is None else (float(place[0]), float(place[1])),
        country=str(entry.get("country", "")),
    )


def _read_link(file: Path, entry: Mapping[str, Any], relays: Mapping[str, RelaySpec]) -> LinkSpec:
    known = {"a", "b", "delay_ms", "jitter_ms", "loss", "bandwidth_kbps", "bandwidth_back_kbps"}
    known.add("countries")
    _no_others(file, "link", entry, known)
    try:
        a, b = str(entry["a"]), str(entry["b"])
    except KeyError as error:
        raise TopologyError(f"{file}: a [[link]] has no {error.args[0]}") from None
    if "delay_ms" in entry:
        delay = float(entry["delay_ms"]) / 1000
    else:
        ends = [relays[name].location for name in (a, b) if name in relays]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            raise TopologyError(f"{file}: link {a} - {b}: give delay_ms, or two locations")
        delay = light_delay(ends[0], ends[1])

    def rate(key: str) -> float | None:
        return float(entry[key]) * 125 if key in entry else None

    return LinkSpec(
        a=a,
        b=b,
        delay=delay,
        jitter=float(entry.get("jitter_ms", 0)) / 1000,
        loss=float(entry.get("loss", 0)),
        bandwidth=rate("bandwidth_kbps"),
        bandwidth_back=rate("bandwidth_back_kbps"),
    )


def _no_others(file: Path, what: str, entry: Mapping[str, Any], known: set[str]) -> None:
    others = sorted(set(entry) - known)
    if others:
        raise TopologyError(f"{file}: {what}: unknown key {others[0]!r}")


_REGIONS: Final = {
    "us": (-98.0, 39.0),
    "eu": (9.0, 48.0),
    "asia": (105.0, 25.0),
    "br": (-48.0, -16.0),
}
_MAX_RING: Final = 24
"""A larger ring without chords has paths that are too long to be passed on."""

Pairs = list[tuple[int, int]]


def _ring(size: int, _: random.Random) -> Pairs:
    return [(at, (at + 1) % size) for at in range(size)]


def _chord(size: int, rng: random.Random) -> Pairs:
    pairs = _ring(size, rng)
    step = max(2, size // 3)
    chords = max(1, size // 5)
    pairs += [(at, (at + step) % size) for at in sorted(rng.sample(range(size), chords))]
    return pairs


def _tree(size: int, rng: random.Random) -> Pairs:
    return [(at, rng.randrange(max(0, (at - 1) // 3), at)) for at in range(1, size)]


def _random(size: int, rng: random.Random) -> Pairs:
    """Every relay dials an earlier one, and half as many links again."""
    pairs = [(at, rng.randrange(at)) for at in range(1, size)]
    return pairs + [_pair(rng, size) for _ in range(size // 2 + size // 4)]


def _dense(size: int, rng: random.Random) -> Pairs:
    """Degree four, as the figures of large networks have it."""
    pairs = [(at, rng.randrange(max(0, at - 40), at)) for at in range(1, size)]
    return pairs + [_pair(rng, size) for _ in range(size)]


def _pair(rng: random.Random, size: int) -> tuple[int, int]:
    one, other = rng.sample(range(size), 2)
    return one, other


_PLAIN: Final[Mapping[str, Callable[[int, random.Random], Pairs]]] = {
    "ring": _ring,
    "chord": _chord,
    "tree": _tree,
    "random": _random,
    "dense": _dense,
}
SHAPES: Final = (*_PLAIN, "regions")


def generate(shape: str, size: int, rng: Rng, *, vias: float = 0.3) -> Topology:
    """A topology of this shape; ``vias`` is the share of relays that are Vias."""
    draw = rng.of("topology")
    if shape == "regions":
        return _regions(size, draw, vias)
    if shape not in _PLAIN:
        raise TopologyError(f"{shape!r} is no shape; there are {', '.join(SHAPES)}")
    if shape == "ring" and size > _MAX_RING:
        raise TopologyError(f"a ring of {size} has paths of more than 16 relays; try chord")
    relays = _relays(size, draw, vias, [("", None)] * size)
    style = draw.choice(("equal", "steps", "free"))
    links = []
    for a, b in _distinct(_PLAIN[shape](size, draw)):
        if style == "equal":  # ties everywhere: only the last criterion decides
            delay = 0.01
        elif style == "steps":
            delay = draw.choice((0.005, 0.01, 0.02))
        else:
            delay = round(draw.uniform(0.002, 0.04), 4)
        links.append(_link(relays[a], relays[b], delay, draw))
    return Topology(name=f"{shape}-{size}", relays=relays, links=tuple(links))


def with_control_servers(topology: Topology, count: int) -> Topology:
    """Return the topology with control servers, each with a session to every Edge.

    Among relays with places, control servers have places too. Otherwise their advertisements would
    be faster than light, and relays would reject them.
    """
    relays = topology.relays
    beside = [relays[at * len(relays) // count] for at in range(count)]
    servers = tuple(
        RelaySpec(
            name=f"c{number}",
            node_id=NodeId(0x64_0001_0000_0000 + number),
            relay_type=RelayType.CONTROL,
            region=relay.region,
            location=relay.location,
        )
        for number, relay in enumerate(beside, 1)
    )
    links = tuple(
        LinkSpec(a=relay.name, b=server.name, delay=_delay(relay, server))
        for relay in relays
        if relay.relay_type is RelayType.EDGE
        for server in servers
    )
    return Topology(
        name=f"{topology.name}+{count}",
        relays=(*relays, *servers),
        links=(*topology.links, *links),
    )


def _regions(size: int, draw: random.Random, vias: float) -> Topology:
    """Regions of near relays, a few long links between them."""
    names = list(_REGIONS)[: min(size, draw.randint(2, 4)) if size < 60 else 4]
    places: list[tuple[str, tuple[float, float] | None]] = []
    for at in range(size):
        name = names[at % len(names)]
        lon, lat = _REGIONS[name]
        place = (round(lon + draw.uniform(-9, 9), 2), round(lat + draw.uniform(-6, 6), 2))
        places.append((name, place))
    relays = _relays(size, draw, vias, places)
    pairs: Pairs = []
    members = {name: [at for at in range(size) if places[at][0] == name] for name in names}
    for ats in members.values():
        pairs += [(at, ats[draw.randrange(index)]) for index, at in enumerate(ats) if index]
        pairs += [(ats[i], ats[j]) for i, j in (_pair(draw, len(ats)) for _ in ats[2:])]
    for index, name in enumerate(names):
        for other in names[index + 1 :]:
            for _ in range(2):
                pairs.append((draw.choice(members[name]), draw.choice(members[other])))
    links = []
    for a, b in _distinct(pairs):
        links.append(_link(relays[a], relays[b], _delay(relays[a], relays[b]), draw))
    return Topology(name=f"regions-{size}", relays=relays, links=tuple(links))


def _delay(a: RelaySpec, b: RelaySpec) -> float:
    """That of light, if both stand somewhere."""
    if a.location is None or b.location is None:
        return 0.01
    return light_delay(a.location, b.location)


def _relays(
    size: int,
    draw: random.Random,
    vias: float,
    places: list[tuple[str, tuple[float, float] | None]],
) -> tuple[RelaySpec, ...]:
    numbers = list(range(1, size + 1))
    draw.shuffle(numbers)  # the order of node ids is independent of the places
    types = [RelayType.VIA if draw.random() < vias else RelayType.EDGE for _ in numbers]
    for at in (0, size - 1):
        types[at] = RelayType.EDGE
    return tuple(
        RelaySpec(
            name=f"r{number}",
            node_id=NodeId(0x64_0002_0000_0000 + number),
            relay_type=relay_type,
            region=region,
            location=place,
        )
        for number, relay_type, (region, place) in zip(numbers, types, places, strict=True)
    )


def _distinct(pairs: Pairs) -> Pairs:
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    for a, b in pairs:
        seen.setdefault((min(a, b), max(a, b)), (a, b))
    return list(seen.values())


def _link(a: RelaySpec, b: RelaySpec, delay: float, draw: random.Random) -> LinkSpec:
    lossy = draw.random() < 0.2
    return LinkSpec(
        a=a.name,
        b=b.name,
        delay=delay,
        jitter=round(draw.choice((0.0, 0.0, 0.1, 0.3)) * delay, 6),
        loss=round(draw.uniform(0.005, 0.05), 4) if lossy else 0.0,
    )


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
