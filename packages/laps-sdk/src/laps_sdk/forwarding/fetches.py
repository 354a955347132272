"""All fetches: those that the cache answers, and those that are passed on.

A plan says what the cache knows of a range.

::

    wanted   5:2 ---------------------------------------------------> 9:4
    plan     [ group 5, from 2 ][ group 6 ][ groups 7-8: absent ][ group 9, up to 4 ]
    group 6  objects 0 1 2 | absent 3 | unknown 4-5 | object 6 | absent from 7 on (the group's end)

An object is *absent* only if somebody said so: the group or the track ended before it, an object's
gap extension covers it, or an upstream left it out of the answer to a FETCH. All else that is not
there is *unknown*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from laps_sdk.forwarding.cache import Cache, CachedObject, Segment
from laps_sdk.forwarding.coding import (
    CANCELLED,
    INTERNAL_ERROR,
    drop_code,
    integers_of,
    mirrored_code,
    translate_extensions,
)
from laps_sdk.forwarding.interfaces import (
    FetchEnded,
    FetchOutcome,
    FetchRange,
    OutStream,
    Subscription,
    UpstreamEnded,
)
from laps_sdk.forwarding.late import merged
from laps_sdk.forwarding.priority import stream_priority
from laps_sdk.forwarding.ranges import Ranges
from laps_sdk.forwarding.track import Group, Handler, Session, State, Track
from laps_wire.errors import EncodeError, IncompleteError
from laps_wire.moqt.codepoints import GroupOrder, ObjectStatus
from laps_wire.moqt.data.fetch import FetchParser, FetchWriter, decode_fetch_header
from laps_wire.moqt.data.types import (
    OBJECT_END,
    FetchHeader,
    ObjectHeader,
    RangeEnd,
    RangeKind,
    SubgroupHeader,
    TruncatedStreamError,
)
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft

__all__ = [
    "LAST_OBJECT",
    "FetchAnswer",
    "FetchOpening",
    "FetchOut",
    "FetchRelay",
    "Fetches",
    "GroupSpan",
    "Item",
    "is_covered",
    "items",
    "plan",
]


class Fetches:
    """What is under way."""

    __slots__ = ("_outs", "_sessions", "_state")

    def __init__(self, state: State, sessions: dict[int, Session]) -> None:
        self._state = state
        self._sessions = sessions
        self._outs: dict[Subscription, tuple[FetchOut, FetchRelay | None]] = {}
        """Answers that are being sent, and where they come from if not from the cache."""

    # From the cache

    def covers(self, now: float, wanted: FetchRange) -> bool:
        """Whether the cache knows all of a range."""
        track = self._state.tracks.get(wanted.track)
        return track is not None and is_covered(plan(now, self._state.cache, track, wanted))

    def serve(
        self, now: float, subscription: Subscription, wanted: FetchRange, *, partial: bool
    ) -> FetchOutcome:
        """Answer from the cache."""
        track = self._state.tracks.get(wanted.track)
        if track is None:
            return FetchOutcome.GAPS
        spans = plan(now, self._state.cache, track, wanted)
        if not partial and not is_covered(spans):
            return FetchOutcome.GAPS
        out = FetchOut(self._sessions[subscription.session], subscription, wanted, self._over)
        self._outs[subscription] = (out, None)
        FetchAnswer(out, items(spans)).pump(now)
        return FetchOutcome.SERVED

    # Passed on

    def relay(
        self, session: int, request_id: int, subscription: Subscription, wanted: FetchRange
    ) -> None:
        """Expect an answer that goes on to a receiver."""
        sender = self._sessions[session]
        out = FetchOut(self._sessions[subscription.session], subscription, wanted, self._over)
        relay = FetchRelay(sender, request_id, self._state.tracks[wanted.track], wanted, out)
        sender.fetches[request_id] = relay
        self._outs[subscription] = (out, relay)

    def opening(self, session: Session, stream_id: int) -> Handler:
        """A fetch stream begins."""
        return FetchOpening(session, stream_id)

    # Ends

    def _over(self, subscription: Subscription) -> None:
        """An answer was sent, or will not be."""
        _, relay = self._outs.pop(subscription, (None, None))
        if relay is not None:
            relay.out = None
            if relay.stream_id is None:
                relay.forget()  # nobody waits for its stream any more

    def cancel(self, now: float, subscription: Subscription, reset_code: int) -> None:  # noqa: ARG002
        """A receiver gave up, or the upstream refused: nobody needs to be told."""
        out, relay = self._outs.pop(subscription, (None, None))
        if out is not None:
            out.reset(reset_code, tell=False)
        if relay is not None:
            self._stop(relay)

    def _stop(self, relay: FetchRelay) -> None:
        relay.forget()
        if relay.stream_id is not None:
            relay.session.stop(relay.stream_id, CANCELLED)

    def forget(self, now: float, session: int) -> None:
        """A session is gone, with what it asked for and what it was asked for."""
        for subscription, (out, relay) in tuple(self._outs.items()):
            if subscription.session == session:
                out.ended = True
                del self._outs[subscription]
                if relay is not None:
                    relay.out = None
            elif relay is not None and relay.session.number == session:
                relay.reset(now, CANCELLED)

    def forget_track(self, now: float, track: Track) -> None:
        """A track is gone."""
        for relay in tuple(track.relays):
            if isinstance(relay, FetchRelay):
                self._stop(relay)
                relay.reset(now, CANCELLED)


LAST_OBJECT: Final = (1 << 62) - 1
"""Stands for the end of a group."""

_ABSENT: Final = RangeKind.NON_EXISTENT
_UNKNOWN: Final = RangeKind.UNKNOWN

Item: TypeAlias = CachedObject | RangeEnd
"""What an answer consists of; a range says what is up to its location, from the item before."""


class GroupSpan(NamedTuple):
    """Objects of one group that are wanted, with what is cached of it now."""

    group: Group
    start: int
    end: int
    segments: tuple[Segment, ...]

    def items(self) -> Iterator[Item]:
        """All that is known, ascending."""
        group = self.group
        pos = self.start
        wanted = [each for each in self.segments if each.ids.meets(self.start, self.end)]
        for item in merged(wanted):
            object_id = item.head.object_id
            if object_id < pos or not item.whole or item.head.status is not ObjectStatus.NORMAL:
                continue
            if object_id > self.end:
                break
            yield from _between(group, pos, object_id - 1)
            yield item
            pos = object_id + 1
        yield from _between(group, pos, self.end)

    @property
    def is_covered(self) -> bool:
        """Whether nothing of it is unknown; no object is read for that."""
        known = self.group.known_absent()
        for segment in self.segments:
            for first, last in segment.whole_ids:
                known.add_range(first, last)
        return not any(known.gaps(self.start, self.end))


Span: TypeAlias = GroupSpan | RangeEnd


def _between(group: Group, start: int, end: int) -> Iterator[RangeEnd]:
    """What is known of ids that are not cached."""
    if start > end:
        return
    absent = group.known_absent()
    pos = start
    for first, last in absent.gaps(start, end):
        if first > pos:
            yield RangeEnd(_ABSENT, group.group_id, first - 1)
        yield RangeEnd(_UNKNOWN, group.group_id, last)
        pos = last + 1
    if pos <= end:
        yield RangeEnd(_ABSENT, group.group_id, end)


def plan(now: float, cache: Cache, track: Track, wanted: FetchRange) -> list[Span]:
    """What a range consists of, in the order in which it is to be sent."""
    start, end = wanted.start, wanted.end
    spans: list[Span] = []
    ascending = wanted.order is not GroupOrder.DESCENDING
    absent = track.known_absent()
    expected = start.group
    for group_id in sorted(track.groups):
        if not start.group <= group_id <= end.group:
            continue
        group = track.groups[group_id]
        spans += _groups(absent, expected, group_id - 1, ascending)
        first = start.object if group_id == start.group else 0
        last = end.object if group_id == end.group else LAST_OBJECT
        fresh = tuple(segment for segment in group.segments if cache.is_fresh(now, segment))
        if first <= last:
            spans.append(GroupSpan(group, first, last, fresh))
        expected = group_id + 1
    spans += _groups(absent, expected, end.group, ascending)
    return spans if ascending else spans[::-1]


def _groups(absent: Ranges, start: int, end: int, ascending: bool) -> Iterator[RangeEnd]:
    """What is known of groups that have no record."""
    pos = start
    for first, last in absent.gaps(start, end):
        if first > pos:
            yield RangeEnd(_ABSENT, first - 1 if ascending else pos, LAST_OBJECT)
        yield RangeEnd(_UNKNOWN, last if ascending else first, LAST_OBJECT)
        pos = last + 1
    if pos <= end:
        yield RangeEnd(_ABSENT, end if ascending else pos, LAST_OBJECT)


def items(spans: list[Span]) -> Iterator[Item]:
    """An answer: objects, and ranges where they are needed.

    What is left out without a word does not exist; so a range that does not exist is only told
    before one that is unknown (moq-transport-16, 10.4.4.2).
    """
    held: list[RangeEnd] = []
    for span in spans:
        for item in span.items() if isinstance(span, GroupSpan) else (span,):
            if isinstance(item, RangeEnd):
                if held and held[-1].kind is item.kind:
                    held[-1] = item
                else:
                    held.append(item)
                continue
            yield from _needed(held)
            held.clear()
            yield item
    yield from _needed(held)


def _needed(held: list[RangeEnd]) -> list[RangeEnd]:
    if held and held[-1].kind is _ABSENT:
        return held[:-1]
    return held[:]


def is_covered(spans: list[Span]) -> bool:
    """Whether nothing in a plan is unknown."""
    return all(
        span.is_covered if isinstance(span, GroupSpan) else span.kind is not _UNKNOWN
        for span in spans
    )


_WRITE: Final = 32 * 1024
"""Objects are joined to writes of about this size; a larger piece goes as it is."""
_REST: Final = 0.25
"""Seconds between two looks at an answer of which nothing is taken."""


class FetchOut:
    """The stream of one answer, opened when the answer begins: an ``Owner``."""

    __slots__ = (
        "_over",
        "_parts",
        "_priority",
        "_size",
        "_stream",
        "ended",
        "session",
        "subscription",
        "writer",
    )

    def __init__(
        self,
        session: Session,
        subscription: Subscription,
        wanted: FetchRange,
        over: Callable[[Subscription], None],
    ) -> None:
        self._over = over
        self.session = session
        self.subscription = subscription
        draft = session.draft
        self.writer = FetchWriter(FetchHeader(subscription.request_id), draft, wanted.order)
        # Fetches compete with each other by the subscriber's priority alone.
        self._priority = stream_priority(wanted.priority, 128, wanted.order, wanted.start.group, 0)
        self._stream: OutStream | None = None
        self.ended = False
        self._parts: list[bytes | memoryview] = [self.writer.start]
        self._size = 0

    @property
    def queued(self) -> int:
        """Bytes that wait to be sent."""
        return 0 if self._stream is None else self._stream.queued

    def open(self) -> OutStream:
        """Open the stream, if it is not open; from now on an end is seen by the receiver."""
        stream = self._stream
        if stream is None:
            session = self.session
            stream = self._stream = session.egress.open_unidirectional(
                priority=self._priority, droppable=True, drop_code=drop_code(session.draft)
            )
            session.outs[stream] = self
        return stream

    def object(self, head: ObjectHeader, draft: Draft) -> None:
        """Begin an object; its payload follows."""
        target = self.session.draft
        if head.extensions and draft is not target:
            translated = translate_extensions(head.extensions, draft, target)
            head = head._replace(extensions=translated)
        self._add(self.writer.object_header(head))

    def range_end(self, item: RangeEnd) -> None:
        """A range without objects."""
        self._add(self.writer.range_end(item))

    def payload(self, piece: memoryview) -> None:
        """A piece of a payload; a chunk that is nothing else is not copied."""
        source = piece.obj
        if len(piece) >= _WRITE and isinstance(source, bytes) and len(source) == len(piece):
            self.flush()
            self.open().write(source)
        else:
            self._add(piece)

    def _add(self, data: bytes | memoryview) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what was joined."""
        if self._parts:
            self.open().write(b"".join(self._parts))
            self._parts.clear()
            self._size = 0

    # Ends

    def finish(self) -> None:
        """That was all."""
        if not self.ended:
            self.flush()
            stream = self.open()
            stream.write(b"", True)
            self.session.finish_out(stream)
            self._end(complete=True)

    def reset(self, code: int, *, tell: bool = True) -> None:
        """Abandon it."""
        if not self.ended:
            if self._stream is not None:
                self._stream.reset(code)
                self.session.outs.pop(self._stream, None)
            self._end(complete=False, tell=tell)

    def gone(self, now: float, stream: OutStream, lost: int) -> None:  # noqa: ARG002 - Owner
        """The receiver stopped it, or was too slow."""
        if not self.ended:
            self._end(complete=False)

    def _end(self, *, complete: bool, tell: bool = True) -> None:
        self.ended = True
        self._parts.clear()
        self._over(self.subscription)
        if tell:
            self.session.state.notices.append(FetchEnded(self.subscription, complete))


class FetchAnswer:
    """An answer that is being made."""

    __slots__ = ("_interval", "_items", "_queued", "out")

    def __init__(self, out: FetchOut, items: Iterator[Item]) -> None:
        self.out = out
        self._items = items
        self._queued = 0
        self._interval = 0.0

    def _wait(self, now: float, queued: int) -> None:
        """Look again later; ever more rarely at a receiver that takes nothing."""
        state = self.out.session.state
        if queued != self._queued:
            self._interval = state.limits.fetch_interval
        else:
            self._interval = min(2 * self._interval, _REST)
        self._queued = queued
        state.timers.set(self.pump, now + self._interval)

    def pump(self, now: float) -> None:
        """Make more, as far as there is room; come back later for the rest."""
        out = self.out
        state = out.session.state
        window, figures = state.limits.fetch_window, state.cache.figures
        if not out.ended:
            out.open()
        try:
            while not out.ended:
                if out.queued >= window:
                    self._wait(now, out.queued)
                    return
                item = next(self._items, None)
                if item is None:
                    out.finish()
                elif isinstance(item, RangeEnd):
                    out.range_end(item)
                else:
                    out.object(item.head, item.draft)
                    figures.hit(now - item.born, sum(map(len, item.pieces)))
                    for piece in item.pieces:
                        out.payload(piece)
        except EncodeError:
            # Ids or values that the receiver's draft has no integers for.
            out.reset(INTERNAL_ERROR)


def _is_between(group: Group, subgroup_id: int | None, last_id: int, object_id: int) -> bool:
    """Whether objects of a subgroup are kept between two others."""
    return last_id + 1 < object_id and any(
        segment.subgroup_id == subgroup_id and segment.ids.meets(last_id + 1, object_id - 1)
        for segment in group.segments
    )


class FetchOpening:
    """A fetch stream whose header is not whole: a ``Handler``."""

    __slots__ = ("_held", "_session", "_stream_id", "track")

    def __init__(self, session: Session, stream_id: int) -> None:
        self._session = session
        self._stream_id = stream_id
        self._held = b""
        self.track: Track | None = None

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""
        self._held += data
        session = self._session
        try:
            header, used = decode_fetch_header(self._held, session.draft)
        except IncompleteError:
            if fin:
                raise TruncatedStreamError("FIN in the middle of a FETCH_HEADER") from None
            return
        relay = session.fetches.get(header.request_id)
        if not isinstance(relay, FetchRelay):
            # Given up meanwhile: the request was cancelled, the answer was under way.
            session.stop(self._stream_id, CANCELLED)
            return
        session.streams[self._stream_id] = relay
        relay.stream_id = self._stream_id
        relay.data(now, self._held[used:], fin)

    def reset(self, now: float, code: int) -> None:
        """The request that it answers is not known."""


class FetchRelay:
    """One answer under way: a ``Handler``."""

    __slots__ = (
        "_at",
        "_have",
        "_head",
        "_pieces",
        "_segments",
        "ended",
        "out",
        "parser",
        "request_id",
        "session",
        "stream_id",
        "track",
        "wanted",
    )

    def __init__(
        self,
        session: Session,
        request_id: int,
        track: Track,
        wanted: FetchRange,
        out: FetchOut | None,
    ) -> None:
        self.session = session
        self.request_id = request_id
        self.track = track
        track.relays[self] = None
        self.wanted = wanted
        self.out = out
        """None if the receiver gave up."""
        self.stream_id: int | None = None
        self.ended = False
        self.parser = FetchParser(session.draft, wanted.order)
        self._head: ObjectHeader | None = None
        self._pieces: list[memoryview] = []
        self._segments: dict[tuple[int, int | None], Segment] = {}
        self._have: dict[int, Ranges] = {}
        start = wanted.start
        descending = wanted.order is GroupOrder.DESCENDING
        self._at = Location(wanted.end.group, 0) if descending else start
        """Everything before this was told."""

    # Handler

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""
        out = self.out
        if out is not None and not out.ended:
            out.open()
        for event in self.parser.feed(data):
            if isinstance(event, memoryview):
                self._pieces.append(event)
                if out is not None:
                    out.payload(event)
            elif isinstance(event, ObjectHeader):
                if event.extensions:
                    integers_of(event, self.session.draft)  # what cannot be read is not kept
                self._head = event
                self._passed(event.group_id, event.object_id - 1, absent=True)
                self._at = Location(event.group_id, event.object_id + 1)
                out = self._tell(event)
            elif event is OBJECT_END:
                self._keep(now)
            elif isinstance(event, RangeEnd):
                absent = event.kind is RangeKind.NON_EXISTENT
                self._passed(event.group_id, event.object_id, absent=absent)
                self._at = Location(event.group_id, event.object_id + 1)
                out = self._tell(event)
        if out is not None:
            out.flush()
        if fin:
            self.parser.finish()
            if out is not None:
                out.finish()
            self._end(complete=True)

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Handler
        """The upstream gave up, or broke the protocol."""
        if self.out is not None:
            draft = self.out.session.draft
            self.out.reset(mirrored_code(code, self.session.draft, draft))
        self._end(complete=False)

    def _tell(self, item: ObjectHeader | RangeEnd) -> FetchOut | None:
        """Tell the receiver what comes; None if there is none any more."""
        out = self.out
        if out is not None:
            try:
                if isinstance(item, RangeEnd):
                    out.range_end(item)
                else:
                    out.object(item, self.session.draft)
            except EncodeError:
                out.reset(INTERNAL_ERROR)
            if out.ended:
                self.out = None
        return self.out

    def _end(self, *, complete: bool) -> None:
        if self.ended:
            return
        self.ended = True
        self.forget()
        self.session.state.notices.append(
            UpstreamEnded(self.session.number, self.request_id, complete)
        )

    def forget(self) -> None:
        """Expect nothing more."""
        self.session.fetches.pop(self.request_id, None)
        self.track.relays.pop(self, None)

    # The cache

    def _keep(self, now: float) -> None:
        """An object is whole: keep it, unless it is there or still comes by itself."""
        head, pieces = self._head, self._pieces
        self._head, self._pieces = None, []
        if head is None:
            return
        group = self.track.group(head.group_id)
        group.check(head.object_id, head.subgroup_id)
        self.session.state.cache.missed(now, group, sum(map(len, pieces)))
        have = self._have.get(head.group_id)
        if have is None:
            have = self._have[head.group_id] = Ranges()
            for segment in group.segments:
                for first, last in segment.ids:
                    have.add_range(first, last)
        sub = None if head.subgroup_id is None else group.subgroups.get(head.subgroup_id)
        if (sub is not None and head.object_id > sub.spans[-1].last_id) or not have.add(
            head.object_id
        ):
            return
        cache = self.session.state.cache
        key = (head.group_id, head.subgroup_id)
        kept = self._segments.get(key)
        if (
            kept is None
            or not kept.cost
            or kept.header.priority != head.priority
            or cache.is_closed(now, kept)
            or _is_between(group, head.subgroup_id, kept.last_id, head.object_id)
        ):
            header = SubgroupHeader(
                0, head.group_id, head.subgroup_id or 0, head.priority, has_extensions=True
            )
            kept = self._segments[key] = Segment(
                group,
                header,
                head.subgroup_id,
                self.session.draft,
                base=-1,
                default_priority=128,
                born=now,
            )
            cache.add(kept)
        kept.append_object(now, head, b"".join(pieces))
        cache.grew(kept, 1)

    def _passed(self, group_id: int, object_id: int, *, absent: bool) -> None:
        """Up to this location nothing came: it does not exist, or the upstream does not know."""
        at = self._at
        if not absent:
            return
        if group_id == at.group:
            self._absent(group_id, at.object, object_id)
            return
        self._absent(at.group, at.object, LAST_OBJECT)
        low, high = sorted((at.group, group_id))
        if high - low > 1:
            self.track.missing_groups.add_range(low + 1, high - 1)
            self.track.missing_groups.forget(self.track.limits.id_ranges)
        self._absent(group_id, 0, object_id)

    def _absent(self, group_id: int, start: int, end: int) -> None:
        if start <= end and group_id in self.track.groups:
            missing = self.track.groups[group_id].missing
            missing.add_range(start, end)
            missing.forget(self.track.limits.id_ranges)
