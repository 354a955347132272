"""Receivers that start in the past: first what is cached, then what comes, on the same streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from itertools import chain, pairwise

from laps_sdk.forwarding.cache import CachedObject, Segment
from laps_sdk.forwarding.datagrams import Datagrams
from laps_sdk.forwarding.track import Group, Reading, Receiver
from laps_wire.moqt.data.datagram import ObjectDatagram

__all__ = ["first_id_of", "merged", "replay"]


def merged(segments: Iterable[Segment]) -> Iterator[CachedObject]:
    """The objects of some segments, by ascending id, each once."""
    last = -1
    found: Iterable[CachedObject]
    ordered = sorted(segments, key=first_id_of)
    runs = (segment.objects() for segment in ordered)
    if all(one.ids.last < two.ids.first for one, two in pairwise(ordered)):
        found = chain.from_iterable(runs)  # none is begun before the one in front is read
    else:
        found = merge(*runs, key=_object_id)
    for item in found:
        if item.head.object_id != last:
            last = item.head.object_id
            yield item


def first_id_of(segment: Segment) -> tuple[int, int]:
    """Return where a segment stands among others; one that begins inside an object follows it."""
    return (segment.base, 1) if segment.left else (segment.ids.first, 0)


def _object_id(item: CachedObject) -> int:
    return item.head.object_id


def replay(now: float, receiver: Receiver) -> None:
    """Let a receiver read what is cached of all that it wants, and go on with what comes."""
    cache = receiver.session.state.cache
    track = receiver.track
    readings: list[Reading] = []
    for group_id in sorted(group.group_id for group in track.cached_groups):
        group = track.groups[group_id]  # what is cached is not forgotten
        if not receiver.wants_group(group.group_id):
            continue
        first = receiver.start_object if group.group_id == receiver.start_group else 0
        subgroups: dict[int | None, list[Segment]] = {}
        for segment in group.segments:
            if (
                segment.ids.last >= first
                and cache.is_fresh(now, segment)
                and receiver.takes_from(segment.origin)
            ):
                subgroups.setdefault(segment.subgroup_id, []).append(segment)
        for subgroup_id, segments in subgroups.items():
            segments.sort(key=first_id_of)
            if subgroup_id is None:
                objects = merged(segments)
                wanted = [each for each in objects if receiver.wants(group_id, each.head.object_id)]
                _send_datagrams(now, receiver, wanted)
            else:
                readings.append(_reading(receiver, group, subgroup_id, segments, first))
    receiver.postpone(*readings)
    receiver.open_next(now)


def _send_datagrams(now: float, receiver: Receiver, objects: list[CachedObject]) -> None:
    figures = receiver.session.state.cache.figures
    for head, pieces, draft, _, born in objects:
        figures.hit(now - born, sum(map(len, pieces)))
        datagram = ObjectDatagram(
            0,
            head.group_id,
            head.object_id,
            b"".join(pieces),
            head.priority,
            head.status,
            head.extensions,
        )
        Datagrams(datagram, draft).send(now, receiver)


def _reading(
    receiver: Receiver, group: Group, subgroup_id: int, segments: list[Segment], first: int
) -> Reading:
    """What a receiver reads of a subgroup: what is cached, then what comes if it is under way."""
    sub = group.subgroups.get(subgroup_id)
    if sub is not None and not any(span.segment is segments[-1] for span in sub.spans):
        sub = None
    if sub is not None:
        sub.forget(receiver)
        header, priority = sub.header, sub.priority
    else:
        header, priority = segments[-1].header, segments[-1].priority
    extended = any(segment.header.has_extensions for segment in segments)
    first_id = next(each for each in segments if each.ids.last >= first).ids.from_(first)
    origin = segments[0]
    begins = origin.base < 0 and first_id == origin.ids.first
    header = replace(
        header,
        has_extensions=header.has_extensions or extended,
        first_object=begins and origin.header.first_object,
    )
    # A header without subgroup id is only good before the object that has this id.
    named = header.subgroup_id is not None or first_id == subgroup_id
    return Reading(
        *(header, subgroup_id, priority, tuple(segments), sub, first),
        whole=begins and named,
        past=True,
    )
