"""Receivers that start in the past: first what is cached, then what comes, on the same streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from itertools import chain, pairwise
from typing import Final

from laps_sdk.forwarding.cache import CachedObject, Segment
from laps_sdk.forwarding.coding import CANCELLED, INTERNAL_ERROR, object_header
from laps_sdk.forwarding.datagrams import Datagrams
from laps_sdk.forwarding.track import Feed, Group, Out, Receiver
from laps_wire.errors import EncodeError
from laps_wire.moqt.data.datagram import ObjectDatagram

__all__ = ["merged", "replay"]

_WRITE: Final = 64 * 1024
"""Cached objects are joined to writes of about this size."""


def merged(segments: Iterable[Segment]) -> Iterator[CachedObject]:
    """The objects of some segments, by ascending id, each once."""
    last = -1
    found: Iterable[CachedObject]
    ordered = sorted(segments, key=_first_id)
    runs = (segment.objects() for segment in ordered)
    if all(one.ids.last < two.ids.first for one, two in pairwise(ordered)):
        found = chain.from_iterable(runs)  # none is begun before the one in front is read
    else:
        found = merge(*runs, key=_object_id)
    for item in found:
        if item.head.object_id != last:
            last = item.head.object_id
            yield item


def _first_id(segment: Segment) -> int:
    return segment.ids.first


def _object_id(item: CachedObject) -> int:
    return item.head.object_id


def replay(now: float, receiver: Receiver) -> None:
    """Send what is cached of all that a receiver wants, and let it into what is under way."""
    cache = receiver.session.state.cache
    track = receiver.track
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
            objects = [
                item
                for item in merged(segments)
                if receiver.wants(group.group_id, item.head.object_id)
            ]
            if not objects:
                continue
            if subgroup_id is None:
                _send_datagrams(now, receiver, objects)
            else:
                _send_subgroup(now, receiver, group, subgroup_id, segments, objects)


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


def _send_subgroup(
    now: float,
    receiver: Receiver,
    group: Group,
    subgroup_id: int,
    segments: list[Segment],
    objects: list[CachedObject],
) -> None:
    """Send the cached part of a subgroup; go on with it if it is still under way."""
    feed = group.feeds.get(subgroup_id)
    joins = (
        feed is not None
        and feed.segment in segments
        and objects[-1].head.object_id == feed.last_id
        and receiver not in group.refused.get(subgroup_id, ())
        and receiver.takes_from(feed.session.number)
    )
    if not joins and not objects[-1].whole:
        objects = objects[:-1]
    if joins and feed is not None:
        # The bytes that follow are the feed's: its header says how to read them.
        header, priority = feed.header, feed.priority
        if not header.has_extensions:
            objects = [item for item in objects if not item.head.extensions]
    else:
        extended = any(segment.header.has_extensions for segment in segments)
        header, priority = segments[-1].header, segments[-1].priority
        header = replace(header, has_extensions=extended)
    if not objects:
        return
    first_id = objects[0].head.object_id
    origin = next(segment for segment in segments if first_id in segment.ids)
    begins = origin.base < 0 and first_id == origin.ids.first
    header = replace(header, first_object=begins and origin.header.first_object)
    # A header without subgroup id is only good before the object that has this id.
    named = header.subgroup_id is not None or first_id == subgroup_id
    out = receiver.open(header, subgroup_id, priority, whole=begins and named)
    if out is None:
        return
    try:
        _write(now, out, objects, header.has_extensions)
    except EncodeError:
        out.reset(INTERNAL_ERROR)
        receiver.dropped_streams += 1
        return
    if joins and feed is not None:
        _join(feed, out)
    elif segments[-1].finished and feed is None:
        out.stream.write(b"", True)
        out.finish()
    else:
        # A FIN would say that this is all of the subgroup, and a reset now would drop what was
        # just written.
        timers = receiver.session.state.timers
        timers.set(lambda _: _give_up(out), now + receiver.session.state.limits.linger)


def _write(now: float, out: Out, objects: list[CachedObject], has_extensions: bool) -> None:
    receiver = out.receiver
    parts: list[bytes | memoryview] = []
    size, previous, payload = 0, -1, 0
    begun = False
    figures = receiver.session.state.cache.figures
    for head, pieces, draft, _, born in objects:
        start = object_header(head, previous, has_extensions, draft, receiver.draft)
        parts.append(start)
        parts += pieces
        length = sum(map(len, pieces))
        figures.hit(now - born, length)
        payload += length
        size += len(start) + length
        previous = head.object_id
        if size >= _WRITE:
            _flush(now, out, parts, begun)
            begun, size = True, 0
    if parts:
        _flush(now, out, parts, begun)
    receiver.objects += len(objects)
    receiver.bytes += payload
    receiver.track.objects_out += len(objects)
    receiver.track.bytes_out += payload
    if receiver.tally is not None:
        receiver.tally.sent(len(objects), payload)


def _flush(now: float, out: Out, parts: list[bytes | memoryview], begun: bool) -> None:
    data = b"".join(parts)
    parts.clear()
    if begun:
        out.stream.write(data)
        out.wrote(now, len(data))
    else:
        out.begin(now, data, fin=False)


def _join(feed: Feed, out: Out) -> None:
    feed.forget(out.receiver)
    out.objects_base, out.payload_base = feed.objects, feed.payload
    feed.join(out)


def _give_up(out: Out) -> None:
    if out in out.receiver.outs:
        out.reset(CANCELLED)
        out.receiver.check_done()
