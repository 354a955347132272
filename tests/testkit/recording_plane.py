"""A forwarding plane that forwards nothing: it keeps what it was told, and checks it.

Every call that no plane could carry out fails at once: a receiver of an unknown track, an alias
that stands for two tracks, a session that is not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from laps_sdk.forwarding.interfaces import (
    CacheLimits,
    Egress,
    EgressEntry,
    FetchOutcome,
    FetchRange,
    Notice,
    OutStream,
    Point,
    Subscription,
    SubscriptionCounters,
    Taker,
    TrackCounters,
)
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName

__all__ = ["NullEgress", "RecordingPlane", "RelayedFetch"]


class NullEgress:
    """A connection that nothing is sent on."""

    max_datagram_size = 1200

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        raise AssertionError("the control plane opens no streams")

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        raise AssertionError("the control plane sends no datagrams")

    def stop_sending(self, stream_id: int, code: int) -> None:
        raise AssertionError("the control plane stops no streams")


@dataclass(frozen=True)
class RelayedFetch:
    """A FETCH that is passed on."""

    session: int
    request_id: int
    wanted: FetchRange


class RecordingPlane:
    """What was programmed, and what a test wants to be told back."""

    def __init__(self) -> None:
        self.sessions: dict[int, Draft] = {}
        self.tracks: dict[int, FullTrackName] = {}
        self.max_age: dict[int, float | None] = {}
        self.ranked: dict[int, int] = {}
        self.ingress: dict[tuple[int, int], tuple[int, int]] = {}
        """(session, alias) -> (track, priority)."""
        self.intakes: dict[tuple[int, int], Taker] = {}
        self.egress: dict[Subscription, EgressEntry] = {}
        self.renewed: list[Subscription] = []
        self.resets: list[tuple[Subscription, int | None]] = []
        """Receivers that were removed, and how."""
        self.served: dict[Subscription, tuple[FetchRange, bool]] = {}
        self.relayed: dict[Subscription, RelayedFetch] = {}
        self.cancelled: list[tuple[Subscription, int]] = []
        self.purged: list[int | None] = []
        self.used: set[int] = set()
        """Every track number ever seen."""
        self.upstream: set[int] = set()
        """Sessions with a whole network behind them."""
        # What a test says
        self.largest_of: dict[int, Location] = {}
        self.covered: set[int] = set()
        """Tracks whose cache knows everything."""
        self.cached: defaultdict[int, int] = defaultdict(int)
        """Objects in the cache, by track."""
        self.streams: defaultdict[Subscription, int] = defaultdict(int)
        """Streams that were opened for a receiver."""
        self.lagging: set[Subscription] = set()
        """Receivers with streams behind the tail."""
        self.incoming: dict[tuple[int, int], tuple[int, int]] = {}
        """Streams of a publisher that began, and those under way; else all came and are over."""
        self.notices: list[Notice] = []
        self.log: list[str] = []
        """The order of programming."""

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
        assert session not in self.sessions
        self.sessions[session] = draft
        if upstream:
            self.upstream.add(session)

    def remove_session(self, now: float, session: int) -> None:
        del self.sessions[session]
        self.ingress = {key: item for key, item in self.ingress.items() if key[0] != session}
        self.egress = {key: item for key, item in self.egress.items() if key.session != session}

    # Tracks

    def add_track(self, track: int, name: FullTrackName, *, max_age: float | None = None) -> None:
        assert track not in self.used, "a number is used twice"
        self.used.add(track)
        self.tracks[track] = name
        self.max_age[track] = max_age

    def remove_track(self, now: float, track: int) -> None:
        del self.tracks[track]
        assert not [key for key, (fed, _) in self.ingress.items() if fed == track]
        assert not [key for key, entry in self.egress.items() if entry.track == track]
        self.ranked.pop(track, None)

    def largest(self, track: int) -> Location | None:
        assert track in self.tracks
        return self.largest_of.get(track)

    def rank_by(self, track: int, property_type: int | None) -> None:
        assert track in self.tracks
        if property_type is None:
            del self.ranked[track]
        else:
            self.ranked[track] = property_type

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
        assert session in self.sessions
        assert track in self.tracks
        assert (session, alias) not in self.ingress
        self.ingress[session, alias] = (track, priority)
        self.log.append(f"ingress {session} {track}")

    def remove_ingress(self, now: float, session: int, alias: int) -> None:
        # It may have gone with its session.
        assert session not in self.sessions or (session, alias) in self.ingress
        self.ingress.pop((session, alias), None)

    def add_intake(
        self, now: float, session: int, alias: int, taker: Taker, object_bytes: int
    ) -> None:
        assert session in self.sessions
        assert (session, alias) not in self.ingress
        self.intakes[session, alias] = taker

    def remove_intake(self, session: int, alias: int) -> None:
        del self.intakes[session, alias]

    # Egress

    def ingress_streams(self, session: int, alias: int) -> tuple[int, int]:
        return self.incoming.get((session, alias), (1 << 62, 0))

    def add_egress(self, now: float, subscription: Subscription, entry: EgressEntry) -> None:
        assert subscription not in self.egress
        assert subscription.session in self.sessions
        assert entry.track in self.tracks
        for key, other in self.egress.items():
            assert key.session != subscription.session or other.alias != entry.alias
        self.egress[subscription] = entry
        self.log.append(f"egress {subscription.session} {entry.track}")

    def update_egress(self, now: float, subscription: Subscription, entry: EgressEntry) -> None:
        assert self.egress[subscription].track == entry.track
        self.egress[subscription] = entry

    def renew_egress(self, subscription: Subscription, before: float = inf) -> None:
        assert subscription in self.egress
        self.renewed.append(subscription)

    def finish_egress(self, subscription: Subscription) -> bool:
        assert subscription in self.egress
        return subscription not in self.lagging

    def remove_egress(
        self,
        now: float,
        subscription: Subscription,
        *,
        reset_code: int | None,
    ) -> SubscriptionCounters:
        del self.egress[subscription]
        self.resets.append((subscription, reset_code))
        return SubscriptionCounters(0, 0, self.streams[subscription], 0, 0, 0, 0)

    # Repair

    def positions(self, track: int, since: float) -> list[Point]:
        raise AssertionError("the bridge to the network does this")

    def lacking(
        self, now: float, track: int, points: Sequence[Point], hold: float, *, lost: bool
    ) -> list[Point]:
        raise AssertionError("the bridge to the network does this")

    def resume_egress(
        self, now: float, subscription: Subscription, points: Sequence[Point]
    ) -> list[Point]:
        raise AssertionError("the bridge to the network does this")

    def stream_lost(self, now: float, session: int, stream_id: int) -> None:
        raise AssertionError("the bridge to the network does this")

    def give_up(self, now: float, track: int, points: Sequence[Point]) -> None:
        raise AssertionError("the bridge to the network does this")

    # Fetch

    def serve_fetch(
        self,
        now: float,
        subscription: Subscription,
        wanted: FetchRange,
        *,
        partial: bool = False,
    ) -> FetchOutcome:
        assert partial or wanted.track in self.covered
        assert wanted.track in self.tracks
        assert subscription.session in self.sessions
        self.served[subscription] = (wanted, partial)
        return FetchOutcome.SERVED

    def covers(self, now: float, wanted: FetchRange) -> bool:
        assert wanted.track in self.tracks
        return wanted.track in self.covered

    def relay_fetch(
        self, session: int, request_id: int, subscription: Subscription, wanted: FetchRange
    ) -> None:
        assert session in self.sessions
        assert subscription.session in self.sessions
        assert wanted.track in self.tracks
        self.relayed[subscription] = RelayedFetch(session, request_id, wanted)

    def cancel_fetch(self, now: float, subscription: Subscription, reset_code: int) -> None:
        self.served.pop(subscription, None)
        self.relayed.pop(subscription, None)
        self.cancelled.append((subscription, reset_code))

    # Cache

    def purge(self, track: int | None = None) -> int:
        self.purged.append(track)
        return 7

    def set_cache_limits(self, now: float, limits: CacheLimits) -> None:
        raise AssertionError("the shell does this")

    # Hot path: none of it passes through the control plane

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
        raise AssertionError

    def stream_data(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        raise AssertionError

    def stream_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        raise AssertionError

    def datagram(self, now: float, session: int, data: bytes) -> None:
        raise AssertionError

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        raise AssertionError

    # Polls

    def poll_notices(self) -> list[Notice]:
        notices, self.notices = self.notices, []
        return notices

    def poll_timeout(self) -> float | None:
        return None

    def handle_timeout(self, now: float) -> None:
        raise AssertionError("nothing was due")

    # Figures

    def track_counters(self, track: int) -> TrackCounters:
        assert track in self.tracks
        receivers = sum(entry.track == track for entry in self.egress.values())
        return TrackCounters(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, self.cached[track], receivers)

    def subscription_counters(self, subscription: Subscription) -> SubscriptionCounters | None:
        if subscription not in self.egress:
            return None
        return SubscriptionCounters(0, 0, self.streams[subscription], 0, 0, 0, 0)

    # For tests

    def number(self, name: FullTrackName) -> int:
        """The newest track of this name."""
        return max(number for number, known in self.tracks.items() if known == name)

    def receivers(self, name: FullTrackName) -> list[int]:
        """The sessions that receive a track."""
        numbers = {number for number, known in self.tracks.items() if known == name}
        return [key.session for key, entry in self.egress.items() if entry.track in numbers]

    def publishers(self, name: FullTrackName) -> list[int]:
        """The sessions that feed a track."""
        numbers = {number for number, known in self.tracks.items() if known == name}
        return [key[0] for key, (track, _) in self.ingress.items() if track in numbers]
