"""Generated topologies: rings, chords, trees, random graphs, regions.

All are connected and small in diameter (a path has at most 16 relays). They come from a
:class:`~laps_relay.sim.net.clock.Rng`, so a seed always makes the same topology.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.topology import (
    LinkSpec,
    RelaySpec,
    Topology,
    TopologyError,
    light_delay,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["SHAPES", "generate", "with_control_servers"]

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
