"""The session shapes of the two drafts: which stream carries which message.

Draft 16 uses one control stream for nearly everything::

    client                                                      server
      |==== bidirectional control stream, opened by the client ====|
      |  CLIENT_SETUP ->                          <- SERVER_SETUP  |
      |  SUBSCRIBE 0 ->                        <- SUBSCRIBE_OK 0   |   every reply and every
      |  <- PUBLISH 1                             PUBLISH_OK 1 ->  |   end names its request
      |                                                            |
      |---- bidirectional stream, opened by the subscriber --------|   one for each
      |  SUBSCRIBE_NAMESPACE 2 ->  <- REQUEST_OK 2, NAMESPACE ...  |   SUBSCRIBE_NAMESPACE
      |  FIN: no longer interested                                 |

A message about a request that is over may have been sent before the peer received our last message.
The session remembers recent requests (``Requests.ended``), and checks such messages against what
the peer could know. Messages about older requests are ignored. An ID that was never used is a
violation.

An update of a SUBSCRIBE_NAMESPACE uses the control stream: the draft puts only the first message
and its responses on the other stream. So the update may arrive after the FIN that ends the request.

Draft 18 uses a control stream each way, and a stream for each request::

    client                                                      server
      |---- unidirectional -->  SETUP, GOAWAY                      |
      |                       SETUP, GOAWAY  <-- unidirectional ---|
      |                                                            |
      |==== bidirectional, opened by the requester ================|   one for each request
      |  SUBSCRIBE 0 ->                          <- SUBSCRIBE_OK   |   replies carry no ID
      |  REQUEST_UPDATE 2 ->                       <- REQUEST_OK   |   and are in order
      |                                  <- PUBLISH_DONE, FIN      |
      |  FIN ->                                                    |

Either side ends a request at any time with RESET_STREAM and STOP_SENDING. A REQUEST_OK answers the
request itself while that is pending, then the oldest unanswered update.
"""

from __future__ import annotations

from typing import Final

from laps_wire.errors import ProtocolViolation
from laps_wire.moqt.codepoints import MessageTypeD16, MessageTypeD18, RequestErrorCode
from laps_wire.moqt.control import message_name
from laps_wire.moqt.messages import (
    ClientSetup,
    Fetch,
    FetchCancel,
    FetchOk,
    Goaway,
    MaxRequestId,
    Message,
    NamespaceDone,
    NamespaceMessage,
    Publish,
    PublishBlocked,
    PublishDone,
    PublishNamespace,
    PublishNamespaceCancel,
    PublishNamespaceDone,
    PublishOk,
    RequestError,
    RequestOk,
    RequestsBlocked,
    RequestUpdate,
    ServerSetup,
    Setup,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
    Unsubscribe,
)
from laps_wire.moqt.session.core import Core, misplaced
from laps_wire.moqt.session.events import PeerBlocked, RequestMessage, RequestsAllowed, Role
from laps_wire.moqt.session.state import UNANSWERED, Control, ControlSignal, Kind, State
from laps_wire.moqt.session.tables import Purpose, Request, Stream

__all__ = ["Shape16", "Shape18"]

# Draft 16: one control stream

_SUBSCRIPTIONS: Final = (Kind.SUBSCRIBE, Kind.PUBLISH)


class Shape16:
    """The session shape of draft 16."""

    __slots__ = ("_core", "_setup")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._setup = b""
        """The encoded SETUP of a server."""

    # Sending

    def start(self) -> None:
        """Open the control stream as client; a server waits for it."""
        core = self._core
        if core.role is Role.CLIENT:
            setup = core.encode(ClientSetup(core.options))
            stream = core.streams.open(Purpose.CONTROL, unidirectional=False)
            core.control_in = core.control_out = stream
            core.streams.send(stream, setup)
        else:
            self._setup = core.encode(ServerSetup(core.options))

    def _control(self, data: bytes) -> None:
        self._core.streams.send(self._core.control_stream(), data)

    def send_control(self, message: Message) -> None:
        """Send a message on the control stream."""
        self._control(self._core.encode(message))

    def send_request(self, request: Request, data: bytes) -> None:
        """Send a request on the control stream, or SUBSCRIBE_NAMESPACE on its own."""
        if request.kind is Kind.SUBSCRIBE_NAMESPACE:
            request.stream = self._core.streams.open(Purpose.REQUEST, unidirectional=False)
            request.stream.request = request
        self.send(request, data)

    def send(self, request: Request, data: bytes, *, fin: bool = False) -> None:
        """Send on the request's own stream if it has one, else on the control stream."""
        if request.stream is not None:
            self._core.streams.send(request.stream, data, fin=fin)
        else:
            self._control(data)

    def send_update(self, request: Request, data: bytes, *, fin: bool = False) -> None:  # noqa: ARG002
        """Send an update, or the answer to one, on the control stream."""
        self._control(data)

    def cancel_message(self, request: Request, code: int | None, reason: str) -> Message | None:
        """Return the message that cancels a request of this kind."""
        match request.kind:
            case Kind.SUBSCRIBE | Kind.PUBLISH:
                return Unsubscribe(request.id)
            case Kind.FETCH:
                return FetchCancel(request.id)
            case Kind.PUBLISH_NAMESPACE if request.ours:
                return PublishNamespaceDone(request.id)
            case Kind.PUBLISH_NAMESPACE:
                uninterested = int(RequestErrorCode.UNINTERESTED)
                code = uninterested if code is None else code
                return PublishNamespaceCancel(request.id, code, reason)
            case _:
                return None

    def send_cancel(self, request: Request, data: bytes, code: int | None) -> None:
        """Send the message, or end the stream of a SUBSCRIBE_NAMESPACE.

        The stream ends with FIN: a reset could discard the request and leave a gap in the request
        IDs.
        """
        core = self._core
        if data:
            self._control(data)
        elif request.stream is not None:  # a TRACK_STATUS has none, and ends without a message
            core.streams.finish(request.stream)
            core.streams.stop(request.stream, core.cancelled if code is None else code)

    # Receiving

    def first_message(self, stream: Stream, message_type: int) -> None:
        """Set the purpose: the control stream or a SUBSCRIBE_NAMESPACE (16: 3.3)."""
        core = self._core
        if message_type == MessageTypeD16.SUBSCRIBE_NAMESPACE:
            stream.purpose = Purpose.REQUEST
        elif (
            message_type == MessageTypeD16.CLIENT_SETUP
            and core.role is Role.SERVER
            and core.control_in is None
        ):
            stream.purpose = Purpose.CONTROL
            core.control_in = core.control_out = stream
        else:
            raise ProtocolViolation(
                f"a bidirectional stream begins with message type 0x{message_type:X}"
            )

    def on_message(self, stream: Stream, message: Message) -> None:
        """Handle a message according to its stream."""
        if stream.purpose is Purpose.CONTROL:
            self._on_control(message)
        else:
            self._on_namespace_stream(stream, message)

    def _on_control(self, message: Message) -> None:
        core = self._core
        expected = ClientSetup if self._core.role is Role.SERVER else ServerSetup
        if isinstance(message, expected):
            core.on_control(ControlSignal.SETUP, message)
            core.on_setup(message.options)
            if self._core.role is Role.SERVER:
                self._control(self._setup)
        elif isinstance(message, Goaway):
            core.on_control(ControlSignal.GOAWAY, message)
            core.on_goaway(message)
        else:
            core.on_control(ControlSignal.MESSAGE, message)
            self._on_open_control(message)

    def _on_open_control(self, message: Message) -> None:
        core = self._core
        match message:
            case Subscribe() | Publish() | Fetch() | TrackStatus() | PublishNamespace():
                self._on_request(message, None)
            case RequestUpdate():
                self._on_update(message, ordered=True)
            case SubscribeOk() | PublishOk() | FetchOk():
                request = self._find(message, message.request_id)
                if request is not None:
                    core.on_ok(request, message)
            case RequestOk() | RequestError():
                self._on_answer(message)
            case PublishDone():
                request = self._find(message, message.request_id)
                if request is not None:
                    self._expect(message, request, _SUBSCRIPTIONS)
                    core.on_done(request, message)
            case Unsubscribe() | FetchCancel() | PublishNamespaceDone() | PublishNamespaceCancel():
                self._on_cancel(message)
            case MaxRequestId():
                self._on_max_request_id(message)
            case RequestsBlocked():
                maximum = message.maximum_request_id
                self._core.events.append(PeerBlocked(max_request_id=maximum))
            case _:
                raise misplaced(message, "the control stream")

    def _on_namespace_stream(self, stream: Stream, message: Message) -> None:
        core = self._core
        request = stream.request
        match message:
            case SubscribeNamespace() if request is None:
                self._on_request(message, stream)
            case RequestUpdate() if request is not None and not request.ours:
                if message.existing_request_id != request.id:
                    raise ProtocolViolation(
                        f"REQUEST_UPDATE of {message.existing_request_id} on the stream of"
                        f" {request.id}"
                    )
                self._on_update(message, ordered=False)
            case RequestOk() | RequestError() if request is not None and request.ours:
                if message.request_id != request.id:
                    raise ProtocolViolation(
                        f"a reply to {message.request_id} on the stream of {request.id}"
                    )
                if isinstance(message, RequestOk):
                    core.on_ok(request, message)
                else:
                    core.on_error(request, message)
            case NamespaceMessage() | NamespaceDone() if request is not None and request.ours:
                core.on_namespace(request, message)
            case _:
                raise misplaced(message, "the stream of a SUBSCRIBE_NAMESPACE")

    # Requests and references to them

    def _on_request(self, message: RequestMessage, stream: Stream | None) -> None:
        self._new_id(message.request_id, ordered=stream is None)
        self._core.on_request(message, stream)

    def _new_id(self, request_id: int, *, ordered: bool) -> None:
        self._core.credit.spend(request_id)
        self._core.peer_ids.use(request_id, ordered=ordered)

    def _find(self, message: Message, named: int | None) -> Request | None:
        """Return the request that a message names, open or ended; None if it ended long ago."""
        core = self._core
        request_id = _id(named)
        request = core.requests.get(request_id) or core.requests.ended.get(request_id)
        if request is None and not (
            core.own_ids.used(request_id) or core.peer_ids.used(request_id)
        ):
            raise ProtocolViolation(
                f"{message_name(type(message))} for request {request_id}, which does not exist"
            )
        return request

    def _on_update(self, message: RequestUpdate, *, ordered: bool) -> None:
        core = self._core
        self._new_id(message.request_id, ordered=ordered)
        request = self._find(message, message.existing_request_id)
        if request is None:
            # The request is no longer remembered; the update still gets its answer.
            self._core.tokens_of(message.parameters)
            code = RequestErrorCode.INTERNAL_ERROR
            self.send_control(RequestError(message.request_id, code, 0, "the request is over"))
            core.release()
        elif request.kind is Kind.SUBSCRIBE_NAMESPACE and request.shadow is State.TERMINATED:
            # Its stream may have overtaken the control stream.
            self._core.tokens_of(message.parameters)
            core.refuse_late_update(request, message.request_id)
        else:
            self._core.on_update(request, message)

    def _on_answer(self, message: RequestOk | RequestError) -> None:
        """Handle REQUEST_OK or REQUEST_ERROR, to an update or to a request."""
        core = self._core
        request_id = _id(message.request_id)
        updated = core.updates.get(request_id)
        if updated is not None and core.own_ids.used(request_id):
            if isinstance(message, RequestOk):
                core.on_update_ok(updated, request_id, message)
            else:
                core.on_update_error(updated, request_id, message)
            return
        answer_due = core.recent_updates.get(request_id)
        if answer_due is not None:
            if not answer_due:
                raise ProtocolViolation(f"a second answer to update {request_id}")
            core.recent_updates.put(request_id, False)
            return
        request = self._find(message, request_id)
        if request is None:
            return
        if request.stream is not None:
            raise misplaced(message, "the control stream: its request has its own")
        if isinstance(message, RequestOk):
            core.on_ok(request, message)
        else:
            core.on_error(request, message)

    def _on_cancel(
        self,
        message: Unsubscribe | FetchCancel | PublishNamespaceDone | PublishNamespaceCancel,
    ) -> None:
        request = self._find(message, message.request_id)
        if request is None:
            return
        match message:
            case Unsubscribe():
                self._expect(message, request, _SUBSCRIPTIONS)
            case FetchCancel():
                self._expect(message, request, (Kind.FETCH,))
            case _:
                self._expect(message, request, (Kind.PUBLISH_NAMESPACE,))
                if request.ours != isinstance(message, PublishNamespaceCancel):
                    raise ProtocolViolation(
                        f"{message_name(type(message))} from the wrong side of {request.id}"
                    )
        if isinstance(message, PublishNamespaceCancel):
            self._core.on_cancel(request, message.error_code, message.reason)
        else:
            self._core.on_cancel(request)

    def _expect(self, message: Message, request: Request, kinds: tuple[Kind, ...]) -> None:
        if request.kind not in kinds:
            raise ProtocolViolation(
                f"{message_name(type(message))} for {request.kind.value} {request.id}"
            )

    # How many requests

    def _on_max_request_id(self, message: MaxRequestId) -> None:
        core = self._core
        maximum = message.max_request_id
        if core.own_ids.maximum is not None and maximum <= core.own_ids.maximum:
            raise ProtocolViolation(
                f"MAX_REQUEST_ID {maximum} where {core.own_ids.maximum} was granted: it must grow"
            )
        core.own_ids.maximum = maximum
        core.events.append(RequestsAllowed(max_request_id=maximum))

    def grant(self) -> None:
        """Send MAX_REQUEST_ID if enough requests have ended since the last one."""
        core = self._core
        if core.closed or core.control is Control.AWAITING_SETUP:
            return
        maximum = core.credit.grant(core.peer_ids.count)
        if maximum is not None:
            self.send_control(MaxRequestId(maximum))


def _id(named: int | None) -> int:
    """Return a request ID, which draft 16 always has; the message model is that of both drafts."""
    return -1 if named is None else named


# Draft 18: a stream for each request

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
"""The message types with which a request stream may begin (moq-transport-18, 3.3)."""


class Shape18:
    """The session shape of draft 18."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    # Sending

    def start(self) -> None:
        """Open our control stream."""
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
        """Return None: ending the stream cancels the request."""
        return None

    def send_cancel(self, request: Request, data: bytes, code: int | None) -> None:  # noqa: ARG002
        """End both directions of the request's stream (moq-transport-18, 3.3.2)."""
        core = self._core
        code = core.cancelled if code is None else code
        core.streams.reset(request.own_stream, code)
        core.streams.stop(request.own_stream, code)

    def grant(self) -> None:
        """Do nothing: QUIC's MAX_STREAMS limits requests."""

    # Receiving

    def first_message(self, stream: Stream, message_type: int) -> None:
        """Set the purpose of a bidirectional stream, which begins with a request."""
        if message_type not in _FIRST:
            raise ProtocolViolation(
                f"a bidirectional stream begins with message type 0x{message_type:X}"
            )
        stream.purpose = Purpose.REQUEST

    def on_message(self, stream: Stream, message: Message) -> None:
        """Handle a message according to its stream."""
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
        """Handle an answer to the request, or to its oldest unanswered update."""
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
