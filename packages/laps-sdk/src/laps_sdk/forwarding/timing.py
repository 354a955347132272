"""The first object of a subgroup, if its group is sampled: when it came, and when it was sent.

Of the clients that get it one is watched, another one for each group: a record for each of
thousands would say no more. Sessions with other relays behind them are watched all.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from laps_sdk.forwarding.samples import Sample, Samples
from laps_wire.moqt.data.types import ObjectHeader

if TYPE_CHECKING:
    from laps_sdk.forwarding.feed import Feed
    from laps_sdk.forwarding.receiver import Out

__all__ = ["watch_first"]


def watch_first(now: float, samples: Samples, feed: Feed, head: ObjectHeader) -> None:
    """Time the first object of a feed, which was handed on just now."""
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
