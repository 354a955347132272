"""The parts of a policy. All of them are data: :mod:`laps_relay.policy.judges` applies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from laps_relay.policy.facts import Facts, NodeNote, Region
from laps_relay.policy.interface import ClassLimits
from laps_relay.policy.open_policy import NO_LIMITS
from laps_relay.policy.patterns import NodePattern
from laps_wire.names import Namespace

__all__ = ["Fence", "Filter", "FilterRule", "Link", "Rules", "ServiceClass", "TrackRule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Which nodes may, and which may not. Every list that is there must agree.

    An ``allow`` list that is empty says nothing; one that is not leaves out everybody who is not in
    it, also those of whom the country or region is not known.
    """

    allow_nodes: tuple[NodePattern, ...] = ()
    deny_nodes: tuple[NodePattern, ...] = ()
    allow_regions: frozenset[str] = frozenset()
    deny_regions: frozenset[str] = frozenset()
    allow_countries: frozenset[str] = frozenset()
    deny_countries: frozenset[str] = frozenset()
    need: tuple[tuple[str, str], ...] = ()
    """Labels that a node must have."""

    @property
    def is_open(self) -> bool:
        """Whether the fence has no condition."""
        return self == _OPEN

    def against(self, facts: Facts) -> str | None:
        """Return why a node does not pass; None if it does."""
        for pattern in self.deny_nodes:
            if pattern.matches(facts.node_id):
                return f"node {facts.node_id} is denied ({pattern})"
        if self.allow_nodes and not any(
            pattern.matches(facts.node_id) for pattern in self.allow_nodes
        ):
            return f"node {facts.node_id} is not allowed"
        for region in sorted(facts.regions & self.deny_regions):
            return f"region {region} is denied"
        if self.allow_regions and not facts.regions & self.allow_regions:
            return (
                f"region {facts.region} is not allowed"
                if facts.region
                else f"node {facts.node_id} is in no region that is allowed"
            )
        for key, value in self.need:
            if facts.labels.get(key) != value:
                return f"node {facts.node_id} has no label {key} = {value}"
        return self.against_countries((facts.country,))

    def against_countries(self, countries: tuple[str, ...]) -> str | None:
        """Return why countries of a node or link do not pass; "" is an unknown country."""
        for country in countries:
            if country in self.deny_countries:
                return f"country {country} is denied"
            if self.allow_countries and country not in self.allow_countries:
                return f"country {country or 'unknown'} is not allowed"
        return None


_OPEN: Final = Fence()
_EVERYWHERE: Final = Namespace()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceClass:
    """A class of service."""

    name: str
    limits: ClassLimits = NO_LIMITS
    transit: Fence = _OPEN
    """The fence for data of this class, in addition to the general one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRule:
    """A rule for the tracks at and below a namespace."""

    name: str
    namespace: Namespace = _EVERYWHERE
    track: bytes | None = None
    """Only the track with this name."""
    service_class: str = ""
    """ "": another rule may set it."""
    subscribers: Fence = _OPEN
    """The nodes whose subscribers may have the tracks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The countries that IP packets pass between two relays, as the operator declares."""

    name: str
    between: tuple[NodePattern, NodePattern]
    countries: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRule:
    """One rule of a filter: all given conditions must hold."""

    name: str
    accept: bool
    reason: str = ""
    peers: tuple[NodePattern, ...] = ()
    peer_regions: frozenset[str] = frozenset()
    sources: tuple[NodePattern, ...] = ()
    """Of the node that the entry is about, or that originated it."""
    source_regions: frozenset[str] = frozenset()
    namespace: Namespace | None = None
    """The entry's namespace is this or below it; not for node information."""
    labels: tuple[tuple[str, str], ...] = ()
    """Of the node, or of a subscribe's scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Rules in order; the first that matches decides, as in a BGP route policy."""

    rules: tuple[FilterRule, ...] = ()
    accept: bool = True
    """The decision if no rule matches."""


_PASS: Final = Filter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A whole policy."""

    regions: tuple[Region, ...] = ()
    notes: tuple[NodeNote, ...] = ()
    links: tuple[Link, ...] = ()
    peers: Fence = _OPEN
    transit: Fence = _OPEN
    classes: Mapping[str, ServiceClass] = field(default_factory=dict)
    tracks: tuple[TrackRule, ...] = ()
    import_node: Filter = _PASS
    import_announce: Filter = _PASS
    import_subscribe: Filter = _PASS
    export_node: Filter = _PASS
    export_announce: Filter = _PASS
    export_subscribe: Filter = _PASS

    def filters(self) -> Iterator[tuple[str, Filter]]:
        """Return all six filters, by their names in the file."""
        yield "import.node", self.import_node
        yield "import.announce", self.import_announce
        yield "import.subscribe", self.import_subscribe
        yield "export.node", self.export_node
        yield "export.announce", self.export_announce
        yield "export.subscribe", self.export_subscribe
