"""The parts of a policy. All of them are data: :mod:`laps_relay.policy.rule_policy` applies them.

:func:`rules_as_text` returns a policy as text, one line for each rule, for operators of a running
relay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from laps_relay.policy.facts import Facts, NodeNote, NodePattern, Region
from laps_relay.policy.interface import NO_LIMITS, ClassLimits
from laps_wire.names import Namespace

__all__ = [
    "NOTHING",
    "Fence",
    "Filter",
    "FilterRule",
    "Link",
    "Rules",
    "ServiceClass",
    "TrackRule",
    "rules_as_text",
]


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


NOTHING: Final = "everything is allowed"


def rules_as_text(rules: Rules) -> list[str]:
    """Return a line for each rule, in the order of the file; rules without effect are left out."""
    return list(_lines(rules)) or [NOTHING]


def _lines(rules: Rules) -> Iterator[str]:
    for region in rules.regions:
        yield f"region {region.name}: {_region(region)}"
    for note in rules.notes:
        yield f"nodes {_list(note.nodes)}: {_note(note)}"
    for link in rules.links:
        ends = " and ".join(map(str, link.between))
        yield f"link {link.name}: between {ends} IP packets pass {_list(link.countries)}"
    for name, fence in (("peers", rules.peers), ("transit", rules.transit)):
        if not fence.is_open:
            yield f"{name}: {_fence(fence)}"
    for service in rules.classes.values():
        words = [*_limits(service.limits)]
        if not service.transit.is_open:
            words.append(f"transit: {_fence(service.transit)}")
        yield f"class {service.name}: {'; '.join(words) or 'no limits'}"
    for track in rules.tracks:
        yield _track(track)
    for name, wanted in rules.filters():
        yield from _filter(name, wanted)


def _region(region: Region) -> str:
    words = []
    if region.nodes:
        words.append(f"nodes {_list(region.nodes)}")
    if region.names:
        words.append(f"who says {_list(sorted(region.names))}")
    if region.countries:
        words.append(f"in {_list(sorted(region.countries))}")
    words += _labels(region.labels)
    return " or ".join(words)


def _note(note: NodeNote) -> str:
    words = [f"in {note.country}"] if note.country else []
    return ", ".join([*words, *_labels(note.labels)]) or "nothing"


def _fence(fence: Fence) -> str:
    named = (
        ("only nodes", map(str, fence.allow_nodes)),
        ("no nodes", map(str, fence.deny_nodes)),
        ("only regions", sorted(fence.allow_regions)),
        ("no regions", sorted(fence.deny_regions)),
        ("only countries", sorted(fence.allow_countries)),
        ("no countries", sorted(fence.deny_countries)),
    )
    words = [f"{label} {text}" for label, values in named if (text := _list(values))]
    return "; ".join([*words, *(f"only {label}" for label in _labels(fence.need))])


def _limits(limits: ClassLimits) -> Iterator[str]:
    if limits.max_rtt_us is not None:
        yield f"round trip at most {limits.max_rtt_us / 1000:g} ms"
    if limits.max_loss is not None:
        yield f"loss at most {limits.max_loss * 100:g} %"
    if limits.max_fanout is not None:
        yield f"at most {limits.max_fanout} copies towards a region"


def _track(rule: TrackRule) -> str:
    what = f"tracks {_namespace(rule.namespace)}"
    if rule.track is not None:
        what = f"{what} with the name {_text(rule.track)}"
    words = [f"class {rule.service_class}"] if rule.service_class else []
    if not rule.subscribers.is_open:
        words.append(f"subscribers: {_fence(rule.subscribers)}")
    shown = "" if rule.name == "/".join(map(_text, rule.namespace.fields)) else f" ({rule.name})"
    return f"{what}{shown}: {'; '.join(words) or 'no class of its own'}"


def _filter(name: str, wanted: Filter) -> Iterator[str]:
    for rule in wanted.rules:
        yield f"{name}, {rule.name}: {_rule(rule)}"
    if not wanted.accept:
        yield f"{name}: deny everything else"


def _rule(rule: FilterRule) -> str:
    named = (
        ("peers", map(str, rule.peers)),
        ("peers in", sorted(rule.peer_regions)),
        ("from", map(str, rule.sources)),
        ("from", sorted(rule.source_regions)),
    )
    words = [f"{label} {text}" for label, values in named if (text := _list(values))]
    if rule.namespace is not None:
        words.append(_namespace(rule.namespace))
    words += _labels(rule.labels)
    says = "accept" if rule.accept else "deny"
    because = f" ({rule.reason})" if rule.reason else ""
    return f"{says} {', '.join(words) or 'everything'}{because}"


def _namespace(namespace: Namespace) -> str:
    return f"below {'/'.join(map(_text, namespace.fields))}" if namespace.fields else "everywhere"


def _labels(labels: Iterable[tuple[str, str]]) -> list[str]:
    return [f"with {name} = {value}" for name, value in labels]


def _list(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def _text(value: bytes) -> str:
    return value.decode("ascii", "backslashreplace")
