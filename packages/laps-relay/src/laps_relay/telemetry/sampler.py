"""Metrics and telemetry from the Edge's tables and counters, every few seconds.

The counters of a track end with the track. The sampler sums up what each track gained since the
last sample, so totals never fall. They lack what a track did after its last sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.telemetry import TelemetryCounters, TelemetryWriter
from laps_sdk.edge.events import SessionRow, TrackRow
from laps_sdk.forwarding.interfaces import TrackCounters
from laps_sdk.quic.base import ConnectionStats
from laps_wire.telemetry import QuicSample

__all__ = ["AuthCounters", "Sample", "Sampler", "quic_sample"]


class AuthCounters(NamedTuple):
    """What the authorizer has decided since the start."""

    allowed: int
    denied: int
    signatures: int
    """Signatures that were checked; those of cached tokens are not checked again."""
    cached: int
    """Tokens in the cache now."""


class Sample(NamedTuple):
    """The Edge's tables and counters at one time."""

    now: float
    sessions: Sequence[SessionRow]
    tracks: Sequence[TrackRow]
    connections: dict[int, ConnectionStats]
    auth: AuthCounters


_NOTHING = TrackCounters(*[0] * len(TrackCounters._fields))
_NO_AUTH = AuthCounters(0, 0, 0, 0)
_NO_TELEMETRY = TelemetryCounters(0, 0, 0, 0, "")


class Sampler:
    """Turns samples into metrics and telemetry."""

    def __init__(
        self,
        read: Callable[[], Sample],
        metrics: Metrics,
        telemetry: TelemetryWriter | None = None,
    ) -> None:
        self._read = read
        self._metrics = metrics
        self._telemetry = telemetry
        self._counted: dict[int, TrackCounters] = {}
        self._auth = _NO_AUTH
        self._told = _NO_TELEMETRY

    def sample(self, *, telemetry: bool = True) -> Sample:
        """Read the tables and count them; write telemetry records only if ``telemetry`` is set."""
        return self.take(self._read(), telemetry=telemetry)

    def take(self, sample: Sample, *, telemetry: bool = True) -> Sample:
        """Count a sample that was read elsewhere."""
        self._count(sample, _gains(sample.tracks, self._counted))
        self._counted = {row.number: row.counters for row in sample.tracks}
        if telemetry and self._telemetry is not None:
            self._write(self._telemetry, sample)
        return sample

    def _count(self, sample: Sample, gains: dict[int, TrackCounters]) -> None:
        m = self._metrics
        m.sessions.clear()
        kinds = Counter(
            (row.info.draft.alpn, "webtransport" if row.info.webtransport else "quic")
            for row in sample.sessions
        )
        for (draft, transport), count in kinds.items():
            m.sessions.labels(draft, transport).set(count)
        m.tracks.set(len(sample.tracks))
        # Summed up, not listed: there may be a million of them.
        m.subscriptions.set(sum(row.subscribers + row.waiting for row in sample.tracks))
        m.namespaces.set(sum(row.namespaces for row in sample.sessions))
        m.cache_bytes.set(sum(row.counters.cached_bytes for row in sample.tracks))
        m.cache_objects.set(sum(row.counters.cached_objects for row in sample.tracks))
        m.queued_bytes.set(sum(stats.queued_bytes for stats in sample.connections.values()))
        gained = TrackCounters(*map(sum, zip(*gains.values(), strict=True))) if gains else _NOTHING
        m.received_bytes.inc(gained.bytes_in)
        m.sent_bytes.inc(gained.bytes_out)
        m.received_objects.inc(gained.objects_in)
        m.sent_objects.inc(gained.objects_out)
        m.dropped_objects.inc(gained.dropped_objects)
        m.dropped_bytes.inc(gained.dropped_bytes)
        m.duplicate_objects.inc(gained.duplicates)
        old, self._auth = self._auth, sample.auth
        m.auth_decisions.labels("allowed").inc(sample.auth.allowed - old.allowed)
        m.auth_decisions.labels("denied").inc(sample.auth.denied - old.denied)
        m.auth_signatures.inc(sample.auth.signatures - old.signatures)
        if self._telemetry is not None:
            told, self._told = self._told, self._telemetry.counters
            for outcome in ("written", "lost", "failed"):
                gain_of = getattr(self._told, outcome) - getattr(told, outcome)
                m.telemetry_records.labels(outcome).inc(max(0, gain_of))

    def _write(self, writer: TelemetryWriter, sample: Sample) -> None:
        for session, stats in sample.connections.items():
            record = quic_sample(str(session), stats)
            if record is not None:
                writer.put(record)


def quic_sample(session: str, stats: ConnectionStats, peer: str | None = None) -> QuicSample | None:
    """Return the record of a connection; None before its round trip was measured."""
    if stats.rtt is None:
        return None
    return QuicSample(
        session_id=session,
        srtt_us=int(stats.rtt * 1e6),
        min_rtt_us=int((stats.rtt_min or stats.rtt) * 1e6),
        rttvar_us=0,
        cwnd_bytes=stats.congestion_window or 0,
        sent_packets=stats.packets_sent,
        lost_packets=stats.packets_lost or 0,
        pto_count=0,
        sent_bytes=stats.bytes_sent,
        in_flight_bytes=stats.bytes_in_flight,
        peer=peer,
    )


def _gains(
    rows: Sequence[TrackRow], before: Mapping[int, TrackCounters]
) -> dict[int, TrackCounters]:
    """Return what each track gained since the last sample, without idle tracks."""
    gains: dict[int, TrackCounters] = {}
    for row in rows:
        old = before.get(row.number, _NOTHING)
        if row.counters != old:
            pairs = zip(row.counters, old, strict=True)
            gains[row.number] = TrackCounters._make([max(0, new - was) for new, was in pairs])
    return gains
