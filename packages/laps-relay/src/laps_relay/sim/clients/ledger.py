"""What was published, what arrived where, and which rules that breaks.

Each object carries its publisher, its group, its number and its time, so the ledger knows it on
every link. A group is one stream. The rule "each object at most once over each link" is checked
when a stream begins. While routes change, copies for different targets may leave a relay on
different paths and meet again further on. But no relay makes two of one: it never sends an object
to a peer more often than it received it, and than it was asked to resume its track.

::

    +---------------+-------------+-----------+----------+----------+------------+
    | magic  u16    | padding u16 | flow  u32 | group u32| object u32| time  f64 | padding ...
    +---------------+-------------+-----------+----------+----------+------------+

A *flow* is one publication of one track in one life of its publisher. Windows of faults are exempt
from "nothing is lost". Nothing is exempt from "nothing twice to a client" and "no relay makes two
of one".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from laps_relay.sim.net.wires import WireDigest
from laps_wire.errors import LapsError

__all__ = [
    "OBJECT",
    "BreakError",
    "Delivery",
    "Flow",
    "Flows",
    "GivenUp",
    "Group",
    "Interval",
    "Ledger",
    "encode_object",
    "read_object",
]


class Interval:
    """How long a relay has had a track: from the answer to the end of its interest."""

    __slots__ = ("contact", "end", "key", "start")

    def __init__(self, contact: str, key: int, start: float) -> None:
        self.contact = contact
        self.key = key
        self.start = start
        self.end: float | None = None


class GivenUp(NamedTuple):
    """What a relay did not send of a group to the next one."""

    receiver: str
    targets: frozenset[str] | None
    """Contacts that it was for, by the set that it would have gone to; None: that has ended."""
    code: int | None
    """The code of the reset; None: the connection ended, and other checks judge that."""


class Group:
    """One stream's worth of objects, or of datagrams."""

    __slots__ = (
        "began",
        "came",
        "datagrams",
        "ended",
        "flow",
        "given_up",
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
        """Where it went, and how often: sender, receiver, (first) object, o-relay if it may have
        several."""
        self.came: dict[tuple[str, int], int] = {}
        """How often it was sent to a relay: receiver, (first) object."""
        self.given_up: tuple[GivenUp, ...] = ()
        """What of it was not sent, because it had waited too long or too much waited."""

    def explained(
        self, contact: str, also: tuple[GivenUp, ...] = (), *, code: int | None = None
    ) -> bool:
        """Return whether something for a receiver was given up on the path (with a code)."""
        return any(
            each.targets is None or contact in each.targets or self.behind(each.receiver, contact)
            for each in (*self.given_up, *also)
            if code is None or each.code is None or each.code == code
        )

    def behind(self, relay: str, contact: str) -> bool:
        """Whether it went from one relay to another."""
        seen = {relay}
        todo = [relay]
        while todo:
            at = todo.pop()
            if at == contact:
                return True
            for sender, receiver, *_ in self.links:
                if sender == at and receiver not in seen:
                    seen.add(receiver)
                    todo.append(receiver)
        return False


class Flow:
    """One publication of one track by one life of a publisher."""

    __slots__ = ("contact", "endless", "groups", "key", "number", "over", "scope")

    def __init__(self, number: int, contact: str, key: int, scope: str) -> None:
        self.number = number
        self.contact = contact
        self.key = key
        self.scope = scope
        self.groups: dict[int, Group] = {}
        self.endless = False
        """Whether all of it is one stream: each object counts as a group of its own then."""
        self.over = False
        """Whether that stream was ended."""


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


Pair: TypeAlias = tuple[str, str]
"""Contacts of a publisher's relay and of a subscriber's."""
Delivery: TypeAlias = tuple[str, str, int]
"""The same, with the key of a track."""
OBJECT: Final = struct.Struct(">HHIIId")
_MAGIC: Final = 0x4C41
FLIGHT: Final = 2.0
"""The longest time of an object through all relays, with retransmissions."""
SEVERAL: Final = 1.5
"""With several publishers of a track: so long after the first answer all of them serve it."""
JOINING: Final = 1.5
"""Of a stream that does not end: so long after the answer the rest of it comes at the latest."""
OVERTAKEN: Final = 1.0
"""Where packets are lost, every set on the path has a new target so long after the answer."""


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
    """The fields that an object carries."""

    flow: int
    group: int
    number: int
    time: float
    size: int
    """With its padding."""


def encode_object(flow: int, group: int, number: int, now: float, padding: int = 0) -> bytes:
    """One object."""
    return OBJECT.pack(_MAGIC, padding, flow, group, number, now) + bytes(padding)


def read_object(data: bytes | bytearray, pos: int = 0, *, whole: bool = True) -> Object | None:
    """The object at ``pos``; None if it is not complete, or not even its beginning."""
    if len(data) - pos < OBJECT.size:
        return None
    magic, padding, flow, group, number, time = OBJECT.unpack_from(data, pos)
    if magic != _MAGIC:
        raise BreakError(
            "payload", f"bytes that nobody published: {bytes(data[pos : pos + 8])!r}", 0.0
        )
    size = OBJECT.size + padding
    if whole and len(data) - pos < size:
        return None
    return Object(flow, group, number, time, size)


class Ledger:
    """Keeps account, and raises :class:`BreakError`."""

    __slots__ = (
        "_barred",
        "_exempt",
        "copies",
        "crossings",
        "deliveries",
        "digest",
        "flight",
        "flows",
        "given_up",
        "intervals",
        "loops",
        "lossy",
        "lost",
        "moved",
        "published",
        "repair",
        "resumes",
        "stirred",
        "unnamed",
        "waiting",
    )

    def __init__(self) -> None:
        self.flows = Flows()
        self.intervals: list[Interval] = []
        self.published = 0
        self.deliveries = 0
        self.crossings = 0
        self.loops = 0
        """Streams that crossed a link twice while the network was not converged."""
        self.moved: dict[str, float] = {}
        """When the last route to a relay changed, by its contact."""
        self.stirred = -math.inf
        """Until when copies may meet whatever their targets: a policy is new, or targets move."""
        self.copies: Callable[[Group, str, str], int] = lambda *_: 1
        """How many copies of a group may cross a link (see ``laps_relay.sim.world.oracle``)."""
        self.resumes: dict[tuple[str, int], int] = {}
        """How often relays were asked to resume a track: by relay and key."""
        self.lost = 0
        """Objects lost in windows in which that may be."""
        self.repair = 0.0
        """So long after its time an object may arrive that was sent again."""
        self._exempt: list[tuple[float, float, frozenset[Pair] | None, bool]] = []
        self._barred: dict[Delivery, list[tuple[float, float]]] = {}
        """What policy rules out, and from when to when."""
        self.lossy = False
        """Whether links lose packets: datagrams are gone then."""
        self.flight = FLIGHT
        """The longest time of an object through this network."""
        self.given_up = 0
        """Objects that did not arrive because something on their path was given up, or still waits.
        """
        self.unnamed: list[tuple[float, int, GivenUp]] = []
        """Streams of an unknown group, given up after their header: time, key and targets."""
        self.digest = WireDigest()
        """Of the network, for what clients receive."""
        self.waiting: Callable[[], dict[Group, tuple[GivenUp, ...]]] = dict
        """Returns the data that waits in queues, by group, with its targets."""

    # Windows

    def exempt(
        self,
        start: float,
        end: float,
        pairs: frozenset[Pair] | None = None,
        *,
        repaired: bool = False,
    ) -> None:
        """Something unplanned goes on: what is lost now is a gap, and no fault.

        ``pairs``: for which publishers and subscribers; None: for all. ``repaired``: objects of
        streams are sent again, and only datagrams are lost.
        """
        if pairs is None or pairs:
            self._exempt.append((start - self.flight, end, pairs, repaired))

    def exempted(
        self, start: float, end: float, pair: Pair | None = None, *, beyond_repair: bool = False
    ) -> bool:
        """Whether something unplanned went on at any time between, for a pair or for anybody.

        ``beyond_repair``: only what loses objects of streams for good.
        """
        return any(
            start <= last
            and end >= first
            and (pair is None or pairs is None or pair in pairs)
            and not (repaired and beyond_repair)
            for first, last, pairs, repaired in self._exempt
        )

    def bar(self, now: float, what: frozenset[Delivery]) -> None:
        """Note which deliveries policy forbids from now on; all others are allowed."""
        for delivery, spans in self._barred.items():
            since, until = spans[-1]
            if until > now and delivery not in what:
                spans[-1] = (since, now)
        for delivery in what:
            spans = self._barred.setdefault(delivery, [])
            if not spans or spans[-1][1] < math.inf:
                spans.append((now, math.inf))

    def barred(self, start: float, end: float, delivery: Delivery) -> bool:
        """Return whether policy forbade a delivery at any time between."""
        return any(
            start <= until and end >= since for since, until in self._barred.get(delivery, ())
        )

    @property
    def mended(self) -> float:
        """When everything unplanned is over."""
        return max((last for _, last, *_ in self._exempt), default=0.0)

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
        self.digest.shared_channel("", contact).delivered(
            now, key, item.flow, item.group, item.number
        )

    def crossed(
        self,
        now: float,
        sender: str,
        receiver: str,
        item: Object,
        origin: int = 0,
    ) -> Group:
        """A stream began on a link, or a datagram went over it; ``origin`` names its o-relay."""
        group = self.group(item.flow, item.group, now)
        number = item.number  # a stream that goes on in another one begins with a later object
        link = (sender, receiver, number, origin)
        self.crossings += 1
        sent = group.links.get(link, 0)
        if sent:
            name = f"{item.flow}/{item.group}/{item.number}"
            came = group.came.get((sender, number), 0) + (sender == group.flow.contact)
            came += self.resumes.get((sender, group.flow.key), 0)
            if sent >= came:
                raise BreakError(
                    "copied", f"{sender} got {name} {came} times, {receiver} more often", now
                )
            if (
                not self._may_meet(group)
                and not self.exempted(now, now)
                and not self._is_resumed(group.flow.key)
                and sent >= self.copies(group, sender, receiver)
            ):
                raise BreakError("link twice", f"{name} crossed {sender} -> {receiver} twice", now)
            self.loops += 1
        group.links[link] = sent + 1
        group.came[receiver, number] = group.came.get((receiver, number), 0) + 1
        return group

    def resumed(self, contact: str, key: int) -> None:
        """A relay was asked to resume a track: it sends some of its objects once more."""
        self.resumes[contact, key] = self.resumes.get((contact, key), 0) + 1

    def _is_resumed(self, key: int) -> bool:
        return any(each == key for _, each in self.resumes)

    def _may_meet(self, group: Group) -> bool:
        """Return whether paths to receivers of a group changed in its time, or just before."""
        if group.began <= self.stirred:
            return True
        last = group.began - self.flight
        return any(
            self.moved.get(each.contact, -math.inf) >= last
            for each in self.intervals
            if each.key == group.flow.key and (each.end is None or each.end >= last)
        )

    def ended(self, now: float, contact: str, item: tuple[int, int], came: int) -> None:
        """A stream came to its end at a receiver: that is the publisher's, with all before it."""
        group = self.group(*item, now)
        if not group.whole or came != group.sent:
            raise BreakError(
                "cut short",
                f"a stream of {item[0]}/{item[1]} ended at {contact} with {came} objects, "
                f"published were {group.sent}{'' if group.whole else ' so far'}",
                now,
            )

    def reset(
        self, now: float, contact: str, item: tuple[int, int], code: int, *, since: float
    ) -> None:
        """Check a reset stream: it was given up on the path, with that code.

        ``since``: a receiver that subscribed only then may have left the track before.
        """
        group = self.group(*item, now)
        if group.began < since:
            return
        pair = (group.flow.contact, contact)
        if not group.explained(contact, code=code) and not self.exempted(group.began, now, pair):
            raise BreakError(
                "reset",
                f"a stream of {item[0]}/{item[1]} was reset at {contact} with {code:#x}, and "
                "nobody on its way gave it up so",
                now,
            )

    # What must have arrived

    def missing(self, until: float) -> Iterator[tuple[Group, Interval, int, bool]]:
        """Groups that a receiver should have and has not; how many objects, and if that is bad."""
        waiting = self.waiting()
        spent: set[tuple[int, str]] = set()
        by_key: dict[int, list[Interval]] = {}
        for interval in self.intervals:
            by_key.setdefault(interval.key, []).append(interval)
        origins: dict[int, set[str]] = {}
        for flow in self.flows.all.values():
            origins.setdefault(flow.key, set()).add(flow.contact)
        for flow in self.flows.all.values():
            # One of several publishers answered; the SUBSCRIBE may reach the others later.
            grace = 0.0 if len(origins[flow.key]) == 1 else SEVERAL
            if flow.endless:
                grace = max(grace, JOINING)
            if self.lossy:
                # A stream is faster than a change of its set that was lost and sent again: the new
                # target gets it from where the change came first (laps-2, 6.1).
                grace = max(grace, OVERTAKEN)
            for group in flow.groups.values():
                late = group.ended + self.flight + self.repair
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
                        if group.explained(
                            interval.contact, waiting.get(group, ())
                        ) or self._unnamed(group, interval.contact, spent):
                            self.given_up += group.sent - got
                            continue
                        excused = self.exempted(
                            group.began, group.ended, pair, beyond_repair=not group.datagrams
                        )
                        yield group, interval, group.sent - got, not excused

    def _unnamed(self, group: Group, contact: str, spent: set[tuple[int, str]]) -> bool:
        """Whether nothing of a group came, because it was given up behind its header.

        Each that was given up explains one group to each receiver.
        """
        if group.got.get(contact):
            return False
        for number, (when, key, whom) in enumerate(self.unnamed):
            if (
                key == group.flow.key
                and group.began <= when <= group.ended + self.flight
                and (whom.targets is None or contact in whom.targets)
                and (number, contact) not in spent
            ):
                spent.add((number, contact))
                return True
        return False

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
