"""A MoQT session without a connection: two sans-IO sessions back to back in memory.

::

    EdgeRelay <--events-- Session (server) ==bytes== Session (client) --events--> handler
              --commands->                                            <-commands--

:meth:`VirtualClient.pump` carries everything until both ends are quiet. A handler
need not pump after a command to its session: the loop that called the handler goes on. Only control
messages pass here; objects go to and from the forwarding plane directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import Egress
from laps_sdk.upstream.bodies import DRAFT
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
    SessionLimits,
    StopSending,
)
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.versions import Draft

__all__ = ["VirtualClient"]

_LIMITS: Final = SessionLimits(max_requests=1 << 30, max_updates=1 << 16)
"""Both ends are ours: what caps there are belong to the relay."""


class VirtualClient:
    """A client of an Edge that lives in the same process."""

    __slots__ = (
        "_edge",
        "_handler",
        "_opened",
        "_pumping",
        "_relay",
        "draft",
        "number",
        "session",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        number: int,
        handler: Callable[[float, Event], None],
        *,
        setup: SetupOptions = NO_OPTIONS,
        draft: Draft = DRAFT,
    ) -> None:
        self.draft = draft
        self.number = number
        """The relay's number of the session."""
        self.session = Session(
            SessionConfig(draft=draft, role=Role.CLIENT, options=setup, limits=_LIMITS)
        )
        """Our end, for commands; :meth:`pump` behind them."""
        self._edge = Session(SessionConfig(draft=draft, role=Role.SERVER, limits=_LIMITS))
        self._relay = relay
        self._handler = handler
        self._opened: dict[tuple[Role, bool], int] = {}
        self._pumping = False

    def open(self, now: float, egress: Egress, info: SessionInfo) -> None:
        """Become a session of the relay, and exchange SETUP."""
        self._relay.add_session(now, self.number, self._edge, egress, info)
        self.pump(now)

    def close(self, now: float) -> None:
        """Be gone: what it published ends."""
        self.session.close()
        self._relay.remove_session(now, self.number)

    @property
    def closed(self) -> bool:
        """Whether the session is over, for either end."""
        return self.session.closed or self._edge.closed

    # Carrying

    def pump(self, now: float) -> bool:
        """Carry everything until both ends are quiet; whether there was anything.

        A call from inside is left to the outer one.
        """
        if self._pumping or (self.session.is_idle and self._edge.is_idle):
            return False  # the second is so after most events of a relay, for most of its clients
        self._pumping = True
        moved = False
        try:
            while self._turn(now):
                moved = True
        finally:
            self._pumping = False
        return moved

    def _turn(self, now: float) -> bool:
        client, edge = self.session, self._edge
        moved = self._carry(client, edge) | self._carry(edge, client)
        for event in edge.poll_events():
            moved = True
            self._relay.handle_session_event(now, self.number, event)
        for event in client.poll_events():
            moved = True
            self._handler(now, event)
        return moved

    def _carry(self, sender: Session, receiver: Session) -> bool:
        actions = sender.poll_transmit()
        for action in actions:
            self._act(sender, receiver, action)
        return bool(actions)

    def _act(self, sender: Session, receiver: Session, action: Action) -> None:
        match action:
            case SendData(stream, data, fin):
                receiver.receive_stream_data(sender.stream_id(stream), data, fin)
            case OpenStream(stream, unidirectional):
                sender.bind_stream(stream, self._stream_id(sender.role, unidirectional))
            case ResetStream(stream, code):
                receiver.receive_stream_reset(sender.stream_id(stream), code)
            case StopSending(stream, code):
                receiver.receive_stop_sending(sender.stream_id(stream), code)
            case CloseSession(code, reason):
                receiver.receive_connection_lost(code, reason)

    def _stream_id(self, role: Role, unidirectional: bool) -> int:
        """The next id of a kind, as QUIC counts them."""
        count = self._opened.get((role, unidirectional), 0)
        self._opened[role, unidirectional] = count + 1
        return count << 2 | unidirectional << 1 | role.value
