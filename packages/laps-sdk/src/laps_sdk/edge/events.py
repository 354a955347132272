"""What EdgeRelay reports: events for logs and telemetry, and rows for the admin.

``poll_events`` returns the events. Each is frozen, names sessions by their numbers and tracks by
their names, and holds no token and no byte of an object. Rows do not change when the tables do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import SubscriptionCounters, TrackCounters
from laps_wire.moqt.session import Kind
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "FetchFailed",
    "FetchRelayed",
    "FetchServed",
    "NamespaceAdded",
    "NamespaceGone",
    "NamespaceRow",
    "PrefixAdded",
    "PrefixGone",
    "PublisherAdded",
    "PublisherGone",
    "RelayEvent",
    "ReportsRefused",
    "RequestDenied",
    "SessionClosed",
    "SessionFaulted",
    "SessionLeaving",
    "SessionOpened",
    "SessionRow",
    "SubscriberAdded",
    "SubscriberGone",
    "SubscriptionRow",
    "TrackAdded",
    "TrackRemoved",
    "TrackRow",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened:
    """The SETUP of a session was exchanged: the session may make requests."""

    session: int
    info: SessionInfo
    implementation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosed:
    """A session has ended."""

    session: int
    code: int
    reason: str
    by_peer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFaulted:
    """A peer broke the protocol on a data stream; its session is being closed."""

    session: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLeaving:
    """GOAWAY was sent to a session, or came from it."""

    session: int
    by_peer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAdded:
    """A session published a namespace."""

    session: int
    namespace: Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceGone:
    """A session publishes a namespace no longer."""

    session: int
    namespace: Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixAdded:
    """A session subscribed to the namespaces or tracks below a prefix."""

    session: int
    prefix: Namespace
    namespaces: bool
    tracks: bool
    top_n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixGone:
    """A session has ended its subscription to a prefix."""

    session: int
    prefix: Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackAdded:
    """A track has its first publisher."""

    track: FullTrackName
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRemoved:
    """A track and its cache were forgotten."""

    track: FullTrackName
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherAdded:
    """A session began to feed a track."""

    session: int
    track: FullTrackName
    pushed: bool
    """Whether it sent PUBLISH; False if it answered our SUBSCRIBE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherGone:
    """A session feeds a track no longer."""

    session: int
    track: FullTrackName
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberAdded:
    """A session began to receive a track."""

    session: int
    request_id: int
    track: FullTrackName
    pushed: bool
    """Whether we sent PUBLISH; False if it sent SUBSCRIBE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberGone:
    """A session receives a track no longer."""

    session: int
    request_id: int
    track: FullTrackName
    reason: str
    counters: SubscriptionCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDenied:
    """The relay rejected a request or an update."""

    session: int
    request_id: int
    kind: Kind | None
    code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchServed:
    """A FETCH was answered from the cache."""

    session: int
    track: FullTrackName
    complete: bool
    """False if parts of the range are not known; the answer marks those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRelayed:
    """A FETCH was passed on to a publisher."""

    session: int
    track: FullTrackName
    publisher: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailed:
    """A FETCH ended before all of its objects were sent."""

    session: int
    track: FullTrackName
    reason: str


@dataclass(frozen=True, slots=True)
class ReportsRefused:
    """Reports of a player were refused."""

    session: int
    kind: str
    """Which limit or check it was."""
    reason: str
    count: int


RelayEvent: TypeAlias = (
    SessionOpened
    | SessionClosed
    | SessionFaulted
    | SessionLeaving
    | NamespaceAdded
    | NamespaceGone
    | PrefixAdded
    | PrefixGone
    | TrackAdded
    | TrackRemoved
    | PublisherAdded
    | PublisherGone
    | SubscriberAdded
    | SubscriberGone
    | RequestDenied
    | FetchServed
    | FetchRelayed
    | FetchFailed
    | ReportsRefused
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """The figures of one session."""

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
    """The figures of one track."""

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
    """The figures of one receiver of a track."""

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
