"""An Edge relay on a UDP socket: joins the transport with control plane and forwarding plane.

::

    Endpoint --connection--> EdgeServer --add_session--> EdgeRelay, Plane
    Connection --events of a turn--> EdgePort --control--> EdgeRelay
                                              --data-----> Plane
    after each turn: notices to the relay, dirty sessions settled, observers told, timer set

Everything happens in the loop's own thread and nothing is awaited between a chunk that arrives and
the chunks that leave.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from socket import socket
from typing import Final

from laps_relay.core.control.relay import EdgeRelay
from laps_relay.core.control.settings import SessionInfo
from laps_relay.core.interfaces import ForwardingPlane
from laps_relay.io.port import EdgePort
from laps_sdk.transport.admission import AdmissionLimits
from laps_sdk.transport.base import Address, Connection, EgressLimits, Endpoint, Handler
from laps_sdk.transport.endpoint import Backend, open_endpoint
from laps_sdk.transport.engine import EngineOptions
from laps_sdk.transport.events import Event
from laps_sdk.transport.memory_network import MemoryNetwork
from laps_sdk.transport.moqt import DRAFTS, MoqtPeer
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.session import SessionLimits
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.top_n import TOP_N_EXTENSIONS, top_n_options
from laps_wire.moqt.versions import Draft

__all__ = ["EdgeServer", "EdgeServerConfig"]

_SETUP: Final = SetupOptions(moqt_implementation="laps-relay", unknown=top_n_options())


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeServerConfig:
    """Where and how an Edge serves clients."""

    host: str = "127.0.0.1"
    port: int = 0
    backend: Backend = "aioquic"
    drafts: tuple[str, ...] = DRAFTS
    """The ALPNs of MoQT to take, in our order of preference; WebTransport clients choose among
    the same."""
    engine: EngineOptions = field(default_factory=EngineOptions)
    """Its ``alpn`` is filled in here."""
    egress: EgressLimits = field(default_factory=EgressLimits)
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    session: SessionLimits = field(default_factory=SessionLimits)
    setup: SetupOptions = _SETUP
    extensions: frozenset[int] = TOP_N_EXTENSIONS
    """Message parameters of our own that ``setup`` negotiates; see ``SessionConfig``."""
    setup_timeout: float = 10.0
    """Seconds until a client must have sent its SETUP: connections that say nothing cost memory."""


class EdgeServer:
    """A listening Edge. ``start``, then ``stop``; ``address`` between them."""

    def __init__(
        self,
        config: EdgeServerConfig,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        *,
        network: MemoryNetwork | None = None,
    ) -> None:
        self.config = config
        self.relay = relay
        self.plane = plane
        self.ports: dict[int, EdgePort] = {}
        """Sessions by their number, while their connections stand."""
        self.on_turn: Callable[[float], None] | None = None
        """Called behind every turn that may have brought events: takes ``relay.poll_events()``."""
        self._network = network
        self._serial = itertools.count(1)
        self._endpoint: Endpoint | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self.joined: Callable[[float], None] | None = None
        """The relay network, if there is one: called in every turn; ``settle`` from inside it lets
        the turn go round again."""
        self.settling = False
        self._again = False

    # Life

    def attach(self) -> None:
        """Have a clock, and serve nobody: a relay that takes no clients."""
        self._loop = asyncio.get_running_loop()

    async def start(self, sock: socket | None = None) -> None:
        """Bind and serve. Raises ``OSError`` if the address cannot be had."""
        config = self.config
        self.attach()
        self._endpoint = await open_endpoint(
            host=config.host,
            port=config.port,
            backend=config.backend,
            options=replace(config.engine, alpn=config.drafts),
            egress=config.egress,
            admission=config.admission,
            listener=self._accept,
            network=self._network,
            sock=sock,
        )

    async def stop(self, code: int = SessionCode.NO_ERROR, reason: str = "") -> None:
        """Close every session, then the socket."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._endpoint is not None:
            await self._endpoint.close(code, reason)
            self._endpoint = None

    @property
    def running(self) -> bool:
        """Whether it takes clients."""
        return self._endpoint is not None

    @property
    def endpoint(self) -> Endpoint:
        """The socket; only between ``start`` and ``stop``."""
        if self._endpoint is None:
            raise RuntimeError("the server is not running")
        return self._endpoint

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self.endpoint.local_address

    @property
    def now(self) -> float:
        """The clock that relay and plane are told."""
        if self._loop is None:
            raise RuntimeError("the server is not running")
        return self._loop.time()

    def reload_certificate(self) -> None:
        """New connections get the certificate that lies on the disk now."""
        self.endpoint.reload_certificate()

    # Connections

    def _accept(self, connection: Connection) -> Handler:
        draft = Draft.from_alpn(connection.alpn)
        if draft is None or connection.alpn not in self.config.drafts:
            spoken = ", ".join(self.config.drafts)
            asked = connection.alpn or "no protocol"
            connection.close(
                SessionCode.VERSION_NEGOTIATION_FAILED, f"{asked} was offered, we speak {spoken}"
            )
            return _Deaf()
        number = next(self._serial)
        port = EdgePort(self, number)
        peer = MoqtPeer(
            connection,
            port,
            draft=draft,
            options=self.config.setup,
            limits=self.config.session,
            extensions=self.config.extensions,
        )
        port.peer = peer
        self.ports[number] = port
        host, source_port = connection.peer_address
        at = f"[{host}]" if ":" in host else host
        self.relay.add_session(
            self.now,
            number,
            peer.session,
            connection,
            SessionInfo(
                peer_address=f"{at}:{source_port}",
                draft=draft,
                webtransport=connection.is_webtransport,
                path=connection.path,
                authority=connection.authority,
            ),
        )
        if self._loop is not None:
            port.setup_timer = self._loop.call_later(self.config.setup_timeout, port.setup_late)
        return port

    def forget(self, number: int) -> None:
        """A session's connection is over."""
        port = self.ports.pop(number, None)
        if port is not None:
            port.cancel_timer()
            self.relay.remove_session(self.now, number)

    # The end of a turn

    def settle(self) -> None:
        """Carry on what a turn began: notices, dirty sessions, the network, observers, timers.

        Settling one session may bring up events for others, so it goes on until all is quiet. A
        call from inside (a session that closes while it is settled) is left to the outer one, which
        then goes round again.
        """
        self._again = True
        if self.settling:
            return
        self.settling = True
        try:
            now = self.now
            while self._again:
                self._again = False
                self._settle_sessions(now)
                if self.joined is not None:
                    self.joined(now)
            if self.on_turn is not None:
                self.on_turn(now)
            self._arm()
        finally:
            self.settling = False

    def _settle_sessions(self, now: float) -> None:
        relay, ports = self.relay, self.ports
        relay.handle_notices(now)
        while dirty := relay.poll_dirty():
            for number in dirty:
                port = ports.get(number)
                if port is not None:
                    port.peer.settle()
            relay.handle_notices(now)

    def _arm(self) -> None:
        """Set the one timer to whatever is due first."""
        due = self.relay.poll_timeout()
        of_plane = self.plane.poll_timeout()
        if due is None or (of_plane is not None and of_plane < due):
            due = of_plane
        if due == self._timer_at or self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = due
        if due is not None and self._endpoint is not None:
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = None
        now = self.now
        self.relay.handle_timeout(now)
        self.plane.handle_timeout(now)
        self.settle()


class _Deaf:
    """The handler of a connection that was refused."""

    def handle_events(self, events: Sequence[Event]) -> None:
        """Nothing more is said on it."""
