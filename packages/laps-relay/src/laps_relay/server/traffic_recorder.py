"""Traffic counters of both forwarding planes, and reports of clients, as telemetry records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from laps_relay.server.member import NetworkMember
from laps_relay.telemetry.clients import ClientReports, cache_stat, player_report
from laps_relay.telemetry.names import Names
from laps_relay.telemetry.network_records import hash_text
from laps_relay.telemetry.telemetry import TelemetryWriter
from laps_relay.telemetry.traffic import Hop, HopRecords, NodeOf, delivery
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.reports import PlaybackReports
from laps_sdk.forwarding.plane import Plane
from laps_sdk.forwarding.samples import Samples
from laps_sdk.forwarding.traffic import TrackTraffic
from laps_sdk.quic.base import ConnectionStats
from laps_wire.names import FullTrackName
from laps_wire.reports import Playback, playback_of
from laps_wire.telemetry import ClientReport, DeliverySample

__all__ = ["TrafficRecorder"]

_PART: Final = 250
"""Tracks that are read in one turn of the loop: a millisecond or two."""
_BREATH: Final = 0.05
"""Seconds to wait when the writer's queue is half full."""


class TrafficRecorder:
    """Writes the counters of both forwarding planes as telemetry."""

    def __init__(
        self,
        writer: TelemetryWriter,
        relay: EdgeRelay,
        plane: Plane,
        names: Names,
        network: Callable[[], NetworkMember | None],
        clock: Callable[[], float],
        *,
        one_in: int = 0,
        wall: Callable[[], float] = time.time,
        playback: PlaybackReports | None = None,
    ) -> None:
        """``clock`` is that of the planes; one group in ``one_in`` is timed, 0 for none.

        ``playback`` has the reports of players.
        """
        self._writer = writer
        self._relay = relay
        self._plane = plane
        self._names = names
        self._network = network
        self._clock = clock
        self._wall = wall
        self._hops = HopRecords()
        self._reports = ClientReports()
        self._taken: list[TrackTraffic] = []
        """Traffic that is not written yet."""
        self._playback = playback
        self._waiting: list[tuple[float, ClientReport]] = []
        """Reports, and when their windows ended."""
        self._at = clock()
        plane.count_traffic()
        self._samples: Samples | None = None
        if one_in:
            self._samples = Samples(one_in, lambda name: int(self._text(name), 16))
            plane.time_objects(self._samples)

    def network_joined(self, network: NetworkMember) -> None:
        """Count traffic of a part in the network that the relay has from now on."""
        network.count_traffic(self._samples)

    async def record(self, connections: Mapping[int, ConnectionStats]) -> None:
        """Write one window, with turns of the loop in between."""
        numbers = self._relay.track_numbers()
        for at in range(0, len(numbers), _PART):
            # Stored in the object: if the task is cancelled, record_last writes it.
            self._taken += self._plane.take_traffic(numbers[at : at + _PART])
            await asyncio.sleep(0)
        self._taken += self._plane.take_traffic(())
        self._write(connections)

    async def report(self, patience: float) -> None:
        """Write the reports of clients as fast as the disk accepts them: there may be thousands.

        After ``patience`` seconds the rest is queued at once; records that do not fit are counted
        as lost.
        """
        until = self._clock() + patience
        while self._waiting:
            if self._writer.crowded and self._clock() < until:
                await asyncio.sleep(_BREATH)
                continue
            part, self._waiting = self._waiting[:_PART], self._waiting[_PART:]
            self._put(part)
            await asyncio.sleep(0)

    def record_last(self) -> None:
        """Write what is left when clients and peers are gone."""
        self._taken += self._plane.take_traffic()
        self._write()
        self._put(self._waiting)
        self._waiting = []

    def _put(self, reports: list[tuple[float, ClientReport]]) -> None:
        now = self._clock()
        for ended, report in reports:
            self._writer.put(report, ago=now - ended)

    def _write(self, connections: Mapping[int, ConnectionStats] = MappingProxyType({})) -> None:
        tracks, self._taken = self._taken, []
        # Read both clocks together: times are measured by one and recorded by the other.
        now, wall = self._clock(), self._wall()
        before, self._at = self._at, now
        window_ms = int((now - before) * 1000)
        network = self._network()
        peer = _nobody if network is None else network.node_of
        foreign = _nobody if network is None else network.foreign_node_of
        came, sent = ([], []) if network is None else network.take_traffic()
        bodies = self._deliveries(wall - now, peer, foreign)
        waits: dict[Hop, list[float]] = {}
        for _, body in bodies:
            hop = body.track, body.in_peer, body.out_peer
            waits.setdefault(hop, []).append((body.out_us - body.in_us) / 1000)
        for record in self._hops.records(
            window_ms,
            tracks,
            came,
            sent,
            text=self._text,
            peer=peer,
            foreign=foreign,
            waits=waits,
        ):
            self._writer.put(record)
        for sent_at, body in bodies:
            self._writer.put(body, ago=now - sent_at)
        clients = self._plane.take_clients()
        reports = [*self._reports.records(window_ms, clients, connections, self._text, self._ids)]
        if self._playback is not None:
            watched = {client.session: client.track for client in clients}
            for said in self._playback.take_windows(now):
                name = watched.get(said.session)
                track = None if name is None else self._text(name)
                reports.append(player_report(said, track, self._names.hashed_text))
            # Both about one viewer stand together: the disk may take its time over thousands.
            reports.sort(key=lambda report: int(report.session_id))
        self._waiting += [(now, report) for report in reports]
        cached = cache_stat(window_ms, *self._plane.take_cache(), self._relay.take_fetch_joins())
        if cached is not None:
            self._writer.put(cached)
        if network is not None:
            network.forget_nodes()

    def _ids(self, session: int) -> Playback:
        """Return the ids that a player gave when it connected, hashed."""
        said = playback_of(self._relay.path_of(session))
        hashed = [None if part is None else self._names.hashed_text(part) for part in said]
        return Playback(*hashed)

    def _deliveries(
        self, zero: float, peer: NodeOf, foreign: NodeOf
    ) -> list[tuple[float, DeliverySample]]:
        """Return the objects that were timed, each with the time at which it was sent."""
        if self._samples is None:
            return []
        one_in = self._samples.one_in
        found = [
            (sample.sent, delivery(sample, one_in, zero, peer=peer, foreign=foreign))
            for sample in self._samples.take()
        ]
        return [(sent, body) for sent, body in found if body is not None]

    def _text(self, name: FullTrackName) -> str:
        """Return a track as all relays write it, also those that never see its name."""
        network = self._network()
        return self._names.hashed(name) if network is None else hash_text(network.key(name))


def _nobody(session: int) -> str | None:  # noqa: ARG001 - a relay that is alone has no peers
    return None
