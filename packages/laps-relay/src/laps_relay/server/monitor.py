"""Observation of one relay: its events and figures go to the log, to telemetry and to metrics.

::

    turns of the Edge and of the peer port --> events  --> log, metrics, telemetry
    every observe.sample_interval          --> figures --> metrics, telemetry
                                           --> what was lost of telemetry and traces --> log
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from laps_relay.network.events import NetworkEvent
from laps_relay.server.edge_view import EdgeView
from laps_relay.server.member import NetworkMember
from laps_relay.server.traffic_recorder import TrafficRecorder
from laps_relay.telemetry.events import EdgeObserver
from laps_relay.telemetry.logs import Logger
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.mlog import MlogWriter
from laps_relay.telemetry.names import Names
from laps_relay.telemetry.network import NetworkObserver
from laps_relay.telemetry.network_sampler import NetworkSampler
from laps_relay.telemetry.sampler import Sampler
from laps_relay.telemetry.telemetry import TelemetryWriter
from laps_sdk.edge.events import RelayEvent, SessionOpened
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.reports import PlaybackReports
from laps_sdk.edge.server import EdgeServer
from laps_sdk.forwarding.plane import Plane
from laps_sdk.quic.base import Connection
from laps_wire.telemetry import PolicyApplied, TypeChange

__all__ = ["RelayMonitor"]


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
