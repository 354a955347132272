"""The checks that apply rules: each check yields a finding for every rule.

A policy in use stops at the first finding that is not allowed; ``policy explain`` shows all. Both
read the same findings, so an explanation cannot differ from the decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from laps_relay.policy.facts import Facts
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link
from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId

__all__ = [
    "Finding",
    "HashedFilter",
    "LinkTable",
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
