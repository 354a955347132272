"""Two engine connections joined without sockets, on virtual time.

:class:`Link` is the network and both endpoints' shells: it flushes, carries datagrams for
``delay`` seconds, calls timers, and collects events. Nothing happens but in :meth:`Link.run`::

    client --flush--> [loss, duplication, reordering, mtu] --delay--> feed --> server
           <--feed--                                       <--flush--

Time jumps from one arrival or timer to the next, so a minute of silence costs nothing. All choices
come from one seeded generator: a run can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar

from aioquic.quic.packet import QuicProtocolVersion, encode_quic_retry

from laps_sdk.quic.aioquic.engine import AioquicEngine
from laps_sdk.quic.base import Address, ConnectionLimits
from laps_sdk.quic.engine import Engine, EngineConnection, EngineOptions, Tls
from laps_sdk.quic.events import Closed, Connected, DatagramReceived, Event, StreamData
from laps_sdk.quic.library import long_header_ids
from testkit.certs import certificates

__all__ = ["ALPN", "ENGINES", "SERVER_ADDRESS", "End", "Link", "connected", "make_engine"]

ALPN = "moqt-16"
ENGINES = ("aioquic", "aioquic-stock", "qh3")
CLIENT_ADDRESS: Address = ("192.0.2.1", 4999)
SERVER_ADDRESS: Address = ("192.0.2.2", 443)
_RETRY_ID = b"retry-id"
E = TypeVar("E")


def make_engine(
    name: str,
    *,
    server: bool,
    tls: Tls | None = None,
    alpn: tuple[str, ...] = (ALPN,),
    limits: ConnectionLimits | None = None,
    datagram_size: int = 1452,
    qlog_dir: str | None = None,
) -> Engine:
    """An engine by the name that ``--transport`` has for it."""
    options = EngineOptions(
        alpn=alpn,
        tls=tls or (certificates().server if server else certificates().trusting),
        limits=limits or ConnectionLimits(),
        datagram_size=datagram_size,
        qlog_dir=qlog_dir,
    )
    if name == "qh3":
        # Only here: without the extra the module cannot be imported.
        from laps_sdk.quic.qh3.engine import Qh3Engine  # noqa: PLC0415

        return Qh3Engine(options)
    return AioquicEngine(options, fast=name == "aioquic")


@dataclass
class End:
    """One side: its connection and what it told."""

    address: Address
    connection: EngineConnection | None = None
    events: list[Event] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Of all datagrams that it sent."""
    unroutable: int = 0
    """Datagrams with an id that the connection did not tell."""

    late_ids: int = 0
    """Ids that were told only after the packet that gives them to the peer."""

    @property
    def quic(self) -> EngineConnection:
        """The connection, which must exist."""
        assert self.connection is not None
        return self.connection

    def of(self, kind: type[E]) -> list[E]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def closed(self) -> Closed | None:
        """How it ended, if it did."""
        found = self.of(Closed)
        return found[0] if found else None

    @property
    def connected(self) -> bool:
        """Whether the handshake is complete."""
        return bool(self.of(Connected))

    def received(self, stream_id: int) -> bytes:
        """All bytes of a stream so far."""
        return b"".join(event.data for event in self.of(StreamData) if event.stream_id == stream_id)

    def finished(self, stream_id: int) -> bool:
        """Whether the end of a stream arrived."""
        return any(event.fin for event in self.of(StreamData) if event.stream_id == stream_id)

    def datagrams(self) -> list[bytes]:
        """All datagrams so far."""
        return [event.data for event in self.of(DatagramReceived)]


class Link:
    """See the module."""

    def __init__(
        self,
        client: Engine,
        server: Engine,
        *,
        seed: int = 1,
        delay: float = 0.01,
        loss: float = 0.0,
        duplicate: float = 0.0,
        reorder: float = 0.0,
        mtu: int = 1472,
        alpn: Sequence[str] = (ALPN,),
        server_name: str | None = "localhost",
        addresses: tuple[Address, Address] = (CLIENT_ADDRESS, SERVER_ADDRESS),
    ) -> None:
        self.now = 1000.0
        self.delay, self.loss, self.duplicate, self.reorder = delay, loss, duplicate, reorder
        self.mtu = mtu
        self.cut = False
        """Whether nothing arrives any more."""
        self.retry = server.needs_retry
        """Whether the server sends a Retry first."""
        self._engine = server
        self._random = random.Random(seed)
        self._flight: list[tuple[float, int, End, bytes, Address]] = []
        self._order = count()
        self._ports = count(5000)
        self._original: bytes | None = None
        self.client, self.server = (End(address) for address in addresses)
        self.client.connection = client.dial(
            self.server.address, alpn=alpn, server_name=server_name, now=self.now
        )

    def rebind(self) -> None:
        """The client appears under another address from now on, and does not know it."""
        self.client.address = (self.client.address[0], next(self._ports))

    def run(self, until: Callable[[], object], *, limit: float = 120.0) -> None:
        """Let time pass until something is so; fails if it is not within ``limit`` seconds."""
        end = self.now + limit
        self._flush()
        while not until():
            moment = self._next()
            assert moment is not None, "nothing more can happen"
            assert moment <= end, f"not within {limit} s of virtual time"
            self._advance(moment)

    def settle(self, seconds: float = 1.0) -> None:
        """Let some time pass."""
        end = self.now + seconds
        self._flush()
        while (moment := self._next()) is not None and moment <= end:
            self._advance(moment)
        self.now = end

    def _next(self) -> float | None:
        moments = [self._flight[0][0]] if self._flight else []
        for end in (self.client, self.server):
            timer = end.connection.next_timer() if end.connection else None
            if timer is not None:
                moments.append(timer)
        return max(self.now, min(moments)) if moments else None

    def _advance(self, moment: float) -> None:
        # A timer that is due again and again without effect must not stop the clock.
        self.now = now = max(moment, self.now + 1e-6)
        arrived: dict[tuple[str, Address], tuple[End, list[bytes]]] = {}
        while self._flight and self._flight[0][0] <= now:
            _, _, end, data, source = heappop(self._flight)
            key = ("client" if end is self.client else "server", source)
            arrived.setdefault(key, (end, []))[1].append(data)
        for (_, source), (end, batch) in arrived.items():
            self._arrive(end, batch, source)
        for end in (self.client, self.server):
            quic = end.connection
            timer = quic.next_timer() if quic else None
            if quic is not None and timer is not None and timer <= now:
                quic.on_timer(now)
        self._flush()

    def _arrive(self, end: End, batch: list[bytes], source: Address) -> None:
        if end.connection is None:
            batch = self._accept(batch, source)
        quic = end.connection
        if quic is None:
            return
        known = set(quic.connection_ids)
        routed = [data for data in batch if b"" in known or _destination(data) in known]
        end.unroutable += len(batch) - len(routed)
        if routed:
            quic.feed(routed, source, self.now)

    def _accept(self, batch: list[bytes], source: Address) -> list[bytes]:
        """Begin the server's connection; before that a Retry, for engines that need it."""
        first = batch[0]
        destination, client_id = long_header_ids(first)
        if self.retry and destination != _RETRY_ID:
            self._original = destination
            retry = encode_quic_retry(
                version=QuicProtocolVersion.VERSION_1,
                source_cid=_RETRY_ID,
                destination_cid=client_id,
                original_destination_cid=destination,
                retry_token=b"token",
            )
            self._post(self.client, retry, self.server.address)
            return []
        self.server.connection = self._engine.accept(
            first,
            source,
            original_destination=self._original,
            retry_source=None if self._original is None else _RETRY_ID,
            now=self.now,
        )
        return batch

    def _flush(self) -> None:
        for end, other in ((self.client, self.server), (self.server, self.client)):
            quic = end.connection
            if quic is None:
                continue
            end.events += quic.events()
            known = set(quic.connection_ids)
            bursts = quic.flush(self.now)
            end.late_ids += len(set(quic.connection_ids) - known)
            for burst in bursts:
                for data in burst.datagrams:
                    end.sizes.append(len(data))
                    # An address that the client has left reaches nobody.
                    if burst.address == other.address:
                        self._post(other, data, end.address)
            end.events += quic.events()

    def _post(self, end: End, data: bytes, source: Address) -> None:
        chance = self._random.random
        if self.cut or len(data) > self.mtu or chance() < self.loss:
            return
        for _ in range(2 if chance() < self.duplicate else 1):
            late = self.delay * 3 * chance() if chance() < self.reorder else 0.0
            moment = self.now + self.delay + late
            heappush(self._flight, (moment, next(self._order), end, data, source))


def _destination(data: bytes) -> bytes:
    return long_header_ids(data)[0] if data[0] & 0x80 else data[1:9]


def connected(client: str, server: str, **options: object) -> Link:
    """Two engines by name, connected."""
    link = Link(make_engine(client, server=False), make_engine(server, server=True), **options)  # type: ignore[arg-type]  # Link's own
    link.run(lambda: link.client.connected and link.server.connected)
    return link
