"""One track: its groups, its receivers, its figures, and what makes it malformed."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final

from laps_sdk.forwarding.coding import integers_of
from laps_sdk.forwarding.group import Group
from laps_sdk.forwarding.interfaces import RankChanged, TrackCounters, TrackEnded
from laps_sdk.forwarding.limits import PlaneLimits
from laps_sdk.forwarding.ranges import Ranges
from laps_sdk.forwarding.traffic import LinkTraffic, Tally, TrackTraffic, gained
from laps_wire.moqt.codepoints import ObjectStatus, PropertyTypeD18
from laps_wire.moqt.data.types import MalformedTrackError, ObjectHeader
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName

if TYPE_CHECKING:
    from laps_sdk.forwarding.feed import Feed
    from laps_sdk.forwarding.fetch_relay import FetchRelay
    from laps_sdk.forwarding.interfaces import Notice
    from laps_sdk.forwarding.receiver import Receiver
    from laps_sdk.forwarding.segment import Segment
    from laps_sdk.forwarding.state import Session

__all__ = ["Track"]

_GROUP_GAP: Final = int(PropertyTypeD18.PRIOR_GROUP_ID_GAP)
_OBJECT_GAP: Final = int(PropertyTypeD18.PRIOR_OBJECT_ID_GAP)
_LAST_GROUP: Final = (1 << 64) - 1
_NORMAL: Final = ObjectStatus.NORMAL


class Track:
    """What the plane knows of a track."""

    __slots__ = (
        "absent_groups",
        "bounded",
        "broken",
        "bytes_in",
        "bytes_out",
        "cached",
        "cached_bytes",
        "cached_groups",
        "cached_objects",
        "datagrams_in",
        "datagrams_out",
        "dropped_bytes",
        "dropped_objects",
        "duplicates",
        "end",
        "expiry",
        "groups",
        "ingress",
        "key",
        "largest_group",
        "largest_object",
        "limits",
        "max_age",
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
        self.number = number
        self.name = name
        self.key: int | None = None
        """Its full-name hash, once somebody needed it."""
        self.max_age = max_age
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
        self.relays: dict[FetchRelay, None] = {}
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
        # Kept by the cache.
        self.cached: OrderedDict[Segment, None] = OrderedDict()
        self.cached_groups: OrderedDict[Group, None] = OrderedDict()
        self.cached_bytes = 0
        self.cached_objects = 0
        self.expiry: float | None = None
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
