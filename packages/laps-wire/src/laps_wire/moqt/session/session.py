"""The public class of a MoQT session (both roles, both drafts, no I/O), and its reader of streams.

A command that raises has sent nothing and changed nothing, with one exception: REQUESTS_BLOCKED
may inform the peer that a request had to wait.
:class:`~laps_wire.errors.StateError` means that the state forbids the command now,
:class:`~laps_wire.errors.EncodeError` that the message cannot be written in this draft.

:class:`Inbound` determines the purpose of each stream, and reads its messages::

    bytes of a stream --> which purpose? --> whole messages --> shape.on_message
                            |                     ^
                            | data, padding       | held until SETUP has arrived
                            v                     | (request streams can overtake it)
                    handed over, dropped     buffer: less than one message

A violation of the peer does not raise: it closes the session with the draft's code.
"""

from __future__ import annotations

from collections.abc import Callable

from laps_wire.errors import (
    EncodeError,
    IncompleteError,
    ProtocolViolation,
    RemoteError,
    StateError,
)
from laps_wire.moqt.codepoints import SessionCode, SubscribeOptions
from laps_wire.moqt.data.types import StreamKind, peek_stream_kind
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    FetchTarget,
    Goaway,
    NamespaceDone,
    NamespaceMessage,
    Publish,
    PublishBlocked,
    PublishDone,
    PublishNamespace,
    PublishOk,
    RequestError,
    RequestOk,
    RequestsBlocked,
    RequestUpdate,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters, check_scope
from laps_wire.moqt.session.core import Core, update_scope
from laps_wire.moqt.session.events import (
    Action,
    DataStreamOpened,
    Event,
    OkMessage,
    RequestMessage,
    Role,
    SessionConfig,
    StreamRef,
)
from laps_wire.moqt.session.shapes import Shape16, Shape18
from laps_wire.moqt.session.state import (
    MIGRATION,
    Control,
    Kind,
    RequestsBlockedError,
    Signal,
    State,
)
from laps_wire.moqt.session.tables import (
    Purpose,
    Request,
    Stream,
    is_reserved,
    is_unidirectional,
    namespace_of,
    opened_by,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Location, Redirect, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Inbound", "Session"]


class Inbound:
    """Reads what the transport receives and passes messages to the shape."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def data(self, stream_id: int, data: bytes, *, fin: bool) -> None:
        """Read bytes of a stream, and its end if ``fin``."""
        if self._core.closed:
            return
        stream = self._core.streams.incoming(stream_id)
        if stream is not None:
            self._guard(lambda: self._on_data(stream, data, fin=fin))

    def reset(self, stream_id: int, code: int) -> None:
        """Handle RESET_STREAM: the peer abandoned its half of a stream."""
        stream = self._touched(stream_id)
        if stream is not None:
            self._guard(lambda: self._on_reset(stream, code))

    def stop(self, stream_id: int, code: int) -> None:
        """Handle STOP_SENDING: the peer asks us to abandon our half of a stream."""
        stream = self._touched(stream_id)
        if stream is not None:
            self._guard(lambda: self._on_stop(stream, code))

    def _touched(self, stream_id: int) -> Stream | None:
        """Return the stream of a RESET_STREAM or STOP_SENDING; None if the data plane owns it.

        Frames overtake each other, so this may be the first frame of a stream of the peer.
        """
        if self._core.closed:
            return None
        if opened_by(stream_id) is self._core.role:
            return self._core.streams.find(stream_id)
        return self._core.streams.incoming(stream_id)

    def _guard(self, action: Callable[[], None]) -> None:
        """Run ``action``; an error of the peer closes the session."""
        try:
            action()
        except RemoteError as error:
            self._core.fail(error)
        self._core.shape.grant()

    # Bytes

    def _on_data(self, stream: Stream, data: bytes, *, fin: bool) -> None:
        if stream.purpose is Purpose.UNKNOWN:
            stream.buffer += data
            data = b""
            self._settle(stream, fin=fin)
        if stream.purpose in (Purpose.CONTROL, Purpose.REQUEST):
            stream.buffer += data
            self._read(stream, fin=fin)
        elif fin:
            self._core.streams.received_all(stream)
            if stream.purpose is Purpose.UNKNOWN:
                # The stream ended without a message.
                self._core.streams.finish(stream)

    def _settle(self, stream: Stream, *, fin: bool) -> None:
        """Set the purpose of a new stream of the peer, once its first integer is complete."""
        core = self._core
        buffer = bytes(stream.buffer)
        try:
            if not is_unidirectional(core.streams.stream_id(stream.ref)):
                message_type, _ = core.draft.integers.decode(buffer, 0, len(buffer))
                core.shape.first_message(stream, message_type)
                if stream.purpose is Purpose.CONTROL and stream.stopped is not None:
                    raise ProtocolViolation("the control stream was refused with STOP_SENDING")
                return
            kind = peek_stream_kind(buffer, core.draft)
        except IncompleteError:
            return
        if kind is StreamKind.SETUP:
            if core.control_in is not None:
                raise ProtocolViolation("a second control stream")
            stream.purpose = Purpose.CONTROL
            core.control_in = stream
        elif kind is StreamKind.PADDING:
            stream.purpose = Purpose.IGNORED
            stream.buffer.clear()
        else:
            stream_id = core.streams.stream_id(stream.ref)
            stream.purpose = Purpose.IGNORED
            stream.receiving = False
            core.streams.hand_over(stream)
            core.events.append(
                DataStreamOpened(stream_id=stream_id, kind=kind, data=buffer, fin=fin)
            )

    # Messages

    def _read(self, stream: Stream, *, fin: bool) -> None:
        core = self._core
        if core.control is Control.AWAITING_SETUP and stream.purpose is Purpose.REQUEST:
            self._hold(stream, fin=fin)
            return
        waiting = core.control is Control.AWAITING_SETUP
        if fin or len(stream.buffer) >= stream.wanted:
            self._read_messages(stream)
        if fin:
            self._on_fin(stream)
        if waiting and core.control is not Control.AWAITING_SETUP:
            self._release()

    def _read_messages(self, stream: Stream) -> None:
        """Handle every whole message in the buffer and keep the rest."""
        core = self._core
        data = bytes(stream.buffer)
        pos = 0
        while stream.purpose is not Purpose.IGNORED:
            try:
                message, pos = core.codec.decode(data, pos=pos)
            except IncompleteError as error:
                # The buffer is not parsed again before the message can be whole.
                stream.wanted = len(data) - pos + error.needed
                stream.buffer[:] = data[pos:]
                return
            core.shape.on_message(stream, message)

    def _on_fin(self, stream: Stream) -> None:
        core = self._core
        if stream.purpose is Purpose.CONTROL:
            raise ProtocolViolation("the control stream was closed")
        if stream.purpose is Purpose.REQUEST and stream.buffer:
            raise ProtocolViolation("a stream ends in the middle of a message")
        core.streams.received_all(stream)
        request = stream.request if stream.purpose is Purpose.REQUEST else None
        if request is not None and request.shadow is not State.TERMINATED:
            self._core.on_fin(request)

    # Before SETUP

    def _hold(self, stream: Stream, *, fin: bool) -> None:
        """Keep the bytes of a request stream until SETUP has come (moq-transport-16, 3.3)."""
        core = self._core
        core.early_bytes += len(stream.buffer) - core.early.get(stream, 0)
        core.early[stream] = len(stream.buffer)
        stream.finished = fin
        limit = core.config.limits.max_early_bytes
        if core.early_bytes > limit:
            # A request that was cancelled meanwhile has dropped its bytes.
            core.early = {held: len(held.buffer) for held in core.early}
            core.early_bytes = sum(core.early.values())
        if core.early_bytes > limit:
            self._let_go(stream)
            if stream.request is not None and not stream.request.over:
                core.give_up(stream.request, "its replies overtook SETUP")
            else:
                core.streams.reset(stream, core.overload)
                core.streams.stop(stream, core.overload)
            if fin:
                core.streams.received_all(stream)

    def _let_go(self, stream: Stream) -> None:
        """Stop holding the bytes of a stream."""
        self._core.early_bytes -= self._core.early.pop(stream, 0)

    def _release(self) -> None:
        """Read the held bytes, oldest stream first."""
        core = self._core
        early, core.early = core.early, {}
        core.early_bytes = 0
        for stream in early:
            self._read(stream, fin=stream.finished)

    # Ends

    def _on_reset(self, stream: Stream, code: int) -> None:
        core = self._core
        if stream.purpose is Purpose.CONTROL:
            raise ProtocolViolation("the control stream was reset")
        self._let_go(stream)
        stream.buffer.clear()
        core.streams.received_all(stream)
        self._cancelled(stream, code)

    def _on_stop(self, stream: Stream, code: int) -> None:
        core = self._core
        if stream.purpose is Purpose.CONTROL:
            raise ProtocolViolation("the control stream was refused with STOP_SENDING")
        if stream.request is None:
            stream.stopped = code
        self._cancelled(stream, code)
        core.streams.reset(stream, core.cancelled)

    def _cancelled(self, stream: Stream, code: int) -> None:
        """Cancel the request of a stream of which the peer abandoned one half."""
        request = stream.request
        if request is None:
            self._core.streams.reset(stream, self._core.cancelled)
        elif request.shadow is not State.TERMINATED:
            self._core.on_cancel(request, code)


class Session:
    """One end of a MoQT session.

    It has four families of methods:

    A. *Getters* change nothing: ``draft``, ``role``, ``established``,
       ``closed``, ``open_requests``, ``request_state`` ...
    B. *From the transport*: ``receive_stream_data``, ``receive_stream_reset``,
       ``receive_stop_sending``, ``receive_connection_lost``. They do not raise for what the
       peer sent: a violation becomes a ``CloseSession`` action and a ``Terminated`` event.
    C. *Commands of the application*: ``subscribe``, ``publish``, ``fetch``, ``track_status``,
       ``publish_namespace``, ``subscribe_namespace``, ``subscribe_tracks``; ``update``;
       ``accept``, ``accept_subscribe``, ``accept_fetch``, ``reject``; ``cancel``,
       ``publish_done``, ``fetch_ended``; ``namespace``, ``namespace_done``, ``publish_blocked``;
       ``goaway``, ``goaway_request``, ``close``. They raise a
       :class:`~laps_wire.errors.LocalError` and do nothing if they are not allowed.
    D. *Polls* hand out the results: after any call of B or C, carry out all actions of
       ``poll_transmit`` and handle all of ``poll_events``. ``is_idle`` is true if both are empty.

    A new session has its SETUP to transmit, except a server of draft 16. Commands name requests by
    their Request ID, ours and the peer's alike. The session reads no clock: the caller keeps timers
    for unanswered requests, for GOAWAY and for SETUP, and calls ``close``.

    The session does not read streams of objects (see ``DataStreamOpened``) or datagrams.
    """

    __slots__ = ("_core", "_inbound")

    def __init__(self, config: SessionConfig) -> None:
        core = Core(config)
        shape = Shape16 if config.draft is Draft.D16 else Shape18
        core.shape = shape(core)
        self._core = core
        self._inbound = Inbound(core)
        core.shape.start()

    # A. Getters

    @property
    def draft(self) -> Draft:
        """The draft of this session."""
        return self._core.draft

    @property
    def role(self) -> Role:
        """The role of this end."""
        return self._core.role

    @property
    def options(self) -> SetupOptions:
        """The options of our SETUP."""
        return self._core.options

    @property
    def established(self) -> bool:
        """Whether the peer's SETUP has arrived and the session is not over."""
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
        """The number of streams in use, including control streams."""
        return len(self._core.streams)

    def request_state(self, request_id: int) -> State | None:
        """Return the state of a request; None if it does not exist or is over."""
        request = self._core.requests.get(request_id)
        return None if request is None else request.state

    def request_kind(self, request_id: int) -> Kind | None:
        """Return the kind of a request; None if it does not exist or is over."""
        request = self._core.requests.get(request_id)
        return None if request is None else request.kind

    def stream_id(self, stream: StreamRef) -> int:
        """Return the id that a stream in an action is bound to."""
        return self._core.streams.stream_id(stream)

    # B. From the transport

    def bind_stream(self, stream: StreamRef, stream_id: int) -> None:
        """Set the id of a stream that ``OpenStream`` asked for, before bytes arrive on it."""
        self._core.streams.bind(stream, stream_id)

    def receive_stream_data(self, stream_id: int, data: bytes, fin: bool = False) -> None:
        """Read the next bytes of a stream; ``fin`` if they are the last."""
        self._inbound.data(stream_id, data, fin=fin)

    def receive_stream_reset(self, stream_id: int, code: int) -> None:
        """Handle the peer's RESET_STREAM."""
        self._inbound.reset(stream_id, code)

    def receive_stop_sending(self, stream_id: int, code: int) -> None:
        """Handle the peer's STOP_SENDING."""
        self._inbound.stop(stream_id, code)

    def receive_connection_lost(self, code: int = SessionCode.NO_ERROR, reason: str = "") -> None:
        """End the session because the peer or the transport closed the connection."""
        self._core.terminate(code, reason, by_peer=True)

    # C. Commands: requests of the application

    def subscribe(self, track: FullTrackName, parameters: Parameters = NO_PARAMETERS) -> int:
        """Send SUBSCRIBE for the future objects of a track; return the request id."""
        if self._core.requests.subscriptions(track, we_publish=False):
            raise StateError(f"there is a subscription to {track} already")
        return self._request(lambda request_id: Subscribe(request_id, track, parameters))

    def publish(
        self,
        track: FullTrackName,
        track_alias: int,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> int:
        """Send PUBLISH to offer a track; objects may follow at once unless FORWARD is 0.

        Do not give an alias to another track before the peer can know that the first one is done.
        """
        if self._core.requests.subscriptions(track, we_publish=True):
            raise StateError(f"the peer has a subscription to {track} already")
        self._check_own_alias(track_alias, track)
        return self._request(
            lambda request_id: Publish(request_id, track, track_alias, parameters, track_properties)
        )

    def fetch(self, target: FetchTarget, parameters: Parameters = NO_PARAMETERS) -> int:
        """Send FETCH for past objects; call :meth:`fetch_ended` when their stream has ended."""
        return self._request(lambda request_id: Fetch(request_id, target, parameters))

    def track_status(self, track: FullTrackName, parameters: Parameters = NO_PARAMETERS) -> int:
        """Send TRACK_STATUS for a track; return the request id."""
        return self._request(lambda request_id: TrackStatus(request_id, track, parameters))

    def publish_namespace(
        self, namespace: Namespace, parameters: Parameters = NO_PARAMETERS
    ) -> int:
        """Send PUBLISH_NAMESPACE to announce a namespace; return the request id."""
        return self._request(lambda request_id: PublishNamespace(request_id, namespace, parameters))

    def subscribe_namespace(
        self,
        prefix: Namespace,
        options: SubscribeOptions = SubscribeOptions.NAMESPACE,
        parameters: Parameters = NO_PARAMETERS,
    ) -> int:
        """Send SUBSCRIBE_NAMESPACE for a prefix; draft 16 can also request PUBLISH messages."""
        return self._request(
            lambda request_id: SubscribeNamespace(request_id, prefix, options, parameters)
        )

    def subscribe_tracks(self, prefix: Namespace, parameters: Parameters = NO_PARAMETERS) -> int:
        """Send SUBSCRIBE_TRACKS for a prefix: the peer sends PUBLISH for each track (draft 18)."""
        return self._request(lambda request_id: SubscribeTracks(request_id, prefix, parameters))

    def _request(self, make: Callable[[int], RequestMessage]) -> int:
        core = self._core
        core.check_open()
        if core.control is Control.LEAVING:
            raise StateError("the peer has sent GOAWAY: make new requests on another session")
        self._check_id()
        message = make(core.own_ids.next)
        if core.draft is Draft.D18 and is_reserved(namespace_of(message)):
            raise StateError(f"the namespace {namespace_of(message)} is reserved")
        data = core.encode(message)
        request_id = self._spend_tokens(message.parameters.authorization_tokens, None)
        request = Request(core.draft, message, ours=True)
        core.requests.add(request)
        core.shape.send_request(request, data)
        return request_id

    def _check_id(self) -> None:
        """Raise StateError if no id is free for a request or an update now."""
        core = self._core
        try:
            core.own_ids.check()
        except RequestsBlockedError as error:
            # Before SETUP the peer has sent no maximum.
            established = core.control is not Control.AWAITING_SETUP
            if established and core.own_ids.blocked_at != error.maximum:
                core.own_ids.blocked_at = error.maximum
                core.shape.send_control(RequestsBlocked(error.maximum))
            raise

    def _spend_tokens(self, tokens: tuple[Token, ...], updated: Request | None) -> int:
        """Check a message's tokens, take its request id, and store what it registers."""
        core = self._core
        stream = core.own_ids.next if updated is None else updated.id
        order = stream if core.draft is Draft.D18 else None
        cache = core.own_tokens.check(tokens, order)
        message = core.own_ids.take()
        core.own_tokens.sent(cache, tokens, message, order)
        return message

    def _check_own_alias(self, track_alias: int, track: FullTrackName | None) -> None:
        other = self._core.requests.alias_holder(track_alias, track, we_publish=True)
        if other is not None:
            raise StateError(f"track alias {track_alias} stands for the track of {other.id}")

    # Changing requests

    def update(self, request_id: int, parameters: Parameters) -> int:
        """Send REQUEST_UPDATE for a request that was accepted; return the update's own id.

        The peer's GOAWAY does not forbid updates (16: 9.4; 18: 10.4).
        """
        core = self._core
        request = self._find(request_id)
        if request.state is State.PENDING:
            raise StateError(f"request {request_id} was not accepted yet: update it then")
        request.check_ours(Signal.UPDATE)
        self._check_id()
        try:
            check_scope(parameters, core.draft, update_scope(request.kind))
        except RemoteError as error:
            raise EncodeError(str(error)) from error
        message = RequestUpdate(core.own_ids.next, core.reply_id(request_id), parameters)
        data = core.encode(message)
        update_id = self._spend_tokens(parameters.authorization_tokens, request)
        request.apply_ours(Signal.UPDATE)
        request.our_updates.append(update_id)
        core.updates[update_id] = request
        if parameters.track_namespace_prefix is not None:
            request.prefixes[update_id] = parameters.track_namespace_prefix
        if request.is_subscription:
            request.note_parameters(message)
        core.shape.send_update(request, data)
        return update_id

    # Answering requests

    def accept(
        self,
        request_id: int,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> None:
        """Accept a PUBLISH, a TRACK_STATUS, a namespace request or an update."""
        core = self._core
        if request_id in core.updates:
            self._accept_update(request_id, parameters)
            return
        request = self._find(request_id)
        if request.kind in (Kind.SUBSCRIBE, Kind.FETCH):
            raise StateError(f"accept a {request.kind.value} with its own command")
        if isinstance(request.message, Publish):
            self._check_no_pending_subscribe(request.message)
        message: OkMessage
        if request.kind is Kind.PUBLISH and core.draft is Draft.D16:
            message = PublishOk(request_id, parameters)
        else:
            message = RequestOk(core.reply_id(request_id), parameters, track_properties)
        self._send_ok(request, message)

    def accept_subscribe(
        self,
        request_id: int,
        track_alias: int,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> None:
        """Accept a SUBSCRIBE with SUBSCRIBE_OK."""
        request = self._find(request_id)
        if request.kind is not Kind.SUBSCRIBE:
            raise StateError(f"request {request_id} is a {request.kind.value}")
        self._check_own_alias(track_alias, request.track)
        reply_id = self._core.reply_id(request_id)
        self._send_ok(request, SubscribeOk(reply_id, track_alias, parameters, track_properties))
        self._core.requests.add_alias(request, track_alias)

    def accept_fetch(
        self,
        request_id: int,
        end_location: Location,
        *,
        end_of_track: bool = False,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> None:
        """Accept a FETCH with FETCH_OK; call :meth:`fetch_ended` when the objects are sent."""
        request = self._find(request_id)
        if request.kind is not Kind.FETCH:
            raise StateError(f"request {request_id} is a {request.kind.value}")
        reply_id = self._core.reply_id(request_id)
        message = FetchOk(reply_id, end_of_track, end_location, parameters, track_properties)
        self._send_ok(request, message)

    def _check_no_pending_subscribe(self, publish: Publish) -> None:
        """Our own SUBSCRIBE must be over before PUBLISH_OK (moq-transport-16, 5.1)."""
        for other in self._core.requests.subscriptions(publish.track, we_publish=False):
            if other.id != publish.request_id:
                raise StateError(f"cancel our own SUBSCRIBE {other.id} to this track first")

    def _send_ok(self, request: Request, message: OkMessage) -> None:
        core = self._core
        request.check_ours(Signal.OK)
        data = core.encode(message)
        request.apply_ours(Signal.OK)
        if request.is_subscription:
            request.note_parameters(message)
        core.shape.send(request, data, fin=request.over)
        if request.over:
            core.end(request)
            core.shape.grant()

    def _accept_update(self, update_id: int, parameters: Parameters) -> None:
        core = self._core
        request = self._update_to_answer(update_id)
        request.check_ours(Signal.UPDATE_OK)
        data = core.encode(RequestOk(core.reply_id(update_id), parameters))
        request.apply_ours(Signal.UPDATE_OK)
        prefix = request.prefixes.get(update_id)
        if prefix is not None:
            core.move_prefix(request, prefix)
        core.answered_theirs(request, update_id)
        core.shape.send_update(request, data)
        core.shape.grant()

    def _update_to_answer(self, update_id: int) -> Request:
        """Return the request of an update that we may answer now."""
        core = self._core
        request = core.updates[update_id]
        if core.own_ids.used(update_id):
            raise StateError(f"update {update_id} is ours: the peer answers it")
        if core.draft is Draft.D18 and request.their_updates[0] != update_id:
            raise StateError(f"update {request.their_updates[0]} must be answered first")
        return request

    def reject(
        self,
        request_id: int,
        error_code: int,
        reason: str = "",
        *,
        retry_interval: int = 0,
        redirect: Redirect | None = None,
    ) -> None:
        """Reject a request or an update with REQUEST_ERROR.

        A subscription whose update was rejected must end: :meth:`publish_done` with UPDATE_FAILED
        if we are its publisher. In draft 18 rejecting one update answers all that wait, and a
        rejected update of a namespace request ends that request.
        """
        core = self._core
        core.check_open()
        reply_id = core.reply_id(request_id)
        error = RequestError(reply_id, error_code, retry_interval, reason, redirect)
        if request_id in core.updates:
            core.reject_update(self._update_to_answer(request_id), request_id, error)
        else:
            core.reject(self._find(request_id), error)
        core.shape.grant()

    # Ending requests

    def cancel(self, request_id: int, *, code: int | None = None, reason: str = "") -> None:
        """Cancel a request.

        Draft 16 sends UNSUBSCRIBE, FETCH_CANCEL, PUBLISH_NAMESPACE_DONE, PUBLISH_NAMESPACE_CANCEL
        (with ``code``, a request error code, and ``reason``) or closes the stream. Draft 18 ends
        both directions of the request's stream with ``code``, a stream reset code.
        """
        core = self._core
        request = self._find(request_id)
        request.check_ours(Signal.CANCEL)
        message = core.shape.cancel_message(request, code, reason)
        data = b"" if message is None else core.encode(message)
        request.apply_ours(Signal.CANCEL)
        core.shape.send_cancel(request, data, code)
        core.end(request)
        core.shape.grant()

    def publish_done(
        self, request_id: int, status_code: int, stream_count: int, reason: str = ""
    ) -> None:
        """End a subscription as its publisher, after all its data streams were closed."""
        core = self._core
        request = self._find(request_id)
        request.check_ours(Signal.DONE)
        reply_id = core.reply_id(request_id)
        data = core.encode(PublishDone(reply_id, status_code, stream_count, reason))
        request.apply_ours(Signal.DONE)
        core.shape.send(request, data, fin=True)
        core.end(request)
        core.shape.grant()

    def fetch_ended(self, request_id: int) -> None:
        """Record that the data stream of a FETCH was closed or reset, by either side.

        The fetch is over when it also has its reply. A fetch that is over already is left alone.
        """
        core = self._core
        core.check_open()
        request = core.requests.get(request_id)
        if request is None and core.requests.ended.get(request_id) is not None:
            return
        request = self._find(request_id)
        request.apply_ours(Signal.DATA_END)
        if request.over:
            core.end(request)
            core.shape.grant()

    # Namespaces

    def namespace(self, request_id: int, suffix: Namespace) -> None:
        """Advertise a namespace that a SUBSCRIBE_NAMESPACE of the peer asks for."""
        whole = self._find(request_id).join(suffix)
        request = self._send_about(request_id, Signal.NAMESPACE, NamespaceMessage(suffix))
        request.namespaces[whole] = None

    def namespace_done(self, request_id: int, suffix: Namespace) -> None:
        """Withdraw a namespace that :meth:`namespace` advertised."""
        whole = self._find(request_id).join(suffix)
        if whole not in self._find(request_id).namespaces:
            raise StateError(f"NAMESPACE_DONE for {whole} before its NAMESPACE")
        request = self._send_about(request_id, Signal.NAMESPACE, NamespaceDone(suffix))
        del request.namespaces[whole]

    def publish_blocked(self, request_id: int, track: FullTrackName) -> None:
        """Send PUBLISH_BLOCKED: a track cannot be published for lack of a stream (draft 18).

        The namespace of ``track`` is the part behind the prefix of the SUBSCRIBE_TRACKS.
        """
        self._send_about(request_id, Signal.BLOCKED, PublishBlocked(track))

    def _send_about(
        self,
        request_id: int,
        signal: Signal,
        message: NamespaceMessage | NamespaceDone | PublishBlocked,
    ) -> Request:
        core = self._core
        request = self._find(request_id)
        request.check_ours(signal)
        data = core.encode(message)
        request.apply_ours(signal)
        core.shape.send(request, data)
        return request

    # Leaving

    def goaway(self, new_session_uri: str = "", timeout: int = 0) -> None:
        """Send GOAWAY; only a server may name a new session URI.

        Start a timer, and :meth:`close` with GOAWAY_TIMEOUT when it fires. ``timeout`` is that
        time in milliseconds, for the peer (draft 18).
        """
        core = self._core
        core.check_open()
        if core.goaway_sent:
            raise StateError("GOAWAY was sent already")
        if core.control is Control.AWAITING_SETUP:
            raise StateError("GOAWAY must wait for the peer's SETUP")
        request_id = core.peer_ids.next if core.draft is Draft.D18 else None
        message = self._goaway(new_session_uri, timeout, request_id)
        core.shape.send_control(message)
        core.goaway_sent = True

    def goaway_request(self, request_id: int, new_session_uri: str = "", timeout: int = 0) -> None:
        """Send GOAWAY for one request (draft 18)."""
        core = self._core
        request = self._find(request_id)
        if core.draft is Draft.D16:
            raise StateError("draft 16 has no GOAWAY for a single request")
        state = MIGRATION.get(request.our_goaway)
        if state is None:
            raise StateError(f"GOAWAY was sent for request {request_id} already")
        data = core.encode(self._goaway(new_session_uri, timeout, None))
        request.our_goaway = state
        core.shape.send(request, data)

    def _goaway(self, new_session_uri: str, timeout: int, request_id: int | None) -> Goaway:
        if new_session_uri and self._core.role is Role.CLIENT:
            raise StateError("a client cannot tell a server where to go")
        return Goaway(new_session_uri, timeout, request_id)

    # The end of the session

    def close(self, code: int = SessionCode.NO_ERROR, reason: str = "") -> None:
        """End the session. A second call does nothing."""
        self._core.terminate(code, reason, by_peer=False)

    # D. Polls

    @property
    def is_idle(self) -> bool:
        """Whether both polls would return nothing."""
        core = self._core
        return not core.events and core.streams.is_idle

    def poll_transmit(self) -> list[Action]:
        """Return what the transport must do, in order, and forget it.

        :meth:`stream_id` knows the refs in these actions until the next call.
        """
        return self._core.streams.drain()

    def poll_events(self) -> list[Event]:
        """Return what happened, in order, and forget it."""
        if not self._core.events:
            return []
        events, self._core.events = self._core.events, []
        return events

    # Helpers

    def _find(self, request_id: int) -> Request:
        self._core.check_open()
        request = self._core.requests.get(request_id)
        if request is None:
            raise StateError(f"request {request_id} does not exist, or is over")
        return request
