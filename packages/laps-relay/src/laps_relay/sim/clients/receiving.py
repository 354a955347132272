"""What arrives for a simulated relay's clients: read object by object, and held to what they want.

Objects of a stream come in their order with none missing; nothing comes that nobody wanted, or that
nobody has wanted for long. What arrives goes into the ledger, which knows the rest.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from laps_relay.sim.clients.ledger import (
    FLIGHT,
    OBJECT,
    BreakError,
    Interval,
    Ledger,
    Object,
    read_object,
)
from laps_sdk.upstream.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import DataHeader

__all__ = ["CUT", "Left", "Receiving", "Want"]

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
