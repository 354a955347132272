"""Metrics and telemetry from the network's tables, every few seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from laps_relay.network.views import PeerRow, TableSizes
from laps_relay.peer_forwarding.forwarding import PeerPlaneCounters
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.network_records import node_text, peer_session
from laps_relay.telemetry.sampler import quic_sample
from laps_relay.telemetry.telemetry import TelemetryWriter
from laps_sdk.quic.base import ConnectionStats

__all__ = ["NetworkSample", "NetworkSampler"]


class NetworkSample(NamedTuple):
    """The network's tables and counters at one time."""

    peers: Sequence[PeerRow]
    unreached: int
    """Configured contacts without a session."""
    sizes: TableSizes
    counters: PeerPlaneCounters
    collisions: int
    """Names that were refused because another name has the same hash."""
    connections: Mapping[int, ConnectionStats]


_NOTHING: Final = PeerPlaneCounters(*[0] * len(PeerPlaneCounters._fields))


class NetworkSampler:
    """Turns samples into metrics and telemetry."""

    def __init__(self, metrics: Metrics, telemetry: TelemetryWriter | None = None) -> None:
        self._metrics = metrics
        self._telemetry = telemetry
        self._before = _NOTHING
        self._collisions = 0

    def take(self, sample: NetworkSample, *, telemetry: bool = True) -> None:
        """Count a sample; write telemetry records only if ``telemetry`` is set."""
        m = self._metrics
        m.peers.clear()
        kinds = Counter(row.relay_type for row in sample.peers if row.node is not None)
        for kind, count in kinds.items():
            m.peers.labels(kind).set(count)
        m.contacts_unreached.set(sample.unreached)
        sizes = sample.sizes
        m.sets.labels("in").set(sizes.sets_in)
        m.sets.labels("out").set(sizes.sets_out)
        m.nodes.set(sizes.nodes)
        m.network_announces.set(sizes.announces)
        m.network_subscribes.set(sizes.subscribes)
        m.fib_entries.set(sizes.fib)
        m.held_bytes.set(sample.counters.held_bytes)
        now, before = sample.counters, self._before
        self._before = now
        m.network_bytes.labels("in").inc(now.bytes_in - before.bytes_in)
        m.network_bytes.labels("out").inc(now.bytes_out - before.bytes_out)
        m.network_streams.labels("in").inc(now.streams_in - before.streams_in)
        m.network_streams.labels("out").inc(now.streams_out - before.streams_out)
        m.network_dropped.labels("unknown_set").inc(now.unknown_streams - before.unknown_streams)
        m.network_dropped.labels("slow_peer").inc(now.dropped_streams - before.dropped_streams)
        m.network_dropped.labels("session_ended").inc(now.unsent_streams - before.unsent_streams)
        lost = m.network_dropped_datagrams
        lost.labels("unknown_set").inc(now.unknown_datagrams - before.unknown_datagrams)
        lost.labels("too_large").inc(now.dropped_datagrams - before.dropped_datagrams)
        m.network_unknown_kinds.inc(now.unknown_kinds - before.unknown_kinds)
        m.hash_collisions.inc(sample.collisions - self._collisions)
        self._collisions = sample.collisions
        if telemetry and self._telemetry is not None:
            # Stubs have no name: one link to all of them would be measured.
            nodes = {row.session: node_text(row.node or None) for row in sample.peers}
            for session, stats in sample.connections.items():
                record = quic_sample(peer_session(session), stats, nodes.get(session))
                if record is not None:
                    self._telemetry.put(record)
