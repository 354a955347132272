"""Network of the planner: relays, and measurements between each two of them.

Tables have relays as rows and columns, in one order. An unknown link has an infinite round trip
time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from laps_analytics.errors import PlanError

__all__ = ["Bools", "Floats", "Network", "Node"]

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
