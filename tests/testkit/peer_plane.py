"""Peers for tests of the forwarding plane between relays: what was sent to them, as it was sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from laps_relay.peer_forwarding.forwarding import EgressSet, Ingress
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_sdk.forwarding.interfaces import OutStream
from laps_wire.peering.laps2 import (
    DataHeader,
    DataKind,
    decode_data_header,
    encode_data_header,
)
from laps_wire.peering.session import SnsStanding

__all__ = ["CONTEXT", "KEY", "Holder", "Out", "Peer", "PeerNet", "Sink", "head"]

KEY = 0x1122_3344_5566_7788
CONTEXT = 0xC0DE


class Out:
    """An outgoing stream that keeps what is written; bytes wait in it if the peer is slow."""

    def __init__(
        self, peer: Peer, priority: int, droppable: bool, drop_code: int, deadline: float | None
    ) -> None:
        self.peer = peer
        self.priority = priority
        self.droppable = droppable
        self.drop_code = drop_code
        self.deadline = deadline
        self.writes: list[bytes] = []
        self.fin = False
        self.reset_code: int | None = None
        self.gone = False
        """Dropped, or stopped by the peer."""
        self.sent = 0
        """Bytes that left although the peer is slow."""

    @property
    def data(self) -> bytes:
        """All that was written."""
        return b"".join(self.writes)

    @property
    def header(self) -> DataHeader:
        """The one that it begins with."""
        return decode_data_header(self.data)

    @property
    def payload(self) -> bytes:
        """What stands behind the header."""
        return self.data[self.header.size :]

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self.fin or self.gone or self.reset_code is not None

    @property
    def queued(self) -> int:
        """Bytes that wait."""
        over = self.gone or self.reset_code is not None
        return len(self.data) - self.sent if self.peer.slow and not over else 0

    def write(self, data: bytes, fin: bool = False) -> None:
        """Keep it."""
        assert type(data) is bytes
        if not self.closed:
            self.writes.append(data)
            self.fin = fin
            if self.peer.on_write is not None:
                self.peer.on_write()

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """Taken, as a write."""
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        """Nothing is refused."""
        raise AssertionError(source)

    def reset(self, code: int) -> None:
        """Also takes back what waits behind a FIN."""
        if not self.closed or (self.fin and self.queued):
            self.reset_code = code

    def set_priority(self, priority: int) -> None:
        """Keep it."""
        self.priority = priority

    def set_deadline(self, deadline: float | None) -> None:
        """Keep it."""
        self.deadline = deadline


class Peer:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.slow = False
        self.on_write: Callable[[], None] | None = None
        """Called in the middle of a write."""
        self.max_datagram_size = 1200
        self.streams: list[Out] = []
        self.datagrams: list[tuple[bytes, float | None]] = []
        self.stopped: list[tuple[int, int]] = []
        self.flying: set[int] = set()
        """Streams that have ended, and not arrived."""

    def unacknowledged(self) -> frozenset[int]:
        """As it was told."""
        return frozenset(self.flying)

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        """One more stream."""
        stream = Out(self, priority, droppable, drop_code, deadline)
        self.streams.append(stream)
        return stream

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """Keep it."""
        self.datagrams.append((data, deadline))
        return True

    def stop_sending(self, stream_id: int, code: int) -> None:
        """Keep it."""
        self.stopped.append((stream_id, code))


class Holder:
    """What a session knows of its sets, and the data that waits for them."""

    def __init__(self) -> None:
        self.standing: dict[int, SnsStanding] = {}
        """UNKNOWN if it is not here."""
        self.items: list[tuple[int, object, int]] = []

    def __call__(self, now: float, sns_id: int, item: object, size: int) -> SnsStanding:
        """See ``HoldData``."""
        del now
        standing = self.standing.get(sns_id, SnsStanding.UNKNOWN)
        if standing is SnsStanding.UNKNOWN:
            self.items.append((sns_id, item, size))
        return standing

    def take(self, sns_id: int) -> list[object]:
        """What waits for a set."""
        taken = [item for number, item, _ in self.items if number == sns_id]
        self.items = [each for each in self.items if each[0] != sns_id]
        return taken


@dataclass
class Arrived:
    """A stream as our own clients get it."""

    header: DataHeader
    chunks: list[bytes]
    fin: bool
    code: int | None = None

    @property
    def data(self) -> bytes:
        """All of it."""
        return b"".join(self.chunks)


class Sink:
    """Our own clients."""

    def __init__(self) -> None:
        self.streams: dict[int, Arrived] = {}
        self.datagrams: list[tuple[DataHeader, bytes]] = []
        self.spurns = False
        """Whether nothing more of a stream is wanted."""

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> bool:
        """Keep it."""
        del now
        assert stream not in self.streams
        self.streams[stream] = Arrived(header, [data], fin)
        return not self.spurns

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        """Keep it."""
        del now
        arrived = self.streams[stream]
        assert not arrived.fin
        assert arrived.code is None
        arrived.chunks.append(data)
        arrived.fin = fin

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        """Keep it."""
        del now
        arrived = self.streams[stream]
        assert not arrived.fin
        assert arrived.code is None
        arrived.code = code

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        """Keep it."""
        del now
        self.datagrams.append((header, payload))


def head(
    sns_id: int = 7,
    *,
    kind: DataKind = DataKind.STREAM,
    priority: int = 128,
    ttl_ms: int = 0,
    payload_format: int = 0,
    extensions: bytes = b"",
) -> bytes:
    """A data header."""
    return encode_data_header(
        DataHeader(
            kind,
            sns_id,
            KEY,
            CONTEXT,
            priority=priority,
            ttl_ms=ttl_ms,
            payload_format=payload_format,
            extensions=extensions,
        )
    )


@dataclass
class PeerNet:
    """A plane with peers: data comes from session 1, set 7; sessions 2, 3, ... are told of it."""

    peers: int = 2
    local: bool = False
    set_linger: float = 1.0
    now: float = 100.0
    sink: Sink = field(default_factory=Sink)

    def __post_init__(self) -> None:
        self.plane = PeerPlane(self.sink, set_linger=self.set_linger)
        self.peer: dict[int, Peer] = {}
        self.holder: dict[int, Holder] = {}
        self.session(1)
        for number in range(2, 2 + self.peers):
            self.session(number)
        self.install(tuple(range(2, 2 + self.peers)), local=self.local)

    def session(self, number: int) -> Peer:
        """One more connection."""
        peer = self.peer[number] = Peer()
        holder = self.holder[number] = Holder()
        self.plane.add_session(number, peer, holder)
        return peer

    def install(
        self, sessions: Sequence[int], *, sns_id: int = 7, local: bool = False, out_id: int = 70
    ) -> None:
        """Send what comes from session 1 to the sets ``out_id + session`` of some sessions."""
        egress = [EgressSet(number, out_id + number) for number in sessions]
        self.plane.install(self.now, Ingress(1, sns_id), egress, local=local)

    def send(
        self, data: bytes, *, stream: int = 3, fin: bool = False, session: int = 1, step: int = 0
    ) -> None:
        """A chunk of a stream, or many of ``step`` bytes."""
        pieces = [data[at : at + step] for at in range(0, len(data), step)] if step else [data]
        for index, piece in enumerate(pieces):
            last = fin and index == len(pieces) - 1
            self.plane.stream_data(self.now, session, stream, piece, last)

    def gone(self, session: int, index: int = -1, lost: int = 5, *, stopped: bool = False) -> None:
        """An outgoing stream is given up by the connection, or stopped by the peer."""
        stream = self.peer[session].streams[index]
        stream.gone = True
        self.plane.out_stream_gone(self.now, session, stream, lost, stopped=stopped)

    def wait(self, seconds: float) -> None:
        """Let time pass, with every timer that is due in it."""
        end = self.now + seconds
        while (due := self.plane.poll_timeout()) is not None and due <= end:
            self.now = max(self.now, due)
            self.plane.handle_timeout(self.now)
        self.now = end
