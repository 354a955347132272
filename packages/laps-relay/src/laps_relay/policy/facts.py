"""What policy knows of a node: its regions, its country, its labels.

A node says where it is and what it is; the operator may know better. What the policy's own
``[[node]]`` entries say of a node ID counts more than what the node says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from laps_relay.policy.patterns import NodePattern
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Label, NodeSelf, RelayType, Stamp

__all__ = [
    "COUNTRY",
    "REGION",
    "FactBook",
    "Facts",
    "NodeNote",
    "Region",
    "country_label",
    "scope_of",
    "stranger",
]

COUNTRY: Final = "country"
"""The label with which a node says in which country it stands."""
REGION: Final = "region"
"""The label of a subscribe's scope that says the same of a region."""

_MEMO: Final = 65_536
_NEVER: Final = Stamp(0, 0)


def stranger(node_id: NodeId, *, region: str = "", labels: tuple[Label, ...] = ()) -> NodeSelf:
    """A node that nobody has described: policy goes by its ID, and by what else is said of it."""
    return NodeSelf(
        node_id=node_id, relay_type=RelayType.EDGE, stamp=_NEVER, region=region, labels=labels
    )


def country_label(node: NodeSelf) -> str:
    """The country that a node says it stands in; empty if it says none."""
    return next((label.value.upper() for label in node.labels if label.key == COUNTRY), "")


def scope_of(region: str) -> tuple[Label, ...]:
    """What the subscribes of a node say of it in their scope."""
    return (Label(REGION, region),) if region else ()


class Facts:
    """Of one node. The same facts are the same object, so that they are a cheap key."""

    __slots__ = ("country", "labels", "node_id", "region", "regions")

    def __init__(
        self, node_id: NodeId, regions: tuple[str, ...], country: str, labels: Mapping[str, str]
    ) -> None:
        self.node_id = node_id
        self.regions = frozenset(regions)
        """All that it is in."""
        self.region = regions[0] if regions else ""
        """The one that it counts for: the first of the policy."""
        self.country = country
        self.labels = labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Nodes that belong together. Who meets any of the conditions is in it."""

    name: str
    nodes: tuple[NodePattern, ...] = ()
    names: frozenset[str] = frozenset()
    """What nodes call their region themselves."""
    countries: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()

    def holds(self, node_id: NodeId, own: str, country: str, labels: Mapping[str, str]) -> bool:
        """Whether a node is in it."""
        return (
            own in self.names
            or country in self.countries
            or any(pattern.matches(node_id) for pattern in self.nodes)
            or any(labels.get(key) == value for key, value in self.labels)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNote:
    """What the operator says of nodes."""

    nodes: tuple[NodePattern, ...]
    country: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class FactBook:
    """Facts of nodes, remembered for as long as a node says the same."""

    __slots__ = ("_known", "_names", "_notes", "_regions", "_sources")

    def __init__(self, regions: Iterable[Region] = (), notes: Iterable[NodeNote] = ()) -> None:
        self._regions = tuple(regions)
        self._names = frozenset(region.name for region in self._regions)
        self._notes = tuple(notes)
        self._known: dict[NodeId, tuple[str, tuple[Label, ...], Facts]] = {}
        self._sources: dict[tuple[NodeId, tuple[Label, ...]], Facts] = {}

    def of(self, node: NodeSelf) -> Facts:
        """Facts of a node that is known."""
        known = self._known.get(node.node_id)
        if known is not None and known[0] == node.region and known[1] == node.labels:
            return known[2]
        if len(self._known) >= _MEMO:
            self._known.clear()
        facts = self._find(node)
        self._known[node.node_id] = (node.region, node.labels, facts)
        return facts

    def of_source(self, node_id: NodeId, scope: tuple[Label, ...] = ()) -> Facts:
        """Facts of the source of an entry: its ID, and what the entry's scope says of it."""
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
        # Of several notes the first counts most: it is written last.
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
        # A region that the policy does not define is what the node says; one that it defines is
        # not entered by claiming to be in it.
        if not regions and node.region and node.region not in self._names:
            regions = (node.region,)
        return Facts(node.node_id, regions, country, labels)
