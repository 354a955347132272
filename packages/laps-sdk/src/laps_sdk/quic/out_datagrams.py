"""Datagrams that wait to be sent: bounded, the oldest goes first. Pure."""

from __future__ import annotations

from collections import deque

from laps_sdk.quic.engine import EngineConnection

__all__ = ["DatagramQueue"]


class DatagramQueue:
    """The queue of one connection, and the count of what it dropped."""

    __slots__ = ("_engine", "_limit", "_queue", "dropped", "size")

    def __init__(self, engine: EngineConnection, limit: int) -> None:
        self._engine = engine
        self._limit = limit
        self._queue: deque[tuple[bytes, float | None]] = deque()
        self.size = 0
        """Bytes in it."""
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, data: bytes, deadline: float | None) -> None:
        """Add one; if there are too many the oldest is dropped."""
        self._queue.append((data, deadline))
        self.size += len(data)
        if len(self._queue) > self._limit:
            self.size -= len(self._queue.popleft()[0])
            self.dropped += 1

    def give(self, now: float) -> int:
        """Hand the oldest to the engine, or drop it if it is late or the path has shrunk.

        Gives the bytes that were handed over.
        """
        data, deadline = self._queue.popleft()
        size = len(data)
        self.size -= size
        if (deadline is not None and deadline <= now) or size > self._engine.max_datagram_size:
            self.dropped += 1
            return 0
        self._engine.datagram(data)
        return size

    def clear(self) -> None:
        """Forget them all."""
        self._queue.clear()
        self.size = 0
