"""Two connections that are joined in memory, for what stands on :class:`Connection`.

Nothing happens by itself: what one end does waits until :meth:`FakePair.run` hands it to the other,
as one batch of events for each turn. No loss, no limits but those that a test sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laps_sdk.errors import StreamLimitError
from laps_sdk.quic.base import URGENT, Address, Connection, ConnectionStats, Handler, OutStream
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    StopSending,
    StreamData,
    StreamReset,
)

__all__ = ["FakeConnection", "FakePair", "FakeStream", "Recorder"]

NO_STATS = ConnectionStats(1, 2, 3, 4, None, None, None, None, None, 0, 0, 0, 0)


class Recorder:
    """A handler that keeps all events."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.events: list[Event] = []

    def __call__(self, connection: Connection) -> Recorder:
        """A listener as well."""
        self.connection = connection
        return self

    def handle_events(self, events: Sequence[Event]) -> None:
        self.events += events

    def take(self) -> list[Event]:
        taken, self.events = self.events, []
        return taken

    @property
    def session(self) -> Connection:
        assert self.connection is not None
        return self.connection


class FakeStream(OutStream):
    def __init__(self, connection: FakeConnection, stream_id: int, options: dict[str, object]):
        self._connection = connection
        self._id = stream_id
        self._closed = False
        self.options = options
        self.written = b""
        self.reset_code: int | None = None
        self.priority: int | None = None
        self.deadline: float | None = None
        self.queued_bytes = 0

    @property
    def stream_id(self) -> int | None:
        return self._id

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def queued(self) -> int:
        return self.queued_bytes

    def write(self, data: bytes, fin: bool = False) -> None:
        if self._closed:
            return
        self.written += data
        self._closed = fin
        self._connection.send(StreamData(self._id, data, fin))

    def offer(self, data: bytes, fin: bool = False) -> bool:
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        raise AssertionError(source)

    def reset(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            self.reset_code = code
            self._connection.send(StreamReset(self._id, code))

    def set_priority(self, priority: int) -> None:
        self.priority = priority

    def set_deadline(self, deadline: float | None) -> None:
        self.deadline = deadline


class FakeConnection(Connection):
    """One end. ``outbox`` is what the other end will see."""

    def __init__(self, *, is_client: bool, alpn: str = "h3") -> None:
        self._client = is_client
        self._alpn = alpn
        self._closed = False
        self.clock = 0.0
        self.outbox: list[Event] = []
        self.inbox: list[Event] = []
        self.streams: dict[int, FakeStream] = {}
        self.stopped: dict[int, int] = {}
        self.paused: set[int] = set()
        self.withheld = 0
        self.can_withhold = True
        self.closes: list[tuple[int, str]] = []
        self.bidi_allowed = 1000
        self.datagram_size = 1200
        self.is_congested = False
        self._next = [0, 0]

    def send(self, event: Event) -> None:
        if not self._closed:
            self.outbox.append(event)

    @property
    def alpn(self) -> str:
        return self._alpn

    @property
    def is_client(self) -> bool:
        return self._client

    @property
    def is_webtransport(self) -> bool:
        return False

    @property
    def peer_address(self) -> Address:
        return ("127.0.0.1", 4433)

    @property
    def authority(self) -> str:
        return "name"

    @property
    def path(self) -> str:
        return ""

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def congested(self) -> bool:
        return self.is_congested

    @property
    def max_datagram_size(self) -> int:
        return self.datagram_size

    @property
    def rtt(self) -> float | None:
        return 0.01

    @property
    def now(self) -> float:
        return self.clock

    def stats(self) -> ConnectionStats:
        return NO_STATS

    def _open(self, unidirectional: bool, options: dict[str, object]) -> FakeStream:
        number = self._next[unidirectional]
        self._next[unidirectional] += 1
        stream_id = number << 2 | unidirectional << 1 | (not self._client)
        stream = self.streams[stream_id] = FakeStream(self, stream_id, options)
        return stream

    def open_unidirectional(
        self,
        *,
        priority: int = URGENT,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        return self._open(
            True,
            {
                "priority": priority,
                "droppable": droppable,
                "drop_code": drop_code,
                "deadline": deadline,
            },
        )

    def open_bidirectional(self, *, priority: int = URGENT) -> OutStream:
        if self._next[0] >= self.bidi_allowed:
            raise StreamLimitError("no more")
        return self._open(False, {"priority": priority})

    def reply_stream(self, stream_id: int) -> OutStream:
        if stream_id not in self.streams:
            self.streams[stream_id] = FakeStream(self, stream_id, {})
        return self.streams[stream_id]

    def stop_sending(self, stream_id: int, code: int) -> None:
        if stream_id not in self.stopped:
            self.stopped[stream_id] = code
            self.send(StopSending(stream_id, code))

    def pause_reading(self, stream_id: int) -> bool:
        self.paused.add(stream_id)
        return True

    def resume_reading(self, stream_id: int) -> None:
        self.paused.discard(stream_id)

    def withhold(self, size: int) -> bool:
        if self.can_withhold:
            self.withheld = size
        return self.can_withhold

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        if len(data) > self.datagram_size:
            return False
        self.send(DatagramReceived(data))
        return True

    def close(self, code: int = 0, reason: str = "") -> None:
        if not self._closed:
            self.closes.append((code, reason))
            self.send(Closed(code, reason, by_peer=True, application=True))
            self._closed = True
            self.inbox.append(Closed(code, reason, by_peer=False, application=True))

    def take_inbox(self) -> list[Event]:
        """What happened here, without data of streams that were stopped."""
        events, self.inbox = self.inbox, []
        kept: list[Event] = []
        for event in events:
            if isinstance(event, StreamData | StreamReset) and event.stream_id in self.stopped:
                continue
            if isinstance(event, StopSending):
                self.reply_stream(event.stream_id).reset(event.code)
            if isinstance(event, Closed):
                self._closed = True
            kept.append(event)
        return kept


class FakePair:
    """A client's and a server's end; set ``handler`` of each before :meth:`run`."""

    def __init__(self) -> None:
        self.client = FakeConnection(is_client=True)
        self.server = FakeConnection(is_client=False)
        self.handlers: dict[FakeConnection, Handler] = {}
        for end in (self.client, self.server):
            end.inbox.append(Connected("h3"))

    def run(self) -> None:
        """Carry events to and fro until there are no more."""
        for _ in range(1000):
            moved = False
            for end, other in ((self.client, self.server), (self.server, self.client)):
                arrived, other.outbox = other.outbox, []
                if not any(isinstance(event, Closed) for event in end.inbox):
                    end.inbox += arrived
                events = end.take_inbox()
                if events:
                    moved = True
                    self.handlers[end].handle_events(events)
            if not moved:
                return
        raise AssertionError("the two ends never came to rest")
