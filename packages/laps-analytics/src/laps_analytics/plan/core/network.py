"""What a planner knows of a network: relays, and what lies between each two of them.

Tables have relays as rows and columns, in one order. A link that nobody knows has an infinite round
trip time. Nothing here reads a clock or a file.
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
    """Two letters; empty if nobody says."""
    longitude: float | None = None
    latitude: float | None = None
    capacity_bps: float = float("inf")
    """What it can send."""
    load_bps: float = 0.0
    """What it sends already that no plan moves, such as to its clients."""
    usable: bool = True
    """Whether a plan may put something on it: not if it drains, or is overloaded."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """Relays and links. Links have directions; what is measured is usually the same in both."""

    nodes: tuple[Node, ...]
    rtt_ms: Floats
    loss: Floats
    price: Floats
    """What a gigabyte costs from row to column; only ratios count."""
    capacity_bps: Floats
    load_bps: Floats
    """What a link carries already that no plan moves."""
    countries: Mapping[tuple[int, int], frozenset[str]] = field(default_factory=dict)
    """Countries that the IP path of a link passes, where somebody declared them; either order."""
    index: Mapping[str, int] = field(init=False)
    """Node id to row."""

    def __post_init__(self) -> None:
        count = len(self.nodes)
        for name in ("rtt_ms", "loss", "price", "capacity_bps", "load_bps"):
            if getattr(self, name).shape != (count, count):
                raise PlanError(f"{name} is not a table of {count} x {count} relays")
        index = {node.id: number for number, node in enumerate(self.nodes)}
        if len(index) != count:
            raise PlanError("two relays have one node id")
        object.__setattr__(self, "index", index)

    @property
    def size(self) -> int:
        """How many relays."""
        return len(self.nodes)

    def regions(self) -> tuple[str, ...]:
        """The region of each relay."""
        return tuple(node.region for node in self.nodes)

    def at(self, node: str) -> int:
        """The row of a relay; :class:`PlanError` if there is no such relay."""
        if node not in self.index:
            raise PlanError(f"there is no relay {node} in the network that the plan is about")
        return self.index[node]

    def path_countries(self, a: int, b: int) -> frozenset[str]:
        """Countries that the IP path between two relays is declared to pass; none if unknown."""
        found = self.countries.get((a, b))
        return self.countries.get((b, a), frozenset()) if found is None else found

    def digest(self) -> str:
        """SHA-256 of everything, hexadecimal."""
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
        """The same without some relays on any way."""
        gone = {self.at(node) for node in nodes}
        changed = tuple(
            replace(node, usable=False) if number in gone else node
            for number, node in enumerate(self.nodes)
        )
        return replace(self, nodes=changed)

    def priced(self, region: str, factor: float) -> Network:
        """The same with other prices for what leaves a region's relays towards other regions."""
        regions = np.array(self.regions())
        if region not in regions:
            raise PlanError(f"no relay is in the region {region!r}")
        leaving = (regions == region)[:, None] & (regions[None, :] != region)
        return replace(self, price=np.where(leaving, self.price * factor, self.price))
