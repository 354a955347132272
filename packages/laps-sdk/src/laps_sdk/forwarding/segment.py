"""What the cache is made of: a run of objects of one subgroup, as the bytes that were forwarded.

Little is done for an object that is cached: the chunk that went to the receivers is appended to a
list, by reference, and the ids that begin in it are added to a set of ranges. Objects are read out
again when somebody asks for them; the ids tell without reading what is there.

::

    Segment   group 7, subgroup 0, behind object 3, draft 16
      chunks  [ head4 payload4 head5 pay ][ load5 head6 payload6 ]...

A long subgroup has several segments, each closed when it is large or old enough, so that what is
too old can go without what is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from laps_sdk.forwarding.coding import Mark, object_header
from laps_sdk.forwarding.ranges import Ranges
from laps_sdk.forwarding.scan import RunParser
from laps_wire.moqt.data.types import ObjectHeader, SubgroupHeader
from laps_wire.moqt.versions import Draft

if TYPE_CHECKING:
    from laps_sdk.forwarding.group import Group

__all__ = ["CHUNK_COST", "SEGMENT_COST", "CachedObject", "Segment"]

SEGMENT_COST: Final = 960
"""Bytes that a segment takes besides its chunks."""
_RANGE_COST: Final = 80
"""Bytes that one more range of ids takes."""
CHUNK_COST: Final = 56
"""Bytes that a chunk takes besides its length: its object's head and the list's entry."""


class CachedObject(NamedTuple):
    """An object read from a segment; its pieces are views on the segment's chunks."""

    head: ObjectHeader
    pieces: list[memoryview]
    draft: Draft
    """Whose integers its extensions use."""
    whole: bool
    """False for one that is still under way."""
    born: float
    """When its segment began."""


class Segment:
    """A run of objects with ascending ids."""

    __slots__ = (
        "_last_end",
        "base",
        "born",
        "chunks",
        "cost",
        "count",
        "default_priority",
        "draft",
        "expires",
        "finished",
        "group",
        "header",
        "ids",
        "last_id",
        "last_start",
        "live",
        "origin",
        "size",
        "subgroup_id",
    )

    def __init__(
        self,
        group: Group,
        header: SubgroupHeader,
        subgroup_id: int | None,
        draft: Draft,
        *,
        base: int,
        default_priority: int,
        born: float,
        origin: int | None = None,
    ) -> None:
        self.group = group
        self.header = header
        """Of the stream that it came on; the alias in it means nothing here."""
        self.subgroup_id = subgroup_id
        """None: its objects came as datagrams."""
        self.origin = origin
        """The number of the session that it came from; None: of the answer to a FETCH."""
        self.draft = draft
        self.base = base
        """The object before its first one on the stream; -1 if there was none."""
        self.default_priority = default_priority
        """What objects have whose header names no priority."""
        self.born = born
        self.expires = float("inf")
        self.chunks: list[bytes] = []
        self.size = 0
        """Of all chunks."""
        self.cost = 0
        """What the cache counted for it; 0 if it is not in the cache."""
        self.count = 0
        """Objects that begin in it."""
        self.ids = Ranges()
        """Which ones."""
        self.last_id = base
        """The last of them."""
        self.last_start = 0
        """Where the last of them does."""
        self._last_end = 0  # and where it ends, once all of it is here
        self.live = True
        """Whether its last object may still grow."""
        self.finished = False
        """Whether the subgroup ended with a FIN behind it."""

    @property
    def priority(self) -> int:
        """The publisher's, of all its objects."""
        priority = self.header.priority
        return self.default_priority if priority is None else priority

    @property
    def memory(self) -> int:
        """What it takes."""
        ranges = _RANGE_COST * max(len(self.ids) - 1, 0)
        return SEGMENT_COST + self.size + CHUNK_COST * len(self.chunks) + ranges

    @property
    def whole_ids(self) -> Ranges:
        """The objects of which every byte is here."""
        if self.size >= self._last_end:
            return self.ids
        whole = self.ids.union(Ranges())
        whole.discard(self.last_id)
        return whole

    def append(self, body: bytes, marks: list[Mark]) -> None:
        """Keep more bytes; ``marks`` are the objects that begin in them."""
        if marks:
            last, start, payload = marks[-1]
            first_id, last_id = marks[0][0].object_id, last.object_id
            if last_id - first_id + 1 == len(marks):
                self.ids.add_range(first_id, last_id)
            else:
                for mark in marks:
                    self.ids.add(mark[0].object_id)
            self.last_id = last_id
            self.last_start = self.size + start
            self._last_end = self.size + payload + last.payload_length
            self.count += len(marks)
        self.chunks.append(body)
        self.size += len(body)

    def append_object(self, head: ObjectHeader, payload: bytes) -> None:
        """Keep a whole object, which comes behind all others."""
        start = object_header(
            head, self.last_id, self.header.has_extensions, self.draft, self.draft
        )
        self.append(start + payload, [(head, 0, len(start))])

    def cut(self) -> None:
        """Forget the last object: the rest of it will not come."""
        chunks = self.chunks
        while self.size > self.last_start:
            last = chunks.pop()
            self.size -= len(last)
            keep = self.last_start - self.size
            if keep > 0:
                chunks.append(last[:keep])
                self.size += keep
        self.count -= 1
        self.ids.discard(self.last_id)
        self.last_id = self.ids.last if self.count else self.base
        self._last_end = self.size

    def release(self) -> None:
        """Give the bytes back: whoever is still reading finds nothing more."""
        self.chunks = []

    def objects(self) -> Iterator[CachedObject]:
        """All objects; the last one may not be whole.

        Between two of them the segment may lose its bytes (:meth:`release`): who reads slowly must
        not keep in memory what the cache has let go.
        """
        parser = RunParser.behind(self.header, self.draft, self.base)
        head: ObjectHeader | None = None
        pieces: list[memoryview] = []
        index = 0
        while index < len(self.chunks):
            marks: list[Mark] = []
            data, end = parser.scan(self.chunks[index], marks)
            index += 1
            view = memoryview(data)
            pos = 0
            for mark in marks:
                if head is not None:
                    if mark[1] > pos:
                        pieces.append(view[pos : mark[1]])
                    yield CachedObject(head, pieces, self.draft, whole=True, born=self.born)
                head, _, pos = mark
                head = self._resolved(head)
                pieces = []
            if end > pos:
                pieces.append(view[pos:end])
        if head is not None:
            whole = not parser.left
            yield CachedObject(head, pieces, self.draft, whole=whole, born=self.born)

    def _resolved(self, head: ObjectHeader) -> ObjectHeader:
        return head._replace(subgroup_id=self.subgroup_id, priority=self.priority)
