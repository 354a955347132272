"""What the admin sees of the tables: rows that do not change when the tables do."""

from __future__ import annotations

from dataclasses import dataclass

from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import SubscriptionCounters, TrackCounters
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName, Namespace

__all__ = ["NamespaceRow", "SessionRow", "SubscriptionRow", "TrackRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One session."""

    session: int
    info: SessionInfo
    opened: float
    ready: bool
    """Whether its SETUP has come."""
    leaving: bool
    subscriptions: int
    publishes: int
    namespaces: int
    prefixes: int
    fetches: int
    offers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRow:
    """One track."""

    track: FullTrackName
    number: int
    live: bool
    """Whether it has a publisher; if not, it waits for one or only its cache is left."""
    publishers: tuple[int, ...]
    subscribers: int
    waiting: int
    largest: Location | None
    rank: int | None
    counters: TrackCounters
    network: bool = False
    """Whether the relay network feeds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """One receiver of a track."""

    session: int
    request_id: int
    track: FullTrackName
    pushed: bool
    established: bool
    forward: bool
    priority: int
    expires: float | None
    counters: SubscriptionCounters | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRow:
    """A namespace that a session publishes."""

    namespace: Namespace
    session: int
    expires: float | None
