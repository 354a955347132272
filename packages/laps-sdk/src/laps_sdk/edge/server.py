"""An Edge relay on a UDP socket: joins the transport with control plane and forwarding plane.

::

    Endpoint --connection--> EdgeServer --add_session--> EdgeRelay, Plane
    Connection --events of a turn--> EdgePort --control--> EdgeRelay
                                              --data-----> Plane
    after each turn: notices to the relay, dirty sessions settled, observers called, timer set

Everything happens in the loop's own thread and nothing is awaited between a chunk that arrives and
the chunks that leave.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from socket import socket
from typing import Final, cast

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import ForwardingPlane, OutStream
from laps_sdk.quic.admission import AdmissionLimits
from laps_sdk.quic.base import Connection, EgressLimits, Handler, IgnoringHandler
from laps_sdk.quic.endpoint import Backend, open_endpoint
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.quic.events import Closed, Event, StopSending, StreamDropped
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_sdk.quic.moqt import DRAFTS, MoqtPeer
from laps_sdk.quic.turns import TurnServer
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.session import Event as SessionEvent
from laps_wire.moqt.session import SessionLimits, SetupReceived
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.top_n import TOP_N_EXTENSIONS, top_n_options
from laps_wire.moqt.versions import Draft

__all__ = ["EdgePort", "EdgeServer", "EdgeServerConfig"]

_SETUP: Final = SetupOptions(moqt_implementation="laps-relay", unknown=top_n_options())


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeServerConfig:
    """The address, the transport and the limits of an Edge."""

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
    """Seconds until a client must have sent its SETUP: silent connections cost memory."""


class EdgeServer(TurnServer):
    """An Edge on a UDP socket. Call ``start``, then ``stop``; ``address`` is known between them."""

    def __init__(
        self,
        config: EdgeServerConfig,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        *,
        network: MemoryNetwork | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.relay = relay
        self.plane = plane
        self.ports: dict[int, EdgePort] = {}
        """Sessions by their number, while their connections stand."""
        self._network = network
        self._serial = itertools.count(1)
        self.joined: Callable[[float], None] | None = None
        """The relay network, if there is one: called in every turn; ``settle`` from inside it lets
        the turn go round again."""

    # Life

    def attach(self) -> None:
        """Take the clock of the running loop without a socket, for a relay without clients."""
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
        self.cancel_timer()
        if self._endpoint is not None:
            await self._endpoint.close(code, reason)
            self._endpoint = None

    # Connections

    def _accept(self, connection: Connection) -> Handler:
        draft = Draft.from_alpn(connection.alpn)
        if draft is None or connection.alpn not in self.config.drafts:
            spoken = ", ".join(self.config.drafts)
            asked = connection.alpn or "no protocol"
            connection.close(
                SessionCode.VERSION_NEGOTIATION_FAILED, f"{asked} was offered, we speak {spoken}"
            )
            return IgnoringHandler()
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
        """Remove the session of a connection that has ended."""
        port = self.ports.pop(number, None)
        if port is not None:
            port.cancel_timer()
            self.relay.remove_session(self.now, number)

    # Turns

    def round(self, now: float) -> None:
        """Handle notices, send for sessions that got commands, and call the network."""
        relay, ports = self.relay, self.ports
        relay.handle_notices(now)
        while dirty := relay.poll_dirty():
            for number in dirty:
                port = ports.get(number)
                if port is not None:
                    port.peer.settle()
            relay.handle_notices(now)
        if self.joined is not None:
            self.joined(now)

    def turned(self, now: float) -> None:
        """Call the observers at the end of a turn."""
        if self.on_turn is not None:
            self.on_turn(now)

    def next_due(self) -> float | None:
        """Return the next timer of both planes."""
        due, of_plane = self.relay.poll_timeout(), self.plane.poll_timeout()
        return of_plane if due is None or (of_plane is not None and of_plane < due) else due

    def due(self, now: float) -> None:
        """Run the timers of both planes."""
        self.relay.handle_timeout(now)
        self.plane.handle_timeout(now)


class EdgePort:
    """The ``Handler`` of a connection and the ``MoqtApplication`` of its session.

    It passes control events to EdgeRelay, and data streams and datagrams to the forwarding plane.
    """

    __slots__ = ("_owner", "_plane", "_relay", "number", "peer", "setup_timer")

    peer: MoqtPeer

    def __init__(self, owner: EdgeServer, number: int) -> None:
        self.number = number
        self.setup_timer: asyncio.TimerHandle | None = None
        self._owner = owner
        self._relay = owner.relay
        self._plane = owner.plane

    # The connection's handler

    def handle_events(self, events: Sequence[Event]) -> None:
        """Handle the events of one turn in order, then settle the server."""
        try:
            self.peer.handle_events(events)
        finally:
            self._owner.settle()

    # The session's application

    def session_event(self, peer: MoqtPeer, event: SessionEvent) -> None:
        """Pass a control event to EdgeRelay."""
        if isinstance(event, SetupReceived):
            self.cancel_timer()
        self._relay.handle_session_event(peer.connection.now, self.number, event)

    def stream_opened(
        self, peer: MoqtPeer, stream_id: int, kind: StreamKind, data: bytes, fin: bool
    ) -> None:
        """Pass the beginning of a data stream to the forwarding plane."""
        self._plane.stream_opened(peer.connection.now, self.number, stream_id, kind, data, fin)

    def stream_data(self, peer: MoqtPeer, stream_id: int, data: bytes, fin: bool) -> None:
        """Pass bytes of a data stream to the forwarding plane."""
        self._plane.stream_data(peer.connection.now, self.number, stream_id, data, fin)

    def stream_reset(self, peer: MoqtPeer, stream_id: int, code: int) -> None:
        """Pass the reset of a data stream to the forwarding plane."""
        self._plane.stream_reset(peer.connection.now, self.number, stream_id, code)

    def datagram(self, peer: MoqtPeer, data: bytes) -> None:
        """Pass a datagram to the forwarding plane."""
        self._plane.datagram(peer.connection.now, self.number, data)

    def out_stream_stopped(self, peer: MoqtPeer, event: StopSending) -> None:
        """Tell the forwarding plane that the receiver stopped a stream."""
        if event.stream is not None:
            stream = cast("OutStream", event.stream)
            self._plane.out_stream_gone(peer.connection.now, self.number, stream, 0, stopped=True)

    def out_stream_dropped(self, peer: MoqtPeer, event: StreamDropped) -> None:
        """Tell the forwarding plane that the egress dropped a stream: too slow, or too old."""
        stream = cast("OutStream", event.stream)
        self._plane.out_stream_gone(
            peer.connection.now, self.number, stream, event.lost, stopped=False
        )

    def writable(self, peer: MoqtPeer) -> None:
        """Do nothing: what did not fit was dropped and counted."""

    def closed(self, peer: MoqtPeer, event: Closed) -> None:  # noqa: ARG002 - the interface
        """Remove the session: its connection has ended."""
        self._owner.forget(self.number)

    # SETUP

    def setup_late(self) -> None:
        """Close a session whose client sent no SETUP in time (moq-transport-16, 3.3)."""
        self.setup_timer = None
        self.peer.session.close(SessionCode.CONTROL_MESSAGE_TIMEOUT, "no SETUP arrived in time")
        self.peer.settle()
        self._owner.settle()

    def cancel_timer(self) -> None:
        """Cancel the timer for SETUP."""
        if self.setup_timer is not None:
            self.setup_timer.cancel()
            self.setup_timer = None
