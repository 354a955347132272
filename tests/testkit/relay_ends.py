"""What relays in memory are joined by: their clients, and the two ends of a connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from laps_relay.network.relay import NetworkRelay
from laps_sdk.peering.events import Refusal
from laps_sdk.upstream.interfaces import Answer, Feed
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import (
    NO_EVIDENCE,
    AnnounceInfo,
    AnnounceKind,
    AuthScheme,
    DataHeader,
    Evidence,
    NodeInfo,
    NodeSelf,
    SubscribeCode,
    SubscribeData,
)


class Net(Protocol):
    """The network around an end."""

    relays: dict[int, NetworkRelay]

    def later(self, end: End, what: str, *args: object) -> None:
        """Let something arrive at the other end."""


class OpenAuthenticator:
    """Everybody is who they say."""

    schemes = (int(AuthScheme.NONE),)

    def sign(self, schemes: object, transcript: object) -> Evidence:
        return NO_EVIDENCE

    def verify(self, evidence: Evidence, transcript: bytes, peer: NodeInfo) -> bytes | Refusal:
        return b""

    def sign_node(self, node: NodeSelf) -> NodeInfo:
        return NodeInfo(node)

    def verify_node(self, info: NodeInfo) -> Refusal | None:
        return None


@dataclass(eq=False)
class Clients:
    """A relay's own clients: ``LocalSide`` and ``DataSink``."""

    net: Net
    number: int
    answers: list[tuple[int, Answer, SubscribeCode, str]] = field(default_factory=list)
    feeds: dict[int, Feed] = field(default_factory=dict)
    renewed: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    known: list[FullTrackName] = field(default_factory=list)
    streams: dict[int, bytearray] = field(default_factory=dict)
    finished: list[bytes] = field(default_factory=list)
    reset: list[tuple[bytes, int]] = field(default_factory=list)
    datagrams: list[bytes] = field(default_factory=list)
    answer: bool = True
    """Whether pulls are accepted at once."""

    reasons: list[str] = field(default_factory=list)
    """All that were given with answers."""

    def serve_track(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        self.feeds[key] = feed
        if self.answer:
            self.net.relays[self.number].publisher_accepted(now, key)

    def renew(self, now: float, key: int, before: float) -> None:
        self.renewed.append(key)

    def release(self, now: float, key: int) -> None:
        self.feeds.pop(key, None)
        self.released.append(key)

    def answered(
        self,
        now: float,
        key: int,
        answer: Answer,
        *,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData,
    ) -> None:
        self.answers.append((key, answer, code, reason))
        self.reasons.append(reason)

    def announce_added(self, now: float, entry: AnnounceInfo) -> None:
        if entry.plaintext is not None:
            self.known.append(entry.plaintext)

    def announce_removed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        self.known.remove(name)

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> None:
        self.streams[stream] = bytearray()
        self.stream_data(now, stream, data, fin)

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        self.streams[stream] += data
        if fin:
            self.finished.append(bytes(self.streams.pop(stream)))

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        self.reset.append((bytes(self.streams.pop(stream)), code))

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        self.datagrams.append(bytes(payload))


class End:
    """One end of a connection: the egress that a relay is given."""

    max_datagram_size = 1200

    def __init__(self, net: Net, owner: int, session: int, delay: float) -> None:
        self.net = net
        self.owner = owner
        self.session = session
        self.delay = delay
        self.other: End
        self.open = True
        self._streams = count()
        self.incoming: dict[int, Out] = {}
        self.bytes_sent = 0

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> Out:
        out = Out(self, next(self._streams) * 4 + 2)
        self.other.incoming[out.stream_id] = out
        return out

    def unacknowledged(self) -> frozenset[int]:
        return frozenset()

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        self.net.later(self, "datagram", data)
        return True

    def stop_sending(self, stream_id: int, code: int) -> None:
        out = self.incoming.get(stream_id)
        if out is not None:
            self.net.later(self, "stopped", out)


class Out:
    """An outgoing data stream."""

    queued = 0

    def __init__(self, end: End, stream_id: int) -> None:
        self.end = end
        self.stream_id = stream_id
        self.closed = False

    def write(self, data: bytes, fin: bool = False) -> None:
        if not self.closed:
            self.closed = fin
            self.end.bytes_sent += len(data)
            self.end.net.later(self.end, "data", self.stream_id, bytes(data), fin)

    def offer(self, data: bytes, fin: bool = False) -> bool:
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        raise AssertionError(source)

    def reset(self, code: int) -> None:
        if not self.closed:
            self.closed = True
            self.end.net.later(self.end, "reset", self.stream_id, code)

    def set_priority(self, priority: int) -> None:
        pass

    def set_deadline(self, deadline: float | None) -> None:
        pass
