"""Two peering sessions and a network between them: virtual time, any chunking, a delay per stream.

The network keeps the order inside a stream and nothing else: streams may overtake each other. It
behaves as QUIC does where a session can see it: STOP_SENDING is answered with a reset, nothing
follows the end of a half, and a reset may swallow what was under way before it.

A :class:`Pair` takes one step at a time (:meth:`Pair.hop`) for tests that look at every hop, or
runs until nothing is under way (:meth:`Pair.run`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodeSelf, RelayType, Settings, Stamp
from laps_wire.peering.session import (
    LAPS2,
    AuthenticationRequired,
    AuthenticationStep,
    ConnectionClose,
    Dialect,
    Ending,
    Event,
    PeeringSession,
    Role,
    SessionConfig,
    StreamData,
    StreamEnd,
    Transmit,
)

DIALLER, LISTENER = 0, 1


def node(
    number: int, relay_type: RelayType = RelayType.EDGE, *, epoch: int = 1, contact: str = ""
) -> NodeInfo:
    """Node information of a node about itself."""
    contacts = (contact or f"relay-{number}.example.net",)
    return NodeInfo(NodeSelf(NodeId(number), relay_type, Stamp(epoch, 0), contacts))


def config(role: Role, number: int | None = None, **changes: Any) -> SessionConfig:
    """A configuration with everything that a test does not care about."""
    dialler = role is Role.DIALLER
    if number is None:
        number = 10 if dialler else 20
    values: dict[str, Any] = {
        "role": role,
        "node_info": node(number),
        "challenge": bytes([0xD1 if dialler else 0x15]) * 32,
        "spki_hash": bytes(range(32)),
        "settings": Settings(hash_check=7),
    }
    return SessionConfig(**{**values, **changes})


def agreeable(session: PeeringSession, now: float, event: Event) -> None:
    """An application that says yes to everything."""
    if isinstance(event, AuthenticationRequired):
        if event.step is AuthenticationStep.SIGN:
            session.prove(now)
        else:
            session.accept(now)


def silent(session: PeeringSession, now: float, event: object) -> None:
    """An application that does not answer."""


@dataclass(order=True)
class _Flight:
    at: float
    serial: int
    to: int = field(compare=False)
    stream_id: int | None = field(compare=False)
    what: str = field(compare=False)
    data: bytes = field(compare=False, default=b"")
    code: int = field(compare=False, default=0)


class Pair:
    """Two sessions, dialler and listener, and what is under way between them."""

    def __init__(
        self,
        dialler: SessionConfig | None = None,
        listener: SessionConfig | None = None,
        *,
        dialect: Dialect = LAPS2,
        chunk: int | None = None,
        delay: float = 0.01,
        stream_delay: dict[int, float] | None = None,
        answer: Callable[[PeeringSession, float, Event], None] = agreeable,
    ) -> None:
        self.now = 100.0
        self.sessions = (
            PeeringSession(dialler or config(Role.DIALLER), dialect, self.now),
            PeeringSession(listener or config(Role.LISTENER), dialect, self.now),
        )
        self.chunk = chunk
        self.delay = delay
        self.stream_delay = stream_delay or {}
        self.answer = answer
        self.events: tuple[list[Event], list[Event]] = ([], [])
        self.sent: tuple[list[Transmit], list[Transmit]] = ([], [])
        self.closed: list[tuple[int, str] | None] = [None, None]
        self._flights: list[_Flight] = []
        self._serial = 0
        self._ended: set[tuple[int, int, str]] = set()
        self._latest: dict[tuple[int, int | None], float] = {}

    @property
    def dialler(self) -> PeeringSession:
        return self.sessions[DIALLER]

    @property
    def listener(self) -> PeeringSession:
        return self.sessions[LISTENER]

    # What a shell does

    def flush(self, side: int) -> list[Event]:
        """Do all polls of one side; gives its new events."""
        session = self.sessions[side]
        while (item := session.poll_transmit()) is not None:
            self.sent[side].append(item)
            self._transmit(side, item)
        happened = session.poll_events()
        self.events[side].extend(happened)
        for event in happened:
            self.answer(session, self.now, event)
        return [*happened, *self.flush(side)] if happened else list(happened)

    def _transmit(self, side: int, item: Transmit) -> None:
        if isinstance(item, StreamData):
            size = self.chunk or max(1, len(item.data))
            for start in range(0, len(item.data), size):
                self._fly(side, item.stream_id, "data", item.data[start : start + size])
        elif isinstance(item, StreamEnd):
            half = "stop" if item.ending is Ending.STOP else "write"
            if (side, item.stream_id, half) in self._ended:
                raise AssertionError(f"side {side} ended its {half} half twice: {item}")
            self._ended.add((side, item.stream_id, half))
            if item.ending is Ending.RESET:
                self._swallow(1 - side, item.stream_id)
            self._fly(side, item.stream_id, item.ending.value, code=item.code)
        elif isinstance(item, ConnectionClose):
            self.closed[side] = (item.code, item.reason)
            self._fly(side, None, "close", item.reason.encode(), code=item.code)

    def _swallow(self, to: int, stream_id: int) -> None:
        """A reset: what is under way on the stream may never arrive, so it does not."""
        self._flights = [
            flight
            for flight in self._flights
            if not (
                flight.to == to
                and flight.stream_id == stream_id
                and flight.what in {"data", "finish"}
            )
        ]
        heapq.heapify(self._flights)

    def _fly(
        self, side: int, stream_id: int | None, what: str, data: bytes = b"", code: int = 0
    ) -> None:
        to = 1 - side
        extra = 0.0 if stream_id is None else self.stream_delay.get(stream_id, 0.0)
        at = self.now + self.delay + extra
        if what == "close":
            # A close arrives after everything that left before it.
            at = max([at, *(flight.at for flight in self._flights if flight.to == to)])
        elif what != "stop":
            at = max(at, self._latest.get((to, stream_id), 0.0))
            self._latest[to, stream_id] = at
        self._serial += 1
        heapq.heappush(self._flights, _Flight(at, self._serial, to, stream_id, what, data, code))

    # Steps

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way."""
        return not self._flights

    def hop(self) -> list[Event]:
        """Let the next thing arrive; gives the events of the side where it arrives."""
        flight = heapq.heappop(self._flights)
        self.now = max(self.now, flight.at)
        session = self.sessions[flight.to]
        stream_id = flight.stream_id
        if stream_id is None:
            session.handle_connection_closed(self.now, flight.code, flight.data.decode())
        elif flight.what == "reset":
            session.handle_stream_reset(self.now, stream_id)
        elif flight.what == "stop":
            session.handle_stop_sending(self.now, stream_id)
            if (flight.to, stream_id, "write") not in self._ended:
                self._ended.add((flight.to, stream_id, "write"))
                self._swallow(1 - flight.to, stream_id)
                self._fly(flight.to, stream_id, "reset")
        else:
            fin = flight.what == "finish"
            session.handle_stream_data(self.now, stream_id, flight.data, fin=fin)
        return self.flush(flight.to)

    def run(self, limit: int = 10_000) -> None:
        """Let everything arrive that is under way, and everything that follows from it."""
        for side in (DIALLER, LISTENER):
            self.flush(side)
        for _ in range(limit):
            if self.quiet:
                return
            self.hop()
        raise AssertionError("the two sessions never come to rest")

    def advance(self, seconds: float) -> None:
        """Let time go by; timers of both sides fire when they are due, in order."""
        until = self.now + seconds
        self.run()
        while True:
            due = [
                (at, side)
                for side in (DIALLER, LISTENER)
                if (at := self.sessions[side].poll_timeout()) is not None and at <= until
            ]
            if not due:
                break
            at, side = min(due)
            self.now = max(self.now, at)
            self.sessions[side].handle_timeout(self.now)
            self.run()
        self.now = max(self.now, until)

    def establish(self) -> Pair:
        """Run the handshake, and forget what happened in it."""
        self.dialler.connect(self.now)
        self.run()
        if not (self.dialler.established and self.listener.established):
            raise AssertionError(f"no handshake: {self.events}")
        self.forget()
        return self

    def forget(self) -> None:
        """Forget the events and transmits so far."""
        for side in (DIALLER, LISTENER):
            self.events[side].clear()
            self.sent[side].clear()
