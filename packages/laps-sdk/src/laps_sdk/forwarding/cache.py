"""The cache: which segments are kept, and which go first.

::

    order   oldest [ segment | segment | segment | ... ] newest      of all tracks
    track            `- bytes, objects, groups ----'                 each with its own limits

Whatever limit is reached, the oldest goes: a group as a whole, unless it is the only one of its
track, which loses its oldest segment. What is too old goes by :meth:`Cache.expire`. A track's
newest segment, with its latest object, stays longer if the age is our own limit and not the
publisher's: it is what a late subscriber to a quiet track asks for.

Every step is O(1) for each segment that goes. Its bytes go with it: answers that still read it end.

What was given, missed and forgotten is in :class:`CacheFigures`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from laps_sdk.forwarding.coding import Mark, object_header
from laps_sdk.forwarding.interfaces import CacheLimits
from laps_sdk.forwarding.ranges import Ranges
from laps_sdk.forwarding.scan import RunParser
from laps_wire.moqt.data.types import ObjectHeader, SubgroupHeader
from laps_wire.moqt.versions import Draft
from laps_wire.telemetry import AGE_BOUNDS_MS, MsHistogram

__all__ = [
    "CHUNK_COST",
    "SEGMENT_BYTES",
    "SEGMENT_COST",
    "Ages",
    "Cache",
    "CacheFigures",
    "CacheTraffic",
    "CachedGroup",
    "CachedObject",
    "CachedTrack",
    "Segment",
]

SEGMENT_BYTES: Final = 128 * 1024
"""A segment that is larger is closed."""
_SLICES: Final = 8
"""So many segments make up the greatest age: objects go at most that part of it too early."""


class CachedTrack:
    """What the cache keeps of a track, and how long it may."""

    __slots__ = (
        "cached",
        "cached_bytes",
        "cached_groups",
        "cached_objects",
        "expiry",
        "max_age",
    )

    def __init__(self, max_age: float | None) -> None:
        self.max_age = max_age
        self.cached: OrderedDict[Segment, None] = OrderedDict()
        self.cached_groups: OrderedDict[CachedGroup, None] = OrderedDict()
        self.cached_bytes = 0
        self.cached_objects = 0
        self.expiry: float | None = None


class CachedGroup:
    """What the cache keeps of a group."""

    __slots__ = ("born", "group_id", "segments", "track")

    def __init__(self, track: CachedTrack, group_id: int) -> None:
        self.track = track
        self.group_id = group_id
        self.born: float | None = None
        """When something of it was cached first."""
        self.segments: dict[Segment, None] = {}
        """What is cached, oldest first."""


class Cache:
    """All segments of all tracks."""

    __slots__ = ("_due", "_numbers", "bytes", "figures", "limits", "order")

    def __init__(self, limits: CacheLimits) -> None:
        self.limits = limits
        self.bytes = 0
        """What all segments take."""
        self.order: OrderedDict[Segment, None] = OrderedDict()
        """All of them, oldest first."""
        self._due: list[tuple[float, int, CachedTrack]] = []
        """When each track has something that is too old: one entry for each."""
        self._numbers = count()
        self.figures = CacheFigures()

    # What comes

    def add(self, segment: Segment) -> None:
        """Begin to keep a segment; what it holds is counted by :meth:`grew`."""
        group = segment.group
        track = group.track
        if group.born is None:
            group.born = segment.born
        if not group.segments:
            track.cached_groups[group] = None
        group.segments[segment] = None
        track.cached[segment] = None
        self.order[segment] = None
        segment.expires = segment.born + self.age_of(track)
        self._arm(track)

    def grew(self, segment: Segment, objects: int) -> None:
        """Count what was appended to a segment (or cut off it), and make room for it."""
        cost = segment.memory
        track = segment.group.track
        added = cost - segment.cost
        segment.cost = cost
        self.bytes += added
        track.cached_bytes += added
        track.cached_objects += objects
        if self.bytes > self.limits.max_bytes or self._is_over(track):
            self._make_room(track)

    def is_closed(self, now: float, segment: Segment) -> bool:
        """Whether the next object should begin another segment."""
        age = self.age_of(segment.group.track)
        return segment.size >= SEGMENT_BYTES or now - segment.born > age / _SLICES

    def age_of(self, track: CachedTrack) -> float:
        """How long objects of a track are kept."""
        limit = self.limits.max_age
        return limit if track.max_age is None else min(limit, track.max_age)

    def is_fresh(self, now: float, segment: Segment) -> bool:
        """Whether a segment may still be used: a publisher's limit is kept to the moment."""
        return segment.expires > now or not self._is_strict(segment.group.track)

    def missed(self, now: float, group: CachedGroup, size: int) -> None:
        """An object of a group had to be fetched; it may have been here, and is too old now."""
        age = None if group.born is None else now - group.born
        late = age is not None and age > self.age_of(group.track)
        self.figures.missed(size, age if late else None)

    def _is_strict(self, track: CachedTrack) -> bool:
        return track.max_age is not None and track.max_age <= self.limits.max_age

    # What goes

    def remove(self, segment: Segment) -> int:
        """Forget a segment; how many bytes it took."""
        group = segment.group
        track = group.track
        del self.order[segment]
        del group.segments[segment]
        del track.cached[segment]
        if not group.segments:
            del track.cached_groups[group]
        cost = segment.cost
        self.bytes -= cost
        track.cached_bytes -= cost
        track.cached_objects -= segment.count
        segment.cost = 0
        segment.release()
        return cost

    def remove_group(self, group: CachedGroup) -> int:
        """Forget what is cached of a group."""
        return sum(self.remove(segment) for segment in tuple(group.segments))

    def purge(self, track: CachedTrack | None = None) -> int:
        """Forget everything, or everything of one track."""
        segments = self.order if track is None else track.cached
        return sum(self.remove(segment) for segment in tuple(segments))

    def set_limits(self, limits: CacheLimits, tracks: Sequence[CachedTrack]) -> None:
        """Change the limits; what is over them goes, what is too old by the next expiry."""
        self.limits = limits
        for track in tracks:
            for segment in track.cached:
                segment.expires = segment.born + self.age_of(track)
            track.expiry = None
            self._arm(track)
            self._make_room(track)

    def _is_over(self, track: CachedTrack) -> bool:
        limits = self.limits
        return (
            track.cached_bytes > limits.max_track_bytes
            or track.cached_objects > limits.max_objects
            or len(track.cached_groups) > limits.max_groups
        )

    def _make_room(self, track: CachedTrack) -> None:
        while track.cached and self._is_over(track):
            self._remove_oldest(next(iter(track.cached_groups)))
        while self.order and self.bytes > self.limits.max_bytes:
            self._remove_oldest(next(iter(self.order)).group)

    def _remove_oldest(self, group: CachedGroup) -> None:
        if len(group.track.cached_groups) > 1:
            self.figures.evicted += self.remove_group(group)
        else:
            self.figures.evicted += self.remove(next(iter(group.segments)))

    # Age

    def expire(self, now: float) -> None:
        """Forget what is too old."""
        while self._due and self._due[0][0] <= now:
            when, _, track = heappop(self._due)
            if when == track.expiry:
                track.expiry = None
                self._expire(now, track)
                self._arm(track, behind=now)

    def _expire(self, now: float, track: CachedTrack) -> None:
        spare = not self._is_strict(track)
        while track.cached:
            segment = next(iter(track.cached))
            if segment.expires > now or (spare and len(track.cached) == 1):
                return
            self.figures.expired += self.remove(segment)

    def _arm(self, track: CachedTrack, behind: float = float("-inf")) -> None:
        """See to it that the track's oldest segment goes in time."""
        if track.expiry is None and track.cached:
            when = next(iter(track.cached)).expires
            if when > behind:
                track.expiry = when
                heappush(self._due, (when, next(self._numbers), track))

    def next_expiry(self) -> float | None:
        """When :meth:`expire` has something to do."""
        return self._due[0][0] if self._due else None


SEGMENT_COST: Final = 960
"""Bytes that a segment takes besides its chunks."""
_RANGE_COST: Final = 80
"""Bytes that one more range of ids takes."""
CHUNK_COST: Final = 72
"""Bytes that a chunk takes besides its length: its object's head and the lists' entries."""
_TICK: Final = 0.05
"""Seconds within which chunks count as one time."""


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
    """A run of objects of one subgroup with ascending ids, as the bytes that were forwarded.

    Little is done for an object that is cached: the chunk that went to the receivers is appended to
    a list, by reference, and the ids that begin in it are added to a set of ranges. Objects are
    read out again when somebody asks for them; the ids tell without reading what is there.

    ::

        Segment   group 7, subgroup 0, behind object 3, draft 16
          chunks  [ head4 payload4 head5 pay ][ load5 head6 payload6 ]...

    A long subgroup has several segments, each closed when it is large or old enough, so that what
    is too old can go without what is not.
    """

    __slots__ = (
        "_last_end",
        "_last_head",
        "base",
        "born",
        "chunks",
        "cost",
        "count",
        "counts",
        "default_priority",
        "draft",
        "expires",
        "finished",
        "group",
        "header",
        "ids",
        "last_id",
        "last_start",
        "left",
        "lefts",
        "next",
        "origin",
        "payloads",
        "released",
        "size",
        "subgroup_id",
        "ticks",
    )

    def __init__(
        self,
        group: CachedGroup,
        header: SubgroupHeader,
        subgroup_id: int | None,
        draft: Draft,
        *,
        base: int,
        default_priority: int,
        born: float,
        origin: int | None = None,
        left: int = 0,
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
        self.left = left
        """Payload bytes of that object with which it begins; others are in another segment."""
        self.default_priority = default_priority
        """What objects have whose header names no priority."""
        self.born = born
        self.expires = float("inf")
        self.chunks: list[bytes] = []
        self.counts = array("I")
        """For each chunk: how many objects begin in it ..."""
        self.payloads = array("I")
        """... how many bytes of it are payload ..."""
        self.lefts = array("Q")
        """... and how many payload bytes its last object lacks at its end."""
        self.ticks: list[tuple[int, float]] = []
        """When chunks came: the first one of each short time, and that time."""
        self.next: Segment | None = None
        """Where the same stream goes on."""
        self.released = False
        """Whether the bytes were given back."""
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
        self._last_head = 0  # how long its head is
        self._last_end = left  # and where it ends, once all of it is here
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
        if sum(map(len, self._rest())) >= self._last_end - self.size:
            return self.ids
        whole = self.ids.union(Ranges())
        whole.discard(self.last_id)
        return whole

    def _rest(self) -> Iterator[memoryview]:
        """What follows of its last object in other segments."""
        lacks = self._last_end - self.size
        following = self.next
        while lacks > 0 and following is not None and following.base == self.last_id:
            for chunk in following.chunks:
                piece = memoryview(chunk)[:lacks]
                lacks -= len(piece)
                if piece:
                    yield piece
            following = following.next

    def append(self, now: float, body: bytes, marks: list[Mark]) -> None:
        """Keep more bytes; ``marks`` are the objects that begin in them."""
        payload = len(body)
        for _, start, end in marks:
            payload -= end - start
        self.counts.append(len(marks))
        self.payloads.append(payload)
        ticks = self.ticks
        if not ticks or now - ticks[-1][1] > _TICK:
            ticks.append((len(self.chunks), now))
        if marks:
            last, start, behind = marks[-1]
            first_id, last_id = marks[0][0].object_id, last.object_id
            if last_id - first_id + 1 == len(marks):
                self.ids.add_range(first_id, last_id)
            else:
                for mark in marks:
                    self.ids.add(mark[0].object_id)
            self.last_id = last_id
            self.last_start = self.size + start
            self._last_head = behind - start
            self._last_end = self.size + behind + last.payload_length
            self.count += len(marks)
        self.chunks.append(body)
        self.size += len(body)
        self.lefts.append(max(self._last_end - self.size, 0))

    def append_object(self, now: float, head: ObjectHeader, payload: bytes) -> None:
        """Keep a whole object, which comes behind all others."""
        start = object_header(
            head, self.last_id, self.header.has_extensions, self.draft, self.draft
        )
        self.append(now, start + payload, [(head, 0, len(start))])

    def came(self, index: int) -> float:
        """When a chunk came, or shortly before."""
        ticks = self.ticks
        return ticks[max(bisect_left(ticks, (index + 1,)) - 1, 0)][1]

    def cut(self) -> None:
        """Forget the last object: the rest of it will not come."""
        chunks = self.chunks
        while self.size > self.last_start:
            last = chunks.pop()
            objects, payload = self.counts.pop(), self.payloads.pop()
            self.lefts.pop()
            self.size -= len(last)
            keep = self.last_start - self.size
            if keep > 0:
                chunks.append(last[:keep])
                self.counts.append(objects - 1)
                self.payloads.append(payload - (len(last) - keep - self._last_head))
                self.lefts.append(0)
                self.size += keep
        self.count -= 1
        self.ids.discard(self.last_id)
        self.last_id = self.ids.last if self.count else self.base
        self._last_end = self.size

    def release(self) -> None:
        """Give the bytes back: whoever is still reading finds nothing more."""
        self.chunks = []
        self.counts, self.payloads, self.lefts = array("I"), array("I"), array("Q")
        self.ticks = []
        self.released = True

    def objects(self) -> Iterator[CachedObject]:
        """All objects; the last one may not be whole.

        Between two of them the segment may lose its bytes (:meth:`release`): who reads slowly must
        not keep in memory what the cache has let go.
        """
        parser = RunParser.behind(self.header, self.draft, self.base, self.left)
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
            if not whole and not self.released:
                rest = list(self._rest())
                whole = sum(map(len, rest)) == parser.left
                pieces += rest
            yield CachedObject(head, pieces, self.draft, whole=whole, born=self.born)

    def _resolved(self, head: ObjectHeader) -> ObjectHeader:
        return head._replace(subgroup_id=self.subgroup_id, priority=self.priority)


class Ages:
    """Bytes by their age."""

    __slots__ = ("_counts", "_oldest", "_sum", "bytes")

    def __init__(self) -> None:
        self._counts = [0] * (len(AGE_BOUNDS_MS) + 1)
        self._sum = 0.0
        self._oldest: float | None = None
        self.bytes = 0

    def add(self, age: float, size: int) -> None:
        """So many bytes, so many seconds old."""
        milliseconds = max(0.0, age * 1000)
        self._counts[bisect_left(AGE_BOUNDS_MS, milliseconds)] += size
        self._sum += milliseconds * size
        self._oldest = max(milliseconds, self._oldest or 0.0)
        self.bytes += size

    def histogram(self) -> MsHistogram:
        """As telemetry has it; its counts are bytes."""
        return MsHistogram(AGE_BOUNDS_MS, tuple(self._counts), self._sum, self._oldest)


class CacheTraffic(NamedTuple):
    """Of a time."""

    hits: Ages
    late: Ages
    missed: int
    """Bytes that were asked for and had to be fetched, too old ones among them."""
    expired: int
    evicted: int

    @property
    def is_idle(self) -> bool:
        """Whether nothing happened."""
        return not (self.hits.bytes or self.missed or self.expired or self.evicted)


class CacheFigures:
    """What a cache gave, missed and forgot since the last look.

    Ages say what another limit would bring. With one of T everything would be given that was asked
    for at an age of at most T: what is given now (``hits``), and what was there once and is too old
    (``late``).
    """

    __slots__ = ("_hits", "_late", "_missed", "evicted", "expired")

    def __init__(self) -> None:
        self._hits = Ages()
        self._late = Ages()
        self._missed = 0
        self.expired = 0
        self.evicted = 0

    def hit(self, age: float, size: int) -> None:
        """Bytes were given."""
        self._hits.add(age, size)

    def missed(self, size: int, age: float | None = None) -> None:
        """Bytes had to be fetched; with an age if they were here once and are too old."""
        self._missed += size
        if age is not None:
            self._late.add(age, size)

    def take(self) -> CacheTraffic:
        """The sums, once: they begin anew."""
        taken = CacheTraffic(self._hits, self._late, self._missed, self.expired, self.evicted)
        self._hits, self._late = Ages(), Ages()
        self._missed = self.expired = self.evicted = 0
        return taken
