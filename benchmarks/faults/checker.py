"""Accounts for every object at every subscription: pure functions over histories.

The sum that is judged, for each subscription and over the objects that were written after the run
began::

    delivered + reported missing = published

An object that was reported as missing and then delivered counts as delivered, and as ``late``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from statistics import median
from typing import Final

from faults.history import Delivered, Published, PublisherHistory, Reported, SubscriberHistory
from laps_sdk.client.core.progress import ANY_OBJECT

__all__ = ["LATE", "Event", "Outcome", "Total", "check", "reported_objects", "total"]

LATE: Final = 0.5
"""Seconds after which a delivery counts as disturbed."""
_BEFORE: Final = 1.0
"""Objects of so many seconds before an event may be in flight when it happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fault."""

    at: float
    target: str = ""
    """The name of the relay or client."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What one subscription got."""

    name: str
    track: str
    published: int = 0
    delivered: int = 0
    """Different objects that were delivered."""
    reported: int = 0
    """Objects that were reported as missing, and are."""
    unreported: int = 0
    """Objects that are missing without a report."""
    doubled: int = 0
    reordered: int = 0
    """Objects that came after a later one of their subgroup."""
    corrupt: int = 0
    """Objects with a wrong hash, at a wrong location, or never published."""
    late: int = 0
    """Objects that were reported as missing and delivered afterwards."""
    invented: int = 0
    """Numbers that were reported as missing, and that the publisher never used."""
    ended: int = 0
    """Ends of the subscription while its publisher went on."""
    discarded: int = 0
    """Second copies that the SDK discarded."""
    pauses: list[float] = field(default_factory=list)
    """For each event, the longest time without an object while objects were published."""
    recoveries: list[float] = field(default_factory=list)
    """For each event, the seconds until the last pause was over, and until the last object that
    came late or never."""

    @property
    def lost(self) -> int:
        """Objects that were not delivered."""
        return self.published - self.delivered

    @property
    def exact(self) -> bool:
        """Whether every object is accounted for, once and unharmed."""
        wrong = (self.unreported, self.doubled, self.reordered, self.corrupt, self.invented)
        return not any(wrong) and self.delivered + self.reported == self.published


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The sums over all subscriptions of a run."""

    events: int
    subscriptions: int
    published: int
    delivered: int
    lost: int
    unreported: int
    doubled: int
    reordered: int
    corrupt: int
    late: int
    invented: int
    ended: int
    discarded: int
    broken: int
    """Subscriptions whose sum is not exact."""
    pause_p50: float
    pause_max: float
    recovery_p50: float
    recovery_max: float


def check(
    publisher: PublisherHistory,
    subscriber: SubscriberHistory,
    begin: float,
    events: Sequence[Event] = (),
) -> Outcome:
    """Compare what a publisher wrote from ``begin`` on with what a subscription got."""
    everything = {(each.group, each.object): each for each in publisher.published}
    due = {place: each for place, each in everything.items() if each.sent >= begin}
    outcome = Outcome(
        name=subscriber.name,
        track=subscriber.track,
        published=len(due),
        ended=len(subscriber.ended),
        discarded=subscriber.discarded,
    )
    first_copies = _check_delivered(subscriber.delivered, everything, begin, outcome)
    delivered = first_copies.keys() & due.keys()
    outcome.delivered = len(delivered)
    claimed = reported_objects(subscriber.reported, sorted(everything))
    outcome.reported = len((claimed & due.keys()) - delivered)
    outcome.late = len(claimed & delivered)
    outcome.invented = _invented(subscriber.reported, everything)
    outcome.unreported = outcome.published - outcome.delivered - outcome.reported
    written = sorted(due.values(), key=lambda each: each.sent)
    received = {place: first_copies[place].received for place in delivered}
    pauses = _pauses(written, sorted(received.values()), begin)
    disturbances = _disturbances(written, received)
    disturbances += [(start, end) for start, end in pauses if end - start > LATE]
    for start, until in pairwise([*(each.at for each in events), inf]):
        # Objects in flight when the event happens belong to it.
        first, last = start - _BEFORE, until - _BEFORE
        outcome.pauses.append(
            max((end - at for at, end in pauses if first <= at < last), default=0.0)
        )
        outcome.recoveries.append(
            max((end - start for at, end in disturbances if first <= at < last), default=0.0)
        )
    return outcome


def _check_delivered(
    delivered: Iterable[Delivered],
    everything: dict[tuple[int, int], Published],
    begin: float,
    outcome: Outcome,
) -> dict[tuple[int, int], Delivered]:
    """Count what is wrong with single objects; return the first copy of each good one."""
    copies: dict[tuple[int, int], Delivered] = {}
    newest: dict[tuple[int, int], int] = {}
    for each in delivered:
        place = (each.group, each.object)
        written = everything.get(place)
        if written is None or not each.intact or written.sequence != each.sequence:
            outcome.corrupt += 1
            continue
        judged = written.sent >= begin
        if place in copies:
            outcome.doubled += judged
            continue
        copies[place] = each
        subgroup = (each.group, each.subgroup)
        if each.object < newest.get(subgroup, -1):
            outcome.reordered += judged
        else:
            newest[subgroup] = each.object
    return copies


def reported_objects(
    reports: Iterable[Reported], places: Sequence[tuple[int, int]]
) -> set[tuple[int, int]]:
    """Return the published locations, given in order, that the reports name."""
    named: set[tuple[int, int]] = set()
    for each in reports:
        first = bisect_left(places, (each.first_group, each.first_object))
        last = bisect_right(places, (each.last_group, each.last_object))
        named.update(places[first:last])
    return named


def _invented(reports: Iterable[Reported], everything: dict[tuple[int, int], Published]) -> int:
    """Count reported numbers that do not exist, where a report has numbers for both its ends."""
    invented: set[tuple[int, int]] = set()
    for each in reports:
        if each.first_group == each.last_group and each.last_object != ANY_OBJECT:
            invented.update(
                (each.first_group, number)
                for number in range(each.first_object, each.last_object + 1)
                if (each.first_group, number) not in everything
            )
    return len(invented)


def _pauses(
    written: Sequence[Published], receptions: Sequence[float], begin: float
) -> list[tuple[float, float]]:
    """Return the begin and the end of each pause.

    A pause begins when an object is written after the last reception, and ends with the next
    reception. Without one it ends when the last object is written.
    """
    sent = [each.sent for each in written]
    pauses: list[tuple[float, float]] = []
    for last, following in zip([begin, *receptions], [*receptions, None], strict=True):
        index = bisect_right(sent, last)
        if index < len(sent):
            pauses.append((sent[index], sent[-1] if following is None else following))
    return pauses


def _disturbances(
    written: Sequence[Published], received: dict[tuple[int, int], float]
) -> list[tuple[float, float]]:
    """Return when objects that came late or never were written, and when they came."""
    found: list[tuple[float, float]] = []
    for each in written:
        came = received.get((each.group, each.object), each.sent)
        if came - each.sent > LATE or (each.group, each.object) not in received:
            found.append((each.sent, came))
    return found


def total(outcomes: Sequence[Outcome], events: int) -> Total:
    """Return the sums of a run."""
    pauses = [pause for each in outcomes for pause in each.pauses] or [0.0]
    recoveries = [max(0.0, seconds) for each in outcomes for seconds in each.recoveries] or [0.0]
    return Total(
        events=events,
        subscriptions=len(outcomes),
        published=sum(each.published for each in outcomes),
        delivered=sum(each.delivered for each in outcomes),
        lost=sum(each.lost for each in outcomes),
        unreported=sum(each.unreported for each in outcomes),
        doubled=sum(each.doubled for each in outcomes),
        reordered=sum(each.reordered for each in outcomes),
        corrupt=sum(each.corrupt for each in outcomes),
        late=sum(each.late for each in outcomes),
        invented=sum(each.invented for each in outcomes),
        ended=sum(each.ended for each in outcomes),
        discarded=sum(each.discarded for each in outcomes),
        broken=sum(not each.exact for each in outcomes),
        pause_p50=median(pauses),
        pause_max=max(pauses),
        recovery_p50=median(recoveries),
        recovery_max=max(recoveries),
    )
