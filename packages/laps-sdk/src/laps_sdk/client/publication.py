"""A track that this session publishes.

::

    PUBLISH           we offer the track; the relay takes it             (announce=False)
    PUBLISH_NAMESPACE we announce its namespace; the relay subscribes    (announce=True)

In both cases the relay is the only receiver, and serves all subscribers. Without a receiver, or
while its forward state is 0, objects are numbered but not sent.

A :class:`Group` is a subgroup that is being written, on one stream. A cancelled ``write`` has sent
either the whole object or nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from laps_sdk.client.core.numbering import Delivery, Numbering
from laps_sdk.client.core.objects import encode_object_extensions, track_path
from laps_sdk.client.link import Link, Request
from laps_sdk.errors import ConnectionLostError, DatagramTooLargeError
from laps_sdk.quic.base import OutStream
from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, STREAM_RESET_CODES, RequestErrorCode
from laps_wire.moqt.data import ObjectDatagram, SubgroupHeader, SubgroupWriter, encode_datagram
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import Subscribe, TrackStatus
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    Event,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    UpdateReceived,
)
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName

if TYPE_CHECKING:
    from typing import Self

    from laps_sdk.client.reconnect import Reconnector

__all__ = ["Group", "PublishedTrack", "Receiver", "SentStream", "transport_priority"]

_PRUNE: Final = 64
"""Records of objects or streams after which the acknowledged ones are removed."""


class Receiver:
    """The receiver of the objects: a request on a link."""

    __slots__ = ("alias", "delivery", "link", "request", "streams")

    def __init__(self, link: Link, request: Request, alias: int, delivery: Delivery) -> None:
        self.link = link
        self.request = request
        self.alias = alias
        self.delivery = delivery
        self.streams = 0
        """Streams opened so far; PUBLISH_DONE carries their number."""


class SentStream:
    """The objects of a stream that the relay has not acknowledged, by the offsets of their ends."""

    __slots__ = ("ends", "link", "size", "stream")

    def __init__(self, link: Link, stream: OutStream) -> None:
        self.link = link
        self.stream = stream
        self.size = 0
        self.ends: deque[int] = deque()

    def wrote(self, size: int) -> None:
        """Count an object of ``size`` bytes, its header included."""
        self.size += size
        self.ends.append(self.size)
        if len(self.ends) >= _PRUNE:
            self.prune()

    def prune(self) -> int:
        """Forget acknowledged objects; return how many are left."""
        ends, acknowledged = self.ends, self.size - self.stream.unacknowledged
        while ends and ends[0] <= acknowledged:
            ends.popleft()
        return len(ends)


class PublishedTrack:
    """A track to write to; :meth:`laps_sdk.Session.publish` makes it."""

    __slots__ = (
        "_alias",
        "_announce",
        "_attached",
        "_current",
        "_ended",
        "_error",
        "_forward",
        "_news",
        "_numbering",
        "_on_end",
        "_properties",
        "_reconnector",
        "_streams",
        "_timestamps",
        "bytes",
        "lost",
        "name",
        "objects",
        "priority",
        "receiver",
        "unsent",
    )

    def __init__(
        self,
        reconnector: Reconnector,
        name: FullTrackName,
        *,
        alias: int,
        announce: bool,
        priority: int,
        forward: bool,
        timestamps: bool,
        numbering: Numbering,
        properties: KeyValues,
        ended: Callable[[PublishedTrack], None],
    ) -> None:
        self._reconnector = reconnector
        self.name = name
        self._alias = alias
        self._announce = announce
        self._forward = forward
        self._timestamps = timestamps
        self._numbering = numbering
        self._properties = properties
        self._on_end = ended
        self.priority = priority
        self.receiver: Receiver | None = None
        """Internal: the receiver of the objects."""
        self.objects = 0
        """Objects sent."""
        self.bytes = 0
        """Bytes of payload sent."""
        self.unsent = 0
        """Objects that were numbered but not sent: without a subscriber, or too old."""
        self.lost = 0
        """Objects that were sent on a connection that ended before the relay acknowledged them.

        The relay may have received some of them. Datagrams do not count.
        """
        self._streams: deque[SentStream] = deque()
        self._current: Group | None = None
        self._news = asyncio.Event()
        self._attached = False
        self._ended = False
        self._error: Exception | None = None

    def __repr__(self) -> str:
        return f"<PublishedTrack {track_path(self.name)}>"

    @property
    def largest(self) -> Location | None:
        """The largest location written so far."""
        return self._numbering.largest

    @property
    def announced(self) -> bool:
        """Whether only the namespace is announced."""
        return self._announce

    @property
    def wanted(self) -> bool:
        """Whether there is a subscriber now, so that the relay accepts objects."""
        receiver = self.receiver
        return receiver is not None and receiver.delivery.forward

    @property
    def unacknowledged(self) -> int:
        """Objects that were sent and that the relay has not acknowledged yet, without datagrams."""
        streams = self._streams
        while streams and not streams[0].prune() and streams[0].stream.closed:
            streams.popleft()
        return sum(sent.prune() for sent in streams)

    async def subscribed(self) -> None:
        """Wait for a subscriber; raises the error that ends the track."""
        while not self.wanted:
            self._check()
            self._news.clear()
            await self._news.wait()

    # Writing

    async def write(
        self,
        payload: bytes,
        *,
        group: int | None = None,
        new_group: bool = False,
        end_of_group: bool = False,
        priority: int | None = None,
        extensions: Iterable[tuple[int, int | bytes]] = (),
        ttl: float | None = None,
        datagram: bool = False,
    ) -> Location:
        """Send an object in the open group, or in a new one, and return its location.

        ``new_group`` begins a group, ``group`` gives its number, ``end_of_group`` ends it after
        this object. An object that is not sent within ``ttl`` seconds is dropped. The call waits
        while the connection is congested or being restored. A cancelled call has sent the whole
        object or nothing.
        """
        late = not (self.has_room() or await self.until_room(ttl))
        open_ = self._current
        if open_ is not None and (open_.closed or new_group or group not in (None, open_.group)):
            open_.end_now()
            open_ = None
        if open_ is None:
            number = self._numbering.begin(group)
            open_ = self._current = Group(self, number, priority=priority)
        if late:
            location = open_.skip()
        elif datagram:
            location = self._write_datagram(open_, payload, priority, extensions, ttl, end_of_group)
        else:
            location = open_.write_now(payload, extensions=extensions, ttl=ttl, fin=end_of_group)
        if end_of_group:
            open_.end_now()
            self._current = None
        return location

    def group(self, group: int | None = None, *, priority: int | None = None) -> Group:
        """Begin a group; several groups can be open at the same time."""
        self._check()
        return Group(self, self._numbering.begin(group), priority=priority)

    def subgroup(
        self,
        group: int,
        subgroup: int,
        *,
        priority: int | None = None,
        end_of_group: bool = False,
    ) -> Group:
        """Begin a subgroup of a group; each subgroup has its own stream and priority.

        Objects are numbered in the order in which they are written, across all subgroups.
        """
        self._check()
        if not self._numbering.knows(group):
            self._numbering.begin(group)
        return Group(self, group, subgroup=subgroup, priority=priority, end_of_group=end_of_group)

    def _write_datagram(
        self,
        group: Group,
        payload: bytes,
        priority: int | None,
        extensions: Iterable[tuple[int, int | bytes]],
        ttl: float | None,
        end_of_group: bool,
    ) -> Location:
        stamp = self.stamp()
        receiver = self.receiver
        if receiver is None:
            self.unsent += 1
            return self._numbering.take(group.group)
        link = receiver.link
        connection = link.connection
        block = encode_object_extensions(extensions, stamp, link.draft)
        # Checked before the object gets a number: an object that does not fit is not written.
        largest = ObjectDatagram(
            receiver.alias, group.group, (1 << 62) - 1, payload, priority, extensions=block
        )
        if len(encode_datagram(largest, link.draft)) > connection.max_datagram_size:
            raise DatagramTooLargeError(
                f"an object of {len(payload)} bytes and its header do not fit a datagram of"
                f" {connection.max_datagram_size} bytes: write it without datagram=True"
            )
        location = self._numbering.take(group.group)
        if not receiver.delivery.wants(location):
            self.unsent += 1
            return location
        datagram = largest._replace(object_id=location.object, end_of_group=end_of_group)
        deadline = None if ttl is None else connection.now + ttl
        if connection.send_datagram(encode_datagram(datagram, link.draft), deadline):
            self.sent(len(payload))
        else:
            self.unsent += 1
        return location

    # For groups

    def has_room(self) -> bool:
        """Return whether an object can be written without waiting."""
        receiver = self.receiver
        if receiver is None or self._error is not None or self._ended:
            return False
        link = receiver.link
        return link.error is None and not link.connection.congested

    async def until_room(self, ttl: float | None) -> bool:
        """Wait for a link that is not congested; False after ``ttl`` seconds."""
        try:
            async with asyncio.timeout(ttl):
                while True:
                    self._check()
                    receiver = self.receiver
                    if receiver is None and self._attached:
                        return True  # without a receiver there is no congestion
                    if receiver is None or receiver.link.error is not None:
                        self._news.clear()
                        await self._news.wait()
                    elif not receiver.link.connection.congested:
                        return True
                    else:
                        with contextlib.suppress(ConnectionLostError):
                            await receiver.link.until_writable()
        except TimeoutError:
            return False

    def check_connected(self) -> None:
        """Raise ``ConnectionLostError`` if nothing can be sent now: the relay is gone."""
        receiver = self.receiver
        if (not self._attached) if receiver is None else receiver.link.error is not None:
            self._check()
            raise ConnectionLostError(
                f"{track_path(self.name)}: there is no connection to the relay now"
            )

    def stamp(self) -> float | None:
        """Return the capture time for the next object; None without timestamps."""
        return time.time() if self._timestamps else None

    def take(self, group: int) -> Location:
        """Assign the next location in a group."""
        self._check()
        return self._numbering.take(group)

    def sent(self, size: int) -> None:
        """Count an object that was sent."""
        self.objects += 1
        self.bytes += size

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._ended:
            raise StateError(f"the track {track_path(self.name)} has ended")

    # Ending

    async def end(self) -> None:
        """End the track at the relay. A second call does nothing."""
        self.end_now()

    def end_now(self) -> None:
        """Do the same without ``await``."""
        if self._ended:
            return
        self._ended = True
        if self._current is not None:
            self._current.end_now()
            self._current = None
        self._reconnector.leave(self)
        receiver, self.receiver = self.receiver, None
        if receiver is not None:
            self._done(receiver)
        self._on_end(self)
        self._news.set()

    def _done(self, receiver: Receiver) -> None:
        link = receiver.link
        link.forget(receiver.request.id)
        if link.error is None and receiver.request.open:
            code = PUBLISH_DONE_CODES[link.draft].TRACK_ENDED
            link.peer.session.publish_done(receiver.request.id, code, receiver.streams)
            link.peer.settle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.end()

    # Durable

    async def attach(self, link: Link) -> None:
        """Publish the track on a link; see ``Durable``."""
        if self._announce:
            self._attached = True
            self._news.set()
            return  # the namespace is announced by its own durable; the relay subscribes
        parameters = Parameters(
            forward=None if self._forward else False, largest_object=self.largest
        )
        request = await link.ask(
            f"PUBLISH {self.name}",
            lambda session: session.publish(self.name, self._alias, parameters, self._properties),
            lambda event: self._received(link, event),
        )
        await request.answered(self._reconnector.options.timeout)
        self._attached = True
        self._news.set()

    def detach(self, link: Link) -> None:
        """See ``Durable``."""
        self.count_lost(link)
        if self.receiver is not None and self.receiver.link is link:
            self.receiver = None
            self._attached = False
        if link is not self._reconnector.link and self._reconnector.link is None:
            self._attached = False
        self._news.set()

    def fail(self, error: Exception) -> None:
        """See ``Durable``."""
        if not self._ended:
            self._error = error
        self.receiver = None
        self._news.set()

    def begin_stream(self, link: Link, stream: OutStream) -> SentStream:
        """Return the record of a new stream."""
        streams = self._streams
        if len(streams) >= _PRUNE and not len(streams) % _PRUNE:
            self._streams = streams = deque(
                each for each in streams if each.prune() or not each.stream.closed
            )
        sent = SentStream(link, stream)
        streams.append(sent)
        return sent

    def count_lost(self, link: Link | None = None) -> None:
        """Count the unacknowledged objects of a link that has ended; None stands for all links."""
        kept: deque[SentStream] = deque()
        for sent in self._streams:
            if link is None or sent.link is link:
                self.lost += sent.prune()
            else:
                kept.append(sent)
        self._streams = kept

    # The relay's side

    def request_received(self, link: Link, event: RequestReceived) -> None:
        """Answer a request of the relay about this track."""
        session, request_id = link.peer.session, event.request_id
        largest = self.largest
        match event.message:
            case Subscribe(parameters=wanted):
                delivery = Delivery.of(wanted, largest, self._numbering.next_group)
                answer = Parameters(largest_object=largest)
                session.accept_subscribe(request_id, self._alias, answer, self._properties)
                request = link.adopt(
                    request_id, f"SUBSCRIBE {self.name}", lambda e: self._received(link, e)
                )
                self.receiver = Receiver(link, request, self._alias, delivery)
                self._news.set()
            case TrackStatus():
                session.accept(request_id, Parameters(largest_object=largest))
            case _:
                session.reject(
                    request_id, RequestErrorCode.NOT_SUPPORTED, "this publisher keeps no history"
                )

    def _received(self, link: Link, event: Event) -> None:
        receiver = self.receiver
        largest, next_group = self.largest, self._numbering.next_group
        match event:
            case RequestAccepted():
                delivery = Delivery(forward=self._forward).changed(
                    event.message.parameters, largest, next_group
                )
                request = link.request(event.request_id)
                if request is not None:
                    self.receiver = Receiver(link, request, self._alias, delivery)
            case UpdateReceived():
                if receiver is not None and receiver.request.id == event.request_id:
                    receiver.delivery = receiver.delivery.changed(
                        event.message.parameters, largest, next_group
                    )
                link.peer.session.accept(event.update_id)
            case RequestCancelled():
                if receiver is not None and receiver.request.id == event.request_id:
                    link.forget(event.request_id)
                    self.receiver = None
            case _:
                pass
        self._news.set()


_GROUP_BITS: Final = 48


def transport_priority(priority: int, group: int) -> int:
    """Return the priority of a stream: the publisher's priority first, then the older group."""
    return (priority + 1 << _GROUP_BITS) | min(group, (1 << _GROUP_BITS) - 1)


class Group:
    """One subgroup of a track, by default the only one of its group.

    ``async with track.group() as group: await group.write(b"...")`` ends the group after the
    block. An error inside the block abandons the group: its stream is reset.
    """

    __slots__ = (
        "_end_of_group",
        "_hurried",
        "_link",
        "_missed",
        "_priority",
        "_sent",
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
        self._sent: SentStream | None = None
        self._writer: SubgroupWriter | None = None
        self._unwanted = False
        self._hurried = False
        self._missed = False  # whether an object of this subgroup was numbered and not sent
        self.closed = False
        """Whether the group has ended."""

    async def write(
        self,
        payload: bytes,
        *,
        extensions: Iterable[tuple[int, int | bytes]] = (),
        ttl: float | None = None,
    ) -> Location:
        """Send the next object and return its location.

        The call waits while the connection is congested or being restored.
        """
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
        """Send the next object without waiting, even if the connection is congested.

        Raises ``ConnectionLostError`` while there is no connection.
        """
        if self.closed:
            raise StateError(f"group {self.group} has ended")
        track = self._track
        track.check_connected()
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
        stream, writer, sent = self._stream, self._writer, self._sent
        if stream is None or writer is None or sent is None:
            raise StateError(f"group {self.group} has no stream")
        if ttl is not None or self._hurried:
            # A deadline applies to its own object only, not to those after it.
            stream.set_deadline(None if ttl is None else link.connection.now + ttl)
        self._hurried = ttl is not None
        size = len(payload)
        if writer.object_id < 0:
            size += len(writer.start)
            stream.write(writer.start)
        head = writer.object_header(location.object, len(payload), extensions=block)
        # A short payload is joined: a second write costs more than the copy.
        if len(payload) <= 2048:
            stream.write(head + payload, fin)
        else:
            stream.write(head)
            stream.write(payload, fin)
        track.sent(len(payload))
        sent.wrote(size + len(head))
        if fin:
            self._forget()
        return location

    def skip(self) -> Location:
        """Assign a location to an object that is too old to be sent."""
        self._track.unsent += 1
        self._missed = True
        return self._track.take(self.group)

    def _open(self, link: Link, alias: int, ttl: float | None) -> None:
        """Open the stream of this subgroup; any further stream is another subgroup.

        The id of a further subgroup is that of its first object, which is unique in the group.
        Objects of a lost stream must not follow on another stream (16: 10.4.2).
        """
        again = self._writer is not None
        subgroup = None if again else self._subgroup
        priority = self._track.priority if self._priority is None else self._priority
        self._forget()
        drop = STREAM_RESET_CODES[link.draft].DELIVERY_TIMEOUT
        self._link = link
        self._stream = link.open_stream(
            self._stream_ended,
            priority=transport_priority(priority, self.group),
            drop_code=int(drop),
            deadline=None if ttl is None else link.connection.now + ttl,
        )
        self._sent = self._track.begin_stream(link, self._stream)
        header = SubgroupHeader(
            track_alias=alias,
            group_id=self.group,
            subgroup_id=subgroup,
            priority=self._priority,
            has_extensions=True,
            end_of_group=self._end_of_group,
            # Without this bit some subscribers assume that earlier objects are missing.
            first_object=link.draft >= Draft.D18 and not again and not self._missed,
        )
        self._writer = SubgroupWriter(header, link.draft)

    def _stream_ended(self, stream: OutStream, stopped: bool) -> None:
        if stream is self._stream:
            self._stream = None
            # After STOP_SENDING the relay wants nothing more of the subgroup (16: 10.4.3).
            self._unwanted = self._unwanted or stopped

    async def end(self) -> None:
        """End this subgroup."""
        self.end_now()

    def end_now(self) -> None:
        """Do the same without ``await``."""
        if not self.closed:
            self.closed = True
            self._end_stream()

    def _end_stream(self) -> None:
        if self._stream is not None and self._link is not None and self._link.error is None:
            self._stream.write(b"", True)
        self._forget()

    def abandon(self) -> None:
        """Reset the stream, without the data that was not sent yet."""
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

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            await self.end()
        else:
            self.abandon()
