"""Sessions and tracks, the receivers of a track, and the subgroups that are under way.

::

    stream of a publisher
          |  chunk                     RunParser: one run of bytes, marks where objects begin
          v
       admit                           each object once; a refused one is cut out of the run
          |  run
          +------> cache               by reference
          +------> flow of the same draft      write(run)   write(run)   write(run)   ...
          +------> flow of the other draft     transcoded once, then the same
          '------> waiting receivers           open a stream at the first object they want

The run is the same ``bytes`` for all receivers. A second stream of the same subgroup stands by
(:class:`Standby`) and takes over if the first one is reset, or was cut for it.

Figures are counted once for a subgroup, not once for each receiver of it. A stream remembers the
counters of the subgroup when it joined; the difference is added when it leaves.

A subgroup may go on with another stream, so that nothing of it is lost, nor comes twice.

::

    stream 1   | header | object 0 | object 1 | delta of object 2 |  FIN
    stream 2   | header | object 2 | object 3 | ...

A relay that sends a subgroup to others may have to begin another stream for the rest: somebody has
joined, or the way has changed (laps-2, 7.2). It does so between two objects. The first stream ends
with the first field of the next object's header: so its end is not that of the subgroup, and who
receives both knows which object the second one begins with. They may come in any order. The second
stands by while the first is under way, and the first waits for a while when it has ended. A second
one that is there before the first waits as well (see ``pending.Early``): it says that it goes on.

A publisher may say nothing for long. The way that a stream should leave is not kept open for that:
the stream is cut before the object that is next by its number, and the second one begins when there
is one. Who receives waits as long as nothing newer of the track has come: so nothing is missing.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, Protocol

from laps_sdk.forwarding.cache import Cache, CachedGroup, CachedTrack, Segment
from laps_sdk.forwarding.coding import (
    CANCELLED,
    DELIVERY_TIMEOUT,
    INTERNAL_ERROR,
    Mark,
    cut_mark,
    drop_code,
    integers_of,
    mirrored_code,
    object_header,
    start_header,
    transcode,
)
from laps_sdk.forwarding.interfaces import (
    CacheLimits,
    Egress,
    EgressEntry,
    LinkedStream,
    Notice,
    OutStream,
    PlaneCounters,
    PlaneLimits,
    RankChanged,
    Subscription,
    SubscriptionCounters,
    SubscriptionDone,
    Taker,
    TrackCounters,
    TrackEnded,
)
from laps_sdk.forwarding.priority import stream_priority
from laps_sdk.forwarding.ranges import Ranges
from laps_sdk.forwarding.samples import Sample, Samples
from laps_sdk.forwarding.scan import Run, RunParser, run_from, without
from laps_sdk.forwarding.traffic import LinkTraffic, Service, Tally, TrackTraffic, gained
from laps_sdk.timers import Timers
from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import ObjectStatus, PropertyTypeD18
from laps_wire.moqt.data.subgroup import encode_subgroup_header
from laps_wire.moqt.data.types import MalformedTrackError, ObjectHeader, SubgroupHeader
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName

__all__ = [
    "QUIET",
    "Feed",
    "Flow",
    "Group",
    "Handler",
    "InternalTrack",
    "Out",
    "Owner",
    "Receiver",
    "Session",
    "Source",
    "Standby",
    "State",
    "Track",
    "begin_anew",
    "cut_quiet",
    "end_paused",
    "give_up_waiting",
    "go_on",
    "is_under_way",
    "wait_for",
    "watch_first",
]

_GROUP_GAP: Final = int(PropertyTypeD18.PRIOR_GROUP_ID_GAP)
_OBJECT_GAP: Final = int(PropertyTypeD18.PRIOR_OBJECT_ID_GAP)
_LAST_GROUP: Final = (1 << 64) - 1
_NORMAL: Final = ObjectStatus.NORMAL


class Track(CachedTrack):
    """What the plane knows of a track."""

    __slots__ = (
        "absent_groups",
        "bounded",
        "broken",
        "bytes_in",
        "bytes_out",
        "datagrams_in",
        "datagrams_out",
        "dropped_bytes",
        "dropped_objects",
        "duplicates",
        "end",
        "groups",
        "ingress",
        "key",
        "largest_group",
        "largest_object",
        "limits",
        "missing_groups",
        "name",
        "notices",
        "number",
        "objects_in",
        "objects_out",
        "rank_type",
        "rank_value",
        "receivers",
        "relays",
        "tallies",
        "told",
    )

    def __init__(
        self,
        number: int,
        name: FullTrackName,
        max_age: float | None,
        limits: PlaneLimits,
        notices: list[Notice],
    ) -> None:
        super().__init__(max_age)
        self.number = number
        self.name = name
        self.key: int | None = None
        """Its full-name hash, once somebody needed it."""
        self.limits = limits
        self.notices = notices
        self.groups: OrderedDict[int, Group] = OrderedDict()
        """The groups that came last; an older one is forgotten with what was in it."""
        self.absent_groups = Ranges()
        """Groups of which somebody said that they do not exist."""
        self.missing_groups = Ranges()
        """Groups that an upstream left out of the answer to a FETCH."""
        self.ingress: dict[tuple[Session, int], None] = {}
        """The aliases that stand for it."""
        self.broken: set[Session] = set()
        """Who broke it, and may send nothing more of it."""
        self.relays: dict[Handler, None] = {}
        """Answers to FETCHes of ours under way."""
        self.receivers: dict[Receiver, None] = {}
        self.bounded: set[Receiver] = set()
        """Those that want nothing behind some group."""
        self.largest_group = -1
        self.largest_object = -1
        self.end: Location | None = None
        """Where the track ends, once an object said so."""
        self.rank_type: int | None = None
        self.rank_value: int | None = None
        # Figures.
        self.objects_in = 0
        self.bytes_in = 0
        self.objects_out = 0
        self.bytes_out = 0
        self.datagrams_in = 0
        self.datagrams_out = 0
        self.duplicates = 0
        self.dropped_objects = 0
        self.dropped_bytes = 0
        self.tallies: dict[int, Tally] = {}
        """Of sessions of other relays: what is in the figures and not of clients."""
        self.told: TrackTraffic | None = None
        """The figures when they were asked for last."""

    # Getters

    @property
    def largest(self) -> Location | None:
        """The largest location that came."""
        if self.largest_group < 0:
            return None
        return Location(self.largest_group, self.largest_object)

    def feeds(self) -> list[Feed]:
        """Subgroups that are under way."""
        return [feed for group in self.groups.values() for feed in group.feeds.values()]

    def counters(self) -> TrackCounters:
        """The figures, with those of streams under way."""
        objects, payload = self.objects_out, self.bytes_out
        for feed in self.feeds():
            for out in feed.outs():
                objects += feed.objects - out.objects_base
                payload += feed.payload - out.payload_base
        return TrackCounters(
            self.objects_in,
            self.bytes_in,
            objects,
            payload,
            self.datagrams_in,
            self.datagrams_out,
            self.duplicates,
            self.dropped_objects,
            self.dropped_bytes,
            self.cached_bytes,
            len(self.cached_groups),
            self.cached_objects,
            len(self.receivers),
        )

    def tally(self, session: Session) -> Tally | None:
        """The figures of a session of other relays; None for a client."""
        if not session.peering:
            return None
        return self.tallies.setdefault(session.number, Tally())

    def take_traffic(self) -> TrackTraffic:
        """What it did since this was called last."""
        counters = self.counters()
        objects_in, bytes_in, objects_out, bytes_out = counters[:4]
        more: dict[Tally, tuple[int, int]] = {}
        for feed in self.feeds():
            for out in feed.outs():
                tally = out.receiver.tally
                if tally is not None:
                    objects, payload = more.get(tally, (0, 0))
                    objects += feed.objects - out.objects_base
                    more[tally] = objects, payload + feed.payload - out.payload_base
        links = []
        for session, tally in self.tallies.items():
            objects, payload = more.get(tally, (0, 0))
            link = LinkTraffic(
                session,
                tally.objects_in,
                tally.bytes_in,
                tally.objects_out + objects,
                tally.bytes_out + payload,
            )
            links.append(link)
            objects_in -= link.objects_in
            bytes_in -= link.bytes_in
            objects_out -= link.objects_out
            bytes_out -= link.bytes_out
        last = None if self.largest_group < 0 else self.largest_group
        first = next(iter(self.groups), last)
        total = TrackTraffic(
            self.name,
            objects_in,
            bytes_in,
            objects_out,
            bytes_out,
            counters.dropped_objects,
            first,
            last,
            tuple(links),
        )
        before, self.told = self.told, total
        return gained(total, before)

    def known_absent(self) -> Ranges:
        """All groups that are known not to exist."""
        known = self.absent_groups.union(self.missing_groups)
        if self.end is not None:
            known.add_range(self.end.group + 1, _LAST_GROUP)
        return known

    def check_done(self) -> None:
        """See whether receivers got all that they want."""
        for receiver in tuple(self.bounded):
            receiver.check_done()

    # Objects that come

    def group(self, group_id: int) -> Group:
        """The record of a group; a new one may push the oldest out."""
        group = self.groups.get(group_id)
        if group is None:
            if group_id in self.absent_groups:
                raise MalformedTrackError(f"group {group_id} was said not to exist")
            group = self.groups[group_id] = Group(self, group_id)
            self._forget(group)
        return group

    def _forget(self, newest: Group) -> None:
        """Drop the oldest records that nobody needs."""
        over = len(self.groups) - self.limits.group_records
        if over <= 0:
            return
        # Some may still be needed: a few more are looked at, the next call finds the rest.
        for group in list(islice(self.groups.values(), over + 8)):
            needed = group.feeds or group.segments or group.early or group is newest
            if over and not needed:
                del self.groups[group.group_id]
                over -= 1

    def admit(self, group: Group, head: ObjectHeader, draft: Draft) -> bool:
        """Whether an object is new; ``MalformedTrackError`` if it cannot be."""
        object_id = head.object_id
        group_id = group.group_id
        seen = group.seen
        if group.final is not None or group.finals or group.absent:
            group.check(object_id, head.subgroup_id)
        if self.end is not None and (group_id, object_id) > self.end:
            raise MalformedTrackError(
                f"object {group_id}:{object_id} is behind the track's last one,"
                f" {self.end.group}:{self.end.object}"
            )
        if head.extensions:
            self._open_extensions(group, head, draft)
        if not seen.add(object_id):
            self.duplicates += 1
            return False
        if len(seen) > self.limits.id_ranges:
            seen.limit(self.limits.id_ranges)
        if head.status is not _NORMAL:
            self._ended(group, head)
        if group_id > self.largest_group or (
            group_id == self.largest_group and object_id > self.largest_object
        ):
            self.largest_group = group_id
            self.largest_object = object_id
        return True

    def _ended(self, group: Group, head: ObjectHeader) -> None:
        try:
            group.end_at(head.object_id, marked=True)
            if head.status is ObjectStatus.END_OF_TRACK:
                location = Location(group.group_id, head.object_id)
                if (self.largest_group, self.largest_object) > location:
                    raise MalformedTrackError(
                        f"the track ends at {location.group}:{location.object}, and"
                        f" {self.largest_group}:{self.largest_object} came"
                    )
                self.end = location
                self.notices.append(TrackEnded(self.number, location))
        except MalformedTrackError:
            group.seen.discard(head.object_id)
            raise

    def _open_extensions(self, group: Group, head: ObjectHeader, draft: Draft) -> None:
        values = integers_of(head, draft)
        if not values:
            return
        gap = values.get(_OBJECT_GAP)
        if gap:
            group.leave_out(head.object_id - gap, head.object_id - 1)
            group.absent.forget(self.limits.id_ranges)
        gap = values.get(_GROUP_GAP)
        if gap:
            self.leave_out_groups(group.group_id - gap, group.group_id - 1)
        if self.rank_type is not None:
            value = values.get(self.rank_type)
            if value is not None and value != self.rank_value:
                self.rank_value = value
                self.notices.append(RankChanged(self.number, value))

    def leave_out_groups(self, start: int, end: int) -> None:
        """Groups from ``start`` to ``end`` do not exist."""
        if start < 0:
            raise MalformedTrackError(f"a gap of groups reaches {-start} below 0")
        if not any(self.absent_groups.gaps(start, end)):
            return
        for group in self.groups.values():
            if start <= group.group_id <= end and len(group.seen):
                raise MalformedTrackError(
                    f"groups {start} to {end} do not exist, and {group.group_id} came"
                )
        self.absent_groups.add_range(start, end)
        self.absent_groups.forget(self.limits.id_ranges)


class Handler(Protocol):
    """An incoming data stream in one of its states."""

    @property
    def track(self) -> Track | None:
        """What it belongs to, if that is known."""

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""

    def reset(self, now: float, code: int) -> None:
        """It was abandoned, by its sender or by us."""


class Owner(Protocol):
    """Whom an outgoing stream belongs to."""

    def gone(self, now: float, stream: OutStream, lost: int) -> None:
        """The stream was stopped or dropped."""


@dataclass(slots=True, eq=False)
class Source:
    """What an alias of a session stands for."""

    track: Track
    priority: int
    """Of objects that name none."""
    streams: int = 0
    """That began, to be compared with what PUBLISH_DONE says."""
    since: tuple[int, int] | None = None
    """The oldest subgroup, with its group before it, that came from its first object on."""

    def began_with(self, group_id: int, subgroup_id: int) -> None:
        """A subgroup comes from its first object on."""
        if self.since is None or (group_id, subgroup_id) < self.since:
            self.since = group_id, subgroup_id


class State:
    """What there is once in a plane."""

    __slots__ = (
        "cache",
        "gone",
        "late_objects",
        "limits",
        "notices",
        "overflow_datagrams",
        "overflow_streams",
        "samples",
        "standby_overflow",
        "timed_out",
        "timers",
        "tracks",
        "unknown_datagrams",
        "unknown_streams",
    )

    def __init__(self, cache: CacheLimits, limits: PlaneLimits) -> None:
        self.cache = Cache(cache)
        self.limits = limits
        self.timers: Timers[Callable[[float], None]] = Timers()
        """What is called with the time when its own has come: a method of what it is about."""
        self.notices: list[Notice] = []
        self.tracks: dict[int, Track] = {}
        self.gone: list[TrackTraffic] | None = None
        """What tracks did that are no more, if somebody wants to know."""
        self.samples: Samples | None = None
        """Who times objects, if anybody."""
        self.unknown_streams = 0
        self.unknown_datagrams = 0
        self.overflow_streams = 0
        self.overflow_datagrams = 0
        self.standby_overflow = 0
        self.late_objects = 0
        self.timed_out = 0

    def counters(self) -> PlaneCounters:
        """What was given up."""
        return PlaneCounters(
            self.unknown_streams,
            self.unknown_datagrams,
            self.overflow_streams,
            self.overflow_datagrams,
            self.standby_overflow,
            self.late_objects,
            self.timed_out,
        )


class InternalTrack:
    """What an alias of a session stands for, if the relay takes it."""

    __slots__ = ("object_bytes", "streams", "taker")

    def __init__(self, taker: Taker, object_bytes: int) -> None:
        self.taker = taker
        self.object_bytes = object_bytes
        self.streams = 0
        """Under way."""


class Session:
    """One session: who it is, what comes from it, what goes to it."""

    __slots__ = (
        "draft",
        "early_bytes",
        "egress",
        "fetches",
        "finished",
        "intakes",
        "malformed",
        "number",
        "outs",
        "peering",
        "receivers",
        "service",
        "sources",
        "state",
        "streams",
        "upstream",
    )

    def __init__(
        self,
        state: State,
        number: int,
        draft: Draft,
        egress: Egress,
        *,
        peering: bool = False,
        upstream: bool = False,
    ) -> None:
        self.state = state
        self.number = number
        self.peering = peering
        """Whether other relays are behind it."""
        self.upstream = upstream
        """Whether those are a whole network: some want what others there have sent."""
        self.draft = draft
        self.egress = egress
        self.streams: dict[int, Handler] = {}
        """Incoming data streams that are under way."""
        self.sources: dict[int, Source] = {}
        """Aliases that are known."""
        self.intakes: dict[int, InternalTrack] = {}
        """Aliases of tracks that the relay takes itself."""
        self.malformed: set[Track] = set()
        """Tracks that this session broke: nothing more of them is taken."""
        self.early_bytes = 0
        """What waits for the beginning of its subgroup."""
        self.outs: dict[OutStream, Owner] = {}
        """Outgoing data streams that are not finished."""
        self.finished: OrderedDict[OutStream, Owner] = OrderedDict()
        """Finished ones, of which something may still be dropped."""
        self.receivers: dict[int, Receiver] = {}
        self.service = Service()
        self.fetches: dict[int, Handler] = {}
        """Answers that we wait for, by the request."""

    def finish_out(self, stream: OutStream) -> None:
        """All of an outgoing stream was written."""
        owner = self.outs.pop(stream, None)
        if owner is not None:
            self.finished[stream] = owner
            if len(self.finished) > self.state.limits.finished_streams:
                self.finished.popitem(last=False)

    def gone(self, now: float, stream: OutStream, lost: int) -> None:
        """An outgoing stream was stopped or dropped."""
        owner = self.outs.pop(stream, None) or self.finished.pop(stream, None)
        if owner is not None:
            owner.gone(now, stream, lost)

    def stop(self, stream_id: int, code: int) -> None:
        """Take nothing more of an incoming stream."""
        if self.streams.pop(stream_id, None) is not None:
            self.egress.stop_sending(stream_id, code)


_LAST_OBJECT: Final = (1 << 62) - 1


class Group(CachedGroup):
    """Remembered for as long as its track's window of groups reaches."""

    __slots__ = (
        "absent",
        "broken",
        "datagrams",
        "early",
        "end_marked",
        "feeds",
        "final",
        "finals",
        "missing",
        "refused",
        "seen",
        "touched",
    )

    track: Track

    def __init__(self, track: Track, group_id: int) -> None:
        super().__init__(track, group_id)
        self.seen = Ranges()
        """Objects that came, whole or not; those that were broken off are taken out again."""
        self.absent = Ranges()
        """Objects of which somebody said that they do not exist."""
        self.missing = Ranges()
        """Objects that an upstream left out of the answer to a FETCH."""
        self.final: int | None = None
        """The last object of the group, once somebody said so."""
        self.end_marked = False
        """Whether that object is nothing but the mark of the end."""
        self.finals: dict[int, int] = {}
        """The last object of each subgroup that ended with a FIN."""
        self.feeds: dict[int, Feed] = {}
        """Subgroups under way."""
        self.early: dict[int, list[Handler]] = {}
        """Streams that go on with a subgroup whose beginning did not come yet."""
        self.broken: dict[int, None] = {}
        """Subgroups that were given up in their middle: nothing is to be waited for."""
        self.touched = 0.0
        """When something of it came last."""
        self.refused: dict[int, set[Receiver]] = {}
        """Who gets nothing more of a subgroup, because its stream was stopped or dropped."""
        self.datagrams: Segment | None = None
        """Where the object of the next datagram is kept."""

    def check(self, object_id: int, subgroup_id: int | None) -> None:
        """Refuse an object that cannot exist (moq-transport-16, 2.4.2)."""
        where = f"object {self.group_id}:{object_id}"
        if self.final is not None and object_id > self.final:
            raise MalformedTrackError(f"{where} is behind the group's last one, {self.final}")
        if object_id in self.absent:
            raise MalformedTrackError(f"{where} was said not to exist")
        if subgroup_id is not None:
            final = self.finals.get(subgroup_id)
            if final is not None and object_id > final:
                raise MalformedTrackError(f"{where} is behind its subgroup's last one, {final}")

    def forget(self, receiver: Receiver) -> None:
        """A receiver is gone."""
        for subgroup_id, refused in tuple(self.refused.items()):
            refused.discard(receiver)
            if not refused:
                del self.refused[subgroup_id]

    def end_at(self, object_id: int, *, marked: bool = False) -> None:
        """No object behind this one exists; ``marked`` if it is only the mark of the end."""
        if self.final is not None and self.final != object_id:
            raise MalformedTrackError(
                f"group {self.group_id} ends at object {object_id} and at {self.final}"
            )
        if self.seen.last > object_id:
            raise MalformedTrackError(
                f"group {self.group_id} ends at object {object_id}, and {self.seen.last} came"
            )
        self.final = object_id
        self.end_marked = marked

    def finish_subgroup(self, subgroup_id: int, object_id: int) -> None:
        """A stream of a subgroup ended with a FIN behind this object."""
        finals = self.finals
        known = finals.setdefault(subgroup_id, object_id)
        if len(finals) > self.track.limits.id_ranges:
            del finals[next(iter(finals))]  # a group with a stream for each object may never end
        if known != object_id:
            raise MalformedTrackError(
                f"subgroup {subgroup_id} of group {self.group_id} ends at object {object_id}"
                f" and at {known}"
            )

    def break_off(self, subgroup_id: int) -> None:
        """A stream of a subgroup was abandoned."""
        self.broken[subgroup_id] = None
        if len(self.broken) > self.track.limits.id_ranges:
            del self.broken[next(iter(self.broken))]

    def leave_out(self, start: int, end: int) -> None:
        """Objects from ``start`` to ``end`` do not exist."""
        if start < 0:
            raise MalformedTrackError(f"a gap in group {self.group_id} reaches {-start} below 0")
        if self.seen.meets(start, end):
            raise MalformedTrackError(
                f"objects {start} to {end} of group {self.group_id} do not exist, and some came"
            )
        self.absent.add_range(start, end)

    def known_absent(self) -> Ranges:
        """All ids that are known not to exist."""
        known = self.absent.union(self.missing)
        if self.final is not None:
            first = self.final if self.end_marked else self.final + 1
            known.add_range(first, max(first, _LAST_OBJECT))
        return known

    @property
    def complete(self) -> bool:
        """Whether every object of it came or does not exist."""
        if self.final is None:
            return False
        return not any(self.seen.union(self.absent).gaps(0, self.final))


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


class Flow:
    """The receivers of one draft that take every byte from now on."""

    __slots__ = ("outs", "timed", "writes")

    def __init__(self) -> None:
        self.outs: list[Out] = []
        self.writes: list[Callable[[bytes, bool], None]] = []
        """What is called for each run: nothing else is done for most receivers."""
        self.timed: list[Out] = []
        """Those that have a delivery timeout."""

    def add(self, out: Out) -> None:
        """One more."""
        self.outs.append(out)
        self.writes.append(out.stream.write)
        if out.receiver.timeout is not None:
            self.timed.append(out)

    def remove(self, out: Out) -> None:
        """One less."""
        index = self.outs.index(out)
        del self.outs[index], self.writes[index]
        if out in self.timed:
            self.timed.remove(out)


class Feed:
    """A subgroup under way; a ``Handler`` of the stream that it comes on."""

    __slots__ = (
        "_intact",
        "_lost",
        "_skipping",
        "_state",
        "_taken_over",
        "_tally",
        "awaited",
        "cut_at",
        "draft",
        "flows",
        "group",
        "header",
        "last_id",
        "objects",
        "parser",
        "paused",
        "payload",
        "priority",
        "renewing",
        "segment",
        "session",
        "standby",
        "stream_id",
        "subgroup_id",
        "track",
        "waiting",
    )

    def __init__(
        self,
        session: Session,
        stream_id: int,
        parser: RunParser,
        header: SubgroupHeader,
        subgroup_id: int,
        group: Group,
        default_priority: int,
    ) -> None:
        self._state = session.state
        self.session = session
        self.stream_id = stream_id
        self.parser = parser
        self.draft: Draft = parser.draft
        self.header = header
        self.subgroup_id = subgroup_id
        self.group = group
        self.track = group.track
        self._tally = self.track.tally(session)
        self.priority = default_priority if header.priority is None else header.priority
        self.segment: Segment | None = None
        self.last_id = -1
        """The last object that was taken; -1 before the first."""
        self.objects = 0
        self.payload = 0
        """Payload bytes that were taken."""
        self.standby: list[Standby] = []
        self.flows: dict[Draft, Flow] = {}
        refused = group.refused.get(subgroup_id, ())
        self.waiting: list[Receiver] = [
            receiver
            for receiver in self.track.receivers
            if receiver.wants_group(header.group_id)
            and receiver not in refused
            and receiver.takes_from(session.number)
        ]
        """Receivers for which no object passed yet."""
        self._intact = True  # whether the first object taken is the first of the stream
        self._skipping = False  # whether the last object begun was refused
        self._taken_over = False
        self._lost: list[Out] = []
        self.renewing: dict[Out, None] = {}
        """Streams that end with this object, and whose receivers get another one for the rest."""
        self.paused: dict[Receiver, None] = {}
        """Receivers whose stream was cut before an object that has not come yet."""
        self.awaited: int | None = None
        """It was cut: the object with which another stream goes on."""
        self.cut_at = 0.0
        """When that was."""
        group.feeds[subgroup_id] = self

    # Bytes that come

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of the stream."""
        marks: list[Mark] = []
        body, end = self.parser.scan(data, marks)
        draft, group, admit = self.draft, self.group, self.track.admit
        group.touched = now
        fresh = [mark for mark in marks if admit(group, mark[0], draft)]
        if self._taken_over:
            fresh = self._in_time(fresh)
        if len(fresh) != len(marks) or self._skipping:
            if self.last_id < 0:
                self._intact = False
            run = self._run(body[:end], marks)
            body, fresh, self._skipping = without(run, fresh, skipping=self._skipping)
        elif end != len(body):
            body = body[:end]
        awaited = self.parser.cut_before if fin and self.session.peering else None
        if awaited is not None:
            if body:
                self.emit(now, body, fresh, fin=False)
            wait_for(now, self, awaited)
            return
        if fin:
            self.parser.finish()
            self._finish_ids()
        if body or fin:
            self.emit(now, body, fresh, fin)
        if fin:
            if self.paused:
                end_paused(now, self)
            self._close(finished=True)
        elif self.standby:
            for second in tuple(self.standby):
                second.lead(now)

    def reset(self, now: float, code: int) -> None:
        """The stream was abandoned; another one of the subgroup may go on."""
        broken = self.parser.left > 0 and not self._skipping
        if broken:
            # The object did not come after all: another stream may bring it.
            self.group.seen.discard(self.last_id)
            segment = self.segment
            if segment is not None and segment.cost:
                segment.cut()
                self._state.cache.grew(segment, -1)
                if not segment.count:
                    self._state.cache.remove(segment)
        heir = self.standby.pop(0) if self.standby else None
        if heir is not None and not broken and heir.fits(self):
            self.take_over(now, heir)
            return
        self.abandon(code)
        if heir is not None:
            heir.promote(now, self.standby)

    def _in_time(self, fresh: list[Mark]) -> list[Mark]:
        """Objects of a second stream that are not behind later ones of the first."""
        good = [mark for mark in fresh if mark[0].object_id > self.last_id]
        self._state.late_objects += len(fresh) - len(good)
        self.track.dropped_objects += len(fresh) - len(good)
        return good

    def _finish_ids(self) -> None:
        """What a FIN says about ids (moq-transport-16, 2.4.2 and 10.4.2)."""
        last = self.parser.object_id
        if last < 0:
            return
        if not self._taken_over:
            self.group.finish_subgroup(self.subgroup_id, last)
        header = self.parser.header
        if header is not None and header.end_of_group:
            self.group.end_at(last)

    def _run(self, body: bytes, marks: list[Mark]) -> Run:
        return Run(body, marks, self.last_id, self.header.has_extensions, self.draft)

    # Bytes that go

    def emit(
        self,
        now: float,
        body: bytes,
        marks: list[Mark],
        fin: bool,
        again: AbstractSet[Receiver] = frozenset(),
    ) -> None:
        """Hand a run on: to the cache, to those who are in, to those who come in.

        Those who come in ``again`` had another stream for what was before.
        """
        if marks and self.renewing:
            begin_anew(now, self, body, marks, fin)
            return
        size = len(body)
        for mark in marks:
            size -= mark[2] - mark[1]
        if body:
            self._keep(now, body, marks)
        previous = self.last_id
        for draft, flow in self.flows.items():
            if draft is self.draft:
                run = body
            else:
                run = self._translated(now, flow, body, marks, previous, draft)
            for write in flow.writes:
                write(run, fin)
            for out in flow.timed:
                out.wrote(now, len(run))
        if marks:
            if self.waiting:
                self._let_in(now, body, marks, fin, again)
            self.last_id = marks[-1][0].object_id
            if not self.objects and self.track.bounded:
                self.track.check_done()  # a group that some do not want may have begun
        self.objects += len(marks)
        self.payload += size
        track = self.track
        track.objects_in += len(marks)
        track.bytes_in += size
        if self._tally is not None:
            self._tally.came(len(marks), size)
        samples = self._state.samples
        if samples is not None and marks and self.objects == len(marks):
            watch_first(now, samples, self, marks[0][0])

    def _translated(
        self, now: float, flow: Flow, body: bytes, marks: list[Mark], previous: int, draft: Draft
    ) -> bytes:
        """A run in the other draft; receivers lose the subgroup if it cannot be said there."""
        try:
            return transcode(body, marks, previous, self.header.has_extensions, self.draft, draft)
        except EncodeError:
            for out in tuple(flow.outs):
                out.stream.reset(INTERNAL_ERROR)
                out.receiver.session.gone(now, out.stream, 0)
            return b""

    def _keep(self, now: float, body: bytes, marks: list[Mark]) -> None:
        """Put a run into the cache, by reference."""
        cache, segment = self._state.cache, self.segment
        if segment is not None and not segment.cost:
            segment = self.segment = None  # it was evicted
        if marks and (segment is None or cache.is_closed(now, segment)):
            first = marks[0][1]
            if first:
                if segment is not None:
                    segment.append(body[:first], [])
                    cache.grew(segment, 0)
                body = body[first:]
                marks = [(head, start - first, end - first) for head, start, end in marks]
            if segment is not None:
                segment.live = False
            header = self.header
            if header.first_object and self.last_id < 0 and not self._intact:
                header = replace(header, first_object=False)
            segment = self.segment = Segment(
                self.group,
                header,
                self.subgroup_id,
                self.draft,
                base=self.last_id,
                default_priority=self.priority,
                born=now,
                origin=self.session.number,
            )
            cache.add(segment)
        if segment is not None:
            segment.append(body, marks)
            cache.grew(segment, len(marks))

    def _let_in(
        self, now: float, body: bytes, marks: list[Mark], fin: bool, again: AbstractSet[Receiver]
    ) -> None:
        """Open streams to receivers that want an object which begins in this run."""
        group_id = self.header.group_id
        still: list[Receiver] = []
        runs: dict[tuple[Draft, int], bytes | None] = {}
        waiting, self.waiting = self.waiting, still
        run = self._run(body, marks)
        for receiver in waiting:
            index = receiver.first_of(group_id, marks)
            if index < 0:
                still.append(receiver)
                continue
            key = (receiver.draft, index)
            if key not in runs:
                runs[key] = run_from(run, index, receiver.draft)
            first = runs[key]
            if first is None:
                receiver.dropped_streams += 1
                continue
            whole = not index and self.last_id < 0 and self._intact
            out = receiver.open(self.header, self.subgroup_id, self.priority, whole=whole)
            if out is None:
                continue
            if (receiver in again or receiver in self.paused) and isinstance(
                out.stream, LinkedStream
            ):
                out.stream.goes_on()
            self.paused.pop(receiver, None)
            out.objects_base = self.objects + index
            heads = sum(mark[2] - mark[1] for mark in marks[:index])
            out.payload_base = self.payload + marks[index][1] - heads
            self.join(out)
            out.begin(now, first, fin)

    # Receivers that come and go

    def outs(self) -> list[Out]:
        """All streams that it goes to."""
        return [out for flow in self.flows.values() for out in flow.outs]

    def join(self, out: Out) -> None:
        """Give a stream every byte from the next run on; it must have all before that."""
        out.feed = self
        flow = self.flows.get(out.receiver.draft)
        if flow is None:
            flow = self.flows[out.receiver.draft] = Flow()
        flow.add(out)

    def leave(self, out: Out) -> None:
        """Give a stream nothing more."""
        out.settle()
        self.flows[out.receiver.draft].remove(out)

    def time(self, out: Out) -> None:
        """The delivery timeout of a stream's receiver may have changed."""
        timed = self.flows[out.receiver.draft].timed
        if out in timed:
            timed.remove(out)
        if out.receiver.timeout is not None:
            timed.append(out)

    def lost(self, out: Out) -> None:
        """Remember who does not get the rest of the subgroup, to count it."""
        self._lost.append(out)
        if out.receiver in self.track.receivers:
            self.group.refused.setdefault(self.subgroup_id, set()).add(out.receiver)

    def renew(self, out: Out) -> None:
        """Let a stream end before the next object; its receiver gets another one for the rest."""
        self.renewing[out] = None
        self._state.timers.set(self.quiet, self.group.touched + QUIET)

    def quiet(self, now: float) -> None:
        """No object has come for a while, and streams should go on elsewhere."""
        cut_quiet(now, self)

    def forget(self, receiver: Receiver) -> None:
        """A receiver that has no stream yet is gone."""
        if receiver in self.waiting:
            self.waiting.remove(receiver)
        self.paused.pop(receiver, None)

    def admit_receiver(self, receiver: Receiver) -> None:
        """Let a new receiver in with the next object that it wants."""
        refused = self.group.refused.get(self.subgroup_id, ())
        if (
            receiver not in refused
            and receiver not in self.waiting
            and receiver.takes_from(self.session.number)
        ):
            self.waiting.append(receiver)

    # Ends

    def _close(self, *, finished: bool) -> None:
        """Nothing more comes; streams to receivers were finished or reset before."""
        if self.awaited is not None:
            self.awaited = None
            self._state.timers.cancel(self.unheard)
        if self.renewing:
            self.renewing.clear()
            self._state.timers.cancel(self.quiet)
        if self.segment is not None:
            self.segment.live = False
            self.segment.finished = finished
        if self.group.feeds.get(self.subgroup_id) is self:
            del self.group.feeds[self.subgroup_id]
        for flow in self.flows.values():
            for out in flow.outs:
                out.finish()
            flow.outs.clear()
            flow.writes.clear()
            flow.timed.clear()
        self.waiting.clear()
        for out in self._lost:
            missed = self.payload - out.payload_base
            out.receiver.dropped_bytes += missed
            self.track.dropped_bytes += missed
            self.track.dropped_objects += self.objects - out.objects_base
            out.receiver.session.service.gaps += self.objects - out.objects_base
        self._lost.clear()
        if finished:
            for second in self.standby:
                second.give_up()
        self.track.check_done()

    def abandon(self, code: int = CANCELLED) -> None:
        """Take nothing more, and tell the receivers so."""
        self.group.break_off(self.subgroup_id)
        for flow in self.flows.values():
            for out in tuple(flow.outs):
                out.reset(mirrored_code(code, self.draft, out.receiver.draft))
        self._close(finished=False)

    def unheard(self, now: float) -> None:
        """It was cut, and nobody went on with it in time."""
        give_up_waiting(now, self)

    # The second stream

    def take_over(self, now: float, heir: Standby) -> None:
        """Go on with another stream of the same subgroup, on the same streams to receivers."""
        former, self.session = self.session, heir.session
        self.stream_id, self.parser = heir.stream_id, heir.parser
        self._taken_over = True
        if former is not self.session:
            self._change_session(former)
        if not heir.finished:
            self.session.streams[self.stream_id] = self
        self.inject(now, heir)

    def _change_session(self, former: Session) -> None:
        """What comes from now on is another session's: so it is cached, and so it is sent."""
        self._tally = self.track.tally(self.session)
        if self.segment is not None:
            self.segment.live = False
            self.segment = None
        for out in self.outs():
            if not out.receiver.takes_from(self.session.number):
                out.reset(CANCELLED)
        for receiver in tuple(former.receivers.values()):
            if (
                receiver.track is self.track
                and not receiver.takes_from(former.number)
                and receiver.wants_group(self.header.group_id)
            ):
                self.admit_receiver(receiver)

    def inject(self, now: float, heir: Standby) -> None:
        """Hand on what a second stream brought while it stood by."""
        parts: list[bytes] = []
        marks: list[Mark] = []
        size, previous = 0, self.last_id
        self._skipping = True
        self._intact = False
        for head, payload in heir.take():
            if not self._is_next(head, previous):
                self._skipping = True
                continue
            self._skipping = False
            anew = object_header(head, previous, self.header.has_extensions, self.draft, self.draft)
            parts += (anew, payload)
            marks.append((head, size, size + len(anew)))
            size += len(anew) + len(payload)
            previous = head.object_id
        if marks:
            self.emit(now, b"".join(parts), marks, fin=False)
        if not heir.parser.left:
            self._skipping = True
        if heir.awaited is not None:
            wait_for(now, self, heir.awaited)
        elif heir.finished:
            self.emit(now, b"", [], fin=True)
            end_paused(now, self)
            self._close(finished=True)

    def _is_next(self, head: ObjectHeader, previous: int) -> bool:
        if not self.track.admit(self.group, head, self.draft):
            return False
        if head.object_id > previous:
            return True
        self._state.late_objects += 1
        self.track.dropped_objects += 1
        return False


QUIET: Final = 1.0
"""Seconds without an object after which a stream that should go on elsewhere is cut."""


# Who sends


def begin_anew(now: float, feed: Feed, body: bytes, marks: list[Mark], fin: bool) -> None:
    """Hand on a run whose first object is the first one of new streams to some receivers."""
    renewing = _take_renewing(feed)
    head, first, _ = marks[0]
    if first:
        feed.emit(now, body[:first], [], fin=False)
    again: set[Receiver] = set()
    for out in renewing:
        again.add(out.receiver)
        _cut(feed, out, cut_mark(head, feed.last_id, out.receiver.draft))
    shifted = [(each, start - first, end - first) for each, start, end in marks]
    feed.emit(now, body[first:], shifted, fin, again)


def _take_renewing(feed: Feed) -> list[Out]:
    """The streams that are to be cut; some may be gone meanwhile."""
    feed.session.state.timers.cancel(feed.quiet)
    renewing, feed.renewing = feed.renewing, {}
    return [out for out in renewing if out.feed is feed]


def _cut(feed: Feed, out: Out, mark: bytes) -> None:
    out.stream.write(mark, True)
    feed.leave(out)
    out.finish()
    feed.waiting.append(out.receiver)


def cut_quiet(now: float, feed: Feed) -> None:
    """No object has come since streams should go on elsewhere: cut them all the same."""
    if feed.parser.left:
        feed.session.state.timers.set(feed.quiet, now + QUIET)
        return
    for out in _take_renewing(feed):
        feed.paused[out.receiver] = None
        _cut(feed, out, out.receiver.draft.integers.encode(0))


def end_paused(now: float, feed: Feed) -> None:
    """The subgroup has ended: so does what was cut and has not gone on, with an empty stream."""
    paused, feed.paused = feed.paused, {}
    header, subgroup_id, priority = feed.header, feed.subgroup_id, feed.priority
    opened = (each.open(header, subgroup_id, priority, whole=False) for each in paused)
    for out in filter(None, opened):
        if isinstance(out.stream, LinkedStream):
            out.stream.goes_on()
        out.begin(now, b"", fin=True)
        out.finish()


# Who receives


def wait_for(now: float, feed: Feed, object_id: int) -> None:
    """The stream of a subgroup was cut before this object: go on with the one that begins there."""
    feed.awaited, feed.cut_at = object_id, now
    state = feed.session.state
    state.timers.set(feed.unheard, now + state.limits.continued_time)
    for second in tuple(feed.standby):
        if go_on(now, feed, second):
            return


def go_on(now: float, feed: Feed, second: Standby) -> bool:
    """Go on with a second stream if it is the one that is waited for; whether it is."""
    awaited, first = feed.awaited, second.first_id
    if awaited is None or first is None or first < awaited:
        return False
    if first > awaited:
        # The number was a guess: what is between may be of other subgroups, or of none.
        known = feed.group.seen.union(feed.group.absent)
        if any(known.gaps(awaited, first - 1)):
            return False
    _follow(now, feed, second)
    return True


def _follow(now: float, feed: Feed, second: Standby) -> None:
    feed.awaited = None
    feed.session.state.timers.cancel(feed.unheard)
    feed.standby.remove(second)
    if second.fits(feed):
        feed.take_over(now, second)
    else:
        others, feed.standby = feed.standby, []
        feed.abandon()
        second.promote(now, others)


def is_under_way(now: float, group: Group, since: float, limits: PlaneLimits) -> bool:
    """Whether what is waited for since then may only be slow.

    What still comes of its group and of those before it stands before it in the queues.
    """
    if now >= since + limits.continued_limit:
        return False
    recent = now - limits.continued_time
    return any(
        other.touched > recent
        for other in group.track.groups.values()
        if other.group_id <= group.group_id
    )


def _is_newest(feed: Feed) -> bool:
    """Whether a track that is still to come has nothing behind what it got of a subgroup."""
    track, newest = feed.track, (feed.group.group_id, feed.last_id)
    return (track.largest_group, track.largest_object) == newest and any(
        session is feed.session for session, _ in track.ingress
    )


def give_up_waiting(now: float, feed: Feed) -> None:
    """What was waited for did not come in time: go on with what there is, or end."""
    state = feed.session.state
    if is_under_way(now, feed.group, feed.cut_at, state.limits):
        state.timers.set(feed.unheard, now + state.limits.continued_time)
        return
    begun = [each for each in feed.standby if each.first_id is not None]
    ended = [each for each in feed.standby if each.finished and each.first_id is None]
    if begun:
        _follow(now, feed, min(begun, key=lambda each: each.first_id or 0))
    elif ended:
        _follow(now, feed, ended[0])
    elif _is_newest(feed):
        state.timers.set(feed.unheard, now + state.limits.continued_time)
    else:
        others, feed.standby = feed.standby, []
        feed.abandon(CANCELLED)
        for other in others[:1]:
            other.promote(now, others[1:])


class Standby:
    """A ``Handler`` of a second stream of a subgroup, kept for when the first one fails.

    Objects that came on the first stream are duplicates; those that did not come yet are kept,
    within ``PlaneLimits.standby_bytes``, until they do. The object under way is kept as well, so
    that taking over in the middle of it loses nothing.

    A stream of a client does not wait for that behind one of the relay network::

        Stub --> old parent --> network --> new parent <-- Stub
                                            the first      stands by, and is for the network

    What the network brings does not go back there, where some may still want it: from us, because
    whoever brought it ends. So the client's stream takes the lead, between two objects and when it
    has all that is to come.
    """

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


def watch_first(now: float, samples: Samples, feed: Feed, head: ObjectHeader) -> None:
    """Time the first object of a feed, which was handed on just now.

    Of the clients that get it one is watched, another one for each group: a record for each of
    thousands would say no more. Sessions with other relays behind them are watched all.
    """
    track, group_id = feed.track, feed.header.group_id
    key = track.key
    if key is None:
        key = track.key = samples.key_of(track.name)
    if not samples.wants(key, group_id):
        return
    source, client, came = None, None, now
    if feed.session.peering:
        client = feed.session.number
        arrival = samples.arrival(key, group_id)
        if arrival is not None:
            source, came = arrival
    sample = Sample(
        *(key, group_id, head.object_id, head.payload_length, came),
        source=source,
        client=client,
    )
    begun = [out for out in feed.outs() if not out.objects_base]
    viewers = [out for out in begun if out.receiver.tally is None]
    watched = [out for out in begun if out.receiver.tally is not None]
    if viewers:
        watched.append(viewers[group_id % len(viewers)])
    for out in watched:
        viewer = None if out.receiver.tally is None else out.receiver.session.number
        state = partial(_was_sent, feed, out, head.payload_length)
        samples.watch(now, sample._replace(viewer=viewer), state)


def _was_sent(feed: Feed, out: Out, end: int) -> bool | None:
    """Whether payload up to there has left; None if it never will.

    What stands between payloads is not known here: bytes that wait are at most those that were
    written behind the object, or it waits as well.
    """
    session, stream = out.receiver.session, out.stream
    if stream not in session.outs and stream not in session.finished:
        return None
    if feed.payload < end:
        return None if out.feed is None else False
    return stream.queued <= feed.payload - end
