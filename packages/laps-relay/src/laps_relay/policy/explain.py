"""Why something is allowed or not: every rule that has a say about a way and a track.

All relays on the way are taken to have this policy, as in a network with one operator::

    publisher at                                                subscriber at
        from  ---- data, announces ---->  via  ---- ... ---->  to
        from  <--- subscribes, nodes ---  via  <--- ... -----  to
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from laps_relay.policy.judges import Finding
from laps_relay.policy.rule_policy import RulePolicy
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import NodeSelf

__all__ = ["Explained", "explain"]


class Explained(NamedTuple):
    """What was asked, and what a rule says."""

    check: str
    """peer, path, subscriber, or the name of a filter."""
    finding: Finding


def explain(
    policy: RulePolicy, relays: Sequence[NodeSelf], track: FullTrackName | None = None
) -> list[Explained]:
    """All findings about a way, the publisher's relay first, and about a track if one is given."""
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
        yield from _passed(policy, "node", near, far, last, None)
    if track is not None:
        for near, far in pairwise(relays):
            yield from _passed(policy, "announce", near, far, first, track)
        for near, far in pairwise(reversed(relays)):
            yield from _passed(policy, "subscribe", near, far, last, track)


def _passed(
    policy: RulePolicy,
    kind: str,
    near: NodeSelf,
    far: NodeSelf,
    source: NodeSelf,
    track: FullTrackName | None,
) -> Iterator[Explained]:
    """What ``source`` said goes from ``near`` to ``far``: out by one filter, in by the other."""
    for check, at, peer in ((f"export.{kind}", near, far), (f"import.{kind}", far, near)):
        for found in policy.explain_entry(check, peer, source, track):
            subject = f"{kind} of {source.node_id} at {at.node_id}, peer {peer.node_id}"
            yield Explained(check, found._replace(subject=subject))
