"""The two halves of a stream in the in-memory backend: offsets, credit, order.

Pure; see :mod:`laps_sdk.quic.memory.engine`.
"""

from __future__ import annotations

from collections import deque

__all__ = ["ReceivingHalf", "SendingHalf"]


class SendingHalf:
    """What is still to be put into packets; what is in flight is kept by the packets."""

    __slots__ = ("backlog", "chunks", "credit", "fin", "finished", "reset", "sent")

    def __init__(self, credit: int) -> None:
        self.credit = credit
        """The peer's MAX_STREAM_DATA."""
        self.chunks: deque[bytes] = deque()
        self.backlog = 0
        self.sent = 0
        self.fin = False
        self.finished = False
        """FIN was put into a packet."""
        self.reset = False

    def write(self, data: bytes, fin: bool) -> None:
        """Append bytes."""
        if data:
            self.chunks.append(data)
            self.backlog += len(data)
        self.fin = self.fin or fin

    def take(self, room: int) -> tuple[int, bytes, bool] | None:
        """The next frame of at most ``room`` bytes: offset, bytes, FIN; None if nothing can go."""
        room = min(room, self.credit - self.sent)
        taken: list[bytes] = []
        length = 0
        while self.chunks and length < room:
            chunk = self.chunks.popleft()
            if len(chunk) > room - length:
                self.chunks.appendleft(chunk[room - length :])
                chunk = chunk[: room - length]
            taken.append(chunk)
            length += len(chunk)
        fin = self.fin and not self.chunks and not self.finished
        if not length and not fin:
            return None
        offset = self.sent
        self.sent += length
        self.backlog -= length
        self.finished = self.finished or fin
        return offset, b"".join(taken), fin

    def abandon(self) -> None:
        """Forget what is queued."""
        self.chunks.clear()
        self.backlog = 0
        self.reset = True


class ReceivingHalf:
    """Puts frames into order and counts the credit that the peer has."""

    __slots__ = ("credit", "delivered", "final", "over", "parts", "reading", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.credit = window
        """The MAX_STREAM_DATA that we gave."""
        self.delivered = 0
        self.parts: dict[int, bytes] = {}
        self.final: int | None = None
        self.over = False
        self.reading = True

    def receive(self, offset: int, data: bytes, fin: bool) -> tuple[bytes, bool] | None:
        """Take a frame; what can be delivered now (bytes, FIN), or None."""
        if self.over:
            return None
        if fin:
            self.final = offset + len(data)
        if offset + len(data) > self.delivered and len(data) > len(self.parts.get(offset, b"")):
            self.parts[offset] = data
        ready: list[bytes] = []
        while True:
            at = next((o for o in sorted(self.parts) if o <= self.delivered), None)
            if at is None:
                break
            part = self.parts.pop(at)[self.delivered - at :]
            self.delivered += len(part)
            ready.append(part)
        ended = self.delivered == self.final
        self.over = ended
        return (b"".join(ready), ended) if ready or ended else None

    def grant(self) -> int | None:
        """A new MAX_STREAM_DATA when half of the window is used up."""
        if self.reading and not self.over and self.credit - self.delivered <= self.window // 2:
            self.credit = self.delivered + self.window
            return self.credit
        return None
