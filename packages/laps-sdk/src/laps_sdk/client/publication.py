"""A track that this session publishes.

::

    PUBLISH           we offer the track; the relay takes it             (announce=False)
    PUBLISH_NAMESPACE we announce its namespace; the relay subscribes    (announce=True)

In both cases the relay is the only receiver, and serves all subscribers. Without a receiver, or
while its forward state is 0, objects are numbered but not sent.

A :class:`Group` is a subgroup that is being written, on one stream. A cancelled ``write`` has sent
either the whole object or nothing.

After a lost connection the track is sent again from what it holds::

    lost --> held objects are at risk --> next receiver --> the same subgroups on new streams
                                                            --> new objects

The relay may have passed some of these objects on. Relays and subscribers drop what they have.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from laps_sdk.client.core.held import HeldObject, HeldObjects, Sending
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

__all__ = [
    "Group",
    "PublishedTrack",
    "Receiver",
    "SentStream",
    "SentSubgroup",
    "transport_priority",
]

_PRUNE: Final = 64
"""Records of objects or streams after which the acknowledged ones are removed."""
_LOOKS: Final = 8
"""How often in its longest time a held object is looked at, whether it is too old."""
_WAITING_STREAMS: Final = 128
"""Streams that may wait for the relay's permission before resending pauses."""
_PAUSE: Final = 0.005
"""Seconds until resending looks whether the relay permits more streams."""


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

    @property
    def alive(self) -> bool:
        """Whether its link is not lost."""
        return self.link.error is None

    @property
    def acknowledged(self) -> int:
        """Bytes that the relay has acknowledged."""
        return self.size - self.stream.unacknowledged

    def prune(self) -> int:
        """Forget acknowledged objects; return how many are left."""
        ends, acknowledged = self.ends, self.acknowledged
        while ends and ends[0] <= acknowledged:
            ends.popleft()
        return len(ends)


class SentSubgroup:
    """A subgroup as relays know it: on one stream, and again on one of the next connection.

    A :class:`Group` is one of them, or several if its stream ended early.
    """

    __slots__ = ("before", "group", "head", "id", "last", "sent")

    def __init__(self, group: Group, id_: int, head: int | None, before: Location | None) -> None:
        self.group = group
        self.id = id_
        self.head = head
        """The id of its first object; None if objects before it were not sent."""
        self.before = before
        """The largest location when its first object was written."""
        self.last = -1
        """The id of the last object that was written."""
        self.sent: SentStream | None = None
        """Its latest stream."""


Held: TypeAlias = HeldObject[SentSubgroup, SentStream]


def _is_lost(held: Held) -> bool:
    """Return whether an object is on no connection that lives."""
    return held.stream is None or not held.stream.alive


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
        "_held",
        "_lost",
        "_news",
        "_numbering",
        "_on_end",
        "_properties",
        "_reconnector",
        "_resending",
        "_resume_by",
        "_resuming",
        "_streams",
        "_timer",
        "_timestamps",
        "_waiting",
        "bytes",
        "name",
        "objects",
        "priority",
        "receiver",
        "resent",
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
        resume_time: float,
        resume_bytes: int,
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
        self.resent = 0
        """Objects that were sent again after a lost connection, each time they were."""
        self._lost = 0
        self._held: HeldObjects[SentSubgroup, SentStream] = HeldObjects(resume_time, resume_bytes)
        self._resuming = False
        """Whether a connection was lost, and what is held was not sent again yet."""
        self._resume_by: float | None = None
        """When to give that up, because nobody receives."""
        self._resending: deque[tuple[SentSubgroup, list[Held]]] = deque()
        """What is to be sent again on this link, before new objects."""
        self._waiting: list[OutStream] = []
        """Streams opened for that which wait for the relay's permission."""
        self._timer: asyncio.TimerHandle | None = None
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
    def lost(self) -> int:
        """Objects that a lost connection may have lost: neither acknowledged nor sent again.

        The relay may have received some of them. Datagrams do not count.
        """
        return self._lost + self._held.lost

    @property
    def unacknowledged(self) -> int:
        """Objects that were sent and that no relay has acknowledged yet, without datagrams."""
        streams = self._streams
        while streams and not streams[0].prune() and streams[0].stream.closed:
            streams.popleft()
        return sum(sent.prune() for sent in streams) + self._held.at_risk

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
        if receiver is None or self._error is not None or self._ended or self.is_behind:
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
                    if receiver is None or receiver.link.error is not None or self.is_behind:
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

    @property
    def holds(self) -> bool:
        """Internal: whether objects are held, to be sent again."""
        return self._held.size > 0

    @property
    def holds_unsent(self) -> bool:
        """Internal: whether to hold what nobody receives: the receiver may be back soon."""
        return self._resuming and not self.wanted

    @property
    def is_behind(self) -> bool:
        """Internal: whether the receiver lacks held objects, which go before new ones."""
        return bool(self._resending) or (self._resuming and self.wanted)

    def hold(self, held: Held, now: float) -> None:
        """Hold an object that was written now."""
        self._held.add(held, now)
        held.subgroup.last = held.location.object
        if self._timer is None:
            self._look_later(self._held.seconds)

    def _keep_looking(self) -> None:
        if self._timer is None and len(self._held):
            self._look_later(self._held.seconds)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._ended:
            raise StateError(f"the track {track_path(self.name)} has ended")

    # Ending

    async def end(self) -> None:
        """End the track at the relay. A second call does nothing.

        If the connection was restored just now, objects are first sent again.
        """
        try:
            await self.until_resent()
        finally:
            self.end_now()

    async def until_resent(self) -> None:
        """Wait until what is at risk was sent again, as long as there is a link for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._reconnector.options.drain_timeout):
                while self.is_resuming and self._reconnector.link is not None:
                    self._news.clear()
                    await self._news.wait()

    @property
    def is_resuming(self) -> bool:
        """Internal: whether objects are at risk that a receiver may still get."""
        if self._ended or self._error is not None:
            return False
        return bool(self._held.at_risk or self._resending)

    def end_now(self) -> None:
        """Do the same without ``await``."""
        if self._ended:
            return
        self.resend_now()
        self._ended = True
        if self._current is not None:
            self._current.end_now()
            self._current = None
        self._drop_held()
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
        if error is None:
            await self.end()
        else:
            self.end_now()

    # Durable

    async def attach(self, link: Link) -> None:
        """Publish the track on a link; see ``Durable``."""
        self._note_lost_links()
        if self._announce:
            self._went_on()
            return  # the namespace is announced by its own durable; the relay subscribes
        parameters = Parameters(
            forward=None if self._forward else False, largest_object=self._position()[0]
        )
        request = await link.ask(
            f"PUBLISH {self.name}",
            lambda session: session.publish(self.name, self._alias, parameters, self._properties),
            lambda event: self._received(link, event),
        )
        await request.answered(self._reconnector.options.timeout)
        self._went_on()

    def _went_on(self) -> None:
        self._attached = True
        self._held.go_on(self._now())
        self._await_receiver()
        self._keep_looking()
        self._news.set()

    def detach(self, link: Link) -> None:
        """See ``Durable``."""
        if self.receiver is not None and self.receiver.link is link:
            self.receiver = None
            self._attached = False
            self._resending.clear()
        if link is not self._reconnector.link and self._reconnector.link is None:
            self._attached = False
        if link.error is None:
            # We left it, and it passes on what it has.
            self._held.drop(lambda held: held.stream is not None and held.stream.link is link)
            self.count_lost(link)
        else:
            self._held.expire(self._now())
            self._lose(link)
        if not self._attached:
            self._held.pause(self._now())
            self._resume_by = None
        self._resume()
        self._news.set()

    def fail(self, error: Exception) -> None:
        """See ``Durable``."""
        if not self._ended:
            self._error = error
        self.receiver = None
        self._drop_held()
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
                self._lost += sent.prune()
            else:
                kept.append(sent)
        self._streams = kept

    # Sending again

    def _lose(self, link: Link) -> None:
        """Put what was sent on a lost link at risk, as far as it is held; the rest is lost."""
        self.count_lost(link)

        def arrived(held: Held) -> bool:
            sent = held.stream
            return sent is None or sent.link is not link or held.end <= sent.acknowledged

        self._lost -= self._held.lose(arrived)
        if not self._resuming and self._held.any(_is_lost):
            self._resuming = True
            self._await_receiver()

    def _note_lost_links(self) -> None:
        """Handle links that were lost before they were left: GOAWAY, then the end."""
        links = {sent.link for sent in self._streams}
        links |= {held.stream.link for held in self._held if held.stream is not None}
        for link in links:
            if link.error is not None:
                self._lose(link)

    def _await_receiver(self) -> None:
        """Give up after a time without a receiver, which counts while there is a link."""
        if self._resuming and self._attached:
            self._resume_by = self._now() + self._held.seconds
            self._look_later(self._held.seconds)

    def _again(self, held: Held) -> bool:
        """Return whether an object is to be sent again."""
        if not _is_lost(held) or held.subgroup.group.unwanted:
            return False
        return held.deadline is None or held.deadline > self._now()

    def _position(self) -> tuple[Location | None, int]:
        """Return the largest location as the next receiver is to see it, and the group behind it.

        It is the location before the first object that is sent again, so that subscriptions begin
        in front of that object.
        """
        numbering = self._numbering
        again = self._held.subgroups(self._again) if self._resuming else {}
        if not again:
            return numbering.largest, numbering.next_group
        first = min((each[0] for each in again.values()), key=lambda held: held.location)
        group, object_ = first.location
        before = Location(group, object_ - 1) if object_ else first.subgroup.before
        if before is None or before >= first.location:
            return None, group
        return before, before.group + 1

    def _resume(self) -> None:
        """Send again what is held, if there is a receiver for it."""
        receiver = self.receiver
        if not self._resuming or receiver is None or not receiver.delivery.forward:
            return
        if receiver.link.error is not None:
            return
        self._held.go_on(self._now())
        self._resuming, self._resume_by = False, None
        self._resending.extend(self._held.subgroups(self._again).items())
        self._resend(receiver)
        if self._resending:
            self._reconnector.spawn(asyncio.create_task(self._resend_rest(receiver)))

    def _resend(self, receiver: Receiver, *, force: bool = False) -> None:
        """Send again, until too much waits for the relay."""
        link = receiver.link
        # A stream that waits for the relay's permission has no id, and its bytes are queued.
        waiting = [stream for stream in self._waiting if stream.stream_id is None and stream.queued]
        while self._resending and link.error is None:
            if not force and (link.connection.congested or len(waiting) >= _WAITING_STREAMS):
                break
            subgroup, objects = self._resending.popleft()
            wanted = [
                held
                for held in objects
                if receiver.delivery.wants(held.location) and self._again(held)
            ]
            if wanted:
                stream = subgroup.group.resend(receiver, subgroup, wanted)
                if stream.stream_id is None:
                    waiting.append(stream)
        self._waiting = waiting
        if not self._resending:
            # Too old, or not wanted: nobody gets it any more.
            self._held.drop(_is_lost)
            self._waiting = []
            self._keep_looking()
            self._news.set()

    async def _resend_rest(self, receiver: Receiver) -> None:
        link = receiver.link
        while self._resending and self.receiver is receiver and link.error is None:
            if link.connection.congested:
                with contextlib.suppress(ConnectionLostError):
                    await link.until_writable()
            else:
                # There is no event for the permission of a stream.
                await asyncio.sleep(_PAUSE)
            if self.receiver is receiver:
                self._resend(receiver)

    def resend_now(self) -> None:
        """Send everything again without waiting: something is to be sent behind it."""
        self._resume()
        if self._resending and self.receiver is not None:
            self._resend(self.receiver, force=True)

    def resent_object(self, held: Held, stream: SentStream) -> None:
        """Count an object that was sent again, or at last."""
        if held.sending is Sending.UNSENT:
            self.unsent -= 1
            self.sent(len(held.payload))
        else:
            self.resent += 1
        self._held.sent_again(held, stream, stream.size, self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _look_later(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Drop what is held for too long."""
        self._timer = None
        now = self._now()
        if self._resume_by is not None and now >= self._resume_by:
            self._resuming, self._resume_by = False, None
            self._held.drop()
            self._news.set()
        seconds = self._held.expire(now)
        if seconds is not None:
            self._look_later(max(seconds, self._held.seconds / _LOOKS))

    def _drop_held(self) -> None:
        self._resuming = False
        self._resending.clear()
        self._held.drop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # The relay's side

    def request_received(self, link: Link, event: RequestReceived) -> None:
        """Answer a request of the relay about this track."""
        session, request_id = link.peer.session, event.request_id
        match event.message:
            case Subscribe(parameters=wanted):
                self._note_lost_links()
                largest, next_group = self._position()
                delivery = Delivery.of(wanted, largest, next_group)
                answer = Parameters(largest_object=largest)
                session.accept_subscribe(request_id, self._alias, answer, self._properties)
                request = link.adopt(
                    request_id, f"SUBSCRIBE {self.name}", lambda e: self._received(link, e)
                )
                self.receiver = Receiver(link, request, self._alias, delivery)
                # Behind SUBSCRIBE_OK, without which the relay does not know the alias.
                asyncio.get_running_loop().call_soon(self._resume)
                self._news.set()
            case TrackStatus():
                session.accept(request_id, Parameters(largest_object=self.largest))
            case _:
                session.reject(
                    request_id, RequestErrorCode.NOT_SUPPORTED, "this publisher keeps no history"
                )

    def _received(self, link: Link, event: Event) -> None:
        receiver = self.receiver
        match event:
            case RequestAccepted():
                delivery = Delivery(forward=self._forward).changed(
                    event.message.parameters, *self._position()
                )
                request = link.request(event.request_id)
                if request is None:
                    pass
                elif self._ended:
                    self._done(Receiver(link, request, self._alias, delivery))
                else:
                    self.receiver = Receiver(link, request, self._alias, delivery)
                    self._resume()
            case UpdateReceived():
                if receiver is not None and receiver.request.id == event.request_id:
                    receiver.delivery = receiver.delivery.changed(
                        event.message.parameters, *self._position()
                    )
                link.peer.session.accept(event.update_id)
                self._resume()
            case RequestCancelled():
                if receiver is not None and receiver.request.id == event.request_id:
                    link.forget(event.request_id)
                    self.receiver = None
                    if self._resending:
                        self._resending.clear()
                        self._resuming = True
                        self._await_receiver()
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
        "_current",
        "_end_of_group",
        "_hurried",
        "_link",
        "_missed",
        "_priority",
        "_sent",
        "_stream",
        "_subgroup",
        "_track",
        "_writer",
        "closed",
        "group",
        "unwanted",
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
        self._subgroup = subgroup
        self._end_of_group = end_of_group
        self._priority = priority
        self._link: Link | None = None
        self._stream: OutStream | None = None
        self._sent: SentStream | None = None
        self._writer: SubgroupWriter | None = None
        self._current: SentSubgroup | None = None
        self.unwanted = False
        """Internal: whether the relay or the application gave this subgroup up."""
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
        if track.is_behind:
            track.resend_now()
        stamp = track.stamp()
        before = track.largest
        location = track.take(self.group)
        if fin:
            self.closed = True
        receiver = track.receiver
        pairs = tuple(extensions)  # they may be encoded again
        if receiver is None or self.unwanted or not receiver.delivery.wants(location):
            self._leave_unsent(location, before, payload, pairs, stamp, ttl)
            if fin:
                self._end_stream()
            return location
        link = receiver.link
        block = encode_object_extensions(pairs, stamp, link.draft)
        if self._stream is None or self._link is not link or self._stream.closed:
            self._open(link, receiver.alias, ttl, location.object, before)
            receiver.streams += 1
        stream, writer, sent = self._stream, self._writer, self._sent
        if stream is None or writer is None or sent is None:
            raise StateError(f"group {self.group} has no stream")
        now = link.connection.now
        deadline = None if ttl is None else now + ttl
        if ttl is not None or self._hurried:
            # A deadline applies to its own object only, not to those after it.
            stream.set_deadline(deadline)
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
        if self._current is not None and track.holds:
            data = payload if type(payload) is bytes else bytes(payload)
            track.hold(
                HeldObject(self._current, location, data, pairs, stamp, deadline, sent, sent.size),
                now,
            )
        if fin:
            self._forget()
        return location

    def skip(self) -> Location:
        """Assign a location to an object that is too old to be sent."""
        self._track.unsent += 1
        self._missed = True
        return self._track.take(self.group)

    def _open(
        self, link: Link, alias: int, ttl: float | None, object_: int, before: Location | None
    ) -> None:
        """Open the stream of this subgroup; a further stream of a connection is another subgroup.

        The id of a further subgroup is that of its first object, which is unique in the group.
        Objects of a lost stream must not follow on another stream (16: 10.4.2). On another
        connection the subgroup goes on, so that relays can join what came on both.
        """
        current = self._current
        if current is None or (current.sent is not None and self._link is link):
            current = self._begin(object_, before)
        header = self._header(alias, current, object_, link.draft, end_of_group=self._end_of_group)
        deadline = None if ttl is None else link.connection.now + ttl
        self._start(link, current, header, deadline)

    def _begin(self, object_: int, before: Location | None) -> SentSubgroup:
        """Begin a subgroup of the wire with this object."""
        again = self._writer is not None
        head = None if again or self._missed else object_
        self._current = SentSubgroup(self, object_ if again else self._subgroup, head, before)
        return self._current

    def _header(
        self, alias: int, subgroup: SentSubgroup, object_: int, draft: Draft, *, end_of_group: bool
    ) -> SubgroupHeader:
        """Return the header of a stream that begins with this object."""
        return SubgroupHeader(
            track_alias=alias,
            group_id=self.group,
            subgroup_id=None if subgroup.id == object_ and object_ else subgroup.id,
            priority=self._priority,
            has_extensions=True,
            end_of_group=end_of_group,
            # Without this bit some subscribers assume that earlier objects are missing.
            first_object=draft >= Draft.D18 and subgroup.head == object_,
        )

    def _start(
        self, link: Link, subgroup: SentSubgroup, header: SubgroupHeader, deadline: float | None
    ) -> None:
        """Open a stream and write this subgroup on it from now on."""
        priority = self._track.priority if self._priority is None else self._priority
        self._forget()
        self._link = link
        self._stream = link.open_stream(
            self._stream_ended,
            priority=transport_priority(priority, self.group),
            drop_code=int(STREAM_RESET_CODES[link.draft].DELIVERY_TIMEOUT),
            deadline=deadline,
        )
        self._sent = subgroup.sent = self._track.begin_stream(link, self._stream)
        self._writer = SubgroupWriter(header, link.draft)

    def _leave_unsent(
        self,
        location: Location,
        before: Location | None,
        payload: bytes,
        extensions: tuple[tuple[int, int | bytes], ...],
        stamp: float | None,
        ttl: float | None,
    ) -> None:
        """Count an object that nobody receives; hold it if the receiver may be back soon."""
        self._track.unsent += 1
        if self.unwanted or not self._track.holds_unsent:
            self._missed = True
            return
        current = self._current
        if current is None or (current.sent is not None and current.sent.alive):
            current = self._begin(location.object, before)
        now = asyncio.get_running_loop().time()
        deadline = None if ttl is None else now + ttl
        held: Held = HeldObject(current, location, bytes(payload), extensions, stamp, deadline)
        self._track.hold(held, now)

    def resend(
        self,
        receiver: Receiver,
        subgroup: SentSubgroup,
        objects: Sequence[Held],
    ) -> OutStream:
        """Send objects of a subgroup again on a new stream, and return the stream.

        It stays open if the subgroup is: ``write`` goes on behind these objects.
        """
        link, track, last = receiver.link, self._track, objects[-1]
        ours = self._stream, self._link, self._sent, self._writer, self._hurried
        # A stream of the subgroup that is on this link already has what follows.
        follows = subgroup.sent is not None and subgroup.sent.link is link
        is_current = subgroup is self._current and not follows
        ended = (self.closed or not is_current) and not follows
        # The group ends behind its last object only.
        end_of_group = self._end_of_group and (
            is_current and (not ended or last.location.object == subgroup.last)
        )
        first = objects[0]
        latest = subgroup.sent
        if not is_current:
            self._stream = None
        object_ = first.location.object
        header = self._header(
            receiver.alias, subgroup, object_, link.draft, end_of_group=end_of_group
        )
        self._start(link, subgroup, header, first.deadline)
        receiver.streams += 1
        stream, writer, sent = self._stream, self._writer, self._sent
        if stream is None or writer is None or sent is None:
            raise StateError(f"group {self.group} has no stream")
        start = writer.start
        self._hurried = False
        for held in objects:
            if held.deadline is not None or self._hurried:
                stream.set_deadline(held.deadline)
            self._hurried = held.deadline is not None
            block = encode_object_extensions(held.extensions, held.stamp, link.draft)
            head = writer.object_header(held.location.object, len(held.payload), extensions=block)
            fin = ended and held is last
            stream.write(start + head + held.payload, fin)
            sent.wrote(len(start) + len(head) + len(held.payload))
            start = b""
            track.resent_object(held, sent)
        if ended or follows:
            # Without FIN if more follows: that would end the subgroup here.
            link.stream_finished(stream)
            self._stream = None
        if not is_current:
            self._stream, self._link, self._sent, self._writer, self._hurried = ours
        if follows:
            subgroup.sent = latest
        return stream

    def _stream_ended(self, stream: OutStream, stopped: bool) -> None:
        if stream is self._stream:
            self._stream = None
            # After STOP_SENDING the relay wants nothing more of the subgroup (16: 10.4.3).
            self.unwanted = self.unwanted or stopped

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
        self.closed = self.unwanted = True
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
