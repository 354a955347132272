"""What was published, what arrived where, and which rules that breaks.

Each object carries who published it, its group, its number and when it was made, so every relay on
its way can be asked about it. A group is one stream; so "each object at most once over each link"
is "each group's stream at most once over each link", looked at when the stream begins. While routes
change, copies for different targets that went different ways from a relay may meet again further
on: each relay knows only its own ways. But no relay makes two of one: it never sends an object to a
peer more often than it got it.

::

    +---------------+-------------+-----------+----------+----------+------------+
    | magic  u16    | padding u16 | flow  u32 | group u32| object u32| time  f64 | padding ...
    +---------------+-------------+-----------+----------+----------+------------+

A *flow* is one publication of one track in one life of its publisher. Windows in which something
unplanned happened are exempt from "nothing is lost"; nothing is exempt from "nothing twice to a
client" and "no relay makes two of one".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from laps_wire.errors import LapsError

__all__ = [
    "OBJECT",
    "BreakError",
    "Delivery",
    "Flows",
    "Group",
    "Interval",
    "Ledger",
    "encode_object",
    "read_object",
]

Pair: TypeAlias = tuple[str, str]
"""Contacts of a publisher's relay and of a subscriber's."""
Delivery: TypeAlias = tuple[str, str, int]
"""The same, with the key of a track."""
OBJECT: Final = struct.Struct(">HHIIId")
_MAGIC: Final = 0x4C41
FLIGHT: Final = 2.0
"""The longest an object may be under way through all relays, with retransmissions."""
SEVERAL: Final = 1.5
"""With several publishers of a track: so long after the first answer all of them serve it."""
OVERTAKEN: Final = 1.0
"""Where packets are lost: so long after the answer every set on the way has the new target."""


class BreakError(LapsError):
    """An invariant does not hold."""

    def __init__(self, rule: str, text: str, when: float) -> None:
        super().__init__(f"{rule}: {text} (at {when:.3f} s)")
        self.rule = rule
        self.text = text
        self.when = when

    def __reduce__(self) -> tuple[type[BreakError], tuple[str, str, float]]:
        """As exceptions with several arguments travel between processes."""
        return BreakError, (self.rule, self.text, self.when)


class Object(NamedTuple):
    """What an object says of itself."""

    flow: int
    group: int
    number: int
    time: float
    size: int
    """With its padding."""


def encode_object(flow: int, group: int, number: int, now: float, padding: int = 0) -> bytes:
    """One object."""
    return OBJECT.pack(_MAGIC, padding, flow, group, number, now) + bytes(padding)


def read_object(data: bytes | bytearray, pos: int = 0) -> Object | None:
    """The object at ``pos``; None if it is not complete."""
    if len(data) - pos < OBJECT.size:
        return None
    magic, padding, flow, group, number, time = OBJECT.unpack_from(data, pos)
    if magic != _MAGIC:
        raise BreakError(
            "payload", f"bytes that nobody published: {bytes(data[pos : pos + 8])!r}", 0.0
        )
    size = OBJECT.size + padding
    if len(data) - pos < size:
        return None
    return Object(flow, group, number, time, size)


class Interval:
    """How long a relay has had a track: from the answer to the end of its interest."""

    __slots__ = ("contact", "end", "key", "start")

    def __init__(self, contact: str, key: int, start: float) -> None:
        self.contact = contact
        self.key = key
        self.start = start
        self.end: float | None = None


class Group:
    """One stream's worth of objects, or of datagrams."""

    __slots__ = (
        "began",
        "came",
        "datagrams",
        "ended",
        "flow",
        "got",
        "links",
        "number",
        "sent",
        "whole",
    )

    def __init__(self, flow: Flow, number: int, began: float, datagrams: bool) -> None:
        self.flow = flow
        self.number = number
        self.began = began
        self.ended = began
        self.datagrams = datagrams
        self.sent = 0
        """Objects."""
        self.whole = False
        """Whether its publisher finished it."""
        self.got: dict[str, int] = {}
        """By contact of the receiver: a bit for each object."""
        self.links: dict[tuple[str, str, int, int], int] = {}
        """Where it went, and how often: sender, receiver, object (datagrams) or 0, o-relay if it
        may have several."""
        self.came: dict[tuple[str, int], int] = {}
        """How often it was sent to a relay: receiver, object or 0."""


class Flow:
    """One publication of one track by one life of a publisher."""

    __slots__ = ("contact", "groups", "key", "number", "scope")

    def __init__(self, number: int, contact: str, key: int, scope: str) -> None:
        self.number = number
        self.contact = contact
        self.key = key
        self.scope = scope
        self.groups: dict[int, Group] = {}


class Flows:
    """All flows, by number."""

    __slots__ = ("all",)

    def __init__(self) -> None:
        self.all: dict[int, Flow] = {}

    def begin(self, contact: str, key: int, scope: str) -> Flow:
        """A new flow."""
        flow = Flow(len(self.all) + 1, contact, key, scope)
        self.all[flow.number] = flow
        return flow


class Ledger:
    """Keeps account, and raises :class:`BreakError`."""

    __slots__ = (
        "_barred",
        "_exempt",
        "crossings",
        "deliveries",
        "flows",
        "intervals",
        "loops",
        "lossy",
        "lost",
        "moved",
        "published",
    )

    def __init__(self) -> None:
        self.flows = Flows()
        self.intervals: list[Interval] = []
        self.published = 0
        self.deliveries = 0
        self.crossings = 0
        self.loops = 0
        """Streams that crossed a link twice while the network was not converged."""
        self.moved = -math.inf
        """When the last route changed."""
        self.lost = 0
        """Objects lost in windows in which that may be."""
        self._exempt: list[tuple[float, float, frozenset[Pair] | None]] = []
        self._barred: dict[Delivery, list[tuple[float, float]]] = {}
        """What policy rules out, and from when to when."""
        self.lossy = False
        """Whether links lose packets: datagrams are gone then."""

    # Windows

    def exempt(self, start: float, end: float, pairs: frozenset[Pair] | None = None) -> None:
        """Something unplanned goes on: what is lost now is a gap, and no fault.

        ``pairs``: for which publishers and subscribers; None: for all.
        """
        if pairs is None or pairs:
            self._exempt.append((start - FLIGHT, end, pairs))

    def exempted(self, start: float, end: float, pair: Pair | None = None) -> bool:
        """Whether something unplanned went on at any time between, for a pair or for anybody."""
        return any(
            start <= last and end >= first and (pair is None or pairs is None or pair in pairs)
            for first, last, pairs in self._exempt
        )

    def bar(self, now: float, what: frozenset[Delivery]) -> None:
        """From now on policy leaves no way for these, and for no others."""
        for delivery, spans in self._barred.items():
            since, until = spans[-1]
            if until > now and delivery not in what:
                spans[-1] = (since, now)
        for delivery in what:
            spans = self._barred.setdefault(delivery, [])
            if not spans or spans[-1][1] < math.inf:
                spans.append((now, math.inf))

    def barred(self, start: float, end: float, delivery: Delivery) -> bool:
        """Whether policy left no way at any time between."""
        return any(
            start <= until and end >= since for since, until in self._barred.get(delivery, ())
        )

    @property
    def mended(self) -> float:
        """When everything unplanned is over."""
        return max((last for _, last, _ in self._exempt), default=0.0)

    # What happens

    def group(self, flow: int, group: int, now: float) -> Group:
        """The group of an object that was seen."""
        found = self.flows.all.get(flow)
        if found is None or group not in found.groups:
            raise BreakError("payload", f"flow {flow} group {group} was never published", now)
        return found.groups[group]

    def delivered(self, now: float, contact: str, key: int, item: Object) -> None:
        """An object came to the clients of a relay."""
        group = self.group(item.flow, item.group, now)
        if group.flow.key != key:
            raise BreakError(
                "wrong track",
                f"{contact} got flow {item.flow} as {key:#x}, it is {group.flow.key:#x}",
                now,
            )
        bit = 1 << item.number
        before = group.got.get(contact, 0)
        if before & bit:
            raise BreakError(
                "doubled", f"{contact} got {item.flow}/{item.group}/{item.number} twice", now
            )
        group.got[contact] = before | bit
        self.deliveries += 1

    def crossed(
        self,
        now: float,
        sender: str,
        receiver: str,
        item: Object,
        stream: bool,
        origin: int = 0,
    ) -> Group:
        """A stream began on a link, or a datagram went over it; ``origin`` names its o-relay."""
        group = self.group(item.flow, item.group, now)
        number = 0 if stream else item.number
        link = (sender, receiver, number, origin)
        self.crossings += 1
        sent = group.links.get(link, 0)
        if sent:
            name = f"{item.flow}/{item.group}/{item.number}"
            came = group.came.get((sender, number), 0) + (sender == group.flow.contact)
            if sent >= came:
                raise BreakError(
                    "copied", f"{sender} got {name} {came} times, {receiver} more often", now
                )
            if group.began > self.moved + FLIGHT and not self.exempted(now, now):
                raise BreakError("link twice", f"{name} crossed {sender} -> {receiver} twice", now)
            self.loops += 1
        group.links[link] = sent + 1
        group.came[receiver, number] = group.came.get((receiver, number), 0) + 1
        return group

    # What must have arrived

    def missing(self, until: float) -> Iterator[tuple[Group, Interval, int, bool]]:
        """Groups that a receiver should have and has not; how many objects, and if that is bad."""
        by_key: dict[int, list[Interval]] = {}
        for interval in self.intervals:
            by_key.setdefault(interval.key, []).append(interval)
        origins: dict[int, set[str]] = {}
        for flow in self.flows.all.values():
            origins.setdefault(flow.key, set()).add(flow.contact)
        for flow in self.flows.all.values():
            # The answer came from one of several publishers; others may hear of it later.
            grace = 0.0 if len(origins[flow.key]) == 1 else SEVERAL
            if self.lossy:
                # A stream is faster than a change of its set that was lost and sent again: the new
                # target gets it from where the change came first (laps-2, 6.1).
                grace = max(grace, OVERTAKEN)
            for group in flow.groups.values():
                late = group.ended + FLIGHT
                if late > until or (group.datagrams and self.lossy):
                    continue
                for interval in by_key.get(flow.key, ()):
                    began = interval.start + grace
                    if interval.contact == flow.contact or began > group.began:
                        continue
                    if interval.end is not None and interval.end < late:
                        continue
                    got = group.got.get(interval.contact, 0).bit_count()
                    if got < group.sent:
                        pair = (flow.contact, interval.contact)
                        if self.barred(group.began, group.ended, (*pair, flow.key)):
                            continue
                        excused = self.exempted(group.began, group.ended, pair)
                        yield group, interval, group.sent - got, not excused

    def settle(self, until: float) -> None:
        """Check that nothing is missing of what ended before; count what may be."""
        for group, interval, count, bad in self.missing(until):
            if bad:
                raise BreakError(
                    "lost",
                    f"{interval.contact} has the track since {interval.start:.3f} and missed "
                    f"{count} of {group.sent} objects of {group.flow.number}/{group.number} from "
                    f"{group.flow.contact} ({group.began:.3f} to {group.ended:.3f})",
                    until,
                )
            self.lost += count
