"""The policy that an operator wrote, compiled; the network asks it for every entry and path.

:class:`RulePolicy` implements :class:`~laps_relay.policy.interface.Policy`. Its answers depend only
on the rules and on what is asked; answers about paths are remembered. :func:`explain` returns every
rule that has a say about a path and a track.

**Findings.** Each check yields a finding for every rule. A policy in use stops at the first finding
that is not allowed; ``policy explain`` shows all. Both read the same findings, so an explanation
cannot differ from the decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from laps_relay.policy.facts import FactBook, Facts, scope_of, stranger
from laps_relay.policy.interface import NO_LIMITS, ClassLimits, NodeInfoLookup
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link, Rules, TrackRule
from laps_sdk.peering.events import Refusal
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    NodeInfo,
    NodeSelf,
    SubscribeInfo,
)

__all__ = [
    "Explained",
    "Finding",
    "HashedFilter",
    "LinkTable",
    "RulePolicy",
    "explain",
    "first_refusal",
    "node_finding",
    "path_findings",
]

_MEMO: Final = 65_536


class Finding(NamedTuple):
    """The decision of one rule about one subject."""

    rule: str
    subject: str
    allowed: bool
    reason: str


def first_refusal(findings: Iterable[Finding]) -> Refusal | None:
    """Return the first finding that is not allowed as a refusal; None if all are allowed."""
    for finding in findings:
        if not finding.allowed:
            return Refusal(finding.rule, finding.reason)
    return None


def node_finding(rule: str, fence: Fence, subject: str, facts: Facts) -> Iterator[Finding]:
    """Yield the finding of one fence about one node; nothing if the fence is open."""
    if not fence.is_open:
        wrong = fence.against(facts)
        yield Finding(rule, subject, wrong is None, wrong or "nothing is against it")


class LinkTable:
    """The countries that IP packets pass between two nodes, cached."""

    __slots__ = ("_found", "_links")

    def __init__(self, links: Iterable[Link]) -> None:
        self._links = tuple(links)
        self._found: dict[tuple[NodeId, NodeId], tuple[Link, ...]] = {}

    def between(self, one: NodeId, other: NodeId) -> tuple[Link, ...]:
        """Return all matching declarations, in either direction."""
        if not self._links:
            return ()
        found = self._found.get((one, other))
        if found is None:
            if len(self._found) >= _MEMO:
                self._found.clear()
            found = self._found[one, other] = tuple(
                link for link in self._links if _joins(link, one, other)
            )
        return found


def _joins(link: Link, one: NodeId, other: NodeId) -> bool:
    left, right = link.between
    return (left.matches(one) and right.matches(other)) or (
        left.matches(other) and right.matches(one)
    )


def path_findings(
    fences: Sequence[tuple[str, Fence]], links: LinkTable, relays: Sequence[Facts]
) -> Iterator[Finding]:
    """Yield the findings of each fence about transit relays and the links between all relays.

    The first relay and the last are the ends of the path: they are not transit.
    """
    for rule, fence in fences:
        if fence.is_open:
            continue
        for facts in relays[1:-1]:
            yield from node_finding(rule, fence, f"transit {facts.node_id}", facts)
        for one, other in pairwise(relays):
            for link in links.between(one.node_id, other.node_id):
                wrong = fence.against_countries(link.countries)
                yield Finding(
                    rule,
                    f"link {one.node_id} to {other.node_id} ({link.name})",
                    wrong is None,
                    wrong or f"it passes {', '.join(link.countries)}",
                )


class HashedFilter:
    """A filter with hashed namespaces: an entry carries only hashes (laps-2, 2)."""

    __slots__ = ("_accept", "_name", "_rules", "has_rules", "is_open")

    def __init__(
        self, name: str, wanted: Filter, prefixes: Sequence[tuple[int, ...] | None]
    ) -> None:
        self._name = name
        self._accept = wanted.accept
        self._rules = tuple(zip(wanted.rules, prefixes, strict=True))
        self.is_open = wanted.accept and all(rule.accept for rule in wanted.rules)
        """Whether the filter accepts everything: then it need not be evaluated."""
        self.has_rules = not wanted.accept or bool(wanted.rules)
        """Whether the operator wrote the filter at all."""

    def finding(self, peer: Facts, source: Facts, elements: tuple[int, ...] | None) -> Finding:
        """Return the finding of the first rule that matches, or of the default."""
        for rule, prefix in self._rules:
            if (prefix is None or _begins(elements, prefix)) and _matches(rule, peer, source):
                says = "accepted" if rule.accept else "denied"
                reason = rule.reason or f"{says} by rule {rule.name!r} of {self._name}"
                return Finding(
                    f"{self._name}.{rule.name}", str(source.node_id), rule.accept, reason
                )
        says = "accepted" if self._accept else "denied"
        return Finding(
            f"{self._name}.default",
            str(source.node_id),
            self._accept,
            f"{says}: no rule of {self._name} matches",
        )

    def refusal(
        self, peer: Facts, source: Facts, elements: tuple[int, ...] | None = None
    ) -> Refusal | None:
        """Return the refusal of the first rule that matches, or None."""
        finding = self.finding(peer, source, elements)
        return None if finding.allowed else Refusal(finding.rule, finding.reason)


def _begins(elements: tuple[int, ...] | None, prefix: tuple[int, ...]) -> bool:
    return elements is not None and elements[: len(prefix)] == prefix


def _matches(rule: FilterRule, peer: Facts, source: Facts) -> bool:
    return (
        (not rule.peers or any(pattern.matches(peer.node_id) for pattern in rule.peers))
        and (not rule.peer_regions or not rule.peer_regions.isdisjoint(peer.regions))
        and (not rule.sources or any(pattern.matches(source.node_id) for pattern in rule.sources))
        and (not rule.source_regions or not rule.source_regions.isdisjoint(source.regions))
        and all(source.labels.get(key) == value for key, value in rule.labels)
    )


class RulePolicy:
    """The rules of an operator in use at one relay."""

    __slots__ = (
        "_book",
        "_fenced",
        "_fences",
        "_filters",
        "_hasher",
        "_links",
        "_local",
        "_path_refusals",
        "_tracks",
        "rules",
    )

    def __init__(self, rules: Rules, hasher: KeyedHasher, *, local: NodeId) -> None:
        """Compile the rules; ``hasher`` is the network's, ``local`` is this relay."""
        self.rules = rules
        self._local = local
        self._book = FactBook(rules.regions, rules.notes)
        self._links = LinkTable(rules.links)
        self._fenced = not rules.transit.is_open
        self._path_refusals: dict[tuple[str, tuple[Facts, ...]], Refusal | None] = {}
        self._fences: dict[str, tuple[tuple[str, Fence], ...]] = {
            name: (("transit", rules.transit), (f"classes.{name}.transit", service.transit))
            for name, service in rules.classes.items()
        }
        self._tracks: dict[tuple[bytes, ...], list[TrackRule]] = {}
        for rule in rules.tracks:
            self._tracks.setdefault(rule.namespace.fields, []).append(rule)

        self._hasher = hasher
        self._filters = {
            name: HashedFilter(
                name,
                wanted,
                [
                    None if rule.namespace is None else hasher.elements(rule.namespace.fields)
                    for rule in wanted.rules
                ],
            )
            for name, wanted in rules.filters()
        }

    # Peers and nodes

    def peer(self, node: NodeSelf) -> Refusal | None:
        """Decide whether a node may peer with this relay at all."""
        return first_refusal(self.explain_peer(node))

    def import_node(self, info: NodeInfo, peer: NodeSelf, lookup: NodeInfoLookup) -> Refusal | None:
        """Decide whether a path to a node may be used: by the filter, then by transit rules."""
        refusal = self._node("import.node", info, peer)
        if refusal is not None:
            return refusal
        if not self._fenced:
            return None
        relays = [self._book.of(self._known(self._local, lookup))]
        relays += [
            self._book.of(
                peer if item.node_id == peer.node_id else self._known(item.node_id, lookup)
            )
            for item in reversed(info.path)
        ]
        relays.append(self._book.of(info.node))
        return self._check_path("", tuple(relays))

    def _known(self, node: NodeId, lookup: NodeInfoLookup) -> NodeSelf:
        info = lookup(node)
        return stranger(node) if info is None else info.node

    def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether a node may be advertised to a peer."""
        return self._node("export.node", info, peer)

    def _node(self, name: str, info: NodeInfo, peer: NodeSelf) -> Refusal | None:
        wanted = self._filters[name]
        if wanted.is_open:
            return None
        return wanted.refusal(self._book.of(peer), self._book.of(info.node))

    # Entries

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether an announce of a peer is accepted."""
        return self._announce("import.announce", entry, peer)

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether an announce may be sent to a peer."""
        return self._announce("export.announce", entry, peer)

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether a subscribe of a peer is accepted."""
        return self._subscribe("import.subscribe", entry, peer)

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether a subscribe may be sent to a peer."""
        return self._subscribe("export.subscribe", entry, peer)

    def _announce(self, name: str, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        wanted = self._filters[name]
        if wanted.is_open:
            return None
        source = self._book.of_source(entry.source)
        return wanted.refusal(self._book.of(peer), source, entry.element_hashes)

    def _subscribe(self, name: str, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        wanted = self._filters[name]
        if wanted.is_open:
            return None
        source = self._book.of_source(entry.source, entry.scope)
        return wanted.refusal(self._book.of(peer), source, entry.element_hashes)

    # Tracks

    def subscribe(
        self,
        name: FullTrackName,
        entry: SubscribeInfo,  # noqa: ARG002 - what it says of its source, the source says itself
        source: NodeSelf,
        local: NodeSelf,  # noqa: ARG002 - no rule is about the publisher's place
    ) -> Refusal | None:
        """Decide at the o-relay whether subscribers at ``source`` may have a track."""
        return first_refusal(self.explain_subscriber(name, source))

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        """Decide at the s-relay whether our own clients may have a track."""
        return first_refusal(self.explain_subscriber(name, local))

    def scope(self, name: FullTrackName) -> str:
        """Return the class of the most specific rule that has one; of equal rules the first."""
        found: TrackRule | None = None
        for rule in self._rules_of(name):
            if rule.service_class and (found is None or _depth(rule) > _depth(found)):
                found = rule
        return "" if found is None else found.service_class

    def _rules_of(self, name: FullTrackName) -> Iterator[TrackRule]:
        """Yield the rules that match, the least specific namespace first."""
        fields = name.namespace.fields
        for length in range(len(fields) + 1):
            for rule in self._tracks.get(fields[:length], ()):
                if rule.track in (None, name.name):
                    yield rule

    # Paths

    def region(self, node: NodeSelf) -> str:
        """Return the first region of the policy that contains the node, or the one it declares."""
        return self._book.of(node).region

    def country(self, node: NodeSelf) -> str:
        """Return the country by the operator's notes, or the one that the node declares."""
        return self._book.of(node).country

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """Decide whether data of a class may go along these relays, from this one to the target."""
        return self._check_path(scope, tuple(map(self._book.of, nodes)))

    def _check_path(self, scope: str, relays: tuple[Facts, ...]) -> Refusal | None:
        key = (scope, relays)
        try:
            return self._path_refusals[key]
        except KeyError:
            pass
        if len(self._path_refusals) >= _MEMO:
            self._path_refusals.clear()
        found = first_refusal(path_findings(self._fences_of(scope), self._links, relays))
        self._path_refusals[key] = found
        return found

    def _fences_of(self, scope: str) -> Sequence[tuple[str, Fence]]:
        return self._fences.get(scope) or (("transit", self.rules.transit),)

    def limits(self, scope: str) -> ClassLimits:
        """Return the limits that a class sets for a path."""
        service = self.rules.classes.get(scope)
        return NO_LIMITS if service is None else service.limits

    # Findings of the methods above

    def explain_peer(self, node: NodeSelf) -> Iterator[Finding]:
        """Yield the findings of :meth:`peer`."""
        subject = f"peer {node.node_id}"
        return node_finding("peers", self.rules.peers, subject, self._book.of(node))

    def explain_path(self, scope: str, nodes: Sequence[NodeSelf]) -> Iterator[Finding]:
        """Yield the findings of :meth:`path`."""
        relays = tuple(map(self._book.of, nodes))
        return path_findings(self._fences_of(scope), self._links, relays)

    def explain_subscriber(self, name: FullTrackName, node: NodeSelf) -> Iterator[Finding]:
        """Yield the findings of :meth:`subscribe` and :meth:`local_subscribe`."""
        facts = self._book.of(node)
        for rule in self._rules_of(name):
            yield from node_finding(
                f"track.{rule.name}", rule.subscribers, f"subscribers at {node.node_id}", facts
            )

    def explain_entry(
        self, name: str, peer: NodeSelf, source: NodeSelf, track: FullTrackName | None = None
    ) -> Iterator[Finding]:
        """Yield the findings of a filter such as ``import.subscribe`` about an entry of ``source``.

        An announce or subscribe has a track. An announce carries only the id of its source, a
        subscribe the id and its scope.
        """
        wanted = self._filters[name]
        if not wanted.has_rules:
            return
        if track is None:
            yield wanted.finding(self._book.of(peer), self._book.of(source), None)
        else:
            elements = self._hasher.elements(track.namespace.fields)
            scope = scope_of(source.region) if name.endswith(".subscribe") else ()
            said = self._book.of_source(source.node_id, scope)
            yield wanted.finding(self._book.of(peer), said, elements)

    def facts(self, node: NodeSelf) -> Facts:
        """Return what the policy knows of a node."""
        return self._book.of(node)


def _depth(rule: TrackRule) -> tuple[int, bool]:
    return len(rule.namespace.fields), rule.track is not None


# Explanations


class Explained(NamedTuple):
    """A check of the policy, and what one rule decides."""

    check: str
    """``peer``, ``path``, ``subscriber``, or the name of a filter."""
    finding: Finding


def explain(
    policy: RulePolicy, relays: Sequence[NodeSelf], track: FullTrackName | None = None
) -> list[Explained]:
    """Return every finding about a path, and about a track if one is given.

    The publisher's relay is the first of ``relays``. All of them are taken to have this policy, as
    in a network with one operator::

        publisher at                                                subscriber at
            from  ---- data, announces ---->  via  ---- ... ---->  to
            from  <--- subscribes, nodes ---  via  <--- ... -----  to
    """
    return list(_all(policy, relays, track))


def _all(
    policy: RulePolicy, relays: Sequence[NodeSelf], track: FullTrackName | None
) -> Iterator[Explained]:
    for node in relays:
        yield from (Explained("peer", found) for found in policy.explain_peer(node))
    scope = "" if track is None else policy.scope(track)
    yield from (Explained("path", found) for found in policy.explain_path(scope, relays))
    if track is not None:
        found = policy.explain_subscriber(track, relays[-1])
        yield from (Explained("subscriber", finding) for finding in found)
    first, last = relays[0], relays[-1]
    for near, far in pairwise(reversed(relays)):
        yield from _entry_findings(policy, "node", near, far, last, None)
    if track is not None:
        for near, far in pairwise(relays):
            yield from _entry_findings(policy, "announce", near, far, first, track)
        for near, far in pairwise(reversed(relays)):
            yield from _entry_findings(policy, "subscribe", near, far, last, track)


def _entry_findings(
    policy: RulePolicy,
    kind: str,
    near: NodeSelf,
    far: NodeSelf,
    source: NodeSelf,
    track: FullTrackName | None,
) -> Iterator[Explained]:
    """Yield the findings of both filters that an entry of ``source`` passes from near to far."""
    for check, at, peer in ((f"export.{kind}", near, far), (f"import.{kind}", far, near)):
        for found in policy.explain_entry(check, peer, source, track):
            subject = f"{kind} of {source.node_id} at {at.node_id}, peer {peer.node_id}"
            yield Explained(check, found._replace(subject=subject))
