"""Inputs of the planner: the network, and the demand for tracks.

The network has relays, and measurements between each two of them. Its tables have relays as rows
and columns, in one order. An unknown link has an infinite round trip time.

The demand has tracks. Tracks with one decision form a group, and a group has one cell of a plan for
each region with targets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from laps_analytics.errors import PlanError

__all__ = [
    "Bools",
    "Cell",
    "Floats",
    "Group",
    "Network",
    "Node",
    "Track",
    "aggregate",
    "cells",
    "digest",
    "scaled",
]

# Network

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A relay."""

    id: str
    """Node id as text."""
    kind: str
    """edge, via, stub or control."""
    region: str = ""
    country: str = ""
    """Two letters; empty if unknown."""
    longitude: float | None = None
    latitude: float | None = None
    capacity_bps: float = float("inf")
    """Rate that it can send."""
    load_bps: float = 0.0
    """Load that no plan moves, such as to its clients."""
    usable: bool = True
    """Whether a plan may use it as a Via. False while it drains or is overloaded."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """Relays and directed links."""

    nodes: tuple[Node, ...]
    rtt_ms: Floats
    loss: Floats
    price: Floats
    """Price of a gigabyte from row to column. Only ratios matter."""
    capacity_bps: Floats
    load_bps: Floats
    """Load of a link that no plan moves."""
    countries: Mapping[tuple[int, int], frozenset[str]] = field(default_factory=dict)
    """Declared countries on the IP path of a link, in either order of its ends."""
    index: Mapping[str, int] = field(init=False)
    """Node id to row."""

    def __post_init__(self) -> None:
        count = len(self.nodes)
        for name in ("rtt_ms", "loss", "price", "capacity_bps", "load_bps"):
            if getattr(self, name).shape != (count, count):
                raise PlanError(f"{name} is not a table of {count} x {count} relays")
        index = {node.id: number for number, node in enumerate(self.nodes)}
        if len(index) != count:
            raise PlanError("two relays have the same node id")
        object.__setattr__(self, "index", index)

    @property
    def size(self) -> int:
        """Number of relays."""
        return len(self.nodes)

    def regions(self) -> tuple[str, ...]:
        """Return the region of each relay."""
        return tuple(node.region for node in self.nodes)

    def at(self, node: str) -> int:
        """Return the row of a relay; raise :class:`PlanError` if it is unknown."""
        if node not in self.index:
            raise PlanError(f"{node} is not a relay of the network: name one that reports")
        return self.index[node]

    def path_countries(self, a: int, b: int) -> frozenset[str]:
        """Return the declared countries between two relays; empty if unknown."""
        found = self.countries.get((a, b))
        return self.countries.get((b, a), frozenset()) if found is None else found

    def digest(self) -> str:
        """Return the SHA-256 of the network, in hexadecimal."""
        digest = hashlib.sha256()
        for node in self.nodes:
            digest.update(repr(node).encode())
        for table in (self.rtt_ms, self.loss, self.price, self.capacity_bps, self.load_bps):
            digest.update(np.ascontiguousarray(np.round(table, 9)).tobytes())
        for pair in sorted(self.countries):
            digest.update(repr((pair, sorted(self.countries[pair]))).encode())
        return digest.hexdigest()

    # What if

    def drained(self, nodes: Iterable[str]) -> Network:
        """Return the network with some relays unusable."""
        gone = {self.at(node) for node in nodes}
        changed = tuple(
            replace(node, usable=False) if number in gone else node
            for number, node in enumerate(self.nodes)
        )
        return replace(self, nodes=changed)

    def priced(self, region: str, factor: float) -> Network:
        """Return the network with other prices for traffic that leaves a region."""
        regions = np.array(self.regions())
        if region not in regions:
            raise PlanError(
                f"the network has no relay in the region {region!r}: name another region"
            )
        leaving = (regions == region)[:, None] & (regions[None, :] != region)
        return replace(self, price=np.where(leaving, self.price * factor, self.price))


# Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A track with its publisher and viewers."""

    key: int
    """Hash of its name."""
    origin: int
    """Relay of the publisher."""
    scope: str
    """Class of service; empty for none."""
    rate_bps: float
    viewers: Mapping[int, int]
    """Relay to the number of viewers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tracks with the same origin, class and s-relays, which share one decision."""

    origin: int
    scope: str
    keys: tuple[int, ...]
    """Keys of the tracks, ascending."""
    rate_bps: float
    """Rate of all tracks together."""
    targets: tuple[int, ...]
    """S-relays, ascending, without the origin."""
    viewers: tuple[int, ...]
    """Viewers at each target."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Unit of decision: a group towards a region."""

    group: int
    """Index of the group."""
    region: str
    members: tuple[int, ...]
    """Positions of its targets in the group."""


def aggregate(
    tracks: Iterable[Track], apart: Callable[[Track], tuple[int, ...]] = lambda _track: ()
) -> tuple[Group, ...]:
    """Return the groups, in an order that does not depend on the order of the tracks.

    Tracks with different results of ``apart`` are in different groups.
    """
    found: dict[tuple[int, str, tuple[int, ...], tuple[int, ...]], list[Track]] = {}
    for track in tracks:
        targets = tuple(sorted(relay for relay in track.viewers if relay != track.origin))
        if targets:
            found.setdefault((track.origin, track.scope, targets, apart(track)), []).append(track)
    return tuple(
        Group(
            origin=origin,
            scope=scope,
            keys=tuple(sorted(track.key for track in members)),
            rate_bps=sum(sorted(track.rate_bps for track in members)),
            targets=targets,
            viewers=tuple(sum(track.viewers[t] for track in members) for t in targets),
        )
        for (origin, scope, targets, _), members in sorted(found.items(), key=lambda item: item[0])
    )


def cells(network: Network, groups: Iterable[Group]) -> tuple[Cell, ...]:
    """Return the cells: each group towards each other region that has a name.

    Within its own region an origin saves nothing by a Via, and relays apply no limit there.
    """
    found = []
    for number, group in enumerate(groups):
        own = network.nodes[group.origin].region
        by_region: dict[str, list[int]] = {}
        for position, target in enumerate(group.targets):
            region = network.nodes[target].region
            if region and region != own:
                by_region.setdefault(region, []).append(position)
        found += [Cell(number, region, tuple(by_region[region])) for region in sorted(by_region)]
    return tuple(found)


def scaled(tracks: Iterable[Track], factor: float) -> list[Track]:
    """Return the tracks with viewers and rates multiplied by a factor."""
    return [
        Track(
            key=track.key,
            origin=track.origin,
            scope=track.scope,
            rate_bps=track.rate_bps * factor,
            viewers={relay: max(1, round(n * factor)) for relay, n in track.viewers.items()},
        )
        for track in tracks
    ]


def digest(groups: Iterable[Group]) -> str:
    """Return the SHA-256 of the demand, in hexadecimal."""
    return hashlib.sha256(repr(tuple(groups)).encode()).hexdigest()
