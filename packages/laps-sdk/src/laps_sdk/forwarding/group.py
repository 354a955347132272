"""One group of a track: which objects came, which cannot come, and what of it is cached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laps_sdk.forwarding.ranges import Ranges
from laps_sdk.forwarding.segment import Segment
from laps_wire.moqt.data.types import MalformedTrackError

if TYPE_CHECKING:
    from laps_sdk.forwarding.early import Early
    from laps_sdk.forwarding.feed import Feed
    from laps_sdk.forwarding.receiver import Receiver
    from laps_sdk.forwarding.track import Track

__all__ = ["Group"]

_LAST_OBJECT: Final = (1 << 62) - 1


class Group:
    """Remembered for as long as its track's window of groups reaches."""

    __slots__ = (
        "absent",
        "born",
        "broken",
        "datagrams",
        "early",
        "end_marked",
        "feeds",
        "final",
        "finals",
        "group_id",
        "missing",
        "refused",
        "seen",
        "segments",
        "touched",
        "track",
    )

    def __init__(self, track: Track, group_id: int) -> None:
        self.track = track
        self.group_id = group_id
        self.born: float | None = None
        """When something of it was cached first."""
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
        self.early: dict[int, list[Early]] = {}
        """Streams that go on with a subgroup whose beginning did not come yet."""
        self.broken: dict[int, None] = {}
        """Subgroups that were given up in their middle: nothing is to be waited for."""
        self.touched = 0.0
        """When something of it came last."""
        self.refused: dict[int, set[Receiver]] = {}
        """Who gets nothing more of a subgroup, because its stream was stopped or dropped."""
        self.datagrams: Segment | None = None
        """Where the object of the next datagram is kept."""
        self.segments: dict[Segment, None] = {}
        """What is cached, oldest first."""

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
