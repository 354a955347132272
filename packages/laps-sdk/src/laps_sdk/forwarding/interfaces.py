"""The borders inside a relay: control plane, forwarding plane, and what surrounds both.

::

      io (shell)                 control plane                      forwarding plane
    MoQT session events ----->  EdgeRelay.handle_*  -- program -->  ForwardingPlane
    timers                      tables, policy                      FIB, cache
                                       ^------------- notices -----------'
    data streams, datagrams ------------------------------------->  hot path
    connections  <------------------------------------------------  Egress, OutStream

Nothing in the control plane looks at a byte of an object; nothing in the forwarding plane looks at
a namespace, a token or a policy. Both get the time as an argument: seconds of a monotonic clock.

Numbers: a *session* is a number that the shell gives; a *track* is one that the control plane
gives, never used twice; a *subscription* is (session, request id), whoever made the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from laps_wire.errors import RemoteError
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName

__all__ = [
    "CacheLimits",
    "Egress",
    "EgressEntry",
    "FetchEnded",
    "FetchOutcome",
    "FetchRange",
    "ForwardingPlane",
    "LinkedStream",
    "Notice",
    "OutStream",
    "PeerEgress",
    "PlaneCounters",
    "PlaneLimits",
    "Point",
    "RankChanged",
    "SessionFault",
    "Subscription",
    "SubscriptionCounters",
    "SubscriptionDone",
    "Taker",
    "TrackCounters",
    "TrackEnded",
    "TrackMalformed",
    "UpstreamEnded",
]


class OutStream(Protocol):
    """The sending half of a stream: never blocks, never raises because of the network."""

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""

    @property
    def queued(self) -> int:
        """Bytes written that have not been sent yet."""

    def write(self, data: bytes, fin: bool = False) -> None:
        """Queue bytes by reference; ignored if closed."""

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """Write bytes unless enough is queued already; return False if they were refused."""

    def pull_from(self, source: Callable[[float], None]) -> None:
        """Call ``source`` with the time, once, when there is room: it may write then."""

    def reset(self, code: int) -> None:
        """Abandon it."""

    def set_priority(self, priority: int) -> None:
        """Lower is more urgent."""

    def set_deadline(self, deadline: float | None) -> None:
        """When what has not been sent is given up."""


@runtime_checkable
class LinkedStream(OutStream, Protocol):
    """A stream to other relays, who must know whether its beginning is on another one."""

    def goes_on(self) -> None:
        """Mark it, before anything is written: the subgroup has an earlier beginning."""


class Egress(Protocol):
    """A session's connection as the forwarding plane sees it."""

    @property
    def max_datagram_size(self) -> int:
        """The longest datagram that can be sent now; 0 if the peer takes none."""

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        """Open a stream; it waits its turn if the peer allows no more yet."""

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """Queue a datagram; False if it cannot be sent."""

    def stop_sending(self, stream_id: int, code: int) -> None:
        """Ask the peer to abandon an incoming stream."""


class PeerEgress(Egress, Protocol):
    """The same of a connection to another relay."""

    def unacknowledged(self) -> frozenset[int]:
        """Streams that were handed to QUIC, their end too, and have not all arrived."""


class Taker(Protocol):
    """Who gets the objects of tracks that the relay takes itself."""

    def take(self, now: float, session: int, payload: bytes) -> None:
        """A whole object of a session."""

    def refuse(self, session: int, kind: str, reason: str) -> None:
        """An object of it was given up, for a reason of this kind."""


# What the control plane programs


class Subscription(NamedTuple):
    """Who receives: a request of a session.

    It may be the peer's SUBSCRIBE or FETCH, or our own PUBLISH to it.
    """

    session: int
    request_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressEntry:
    """One receiver of a track."""

    track: int
    alias: int
    """The track alias that the receiver knows."""
    start: Location | None = None
    """Nothing before this; None: from the next object that arrives (an object that is under way
    counts as arrived: a late subscriber starts with the next whole object)."""
    end_group: int | None = None
    """Nothing behind this group; None: no end."""
    forward: bool = True
    """False: keep the entry, send nothing."""
    priority: int = 128
    """The subscriber's, 0 to 255, lower first."""
    order: GroupOrder = GroupOrder.ASCENDING
    delivery_timeout: float | None = None
    """Seconds after which an object is not worth sending; None: no limit."""
    echo: bool = True
    """Whether it gets what its own session sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimits:
    """What the cache keeps; whichever limit is reached first evicts the oldest group."""

    max_bytes: int = 64 * 1024 * 1024
    """Of all tracks together."""
    max_track_bytes: int = 8 * 1024 * 1024
    max_groups: int = 1024
    """Groups of one track."""
    max_age: float = 60.0
    """Seconds since an object arrived, if its track or object gives no shorter one."""
    max_objects: int = 65536
    """Objects of one track."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRange:
    """What a FETCH asks for, resolved to locations."""

    track: int
    start: Location
    end: Location
    """Inclusive; object (1 << 62) - 1 stands for "to the end of the group"."""
    order: GroupOrder = GroupOrder.ASCENDING
    priority: int = 128


class FetchOutcome(Enum):
    """What the cache can do about a FETCH."""

    SERVED = "served"
    """Everything is known: objects (and their absences) are being sent."""
    GAPS = "gaps"
    """Not all of it is known: nothing was sent; ask upstream, or ``serve_fetch(partial=True)``."""


class TrackCounters(NamedTuple):
    """Of one track, since it was added."""

    objects_in: int
    bytes_in: int
    objects_out: int
    bytes_out: int
    datagrams_in: int
    datagrams_out: int
    duplicates: int
    """Objects that came twice, from a second publisher or on a second stream, and went nowhere."""
    dropped_objects: int
    dropped_bytes: int
    cached_bytes: int
    cached_groups: int
    cached_objects: int
    receivers: int


class SubscriptionCounters(NamedTuple):
    """Of one receiver."""

    objects: int
    bytes: int
    streams: int
    """Opened; what PUBLISH_DONE tells as stream count."""
    datagrams: int
    dropped_streams: int
    dropped_bytes: int
    dropped_datagrams: int


# What the plane tells the control plane


class SessionFault(NamedTuple):
    """A peer broke the protocol on a data stream or in a datagram: close its session."""

    session: int
    error: RemoteError


class TrackMalformed(NamedTuple):
    """A publisher broke the object model: end the track's subscriptions with MALFORMED_TRACK."""

    track: int
    session: int
    reason: str


class TrackEnded(NamedTuple):
    """An END_OF_TRACK object was forwarded: nothing comes behind ``final``."""

    track: int
    final: Location


class Point(NamedTuple):
    """A place in a subgroup: where a log ends, or where another relay lacks objects."""

    group: int
    subgroup: int
    object: int
    ended: bool = False
    """Whether no object follows; only of the end of a log."""


class SubscriptionDone(NamedTuple):
    """A receiver got all that it wants, or all that there is; its streams are finished."""

    subscription: Subscription


class FetchEnded(NamedTuple):
    """The answer to a FETCH of a peer was sent, or its stream was reset; the request is over."""

    subscription: Subscription
    complete: bool


class UpstreamEnded(NamedTuple):
    """The data stream of a FETCH of ours ended; ``complete`` if it did so in good order."""

    session: int
    request_id: int
    complete: bool


class RankChanged(NamedTuple):
    """A track's ranking property (see ``rank_by``) changed."""

    track: int
    value: int


Notice: TypeAlias = (
    SessionFault
    | TrackMalformed
    | TrackEnded
    | SubscriptionDone
    | FetchEnded
    | UpstreamEnded
    | RankChanged
)


class ForwardingPlane(Protocol):
    """Everything that happens for each object. Implemented by :mod:`laps_sdk.forwarding`."""

    # Sessions

    def add_session(
        self,
        session: int,
        draft: Draft,
        egress: Egress,
        *,
        peering: bool = False,
        upstream: bool = False,
    ) -> None:
        """Objects may come from and go to this session; ``peering``: other relays are there.

        With ``upstream`` those are all of a network: who has an object there and who wants it are
        different ones.
        """

    def remove_session(self, now: float, session: int) -> None:
        """Forget a session with its receivers; another one may bring the rest of its streams.

        Streams of a session with other relays behind it end as if reset.
        """

    # Tracks

    def add_track(self, track: int, name: FullTrackName, *, max_age: float | None = None) -> None:
        """Begin to know a track; ``max_age`` is its publisher's limit for caches, in seconds."""

    def remove_track(self, now: float, track: int) -> None:
        """Forget a track with its cache, its ingress and its receivers."""

    def largest(self, track: int) -> Location | None:
        """The largest location seen."""

    def rank_by(self, track: int, property_type: int | None) -> None:
        """Report ``RankChanged`` for this extension of the track's objects; None: do not."""

    # Ingress

    def add_ingress(
        self,
        now: float,
        session: int,
        alias: int,
        track: int,
        priority: int,
        largest: Location | None = None,
    ) -> None:
        """Objects with this alias belong to the track; what waited for it is forwarded now.

        ``priority`` is the publisher's default for objects that carry none, ``largest`` the
        largest location before. Several ingresses may feed one track: an object that came already
        is not sent again.
        """

    def remove_ingress(self, now: float, session: int, alias: int) -> None:
        """No more objects with this alias; streams under way are still forwarded to their end."""

    def ingress_streams(self, session: int, alias: int) -> tuple[int, int]:
        """How many subgroup streams began with this alias, and how many are not over yet."""

    def add_intake(
        self, now: float, session: int, alias: int, taker: Taker, object_bytes: int
    ) -> None:
        """Objects with this alias are for ``taker``, if they are not longer than that."""

    def remove_intake(self, session: int, alias: int) -> None:
        """No more objects with this alias."""

    # Egress

    def add_egress(self, now: float, subscription: Subscription, entry: EgressEntry) -> None:
        """Send a track to a receiver: what is cached from ``start`` on, then all that comes."""

    def update_egress(self, now: float, subscription: Subscription, entry: EgressEntry) -> None:
        """Change range, priority, forward state or timeout of a receiver."""

    def renew_egress(self, subscription: Subscription, before: float = inf) -> None:
        """Let its open streams end before their next objects, which come on new streams.

        Those that began after ``before`` go on as they are.
        For other relays only: clients do not know how such a stream ends (laps-2, 7.2).
        """

    def finish_egress(self, subscription: Subscription) -> bool:
        """Begin no further streams; return whether all streams have ended.

        Otherwise those that are behind read what the log has, and then
        :class:`SubscriptionDone` follows.
        """

    def remove_egress(
        self, now: float, subscription: Subscription, *, reset_code: int | None
    ) -> SubscriptionCounters:
        """Stop; open streams are reset with the code, or with None left to end by themselves."""

    # Repair

    def positions(self, track: int, since: float) -> list[Point]:
        """Return the ends of all subgroups that have changed since then."""

    def lacking(
        self, now: float, track: int, points: Sequence[Point], hold: float, *, lost: bool
    ) -> list[Point]:
        """Return where to resume subgroups that another log has, and this one has not.

        What may be under way is left out, for ``hold`` seconds, unless a path was just ``lost``.
        """

    def resume_egress(
        self, now: float, subscription: Subscription, points: Sequence[Point]
    ) -> list[Point]:
        """Send subgroups again from these objects on; return the points that are gone."""

    def stream_lost(self, now: float, session: int, stream_id: int) -> None:
        """An incoming stream was lost with its path: another one may bring the rest."""

    def give_up(self, now: float, track: int, points: Sequence[Point]) -> None:
        """Wait no longer for these subgroups: their objects are gone."""

    # Fetch

    def serve_fetch(
        self, now: float, subscription: Subscription, wanted: FetchRange, *, partial: bool = False
    ) -> FetchOutcome:
        """Answer from the cache; call it after FETCH_OK was queued only if :meth:`covers` agreed.

        ``partial``: send what there is; what is not known is told as "unknown" ranges.
        """

    def covers(self, now: float, wanted: FetchRange) -> bool:
        """Whether the cache knows every object of the range, or knows that there is none."""

    def relay_fetch(
        self,
        session: int,
        request_id: int,
        subscription: Subscription,
        wanted: FetchRange,
    ) -> None:
        """Pass the stream that answers our own FETCH on to a receiver, and keep its objects."""

    def cancel_fetch(self, now: float, subscription: Subscription, reset_code: int) -> None:
        """The receiver gave up, or the upstream did."""

    # Cache

    def purge(self, track: int | None = None) -> int:
        """Forget cached objects of one or all tracks; how many bytes that were."""

    def set_cache_limits(self, now: float, limits: CacheLimits) -> None:
        """Change them; what is over is evicted now."""

    # Hot path: from the shell

    def stream_opened(
        self,
        now: float,
        session: int,
        stream_id: int,
        kind: StreamKind,
        data: bytes,
        fin: bool,
        *,
        continued: bool = False,
    ) -> None:
        """A data stream began (see ``DataStreamOpened`` of the session).

        ``continued``: it goes on with a subgroup that another stream brings the beginning of.
        """

    def stream_data(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """More of it."""

    def stream_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """The peer abandoned it."""

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """A datagram arrived."""

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        """An outgoing stream was dropped by the egress, or stopped by the peer."""

    # Polls

    def poll_notices(self) -> list[Notice]:
        """What the control plane must know; taken once."""

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""

    def handle_timeout(self, now: float) -> None:
        """Evict what is too old, give up what waited too long for its alias."""

    # Figures

    def track_counters(self, track: int) -> TrackCounters:
        """Of one track."""

    def subscription_counters(self, subscription: Subscription) -> SubscriptionCounters | None:
        """Of one receiver; None if there is no such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneLimits:
    """Bounds of everything that a peer can make the plane remember, besides the cache."""

    pending_streams: int = 256
    """Streams of one session that wait for their alias to become known."""
    pending_bytes: int = 1024 * 1024
    """Their bytes, and those of datagrams that wait."""
    pending_time: float = 3.0
    """Seconds that they wait."""
    continued_time: float = 10.0
    """Seconds that a subgroup which was cut waits for the stream that goes on with it, and that one
    for the beginning; as long again while something of groups that are not newer comes."""
    continued_limit: float = 30.0
    """Seconds that either waits in all."""
    group_records: int = 1024
    """Groups of one track whose object ids are remembered, to know what came already."""
    id_ranges: int = 1024
    """Ranges of ids remembered for one group; publishers that count up need one."""
    lagging_streams: int = 8
    """Streams of one receiver that may be behind at a time; more subgroups wait in the log."""
    spans: int = 256
    """Stretches of objects of one subgroup, with holes between them."""
    finished_streams: int = 512
    """Finished streams of one session that are remembered, to count what is dropped of them."""
    fetch_window: int = 256 * 1024
    """Bytes of one fetch answer that wait in the egress; more is made when these are sent."""
    fetch_interval: float = 0.005
    """Seconds between two looks whether a fetch answer can go on."""
    linger: float = 5.0
    """Seconds until a stream with the cached part of an abandoned subgroup is reset as well."""


class PlaneCounters(NamedTuple):
    """What the plane gave up, and why; of all sessions together."""

    unknown_alias_streams: int
    """Whose alias nobody named in time."""
    unknown_alias_datagrams: int
    pending_overflow_streams: int
    """That did not fit while waiting for an alias."""
    pending_overflow_datagrams: int
    late_objects: int
    """That came behind later ones of their subgroup, and could not be put before them."""
    timed_out_streams: int
    """Reset because data waited longer than the delivery timeout."""
