"""MoQT sessions under test: two cores joined in memory, or one core and a peer made of messages.

:class:`Pair` joins a client and a server. What a core transmits goes into flight; nothing arrives
until a test says so::

    pair.to_server()          one hop: everything in flight to the server arrives, events come back
    pair.settle()             hops until nothing is in flight
    pair.deliver(choice, n)   one piece of at most n bytes of one stream: any order across streams

Streams keep their own order, as QUIC's do; STOP_SENDING travels beside them, and a reset overtakes
the bytes before it.

:class:`Lone` is one core whose peer is the test: it sends any message on any stream.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from laps_wire.moqt.control import decode, encode
from laps_wire.moqt.messages import ClientSetup, Message, ServerSetup, Setup
from laps_wire.moqt.session import (
    Action,
    CloseSession,
    Event,
    OpenStream,
    ResetStream,
    Role,
    SendData,
    Session,
    SessionConfig,
    StopSending,
    Terminated,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft

__all__ = ["Endpoint", "Lone", "Pair"]


@dataclass
class Flight:
    """What is on its way to one endpoint on one stream."""

    data: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """Chunks and whether the stream ends behind them."""
    reset: int | None = None
    stop: int | None = None

    @property
    def empty(self) -> bool:
        return not self.data and self.reset is None and self.stop is None


class Endpoint:
    """A core and the transport around it."""

    def __init__(self, config: SessionConfig) -> None:
        self.session = Session(config)
        self.role = config.role
        self.events: list[Event] = []
        """All events so far."""
        self.actions: list[Action] = []
        """All actions so far."""
        self.streams: dict[int, int] = {}
        """Stream ids by the serial of their refs."""
        self._counts = {False: 0, True: 0}
        self.inbox: dict[int, Flight] = {}
        """What is in flight to this endpoint, by stream id."""
        self.closing: tuple[int, str] | None = None
        """A close that is in flight to this endpoint."""

    def next_id(self, *, unidirectional: bool) -> int:
        count = self._counts[unidirectional]
        self._counts[unidirectional] += 1
        return count << 2 | unidirectional << 1 | self.role.value

    def take_events(self) -> list[Event]:
        new = self.session.poll_events()
        self.events += new
        return new

    def transmit(self, peer: Endpoint) -> None:
        """Carry out what the core wants done: into flight to the peer."""
        for action in self.session.poll_transmit():
            self.actions.append(action)
            if isinstance(action, CloseSession):
                peer.closing = (action.code, action.reason)
                continue
            if isinstance(action, OpenStream):
                stream_id = self.next_id(unidirectional=action.unidirectional)
                self.session.bind_stream(action.stream, stream_id)
                self.streams[action.stream.serial] = stream_id
                continue
            flight = peer.inbox.setdefault(self.session.stream_id(action.stream), Flight())
            match action:
                case SendData(data=data, fin=fin):
                    flight.data.append((data, fin))
                case ResetStream(code=code):
                    flight.reset = code
                case StopSending(code=code):
                    flight.stop = code

    def receive(self, stream_id: int, *, limit: int | None = None, what: int = 0) -> None:
        """One thing on one stream arrives: a stop, a reset, or up to ``limit`` bytes."""
        flight = self.inbox[stream_id]
        if flight.stop is not None and (what == 1 or (not flight.data and flight.reset is None)):
            code, flight.stop = flight.stop, None
            self.session.receive_stop_sending(stream_id, code)
        elif flight.reset is not None and (what == 2 or not flight.data):
            code, flight.reset = flight.reset, None
            flight.data.clear()
            self.session.receive_stream_reset(stream_id, code)
        elif flight.data:
            data, fin = flight.data.popleft()
            if limit is not None and len(data) > limit:
                flight.data.appendleft((data[limit:], fin))
                data, fin = data[:limit], False
            self.session.receive_stream_data(stream_id, data, fin)
        if flight.empty:
            del self.inbox[stream_id]

    def receive_all(self) -> None:
        """Everything in flight arrives, stream by stream in the order they were used."""
        for stream_id in list(self.inbox):
            while stream_id in self.inbox:
                self.receive(stream_id)
        if self.closing is not None:
            code, reason = self.closing
            self.closing = None
            self.session.receive_connection_lost(code, reason)


class Pair:
    """A client and a server."""

    def __init__(
        self,
        draft: Draft,
        *,
        client: dict[str, Any] | None = None,
        server: dict[str, Any] | None = None,
    ) -> None:
        self.draft = draft
        self.client = Endpoint(SessionConfig(draft=draft, role=Role.CLIENT, **(client or {})))
        self.server = Endpoint(SessionConfig(draft=draft, role=Role.SERVER, **(server or {})))

    @classmethod
    def established(cls, draft: Draft, **configs: dict[str, Any]) -> Pair:
        """A pair that has exchanged SETUP; its events and actions so far are forgotten."""
        pair = cls(draft, **configs)
        pair.settle()
        for end in (pair.client, pair.server):
            assert end.session.established
            end.events.clear()
            end.actions.clear()
        return pair

    def transmit(self) -> None:
        """Put what both cores want to send into flight."""
        self.client.transmit(self.server)
        self.server.transmit(self.client)

    def to_server(self) -> list[Event]:
        """One hop to the server; gives its new events."""
        return self._hop(self.server)

    def to_client(self) -> list[Event]:
        """One hop to the client; gives its new events."""
        return self._hop(self.client)

    def _hop(self, end: Endpoint) -> list[Event]:
        self.transmit()
        end.receive_all()
        return end.take_events()

    def settle(self) -> None:
        """Hops until nothing is in flight."""
        self.transmit()
        while self.in_flight():
            self.to_server()
            self.to_client()
            self.transmit()
        self.client.take_events()
        self.server.take_events()

    def in_flight(self) -> list[tuple[Endpoint, int]]:
        """Every stream with something on its way, and to whom."""
        ends = (self.client, self.server)
        return [(end, stream_id) for end in ends for stream_id in end.inbox] + [
            (end, -1) for end in ends if end.closing is not None
        ]

    def deliver(self, choice: int, limit: int, what: int = 0) -> None:
        """Something in flight arrives: stream ``choice``, at most ``limit`` bytes."""
        self.transmit()
        flights = [item for item in self.in_flight() if item[1] >= 0]
        if flights:
            end, stream_id = flights[choice % len(flights)]
            end.receive(stream_id, limit=limit, what=what)
            end.take_events()

    @property
    def violations(self) -> list[Event]:
        """How the session ended, if it did."""
        ends = (self.client, self.server)
        return [event for end in ends for event in end.events if isinstance(event, Terminated)]


class Lone:
    """One core; the test is its peer."""

    def __init__(self, draft: Draft, role: Role, **config: Any) -> None:
        self.draft = draft
        self.end = Endpoint(SessionConfig(draft=draft, role=role, **config))
        self.peer = Endpoint(SessionConfig(draft=draft, role=role.peer))
        """Only for its stream ids and its inbox; its core is not used."""
        self.session = self.end.session
        self.control_id = -1
        """The stream on which the peer sends control messages."""

    @classmethod
    def established(
        cls, draft: Draft, role: Role, options: SetupOptions | None = None, **config: Any
    ) -> Lone:
        """A core whose peer has sent SETUP, allowing 100 requests in draft 16."""
        lone = cls(draft, role, **config)
        if options is None:
            options = SetupOptions(max_request_id=200 if draft is Draft.D16 else None)
        lone.setup(options)
        assert lone.session.established
        lone.events()
        lone.sent()
        return lone

    def setup(self, options: SetupOptions) -> None:
        """The peer sends its SETUP."""
        self.open_control()
        if self.draft is Draft.D18:
            self.control(Setup(options))
        elif self.end.role is Role.SERVER:
            self.control(ClientSetup(options))
        else:
            self.control(ServerSetup(options))

    def open_control(self) -> None:
        """Settle which stream the peer's control messages come on."""
        self.transmit()
        if self.draft is Draft.D16:
            # The client's first bidirectional stream; a client under test has opened it already.
            server = self.end.role is Role.SERVER
            self.control_id = self.peer.next_id(unidirectional=False) if server else 0
        else:
            self.control_id = self.peer.next_id(unidirectional=True)

    # The peer sends

    def raw(self, stream_id: int, data: bytes, *, fin: bool = False) -> None:
        self.transmit()
        self.session.receive_stream_data(stream_id, data, fin)
        self.transmit()

    def on(self, stream_id: int, *messages: Message, fin: bool = False) -> None:
        self.raw(stream_id, b"".join(encode(m, self.draft) for m in messages), fin=fin)

    def control(self, *messages: Message) -> None:
        self.on(self.control_id, *messages)

    def bidi(self, *messages: Message, fin: bool = False) -> int:
        """The peer opens a bidirectional stream with these messages."""
        stream_id = self.peer.next_id(unidirectional=False)
        self.on(stream_id, *messages, fin=fin)
        return stream_id

    def request(self, message: Message) -> int:
        """The peer makes a request, on the stream where its draft has it."""
        if self.draft is Draft.D18 or type(message).__name__ == "SubscribeNamespace":
            return self.bidi(message)
        self.control(message)
        return self.control_id

    # What the core did

    def transmit(self) -> None:
        self.end.transmit(self.peer)

    def events(self) -> list[Event]:
        """New events."""
        return self.end.take_events()

    def stream_of(self, index: int = -1) -> int:
        """The id of a stream that the core opened; the latest one."""
        self.transmit()
        opened = [a for a in self.end.actions if isinstance(a, OpenStream)]
        return self.end.streams[opened[index].stream.serial]

    def sent(self) -> dict[int, list[Any]]:
        """What the core has sent since the last call, by stream: messages, "fin", resets, stops."""
        self.transmit()
        seen: dict[int, list[Any]] = {}
        for stream_id, flight in self.peer.inbox.items():
            items = seen.setdefault(stream_id, [])
            data = b"".join(chunk for chunk, _ in flight.data)
            pos = 0
            while pos < len(data):
                message, pos = decode(data, self.draft, pos=pos)
                items.append(message)
            if any(fin for _, fin in flight.data):
                items.append("fin")
            if flight.reset is not None:
                items.append(("reset", flight.reset))
            if flight.stop is not None:
                items.append(("stop", flight.stop))
        self.peer.inbox.clear()
        return seen

    @property
    def close_code(self) -> int | None:
        """The code that the core closed with, if it did."""
        self.transmit()
        return None if self.peer.closing is None else self.peer.closing[0]

    @property
    def close_reason(self) -> str:
        self.transmit()
        return "" if self.peer.closing is None else self.peer.closing[1]
