"""A relay that is not there: rows and figures for tests of the admin and of observation."""

from __future__ import annotations

from collections.abc import Sequence

from laps_relay.admin.views import ConfigValue, Info
from laps_relay.telemetry.sampler import AuthCounters, Sample
from laps_sdk.edge.events import NamespaceRow, SessionRow, SubscriptionRow, TrackRow
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import SubscriptionCounters, TrackCounters
from laps_sdk.quic.base import ConnectionStats
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "NO_COUNTERS",
    "SHA256",
    "TRACK",
    "FakeView",
    "connection_stats",
    "session_info",
    "session_row",
    "subscription_row",
    "track_row",
]

TRACK = FullTrackName(Namespace.of(b"example", b"canary"), b"video")
SHA256 = "ab" * 32
NO_COUNTERS = TrackCounters(*[0] * len(TrackCounters._fields))


def session_info(**changes: object) -> SessionInfo:
    known: dict[str, object] = {"peer_address": "192.0.2.7:5000", "draft": Draft.D16}
    return SessionInfo(**{**known, **changes})  # type: ignore[arg-type]  # fields by name


def session_row(number: int = 1, *, info: SessionInfo | None = None) -> SessionRow:
    return SessionRow(
        session=number,
        info=info or session_info(),
        opened=40.0,
        ready=True,
        leaving=False,
        subscriptions=1,
        publishes=2,
        namespaces=3,
        prefixes=4,
        fetches=5,
        offers=6,
    )


def track_row(
    number: int = 1, counters: TrackCounters = NO_COUNTERS, *, largest: Location | None = None
) -> TrackRow:
    return TrackRow(
        track=TRACK,
        number=number,
        live=True,
        publishers=(1,),
        subscribers=2,
        waiting=0,
        largest=largest,
        rank=None,
        counters=counters,
    )


def subscription_row(number: int = 1, *, counted: bool = True) -> SubscriptionRow:
    return SubscriptionRow(
        session=1,
        request_id=number,
        track=TRACK,
        pushed=False,
        established=True,
        forward=True,
        priority=128,
        expires=60.0 if counted else None,
        counters=SubscriptionCounters(1, 2, 3, 4, 5, 6, 7) if counted else None,
    )


def connection_stats(rtt: float | None = 0.025) -> ConnectionStats:
    return ConnectionStats(100, 200, 3, 4, 1, rtt, 0.02, 14_000, 1200, 77, 2, 900, 1)


class FakeView:
    """A ``RelayView`` whose tables a test fills."""

    def __init__(self) -> None:
        self.now = 50.0
        self.ready = True
        self.certificate_sha256 = SHA256
        self.session_rows: list[SessionRow] = []
        self.track_rows: list[TrackRow] = []
        self.subscription_rows: list[SubscriptionRow] = []
        self.namespace_rows: list[NamespaceRow] = []
        self.stats: dict[int, ConnectionStats] = {}
        self.auth = AuthCounters(0, 0, 0, 0)
        self.purged: list[FullTrackName | None] = []
        self.drained: list[str] = []

    def info(self) -> Info:
        return Info(
            version="1",
            node_id="0:1",
            region="",
            url="moqt://127.0.0.1:1",
            transport="aioquic",
            drafts=["moqt-16"],
            certificate_sha256=SHA256,
            certificate_expires="",
            started="",
            uptime_seconds=1.0,
            draining=False,
            authorization=False,
        )

    def sessions(self) -> Sequence[SessionRow]:
        return self.session_rows

    def connection(self, session: int) -> ConnectionStats | None:
        return self.stats.get(session)

    def tracks(self) -> Sequence[TrackRow]:
        return self.track_rows

    async def tracks_in_parts(self) -> Sequence[TrackRow]:
        return self.track_rows

    def subscriptions(self) -> Sequence[SubscriptionRow]:
        return self.subscription_rows

    def namespaces(self) -> Sequence[NamespaceRow]:
        return self.namespace_rows

    def cache_limits(self) -> dict[str, float]:
        return {"max_bytes": 5.0}

    def purge(self, track: FullTrackName | None) -> int:
        self.purged.append(track)
        return 77

    def config(self) -> list[ConfigValue]:
        return [ConfigValue(key="listen.host", value="127.0.0.1", source="default")]

    def drain(self, new_uri: str) -> None:
        self.drained.append(new_uri)

    def stay(self) -> str | None:
        if not self.drained:
            return "the relay does not drain"
        self.drained.clear()
        return None

    def redirect(self, sessions: Sequence[int] | None, share: float, new_uri: str) -> int:
        return len(sessions or ()) or int(8 * share) + len(new_uri)

    async def metrics(self) -> bytes:
        return b"laps_sessions_open 1\n"

    def sample(self) -> Sample:
        return Sample(
            self.now,
            self.session_rows,
            self.track_rows,
            self.stats,
            self.auth,
        )
