"""Draft 18's session shape: a control stream each way, and a stream for each request.

::

    client                                                      server
      |---- unidirectional -->  SETUP, GOAWAY                      |
      |                       SETUP, GOAWAY  <-- unidirectional ---|
      |                                                            |
      |==== bidirectional, opened by the requester ================|   one for each request
      |  SUBSCRIBE 0 ->                          <- SUBSCRIBE_OK   |   replies carry no id
      |  REQUEST_UPDATE 2 ->                       <- REQUEST_OK   |   and come in order
      |                                  <- PUBLISH_DONE, FIN      |
      |  FIN ->                                                    |

Either side ends a request at any time with RESET_STREAM and STOP_SENDING. A REQUEST_OK answers the
request itself if that is still pending, else the oldest update without an answer.
"""

from __future__ import annotations

from typing import Final

from laps_wire.errors import ProtocolViolation
from laps_wire.moqt.codepoints import MessageTypeD18
from laps_wire.moqt.control import message_name
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    Goaway,
    Message,
    NamespaceDone,
    NamespaceMessage,
    Publish,
    PublishBlocked,
    PublishDone,
    PublishNamespace,
    RequestError,
    RequestOk,
    RequestUpdate,
    Setup,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.session.core import Core, misplaced
from laps_wire.moqt.session.state import UNANSWERED, ControlSignal, Kind
from laps_wire.moqt.session.tables import Purpose, Request, Stream

__all__ = ["Shape18"]

_FIRST: Final = frozenset(
    {
        MessageTypeD18.SUBSCRIBE,
        MessageTypeD18.PUBLISH,
        MessageTypeD18.FETCH,
        MessageTypeD18.TRACK_STATUS,
        MessageTypeD18.PUBLISH_NAMESPACE,
        MessageTypeD18.SUBSCRIBE_NAMESPACE,
        MessageTypeD18.SUBSCRIBE_TRACKS,
    }
)
"""What a request stream may begin with (moq-transport-18, 3.3)."""


class Shape18:
    """Which stream carries what in draft 18."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    # Sending

    def start(self) -> None:
        """Both sides open their control stream at once."""
        core = self._core
        core.control_out = core.streams.open(Purpose.CONTROL, unidirectional=True)
        core.streams.send(core.control_out, core.encode(Setup(core.options)))

    def send_control(self, message: Message) -> None:
        """Send a message on our control stream."""
        self._core.streams.send(self._core.control_stream(), self._core.encode(message))

    def send_request(self, request: Request, data: bytes) -> None:
        """Send a request on a stream of its own."""
        request.stream = self._core.streams.open(Purpose.REQUEST, unidirectional=False)
        request.stream.request = request
        # TRACK_STATUS is the only message that its requester sends (18: 10.14).
        self.send(request, data, fin=request.kind is Kind.TRACK_STATUS)

    def send(self, request: Request, data: bytes, *, fin: bool = False) -> None:
        """Send on the request's stream."""
        self._core.streams.send(request.own_stream, data, fin=fin)

    def send_update(self, request: Request, data: bytes, *, fin: bool = False) -> None:
        """Send on the request's stream."""
        self.send(request, data, fin=fin)

    def cancel_message(self, request: Request, code: int | None, reason: str) -> Message | None:  # noqa: ARG002
        """No message: the stream says it."""
        return None

    def send_cancel(self, request: Request, data: bytes, code: int | None) -> None:  # noqa: ARG002
        """End both directions of the request's stream (moq-transport-18, 3.3.2)."""
        core = self._core
        code = core.cancelled if code is None else code
        core.streams.reset(request.own_stream, code)
        core.streams.stop(request.own_stream, code)

    def grant(self) -> None:
        """Nothing to grant: QUIC's MAX_STREAMS limits requests."""

    # Receiving

    def first_message(self, stream: Stream, message_type: int) -> None:
        """A bidirectional stream begins with a request."""
        if message_type not in _FIRST:
            raise ProtocolViolation(
                f"a bidirectional stream begins with message type 0x{message_type:X}"
            )
        stream.purpose = Purpose.REQUEST

    def on_message(self, stream: Stream, message: Message) -> None:
        """Act on a message, by the stream it came on."""
        if stream.purpose is Purpose.CONTROL:
            self._on_control(message)
        elif stream.request is None:
            self._on_first(stream, message)
        else:
            self._on_request_stream(stream.request, message)

    def _on_control(self, message: Message) -> None:
        core = self._core
        match message:
            case Setup():
                core.on_control(ControlSignal.SETUP, message)
                core.on_setup(message.options)
            case Goaway():
                core.on_control(ControlSignal.GOAWAY, message)
                if message.request_id is None:
                    raise ProtocolViolation("GOAWAY on a control stream without a request id")
                core.on_goaway(message)
            case _:
                raise misplaced(message, "a control stream")

    def _on_first(self, stream: Stream, message: Message) -> None:
        match message:
            case (
                Subscribe()
                | Publish()
                | Fetch()
                | TrackStatus()
                | PublishNamespace()
                | SubscribeNamespace()
                | SubscribeTracks()
            ):
                self._core.peer_ids.use(message.request_id, ordered=False)
                self._core.on_request(message, stream)
            case _:
                raise misplaced(message, "a new request stream")

    def _on_request_stream(self, request: Request, message: Message) -> None:
        core = self._core
        match message:
            case SubscribeOk() | FetchOk():
                core.on_ok(request, message)
            case RequestOk() | RequestError():
                self._on_answer(request, message)
            case RequestUpdate():
                self._core.peer_ids.use(message.request_id, ordered=False)
                core.on_update(request, message)
            case PublishDone():
                core.on_done(request, message)
            case NamespaceMessage() | NamespaceDone():
                core.on_namespace(request, message)
            case PublishBlocked():
                core.on_blocked(request, message)
            case Goaway():
                core.on_request_goaway(request, message)
            case _:
                raise misplaced(message, f"the stream of a {request.kind.value}")

    def _on_answer(self, request: Request, message: RequestOk | RequestError) -> None:
        """To the request while it has no reply, then to its oldest update without one."""
        core = self._core
        if request.ours and request.shadow in UNANSWERED:
            if isinstance(message, RequestOk):
                core.on_ok(request, message)
            else:
                core.on_error(request, message)
            return
        if not request.our_updates:
            if request.late_answers:
                request.late_answers -= 1
                return
            raise ProtocolViolation(
                f"{message_name(type(message))} on the stream of {request.kind.value}"
                f" {request.id}, where nothing waits for an answer"
            )
        update_id = request.our_updates[0]
        if isinstance(message, RequestOk):
            core.on_update_ok(request, update_id, message)
        else:
            core.on_update_error(request, update_id, message)
