"""Subgroups under way: what a publisher writes, object by object, on one stream.

A write is one step: whole objects are handed to the transport in one go, behind the point where a
caller may be cancelled. So a cancelled ``write`` has sent the whole object or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from laps_sdk.client.core.objects import encode_object_extensions
from laps_sdk.quic.base import OutStream
from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import STREAM_RESET_CODES
from laps_wire.moqt.data import SubgroupHeader, SubgroupWriter
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from laps_sdk.client.link import Link
    from laps_sdk.client.publication import PublishedTrack

__all__ = ["Group", "transport_priority"]

_GROUP_BITS: Final = 48


def transport_priority(priority: int, group: int) -> int:
    """How urgent a stream is: the publisher's priority first, then the older group."""
    return (priority + 1 << _GROUP_BITS) | min(group, (1 << _GROUP_BITS) - 1)


class Group:
    """One subgroup of a track, by default the only one of its group.

    ``async with track.group() as group: await group.write(b"...")`` ends the group behind the
    block. An error inside abandons it: the stream is reset.
    """

    __slots__ = (
        "_end_of_group",
        "_hurried",
        "_link",
        "_missed",
        "_priority",
        "_stream",
        "_subgroup",
        "_track",
        "_unwanted",
        "_writer",
        "closed",
        "group",
    )

    def __init__(
        self,
        track: PublishedTrack,
        group: int,
        *,
        subgroup: int = 0,
        end_of_group: bool = True,
        priority: int | None = None,
    ) -> None:
        self._track = track
        self.group = group
        self._subgroup: int | None = subgroup
        self._end_of_group = end_of_group
        self._priority = priority
        self._link: Link | None = None
        self._stream: OutStream | None = None
        self._writer: SubgroupWriter | None = None
        self._unwanted = False
        self._hurried = False
        self._missed = False  # whether an object of this subgroup was numbered and not sent
        self.closed = False
        """Whether nothing more can be written."""

    async def write(
        self,
        payload: bytes,
        *,
        extensions: Iterable[tuple[int, int | bytes]] = (),
        ttl: float | None = None,
    ) -> Location:
        """Send the next object; waits while the connection is congested or being restored."""
        if not (self._track.has_room() or await self._track.until_room(ttl)):
            return self.skip()
        return self.write_now(payload, extensions=extensions, ttl=ttl)

    def write_now(
        self,
        payload: bytes,
        *,
        extensions: Iterable[tuple[int, int | bytes]] = (),
        ttl: float | None = None,
        fin: bool = False,
    ) -> Location:
        """Send the next object without waiting for room: never blocks."""
        if self.closed:
            raise StateError(f"group {self.group} has ended")
        track = self._track
        stamp = track.stamp()
        location = track.take(self.group)
        if fin:
            self.closed = True
        receiver = track.receiver
        if receiver is None or self._unwanted or not receiver.delivery.wants(location):
            track.unsent += 1
            self._missed = True
            if fin:
                self._end_stream()
            return location
        link = receiver.link
        block = encode_object_extensions(extensions, stamp, link.draft)
        if self._stream is None or self._link is not link or self._stream.closed:
            self._open(link, receiver.alias, ttl)
            receiver.streams += 1
        stream, writer = self._stream, self._writer
        if stream is None or writer is None:
            raise StateError(f"group {self.group} has no stream")
        if ttl is not None or self._hurried:
            # What follows an object with a ttl must not be dropped for it.
            stream.set_deadline(None if ttl is None else link.connection.now + ttl)
        self._hurried = ttl is not None
        if writer.object_id < 0:
            stream.write(writer.start)
        head = writer.object_header(location.object, len(payload), extensions=block)
        # Joined if short: a second piece costs more than the copy.
        if len(payload) <= 2048:
            stream.write(head + payload, fin)
        else:
            stream.write(head)
            stream.write(payload, fin)
        track.sent(len(payload))
        if fin:
            self._forget()
        return location

    def skip(self) -> Location:
        """Number an object and do not send it: it is too old already."""
        self._track.unsent += 1
        self._missed = True
        return self._track.take(self.group)

    def _open(self, link: Link, alias: int, ttl: float | None) -> None:
        """A stream for this subgroup; a second one is a subgroup of its own.

        Its id is that of its first object, which no other subgroup of the group can have: objects
        that were promised to a stream that is gone must not follow on another (16: 10.4.2).
        """
        again = self._writer is not None
        subgroup = None if again else self._subgroup
        priority = self._track.priority if self._priority is None else self._priority
        self._forget()
        drop = STREAM_RESET_CODES[link.draft].DELIVERY_TIMEOUT
        self._link = link
        self._stream = link.open_stream(
            self,
            priority=transport_priority(priority, self.group),
            drop_code=int(drop),
            deadline=None if ttl is None else link.connection.now + ttl,
        )
        header = SubgroupHeader(
            track_alias=alias,
            group_id=self.group,
            subgroup_id=subgroup,
            priority=self._priority,
            has_extensions=True,
            end_of_group=self._end_of_group,
            # Without this bit some subscribers take the group for one that lacks its head.
            first_object=link.draft >= Draft.D18 and not again and not self._missed,
        )
        self._writer = SubgroupWriter(header, link.draft)

    def stream_gone(self, stream: OutStream, *, stopped: bool) -> None:
        """See ``StreamOwner``."""
        if stream is self._stream:
            self._stream = None
            # Who stops a stream wants nothing more of it (16: 10.4.3).
            self._unwanted = self._unwanted or stopped

    async def end(self) -> None:
        """Nothing more follows in this subgroup."""
        self.end_now()

    def end_now(self) -> None:
        """The same, at once."""
        if not self.closed:
            self.closed = True
            self._end_stream()

    def _end_stream(self) -> None:
        if self._stream is not None and self._link is not None and self._link.error is None:
            self._stream.write(b"", True)
        self._forget()

    def abandon(self) -> None:
        """Give up what was not sent yet."""
        self.closed = True
        if self._stream is not None and self._link is not None and self._link.error is None:
            self._stream.reset(int(STREAM_RESET_CODES[self._link.draft].CANCELLED))
        self._forget()

    def _forget(self) -> None:
        if self._stream is not None and self._link is not None:
            self._link.stream_finished(self._stream)
        self._stream = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.end()
        else:
            self.abandon()
