"""A feed to one connection, without subscriber node sets of ours: what a guest's feeds share.

A Stub, its parent and a C++ relay differ in the headers of their data, and in nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from laps_sdk.forwarding.interfaces import Egress, OutStream
from laps_sdk.forwarding.priority import PRIORITIES
from laps_wire.peering.errors import StreamCode

__all__ = ["DirectFeed"]

_EXPIRED: Final = int(StreamCode.EXPIRED)
_OVERLOADED: Final = int(StreamCode.OVERLOADED)


class DirectFeed(ABC):
    """A :class:`~laps_sdk.upstream.interfaces.Feed` of one track to one connection."""

    __slots__ = ("_egress", "_key")

    def __init__(self, egress: Egress, key: int) -> None:
        self._egress = egress
        self._key = key

    @abstractmethod
    def _stream_head(self, priority: int, ttl_ms: int, *, continued: bool) -> bytes:
        """What stands in front of a stream."""

    @abstractmethod
    def _datagram_head(self, priority: int, ttl_ms: int) -> bytes:
        """What stands in front of an object in a datagram."""

    def open_stream(
        self,
        now: float,
        *,
        priority: int,
        ttl_ms: int = 0,
        deadline: float | None = None,
        continued: bool = False,
        to: tuple[int, int] | None = None,  # noqa: ARG002 - there is one connection
    ) -> OutStream:
        """Begin a stream: its header is written."""
        if deadline is None and ttl_ms:
            deadline = now + ttl_ms / 1000
        stream = self._egress.open_unidirectional(
            priority=PRIORITIES[priority],
            droppable=True,
            drop_code=_EXPIRED if ttl_ms else _OVERLOADED,
            deadline=deadline,
        )
        stream.write(self._stream_head(priority, ttl_ms, continued=continued))
        return stream

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        """Send an object."""
        data = self._datagram_head(priority, ttl_ms) + payload
        if len(data) > self._egress.max_datagram_size:
            return False
        return self._egress.send_datagram(data, now + ttl_ms / 1000 if ttl_ms else None)
