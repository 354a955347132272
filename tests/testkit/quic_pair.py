"""Two aioquic connections, any subclass of ``QuicConnection``, on a link with virtual time.

::

    pair = QuicPair(client=FastQuicConnection, server=QuicConnection, link=Link(loss=0.1))
    pair.client.send_stream_data(0, b"hello", end_stream=True)
    pair.run()                        # until both have nothing more to say
    pair.received("server", 0)        # (b"hello", True)

No sockets, no clock: a datagram arrives when virtual time has come to its arrival, and timers
fire at exactly their time. Randomness comes from the link's seed.
"""

from __future__ import annotations

import datetime as dt
import heapq
import itertools
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import (
    ConnectionTerminated,
    DatagramFrameReceived,
    HandshakeCompleted,
    QuicEvent,
    StreamDataReceived,
)
from aioquic.tls import CipherSuite
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["CLIENT", "SERVER", "Link", "QuicPair", "configurations"]

CLIENT = ("192.0.2.1", 1001)
SERVER = ("192.0.2.2", 4433)


@cache
def _certificate() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate for "localhost" that nobody checks."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    return certificate, key


def configurations(**options: Any) -> tuple[QuicConfiguration, QuicConfiguration]:
    """For a client and a server; options go to both."""
    options = {"alpn_protocols": ["test"], "max_datagram_frame_size": 65536, **options}
    client = QuicConfiguration(is_client=True, server_name="localhost", **options)
    client.verify_mode = ssl.CERT_NONE
    server = QuicConfiguration(is_client=False, **options)
    server.certificate, server.private_key = _certificate()
    return client, server


@dataclass(slots=True, kw_only=True)
class Link:
    """What happens to datagrams on the way."""

    delay: float = 0.02
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """The share that arrives late by up to two delays."""
    corrupt: float = 0.0
    """The share of which one bit is flipped."""
    seed: int = 1
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def arrivals(self, data: bytes, now: float) -> list[tuple[float, bytes]]:
        """When a datagram arrives, and as what."""
        chance = self.random.random
        if chance() < self.loss:
            return []
        copies = 2 if chance() < self.duplicate else 1
        result = []
        for _ in range(copies):
            late = 2 * self.delay * chance() if chance() < self.reorder else 0.0
            arriving = data
            if chance() < self.corrupt:
                bit = self.random.randrange(8 * len(data))
                damaged = bytearray(data)
                damaged[bit >> 3] ^= 1 << (bit & 7)
                arriving = bytes(damaged)
            result.append((now + self.delay + late, arriving))
        return result


class QuicPair:
    """A client and a server that know each other; the handshake is done."""

    def __init__(
        self,
        *,
        client: type[QuicConnection],
        server: type[QuicConnection],
        link: Link | None = None,
        suite: CipherSuite | None = None,
        handshake: bool = True,
        **options: Any,
    ) -> None:
        self.now = 1000.0
        self.link = link or Link()
        ours, theirs = configurations(**options)
        if suite is not None:
            ours.cipher_suites = [suite]
            theirs.cipher_suites = [suite]
        self.client = client(configuration=ours)
        self.server = server(
            configuration=theirs,
            original_destination_connection_id=self.client.original_destination_connection_id,
        )
        self.sides: dict[str, QuicConnection] = {"client": self.client, "server": self.server}
        self.events: dict[str, list[QuicEvent]] = {"client": [], "server": []}
        self.sent: dict[str, list[bytes]] = {"client": [], "server": []}
        self.client_address = CLIENT
        self.on_event: Callable[[str, QuicEvent], None] | None = None
        self._order = itertools.count()
        self._wire: list[tuple[float, int, str, bytes, Any]] = []
        self.client.connect(SERVER, now=self.now)
        if handshake:
            self.run()
            assert any(isinstance(each, HandshakeCompleted) for each in self.events["client"])
            assert self.client._handshake_confirmed
            assert self.server._handshake_confirmed

    # Driving

    def flush(self, side: str) -> int:
        """Let one side send; how many datagrams it sent."""
        if self.sides[side].get_peer_address() is None:
            return 0  # a server before its first datagram
        datagrams = self.sides[side].datagrams_to_send(now=self.now)
        other = "server" if side == "client" else "client"
        for data, _ in datagrams:
            source = self.client_address if side == "client" else SERVER
            self.sent[side].append(data)
            for when, arriving in self.link.arrivals(data, self.now):
                item = (when, next(self._order), other, arriving, source)
                heapq.heappush(self._wire, item)
        self.take_events(side)
        return len(datagrams)

    def take_events(self, side: str) -> None:
        """Collect the events of one side."""
        while (event := self.sides[side].next_event()) is not None:
            self.events[side].append(event)
            if self.on_event is not None:
                self.on_event(side, event)

    def _timer(self, side: str) -> float | None:
        connection = self.sides[side]
        return None if connection._close_at is None else connection.get_timer()

    def settle(self) -> None:
        """Let both send all that they want to send now."""
        for side in self.sides:
            for _ in range(1000):
                if not self.flush(side):
                    break

    def advance(self, until: float) -> bool:
        """Go to the next thing that happens; False if that is after ``until``."""
        times = {side: self._timer(side) for side in self.sides}
        next_time = min(
            [when for when in times.values() if when is not None]
            + [item[0] for item in self._wire[:1]],
            default=None,
        )
        if next_time is None or next_time > until:
            return False
        # A timer of "now" that changes nothing must not stop the clock.
        self.now = max(next_time, self.now + 1e-6)
        while self._wire and self._wire[0][0] <= self.now:
            _, _, side, data, source = heapq.heappop(self._wire)
            self.sides[side].receive_datagram(data, source, now=self.now)
            self.take_events(side)
        for side, connection in self.sides.items():
            when = self._timer(side)
            if when is not None and when <= self.now:
                connection.handle_timer(now=self.now)
                self.take_events(side)
        return True

    def run(self, seconds: float = 3.0, *, done: Callable[[], bool] | None = None) -> None:
        """Let virtual time pass: so many seconds, or until ``done`` says so."""
        until = self.now + seconds
        while True:
            self.settle()
            if done is not None:
                if done():
                    return
                self.settle()  # asking may have made something to send
            if not self.advance(until):
                self.now = until
                return

    def run_until(self, done: Callable[[], bool], seconds: float = 300.0) -> None:
        """Let virtual time pass until something is the case, which must happen."""
        self.run(seconds, done=done)
        assert done(), "it did not happen"

    # Looking

    def received(self, side: str, stream_id: int) -> tuple[bytes, bool]:
        """What one side got on a stream, and whether it was all."""
        data = bytearray()
        ended = False
        for event in self.events[side]:
            if isinstance(event, StreamDataReceived) and event.stream_id == stream_id:
                assert not ended
                data += event.data
                ended = event.end_stream
        return bytes(data), ended

    def datagrams(self, side: str) -> list[bytes]:
        """The payloads of DATAGRAM frames that one side got."""
        return [e.data for e in self.events[side] if isinstance(e, DatagramFrameReceived)]

    def terminated(self, side: str) -> ConnectionTerminated | None:
        """How the connection ended for one side, None if it stands."""
        for event in self.events[side]:
            if isinstance(event, ConnectionTerminated):
                return event
        return None
