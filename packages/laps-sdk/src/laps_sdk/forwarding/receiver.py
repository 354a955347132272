"""A receiver of a track, and one stream to it.

Figures are counted once for a subgroup, not once for each receiver of it: a stream remembers what
the subgroup's counters were when it joined, and the difference is added when it leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from laps_sdk.forwarding.coding import CANCELLED, DELIVERY_TIMEOUT, Mark, drop_code, start_header
from laps_sdk.forwarding.interfaces import (
    EgressEntry,
    OutStream,
    Subscription,
    SubscriptionCounters,
    SubscriptionDone,
)
from laps_sdk.forwarding.priority import stream_priority
from laps_sdk.forwarding.state import Session
from laps_sdk.forwarding.track import Track
from laps_wire.errors import EncodeError
from laps_wire.moqt.data.subgroup import encode_subgroup_header
from laps_wire.moqt.data.types import SubgroupHeader
from laps_wire.moqt.versions import Draft

if TYPE_CHECKING:
    from laps_sdk.forwarding.feed import Feed

__all__ = ["Out", "Receiver"]

_LOOK: Final = 5.0
"""Seconds between two looks at what has a delivery timeout."""


class Receiver:
    """One subscription that a track is sent to."""

    __slots__ = (
        "bytes",
        "datagrams",
        "done",
        "draft",
        "dropped_bytes",
        "dropped_datagrams",
        "dropped_streams",
        "end_group",
        "entry",
        "objects",
        "outs",
        "session",
        "start_group",
        "start_object",
        "streams",
        "subscription",
        "tally",
        "timeout",
        "track",
    )

    def __init__(
        self, session: Session, track: Track, subscription: Subscription, entry: EgressEntry
    ) -> None:
        self.session = session
        self.draft: Draft = session.draft
        self.track = track
        self.subscription = subscription
        self.tally = track.tally(session)
        """Where what it gets is counted beside the track, if it is another relay."""
        self.outs: dict[Out, None] = {}
        """Its streams that are not finished."""
        self.done = False
        self.objects = 0
        self.bytes = 0
        self.streams = 0
        self.datagrams = 0
        self.dropped_streams = 0
        self.dropped_bytes = 0
        self.dropped_datagrams = 0
        self.program(entry)

    def program(self, entry: EgressEntry) -> None:
        """Take a new entry, for what comes from now on."""
        self.entry = entry
        start = entry.start
        self.start_group, self.start_object = (-1, -1) if start is None else start
        self.end_group = float("inf") if entry.end_group is None else entry.end_group
        self.timeout = entry.delivery_timeout
        if entry.end_group is not None:
            self.track.bounded.add(self)
        else:
            self.track.bounded.discard(self)

    def counters(self) -> SubscriptionCounters:
        """The figures, with those of streams under way."""
        objects, payload = self.objects, self.bytes
        for out in self.outs:
            feed = out.feed
            if feed is not None:
                objects += feed.objects - out.objects_base
                payload += feed.payload - out.payload_base
        return SubscriptionCounters(
            objects,
            payload,
            self.streams,
            self.datagrams,
            self.dropped_streams,
            self.dropped_bytes,
            self.dropped_datagrams,
        )

    # Filter

    def wants_group(self, group_id: int) -> bool:
        """Whether objects of a group may be sent to it."""
        return (
            self.start_group <= group_id <= self.end_group and self.entry.forward and not self.done
        )

    def takes_from(self, session: int | None) -> bool:
        """Whether it gets what a session sends."""
        return session != self.session.number or self.entry.echo

    def wants(self, group_id: int, object_id: int) -> bool:
        """Whether an object that arrives now is sent to it."""
        return self.wants_group(group_id) and (
            group_id > self.start_group or object_id >= self.start_object
        )

    def first_of(self, group_id: int, marks: Sequence[Mark]) -> int:
        """The first of some objects of a group that it wants; -1 if it wants none."""
        if group_id > self.start_group:
            return 0
        for index, mark in enumerate(marks):
            if mark[0].object_id >= self.start_object:
                return index
        return -1

    def priority_of(self, publisher: int, group_id: int, subgroup_id: int) -> int:
        """How urgent a stream to it is."""
        entry = self.entry
        return stream_priority(entry.priority, publisher, entry.order, group_id, subgroup_id)

    # Streams

    def open(
        self, header: SubgroupHeader, subgroup_id: int, publisher: int, *, whole: bool
    ) -> Out | None:
        """Begin a stream; ``whole`` if its first object is that of the incoming one.

        None, and counted as dropped, if the receiver's draft has no integers for its ids.
        """
        start = start_header(header, self.entry.alias, subgroup_id, self.draft, whole=whole)
        try:
            data = encode_subgroup_header(start, self.draft)
        except EncodeError:
            self.dropped_streams += 1
            return None
        stream = self.session.egress.open_unidirectional(
            priority=self.priority_of(publisher, header.group_id, subgroup_id),
            droppable=True,
            drop_code=drop_code(self.draft),
        )
        out = Out(self, stream, publisher, data)
        self.streams += 1
        self.outs[out] = None
        self.session.outs[stream] = out
        return out

    def close(self, reset_code: int | None) -> None:
        """Leave the track; streams are reset, or left to end by themselves."""
        self.track.receivers.pop(self, None)
        self.track.bounded.discard(self)
        for feed in self.track.feeds():
            feed.forget(self)
        for group in self.track.groups.values():
            group.forget(self)
        if reset_code is not None:
            for out in tuple(self.outs):
                out.reset(reset_code)

    def check_done(self) -> None:
        """Tell when everything up to the last group that it wants was sent."""
        end, track = self.entry.end_group, self.track
        if end is None or self.done or self.outs or track.largest_group < end:
            return
        if track.largest_group == end and track.end is None:
            group = track.groups.get(end)
            if group is None or not group.complete:
                return
        if not any(feed.group.group_id <= end for feed in track.feeds()):
            self.done = True
            self.session.state.notices.append(SubscriptionDone(self.subscription))


class Out:
    """One subgroup to one receiver."""

    __slots__ = (
        "_armed",
        "_waiting",
        "began",
        "feed",
        "objects_base",
        "payload_base",
        "publisher",
        "receiver",
        "start",
        "stream",
        "written",
    )

    def __init__(self, receiver: Receiver, stream: OutStream, publisher: int, start: bytes) -> None:
        self.receiver = receiver
        self.stream = stream
        self.publisher = publisher
        """The publisher's priority of the subgroup."""
        self.start = start
        """The SUBGROUP_HEADER."""
        self.began = 0.0
        """When its first bytes were written."""
        self.feed: Feed | None = None
        """Where it gets its bytes from; None if all that will come was written."""
        self.objects_base = 0
        self.payload_base = 0
        self.written = 0
        self._waiting: deque[tuple[int, float]] = deque()
        """Up to which byte the stream must have been sent, and until when."""
        self._armed = False

    # Bytes

    def begin(self, now: float, data: bytes, fin: bool) -> None:
        """Write the header and the first bytes behind it."""
        start = self.start
        self.began = now
        self.receiver.session.service.began(now)
        if len(data) < 512:
            self.stream.write(start + data, fin)
        else:
            self.stream.write(start)
            self.stream.write(data, fin)
        if self.receiver.timeout is not None:
            self.wrote(now, len(start) + len(data))

    def wrote(self, now: float, size: int) -> None:
        """Watch that what was written now does not wait too long."""
        timeout = self.receiver.timeout
        if timeout is None:
            return
        self.written += size
        self._waiting.append((self.written, now + timeout))
        if not self._armed:
            self._arm(now, now + timeout)

    def _arm(self, now: float, deadline: float) -> None:
        """Look again then, or earlier.

        What was sent meanwhile must not be kept for a timeout that a subscriber made very long.
        """
        self._armed = True
        self.receiver.session.state.timers.set(self._check, min(deadline, now + _LOOK))

    def _disarm(self) -> None:
        if self._armed:
            self._armed = False
            self.receiver.session.state.timers.cancel(self._check)

    def _check(self, now: float) -> None:
        """Give the stream up if what was written too long ago still waits."""
        waiting, stream = self._waiting, self.stream
        self._armed = False
        # A finished stream may still wait, and can still be given up; a stopped one has nothing.
        sent = self.written - stream.queued
        while waiting and waiting[0][0] <= sent:
            waiting.popleft()
        if not waiting:
            return
        state = self.receiver.session.state
        if waiting[0][1] > now:
            self._arm(now, waiting[0][1])
            return
        state.timed_out += 1
        lost = stream.queued
        stream.reset(DELIVERY_TIMEOUT)
        self.receiver.session.gone(now, stream, lost)

    # Ends

    def settle(self) -> None:
        """Count what it got from its feed so far."""
        feed = self.feed
        if feed is not None:
            receiver = self.receiver
            objects, payload = feed.objects - self.objects_base, feed.payload - self.payload_base
            receiver.objects += objects
            receiver.bytes += payload
            receiver.track.objects_out += objects
            receiver.track.bytes_out += payload
            if receiver.tally is not None:
                receiver.tally.sent(objects, payload)
            self.objects_base, self.payload_base = feed.objects, feed.payload

    def finish(self) -> None:
        """Its end was written."""
        self.settle()
        self.feed = None
        self.receiver.outs.pop(self, None)
        self.receiver.session.finish_out(self.stream)

    def reset(self, code: int = CANCELLED) -> None:
        """Abandon it."""
        self._disarm()
        self.stream.reset(code)
        feed = self.feed
        if feed is not None:
            feed.leave(self)
        self.feed = None
        self.receiver.outs.pop(self, None)
        self.receiver.session.outs.pop(self.stream, None)

    def gone(self, now: float, stream: OutStream, lost: int) -> None:  # noqa: ARG002 - Owner
        """The receiver stopped it, or was too slow: the rest of the subgroup is not sent."""
        receiver, feed = self.receiver, self.feed
        self._disarm()
        receiver.dropped_streams += 1
        receiver.dropped_bytes += lost
        receiver.track.dropped_bytes += lost
        if lost:
            receiver.track.dropped_objects += 1
            receiver.session.service.gaps += 1
        if feed is not None:
            feed.leave(self)
            feed.lost(self)
        self.feed = None
        receiver.outs.pop(self, None)
        receiver.check_done()
