r"""The sending half of one stream, and the line in which streams wait for their turn.

::

    write --> fits the window, nothing waits --> engine           the common case: no queue at all
         \-> chunks of the stream; the stream stands in one Line:
                waiting   the peer allows no more streams yet
                ready     may be given to the engine, most urgent first
                stalled   the engine holds enough of it already (stream flow control)

Both are pure: :mod:`laps_sdk.quic.egress` decides, the shell brings the clock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING, Final

from laps_sdk.quic.base import OutStream

if TYPE_CHECKING:
    from laps_sdk.quic.egress import Egress

__all__ = ["ALLOWANCE", "EgressStream", "Line"]

ALLOWANCE: Final = 32 * 1024
"""Bytes of one stream that the engine may hold unsent before the stream has to wait."""

_FIRST: Final = -(1 << 63)


class EgressStream(OutStream):
    """One stream's queue. The attributes are the egress's; applications use the methods."""

    __slots__ = (
        "allowance",
        "chunks",
        "closed",
        "deadline",
        "drop_code",
        "droppable",
        "egress",
        "ended",
        "key",
        "offset",
        "place",
        "priority",
        "queued",
        "sid",
    )

    closed: bool
    queued: int

    def __init__(
        self,
        egress: Egress,
        stream_id: int | None,
        *,
        priority: int,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> None:
        self.egress = egress
        self.sid = -1 if stream_id is None else stream_id
        self.priority = priority
        self.droppable = droppable
        self.drop_code = drop_code
        self.deadline = deadline
        self.closed = False
        self.queued = 0
        self.ended = False  # FIN stands behind the chunks
        self.chunks: deque[bytes] | None = None
        self.offset = 0  # what was taken of the first chunk
        self.allowance = ALLOWANCE
        self.place: Line | None = None
        self.key: _Key = (0, 0, self)

    @property
    def stream_id(self) -> int | None:
        """See :attr:`OutStream.stream_id`."""
        return None if self.sid < 0 else self.sid

    @property
    def unsent(self) -> int:
        """See :attr:`OutStream.unsent`."""
        return self.queued + (0 if self.sid < 0 else self.egress.backlog(self.sid))

    def write(self, data: bytes, fin: bool = False) -> None:
        """See :meth:`OutStream.write`."""
        if self.closed:
            return
        egress = self.egress
        size = len(data)
        if (
            size < egress.budget
            and size < self.allowance
            and self.place is None
            and self.deadline is None
        ):
            egress.budget -= size
            self.allowance -= size
            egress.give(self.sid, data, fin)
            if not egress.dirty:
                egress.wake()
            if fin:
                egress.finished(self)
            return
        egress.submit(self, data, fin)

    def reset(self, code: int) -> None:
        """See :meth:`OutStream.reset`; also takes back a FIN that has not been handed to QUIC."""
        if not self.closed or self.ended:
            self.egress.abandon(self, code)

    def set_priority(self, priority: int) -> None:
        """See :meth:`OutStream.set_priority`."""
        place = self.place
        if place is None or priority == self.priority:
            self.priority = priority
            return
        place.remove(self)
        self.priority = priority
        place.add(self, self.egress.tick())

    def set_deadline(self, deadline: float | None) -> None:
        """See :meth:`OutStream.set_deadline`."""
        if deadline != self.deadline:
            self.deadline = deadline
            self.egress.deadline_changed(self)

    def take(self, room: int) -> bytes:
        """At most ``room`` bytes from the front of what is queued; small chunks are joined."""
        chunks = self.chunks
        if not chunks:
            return b""
        first, offset = chunks[0], self.offset
        left = len(first) - offset
        if left > room:  # a slice is copied once; the rest of the chunk stays where it is
            self.offset = offset + room
            self.queued -= room
            return first[offset : offset + room]
        self.offset = 0
        chunks.popleft()
        data = first[offset:] if offset else first
        if chunks and left + len(chunks[0]) <= room:
            pieces = [data]
            while chunks and left + len(chunks[0]) <= room:
                data = chunks.popleft()
                left += len(data)
                pieces.append(data)
            data = b"".join(pieces)
        self.queued -= left
        return data


_Key = tuple[int, int, EgressStream]


class Line:
    """Streams in order of urgency; those that may be dropped stand apart from those kept.

    Sorted lists: both ends are needed (send the most urgent, drop the least urgent), and moving a
    few thousand pointers is cheaper than keeping two heaps in step.
    """

    __slots__ = ("kept", "spare")

    def __init__(self) -> None:
        # (-priority, -tick, stream): the most urgent last; of equals, the one that waits longest.
        self.kept: list[_Key] = []
        self.spare: list[_Key] = []

    def __len__(self) -> int:
        return len(self.kept) + len(self.spare)

    def __bool__(self) -> bool:
        return bool(self.kept or self.spare)

    def add(self, stream: EgressStream, tick: int) -> None:
        """Put a stream into the line, behind those that are as urgent."""
        stream.key = key = (-stream.priority, -tick, stream)
        stream.place = self
        insort(self.spare if stream.droppable else self.kept, key)

    def remove(self, stream: EgressStream) -> None:
        """Take a stream out; it must stand here."""
        side = self.spare if stream.droppable else self.kept
        if side[-1][2] is stream:
            side.pop()
        else:
            del side[bisect_left(side, stream.key)]
        stream.place = None

    def urgent(self) -> EgressStream | None:
        """The most urgent stream."""
        kept, spare = self.kept, self.spare
        if not kept:
            return spare[-1][2] if spare else None
        if not spare or kept[-1] > spare[-1]:
            return kept[-1][2]
        return spare[-1][2]

    def expendable(self) -> EgressStream | None:
        """The least urgent stream that may be dropped; of equals, the one that waits longest."""
        spare = self.spare
        if not spare:
            return None
        rank, _, stream = spare[0]
        return spare[bisect_left(spare, (rank + 1, _FIRST, stream)) - 1][2]

    def streams(self) -> list[EgressStream]:
        """All of them, the most urgent first."""
        return [key[2] for key in sorted(self.kept + self.spare, reverse=True)]
