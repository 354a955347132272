"""The answer to a FETCH of ours, passed on to a receiver as it arrives, and kept."""

from __future__ import annotations

from laps_sdk.forwarding.coding import CANCELLED, INTERNAL_ERROR, integers_of, mirrored_code
from laps_sdk.forwarding.fetch_answer import FetchOut
from laps_sdk.forwarding.fetch_plan import LAST_OBJECT
from laps_sdk.forwarding.interfaces import FetchRange, UpstreamEnded
from laps_sdk.forwarding.ranges import Ranges
from laps_sdk.forwarding.segment import Segment
from laps_sdk.forwarding.state import Session
from laps_sdk.forwarding.track import Track
from laps_wire.errors import EncodeError, IncompleteError
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data.fetch import FetchParser, decode_fetch_header
from laps_wire.moqt.data.types import (
    OBJECT_END,
    ObjectHeader,
    RangeEnd,
    RangeKind,
    SubgroupHeader,
    TruncatedStreamError,
)
from laps_wire.moqt.structures import Location

__all__ = ["FetchOpening", "FetchRelay"]


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
        if relay is None:
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
        feed = None if head.subgroup_id is None else group.feeds.get(head.subgroup_id)
        if (feed is not None and head.object_id > feed.last_id) or not have.add(head.object_id):
            return
        cache = self.session.state.cache
        key = (head.group_id, head.subgroup_id)
        kept = self._segments.get(key)
        if (
            kept is None
            or not kept.cost
            or kept.header.priority != head.priority
            or cache.is_closed(now, kept)
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
            kept.live = False
            cache.add(kept)
        kept.append_object(head, b"".join(pieces))
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
