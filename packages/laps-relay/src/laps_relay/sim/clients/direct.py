"""Clients without MoQT: publishers and subscribers that call the core of their relay.

They take the place of an Edge's upstream seam: they are the ``LocalSide`` and the ``DataSink`` of a
network core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_relay.network.relay import NetworkRelay
from laps_relay.sim.clients.clients import CUT, NO_DATA, Call, Clients, Publication, Want
from laps_relay.sim.clients.ledger import FLIGHT, OBJECT, BreakError, Ledger, Object, read_object
from laps_relay.sim.net.clock import Clock
from laps_sdk.upstream.interfaces import Feed
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceInfo, AnnounceKind, DataHeader, SubscribeData

__all__ = ["DirectClients"]

PULL_DELAY: Final = 0.002
"""Seconds that a publisher takes to answer."""


class _Incoming:
    """A stream that our clients receive."""

    __slots__ = ("buffer", "key", "next", "of")

    def __init__(self, key: int) -> None:
        self.key = key
        self.buffer = bytearray()
        self.next = 0
        self.of: tuple[int, int] | None = None


class DirectClients(Clients):
    """All clients of one relay in one life of it, without MoQT."""

    __slots__ = ("_core", "_incoming", "_pulled")

    def __init__(
        self,
        clock: Clock,
        ledger: Ledger,
        contact: str,
        call: Call,
        core: Callable[[], NetworkRelay],
    ) -> None:
        """``core`` returns the core of the relay, which is made after its clients."""
        super().__init__(clock, ledger, contact, call)
        self._core = core
        self._pulled: dict[int, Feed] = {}
        """By key: what the network wants now, whether the publisher has agreed or not."""
        self._incoming: dict[int, _Incoming] = {}

    # What clients do

    def _announce(self, now: float, publication: Publication) -> None:
        self._core().announce(now, publication.kind, publication.name)

    def unpublish(self, publication: Publication) -> None:
        """A publisher leaves; groups in progress are finished."""
        if publication not in self.publications:
            return
        self.publications.remove(publication)
        end_streams = publication.end()
        ended = list(publication.flows)
        publication.flows.clear()

        def end(now: float) -> None:
            end_streams()
            core = self._core()
            for key in ended:
                core.publisher_ended(now, key, "the publisher ended it")
            core.withdraw(now, publication.kind, publication.name)

        self._call(end)

    @property
    def pulled(self) -> set[int]:
        """The keys of tracks that are sent because they are subscribed to."""
        return {key for each in self.publications for key in each.flows}

    def _ask(self, now: float, key: int, name: FullTrackName) -> None:  # noqa: ARG002
        self._core().subscribe(now, name, NO_DATA)

    def _ask_again(self, now: float, want: Want) -> None:
        self._core().subscribe(now, want.name, NO_DATA)

    def unsubscribe(self, key: int) -> None:
        """The last subscriber of a track goes."""
        want = self._unwant(key)
        if want is not None:
            self._call(lambda now: self._core().unsubscribe(now, want.name))

    def forget(self) -> None:
        """The clients move to another process; whatever still arrives here is ignored."""
        super().forget()
        self._incoming.clear()

    # DataSink

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
        """Take more data of the stream: objects in their order, none missing."""
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
        """Take the reset of the stream."""
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
        """Check that a client subscribed to the key when data was sent; narrow links delay data."""
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

    # LocalSide

    def serve_track(
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
                self._call(lambda now: self._core().publisher_accepted(now, key, NO_DATA))
                return
        self._call(lambda now: self._core().publisher_ended(now, key, "no publisher any more"))

    def renew(self, now: float, key: int, before: float) -> None:  # noqa: ARG002
        """Open streams should go on in new ones, from their next objects on."""
        self._renewed[key] = None

    def release(self, now: float, key: int) -> None:  # noqa: ARG002
        """Stop to send a track after the last relay has unsubscribed."""
        self._pulled.pop(key, None)
        for publication in self.publications:
            publication.flows.pop(key, None)
            _, stream = publication.open.pop(key, (None, None))
            if stream is not None:
                stream.reset(0)

    def announce_added(self, now: float, entry: AnnounceInfo) -> None:  # noqa: ARG002
        """Add a name that other relays announce."""
        if entry.plaintext is not None:
            self.discovered_names[entry.kind, entry.plaintext] = None

    def announce_removed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:  # noqa: ARG002
        """Remove a name that no other relay announces now."""
        self.discovered_names.pop((kind, name), None)
