"""Observation of one relay: its events, figures and traffic go to log, telemetry and metrics.

::

    turns of the Edge and of the peer port --> events  --> log, metrics, telemetry
    every observe.sample_interval          --> figures --> metrics, telemetry
                                           --> traffic, reports of clients --> telemetry
                                           --> what was lost of telemetry and traces --> log
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from laps_relay.network.events import NetworkEvent
from laps_relay.server.edge_view import EdgeView
from laps_relay.server.member import NetworkMember
from laps_relay.telemetry.events import EdgeObserver
from laps_relay.telemetry.logs import Logger, Names
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.mlog import MlogWriter
from laps_relay.telemetry.network import NetworkObserver, NetworkSampler, hash_text
from laps_relay.telemetry.sampler import Sampler
from laps_relay.telemetry.telemetry import TelemetryWriter
from laps_relay.telemetry.traffic import (
    ClientReports,
    Hop,
    HopRecords,
    NodeOf,
    cache_stat,
    delivery,
    player_report,
)
from laps_sdk.edge.events import RelayEvent, SessionOpened
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.reports import PlaybackReports
from laps_sdk.edge.server import EdgeServer
from laps_sdk.forwarding.plane import Plane
from laps_sdk.forwarding.samples import Samples
from laps_sdk.forwarding.traffic import TrackTraffic
from laps_sdk.quic.base import Connection, ConnectionStats
from laps_wire.names import FullTrackName
from laps_wire.reports import Playback, playback_of
from laps_wire.telemetry import ClientReport, DeliverySample, PolicyApplied, TypeChange

__all__ = ["RelayMonitor", "TrafficRecorder"]

_PART: Final = 250
"""Tracks that are read in one turn of the loop: a millisecond or two."""
_BREATH: Final = 0.05
"""Seconds to wait when the writer's queue is half full."""


class RelayMonitor:
    """Observes one relay."""

    def __init__(
        self,
        logger: Logger,
        names: Names,
        metrics: Metrics,
        telemetry: TelemetryWriter | None,
        mlog: MlogWriter | None,
        *,
        server: EdgeServer,
        view: EdgeView,
        network: Callable[[], NetworkMember | None],
    ) -> None:
        """``network`` returns the relay's part in the network at that moment."""
        self._logger = logger
        self._names = names
        self._metrics = metrics
        self._telemetry = telemetry
        self._mlog = mlog
        self._server = server
        self._view = view
        self._network = network
        self._sampling = asyncio.Lock()
        self._connections: dict[int, Connection] = {}
        self._losses = self._traces_lost = 0
        self._observer = EdgeObserver(logger, names, metrics, telemetry)
        self._sampler = Sampler(view.sample, metrics, telemetry)
        self._network_observer = NetworkObserver(logger, names, metrics, telemetry)
        self._network_sampler = NetworkSampler(metrics, telemetry)
        self._recorder: TrafficRecorder | None = None
        self._playback: PlaybackReports | None = None

    # Life

    def record(
        self, relay: EdgeRelay, plane: Plane, one_in: int, playback: PlaybackReports
    ) -> None:
        """Write traffic counters and reports of players, if telemetry is configured."""
        self._playback = playback
        if self._telemetry is not None:
            self._recorder = TrafficRecorder(
                self._telemetry,
                relay,
                plane,
                self._names,
                self._network,
                time.monotonic,
                one_in=one_in,
                playback=playback,
            )

    def start(self) -> None:
        """Open the telemetry file. Raises ``OSError`` if that is not possible."""
        if self._telemetry is not None:
            self._telemetry.start()

    def network_joined(self, network: NetworkMember) -> None:
        """Observe a part in the network that the relay has from now on."""
        self._network_sampler = NetworkSampler(self._metrics, self._telemetry)
        if self._recorder is not None:
            self._recorder.network_joined(network)

    def network_left(self) -> None:
        """Write what waits, because the relay has left the network."""
        self._network_observer.settle(0.0, at_once=True)

    def record_last(self) -> None:
        """Write the traffic of sessions that have ended."""
        if self._recorder is not None:
            self._recorder.record_last()

    async def stop(self) -> None:
        """Write what is left, and close all files."""
        if self._telemetry is not None:
            await asyncio.to_thread(self._telemetry.stop)
        if self._mlog is not None:
            await asyncio.to_thread(self._mlog.close)

    # Events

    def turn(self, now: float, events: Sequence[RelayEvent]) -> None:
        """Take the events of a turn of the Edge."""
        for event in events:
            if isinstance(event, SessionOpened):
                port = self._server.ports.get(event.session)
                if port is not None:
                    self._connections[event.session] = port.peer.connection
        self._observer.observe(now, events, self._carried)

    def _carried(self, session: int) -> tuple[int, int]:
        """Return the bytes of a session that was closed and that the server has forgotten."""
        connection = self._connections.pop(session, None)
        if connection is None:
            return 0, 0
        stats = connection.stats()
        return stats.bytes_received, stats.bytes_sent

    def observe_network(self, now: float, events: Sequence[NetworkEvent]) -> None:
        """Take the events of a turn of the peer port."""
        network = self._network()
        if network is not None:
            self._network_observer.observe(now, events, network.carried)

    def plan_applied(self, record: PolicyApplied) -> None:
        """Log what became of a plan, and record it for the planner."""
        say = self._logger.warning if record.outcome == "refused" else self._logger.info
        say(
            "plan",
            outcome=record.outcome,
            plan=record.plan_id,
            version=record.plan_version,
            reason=record.reason,
        )
        if self._telemetry is not None:
            self._telemetry.put(record)

    def type_changed(self, old: str, new: str) -> None:
        """Log and record that the relay has another type."""
        self._logger.info("type changed", type=new, url=self._view.url)
        if self._telemetry is not None:
            self._telemetry.put(TypeChange(old=old, new=new))

    # Figures

    async def write_records(self, interval: float) -> None:
        """Write samples and records; called every ``interval`` seconds."""
        await self.sample()
        if self._recorder is not None:
            await self._recorder.report(interval)
        self.log_losses()

    async def sample(self, *, telemetry: bool = True) -> None:
        """Read all tables and counters once, for metrics and telemetry."""
        # One at a time: an older reading behind a newer one would be counted twice.
        async with self._sampling:
            sample = await self._view.sample_in_parts()
            self._sampler.take(sample, telemetry=telemetry)
            network = self._network()
            if network is not None:
                self._network_sampler.take(network.sample(), telemetry=telemetry)
                self._network_observer.settle(network.now)
            if self._playback is not None:
                self._metrics.reports_taken.inc(self._playback.take_count())
            if telemetry and self._recorder is not None:
                await self._recorder.record(sample.connections)

    def log_losses(self) -> None:
        """Log lost telemetry and lost traces, once for each loss."""
        if self._mlog is not None and self._mlog.counters.failed > self._traces_lost:
            self._traces_lost = self._mlog.counters.failed
            self._logger.warning(
                "traces were lost", disk=self._traces_lost, reason=self._mlog.counters.last_error
            )
        if self._telemetry is None:
            return
        counters = self._telemetry.counters
        if counters.lost + counters.failed > self._losses:
            self._losses = counters.lost + counters.failed
            self._logger.warning(
                "telemetry was lost",
                queue_full=counters.lost,
                disk=counters.failed,
                reason=counters.last_error,
            )


class TrafficRecorder:
    """Writes counters of both forwarding planes and reports of clients as telemetry."""

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
