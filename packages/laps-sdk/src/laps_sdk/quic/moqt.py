"""A MoQT session on a connection, as relay and client share it.

::

    Connection --events--> MoqtPeer --control bytes--> laps_wire Session --events--> application
                              |---- data streams, datagrams ------------------------> application
                              '<--- actions of the session (streams, bytes, close)

One :class:`MoqtPeer` belongs to one connection. It owns the sans-IO session, carries out its
actions, and passes data streams and datagrams to its :class:`MoqtApplication`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from laps_sdk.errors import StreamLimitError
from laps_sdk.quic.base import Connection, OutStream
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    Pulled,
    StopSending,
    StreamData,
    StreamDropped,
    StreamReset,
    StreamsAvailable,
    Writable,
)
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.session import (
    Action,
    CloseSession,
    DataStreamOpened,
    OpenStream,
    ResetStream,
    Role,
    SendData,
    Session,
    SessionConfig,
    SessionLimits,
    StreamRef,
    Transport,
)
from laps_wire.moqt.session import Event as SessionEvent
from laps_wire.moqt.session import StopSending as StopAction
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.versions import Draft

__all__ = ["DRAFTS", "MoqtApplication", "MoqtPeer"]

DRAFTS: Final = (Draft.D18.alpn, Draft.D16.alpn)
"""The supported ALPNs and WebTransport protocols, in our order of preference."""


StreamAction: TypeAlias = OpenStream | SendData | ResetStream | StopAction
"""An action of a session on one stream."""


class MoqtApplication(Protocol):
    """The application of a MoQT session: ``client.link``, ``edge.port``, or ``testing``.

    Calls come in the order in which things happened.
    """

    def session_event(self, peer: MoqtPeer, event: SessionEvent) -> None:
        """Handle an event of the session; it is never ``DataStreamOpened``."""

    def stream_opened(
        self, peer: MoqtPeer, stream_id: int, kind: StreamKind, data: bytes, fin: bool
    ) -> None:
        """Handle a new data stream of the peer; ``data`` is all of it so far."""

    def stream_data(self, peer: MoqtPeer, stream_id: int, data: bytes, fin: bool) -> None:
        """Handle more bytes of a data stream."""

    def stream_reset(self, peer: MoqtPeer, stream_id: int, code: int) -> None:
        """Handle the peer's reset of a data stream."""

    def datagram(self, peer: MoqtPeer, data: bytes) -> None:
        """Handle a datagram."""

    def out_stream_stopped(self, peer: MoqtPeer, event: StopSending) -> None:
        """Handle the peer's STOP_SENDING on our data stream, which was reset."""

    def out_stream_dropped(self, peer: MoqtPeer, event: StreamDropped) -> None:
        """Handle a data stream of ours that the egress dropped."""

    def writable(self, peer: MoqtPeer) -> None:
        """Handle the end of congestion on the connection."""

    def closed(self, peer: MoqtPeer, event: Closed) -> None:
        """Handle the end of the connection, after ``Terminated``; this is the last call."""


class MoqtPeer:
    """The ``Handler`` of a connection that carries one MoQT session."""

    __slots__ = (
        "_application",
        "_blocked",
        "_data_in",
        "_out",
        "connection",
        "session",
    )

    def __init__(
        self,
        connection: Connection,
        application: MoqtApplication,
        *,
        draft: Draft,
        options: SetupOptions = NO_OPTIONS,
        limits: SessionLimits | None = None,
        extensions: frozenset[int] = frozenset(),
    ) -> None:
        self.connection = connection
        self.session = Session(
            SessionConfig(
                draft=draft,
                role=Role.CLIENT if connection.is_client else Role.SERVER,
                transport=(
                    Transport.WEBTRANSPORT if connection.is_webtransport else Transport.QUIC
                ),
                options=options,
                limits=limits or SessionLimits(),
                extensions=extensions,
            )
        )
        self._application = application
        self._data_in: set[int] = set()  # streams of the peer that belong to the data plane
        self._out: dict[StreamRef, OutStream] = {}
        # Actions on streams that the peer does not allow us to open yet, oldest stream first.
        self._blocked: dict[StreamRef, list[StreamAction]] = {}

    # From the connection

    def handle_events(self, events: Sequence[Event]) -> None:
        """Handle the events of a turn; see :class:`~laps_sdk.quic.base.Handler`."""
        application = self._application
        data_in = self._data_in
        for event in events:
            if isinstance(event, StreamData):
                stream_id, data, fin = event
                if stream_id in data_in:
                    if fin:
                        data_in.discard(stream_id)
                    application.stream_data(self, stream_id, data, fin)
                else:
                    self.session.receive_stream_data(stream_id, data, fin)
                    self.settle()
            elif isinstance(event, DatagramReceived):
                application.datagram(self, event.data)
            else:
                self._rare(event)

    def _rare(self, event: Event) -> None:
        session, application = self.session, self._application
        match event:
            case StreamReset(stream_id, code):
                if stream_id in self._data_in:
                    self._data_in.discard(stream_id)
                    application.stream_reset(self, stream_id, code)
                else:
                    session.receive_stream_reset(stream_id, code)
                    self.settle()
            case StopSending(stream_id, code):
                if self._is_control(stream_id):
                    session.receive_stop_sending(stream_id, code)
                    self.settle()
                else:
                    application.out_stream_stopped(self, event)
            case StreamDropped():
                application.out_stream_dropped(self, event)
            case StreamsAvailable():
                self._retry()
            case Writable():
                application.writable(self)
            case Pulled():
                pass  # the application has its turn
            case Connected():
                self.settle()
            case Closed():
                session.receive_connection_lost(event.code, event.reason)
                self.settle()
                application.closed(self, event)
            case StreamData() | DatagramReceived():  # the hot path has them
                raise AssertionError(event)

    def _is_control(self, stream_id: int) -> bool:
        """Return whether a stream is the session's: bidirectional, or draft 18's control stream."""
        return not stream_id & 2 or any(s.stream_id == stream_id for s in self._out.values())

    # To the connection

    def settle(self) -> None:
        """Carry out the session's actions; call it after every command to ``session``."""
        session, application = self.session, self._application
        while True:
            for action in session.poll_transmit():
                self._carry_out(action)
            events = session.poll_events()
            if not events:
                return
            for event in events:
                if isinstance(event, DataStreamOpened):
                    if not event.fin:
                        self._data_in.add(event.stream_id)
                    application.stream_opened(
                        self, event.stream_id, event.kind, event.data, event.fin
                    )
                else:
                    application.session_event(self, event)

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, CloseSession):
            self._blocked.clear()
            self.connection.close(action.code, action.reason)
            return
        behind = self._blocked.get(action.stream)
        if behind is not None:
            behind.append(action)
            return
        try:
            self._act(action)
        except StreamLimitError:
            # Only this stream waits: the peer may need our other answers to give us more.
            self._blocked[action.stream] = [action]

    def _retry(self) -> None:
        blocked, self._blocked = self._blocked, {}
        for actions in blocked.values():
            for action in actions:
                self._carry_out(action)

    def _act(self, action: StreamAction) -> None:
        connection = self.connection
        match action:
            case SendData(ref, data, fin):
                self._stream(ref).write(data, fin)
                if fin:
                    self._out.pop(ref, None)
            case OpenStream(ref, unidirectional):
                if unidirectional:
                    out = connection.open_unidirectional()
                else:
                    out = connection.open_bidirectional()
                self._out[ref] = out
                if out.stream_id is not None:
                    self.session.bind_stream(ref, out.stream_id)
            case ResetStream(ref, code):
                self._stream(ref).reset(code)
                self._out.pop(ref, None)
            case StopAction(ref, code):
                connection.stop_sending(self.session.stream_id(ref), code)

    def _stream(self, ref: StreamRef) -> OutStream:
        out = self._out.get(ref)
        if out is None:
            out = self._out[ref] = self.connection.reply_stream(self.session.stream_id(ref))
        return out

    # For applications

    def stop_data(self, stream_id: int, code: int) -> None:
        """Send STOP_SENDING for a data stream of the peer."""
        if stream_id in self._data_in:
            self._data_in.discard(stream_id)
        self.connection.stop_sending(stream_id, code)
