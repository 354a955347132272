"""What policy knows of a node: its regions, its country, its labels.

A node declares its place and labels; the operator may know better. The policy's own ``[[node]]``
entries for a node id override what the node declares.

**Patterns of node IDs** (:class:`NodePattern`). The text is that of a node ID
(:mod:`laps_wire.nodeid`) in which a whole number may be ``*``::

    100.2:9001.2001    one node
    100.2:*            all with this high half
    100.*:*            all with these upper 16 bits
    *:0.7              the same low half everywhere
    *                  all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from laps_wire.errors import TextFormError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Label, NodeSelf, RelayType, Stamp

__all__ = [
    "COUNTRY",
    "REGION",
    "FactBook",
    "Facts",
    "NodeNote",
    "NodePattern",
    "Region",
    "country_label",
    "scope_of",
    "stranger",
]

_EXAMPLE: Final = "100.*:*"


class NodePattern(NamedTuple):
    """A pattern: some bits of a node id must have these values."""

    mask: int
    value: int
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern. Raises ``TextFormError`` that points at the fault."""
        if text == "*":
            return cls(0, 0, text)
        mask = 0
        start = 0
        for half in text.split(":"):
            # A half that is one number has 32 bits, each part of a dotted one has 16.
            parts = half.split(".")
            bits = 32 // len(parts)
            for part in parts:
                if "*" in part and part != "*":
                    raise TextFormError.at(
                        "node pattern",
                        text,
                        start,
                        "'*' stands for a whole number",
                        example=_EXAMPLE,
                    )
                mask = mask << bits | (0 if part == "*" else (1 << bits) - 1)
                start += len(part) + 1
        # The numbers are those of a node ID: too many dots or colons, too, are found here.
        return cls(mask, NodeId.parse(text.replace("*", "0")), text)

    def matches(self, node: int) -> bool:
        """Return whether a node matches."""
        return node & self.mask == self.value

    def __str__(self) -> str:
        return self.text


COUNTRY: Final = "country"
"""The label with which a node declares its country."""
REGION: Final = "region"
"""The label of a subscribe's scope that declares its region."""

_MEMO: Final = 65_536
_NEVER: Final = Stamp(0, 0)


def stranger(node_id: NodeId, *, region: str = "", labels: tuple[Label, ...] = ()) -> NodeSelf:
    """Return a node of which only the id is known, and what else is given."""
    return NodeSelf(
        node_id=node_id, relay_type=RelayType.EDGE, stamp=_NEVER, region=region, labels=labels
    )


def country_label(node: NodeSelf) -> str:
    """Return the country that a node declares; empty if it declares none."""
    return next((label.value.upper() for label in node.labels if label.key == COUNTRY), "")


def scope_of(region: str) -> tuple[Label, ...]:
    """Return the scope that the subscribes of a node carry."""
    return (Label(REGION, region),) if region else ()


class Facts:
    """The facts of one node. Equal facts are the same object, so that they are a cheap key."""

    __slots__ = ("country", "labels", "node_id", "region", "regions")

    def __init__(
        self, node_id: NodeId, regions: tuple[str, ...], country: str, labels: Mapping[str, str]
    ) -> None:
        self.node_id = node_id
        self.regions = frozenset(regions)
        """All regions of the node."""
        self.region = regions[0] if regions else ""
        """The region that it counts for: the first of the policy."""
        self.country = country
        self.labels = labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region. A node that meets any of the conditions is in it."""

    name: str
    nodes: tuple[NodePattern, ...] = ()
    names: frozenset[str] = frozenset()
    """Region names that nodes declare."""
    countries: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()

    def holds(self, node_id: NodeId, own: str, country: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node is in the region."""
        return (
            own in self.names
            or country in self.countries
            or any(pattern.matches(node_id) for pattern in self.nodes)
            or any(labels.get(key) == value for key, value in self.labels)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNote:
    """What the operator states about nodes."""

    nodes: tuple[NodePattern, ...]
    country: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class FactBook:
    """The facts of nodes, kept as long as a node declares the same."""

    __slots__ = ("_known", "_names", "_notes", "_regions", "_sources")

    def __init__(self, regions: Iterable[Region] = (), notes: Iterable[NodeNote] = ()) -> None:
        self._regions = tuple(regions)
        self._names = frozenset(region.name for region in self._regions)
        self._notes = tuple(notes)
        self._known: dict[NodeId, tuple[str, tuple[Label, ...], Facts]] = {}
        self._sources: dict[tuple[NodeId, tuple[Label, ...]], Facts] = {}

    def of(self, node: NodeSelf) -> Facts:
        """Return the facts of a known node."""
        known = self._known.get(node.node_id)
        if known is not None and known[0] == node.region and known[1] == node.labels:
            return known[2]
        if len(self._known) >= _MEMO:
            self._known.clear()
        facts = self._find(node)
        self._known[node.node_id] = (node.region, node.labels, facts)
        return facts

    def of_source(self, node_id: NodeId, scope: tuple[Label, ...] = ()) -> Facts:
        """Return the facts of the source of an entry: by its id and the entry's scope."""
        key = (node_id, scope)
        facts = self._sources.get(key)
        if facts is None:
            if len(self._sources) >= _MEMO:
                self._sources.clear()
            own = next((label.value for label in scope if label.key == REGION), "")
            node = stranger(node_id, region=own, labels=scope)
            facts = self._sources[key] = self._find(node)
        return facts

    def _find(self, node: NodeSelf) -> Facts:
        labels = {label.key: label.value for label in node.labels}
        country = ""
        # The first of several notes wins: it is applied last.
        for note in reversed(self._notes):
            if any(pattern.matches(node.node_id) for pattern in note.nodes):
                labels |= dict(note.labels)
                country = note.country or country
        country = (country or labels.get(COUNTRY, "")).upper()
        regions = tuple(
            region.name
            for region in self._regions
            if region.holds(node.node_id, node.region, country, labels)
        )
        # A node may declare a region that the policy does not define. It cannot enter a defined
        # region by declaring it.
        if not regions and node.region and node.region not in self._names:
            regions = (node.region,)
        return Facts(node.node_id, regions, country, labels)
