"""What arrives for a session before the session itself does.

QUIC delivers streams and datagrams in any order: a server may see a session's stream before the
CONNECT request, a client before the answer to it. Both must hold a bounded amount of them
(webtrans-http3-07, 4.5) and refuse the rest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from laps_sdk.quic.events import DatagramReceived, Event, StreamData, StreamReset

__all__ = ["EarlyArrivals", "EarlyLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyLimits:
    """How much is held until the session is there."""

    max_streams: int = 64
    max_bytes: int = 256 * 1024
    max_datagrams: int = 64


class _Held(NamedTuple):
    session_id: int
    events: list[StreamData | StreamReset]


class EarlyArrivals:
    """Streams and datagrams that wait for their session, as it will see them."""

    __slots__ = ("_bytes", "_datagrams", "_limits", "_streams")

    def __init__(self, limits: EarlyLimits) -> None:
        self._limits = limits
        self._streams: dict[int, _Held] = {}
        self._datagrams: deque[tuple[int, bytes]] = deque(maxlen=limits.max_datagrams)
        self._bytes = 0

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._streams

    def open(self, stream_id: int, session_id: int) -> bool:
        """Begin to hold a stream; False if there are too many."""
        if len(self._streams) >= self._limits.max_streams:
            return False
        self._streams[stream_id] = _Held(session_id, [])
        return True

    def add(self, event: StreamData | StreamReset) -> bool:
        """Hold more of a stream; False if it is too much, and then the stream is forgotten."""
        held = self._streams[event.stream_id]
        if isinstance(event, StreamData):
            if self._bytes + len(event.data) > self._limits.max_bytes:
                self._forget(event.stream_id)
                return False
            self._bytes += len(event.data)
        held.events.append(event)
        return True

    def add_datagram(self, session_id: int, data: bytes) -> None:
        """Hold a datagram; the oldest makes room."""
        self._datagrams.append((session_id, data))

    def take(self, session_id: int) -> tuple[list[Event], set[int], list[int]]:
        """The session is there: its events, its streams that still go on, and others' streams."""
        events: list[Event] = []
        going_on: set[int] = set()
        strangers: list[int] = []
        for stream_id, held in self._streams.items():
            if held.session_id != session_id:
                strangers.append(stream_id)
                continue
            events += held.events
            last = held.events[-1] if held.events else None
            if last is None or (isinstance(last, StreamData) and not last.fin):
                going_on.add(stream_id)
        events += [DatagramReceived(data) for of, data in self._datagrams if of == session_id]
        self._streams.clear()
        self._datagrams.clear()
        self._bytes = 0
        return events, going_on, strangers

    def _forget(self, stream_id: int) -> None:
        held = self._streams.pop(stream_id)
        self._bytes -= sum(len(e.data) for e in held.events if isinstance(e, StreamData))
