"""A QUIC connection as applications see it: engine, egress and handler joined.

::

    application --open, write, datagram--> QuicTransportConnection --> Egress --> engine
    handler <--events-- dispatcher <--filter_events-- engine

The dispatcher uses the public attributes to drive the connection. Applications use only the
interface :class:`~laps_sdk.quic.base.Connection`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from laps_sdk.quic.base import (
    URGENT,
    Address,
    Connection,
    ConnectionLimits,
    ConnectionStats,
    EgressLimits,
    Handler,
    Listener,
    OutStream,
)
from laps_sdk.quic.egress import Egress, EgressStream
from laps_sdk.quic.engine import EngineConnection
from laps_sdk.quic.events import (
    Closed,
    Event,
    StopSending,
    StreamData,
    StreamReset,
    StreamsAvailable,
)

__all__ = ["INTERNAL_ERROR", "QuicTransportConnection"]

INTERNAL_ERROR: Final = 0x1
"""The error code with which a connection is closed after a fault on our side."""
_UNANSWERED: Final = 2
"""PINGs without an answer, before which no silence ends a connection.

After our own loop was blocked, the peer gets PINGs and time to answer them.
"""
_REFUSED_FOR: Final = 0.1
"""Seconds, and at least three round trips, for which a port must stay closed."""


class QuicTransportConnection(Connection):
    """One QUIC connection, with its engine, its egress queue and its handler."""

    __slots__ = (
        "_clock",
        "_dead_after",
        "_flush_soon",
        "_half_over",
        "_is_client",
        "_keepalive",
        "_pinged_at",
        "_purge_at",
        "_refused_at",
        "_replies",
        "_stopped",
        "_unanswered",
        "_withheld",
        "alive_timer",
        "bytes_received",
        "bytes_sent",
        "close_request",
        "closed_reported",
        "deadline",
        "dirty",
        "egress",
        "engine",
        "failed",
        "first_id",
        "handler",
        "heard_at",
        "ids",
        "listener",
        "on_outcome",
        "packets_received",
        "packets_sent",
        "reset_token",
    )

    def __init__(
        self,
        engine: EngineConnection,
        *,
        clock: Callable[[], float],
        wake: Callable[[QuicTransportConnection], None],
        is_client: bool,
        limits: ConnectionLimits,
        egress: EgressLimits,
        listener: Listener,
        deadline: float | None,
    ) -> None:
        self._clock = clock  # the loop's time, read once a turn
        self._flush_soon = wake  # pumps and flushes this connection at the end of the turn
        self.engine = engine
        self.egress = Egress(engine, egress, clock=clock, wake=self._wake)
        self._is_client = is_client
        self.listener = listener
        """Makes the handler once the handshake is complete."""
        self.handler: Handler | None = None
        self.deadline = deadline
        """When an incomplete handshake is dropped."""
        self.on_outcome: Callable[[Closed | None], None] | None = None
        """Called once for a dialled connection: with None when connected, or with the failure."""
        self.ids: Sequence[bytes] = ()
        """Connection ids under which the endpoint finds this connection."""
        self.reset_token = b""
        """The token with which the peer says that it does not know the connection any more."""
        self.heard_at = clock()
        """When the last packet arrived."""
        self.alive_timer: float | None = None
        """When to call :meth:`check_alive`."""
        self._keepalive, self._dead_after = _intervals(limits)
        self._pinged_at = self._refused_at = 0.0
        self._unanswered = 0
        self._withheld = 0
        self.first_id = b""
        """The id that a client chose for us before it got one of ours."""
        self.dirty = False
        self.close_request: Closed | None = None
        """Our own close; the engine gets it at the end of the turn, after earlier writes."""
        self.closed_reported = False
        """Whether ``Closed`` is delivered or queued for the handler."""
        self.failed = False
        """Whether the handler raised; from then on it gets only ``Closed``."""
        self.bytes_sent = self.bytes_received = self.packets_sent = self.packets_received = 0
        self._stopped: set[int] = set()  # streams of the peer that we refused
        self._replies: dict[int, EgressStream] = {}
        self._half_over: set[int] = set()  # the peer's half of these is over
        self._purge_at = 64

    # A. Getters

    @property
    def alpn(self) -> str:
        """See :attr:`Connection.alpn`."""
        return self.engine.alpn

    @property
    def is_client(self) -> bool:
        """See :attr:`Connection.is_client`."""
        return self._is_client

    @property
    def is_webtransport(self) -> bool:
        """See :attr:`Connection.is_webtransport`."""
        return False

    @property
    def peer_address(self) -> Address:
        """See :attr:`Connection.peer_address`."""
        return self.engine.peer_address

    @property
    def authority(self) -> str:
        """See :attr:`Connection.authority`."""
        return self.engine.server_name

    @property
    def server_key_hash(self) -> bytes:
        """See :attr:`Connection.server_key_hash`."""
        return self.engine.server_key_hash

    @property
    def path(self) -> str:
        """See :attr:`Connection.path`."""
        return ""

    @property
    def closed(self) -> bool:
        """See :attr:`Connection.closed`."""
        return self.closed_reported or self.close_request is not None

    @property
    def congested(self) -> bool:
        """See :attr:`Connection.congested`."""
        return self.egress.congested

    @property
    def max_datagram_size(self) -> int:
        """See :attr:`Connection.max_datagram_size`."""
        return self.engine.max_datagram_size

    @property
    def rtt(self) -> float | None:
        """See :attr:`Connection.rtt`."""
        return self.engine.stats().rtt

    @property
    def now(self) -> float:
        """See :attr:`Connection.now`."""
        return self._clock()

    def stats(self) -> ConnectionStats:
        """See :meth:`Connection.stats`."""
        known, egress = self.engine.stats(), self.egress
        return ConnectionStats(
            bytes_sent=self.bytes_sent,
            bytes_received=self.bytes_received,
            packets_sent=self.packets_sent,
            packets_received=self.packets_received,
            packets_lost=known.packets_lost,
            rtt=known.rtt,
            rtt_min=known.rtt_min,
            congestion_window=known.congestion_window,
            bytes_in_flight=known.bytes_in_flight,
            queued_bytes=egress.queued_bytes,
            dropped_streams=egress.dropped_streams,
            dropped_bytes=egress.dropped_bytes,
            dropped_datagrams=egress.datagrams.dropped,
        )

    def unacknowledged(self) -> frozenset[int]:
        """See :meth:`Connection.unacknowledged`."""
        return self.engine.unacknowledged()

    def unacknowledged_bidirectional(self) -> bool:
        """See :meth:`Connection.unacknowledged_bidirectional`."""
        return self.engine.unacknowledged_bidirectional()

    # B. Streams

    def open_unidirectional(
        self,
        *,
        priority: int = URGENT,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        """See :meth:`Connection.open_unidirectional`."""
        return self.egress.open_unidirectional(
            priority=priority, droppable=droppable, drop_code=drop_code, deadline=deadline
        )

    def open_bidirectional(self, *, priority: int = URGENT) -> OutStream:
        """See :meth:`Connection.open_bidirectional`."""
        return self.egress.open_bidirectional(priority=priority)

    def reply_stream(self, stream_id: int) -> OutStream:
        """See :meth:`Connection.reply_stream`."""
        stream = self._replies.get(stream_id)
        if stream is None:
            # A stream that we opened ourselves has its sending half already.
            stream = self.egress.stream(stream_id) or self.egress.adopt(stream_id)
            if stream_id & 1 == self._is_client:
                self._replies[stream_id] = stream
        return stream

    def stop_sending(self, stream_id: int, code: int) -> None:
        """See :meth:`Connection.stop_sending`."""
        if not self.closed:
            self._stopped.add(stream_id)
            self.engine.stop(stream_id, code)
            self.egress.wake()

    def pause_reading(self, stream_id: int) -> bool:
        """See :meth:`Connection.pause_reading`."""
        return not self.closed and self.engine.set_reading(stream_id, False)

    def resume_reading(self, stream_id: int) -> None:
        """See :meth:`Connection.resume_reading`."""
        if not self.closed:
            self.engine.set_reading(stream_id, True)
            self.egress.wake()

    def withhold(self, size: int) -> bool:
        """See :meth:`Connection.withhold`."""
        if self.closed or not self.engine.withhold(size):
            return False
        if size < self._withheld:
            self.egress.wake()
        self._withheld = size
        return True

    # C. Datagrams

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """See :meth:`Connection.send_datagram`."""
        return self.egress.send_datagram(data, deadline)

    # D. Life

    def close(self, code: int = 0, reason: str = "") -> None:
        """See :meth:`Connection.close`."""
        if not self.closed:
            self.close_request = Closed(code, reason, by_peer=False, application=True)
            self._wake()

    # E. For the endpoint

    def _wake(self) -> None:
        if not self.dirty:
            self.dirty = True
            self._flush_soon(self)

    def filter_events(self, events: list[Event]) -> list[Event]:
        """Return the engine's events that the handler gets; pass the others to the egress."""
        if self.closed_reported:
            return []
        stopped = self._stopped
        seen: list[Event] = []
        for event in events:
            if isinstance(event, StreamData):
                stream_id = event.stream_id
                if event.fin and not stream_id & 2:
                    self._over(stream_id)
                if stopped and stream_id in stopped:
                    if event.fin:
                        stopped.discard(stream_id)
                    continue
            elif isinstance(event, StreamReset):
                stopped.discard(event.stream_id)
                if not event.stream_id & 2:
                    self._over(event.stream_id)
            elif isinstance(event, StopSending):
                self.egress.stopped(event.stream_id, event.code)
            elif isinstance(event, StreamsAvailable):
                self.egress.wake()  # the egress reports it to a refused opener
                continue
            elif isinstance(event, Closed):
                seen.append(self.end(event))
                break
            seen.append(event)
        return seen

    def keep_alive(self, now: float) -> None:
        """Begin to send PINGs while the peer is silent."""
        if self._keepalive and not self.closed:
            self.alive_timer = now + self._keepalive

    def check_alive(self, now: float) -> Closed | None:
        """Send a PING to a silent peer; return the end of a connection whose peer is dead."""
        heard = self.heard_at
        due = heard + self._keepalive
        if due > now:
            self.alive_timer = due
            return None
        if heard >= self._pinged_at:
            self._unanswered = 0
        dead = heard + self._dead_after if self._dead_after else None
        if dead is not None and dead <= now and self._unanswered >= _UNANSWERED:
            text = f"nothing arrived for {now - heard:.1f} s in spite of keepalives"
            return Closed(0, text, by_peer=False, application=False)
        self.engine.ping()
        self._pinged_at = now
        self._unanswered += 1
        due = now + self._keepalive
        self.alive_timer = due if dead is None or dead <= now else min(due, dead)
        return None

    def refused(self, now: float) -> Closed | None:
        """Handle an ICMP report that the peer's port is closed; return the end if it is true.

        Anybody can forge the report. So the first one only sends a PING. If a later one arrives
        and nothing was heard in between, nobody is there.
        """
        if self.closed:
            return None
        if self.heard_at >= self._refused_at:
            self._refused_at = now
            self.engine.ping()
            return None
        if now - self._refused_at < max(_REFUSED_FOR, 3 * (self.rtt or 0.0)):
            return None
        return Closed(0, "the port of the peer is closed", by_peer=False, application=False)

    def end(self, event: Closed) -> Closed:
        """End the connection: nothing is sent or reported after ``event``."""
        self.closed_reported = True
        self.alive_timer = None
        self.egress.close()
        self._stopped.clear()
        self._replies.clear()
        self._half_over.clear()
        return event

    def _over(self, stream_id: int) -> None:
        """Record the end of the peer's half of a stream; forget streams with both halves ended."""
        half_over, replies = self._half_over, self._replies
        if stream_id & 1 != self._is_client:
            return  # our own stream: its opener holds the sending half
        half_over.add(stream_id)
        if len(half_over) > self._purge_at:
            for each in [i for i in half_over if i in replies and replies[i].closed]:
                half_over.discard(each)
                del replies[each]
            self._purge_at = 64 + 2 * len(half_over)


def _intervals(limits: ConnectionLimits) -> tuple[float, float]:
    """Return the seconds between PINGs and until a silent peer is dead; 0 stands for never."""
    dead_after, keepalive = limits.dead_after, limits.keepalive
    if not keepalive:
        return 0.0, 0.0
    # Two PINGs and the time for their answers fit into either time.
    for longest in (dead_after, limits.idle_timeout):
        if longest:
            keepalive = min(keepalive, longest / 3)
    return keepalive, dead_after
