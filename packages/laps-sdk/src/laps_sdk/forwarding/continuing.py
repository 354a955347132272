"""A subgroup that goes on with another stream, so that nothing of it is lost, nor comes twice.

::

    stream 1   | header | object 0 | object 1 | delta of object 2 |  FIN
    stream 2   | header | object 2 | object 3 | ...

A relay that sends a subgroup to others may have to begin another stream for the rest: somebody has
joined, or the way has changed (laps-2, 7.2). It does so between two objects. The first stream ends
with the first field of the next object's header: so its end is not that of the subgroup, and who
receives both knows which object the second one begins with. They may come in any order. The second
stands by while the first is under way, and the first waits for a while when it has ended. A second
one that is there before the first waits as well (see ``early``): it says that it goes on.

A publisher may say nothing for long. The way that a stream should leave is not kept open for that:
the stream is cut before the object that is next by its number, and the second one begins when there
is one. Who receives waits as long as nothing newer of the track has come: so nothing is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laps_sdk.forwarding.coding import CANCELLED, Mark, cut_mark
from laps_sdk.forwarding.interfaces import LinkedStream

if TYPE_CHECKING:
    from laps_sdk.forwarding.feed import Feed
    from laps_sdk.forwarding.group import Group
    from laps_sdk.forwarding.limits import PlaneLimits
    from laps_sdk.forwarding.receiver import Out, Receiver
    from laps_sdk.forwarding.standby import Standby

__all__ = [
    "QUIET",
    "begin_anew",
    "cut_quiet",
    "end_paused",
    "give_up_waiting",
    "go_on",
    "is_under_way",
    "wait_for",
]

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
