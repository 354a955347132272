"""What others see of the sets: rows that do not change when the sets do, and counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from laps_relay.peer_forwarding.forwarding import EgressSet, Ingress
from laps_wire.nodeid import NodeId

__all__ = ["EgressRow", "SetRow", "SetsCounters"]


class EgressRow(NamedTuple):
    """One of our sets."""

    egress: EgressSet
    targets: tuple[NodeId, ...]
    """Lowest first."""
    retired: bool
    """Whether only streams that are under way still use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow:
    """Where the data of one ingress goes."""

    ingress: Ingress
    key: int | None
    """Of a feed; None for a set of a peer."""
    hops: int
    """In the sets that we make of it."""
    scope: str
    local: bool
    """Whether our own clients get it."""
    targets: tuple[NodeId, ...]
    """All that it is for, lowest first."""
    egress: tuple[EgressRow, ...]
    unserved: tuple[tuple[NodeId, str], ...]
    """Targets that get nothing now, and why."""


@dataclass(slots=True)
class SetsCounters:
    """Since the start."""

    made: int = 0
    """Sets of ours that were advertised."""
    moved: int = 0
    """Sets that were retired because targets moved."""
    ended: int = 0
    """Sets of ours that were withdrawn, or ended with their session."""
    refused: int = 0
    """Targets of peers' sets that we refused."""
    refused_by_peers: int = 0
    """Targets of our sets that a peer refused."""
    unknown_by_peers: int = 0
    """Sets of ours that came too late for data that was before them."""
    asked_anew: int = 0
    """How often the sender of a set was asked to go on in new streams."""
    over_caps: int = 0
    """Sets or changes that a session did not take: the peer's limits, or it was about to end."""
