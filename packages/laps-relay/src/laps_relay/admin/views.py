"""What the admin needs of a relay, and the rows of its API.

The admin knows a relay only through :class:`RelayView` and :class:`NetworkView`. Fields of rows are
named as in the tables of the core. Tracks are in the text form of ``laps_wire.names``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Generic, Protocol, TypeVar, overload

from pydantic import BaseModel, Field

from laps_relay.network.views import AnnounceRow, FibRow, NodeRow, PeerRow, SetRow, SubscribeRow
from laps_sdk.edge.events import NamespaceRow, SessionRow, SubscriptionRow, TrackRow
from laps_sdk.peering.dialler import DialRow
from laps_sdk.quic.base import ConnectionStats
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.telemetry import safe_text

__all__ = [
    "CacheState",
    "ConfigValue",
    "Info",
    "LazyRows",
    "Live",
    "NamespaceItem",
    "NetworkView",
    "Page",
    "PlanState",
    "PolicyState",
    "Purged",
    "RelayView",
    "SessionItem",
    "SubscriptionItem",
    "Totals",
    "TrackItem",
    "namespace_item",
    "session_item",
    "subscription_item",
    "totals",
    "track_item",
]

T = TypeVar("T")


class Info(BaseModel):
    """Version, addresses and state of a relay."""

    version: str
    node_id: str
    region: str
    url: str
    """The address that clients connect to."""
    transport: str
    drafts: list[str]
    certificate_sha256: str
    certificate_expires: str
    started: str
    uptime_seconds: float
    draining: bool
    authorization: bool
    """Whether requests need tokens."""


class Page(BaseModel, Generic[T]):
    """Some rows of a table."""

    total: int
    offset: int
    limit: int
    items: list[T]


class SessionItem(BaseModel):
    """One session, with the figures of its connection."""

    session: int
    address: str
    draft: str
    webtransport: bool
    path: str
    authority: str
    age_seconds: float
    ready: bool
    leaving: bool
    subscriptions: int
    publishes: int
    namespaces: int
    prefixes: int
    fetches: int
    offers: int
    rtt_ms: float | None = None
    bytes_sent: int | None = None
    bytes_received: int | None = None
    packets_lost: int | None = None
    queued_bytes: int | None = None
    dropped_streams: int | None = None
    dropped_datagrams: int | None = None


class TrackItem(BaseModel):
    """One track."""

    track: str
    namespace: str
    name: str
    number: int
    live: bool
    publishers: list[int]
    subscribers: int
    waiting: int
    largest_group: int | None
    largest_object: int | None
    rank: int | None
    objects_in: int
    bytes_in: int
    objects_out: int
    bytes_out: int
    datagrams_in: int
    datagrams_out: int
    duplicates: int
    dropped_objects: int
    dropped_bytes: int
    cached_bytes: int
    cached_groups: int
    cached_objects: int


class SubscriptionItem(BaseModel):
    """One receiver of a track."""

    session: int
    request_id: int
    track: str
    pushed: bool
    established: bool
    forward: bool
    priority: int
    expires_seconds: float | None
    objects: int = 0
    bytes: int = 0
    streams: int = 0
    datagrams: int = 0
    dropped_streams: int = 0
    dropped_bytes: int = 0
    dropped_datagrams: int = 0


class NamespaceItem(BaseModel):
    """A namespace that a session publishes."""

    namespace: str
    session: int
    expires_seconds: float | None


class CacheState(BaseModel):
    """How full the cache is, and what it may hold."""

    bytes: int
    objects: int
    groups: int
    tracks: int
    limits: dict[str, float]


class Purged(BaseModel):
    """The result of a purge."""

    bytes: int


class ConfigValue(BaseModel):
    """One key of the configuration; secrets are masked."""

    key: str
    value: Any
    source: str


class Totals(BaseModel):
    """Sums over all present tracks."""

    sessions: int
    tracks: int
    subscriptions: int
    namespaces: int
    objects_in: int
    bytes_in: int
    objects_out: int
    bytes_out: int
    dropped_objects: int
    dropped_bytes: int
    cached_bytes: int


class Live(BaseModel):
    """The snapshot that the live page draws once a second."""

    time: float
    """Unix time, in seconds."""
    totals: Totals
    sessions: list[SessionItem]
    tracks: list[TrackItem]


class PolicyState(BaseModel):
    """The policy that is in force."""

    file: str
    rules: list[str] = Field(description="Each rule in words.")


class PlanState(BaseModel):
    """The plan that is followed, if there is one."""

    id: Annotated[str, Field(description="Empty: no plan is followed.")] = ""
    version: int = 0
    made_us: int = 0
    expires_us: int = 0
    entries: Annotated[int, Field(description="Entries for this relay.")] = 0
    source: Annotated[str, Field(description="The file, or admin.")] = ""
    refusal: Annotated[
        str, Field(description="Why the last plan was not followed, or what it waits for.")
    ] = ""


class RelayView(Protocol):
    """What the admin needs of a relay."""

    @property
    def now(self) -> float:
        """The clock of the tables."""

    @property
    def ready(self) -> bool:
        """Whether clients are accepted."""

    @property
    def certificate_sha256(self) -> str:
        """SHA-256 of the certificate that new connections get, in hex."""

    def info(self) -> Info:
        """Return version, addresses and state of the relay."""

    def sessions(self) -> Sequence[SessionRow]:
        """Return all sessions."""

    def connection(self, session: int) -> ConnectionStats | None:
        """Return the figures of a session's connection."""

    def tracks(self) -> Sequence[TrackRow]:
        """Return all tracks."""

    async def tracks_in_parts(self) -> Sequence[TrackRow]:
        """Return all tracks, read without delaying the loop."""

    def subscriptions(self) -> Sequence[SubscriptionRow]:
        """Return all receivers."""

    def namespaces(self) -> Sequence[NamespaceRow]:
        """Return all published namespaces."""

    def cache_limits(self) -> dict[str, float]:
        """Return what the cache may hold."""

    def purge(self, track: FullTrackName | None) -> int:
        """Remove cached objects; return their bytes."""

    def config(self) -> list[ConfigValue]:
        """Return every configuration value with its source."""

    def drain(self, new_uri: str) -> None:
        """Send all clients away."""

    def stay(self) -> str | None:
        """Take a drain back; return why that is refused, or None."""

    def redirect(self, sessions: Sequence[int] | None, share: float, new_uri: str) -> int:
        """Send some clients elsewhere; return how many."""

    async def metrics(self) -> bytes:
        """Return the text for Prometheus."""


class NetworkView(Protocol):
    """What the admin needs of a relay's part in the network."""

    @property
    def now(self) -> float:
        """The clock of the tables."""

    def peers(self) -> Sequence[PeerRow]:
        """Return all connections to other relays."""

    def contacts(self) -> Sequence[DialRow]:
        """Return where connections are dialled."""

    def peer_connection(self, session: int) -> ConnectionStats | None:
        """Return the figures of a peer's connection."""

    def nodes(self) -> Sequence[NodeRow]:
        """Return the NIB."""

    def announces(self) -> Sequence[AnnounceRow]:
        """Return all announces."""

    def subscribes(self, key: int | None = None) -> Sequence[SubscribeRow]:
        """Return all subscribes, or those of one track."""

    def sets(self) -> Sequence[SetRow]:
        """Return all subscriber node sets."""

    def fib(self) -> Sequence[FibRow]:
        """Return the FIB."""

    def policy(self) -> PolicyState:
        """Return the policy that is in force."""

    def forget_key(self, node: NodeId) -> str | None:
        """Let another key hold a node id; return why that is refused, or None."""

    def plan(self) -> PlanState:
        """Return the plan that is followed."""

    def offer_plan(self, text: bytes) -> str | None:
        """Follow this plan; return why that is refused, or None."""

    def drop_plan(self) -> bool:
        """Follow no plan; return whether there was one."""


class LazyRows(Sequence[T]):
    """A table whose rows are made when they are read.

    A million rows take seconds to make, and a relay that stands still for so long loses its peers.
    """

    __slots__ = ("_rows", "_size")

    def __init__(self, size: int, rows: Callable[[slice], Sequence[T]]) -> None:
        """``rows``: those of a slice that has a start, and no step."""
        self._size = size
        self._rows = rows

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._size

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        """Return one row, or a slice of rows."""
        if isinstance(index, int):
            at = range(self._size)[index]
            return self._rows(slice(at, at + 1))[0]
        start, stop, step = index.indices(self._size)
        if step != 1:
            return [self[at] for at in range(start, stop, step)]
        return self._rows(slice(start, max(start, stop)))

    def __iter__(self) -> Iterator[T]:
        """Iterate over all rows, which are made at once."""
        return iter(self._rows(slice(0, self._size)))


def session_item(row: SessionRow, stats: ConnectionStats | None, now: float) -> SessionItem:
    """Return a session as the API shows it."""
    item = SessionItem(
        session=row.session,
        address=row.info.peer_address,
        draft=row.info.draft.alpn,
        webtransport=row.info.webtransport,
        path=safe_text(row.info.path),
        authority=safe_text(row.info.authority),
        age_seconds=max(0.0, now - row.opened),
        ready=row.ready,
        leaving=row.leaving,
        subscriptions=row.subscriptions,
        publishes=row.publishes,
        namespaces=row.namespaces,
        prefixes=row.prefixes,
        fetches=row.fetches,
        offers=row.offers,
    )
    if stats is None:
        return item
    return item.model_copy(
        update={
            "rtt_ms": None if stats.rtt is None else stats.rtt * 1000.0,
            "bytes_sent": stats.bytes_sent,
            "bytes_received": stats.bytes_received,
            "packets_lost": stats.packets_lost,
            "queued_bytes": stats.queued_bytes,
            "dropped_streams": stats.dropped_streams,
            "dropped_datagrams": stats.dropped_datagrams,
        }
    )


def track_item(row: TrackRow) -> TrackItem:
    """Return a track as the API shows it."""
    counters = row.counters._asdict()
    del counters["receivers"]
    return TrackItem(
        track=str(row.track),
        namespace=str(row.track.namespace),
        name=str(row.track).partition("--")[2],
        number=row.number,
        live=row.live,
        publishers=list(row.publishers),
        subscribers=row.subscribers,
        waiting=row.waiting,
        largest_group=None if row.largest is None else row.largest.group,
        largest_object=None if row.largest is None else row.largest.object,
        rank=row.rank,
        **counters,
    )


def subscription_item(row: SubscriptionRow, now: float) -> SubscriptionItem:
    """Return a receiver as the API shows it."""
    counters = {} if row.counters is None else row.counters._asdict()
    return SubscriptionItem(
        session=row.session,
        request_id=row.request_id,
        track=str(row.track),
        pushed=row.pushed,
        established=row.established,
        forward=row.forward,
        priority=row.priority,
        expires_seconds=None if row.expires is None else row.expires - now,
        **counters,
    )


def namespace_item(row: NamespaceRow, now: float) -> NamespaceItem:
    """Return a namespace as the API shows it."""
    return NamespaceItem(
        namespace=str(row.namespace),
        session=row.session,
        expires_seconds=None if row.expires is None else row.expires - now,
    )


def totals(view: RelayView, tracks: Sequence[TrackRow]) -> Totals:
    """Return the sums over all tracks."""
    counters = [row.counters for row in tracks]
    return Totals(
        sessions=len(view.sessions()),
        tracks=len(tracks),
        subscriptions=sum(row.subscribers for row in tracks),
        namespaces=len(view.namespaces()),
        objects_in=sum(item.objects_in for item in counters),
        bytes_in=sum(item.bytes_in for item in counters),
        objects_out=sum(item.objects_out for item in counters),
        bytes_out=sum(item.bytes_out for item in counters),
        dropped_objects=sum(item.dropped_objects for item in counters),
        dropped_bytes=sum(item.dropped_bytes for item in counters),
        cached_bytes=sum(item.cached_bytes for item in counters),
    )
