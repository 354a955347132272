"""A second stream of a subgroup that another one already brings: kept for when that one fails.

Objects that came on the first stream are duplicates; those that did not come yet are kept, within
``PlaneLimits.standby_bytes``, until they do. The object under way is kept as well, so that taking
over in the middle of it loses nothing.

A stream of a client does not wait for that behind one of the relay network::

    Stub --> old parent --> network --> new parent <-- Stub
                                        the first      stands by, and is for the network

What the network brings does not go back there, where some may still want it: from us, because
whoever brought it ends. So the client's stream takes the lead, between two objects and when it has
all that is to come.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from laps_sdk.forwarding.coding import Mark
from laps_sdk.forwarding.continuing import go_on
from laps_sdk.forwarding.feed import Feed
from laps_sdk.forwarding.scan import RunParser
from laps_sdk.forwarding.state import Session
from laps_wire.moqt.data.types import MalformedTrackError, ObjectHeader, SubgroupHeader

if TYPE_CHECKING:
    from laps_sdk.forwarding.group import Group
    from laps_sdk.forwarding.track import Track

__all__ = ["Standby"]


class Standby:
    """A ``Handler`` of a stream that stands by."""

    __slots__ = (
        "_default_priority",
        "_first",
        "_head",
        "_kept",
        "_pieces",
        "_since",
        "_size",
        "awaited",
        "finished",
        "first_id",
        "group",
        "header",
        "parser",
        "session",
        "stream_id",
        "subgroup_id",
    )

    def __init__(
        self,
        session: Session,
        stream_id: int,
        parser: RunParser,
        header: SubgroupHeader,
        first: Feed,
        default_priority: int,
    ) -> None:
        self.session = session
        self.stream_id = stream_id
        self.parser = parser
        self.header = header
        self.group: Group = first.group
        self.subgroup_id = first.subgroup_id
        self._first: Feed | None = first
        self._default_priority = default_priority
        self._head: ObjectHeader | None = None
        self._pieces: list[bytes] = []
        self._kept: deque[tuple[ObjectHeader, bytes]] = deque()
        self._size = 0
        self._since = 0
        """The object from which on it has all that did not come on the first one."""
        self.finished = False
        """Whether all of it came."""
        self.first_id: int | None = None
        """The object with which it begins, once that has."""
        self.awaited: int | None = None
        """It was cut as well, before this object."""
        other = first.header.priority
        if header.priority is not None and other is not None and header.priority != other:
            # One subgroup, one priority (moq-transport-16, 2.4.2).
            raise MalformedTrackError(
                f"subgroup {self.subgroup_id} of group {header.group_id} came with priority"
                f" {other} and with {header.priority}"
            )
        first.standby.append(self)

    # Handler

    @property
    def track(self) -> Track:
        """What it belongs to."""
        return self.group.track

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""
        marks: list[Mark] = []
        body, end = self.parser.scan(data, marks)
        pos = 0
        for head, start, payload in marks:
            self._whole(body[pos:start])
            self._head, pos = head, payload
        if pos < end:
            self._pieces.append(body[pos:end])
        if self._head is not None and not self.parser.left:
            self._whole(b"")
        if marks and self.first_id is None:
            self.first_id = marks[0][0].object_id
            self._since = max(self._since, self.first_id)
        if fin:
            self.awaited = self.parser.cut_before if self.session.peering else None
            if self.awaited is None:
                self.parser.finish()
            self.finished = True
        first = self._first
        if first is not None and first.awaited is not None:
            go_on(now, first, self)
        else:
            self.lead(now)

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Handler
        """It was abandoned: nothing can go on with it."""
        self._head = None
        self._leave()

    # Objects

    def _whole(self, rest: bytes) -> None:
        """The object under way is complete."""
        head = self._head
        if head is None:
            return
        payload = b"".join((*self._pieces, rest))
        self._head = None
        self._pieces.clear()
        group, track = self.group, self.group.track
        group.check(head.object_id, self.subgroup_id)
        if self._came(head.object_id):
            track.duplicates += 1
        elif self._first is None:
            track.dropped_objects += 1
        else:
            self._kept.append((head, payload))
            self._size += len(payload)
        limits = self.session.state.limits
        limit = limits.continued_bytes if self.session.peering else limits.standby_bytes
        while self._kept and (self._size > limit or self._came(self._kept[0][0].object_id)):
            old, payload = self._kept.popleft()
            self._size -= len(payload)
            if self._came(old.object_id):
                track.duplicates += 1
            else:
                self.session.state.standby_overflow += 1
                self._since = old.object_id + 1

    def _came(self, object_id: int) -> bool:
        """Whether all of an object came on another stream."""
        first = self._first
        if first is not None and first.parser.left and object_id == first.last_id:
            return False  # it is under way there, and may be broken off
        return object_id in self.group.seen

    def take(self) -> list[tuple[ObjectHeader, bytes]]:
        """All that was kept, and the beginning of the object under way."""
        items = list(self._kept)
        self._kept.clear()
        if self._head is not None:
            items.append((self._head, b"".join(self._pieces)))
        self.give_up()
        self._head = None
        self._pieces.clear()
        return items

    # Ends

    def give_up(self) -> None:
        """The subgroup ended, or another stream has it now: keep nothing."""
        for head, _ in self._kept:
            if head.object_id in self.group.seen:
                self.group.track.duplicates += 1
        self._kept.clear()
        self._size = 0
        self._first = None

    def _leave(self) -> None:
        if self._first is not None and self in self._first.standby:
            self._first.standby.remove(self)
        self.give_up()

    # Taking over

    def fits(self, feed: Feed) -> bool:
        """Whether its bytes can follow on the streams of another one."""
        return (
            self.parser.draft is feed.draft
            and self.header.has_extensions == feed.header.has_extensions
        )

    def promote(self, now: float, others: list[Standby]) -> None:
        """Become the stream that brings the subgroup."""
        feed = Feed(
            self.session,
            self.stream_id,
            self.parser,
            self.header,
            self.subgroup_id,
            self.group,
            self._default_priority,
        )
        if not self.finished:
            self.session.streams[self.stream_id] = feed
        for other in others:
            other.follow(feed)
        feed.inject(now, self)

    def lead(self, now: float) -> None:
        """Change places with the first one if that is the network's, and others there want it."""
        first = self._first
        if (
            first is None
            or not first.session.upstream
            or self.session.upstream
            or first.awaited is not None
            or first.parser.left
            or first.last_id + 1 < self._since
            or not self.fits(first)
            or not self._is_wanted_beyond(first.session)
        ):
            return
        former = Standby(
            first.session, first.stream_id, first.parser, first.header, first, first.priority
        )
        first.session.streams[first.stream_id] = former
        first.standby.remove(self)
        first.take_over(now, self)

    def _is_wanted_beyond(self, session: Session) -> bool:
        """Whether anybody wants the subgroup who gets nothing of what a session sends."""
        group = self.group
        refused = group.refused.get(self.subgroup_id, ())
        return any(
            receiver.wants_group(group.group_id) and receiver not in refused
            for receiver in group.track.receivers
            if not receiver.takes_from(session.number)
        )

    def follow(self, feed: Feed) -> None:
        """Stand by for another one."""
        self._first = feed
        feed.standby.append(self)
