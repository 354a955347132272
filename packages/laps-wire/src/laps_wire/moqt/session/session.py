"""A MoQT session without I/O: both roles, both drafts, one API."""

from __future__ import annotations

from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.session.actions import Action, StreamRef
from laps_wire.moqt.session.commands import Commands
from laps_wire.moqt.session.config import Role, SessionConfig
from laps_wire.moqt.session.core import Core
from laps_wire.moqt.session.events import Event
from laps_wire.moqt.session.handlers import Handlers
from laps_wire.moqt.session.inbound import Inbound
from laps_wire.moqt.session.shape16 import Shape16
from laps_wire.moqt.session.shape18 import Shape18
from laps_wire.moqt.session.state import Control, Kind, State
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft

__all__ = ["Session"]


class Session(Commands):
    """One end of a MoQT session.

    Four families of methods, to be called in this order for each thing that happens:

    A. *Getters* tell what is known and change nothing: ``draft``, ``role``, ``established``,
       ``closed``, ``open_requests``, ``request_state`` ...
    B. *From the transport*: ``receive_stream_data``, ``receive_stream_reset``,
       ``receive_stop_sending``, ``receive_connection_lost``. They never raise because of what the
       peer did: a violation becomes a ``CloseSession`` action and a ``Terminated`` event.
    C. *Commands of the application*: ``subscribe``, ``publish``, ``fetch``, ``track_status``,
       ``publish_namespace``, ``subscribe_namespace``, ``subscribe_tracks``; ``update``;
       ``accept``, ``accept_subscribe``, ``accept_fetch``, ``reject``; ``cancel``,
       ``publish_done``, ``fetch_ended``; ``namespace``, ``namespace_done``, ``publish_blocked``;
       ``goaway``, ``goaway_request``, ``close``. They raise a
       :class:`~laps_wire.errors.LocalError` and do nothing if they are not allowed.
    D. *Polls* take what has come up: after any call of B or C, carry out all of
       ``poll_transmit`` and handle all of ``poll_events``; ``is_idle`` tells that there is nothing.

    A new session already has something to transmit, but for a server of draft 16. Requests are
    named by their Request ID, ours and the peer's alike. The session knows no time: timers for
    unanswered requests, for GOAWAY and for SETUP belong to the shell, which calls ``close``.

    Streams of objects are not read here: see ``DataStreamOpened``. Nor are datagrams.
    """

    __slots__ = ("_inbound",)

    def __init__(self, config: SessionConfig) -> None:
        core = Core(config)
        handlers = Handlers(core)
        shape = Shape16 if config.draft is Draft.D16 else Shape18
        core.shape = shape(core, handlers)
        self._core = core
        self._inbound = Inbound(core, handlers)
        core.shape.start()

    # A. Getters

    @property
    def draft(self) -> Draft:
        """The draft that is spoken."""
        return self._core.draft

    @property
    def role(self) -> Role:
        """Which end we are."""
        return self._core.role

    @property
    def options(self) -> SetupOptions:
        """What our SETUP says."""
        return self._core.options

    @property
    def established(self) -> bool:
        """Whether the peer's SETUP has come and the session is not over."""
        return not self._core.closed and self._core.control is not Control.AWAITING_SETUP

    @property
    def closed(self) -> bool:
        """Whether the session is over: input is ignored and commands raise."""
        return self._core.closed

    @property
    def going_away(self) -> bool:
        """Whether either side has sent GOAWAY."""
        return self._core.goaway_sent or self._core.control is Control.LEAVING

    @property
    def open_requests(self) -> tuple[int, ...]:
        """The ids of all requests that are not over, ours and the peer's, oldest first."""
        return tuple(request.id for request in self._core.requests)

    @property
    def open_streams(self) -> int:
        """How many streams the session keeps track of, control streams included."""
        return len(self._core.streams)

    def request_state(self, request_id: int) -> State | None:
        """Where a request stands; None if it does not exist or is over."""
        request = self._core.requests.get(request_id)
        return None if request is None else request.state

    def request_kind(self, request_id: int) -> Kind | None:
        """What a request asks for; None if it does not exist or is over."""
        request = self._core.requests.get(request_id)
        return None if request is None else request.kind

    def stream_id(self, stream: StreamRef) -> int:
        """The id that a stream in an action is bound to."""
        return self._core.streams.stream_id(stream)

    # B. From the transport

    def bind_stream(self, stream: StreamRef, stream_id: int) -> None:
        """Tell the id of a stream that ``OpenStream`` asked for, before anything arrives on it."""
        self._core.streams.bind(stream, stream_id)

    def receive_stream_data(self, stream_id: int, data: bytes, fin: bool = False) -> None:
        """Bytes arrived on a stream, in order; ``fin`` if they are the last."""
        self._inbound.data(stream_id, data, fin=fin)

    def receive_stream_reset(self, stream_id: int, code: int) -> None:
        """The peer sent RESET_STREAM."""
        self._inbound.reset(stream_id, code)

    def receive_stop_sending(self, stream_id: int, code: int) -> None:
        """The peer sent STOP_SENDING."""
        self._inbound.stop(stream_id, code)

    def receive_connection_lost(self, code: int = SessionCode.NO_ERROR, reason: str = "") -> None:
        """The connection is gone: the peer closed it, or the transport gave up."""
        self._core.terminate(code, reason, by_peer=True)

    # C. Commands: in Commands, but for the last one

    def close(self, code: int = SessionCode.NO_ERROR, reason: str = "") -> None:
        """End the session. Calling it again does nothing."""
        self._core.terminate(code, reason, by_peer=False)

    # D. Polls

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to poll, neither for the transport nor for who commands."""
        core = self._core
        return not core.events and core.streams.is_idle

    def poll_transmit(self) -> list[Action]:
        """What the transport must do, in order; taken once.

        The refs in these actions resolve until the next call.
        """
        return self._core.streams.drain()

    def poll_events(self) -> list[Event]:
        """What happened, in order; taken once."""
        if not self._core.events:
            return []
        events, self._core.events = self._core.events, []
        return events
