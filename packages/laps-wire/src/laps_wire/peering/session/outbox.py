"""What a session wants to send, in order, by stream; joined where the peer allows it.

Control messages are put on the stream that is written to at that moment. If there is none (the peer
stopped it, and a new one is not open yet), they wait. If a stream is reset, what was queued for it
and has not been handed out goes back to wait for the next one, because it would be lost.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from laps_wire.peering.session.events import ConnectionClose, StreamData, StreamEnd, Transmit
from laps_wire.peering.session.latching import Ending

__all__ = ["MAX_JOINED_BYTES", "Outbox"]

MAX_JOINED_BYTES: Final = 65_536
"""How many bytes of control messages leave as one piece, unless one message alone is longer."""


class Outbox:
    """An ordered queue of what goes to the transport.

    ``single`` keeps every message by itself: the C++ relay handles one for each chunk.
    """

    __slots__ = ("_queue", "_single", "_waiting", "waiting_bytes")

    def __init__(self, *, single: bool = False) -> None:
        self._single = single
        self._queue: deque[Transmit] = deque()
        self._waiting: deque[bytes] = deque()
        self.waiting_bytes = 0
        """How many bytes wait for a stream to be written to."""

    def put(self, stream_id: int | None, data: bytes) -> None:
        """Queue one message for a stream, or let it wait for one."""
        if stream_id is None:
            self._waiting.append(data)
            self.waiting_bytes += len(data)
        else:
            self._queue.append(StreamData(stream_id, data, self._single))

    def adopt(self, stream_id: int) -> None:
        """What waited for a stream goes to this one."""
        self._queue.extend(StreamData(stream_id, data, self._single) for data in self._waiting)
        self._waiting.clear()
        self.waiting_bytes = 0

    def end(self, stream_id: int, ending: Ending, code: int = 0) -> None:
        """End one half of a stream, after what was queued for it; a reset takes that back."""
        if ending is Ending.RESET:
            kept: deque[Transmit] = deque()
            for item in self._queue:
                if isinstance(item, StreamData) and item.stream_id == stream_id:
                    self.put(None, item.data)
                else:
                    kept.append(item)
            self._queue = kept
        self._queue.append(StreamEnd(stream_id, ending, code))

    def close(self, code: int, reason: str) -> None:
        """End the connection, after what is queued; what waits will never leave."""
        self._waiting.clear()
        self.waiting_bytes = 0
        self._queue.append(ConnectionClose(code, reason))

    def clear(self) -> None:
        """The connection is gone: nothing can leave any more."""
        self._queue.clear()
        self._waiting.clear()
        self.waiting_bytes = 0

    def poll(self) -> Transmit | None:
        """The next piece, or ``None``."""
        if not self._queue:
            return None
        item = self._queue.popleft()
        if self._single or not isinstance(item, StreamData):
            return item
        pieces, size = [item.data], len(item.data)
        while self._queue:
            following = self._queue[0]
            if not isinstance(following, StreamData) or following.stream_id != item.stream_id:
                break
            size += len(following.data)
            if size > MAX_JOINED_BYTES:
                break
            pieces.append(following.data)
            self._queue.popleft()
        return item if len(pieces) == 1 else StreamData(item.stream_id, b"".join(pieces))
