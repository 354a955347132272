"""What a session wants to send, in order, by stream; joined where the peer allows it.

Control messages are put on the stream that is written to at that moment. If there is none (the peer
stopped it, and a new one is not open yet), they wait. If a stream is reset, what was queued for it
and has not been handed out goes back to wait for the next one, because it would be lost.

What the synchronisation after a move *repeats* does not wait: sets, and the marks around a
synchronisation. Half of one on a new stream would be a violation, for its beginning was on the old
stream (docs/spec/laps-2.md, 5.4 and 6.1).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from laps_wire.peering.session.control_streams import Ending
from laps_wire.peering.session.events import ConnectionClose, StreamData, StreamEnd, Transmit

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
        # Messages as (stream, bytes, whether a synchronisation repeats it), and what ends a stream.
        self._queue: deque[tuple[int, bytes, bool] | StreamEnd | ConnectionClose] = deque()
        self._waiting: deque[bytes] = deque()
        self.waiting_bytes = 0
        """How many bytes wait for a stream to be written to."""

    @property
    def is_filled(self) -> bool:
        """Whether :meth:`poll` has something."""
        return bool(self._queue)

    def put(self, stream_id: int | None, data: bytes, repeated: bool = False) -> None:
        """Queue one message for a stream, or let it wait for one unless it is repeated there."""
        if stream_id is not None:
            self._queue.append((stream_id, data, repeated))
        elif not repeated:
            self._waiting.append(data)
            self.waiting_bytes += len(data)

    def adopt(self, stream_id: int) -> None:
        """What waited for a stream goes to this one."""
        for data in self._waiting:
            self.put(stream_id, data)
        self._waiting.clear()
        self.waiting_bytes = 0

    def end(self, stream_id: int, ending: Ending, code: int = 0) -> None:
        """End one half of a stream, after what was queued for it; a reset takes that back."""
        if ending is Ending.RESET:
            kept: deque[tuple[int, bytes, bool] | StreamEnd | ConnectionClose] = deque()
            for item in self._queue:
                if isinstance(item, tuple) and item[0] == stream_id:
                    self.put(None, item[1], item[2])
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
        queue = self._queue
        if not queue:
            return None
        item = queue.popleft()
        if not isinstance(item, tuple):
            return item
        stream_id, data, _ = item
        if not queue or self._single:
            return StreamData(stream_id, data, self._single)
        pieces, size = [data], len(data)
        while queue:
            following = queue[0]
            if not isinstance(following, tuple) or following[0] != stream_id:
                break
            size += len(following[1])
            if size > MAX_JOINED_BYTES:
                break
            pieces.append(following[1])
            queue.popleft()
        return StreamData(stream_id, b"".join(pieces))
