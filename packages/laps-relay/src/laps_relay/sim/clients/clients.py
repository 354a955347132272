"""What all clients of a simulated relay share: publishing, subscribing, and their account.

::

                      Clients ----> Ledger: what was published, and what came
                         |
          +--------------+-------------+
          |                            |
    DirectClients                 MoqtClients
    a NetworkRelay                an EdgeRelay and its Plane, over sessions of MoQT

:class:`Clients` publishes groups in the rhythm of their style, and notes what is wanted. Its two
kinds know how to ask a relay. :class:`Publication` has what a client publishes and how: groups of
objects, datagrams, or one stream for ever.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, NamedTuple

from laps_relay.sim.clients.ledger import Flow, Group, Interval, Ledger, encode_object
from laps_relay.sim.net.clock import Clock
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.interfaces import Answer, Feed
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import AnnounceKind, SubscribeCode, SubscribeData

__all__ = [
    "CUT",
    "HASHER",
    "NO_DATA",
    "RETRY",
    "Call",
    "Clients",
    "Left",
    "Publication",
    "Style",
    "Want",
    "track",
]

HASHER: Final = KeyedHasher(b"a network in a simulation")


def track(text: str) -> tuple[int, FullTrackName]:
    """The key and the name of a track; its class of service is its first field."""
    name = FullTrackName(Namespace.of(text.encode(), b"live"), b"video")
    return HASHER.full_name(name.namespace.fields, name.name), name


class Style(NamedTuple):
    """How a publication sends."""

    period: float = 0.5
    """Seconds between two groups."""
    objects: int = 3
    gap: float = 0.05
    """Seconds between two objects of a group."""
    datagrams: bool = False
    ttl_ms: int = 0
    padding: int = 0
    priority: int = 128
    endless: bool = False
    """Whether everything goes into one stream, an object at a time."""

    def deadline(self, now: float) -> float | None:
        """Until when what is written now may wait in the first relay."""
        return now + self.ttl_ms / 1000 if self.ttl_ms else None


class Publication:
    """What one client publishes: a track, or everything below a namespace."""

    __slots__ = ("beat", "flows", "group", "kind", "lane", "name", "open", "scope", "style")

    def __init__(
        self, kind: AnnounceKind, name: FullTrackName, scope: str, style: Style, lane: int = 0
    ) -> None:
        self.kind = kind
        self.name = name
        self.scope = scope
        self.style = style
        self.group = 0
        self.beat = 0
        """How often it has begun: who ends and begins again within a period has one rhythm."""
        self.lane = lane
        """Which one of several publishers of the track it is."""
        self.flows: dict[int, tuple[Flow, Feed]] = {}
        """By key: what the network pulls."""
        self.open: dict[int, tuple[Flow, OutStream]] = {}
        """By key: a stream that does not end."""

    def begin(self) -> int:
        """Begin anew with nothing pulled; return how often it has begun."""
        self.flows.clear()
        self.open.clear()
        self.beat += 1
        return self.beat

    def end(self) -> Callable[[], None]:
        """End the publication; return a function that ends its endless streams."""
        streams = []
        for flow, stream in self.open.values():
            flow.over = True
            streams.append(stream)
        self.open.clear()

        def end() -> None:
            for stream in streams:
                stream.write(b"", True)

        return end

    def covers(self, name: FullTrackName) -> bool:
        """Whether a track is part of it."""
        if self.kind is AnnounceKind.TRACK:
            return name == self.name
        own = self.name.namespace.fields
        return name.namespace.fields[: len(own)] == own


Call = Callable[[Callable[[float], None]], None]
"""Runs an action in a turn of the relay's process, as soon as the process runs."""
NO_DATA: Final = SubscribeData()
RETRY: Final = 2.5
"""Seconds that a client waits that was refused."""
CUT: Final = b"\0"
"""What a stream ends with that goes on in another one (laps-2, 7.2)."""


class Want:
    """What clients here want."""

    __slots__ = ("answer", "code", "interval", "key", "name", "since")

    def __init__(self, key: int, name: FullTrackName, since: float) -> None:
        self.key = key
        self.name = name
        self.since = since
        self.answer: Answer | None = None
        self.code = 0
        self.interval: Interval | None = None


class Left(NamedTuple):
    """When a track was wanted for the last time, and whether it was served then."""

    when: float
    served: bool


class Clients(ABC):
    """All clients of one relay in one life of it."""

    __slots__ = (
        "_call",
        "_clock",
        "_ledger",
        "_renewed",
        "alive",
        "contact",
        "discovered_names",
        "former",
        "past",
        "publications",
        "stays",
        "wants",
    )

    def __init__(self, clock: Clock, ledger: Ledger, contact: str, call: Call) -> None:
        self._clock = clock
        self._ledger = ledger
        self._call = call
        self.contact = contact
        self.alive = True
        self.publications: list[Publication] = []
        self.wants: dict[int, Want] = {}
        self.past: dict[int, Left] = {}
        """Keys that no client here subscribes to now, and that one subscribed to before."""
        self.former: dict[int, float] = {}
        """Keys of former lives, and since when: sets name relays, not lives (laps-2, 6.1)."""
        self.stays = math.inf
        """How long streams may still begin after the last unsubscribe, outside faults."""
        self.discovered_names: dict[tuple[AnnounceKind, FullTrackName], None] = {}
        """Names that other relays announce."""
        self._renewed: dict[int, None] = {}
        """Keys of tracks whose stream goes on in another one with the next object."""

    # What each kind of clients does in its own way

    @abstractmethod
    def _announce(self, now: float, publication: Publication) -> None:
        """Announce a new publisher to the relay."""

    @abstractmethod
    def unpublish(self, publication: Publication) -> None:
        """A publisher leaves; groups in progress are finished."""

    @abstractmethod
    def _ask(self, now: float, key: int, name: FullTrackName) -> None:
        """Ask the relay for a track."""

    @abstractmethod
    def _ask_again(self, now: float, want: Want) -> None:
        """Ask the relay once more for a track that it refused or ended."""

    @abstractmethod
    def unsubscribe(self, key: int) -> None:
        """The last subscriber of a track goes."""

    @property
    @abstractmethod
    def pulled(self) -> set[int]:
        """The keys of tracks that are sent because they are subscribed to."""

    @property
    @abstractmethod
    def open_streams(self) -> int:
        """Streams from other relays that have not ended."""

    # Coming and going

    def publish(self, publication: Publication) -> None:
        """A publisher comes."""
        self.publications.append(publication)
        beat = publication.begin()
        self._call(lambda now: self._announce(now, publication))
        self._clock.after(publication.style.period, self._tick, publication, beat)

    def subscribe(self, key: int, name: FullTrackName) -> None:
        """A subscriber comes."""
        if key not in self.wants:
            self.wants[key] = Want(key, name, self._clock.now)
            self.past.pop(key, None)
        self._call(lambda now: self._ask(now, key, name))

    def _unwant(self, key: int) -> Want | None:
        want = self.wants.pop(key, None)
        if want is not None:
            self.past[key] = Left(self._clock.now, want.answer is Answer.ACCEPTED)
            self._close(want)
        return want

    def asked(self) -> dict[int, float]:
        """What was wanted in this life and those before, and until when."""
        past = {key: left.when for key, left in self.past.items()}
        return {**self.former, **past, **dict.fromkeys(self.wants, self._clock.now)}

    def gone(self) -> None:
        """The relay is gone, and the clients with it."""
        self.alive = False
        for want in self.wants.values():
            self._close(want)

    def forget(self) -> None:
        """The clients move to another process; whatever still arrives here is ignored."""
        self.publications = []
        self.wants = {}

    def _close(self, want: Want) -> None:
        if want.interval is not None:
            want.interval.end = self._clock.now
            want.interval = None

    # Publishing

    def _tick(self, publication: Publication, beat: int) -> None:
        """It is time for the next group.

        A relay that stands still takes nothing from its clients either. It gets this when it goes
        on, in the order in which it happened: what comes behind a new policy is under that policy.
        """
        if self._speaks(publication, beat):
            began = self._clock.now
            self._clock.after(publication.style.period, self._tick, publication, beat)
            self._call(lambda _now: self._group(publication, beat, began))

    def _speaks(self, publication: Publication, beat: int) -> bool:
        return self.alive and publication in self.publications and publication.beat == beat

    def _group(self, publication: Publication, beat: int, began: float) -> None:
        """Publish a group, or an object of a stream that does not end."""
        if not self._speaks(publication, beat):
            return
        style = publication.style
        publication.group += 1
        if style.endless:
            for key, (flow, feed) in list(publication.flows.items()):
                self._go_on(publication, key, flow, feed, began)
            return
        for flow, feed in list(publication.flows.values()):
            now = self._clock.now
            group = Group(flow, publication.group, began, style.datagrams)
            flow.groups[group.number] = group
            stream = None
            if not style.datagrams:
                stream = feed.open_stream(
                    now, priority=style.priority, ttl_ms=style.ttl_ms, deadline=style.deadline(now)
                )
            self._object(group, feed, stream, style)

    def _go_on(
        self, publication: Publication, key: int, flow: Flow, feed: Feed, began: float
    ) -> None:
        """One more object of a stream that does not end."""
        now, style = self._clock.now, publication.style
        flow.endless = True
        group = flow.groups[publication.group] = Group(flow, publication.group, began, False)
        group.sent, group.whole = 1, True
        self._ledger.published += 1
        before, stream = publication.open.get(key, (None, None))
        if stream is not None and (before is not flow or self._renewed.pop(key, self) is not self):
            stream.write(CUT, True)
            stream = None
        if stream is None:
            stream = feed.open_stream(
                now, priority=style.priority, ttl_ms=style.ttl_ms, deadline=style.deadline(now)
            )
            publication.open[key] = (flow, stream)
        stream.set_deadline(style.deadline(now))
        stream.write(encode_object(flow.number, group.number, 0, now, style.padding))

    def _object(self, group: Group, feed: Feed, stream: OutStream | None, style: Style) -> None:
        """Send one object, when the relay takes it, and plan the next one."""
        if self.alive:
            self._call(lambda now: self._write(now, group, feed, stream, style))

    def _write(
        self, now: float, group: Group, feed: Feed, stream: OutStream | None, style: Style
    ) -> None:
        data = encode_object(group.flow.number, group.number, group.sent, now, style.padding)
        group.sent += 1
        group.ended = now
        group.whole = group.sent >= style.objects
        self._ledger.published += 1
        if stream is not None:
            stream.set_deadline(style.deadline(now))
            stream.write(data, group.whole)
        else:
            feed.send_datagram(now, data, priority=style.priority, ttl_ms=style.ttl_ms)
        if not group.whole:
            self._clock.after(style.gap, self._object, group, feed, stream, style)

    # Subscribing

    def answered(
        self,
        now: float,
        key: int,
        answer: Answer,
        *,
        code: SubscribeCode,
        reason: str,  # noqa: ARG002
        data: SubscribeData,  # noqa: ARG002
    ) -> None:
        """What became of a want."""
        want = self.wants.get(key)
        if want is None:
            return
        want.answer = answer
        want.code = int(code)
        if answer is Answer.ACCEPTED:
            if want.interval is None:
                want.interval = Interval(self.contact, key, now)
                self._ledger.intervals.append(want.interval)
        else:
            # A refused client subscribes again, as clients with MoQT do.
            self._close(want)
            self._clock.after(RETRY, self._retry, want)

    def _retry(self, want: Want) -> None:
        if self.alive and self.wants.get(want.key) is want and want.answer is not Answer.ACCEPTED:
            self._call(lambda now: self._ask_again(now, want))
