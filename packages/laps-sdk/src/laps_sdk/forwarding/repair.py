"""Repair between relays: what a log has, what another log lacks, and how that is sent again.

::

    o-relay                                         s-relay
    positions(track, since) ------ POSITION ------> lacking(track, points)
                                                       |  not here, and nothing came for a while
    resume(receiver, points) <----- RESUME ------------'
       |  streams that begin at the first missing object
       '==========================================> Writer: the log drops what it has
       '-- gone ---------- RESUME_RESPONSE -------> Subgroup.give_up

A :class:`~laps_sdk.forwarding.interfaces.Point` names a place in a subgroup. Both logs name
objects alike, so a position may come from any relay that has the track (laps-2, 6.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from laps_sdk.forwarding.cache import Segment
from laps_sdk.forwarding.interfaces import Point
from laps_sdk.forwarding.late import first_id_of
from laps_sdk.forwarding.track import Group, Need, Reading, Receiver, Track

__all__ = ["lacking", "positions", "resume"]

_ASKS: Final = 4
"""How often the same objects are asked for: what never comes does not exist."""
_NEEDS: Final = 4096
"""Subgroups of a track that may be missing at a time; the oldest are forgotten above that."""
_NO_GROUP: Final = 1 << 64
"""Larger than any group id."""


# What a log has


def positions(track: Track, since: float) -> list[Point]:
    """Return the ends of all subgroups that have changed since then, in order."""
    groups = sorted(
        (group for group in track.groups.values() if group.touched >= since),
        key=lambda group: group.group_id,
    )
    return [point for group in groups for point in _points(group)]


def _points(group: Group) -> list[Point]:
    ends: dict[int, int] = {}
    for segment in group.segments:
        subgroup_id = segment.subgroup_id
        if subgroup_id is not None and subgroup_id not in group.subgroups:
            ends[subgroup_id] = max(ends.get(subgroup_id, 0), segment.last_id + 1)
    for subgroup_id, sub in group.subgroups.items():
        last = sub.spans[-1]
        ends[subgroup_id] = max(last.last_id + (not last.left), 0)
    for subgroup_id, final in group.finals.items():
        if subgroup_id not in group.subgroups:
            ends[subgroup_id] = final + 1
    return [
        Point(group.group_id, subgroup_id, ends[subgroup_id], subgroup_id in group.finals)
        for subgroup_id in sorted(ends)
    ]


# What a log lacks


def lacking(
    now: float, track: Track, points: Iterable[Point], hold: float, *, lost: bool
) -> tuple[list[Point], list[Point]]:
    """Return the points to resume at, and the points to give up: asked for often, and not here.

    What another log has and this one has not may be under way. So it is asked for if it was
    missing a ``hold`` ago as well, and if nothing that stands before it in the queues has come
    since: nothing of its group or of an older one. With ``lost`` a path has just been lost with
    all that was on it, and nobody waits. Nobody waits for a stream that was lost either.
    """
    needs = track.needs
    due: list[Point] = []
    given_up: list[Point] = []
    recent = now - hold
    moving = min(
        (each.group_id for each in track.groups.values() if each.touched > recent),
        default=_NO_GROUP,
    )
    for point in points:
        key = point.group, point.subgroup
        found, need = _need(track, point), needs.get(key)
        if found is None:
            # A log that ends earlier says nothing about what is missing from another one.
            if need and _need(track, point._replace(object=need.object + 1)) is None:
                del needs[key]
            continue
        if need is None or (need.object, need.left) != (found.object, found.left):
            need = needs[key] = found._replace(since=now)
        if need.asks:
            is_due = need.since <= recent
        else:
            is_due = lost or need.lost or (need.since <= recent and point.group < moving)
        if not is_due:
            continue
        needs[key] = need._replace(since=now, asks=need.asks + 1)
        if need.asks < _ASKS:
            due.append(Point(point.group, point.subgroup, need.object))
        else:
            given_up.append(point)
    while len(needs) > _NEEDS:
        del needs[next(iter(needs))]
    return due, given_up


def _need(track: Track, point: Point) -> Need | None:
    """Return the first object of a subgroup that is missing; None if all of it is here."""
    floor, group = track.floor, track.groups.get(point.group)
    if floor is not None and point.group < floor.group:
        return None  # published before anybody here subscribed
    start = floor.object + 1 if floor is not None and point.group == floor.group else 0
    if group is None:
        if point.group in track.absent_groups or track.forgets(point.group):
            return None
        return Need(start) if start < point.object else None
    sub = group.subgroups.get(point.subgroup)
    if sub is not None:
        return sub.need(point.object, start, ended=point.ended)
    if point.subgroup in group.finals or point.subgroup in group.broken:
        return None
    return Need(start) if start < point.object else None


# Sending it again


def resume(now: float, receiver: Receiver, points: Sequence[Point]) -> list[Point]:
    """Send subgroups from these objects on, as far as the log has them; return what is gone.

    A stream of an open subgroup ends behind the last object that is here: what follows comes on
    the streams that the receiver has anyway.
    """
    gone: list[Point] = []
    readings: list[Reading] = []
    for point in points:
        group = receiver.track.groups.get(point.group)
        reading = None if group is None else _reading(group, point)
        if reading is None:
            if group is None or not _is_at_end(group, point):
                gone.append(point)
            continue
        if reading.segments[0].base >= point.object:
            gone.append(point)  # some objects before the first one that is here
        readings.append(reading)
    receiver.postpone(*readings)
    receiver.open_next(now)
    return gone


def _is_at_end(group: Group, point: Point) -> bool:
    """Return whether a subgroup is open, and nothing has come behind a point."""
    sub = group.subgroups.get(point.subgroup)
    return sub is not None and sub.spans[-1].last_id + (not sub.spans[-1].left) <= point.object


def _reading(group: Group, point: Point) -> Reading | None:
    """Return what to read of a subgroup; None if nothing is here behind the point."""
    subgroup_id = point.subgroup
    final = group.finals.get(subgroup_id)
    segments: list[Segment] = sorted(
        (each for each in group.segments if each.subgroup_id == subgroup_id), key=first_id_of
    )
    if final is None or point.object <= final:
        segments = [each for each in segments if each.last_id >= point.object]
    else:
        segments = segments[-1:]  # only the end is missing
    if not segments:
        return None
    sub = group.subgroups.get(subgroup_id)
    if sub is not None and not any(span.segment is segments[-1] for span in sub.spans):
        sub = None
    first = segments[0]
    begins = first.base < 0 and point.object <= first.ids.first
    extended = any(each.header.has_extensions for each in segments)
    header = replace(
        first.header if sub is None else sub.header,
        has_extensions=extended or (sub is not None and sub.header.has_extensions),
        first_object=begins and first.header.first_object,
    )
    return Reading(
        *(header, subgroup_id, first.priority if sub is None else sub.priority),
        tuple(segments),
        sub,
        point.object,
        whole=begins and (header.subgroup_id is not None or first.ids.first == subgroup_id),
        resumed=True,
    )
