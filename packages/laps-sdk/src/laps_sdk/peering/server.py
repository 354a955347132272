"""The peer port of a relay: one UDP socket that listens for other relays and dials them.

::

    Endpoint --connection--> PeerServer --PeerPort--> PeerRelay
    poll_dials --> a task for each dial --> connection, or dial_failed
    after each turn: output of sessions sent, dials begun, observers called, the timer set
    once a second: round trip and loss of every connection, then on_sample

Everything except dials runs in the loop's thread without waiting. The session proves the identity
of a listener's certificate (laps-2, 4.2). TLS may know the network's authority but need not.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from socket import socket
from typing import Final

from laps_sdk.errors import ConnectError
from laps_sdk.peering.events import Dial
from laps_sdk.peering.port import PeerPort, PeerRelay
from laps_sdk.peering.settings import ContactError, parse_contact
from laps_sdk.quic.admission import AdmissionLimits
from laps_sdk.quic.base import Connection, ConnectionLimits, EgressLimits, Handler, IgnoringHandler
from laps_sdk.quic.endpoint import Backend, Endpoint, open_endpoint
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_sdk.quic.turns import TurnServer
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.session import CPP_16, LAPS2

__all__ = ["PEER_ALPNS", "PeerServer", "PeerServerConfig"]

PEER_ALPNS: Final = (LAPS2.alpn, CPP_16.alpn)
"""The protocols of the peer port, the preferred one first."""

_LIMITS: Final = ConnectionLimits(
    max_streams_bidi=16,
    max_streams_uni=8_192,
    max_data=64 * 1024 * 1024,
    max_stream_data=8 * 1024 * 1024,
)
"""Limits of a connection, which carries the tracks of many clients and few control streams."""
_EGRESS: Final = EgressLimits(
    max_bytes=64 * 1024 * 1024,
    max_control_bytes=256 * 1024 * 1024,
    high_water=8 * 1024 * 1024,
    low_water=2 * 1024 * 1024,
    max_waiting_streams=8_192,
    max_datagrams=4_096,
)
"""Limits of the queue: a new peer gets all known state at once, which may be large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerServerConfig:
    """The set-up of a peer port."""

    host: str = "127.0.0.1"
    port: int = 0
    backend: Backend = "aioquic"
    alpns: tuple[str, ...] = PEER_ALPNS
    """The accepted protocols; ``moqt-16`` is for C++ relays only."""
    engine: EngineOptions = field(default_factory=EngineOptions)
    """Certificate and trust; the server fills in ``alpn`` and ``limits``."""
    limits: ConnectionLimits = _LIMITS
    egress: EgressLimits = _EGRESS
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    dial_timeout: float = 10.0
    """Seconds after which a dial without a connection fails."""
    sample_interval: float = 1.0
    """Seconds between two measurements of round trips and losses."""


class PeerServer(TurnServer):
    """A peer port: call ``start``, then ``stop``; ``address`` is valid in between."""

    CLOSED = "the peer port is not open"

    def __init__(
        self, config: PeerServerConfig, relay: PeerRelay, *, network: MemoryNetwork | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.relay = relay
        self.ports: dict[int, PeerPort] = {}
        """The connections by session number."""
        self.on_sample: Callable[[float], None] | None = None
        """Called once in ``sample_interval``, when all connections have been measured."""
        self._network = network
        self._serial = itertools.count(1)
        self._sampler: asyncio.TimerHandle | None = None
        self._dials: set[asyncio.Task[None]] = set()

    # Start and stop

    async def start(self, sock: socket | None = None) -> None:
        """Bind, listen, and begin to dial. Raises ``TransportError`` if it cannot bind."""
        config = self.config
        self._loop = asyncio.get_running_loop()
        self._endpoint = await open_endpoint(
            host=config.host,
            port=config.port,
            backend=config.backend,
            options=replace(config.engine, alpn=config.alpns, limits=config.limits),
            egress=config.egress,
            admission=config.admission,
            listener=self._accept,
            network=self._network,
            sock=sock,
            webtransport=False,
        )
        self._sampler = self._loop.call_later(config.sample_interval, self._sample)
        self.settle()

    async def stop(self, code: int = CloseCode.NO_ERROR, reason: str = "") -> None:
        """Close every session and the socket; cancel dials in progress."""
        self.cancel_timer()
        if self._sampler is not None:
            self._sampler.cancel()
            self._sampler = None
        endpoint, self._endpoint = self._endpoint, None
        dials = list(self._dials)
        for task in dials:
            task.cancel()
        await asyncio.gather(*dials, return_exceptions=True)
        if endpoint is not None:
            await endpoint.close(code, reason)

    # Connections

    def _accept(self, connection: Connection) -> Handler:
        return self._port(connection, None)

    def _port(self, connection: Connection, dial: Dial | None) -> Handler:
        asked = "" if dial is None else dial.alpn
        if connection.alpn not in ((asked,) if asked else self.config.alpns):
            connection.close(CloseCode.VERSION_MISMATCH, "no peering protocol in common")
            return IgnoringHandler()
        number = next(self._serial)
        port = self.ports[number] = PeerPort(
            self.relay,
            number,
            connection,
            dial,
            settle=self.settle,
            on_closed=self._forget,
            call_later=self._call_later,
        )
        port.open()
        return port

    def _forget(self, number: int) -> None:
        self.ports.pop(number, None)

    def _call_later(self, delay: float, callback: Callable[[], None]) -> None:
        if self._loop is not None:
            self._loop.call_later(delay, callback)

    # Dialling

    def _begin(self, dial: Dial) -> None:
        if self._loop is not None and self._endpoint is not None:
            task = self._loop.create_task(self._dial(dial, self._endpoint))
            self._dials.add(task)
            task.add_done_callback(self._dials.discard)

    async def _dial(self, dial: Dial, endpoint: Endpoint) -> None:
        try:
            await endpoint.connect(
                parse_contact(dial.contact),
                handler=lambda connection: self._port(connection, dial),
                alpn=(dial.alpn,) if dial.alpn else self.config.alpns,
                timeout=self.config.dial_timeout,
            )
        except Exception as error:
            # Whatever the error is, the dialler needs the result to dial again.
            if self._endpoint is not None:
                self.relay.dial_failed(self.now, dial.number, str(error))
                self.settle()
            if not isinstance(error, (ConnectError, ContactError, OSError)):
                raise

    # Turns

    def round(self, now: float) -> None:
        """Send the output of sessions, begin dials, call observers."""
        relay, ports = self.relay, self.ports
        while dirty := relay.poll_dirty():
            for number in dirty:
                items = relay.poll_transmit(number)
                port = ports.get(number)
                if port is not None:
                    port.carry_out(items)
        for dial in relay.poll_dials(now):
            self._begin(dial)
        # The Edge may react to it, which is part of the turn.
        if self.on_turn is not None:
            self.on_turn(now)

    def turned(self, now: float) -> None:
        """Do nothing: each round calls the observers."""

    def next_due(self) -> float | None:
        """Return when the relay has a timer due."""
        return self.relay.poll_timeout()

    def due(self, now: float) -> None:
        """Handle the relay's timers."""
        self.relay.handle_timeout(now)

    def _sample(self) -> None:
        if self._loop is None or self._endpoint is None:
            return
        self._sampler = self._loop.call_later(self.config.sample_interval, self._sample)
        for port in list(self.ports.values()):
            port.measure()
        if self.on_sample is not None:
            self.on_sample(self.now)
        self.settle()
