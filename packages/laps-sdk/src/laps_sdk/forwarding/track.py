"""The log of a track, the streams that write it, and the receivers that read it.

::

    stream of a publisher
          |  chunk                     RunParser: one run of bytes, marks where objects begin
          v
       Writer --admit                  each object once, whichever stream brings it first
          |  run
          v
       Span -----> Segment             kept by reference
          |  emit
          +------> Flow of the same form       offer(run)   offer(run)   offer(run)   ...
          +------> Flow of another form        transcoded once, then the same
          '------> joining receivers           open a stream at the first object they want

    a stream that refuses a run  --> Out behind the tail: pulls chunks of segments, then joins again

The run is the same ``bytes`` for all receivers. Figures are counted once for a tail, not once for
each receiver. A stream remembers the counters of the tail when it joined; the difference is added
when it leaves.

A subgroup may come on several streams: of two publishers, or of a relay that goes on with another
stream because somebody joined or a path changed (laps-2, 7.2)::

    stream 1   | header | object 0 | object 1 | delta of object 2 |  FIN
    stream 2   | header | object 2 | object 3 | ...

All of them write into the spans of one :class:`Subgroup`, in any order. A relay that cuts a stream
does so between two objects. The stream ends with the first field of the next object's header, so
its end is not that of the subgroup. Streams to receivers wait at the end of a span while a writer
may bring what follows, and for a while after a cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Protocol

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
from laps_sdk.forwarding.scan import Run, RunParser, run_from
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
    "Group",
    "Handler",
    "InternalTrack",
    "Need",
    "Out",
    "Owner",
    "Reading",
    "Receiver",
    "Session",
    "Source",
    "State",
    "Subgroup",
    "Track",
    "Writer",
]

_GROUP_GAP: Final = int(PropertyTypeD18.PRIOR_GROUP_ID_GAP)
_OBJECT_GAP: Final = int(PropertyTypeD18.PRIOR_OBJECT_ID_GAP)
_LAST_GROUP: Final = (1 << 64) - 1
_NORMAL: Final = ObjectStatus.NORMAL
_BACKLOG: Final = 64
"""Subgroups that may wait for a stream before those are forgotten that the log has let go."""


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
        "floor",
        "groups",
        "ingress",
        "key",
        "largest_group",
        "largest_object",
        "limits",
        "missing_groups",
        "name",
        "needs",
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
        """Those that want nothing behind some group, or nothing new at all."""
        self.largest_group = -1
        self.largest_object = -1
        self.end: Location | None = None
        """Where the track ends, once an object said so."""
        self.floor: Location | None = None
        """The largest location when the network began to send it: what was before is not missing.

        None if there was no object."""
        self.needs: dict[tuple[int, int], Need] = {}
        """Subgroups that another relay has and this one has not, by group and subgroup."""
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

    def subgroups(self) -> list[Subgroup]:
        """Subgroups that are under way."""
        return [each for group in self.groups.values() for each in group.subgroups.values()]

    def counters(self) -> TrackCounters:
        """The figures, with those of streams under way."""
        objects, payload = self.objects_out, self.bytes_out
        for receiver in self.receivers:
            for tail, out in receiver.at_tails():
                objects += tail.objects - out.objects_base
                payload += tail.payload - out.payload_base
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
        for receiver in self.receivers:
            tally = receiver.tally
            if tally is not None:
                objects, payload = more.get(tally, (0, 0))
                for tail, out in receiver.at_tails():
                    objects += tail.objects - out.objects_base
                    payload += tail.payload - out.payload_base
                more[tally] = objects, payload
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

    def forgets(self, group_id: int) -> bool:
        """Return whether a group may have been here whose record was dropped."""
        if len(self.groups) < self.limits.group_records:
            return False
        return group_id < min(islice(self.groups, 8))

    def _forget(self, newest: Group) -> None:
        """Drop the oldest records that nobody needs."""
        over = len(self.groups) - self.limits.group_records
        if over <= 0:
            return
        # Some may still be needed: a few more are looked at, the next call finds the rest.
        for group in list(islice(self.groups.values(), over + 8)):
            needed = group.subgroups or group.segments or group is newest
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


class Need(NamedTuple):
    """What is missing of a subgroup."""

    object: int
    """The first object that is missing."""
    left: int = 0
    """Payload bytes that it lacks, if a part of it is here."""
    since: float = 0.0
    """When that was noticed, or asked for last."""
    asks: int = 0
    """How often it was asked for, without a byte in return."""
    lost: bool = False
    """Whether the stream that brought it was lost with its path."""


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
        self.late_objects = 0
        self.timed_out = 0

    def counters(self) -> PlaneCounters:
        """What was given up."""
        return PlaneCounters(
            self.unknown_streams,
            self.unknown_datagrams,
            self.overflow_streams,
            self.overflow_datagrams,
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
        "end_marked",
        "final",
        "finals",
        "missing",
        "only_from",
        "refused",
        "seen",
        "subgroups",
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
        self.subgroups: dict[int, Subgroup] = {}
        """Those that are under way."""
        self.broken: dict[int, None] = {}
        """Subgroups that were given up in their middle: nothing is to be waited for."""
        self.touched = 0.0
        """When something of it came last."""
        self.only_from: dict[int, Ranges] = {}
        """Objects that nobody but a session brought which gets those of others, by session."""
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


QUIET: Final = 1.0
"""Seconds without an object after which a stream that should go on elsewhere is cut."""


_LOOK: Final = 5.0
"""Seconds between two looks at what has a delivery timeout."""


class Receiver:
    """One subscription that a track is sent to: a reader of the track's log."""

    __slots__ = (
        "_backlog",
        "_prune_at",
        "_serial",
        "behind",
        "bytes",
        "datagrams",
        "done",
        "draft",
        "dropped_bytes",
        "dropped_datagrams",
        "dropped_streams",
        "end_group",
        "entry",
        "is_finishing",
        "is_opening",
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
        self.behind: dict[Out, None] = {}
        """Those of them that read the log behind its tail."""
        self._backlog: list[tuple[int, int, Reading]] = []
        """Subgroups that have no stream yet because others are behind; the most urgent first."""
        self._prune_at = _BACKLOG
        self._serial = 0
        self.is_opening = False
        """Whether :meth:`open_next` is under way."""
        self.done = False
        self.is_finishing = False
        """Whether only what is under way is still sent."""
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
        if entry.end_group is not None or self.is_finishing:
            self.track.bounded.add(self)
        else:
            self.track.bounded.discard(self)

    def counters(self) -> SubscriptionCounters:
        """The figures, with those of streams under way."""
        objects, payload = self.objects, self.bytes
        for tail, out in self.at_tails():
            objects += tail.objects - out.objects_base
            payload += tail.payload - out.payload_base
        return SubscriptionCounters(
            objects,
            payload,
            self.streams,
            self.datagrams,
            self.dropped_streams,
            self.dropped_bytes,
            self.dropped_datagrams,
        )

    def reads(self) -> set[Subgroup]:
        """The subgroups that it has a stream of, or will have one."""
        found = {out.sub for out in self.outs if out.sub is not None}
        return found | {each[2].sub for each in self._backlog if each[2].sub is not None}

    def at_tails(self) -> Iterator[tuple[Tail, Out]]:
        """Its streams that get what comes as it comes, and from where."""
        for out in self.outs:
            if out.tail is not None:
                yield out.tail, out

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
        out = Out(self, stream, publisher, data, extended=header.has_extensions)
        self.streams += 1
        self.outs[out] = None
        self.session.outs[stream] = out
        return out

    @property
    def is_far_behind(self) -> bool:
        """Whether new subgroups must wait: others have no stream yet, or many are behind."""
        return bool(self._backlog) or self._has_many_behind

    @property
    def _has_many_behind(self) -> bool:
        return len(self.behind) >= self.session.state.limits.lagging_streams

    def postpone(self, *readings: Reading) -> None:
        """Remember subgroups to open streams for; :meth:`open_next` does it."""
        for reading in readings:
            header = reading.header
            rank = self.priority_of(reading.publisher, header.group_id, reading.subgroup_id)
            self._serial += 1
            insort(self._backlog, (rank, self._serial, reading))
        if len(self._backlog) > self._prune_at:
            self._prune()

    def _prune(self) -> None:
        """Forget subgroups that the log has let go while they waited."""
        backlog, self._backlog = self._backlog, []
        for entry in backlog:
            reading = entry[2]
            first, missing = reading.first_held()
            if first is None and missing:
                self._lose(reading, missing)
            else:
                self._backlog.append(entry)
        self._prune_at = _BACKLOG + 2 * len(self._backlog)

    def _lose(self, reading: Reading, missing: int) -> None:
        """The log has nothing of a subgroup; the receiver may get what comes of it."""
        self.missed(missing)
        if reading.sub is not None and not reading.resumed:
            reading.sub.admit_receiver(self)

    def open_next(self, now: float) -> None:
        """Open streams for subgroups that wait, the most urgent first."""
        if self.is_opening:
            return  # a stream that has read all of its subgroup at once: the next one follows it
        self.is_opening = True
        try:
            while self._backlog and not self._has_many_behind:
                _, _, reading = self._backlog.pop(0)
                if reading.resumed or self.wants_group(reading.header.group_id):
                    self._read(now, reading)
        finally:
            self.is_opening = False

    def _read(self, now: float, reading: Reading) -> None:
        """Open a stream that reads a subgroup from the log."""
        first, missing = reading.first_held()
        if first is None and (missing or not reading.resumed):
            self._lose(reading, missing)
            return
        self.missed(missing)
        header = reading.header
        whole = reading.whole and not missing
        out = self.open(header, reading.subgroup_id, reading.publisher, whole=whole)
        if out is None:
            return
        if reading.resumed:
            out.is_resumed = True
            if not whole and isinstance(out.stream, LinkedStream):
                out.stream.goes_on()
        if first is not None:
            out.read(now, reading, first)
        else:
            out.begin(now, b"", fin=True)
            out.finish()

    def missed(self, objects: int) -> None:
        """Count objects that it does not get."""
        if objects:
            self.track.dropped_objects += objects
            self.session.service.gaps += objects

    def reprogrammed(self, now: float) -> None:
        """The entry has changed: what waits is ranked anew, what is not wanted goes."""
        backlog, self._backlog = self._backlog, []
        self.postpone(*(reading for _, _, reading in backlog))
        self.open_next(now)

    def close(self, reset_code: int | None) -> None:
        """Leave the track; streams are reset, or left to end by themselves."""
        self.track.receivers.pop(self, None)
        self.track.bounded.discard(self)
        self._backlog.clear()
        for sub in self.track.subgroups():
            sub.forget(self)
        for group in self.track.groups.values():
            group.forget(self)
        if reset_code is not None:
            for out in tuple(self.outs):
                out.reset(reset_code)

    def finish(self) -> bool:
        """Want nothing that is not under way; return whether nothing is."""
        self.is_finishing = True
        self.track.bounded.add(self)
        for sub in self.track.subgroups():
            sub.forget(self)
        self.done = not self.outs and not self._backlog
        return self.done

    def check_done(self) -> None:
        """Tell when everything that it wants was sent."""
        end, track = self.entry.end_group, self.track
        if self.done or self.outs or self._backlog:
            return
        if self.is_finishing:
            self.done = True
            self.session.state.notices.append(SubscriptionDone(self.subscription))
            return
        if end is None or track.largest_group < end:
            return
        if track.largest_group == end and track.end is None:
            group = track.groups.get(end)
            if group is None or not group.complete:
                return
        if not any(sub.group.group_id <= end for sub in track.subgroups()):
            self.done = True
            self.session.state.notices.append(SubscriptionDone(self.subscription))


class Reading(NamedTuple):
    """What a stream reads of the log: segments of one subgroup, in order."""

    header: SubgroupHeader
    subgroup_id: int
    publisher: int
    """The publisher's priority of the subgroup."""
    segments: tuple[Segment, ...]
    """The first ones; with ``sub``, others follow the last of them."""
    sub: Subgroup | None
    """The subgroup under way that they belong to; None if it is over."""
    first_id: int
    """The first object that is wanted."""
    whole: bool = False
    """Whether the first object of the first segment is the first one of the subgroup's stream."""
    past: bool = False
    """Whether the receiver asked for the past, so that the cache counts a hit."""
    resumed: bool = False
    """Whether another relay asked for it, which has what was before (laps-2, 6.6)."""

    def walk(self) -> Iterator[Segment]:
        """All segments, those too that the log has let go."""
        segment: Segment | None = None
        for segment in self.segments:
            yield segment
        while self.sub is not None and segment is not None and segment.next is not None:
            segment = segment.next
            yield segment

    def first_held(self) -> tuple[Segment | None, int]:
        """The first segment with bytes of wanted objects, and how many objects are lost before."""
        missing = 0
        for segment in self.walk():
            if segment.ids.last < self.first_id:
                continue
            if not segment.released:
                return segment, missing
            missing += segment.ids.count(self.first_id)
        return None, missing


class Out:
    """One subgroup to one receiver: at the tail of the log, or behind it.

    ::

        waiting       its stream refused the first bytes: it begins behind when there is room
        at the tail   in a Flow of a tail: its stream is offered each run as it comes
        behind        has a cursor (segment, chunk): its stream pulls when there is room

    A stream that refuses a run falls behind. It is at the tail again when it has read all that
    the log keeps of the subgroup. A stream that is so far behind that the log has let its place
    go is reset; another one goes on with the first object that is there.
    """

    __slots__ = (
        "_ahead",
        "_armed",
        "_at",
        "_last_id",
        "_left",
        "_orphaned",
        "_parser",
        "_past",
        "_read",
        "_segment",
        "_sub",
        "_waiting",
        "_waits_for",
        "began",
        "extended",
        "is_resumed",
        "objects_base",
        "payload_base",
        "publisher",
        "receiver",
        "start",
        "stream",
        "tail",
        "written",
    )

    def __init__(
        self,
        receiver: Receiver,
        stream: OutStream,
        publisher: int,
        start: bytes,
        *,
        extended: bool,
    ) -> None:
        self.receiver = receiver
        self.stream = stream
        self.publisher = publisher
        """The publisher's priority of the subgroup."""
        self.start = start
        """The SUBGROUP_HEADER."""
        self.extended = extended
        """Whether its objects have extension blocks."""
        self.began = 0.0
        """When its first bytes were written."""
        self.is_resumed = False
        """Whether it repairs another stream, and ends where the log ends (laps-2, 6.6)."""
        self.tail: Tail | None = None
        """Where it gets its bytes from; None if it is behind, or all that will come was written."""
        self.objects_base = 0
        self.payload_base = 0
        self.written = 0
        self._sub: Subgroup | None = None  # what it reads, if it is behind and that is under way
        self._segment: Segment | None = None  # where it reads, if it is behind
        self._at = 0  # the chunk that it reads next
        self._ahead: deque[Segment] = deque()  # segments that it reads before those that follow
        self._read = 0  # objects of the segment that it began to read
        self._left = 0  # payload bytes that the last object lacks
        self._last_id = -1  # the last object that it wrote before the next chunk
        self._orphaned = False  # whether the segment begins inside an object that it has not
        self._parser: RunParser | None = None
        self._past = False
        self._waits_for: Reading | None = None  # what it begins with when there is room
        self._waiting: deque[tuple[int, float]] = deque()
        """Up to which byte the stream must have been sent, and until when."""
        self._armed = False

    @property
    def sub(self) -> Subgroup | None:
        """The subgroup under way that it belongs to."""
        return self._sub if self.tail is None else self.tail.sub

    # Bytes

    def begin(self, now: float, data: bytes, fin: bool) -> None:
        """Write the header and the first bytes behind it."""
        start = self.start
        if len(data) < 512:
            self.stream.write(start + data, fin)
        else:
            self.stream.write(start)
            self.stream.write(data, fin)
        self._began(now, len(start) + len(data))

    def offer_beginning(self, now: float, data: bytes, fin: bool) -> bool:
        """Begin like :meth:`begin`; False if the stream refuses the bytes."""
        start = self.start
        if len(data) < 512:
            if not self.stream.offer(start + data, fin):
                return False
        elif self.stream.offer(start):
            self.stream.write(data, fin)
        else:
            return False
        self._began(now, len(start) + len(data))
        return True

    def _began(self, now: float, size: int) -> None:
        self.began = now
        self.receiver.session.service.began(now)
        if self.receiver.timeout is not None:
            self.wrote(now, size)

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

    # Behind the tail

    def wait(self, reading: Reading) -> None:
        """Begin to read when the stream has room: it refused the first bytes."""
        self._waits_for, self._sub = reading, reading.sub
        self.receiver.behind[self] = None
        self.stream.pull_from(self._begin_late)

    def _begin_late(self, now: float) -> None:
        reading, self._waits_for = self._waits_for, None
        if reading is None or self.stream.closed:
            return
        first, missing = reading.first_held()
        if first is not None and not missing:
            self.read(now, reading, first)
            return
        # The header names a first object that the log has let go.
        receiver = self.receiver
        self.reset(drop_code(receiver.draft))
        receiver.dropped_streams += 1
        receiver.postpone(reading)
        receiver.open_next(now)
        receiver.check_done()

    def fall_behind(self, place: Place) -> None:
        """Leave the tail, and read on from a place in the log."""
        segment, at, last_id, left = place
        tail = self.tail
        if tail is not None:
            tail.leave(self)
            self._sub, self.tail = tail.sub, None
        self._segment, self._at = segment, at
        self._read = segment.count if segment.released else sum(segment.counts[:at])
        self._last_id, self._left = last_id, left
        self._parser = None
        self.receiver.behind[self] = None

    def read(self, now: float, reading: Reading, first: Segment) -> None:
        """Begin with the first wanted object, which is in the segment ``first``."""
        self._sub, self._past = reading.sub, reading.past
        segments = iter(reading.segments)
        if first in reading.segments:
            while next(segments) is not first:
                pass
            self._ahead.extend(segments)
        self._segment = first
        self.receiver.behind[self] = None
        try:
            begun = self._begin_in(now, first, reading.first_id)
        except EncodeError:
            self.reset(INTERNAL_ERROR)
            self.receiver.dropped_streams += 1
            return
        if begun:
            self.pull(now)
        else:
            self._segment = None
            self._ahead.clear()
            self.wait(reading)

    def _begin_in(self, now: float, segment: Segment, first_id: int) -> bool:
        """Write the first wanted object of a segment, and what follows it in its chunk.

        Returns False if the stream refuses them.
        """
        parser = RunParser.behind(segment.header, segment.draft, segment.base, segment.left)
        previous = segment.base
        for index, chunk in enumerate(segment.chunks):
            marks: list[Mark] = []
            parser.scan(chunk, marks)
            number = next((n for n, mark in enumerate(marks) if mark[0].object_id >= first_id), -1)
            if number >= 0:
                run = Run(chunk, marks, previous, segment.header.has_extensions, segment.draft)
                data = run_from(run, number, self.receiver.draft, self.extended)
                if data is None:
                    raise EncodeError("the receiver's draft cannot say it")
                heads = sum(end - begin for _, begin, end in marks[number:])
                payload = len(chunk) - marks[number][1] - heads
                if not self.offer_beginning(now, data, fin=False):
                    return False
                self._at, self._left = index + 1, segment.lefts[index]
                self._read = sum(segment.counts[: index + 1])
                self._last_id, self._parser = marks[-1][0].object_id, parser
                self._count(now, segment, len(marks) - number, payload)
                return True
            if marks:
                previous = marks[-1][0].object_id
        raise EncodeError(f"object {first_id} is not in its segment")

    def pull(self, now: float) -> None:
        """Write what follows while the stream takes it; join the tail behind the last chunk."""
        stream, timeout = self.stream, self.receiver.timeout
        while (segment := self._segment) is not None and not stream.closed:
            at = self._at
            if segment.released and (self._left or self._read < segment.count):
                self._start_over(now, drop_code(self.receiver.draft))
                return
            if at >= len(segment.chunks):
                if not self._step():
                    self._reach_tail(now)
                    return
                continue
            if timeout is not None and segment.came(at) + timeout < now:
                self.receiver.session.state.timed_out += 1
                self._start_over(now, DELIVERY_TIMEOUT)
                return
            try:
                data, last_id = self._chunk(segment, at)
            except EncodeError:
                self._start_over(now, INTERNAL_ERROR)
                return
            if not stream.offer(data):
                self._parser = None
                stream.pull_from(self.pull)
                return
            self._at, self._left, self._last_id = at + 1, segment.lefts[at], last_id
            self._read += segment.counts[at]
            self._count(now, segment, segment.counts[at], segment.payloads[at])
            if timeout is not None:
                self.wrote(now, len(data))

    def _chunk(self, segment: Segment, at: int) -> tuple[bytes, int]:
        """A chunk as the stream carries it, and the last object behind it."""
        chunk = segment.chunks[at]
        is_last = at + 1 == len(segment.chunks)
        receiver = self.receiver
        if (
            segment.draft is receiver.draft
            and segment.header.has_extensions == self.extended
            and (at or segment.base == self._last_id)
            and not self._orphaned
        ):
            return chunk, segment.last_id if is_last else self._last_id
        parser = self._parser
        if parser is None:
            parser = RunParser.behind(segment.header, segment.draft, segment.base, segment.left)
            for before in segment.chunks[:at]:
                parser.scan(before, [])
            self._parser = parser
        marks: list[Mark] = []
        parser.scan(chunk, marks)
        if self._orphaned:
            first = marks[0][1] if marks else len(chunk)
            chunk = chunk[first:]
            marks = [(head, start - first, end - first) for head, start, end in marks]
            self._orphaned = not marks
        data = transcode(chunk, marks, self._last_id, self.extended, segment.draft, receiver.draft)
        return data, marks[-1][0].object_id if marks else self._last_id

    def _step(self) -> bool:
        """Go on to the next segment; return whether there is one."""
        last = self._segment
        following = self._ahead.popleft() if self._ahead else None
        if following is None and last is not None and self._sub is not None:
            following = last.next
        if following is None:
            return False
        self._orphaned = following.left > 0 and (
            (following.base, following.left) != (self._last_id, self._left)
        )
        self._segment = following
        self._at = self._read = 0
        self._parser = None
        return True

    def _reach_tail(self, now: float) -> None:
        """All that is kept was read: join the tail, or end."""
        sub, receiver, last = self._sub, self.receiver, self._segment
        self._segment, self._sub, self._parser = None, None, None
        receiver.behind.pop(self, None)
        tail = None if sub is None else sub.tail_at(receiver, self._last_id, self._left)
        if sub is not None and (sub.over or (tail is not None and tail.is_closed)):
            if sub.code is None:
                self.stream.write(b"", True)
                self.finish()
            else:
                self.reset(mirrored_code(sub.code, sub.draft, receiver.draft))
        elif tail is not None:
            self.objects_base, self.payload_base = tail.objects, tail.payload
            tail.join(self)
            if self.is_resumed:
                tail.renew(self, now)
        elif sub is None and last is not None and last.finished:
            self.stream.write(b"", True)
            self.finish()
        else:
            # A FIN would say that this is all of the subgroup, and a reset now would drop what was
            # just written.
            state = receiver.session.state
            state.timers.set(self._linger, now + state.limits.linger)
            if sub is not None and not self.is_resumed:
                sub.admit_receiver(receiver)
        receiver.open_next(now)
        receiver.check_done()

    def _linger(self, now: float) -> None:
        if self in self.receiver.outs and self.tail is None:
            self.reset(CANCELLED)
            self.receiver.open_next(now)
            self.receiver.check_done()

    def _start_over(self, now: float, code: int) -> None:
        """Reset the stream: what follows is gone, or too old. Go on with what can be read."""
        receiver, segment, sub = self.receiver, self._segment, self._sub
        ahead, read, left, at = tuple(self._ahead), self._read, self._left, self._at
        past, last_id = self._past, self._last_id
        missing = int(left > 0)
        lost = self.stream.queued
        self.reset(code)
        receiver.dropped_streams += 1
        receiver.dropped_bytes += lost
        receiver.track.dropped_bytes += lost
        if segment is None:
            return
        rest: tuple[Segment, ...] = ()
        first_id = 0
        if segment.released:
            missing += segment.count - read
            first_id = segment.last_id + 1
        else:
            timeout = receiver.timeout
            while at < len(segment.chunks) and (
                not segment.counts[at]
                or code != DELIVERY_TIMEOUT
                or (timeout is not None and segment.came(at) + timeout < now)
            ):
                missing += segment.counts[at]
                read += segment.counts[at]
                at += 1
                if code != DELIVERY_TIMEOUT and segment.counts[at - 1]:
                    break
            first_id = segment.ids.nth(read) if read < segment.count else segment.last_id + 1
            rest = (segment,) if read < segment.count else ()
        receiver.missed(missing)
        following = segment.next if sub is not None and not ahead and not rest else None
        segments = rest + ahead + ((following,) if following is not None else ())
        header = replace(segment.header, has_extensions=True)
        sub_id = segment.subgroup_id
        if sub_id is not None and segments:
            reading = Reading(
                *(header, sub_id, self.publisher, segments, sub, max(first_id, last_id)),
                past=past,
                resumed=self.is_resumed,
            )
            receiver.postpone(reading)
        elif sub is not None and not self.is_resumed:
            sub.admit_receiver(receiver)
        receiver.open_next(now)
        receiver.check_done()

    def _count(self, now: float, segment: Segment, objects: int, payload: int) -> None:
        receiver = self.receiver
        receiver.objects += objects
        receiver.bytes += payload
        receiver.track.objects_out += objects
        receiver.track.bytes_out += payload
        if receiver.tally is not None:
            receiver.tally.sent(objects, payload)
        if self._past:
            receiver.session.state.cache.figures.hit(now - segment.born, payload)

    # Ends

    def settle(self) -> None:
        """Count what it got at the tail so far."""
        tail = self.tail
        if tail is not None:
            receiver = self.receiver
            objects, payload = tail.objects - self.objects_base, tail.payload - self.payload_base
            receiver.objects += objects
            receiver.bytes += payload
            receiver.track.objects_out += objects
            receiver.track.bytes_out += payload
            if receiver.tally is not None:
                receiver.tally.sent(objects, payload)
            self.objects_base, self.payload_base = tail.objects, tail.payload

    def finish(self) -> None:
        """Its end was written."""
        self.settle()
        self.tail = None
        self.receiver.outs.pop(self, None)
        self.receiver.session.finish_out(self.stream)

    def reset(self, code: int = CANCELLED) -> None:
        """Abandon it."""
        self._disarm()
        self.stream.reset(code)
        self._leave()
        self.receiver.session.outs.pop(self.stream, None)

    def gone(self, now: float, stream: OutStream, lost: int) -> None:  # noqa: ARG002 - Owner
        """The receiver stopped it, or was too slow: the rest of the subgroup is not sent."""
        receiver, tail, sub = self.receiver, self.tail, self.sub
        self._disarm()
        receiver.dropped_streams += 1
        receiver.dropped_bytes += lost
        receiver.track.dropped_bytes += lost
        if lost:
            receiver.missed(1)
        self._leave()
        if self.is_resumed:
            pass  # the relay that asked for it asks again if it needs it
        elif tail is not None:
            tail.lost(self)
        elif sub is not None:
            sub.refuse(receiver)
        receiver.open_next(now)
        receiver.check_done()

    def _leave(self) -> None:
        if self.tail is not None:
            self.tail.leave(self)
            self.tail = None
        self._segment = self._sub = self._parser = None
        self.receiver.behind.pop(self, None)
        self.receiver.outs.pop(self, None)


class Flow:
    """The streams of one form that take every byte from now on."""

    __slots__ = ("offers", "outs", "timed")

    def __init__(self) -> None:
        self.outs: list[Out] = []
        self.offers: list[Callable[[bytes, bool], bool]] = []
        """What is called for each run: nothing else is done for most receivers."""
        self.timed: list[Out] = []
        """Those that have a delivery timeout."""

    def add(self, out: Out) -> None:
        """One more."""
        self.outs.append(out)
        self.offers.append(out.stream.offer)
        if out.receiver.timeout is not None:
            self.timed.append(out)

    def remove(self, out: Out) -> None:
        """One less."""
        index = self.outs.index(out)
        del self.outs[index], self.offers[index]
        if out in self.timed:
            self.timed.remove(out)


class Place(NamedTuple):
    """Where the log keeps a run: the chunk of a segment, and the object before it."""

    segment: Segment
    at: int
    last_id: int
    left: int


class Tail(ABC):
    """An end of contiguous objects of a subgroup, and the streams that have all before it.

    ::

        objects 0 1 2 3 | <- last_id 3, left: payload bytes of object 3 that are missing
                            covered: up to here nothing else exists, though nothing came

    The log has a :class:`Span` for each stretch of objects. An :class:`Export` is what goes to a
    session that must not get its own objects back.
    """

    __slots__ = (
        "_lost",
        "_paused",
        "_renewing",
        "covered",
        "flows",
        "is_closed",
        "last_id",
        "left",
        "objects",
        "payload",
        "sub",
    )

    def __init__(self, sub: Subgroup, last_id: int = -1, left: int = 0) -> None:
        self.sub = sub
        self.last_id = last_id
        """The last object that began; -1 before the first."""
        self.left = left
        """Payload bytes that it lacks."""
        self.covered = last_id
        """The last id of which all that exists came, if the last object is whole."""
        self.objects = 0
        self.payload = 0
        """What passed: objects, and bytes of payload."""
        self.flows: dict[tuple[Draft, bool], Flow] = {}
        self.is_closed = False
        """Whether its streams were finished: it has the end of the subgroup."""
        self._lost: list[Out] = []
        self._renewing: dict[Out, None] = {}
        """Streams that end with this object, and whose receivers get another one for the rest."""
        self._paused: dict[Receiver, None] = {}
        """Receivers whose stream was cut before an object that has not come yet."""

    @abstractmethod
    def joining(self, writer: Writer) -> list[Receiver]:
        """Take the receivers that have no stream yet and get one with what a writer brings."""

    @abstractmethod
    def put_back(self, receivers: list[Receiver]) -> None:
        """Remember receivers that still have none."""

    def is_at(self, final: int) -> bool:
        """Whether it has all of a subgroup that ends with this object."""
        return self.last_id >= final and not self.left

    # Bytes

    def put(
        self, now: float, writer: Writer, head: ObjectHeader, offset: int, piece: bytes
    ) -> None:
        """Take a piece of an object from a writer that is not in step; what is here is skipped."""
        object_id, size = head.object_id, len(piece)
        if object_id > self.last_id:
            if offset or self.left:
                return  # its beginning was not taken, or another object is not whole
            start = object_header(head, self.last_id, writer.extended, writer.draft, writer.draft)
            self.take(now, writer, start + piece, [(head, 0, len(start))], False)
        elif object_id == self.last_id and self.left:
            have = head.payload_length - self.left
            if offset <= have < offset + size:
                self.take(now, writer, piece[have - offset :], [], False)

    def take(self, now: float, writer: Writer, body: bytes, marks: list[Mark], fin: bool) -> None:
        """Hand a run on that follows what is here."""
        self.emit(now, writer, body, marks, fin, None)

    def emit(
        self,
        now: float,
        writer: Writer,
        body: bytes,
        marks: list[Mark],
        fin: bool,
        place: Place | None,
    ) -> None:
        """Offer a run to those who are in; let those in who come in."""
        if marks and self._renewing:
            self._begin_anew(now, writer, body, marks, fin, place)
            return
        form = writer.form
        refused: list[Out] = []
        for key, flow in self.flows.items():
            run = body if key == form else self._translated(now, flow, writer, body, marks, key)
            for index, offer in enumerate(flow.offers):
                if not offer(run, fin):
                    refused.append(flow.outs[index])
            for out in flow.timed:
                out.wrote(now, len(run))
        for out in refused:
            self._refused(now, out, place)
        size = len(body)
        for mark in marks:
            size -= mark[2] - mark[1]
        if marks:
            waiting = self.joining(writer)
            if waiting:
                self.put_back(self._let_in(now, writer, waiting, body, marks, fin))
            last = marks[-1][0]
            self.last_id = self.covered = last.object_id
            self.left = last.payload_length - (len(body) - marks[-1][2])
        else:
            self.left -= size
        self.objects += len(marks)
        self.payload += size

    def _refused(self, now: float, out: Out, place: Place | None) -> None:
        """A stream did not take a run: it reads it from the log when there is room."""
        if place is not None:
            out.fall_behind(place)
            out.stream.pull_from(out.pull)
        else:
            lost = out.stream.queued
            out.stream.reset(drop_code(out.receiver.draft))
            out.receiver.session.gone(now, out.stream, lost)

    def _translated(
        self,
        now: float,
        flow: Flow,
        writer: Writer,
        body: bytes,
        marks: list[Mark],
        form: tuple[Draft, bool],
    ) -> bytes:
        """A run in another form; receivers lose the subgroup if it cannot be said in that."""
        try:
            return transcode(body, marks, self.last_id, form[1], writer.draft, form[0])
        except EncodeError:
            for out in tuple(flow.outs):
                out.stream.reset(INTERNAL_ERROR)
                out.receiver.session.gone(now, out.stream, 0)
            return b""

    def _let_in(
        self,
        now: float,
        writer: Writer,
        waiting: list[Receiver],
        body: bytes,
        marks: list[Mark],
        fin: bool,
    ) -> list[Receiver]:
        """Open streams to receivers that want an object which begins in this run.

        Returns those that want none of them.
        """
        sub = self.sub
        header, group_id = writer.header, sub.group.group_id
        still: list[Receiver] = []
        runs: dict[tuple[Draft, int], bytes | None] = {}
        run = Run(body, marks, self.last_id, writer.extended, writer.draft)
        for receiver in waiting:
            index = receiver.first_of(group_id, marks)
            if index < 0:
                still.append(receiver)
                continue
            if receiver.is_far_behind and sub.postpone(self, receiver, marks[index][0]):
                continue
            key = (receiver.draft, index)
            if key not in runs:
                runs[key] = run_from(run, index, receiver.draft, writer.extended)
            first = runs[key]
            if first is None:
                receiver.dropped_streams += 1
                continue
            whole = not index and self.last_id < 0 and writer.is_intact
            out = receiver.open(header, sub.subgroup_id, sub.priority, whole=whole)
            if out is None:
                continue
            if not whole and isinstance(out.stream, LinkedStream):
                out.stream.goes_on()
            self._paused.pop(receiver, None)
            out.objects_base = self.objects + index
            heads = sum(mark[2] - mark[1] for mark in marks[:index])
            out.payload_base = self.payload + marks[index][1] - heads
            segment = self.segment if isinstance(self, Span) else None
            if segment is None:
                out.begin(now, first, fin)
            elif not out.offer_beginning(now, first, fin):
                out.wait(sub.reading(segment, marks[index][0].object_id))
                continue
            self.join(out)
        return still

    # Streams that come and go

    def outs(self) -> list[Out]:
        """All streams that it goes to."""
        return [out for flow in self.flows.values() for out in flow.outs]

    def join(self, out: Out) -> None:
        """Give a stream every byte from the next run on; it must have all before that."""
        out.tail = self
        form = (out.receiver.draft, out.extended)
        flow = self.flows.get(form)
        if flow is None:
            flow = self.flows[form] = Flow()
        flow.add(out)

    def leave(self, out: Out) -> None:
        """Give a stream nothing more."""
        out.settle()
        self.flows[out.receiver.draft, out.extended].remove(out)

    def time(self, out: Out) -> None:
        """The delivery timeout of a stream's receiver may have changed."""
        timed = self.flows[out.receiver.draft, out.extended].timed
        if out in timed:
            timed.remove(out)
        if out.receiver.timeout is not None:
            timed.append(out)

    def lost(self, out: Out) -> None:
        """Remember who does not get the rest of the subgroup, to count it."""
        self._lost.append(out)
        self.sub.refuse(out.receiver)

    def forget(self, receiver: Receiver) -> None:
        """A receiver that has no stream is gone."""
        self._paused.pop(receiver, None)

    # Streams to other relays that go on with others

    def renew(self, out: Out, now: float | None = None) -> None:
        """Let a stream end before the next object; its receiver gets another one for the rest.

        A resumed stream ends at once if no object is under way: its receiver has other streams.
        """
        if out.is_resumed and not self.left and now is not None:
            self._cut(out, out.receiver.draft.integers.encode(0))
            return
        self._renewing[out] = None
        self.sub.state.timers.set(self.quiet, self.sub.group.touched + QUIET)

    def quiet(self, now: float) -> None:
        """No object has come since streams should go on elsewhere: cut them all the same."""
        if self.left:
            self.sub.state.timers.set(self.quiet, now + QUIET)
            return
        receivers: list[Receiver] = []
        for out in self._take_renewing():
            self._cut(out, out.receiver.draft.integers.encode(0))
            if not out.is_resumed:
                self._paused[out.receiver] = None
                receivers.append(out.receiver)
        self.put_back(receivers)

    def _begin_anew(
        self,
        now: float,
        writer: Writer,
        body: bytes,
        marks: list[Mark],
        fin: bool,
        place: Place | None,
    ) -> None:
        """Hand on a run whose first object is the first one of new streams to some receivers."""
        renewing = self._take_renewing()
        head, first, _ = marks[0]
        if first:
            self.emit(now, writer, body[:first], [], False, None)
        receivers: list[Receiver] = []
        for out in renewing:
            self._cut(out, cut_mark(head, self.last_id, out.receiver.draft))
            if not out.is_resumed:
                receivers.append(out.receiver)
        self.put_back(receivers)
        shifted = [(each, start - first, end - first) for each, start, end in marks]
        self.emit(now, writer, body[first:], shifted, fin, place)

    def _take_renewing(self) -> list[Out]:
        """The streams that are to be cut; some may be gone meanwhile."""
        self.sub.state.timers.cancel(self.quiet)
        renewing, self._renewing = self._renewing, {}
        return [out for out in renewing if out.tail is self]

    def _cut(self, out: Out, mark: bytes) -> None:
        out.stream.write(mark, True)
        self.leave(out)
        out.finish()

    def _end_paused(self, now: float) -> None:
        """The subgroup has ended: so does what was cut and has not gone on, by an empty stream."""
        paused, self._paused = self._paused, {}
        sub = self.sub
        opened = (
            each.open(sub.header, sub.subgroup_id, sub.priority, whole=False) for each in paused
        )
        for out in filter(None, opened):
            if isinstance(out.stream, LinkedStream):
                out.stream.goes_on()
            out.begin(now, b"", fin=True)
            out.finish()

    # Ends

    def close(self, now: float, code: int | None) -> None:
        """End the streams: finish them (None), or reset them with a code."""
        self.is_closed = code is None
        if self._renewing:
            self._renewing.clear()
            self.sub.state.timers.cancel(self.quiet)
        if code is None:
            self._end_paused(now)
        for (draft, _), flow in self.flows.items():
            outs, flow.outs = flow.outs, []
            flow.offers, flow.timed = [], []
            for out in outs:
                if code is None:
                    if not out.stream.closed:
                        out.stream.write(b"", True)
                    out.finish()
                else:
                    out.settle()
                    out.tail = None
                    out.reset(mirrored_code(code, self.sub.draft, draft))
        track = self.sub.track
        for out in self._lost:
            missed = self.payload - out.payload_base
            out.receiver.dropped_bytes += missed
            track.dropped_bytes += missed
            out.receiver.missed(self.objects - out.objects_base)
        self._lost.clear()


class Span(Tail):
    """A stretch of a subgroup without holes, as the log keeps it."""

    __slots__ = ("awaits", "first", "head", "segment")

    def __init__(self, sub: Subgroup, first: int) -> None:
        super().__init__(sub)
        self.awaits = False
        """Whether its stream was cut, and another one goes on with it (laps-2, 7.2)."""
        self.first = first
        """The lowest id of which it is known what exists."""
        self.head: Segment | None = None
        """Its oldest segment, which the log may have let go; others follow."""
        self.segment: Segment | None = None
        """The newest one."""

    @property
    def missing(self) -> int:
        """The first object that is not here, or not all of it."""
        return self.last_id if self.left else self.covered + 1

    def joining(self, writer: Writer) -> list[Receiver]:
        """Take the receivers that have no stream yet, if they begin with this span."""
        sub = self.sub
        if not sub.joining or not sub.lets_into(self, writer):
            return []
        waiting, sub.joining = sub.joining, []
        return waiting

    def put_back(self, receivers: list[Receiver]) -> None:
        """Receivers that still have none."""
        self.sub.joining = receivers + self.sub.joining

    def take(self, now: float, writer: Writer, body: bytes, marks: list[Mark], fin: bool) -> None:
        """Keep a run that follows what is here, count it and hand it on."""
        if self.awaits:
            self.awaits = False
            self.sub.go_on()
        place = self._keep(now, writer, body, marks) if body else None
        size = len(body)
        for mark in marks:
            size -= mark[2] - mark[1]
        track = writer.track
        first = not self.objects
        track.objects_in += len(marks)
        track.bytes_in += size
        if writer.tally is not None:
            writer.tally.came(len(marks), size)
        self.emit(now, writer, body, marks, fin, place)
        if first and marks:
            if track.bounded:
                track.check_done()  # a group that some do not want may have begun
            samples = writer.session.state.samples
            if samples is not None:
                watch_first(now, samples, self, writer, marks[0][0])

    def _keep(self, now: float, writer: Writer, body: bytes, marks: list[Mark]) -> Place | None:
        """Put a run into the log, by reference; return where it is.

        The rest of an object whose beginning was let go is not kept.
        """
        cache, segment = writer.session.state.cache, self.segment
        last_id, left = self.last_id, self.left
        at = 0 if segment is None else len(segment.chunks)
        if left and (segment is None or segment.released):
            if not marks:
                return None
            first = marks[0][1]
            shifted = [(head, start - first, end - first) for head, start, end in marks]
            segment = self._begin_segment(now, writer, 0)
            segment.append(now, body[first:], shifted)
            cache.grew(segment, len(marks))
            return None
        if (
            segment is None
            or segment.released
            or segment.origin != writer.session.number
            or segment.draft is not writer.draft
            or segment.header.has_extensions != writer.extended
        ):
            segment = self._begin_segment(now, writer, left)
            place = Place(segment, 0, last_id, left)
        elif marks and cache.is_closed(now, segment):
            first = marks[0][1]
            place = Place(segment, at, last_id, left)
            if first:
                segment.append(now, body[:first], [])
                cache.grew(segment, 0)
                body = body[first:]
                marks = [(head, start - first, end - first) for head, start, end in marks]
            fresh = self._begin_segment(now, writer, 0)
            if not first:
                place = Place(fresh, 0, last_id, left)
            segment = fresh
        else:
            place = Place(segment, at, last_id, left)
        if len(self.sub.spans) > 1 and self is not self.sub.spans[-1] and not self.sub.is_awaited:
            self.sub.state.late_objects += len(marks)
        segment.append(now, body, marks)
        cache.grew(segment, len(marks))
        return place

    def _begin_segment(self, now: float, writer: Writer, left: int) -> Segment:
        sub, last = self.sub, self.segment
        header = writer.header
        if header.first_object and (self.last_id >= 0 or not writer.is_intact):
            header = replace(header, first_object=False)
        segment = Segment(
            sub.group,
            header,
            sub.subgroup_id,
            writer.draft,
            base=self.last_id,
            left=left,
            default_priority=sub.priority,
            born=now,
            origin=writer.session.number,
        )
        if last is None:
            self.head = segment
        else:
            last.next = segment
        self.segment = segment
        writer.session.state.cache.add(segment)
        return segment

    def drop_partial(self, code: int) -> None:
        """Forget the object that is not whole: the rest of it will not come from anybody.

        Streams that have a part of it are reset; their receivers begin with it if it comes again.
        """
        if not self.left:
            return
        sub, cache = self.sub, self.sub.state.cache
        sub.group.seen.discard(self.last_id)
        outs = self.outs()
        for out in outs:
            out.reset(mirrored_code(code, sub.draft, out.receiver.draft))
        segment, last = self.head, -1
        while segment is not None:
            if not segment.released and segment.count and segment.last_id == self.last_id:
                segment.cut()
                cache.grew(segment, -1)
            if not segment.released and not segment.count:
                cache.remove(segment)
            last = max(last, segment.last_id)
            segment = segment.next
        self.left = 0
        self.last_id = self.covered = last
        for out in outs:
            sub.admit_receiver(out.receiver)


class Export(Tail):
    """What goes to one session that also brings the subgroup: only what others bring."""

    __slots__ = ("_joining", "session")

    def __init__(self, sub: Subgroup, session: int, last_id: int = -1, left: int = 0) -> None:
        super().__init__(sub, last_id, left)
        self.session = session
        self._joining: list[Receiver] = []

    def joining(self, writer: Writer) -> list[Receiver]:  # noqa: ARG002 - Tail
        """Take the receivers that have no stream yet."""
        waiting, self._joining = self._joining, []
        return waiting

    def put_back(self, receivers: list[Receiver]) -> None:
        """Receivers that still have none."""
        self._joining = receivers + self._joining

    def admit(self, receiver: Receiver) -> None:
        """Let a receiver in with the next object that it wants."""
        if receiver not in self._joining:
            self._joining.append(receiver)

    def forget(self, receiver: Receiver) -> None:
        """A receiver that has no stream is gone."""
        super().forget(receiver)
        if receiver in self._joining:
            self._joining.remove(receiver)

    def begin_again(self, last_id: int) -> None:
        """What comes now does not follow: streams are reset, receivers get others."""
        receivers = [out.receiver for out in self.outs()]
        for out in self.outs():
            out.reset(CANCELLED)
        self.left, self.last_id, self.covered = 0, last_id, last_id
        for receiver in receivers:
            self.admit(receiver)


class Subgroup:
    """The log of one subgroup while something of it is under way.

    ::

        spans     [ 0 1 2 3 ]     [ 7 8 9 ...        between them: unknown, may still come
        writers        ^ second stream  ^ first stream
        joining   receivers that get a stream with the next object at the end

    Each object is kept once, whichever writer brings it first; a writer that is behind brings
    nothing new. Streams at the end of a span wait there while a writer may bring what follows it.
    """

    __slots__ = (
        "_end_follows",
        "_held",
        "_since",
        "code",
        "draft",
        "exports",
        "final",
        "group",
        "has_start",
        "header",
        "is_awaited",
        "joining",
        "over",
        "priority",
        "spans",
        "state",
        "subgroup_id",
        "track",
        "writers",
    )

    def __init__(
        self, state: State, group: Group, subgroup_id: int, header: SubgroupHeader, priority: int
    ) -> None:
        self.state = state
        self.group = group
        self.track = group.track
        self.subgroup_id = subgroup_id
        self.header = header
        """Of the stream that brought it first."""
        self.draft = Draft.D16
        """Of the writer that came last; a code to reset streams with is of this draft."""
        self.priority = priority
        """The publisher's."""
        self.spans: list[Span] = [Span(self, 0)]
        self.writers: dict[Writer, None] = {}
        self.joining: list[Receiver] = []
        self.exports: dict[int, Export] = {}
        """By the session that brings objects and gets those of others."""
        self.final: int | None = None
        """Its last object, once a writer has ended there; -1 if it has none."""
        self.has_start = False
        """Whether a stream began with its first object."""
        self.over = False
        """Whether nothing more of it can come."""
        self.code: int | None = None
        """What streams are reset with that reach its end; None: they are finished."""
        self._since = 0.0
        """Since when another stream is waited for that goes on, or has the beginning."""
        self._held = False
        """Whether receivers wait for the beginning."""
        self.is_awaited = False
        """Whether a stream is waited for that is not there yet."""
        self._end_follows = False
        """Whether a stream that goes on has nothing but the end."""
        group.subgroups[subgroup_id] = self
        for receiver in self.track.receivers:
            if receiver.wants_group(group.group_id):
                self.admit_receiver(receiver)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it came yet."""
        return len(self.spans) == 1 and self.spans[0].last_id < 0

    # Receivers

    def admit_receiver(self, receiver: Receiver) -> None:
        """Let a receiver in with the next object that it wants."""
        refused = self.group.refused.get(self.subgroup_id, ())
        if self.over or receiver.is_finishing or receiver in refused:
            return
        if receiver not in self.track.receivers:
            return
        if not receiver.entry.echo:
            self.export(receiver.session.number).admit(receiver)
        elif receiver not in self.joining:
            self.joining.append(receiver)

    def export(self, session: int) -> Export:
        """What goes to a session of which nothing goes back."""
        export = self.exports.get(session)
        if export is None:
            export = self.exports[session] = Export(self, session)
            # What others brought last of it was sent before, or is read from the log.
            for span in reversed(self.spans):
                segment = span.segment
                if segment is not None and segment.origin != session:
                    export.last_id = export.covered = span.last_id
                    export.left = span.left
                    break
        return export

    def forget(self, receiver: Receiver) -> None:
        """A receiver that has no stream yet is gone."""
        if receiver in self.joining:
            self.joining.remove(receiver)
        for tail in self.tails():
            tail.forget(receiver)

    def refuse(self, receiver: Receiver) -> None:
        """Give a receiver nothing more of it."""
        if receiver in self.track.receivers:
            self.group.refused.setdefault(self.subgroup_id, set()).add(receiver)

    def tails(self) -> list[Tail]:
        """All places where streams wait for what comes."""
        return [*self.spans, *self.exports.values()]

    def outs(self) -> list[Out]:
        """All streams that are at a tail."""
        return [out for tail in self.tails() for out in tail.outs()]

    def lets_into(self, span: Span, writer: Writer) -> bool:
        """Whether receivers without a stream begin with a span: the last one, or the beginning."""
        if not self._held:
            return span is self.spans[-1]
        if writer.continued:
            return False
        self._held = False
        self.go_on()
        return True

    def postpone(self, tail: Tail, receiver: Receiver, head: ObjectHeader) -> bool:
        """Let a receiver that is far behind read from an object on; whether the log has it."""
        segment = tail.segment if isinstance(tail, Span) else None
        if segment is None:
            return False
        receiver.postpone(self.reading(segment, head.object_id))
        return True

    def reading(self, segment: Segment, first_id: int) -> Reading:
        """What a stream reads that begins in a segment."""
        return Reading(segment.header, self.subgroup_id, self.priority, (segment,), self, first_id)

    def tail_at(self, receiver: Receiver, last_id: int, left: int) -> Tail | None:
        """The tail that a stream has reached which read up to there."""
        tails: Sequence[Tail] = self.spans
        if not receiver.entry.echo:
            tails = (self.export(receiver.session.number),)
        return next((each for each in tails if (each.last_id, each.left) == (last_id, left)), None)

    # Objects

    def place(
        self, now: float, writer: Writer, object_id: int, before: int, *, fresh: bool
    ) -> Span | None:
        """The span that an object belongs to; a new one if it follows none.

        ``before`` is the object before it on the writer's stream, or the id below its first one.
        None: it came already, or there is no room for it.
        """
        spans = self.spans
        index = len(spans)
        while index and spans[index - 1].first > object_id:
            index -= 1
        span = spans[index - 1] if index else None
        if span is not None and object_id <= span.last_id:
            if writer.span is not None and writer.span is not span:
                writer.span.covered = max(writer.span.covered, object_id - 1)
                self._merge(now, writer.span)
            if fresh and not (object_id == span.last_id and span.left):
                self.state.late_objects += 1
                self.track.dropped_objects += 1
            return span
        if not fresh:
            return None
        if span is not None and not span.left and self._follows(span, before, object_id):
            span.covered = object_id - 1
            return span
        if len(spans) >= self.track.limits.spans:
            self.state.late_objects += 1
            self.track.dropped_objects += 1
            return None
        made = Span(self, max(before + 1, 0))
        spans.insert(index, made)
        return made

    def _follows(self, span: Span, before: int, object_id: int) -> bool:
        """Whether nothing can be between a span and an object."""
        if before <= span.covered:
            return True
        known = self.group.seen.union(self.group.absent)
        return not any(known.gaps(span.covered + 1, object_id - 1))

    def _merge(self, now: float, span: Span) -> bool:
        """Join a span with the next one if there is nothing between them; whether there was."""
        index = self.spans.index(span)
        if span.left or index + 1 == len(self.spans):
            return False
        following = self.spans[index + 1]
        if following.first > span.covered + 1:
            return False
        if span.awaits:
            span.awaits = False
            self.go_on()
        del self.spans[index]
        following.first = span.first
        for writer in self.writers:
            if writer.span is span:
                writer.span = following
        last, head = span.segment, following.head
        if last is not None and head is not None:
            last.next = head
            following.head = span.head
            for out in span.outs():
                out.fall_behind(Place(last, len(last.chunks), span.last_id, 0))
                out.pull(now)
        elif head is not None:
            # Nothing of the first one was kept, and nobody can have had any of it.
            following.head = head
        return True

    # Writers

    def ended(self, now: float, writer: Writer, last_id: int) -> None:
        """A writer ended in good order behind this object; -1 if it brought none."""
        self.writers.pop(writer, None)
        if self.over:
            return
        if last_id >= 0 or not (self.writers or self.is_awaited or writer.continued):
            self.final = last_id
        elif writer.continued or self.is_awaited:
            self._end_follows = True
        self.settle(now)

    def cut(self, now: float, writer: Writer, awaited: int) -> None:
        """A writer ended before this object: another one goes on with it (laps-2, 7.2)."""
        self.writers.pop(writer, None)
        span = writer.span
        if self.over:
            return
        if span is not None and span.last_id < awaited:
            span.covered = max(span.covered, awaited - 1)
            if not self._merge(now, span):
                span.awaits = True
                self._await(now)
        self.settle(now)

    def left_by(self, now: float, writer: Writer, code: int) -> None:
        """A writer was abandoned."""
        self.writers.pop(writer, None)
        self.settle(now, code)

    # Repair

    def lost_by(self, now: float, writer: Writer) -> None:
        """A writer was lost with the path on which it came: wait for one that brings the rest."""
        self.writers.pop(writer, None)
        span = writer.span
        if (
            self.over
            or span is None
            or any(other.span is span for other in self.writers)
            or (self.final is not None and span.is_at(self.final))
        ):
            self.settle(now)
            return
        span.awaits = True
        self._await(now)
        need = Need(span.missing, span.left, now, lost=True)
        self.track.needs[self.group.group_id, self.subgroup_id] = need

    def need(self, end: int, start: int, *, ended: bool) -> Need | None:
        """Return what is missing of a subgroup that another log has up to ``end``.

        ``start`` is the first object that is wanted at all.
        """
        first = self.spans[0]
        if first.last_id < 0 or (not self.has_start and first.first > start):
            return Need(start) if start < end else None
        if first.missing < end or (ended and self.final is None and not self.writers):
            return Need(first.missing, first.left)
        return None

    def give_up(self, now: float) -> None:
        """Wait no longer for what is missing: nobody has it."""
        held, self._held = self._held, False
        if held:
            self._begin_without(now)
        for span in tuple(self.spans):
            if span.awaits:
                span.awaits = False
                index = self.spans.index(span) + 1
                if index < len(self.spans):
                    # The number that its stream was cut before was a guess: nothing is between.
                    span.covered = max(span.covered, self.spans[index].first - 1)
                    self._merge(now, span)
        self.go_on()
        self.settle(now)

    def hold(self, now: float) -> None:
        """Let receivers wait for the beginning, which is on another stream."""
        self._held = True
        self._await(now)

    def _await(self, now: float) -> None:
        self._since = now
        self.is_awaited = True
        self.state.timers.set(self.unheard, now + self.state.limits.continued_time)

    def go_on(self) -> None:
        """See whether anything is still waited for."""
        self.is_awaited = self._held or any(span.awaits for span in self.spans)
        if not self.is_awaited:
            self.state.timers.cancel(self.unheard)

    def unheard(self, now: float) -> None:
        """What is waited for has not come: wait on only while it may just be slow."""
        held = self._held
        if not self.is_awaited:
            return
        if is_under_way(now, self.group, self._since, self.state.limits) or (
            not held and len(self.spans) == 1 and self._is_newest()
        ):
            self.state.timers.set(self.unheard, now + self.state.limits.continued_time)
            return
        self.give_up(now)

    def _is_newest(self) -> bool:
        """Whether nothing came behind what is here of a track that is still to come."""
        track = self.track
        newest = (self.group.group_id, self.spans[-1].last_id)
        return (track.largest_group, track.largest_object) == newest and bool(track.ingress)

    def _begin_without(self, now: float) -> None:
        """The beginning does not come: receivers read what there is."""
        waiting, self.joining = self.joining, []
        head = self.spans[0].head
        for receiver in waiting:
            if head is None:
                self.joining.append(receiver)
            else:
                first_id = 0
                if self.group.group_id == receiver.start_group:
                    first_id = max(receiver.start_object, 0)
                receiver.postpone(self.reading(head, first_id))
                receiver.open_next(now)

    # Ends

    def settle(self, now: float, code: int = CANCELLED) -> None:
        """See what can still come: streams that wait for nothing go on, or end."""
        if self.over:
            return
        last = self.spans[-1]
        if self._end_follows and last.awaits and not self._held:
            last.awaits = False
            self.go_on()
            self.final = last.last_id
        if self.is_awaited:
            return
        for span in self.spans[:-1]:
            if self._merge(now, span):
                continue
            following = self.spans[self.spans.index(span) + 1]
            if not any(writer.may_bring(span, following) for writer in self.writers):
                self._skip(now, span, following, code)
        final, waits = self.final, len(self.spans) > 1
        for export in self.exports.values():
            if final is not None and export.is_at(final):
                export.close(now, None)
            elif any(writer.session.number != export.session for writer in self.writers):
                waits = waits or bool(export.outs())
            else:
                export.close(now, code)
        if final is not None and self.spans[-1].is_at(final):
            self.spans[-1].close(now, None)
            if not waits:
                self._close(now, None)
        elif not self.writers:
            self._close(now, code)

    def abandon(self, now: float, code: int = CANCELLED) -> None:
        """Take nothing more, and tell the receivers so."""
        if not self.over:
            self._close(now, code)

    def _skip(self, now: float, span: Span, following: Span, code: int) -> None:
        """Nobody brings what is between two spans: streams at the first one end, others go on."""
        span.drop_partial(code)
        head = following.head
        outs = span.outs()
        span.close(now, code)
        self.spans.remove(span)
        for out in outs:
            if head is None:
                self.admit_receiver(out.receiver)
            else:
                out.receiver.postpone(self.reading(head, 0))
                out.receiver.open_next(now)

    def _close(self, now: float, code: int | None) -> None:
        """Nothing more comes: end the streams at the tails, leave the group."""
        self.over = True
        self.code = code
        self.state.timers.cancel(self.unheard)
        group = self.group
        if group.subgroups.get(self.subgroup_id) is self:
            del group.subgroups[self.subgroup_id]
        if code is not None:
            group.break_off(self.subgroup_id)
            for span in self.spans:
                span.drop_partial(code)
        last = self.spans[-1].segment
        if last is not None:
            last.finished = code is None
        for tail in self.tails():
            tail.close(now, code)
        self.joining.clear()
        self.track.check_done()


class Writer:
    """A ``Handler`` of a stream that brings a subgroup."""

    __slots__ = (
        "_head",
        "_offset",
        "_start",
        "continued",
        "draft",
        "extended",
        "form",
        "header",
        "is_intact",
        "parser",
        "session",
        "span",
        "stream_id",
        "sub",
        "tally",
        "track",
    )

    def __init__(
        self,
        session: Session,
        stream_id: int,
        parser: RunParser,
        header: SubgroupHeader,
        sub: Subgroup,
        *,
        continued: bool = False,
    ) -> None:
        self.session = session
        self.stream_id = stream_id
        self.parser = parser
        self.draft: Draft = parser.draft
        self.header = header
        self.extended = header.has_extensions
        self.form = (self.draft, self.extended)
        self.sub = sub
        self.track: Track = sub.track
        self.tally = self.track.tally(session)
        self.continued = continued
        """Whether the beginning of the subgroup is on another stream."""
        self.is_intact = True
        """Whether the first object taken is the first of the stream."""
        self.span: Span | None = None
        """Where its objects are put; None before the first, and while nothing of it is new."""
        self._head: ObjectHeader | None = None  # the object under way
        self._offset = 0  # payload bytes of it that came
        self._start: int | None = None  # the id below its first object
        sub.writers[self] = None
        sub.has_start = sub.has_start or not continued
        sub.draft = self.draft
        if sub.is_empty:
            self.span = sub.spans[0]

    # Handler

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of the stream."""
        parser, sub = self.parser, self.sub
        before, left = parser.object_id, parser.left
        marks: list[Mark] = []
        body, end = parser.scan(data, marks)
        if end != len(body):
            body = body[:end]
        group, admit, draft = sub.group, self.track.admit, self.draft
        if not sub.is_awaited:
            group.touched = now
        fresh = [mark for mark in marks if admit(group, mark[0], draft)]
        awaited = parser.cut_before if fin and self.session.peering else None
        ends = fin and awaited is None
        if ends:
            parser.finish()
            self._finish_ids()
        if marks and self._start is None:
            self._begin(marks[0][0].object_id)
        if body and not sub.over:
            span = self.span
            if (
                span is not None
                and span.last_id == before
                and span.left == left
                and len(fresh) == len(marks)
                and (len(sub.spans) == 1 or span is sub.spans[-1])
            ):
                span.take(now, self, body, marks, ends)
            else:
                self._put(now, body, marks, before, fresh)
            if sub.exports:
                self._export(now, body, marks, fresh, before, left)
        if marks:
            self._head = marks[-1][0]
            self._offset = len(body) - marks[-1][2]
        else:
            self._offset += len(body)
        if ends:
            sub.ended(now, self, parser.object_id)
        elif awaited is not None:
            sub.cut(now, self, awaited)

    def reset(self, now: float, code: int) -> None:
        """The stream was abandoned; another one of the subgroup may go on."""
        self.sub.left_by(now, self, code)

    def lost(self, now: float) -> None:
        """The stream was lost on its path; another one may bring the rest."""
        self.sub.lost_by(now, self)

    def may_bring(self, span: Span, following: Span) -> bool:
        """Whether it may still bring what is between two spans."""
        at = self.parser.object_id
        return at <= span.last_id if span.left else at < following.first

    # Objects

    def _begin(self, object_id: int) -> None:
        """The first object has come: what is known of those below it."""
        header = self.header
        is_first = not self.continued and (
            header.first_object or header.subgroup_id is None or not object_id
        )
        self._start = -1 if is_first else object_id - 1
        if self.span is not None and self.span.last_id < 0:
            self.span.first = self._start + 1
            self.span.covered = self._start

    def _finish_ids(self) -> None:
        """What a FIN says about ids (moq-transport-16, 2.4.2 and 10.4.2)."""
        last = self.parser.object_id
        if last < 0:
            return
        self.sub.group.finish_subgroup(self.sub.subgroup_id, last)
        if self.header.end_of_group:
            self.sub.group.end_at(last)

    def _pieces(
        self, body: bytes, marks: list[Mark], before: int
    ) -> Iterator[tuple[ObjectHeader, int, bytes, int | None]]:
        """Objects of a run: head, offset, bytes, and the object before, if it begins here."""
        first = marks[0][1] if marks else len(body)
        if first and self._head is not None:
            yield self._head, self._offset, body[:first], None
        if not marks:
            return
        ends = [mark[1] for mark in marks[1:]] + [len(body)]
        previous = before if before >= 0 or self._start is None else self._start
        for (head, _, payload), stop in zip(marks, ends, strict=True):
            yield head, 0, body[payload:stop], previous
            previous = head.object_id

    def _put(
        self, now: float, body: bytes, marks: list[Mark], before: int, fresh: list[Mark]
    ) -> None:
        """Put the objects of a run into their spans, one by one: it is not in step."""
        self.is_intact = False
        new = {mark[0].object_id for mark in fresh}
        for head, offset, piece, previous in self._pieces(body, marks, before):
            if previous is not None:
                self.span = self.sub.place(
                    now, self, head.object_id, previous, fresh=head.object_id in new
                )
            if self.span is not None:
                self.span.put(now, self, head, offset, piece)

    def _export(
        self,
        now: float,
        body: bytes,
        marks: list[Mark],
        fresh: list[Mark],
        before: int,
        left: int,
    ) -> None:
        """Hand a run to the sessions that get only what others bring."""
        new = {mark[0].object_id for mark in fresh}
        only_from = self.sub.group.only_from
        for export in tuple(self.sub.exports.values()):
            session = export.session
            if session == self.session.number:
                ids = only_from.setdefault(session, Ranges())
                for object_id in new:
                    ids.add(object_id)
                continue
            if export.last_id == before and export.left == left and len(fresh) == len(marks):
                export.take(now, self, body, marks, False)
                continue
            for head, offset, piece, previous in self._pieces(body, marks, before):
                if previous is not None and head.object_id not in new:
                    # It came already: from somebody else, and was sent then, or from the session.
                    if head.object_id not in only_from.get(session, ()):
                        continue
                    only_from[session].discard(head.object_id)
                follows = previous is None or (previous <= export.covered and not export.left)
                if not follows and head.object_id > export.last_id:
                    export.begin_again(head.object_id - 1)
                export.put(now, self, head, offset, piece)


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


def watch_first(
    now: float, samples: Samples, tail: Span, writer: Writer, head: ObjectHeader
) -> None:
    """Time the first object of a subgroup, which was handed on just now.

    Of the clients that get it one is watched, another one for each group: a record for each of
    thousands would say no more. Sessions with other relays behind them are watched all.
    """
    track, group_id = writer.track, writer.header.group_id
    key = track.key
    if key is None:
        key = track.key = samples.key_of(track.name)
    if not samples.wants(key, group_id):
        return
    source, client, came = None, None, now
    if writer.session.peering:
        client = writer.session.number
        arrival = samples.arrival(key, group_id)
        if arrival is not None:
            source, came = arrival
    sample = Sample(
        *(key, group_id, head.object_id, head.payload_length, came),
        source=source,
        client=client,
    )
    begun = [out for out in tail.sub.outs() if not out.objects_base]
    viewers = [out for out in begun if out.receiver.tally is None]
    watched = [out for out in begun if out.receiver.tally is not None]
    if viewers:
        watched.append(viewers[group_id % len(viewers)])
    for out in watched:
        viewer = None if out.receiver.tally is None else out.receiver.session.number
        state = partial(_was_sent, out.tail or tail, out, head.payload_length)
        samples.watch(now, sample._replace(viewer=viewer), state)


def _was_sent(tail: Tail, out: Out, end: int) -> bool | None:
    """Whether payload up to there has left; None if it never will.

    What stands between payloads is not known here: bytes that wait are at most those that were
    written behind the object, or it waits as well.
    """
    session, stream = out.receiver.session, out.stream
    if stream not in session.outs and stream not in session.finished:
        return None
    if tail.payload < end:
        return None if out.tail is None else False
    return stream.queued <= tail.payload - end
