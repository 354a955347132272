"""A relay's own clients in the simulation: publishers and subscribers without MoQT.

They stand where the Edge's bridge stands in a server: they are the ``LocalSide`` and the
``DataSink`` of a network core.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from laps_relay.sim.clients.ledger import (
    FLIGHT,
    OBJECT,
    BreakError,
    Flow,
    Group,
    Interval,
    Ledger,
    Object,
    encode_object,
    read_object,
)
from laps_relay.sim.clients.publications import Publication, Style
from laps_relay.sim.core import RelayCore
from laps_relay.sim.net.clock import Clock
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.interfaces import Answer, Feed
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    DataHeader,
    SubscribeCode,
    SubscribeData,
)

__all__ = ["CUT", "Clients", "Left", "Receiving", "Want"]

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


class _Incoming:
    """A stream on its way to our clients."""

    __slots__ = ("buffer", "key", "next", "of")

    def __init__(self, key: int) -> None:
        self.key = key
        self.buffer = bytearray()
        self.next = 0
        self.of: tuple[int, int] | None = None


class Left(NamedTuple):
    """When a track was wanted for the last time, and whether it was served then."""

    when: float
    served: bool


class Receiving:
    """The ``DataSink`` of a network core, and what the clients behind it want."""

    __slots__ = ("_incoming", "_ledger", "alive", "contact", "former", "past", "stays", "wants")

    def __init__(self, ledger: Ledger, contact: str) -> None:
        self._ledger = ledger
        self.contact = contact
        self.alive = True
        self.wants: dict[int, Want] = {}
        self.past: dict[int, Left] = {}
        """Keys that are not wanted any more."""
        self.former: dict[int, float] = {}
        """Those of the lives before, and since when: sets name relays, not lives (laps-2, 6.1)."""
        self.stays = math.inf
        """How long what is not wanted any more may still begin to come, outside faults."""
        self._incoming: dict[int, _Incoming] = {}

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> None:
        """A stream for our clients."""
        if not self.alive:
            return
        self._known(now, header.track, data)
        self._incoming[stream] = _Incoming(header.track)
        self.stream_data(now, stream, data, fin)

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        """More of it: objects in their order, none missing."""
        if not self.alive:
            return
        incoming = self._incoming[stream]
        incoming.buffer += data
        pos = 0
        while (item := read_object(incoming.buffer, pos)) is not None:
            pos += item.size
            if self._ledger.group(item.flow, item.group, now).flow.endless:
                self._next(now, incoming, item)
                continue
            if incoming.of is None:
                incoming.of = (item.flow, item.group)
            if incoming.of != (item.flow, item.group) or item.number != incoming.next:
                raise BreakError(
                    "order",
                    f"{self.contact}: {item.flow}/{item.group}/{item.number} in a stream of "
                    f"{incoming.of} that is at {incoming.next}",
                    now,
                )
            incoming.next += 1
            self._ledger.delivered(now, self.contact, incoming.key, item)
        del incoming.buffer[:pos]
        if fin:
            del self._incoming[stream]
            flow = None if incoming.of is None else self._ledger.flows.all[incoming.of[0]]
            if flow is not None and flow.endless:
                if incoming.buffer != CUT and not flow.over:
                    raise BreakError("cut short", f"{self.contact}: {incoming.of} ended", now)
                return
            if incoming.buffer or incoming.of is None:
                raise BreakError("payload", f"{self.contact}: a stream ends inside an object", now)
            self._ledger.ended(now, self.contact, incoming.of, incoming.next)

    def _next(self, now: float, incoming: _Incoming, item: Object) -> None:
        """An object of a stream that does not end: behind all before it."""
        before, incoming.of = incoming.of, (item.flow, item.group)
        if before is not None and (before[0] != item.flow or before[1] >= item.group):
            raise BreakError("order", f"{self.contact}: {incoming.of} behind {before}", now)
        self._ledger.delivered(now, self.contact, incoming.key, item)

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        """It was abandoned."""
        incoming = self._incoming.pop(stream, None)
        if incoming is not None and incoming.of is not None:
            flow = self._ledger.flows.all[incoming.of[0]]
            if flow.endless:
                return  # what it lacks is missed, object by object
        want = None if incoming is None else self.wants.get(incoming.key)
        interval = None if want is None else want.interval
        if incoming is not None and incoming.of is not None and interval is not None:
            self._ledger.reset(now, self.contact, incoming.of, code, since=interval.start)

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        """An object."""
        if not self.alive:
            return
        self._known(now, header.track, payload)
        item = read_object(payload)
        if item is None or item.size != len(payload) or len(payload) < OBJECT.size:
            raise BreakError("payload", f"{self.contact}: a datagram is not one object", now)
        self._ledger.delivered(now, self.contact, header.track, item)

    def _known(self, now: float, key: int, data: bytes) -> None:
        """It is wanted, or was when it was sent; on narrow links that may be long ago."""
        if key in self.wants:
            return
        item = read_object(data, whole=False)
        if item is not None:
            now = min(now, self._ledger.group(item.flow, item.group, now).began + FLIGHT)
        left = self.past[key].when if key in self.past else self.former.get(key)
        if left is None:
            raise BreakError("not wanted", f"{self.contact} got {key:#x}, which nobody wanted", now)
        if now - left > self.stays and not self._ledger.exempted(now - self.stays, now):
            raise BreakError(
                "not wanted",
                f"{self.contact} still got {key:#x}, which nobody wants since {left:.3f}",
                now,
            )

    @property
    def open_streams(self) -> int:
        """Streams that have not ended."""
        return len(self._incoming)


NO_DATA: Final = SubscribeData()
PULL_DELAY: Final = 0.002
"""How long a publisher takes to answer."""
RETRY: Final = 2.5
"""How long a client waits that was refused."""


class Clients(Receiving):
    """All clients of one relay in one life of it."""

    __slots__ = (
        "_call",
        "_clock",
        "_pulled",
        "_renewed",
        "discovered_names",
        "publications",
    )

    def __init__(
        self,
        clock: Clock,
        ledger: Ledger,
        contact: str,
        call: Callable[[Callable[[RelayCore, float], None]], None],
    ) -> None:
        super().__init__(ledger, contact)
        self._clock = clock
        self._call = call
        self.publications: list[Publication] = []
        self.discovered_names: dict[tuple[AnnounceKind, FullTrackName], None] = {}
        self._pulled: dict[int, Feed] = {}
        """By key: what the network wants now, whether the publisher has agreed or not."""
        self._renewed: dict[int, None] = {}
        """Keys of tracks whose stream goes on in another one with the next object."""

    # What clients do

    def publish(self, publication: Publication) -> None:
        """A publisher comes."""
        self.publications.append(publication)
        beat = publication.begin()
        self._call(lambda core, now: core.announce(now, publication.kind, publication.name))
        self._clock.after(publication.style.period, self._tick, publication, beat)

    def unpublish(self, publication: Publication) -> None:
        """It goes; groups under way are finished."""
        if publication not in self.publications:
            return
        self.publications.remove(publication)
        end_streams = publication.end()
        ended = list(publication.flows)
        publication.flows.clear()

        def end(core: RelayCore, now: float) -> None:
            end_streams()
            for key in ended:
                core.pull_ended(now, key, "the publisher ended it")
            core.withdraw(now, publication.kind, publication.name)

        self._call(end)

    @property
    def pulled(self) -> set[int]:
        """The keys of what is sent because somebody wants it."""
        return {key for each in self.publications for key in each.flows}

    def subscribe(self, key: int, name: FullTrackName) -> None:
        """A subscriber comes."""
        if key not in self.wants:
            self.wants[key] = Want(key, name, self._clock.now)
            self.past.pop(key, None)
        self._call(lambda core, now: core.want(now, name, NO_DATA))

    def unsubscribe(self, key: int) -> None:
        """The last subscriber of a track goes."""
        want = self._unwant(key)
        if want is None:
            return
        self._call(lambda core, now: core.unwant(now, want.name))

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
        """They are clients of another process now; what still comes here is for nobody."""
        self.publications = []
        self.wants = {}
        self._incoming.clear()

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
            self._call(lambda core, now: self._group(publication, beat, began))  # noqa: ARG005

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
            self._call(lambda core, now: self._write(now, group, feed, stream, style))  # noqa: ARG005

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

    # LocalSide

    def pull(
        self,
        now: float,  # noqa: ARG002
        key: int,
        name: FullTrackName,
        data: SubscribeData,  # noqa: ARG002
        feed: Feed,
    ) -> None:
        """The network wants a track: the publisher agrees a moment later."""
        self._pulled[key] = feed
        self._clock.after(PULL_DELAY, self._agree, key, name, feed)

    def _agree(self, key: int, name: FullTrackName, feed: Feed) -> None:
        if not self.alive or self._pulled.get(key) is not feed:
            return  # it was released meanwhile
        for publication in self.publications:
            if publication.covers(name):
                flow = self._ledger.flows.begin(self.contact, key, publication.scope)
                publication.flows[key] = (flow, feed)
                self._call(lambda core, now: core.pulled(now, key, NO_DATA))
                return
        self._call(lambda core, now: core.pull_ended(now, key, "no publisher any more"))

    def renew(self, now: float, key: int, before: float) -> None:  # noqa: ARG002
        """Open streams should go on in new ones, from their next objects on."""
        self._renewed[key] = None

    def release(self, now: float, key: int) -> None:  # noqa: ARG002
        """Nobody wants it any more."""
        self._pulled.pop(key, None)
        for publication in self.publications:
            publication.flows.pop(key, None)
            _, stream = publication.open.pop(key, (None, None))
            if stream is not None:
                stream.reset(0)

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
            # Clients that are told so ask again, as those of MoQT do.
            self._close(want)
            self._clock.after(RETRY, self._ask_again, want)

    def _ask_again(self, want: Want) -> None:
        if self.alive and self.wants.get(want.key) is want and want.answer is not Answer.ACCEPTED:
            self._call(lambda core, now: core.want(now, want.name, NO_DATA))

    def discovered(self, now: float, entry: AnnounceInfo) -> None:  # noqa: ARG002
        """A name that others announce."""
        if entry.plaintext is not None:
            self.discovered_names[entry.kind, entry.plaintext] = None

    def vanished(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:  # noqa: ARG002
        """It is gone."""
        self.discovered_names.pop((kind, name), None)
