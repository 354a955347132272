"""The state of a session, and what the peer's messages do to it.

:class:`Core` owns the tables, the queues and the rules that both drafts share. A :class:`Shape`
is the strategy in which the drafts differ: which stream carries which message. The session calls
the core for commands, and a shape calls it for each message of the peer.

Each handler (``on_...``) takes the same steps: check what only this message can get wrong, ask the
state table (``Request.apply_theirs``), and append an event if the request is not over.

SETUP (moq-transport-16, 9.3; -18, 10.3): PATH and AUTHORITY tell a server which URI a client over
native QUIC means. WebTransport carries the URI in its own request::

    moqt://authority/path?query
           AUTHORITY '--PATH--'

So both options are refused from a server and over WebTransport. :mod:`laps_wire.moqt.setup` checks
their form. Whether this server serves that path or authority is for the application to decide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol

from laps_wire.errors import EncodeError, ProtocolViolation, RemoteError, StateError
from laps_wire.moqt.codepoints import STREAM_RESET_CODES, RequestErrorCode
from laps_wire.moqt.control import ControlCodec, message_name
from laps_wire.moqt.errors import (
    InvalidAuthority,
    InvalidPath,
    InvalidRequestId,
    MalformedAuthToken,
)
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    Goaway,
    Message,
    NamespaceDone,
    NamespaceMessage,
    PublishBlocked,
    PublishDone,
    PublishOk,
    RequestError,
    RequestOk,
    RequestUpdate,
    SubscribeOk,
)
from laps_wire.moqt.parameters import Parameters, Scope, check_scope
from laps_wire.moqt.session.events import (
    Event,
    GoawayReceived,
    NamespaceAdvertised,
    NamespaceWithdrawn,
    OkMessage,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestGoaway,
    RequestMessage,
    RequestReceived,
    RequestRefused,
    RequestRejected,
    Role,
    SessionConfig,
    SetupReceived,
    Terminated,
    TrackBlocked,
    Transport,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.session.state import (
    CONTROL,
    MIGRATION,
    UNANSWERED,
    Control,
    ControlSignal,
    Kind,
    OwnRequestIds,
    PeerRequestIds,
    RequestCredit,
    Signal,
)
from laps_wire.moqt.session.tables import (
    Recent,
    Refusal,
    Request,
    Requests,
    Stream,
    Streams,
    check_alias,
    check_fetch_ok,
    overlap,
    refusal,
)
from laps_wire.moqt.session.tokens import AuthToken, OwnTokens, TokenCache
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "MAX_CLOSE_REASON",
    "Core",
    "Shape",
    "check_options",
    "misplaced",
    "own_options",
    "update_scope",
]

MAX_CLOSE_REASON: Final = 512
"""The most characters in the reason of a close: it should fit one packet."""


_NAMESPACE_KINDS: Final = (
    Kind.PUBLISH_NAMESPACE,
    Kind.SUBSCRIBE_NAMESPACE,
    Kind.SUBSCRIBE_TRACKS,
)
_OK_KINDS: Final[dict[Draft, dict[type[OkMessage], tuple[Kind, ...]]]] = {
    Draft.D16: {
        SubscribeOk: (Kind.SUBSCRIBE,),
        PublishOk: (Kind.PUBLISH,),
        FetchOk: (Kind.FETCH,),
        RequestOk: (Kind.TRACK_STATUS, *_NAMESPACE_KINDS),
    },
    Draft.D18: {
        SubscribeOk: (Kind.SUBSCRIBE,),
        FetchOk: (Kind.FETCH,),
        RequestOk: (Kind.PUBLISH, Kind.TRACK_STATUS, *_NAMESPACE_KINDS),
    },
}
"""Which message says OK to which request."""

_OK_SCOPES: Final = {
    Kind.PUBLISH: Scope.PUBLISH_OK,
    Kind.TRACK_STATUS: Scope.TRACK_STATUS_OK,
    **dict.fromkeys(_NAMESPACE_KINDS, Scope.NAMESPACE_OK),
}
_UPDATE_SCOPES: Final = {
    Kind.SUBSCRIBE: Scope.UPDATE_SUBSCRIPTION,
    Kind.PUBLISH: Scope.UPDATE_SUBSCRIPTION,
    Kind.FETCH: Scope.UPDATE_FETCH,
    Kind.SUBSCRIBE_NAMESPACE: Scope.UPDATE_PREFIX,
    Kind.SUBSCRIBE_TRACKS: Scope.UPDATE_PREFIX,
}


def update_scope(kind: Kind) -> Scope:
    """Return which parameters an update of this kind of request may carry."""
    return _UPDATE_SCOPES.get(kind, Scope.UPDATE_OTHER)


def own_options(config: SessionConfig) -> SetupOptions:
    """Return the options of our SETUP; StateError if the peer would have to close the session."""
    limits = config.limits
    options = replace(
        config.options,
        max_request_id=2 * limits.max_requests if config.draft is Draft.D16 else None,
        max_auth_token_cache_size=limits.max_token_cache or None,
    )
    try:
        check_options(options, config.role, config.transport)
        OwnTokens(options.authorization_tokens)
    except RemoteError as error:
        raise StateError(f"our own SETUP: {error}") from error
    return options


def check_options(options: SetupOptions, sender: Role, transport: Transport) -> None:
    """Refuse a PATH or AUTHORITY that ``sender`` may not send."""
    if sender is Role.SERVER:
        where = "from a server"
    elif transport is Transport.WEBTRANSPORT:
        where = "over WebTransport"
    else:
        return
    if options.path is not None:
        raise InvalidPath(f"PATH {where}")
    if options.authority is not None:
        raise InvalidAuthority(f"AUTHORITY {where}")


def misplaced(message: Message, where: str) -> ProtocolViolation:
    """Return the error for a message on a stream that does not carry it."""
    return ProtocolViolation(f"{message_name(type(message))} does not belong on {where}")


class Shape(Protocol):
    """The strategy of one draft: which stream carries which message."""

    def start(self) -> None:
        """Send what can be sent before the peer's first byte."""

    def first_message(self, stream: Stream, message_type: int) -> None:
        """Set the purpose of a bidirectional stream of the peer, from its first message type."""

    def on_message(self, stream: Stream, message: Message) -> None:
        """Act on a message of the peer."""

    def send_request(self, request: Request, data: bytes) -> None:
        """Send an encoded request of ours."""

    def send(self, request: Request, data: bytes, *, fin: bool = False) -> None:
        """Send an encoded message about a request; ``fin`` if it is our last one."""

    def send_update(self, request: Request, data: bytes, *, fin: bool = False) -> None:
        """Send an encoded REQUEST_UPDATE, or the answer to one."""

    def cancel_message(self, request: Request, code: int | None, reason: str) -> Message | None:
        """Return the message that cancels a request; None if ending its stream does."""

    def send_cancel(self, request: Request, data: bytes, code: int | None) -> None:
        """Send the encoded message that cancels, or end the request's stream."""

    def send_control(self, message: Message) -> None:
        """Send a message on our control stream."""

    def grant(self) -> None:
        """Let the peer make more requests, if enough have ended and the draft counts them."""


class Core:
    """The tables and queues of a session, and the rules that both drafts share."""

    __slots__ = (
        "closed",
        "codec",
        "config",
        "control",
        "control_in",
        "control_out",
        "credit",
        "draft",
        "early",
        "early_bytes",
        "events",
        "goaway_sent",
        "options",
        "own_ids",
        "own_tokens",
        "peer_ids",
        "peer_tokens",
        "recent_updates",
        "requests",
        "role",
        "shape",
        "streams",
        "updates",
    )

    shape: Shape

    def __init__(self, config: SessionConfig) -> None:
        limits = config.limits
        self.config = config
        self.draft = config.draft
        self.role = config.role
        self.options = own_options(config)
        """What our SETUP says."""
        self.codec = ControlCodec(config.draft, extensions=config.extensions)
        self.streams = Streams(config.role)
        self.requests = Requests(limits.max_ended)
        # Draft 16 allows nothing until SETUP says so; draft 18 has no such limit.
        maximum = 0 if config.draft is Draft.D16 else None
        self.own_ids = OwnRequestIds(config.role.first_request_id, maximum)
        self.peer_ids = PeerRequestIds(config.role.peer.first_request_id, config.draft)
        self.credit = RequestCredit(limits.max_requests)
        self.own_tokens = OwnTokens(self.options.authorization_tokens)
        self.peer_tokens = TokenCache(limits.max_token_cache)
        self.control = Control.AWAITING_SETUP
        """The state of the peer's control stream."""
        self.control_in: Stream | None = None
        """The stream on which the peer sends control messages."""
        self.control_out: Stream | None = None
        """The stream on which we send control messages; in draft 16 the same one."""
        self.goaway_sent = False
        self.closed = False
        self.updates: dict[int, Request] = {}
        """Updates that were not answered, ours and the peer's, by their own ids."""
        self.recent_updates: Recent[bool] = Recent(limits.max_ended)
        """Draft 16: updates of ours that are over, and whether an answer may still come."""
        self.early: dict[Stream, int] = {}
        """Streams whose bytes are held until SETUP comes, and how many each has; oldest first."""
        self.early_bytes = 0
        """The sum of these numbers."""
        self.events: list[Event] = []

    def control_stream(self) -> Stream:
        """The stream on which we send control messages."""
        if self.control_out is None:
            raise StateError("there is no control stream yet")
        return self.control_out

    # Messages and codes

    def encode(self, message: Message) -> bytes:
        """Encode a message in this session's draft."""
        return self.codec.encode(message)

    def reply_id(self, request_id: int) -> int | None:
        """Return the request id that a reply carries: None in draft 18, where its stream tells."""
        return request_id if self.draft is Draft.D16 else None

    @property
    def cancelled(self) -> int:
        """The stream reset code CANCELLED."""
        return int(STREAM_RESET_CODES[self.draft].CANCELLED)

    @property
    def overload(self) -> int:
        """The stream reset code for a peer that exceeds a limit."""
        codes = STREAM_RESET_CODES[self.draft]
        return int(codes["EXCESSIVE_LOAD"] if self.draft is Draft.D18 else codes.INTERNAL_ERROR)

    # The end of the session

    def check_open(self) -> None:
        """Raise StateError if the session is over."""
        if self.closed:
            raise StateError("the session is closed")

    def terminate(self, code: int, reason: str, *, by_peer: bool) -> None:
        """End the session once. Close the connection unless ``by_peer``."""
        if self.closed:
            return
        self.closed = True
        reason = reason[:MAX_CLOSE_REASON]
        if not by_peer:
            self.streams.close(code, reason)
        self.events.append(Terminated(code=code, reason=reason, by_peer=by_peer))
        self.requests.clear()
        self.updates.clear()
        self.early.clear()

    def fail(self, error: RemoteError) -> None:
        """Close the session because of what the peer did."""
        self.terminate(error.code, str(error), by_peer=False)

    # The end of a request

    def end(self, request: Request, *, abrupt: int | None = None) -> None:
        """Clean up behind a request that has just become TERMINATED.

        ``abrupt`` is the code to end its stream with; without it our half is closed in good order.
        """
        self.requests.end(request)
        request.namespaces.clear()
        self.own_tokens.abandoned(request.id)
        for update_id in request.our_updates:
            self.own_tokens.abandoned(update_id)
            del self.updates[update_id]
            self.recent_updates.put(update_id, True)
        for update_id in request.their_updates:
            del self.updates[update_id]
            if self.draft is Draft.D16:
                self.refuse_late_update(request, update_id)
        request.their_updates.clear()
        if not request.ours:
            self.release()
        stream = request.stream
        if stream is not None:
            if abrupt is None:
                self.streams.finish(stream)
            else:
                self.streams.reset(stream, abrupt)
                self.streams.stop(stream, abrupt)

    def release(self) -> None:
        """Draft 16: give credit back for a request or an update of the peer that is over."""
        if self.draft is Draft.D16:
            self.credit.release()

    def refuse_late_update(self, request: Request, update_id: int) -> None:
        """Draft 16: reject an update of a request that is over: each update gets one answer."""
        code, reason = RequestErrorCode.INTERNAL_ERROR, "the request is over"
        data = self.encode(RequestError(update_id, code, 0, reason))
        self.shape.send_update(request, data)
        self.release()

    def withdraw_namespaces(self, request: Request) -> None:
        """Drop every namespace that was advertised for a request."""
        self._drop_namespaces(request, list(request.namespaces))

    def move_prefix(self, request: Request, prefix: Namespace) -> None:
        """Set a new prefix and drop the namespaces that it does not cover."""
        request.prefix = prefix
        lost = [name for name in request.namespaces if not prefix.is_prefix_of(name)]
        self._drop_namespaces(request, lost)

    def _drop_namespaces(self, request: Request, lost: list[Namespace]) -> None:
        for namespace in lost:
            del request.namespaces[namespace]
            if request.ours:
                self.events.append(NamespaceWithdrawn(request_id=request.id, namespace=namespace))

    def give_up(self, request: Request, reason: str) -> None:
        """Cancel a request that exceeds a limit of :class:`SessionLimits`."""
        request.apply_ours(Signal.CANCEL)
        self.withdraw_namespaces(request)
        self.events.append(
            RequestCancelled(
                request_id=request.id, code=self.overload, reason=reason, by_peer=False
            )
        )
        self.end(request, abrupt=self.overload)

    # Rejecting

    def reject(self, request: Request, error: RequestError) -> None:
        """Reject a request; ``error`` carries its id as the draft has it."""
        data = self.encode(error)
        request.apply_ours(Signal.ERROR)
        self.shape.send(request, data, fin=True)
        self.end(request)

    def reject_update(self, request: Request, update_id: int, error: RequestError) -> None:
        """Reject an update; in draft 18 that answers every update that waits."""
        data = self.encode(error)
        request.apply_ours(Signal.UPDATE_ERROR)
        answered = [update_id] if self.draft is Draft.D16 else list(request.their_updates)
        for answered_id in answered:
            self.answered_theirs(request, answered_id)
        self.shape.send_update(request, data, fin=request.over)
        if request.over:
            self.end(request)

    def answered_theirs(self, request: Request, update_id: int) -> None:
        """Note that we have answered an update of the peer."""
        request.their_updates.remove(update_id)
        request.prefixes.pop(update_id, None)
        del self.updates[update_id]
        self.release()

    def refuse(
        self, request: Request, message: RequestMessage | RequestUpdate, why: Refusal
    ) -> None:
        """Reject a request or its update without the application, which gets RequestRefused."""
        # Before the request has its reply, an update has no answer of its own.
        update = isinstance(message, RequestUpdate) and request.state not in UNANSWERED
        answers = message.request_id if update else request.id
        error = RequestError(self.reply_id(answers), why.code, 0, why.reason)
        self.events.append(
            RequestRefused(
                request_id=request.id, message=message, error_code=why.code, reason=why.reason
            )
        )
        if update:
            self.reject_update(request, message.request_id, error)
        else:
            self.reject(request, error)

    # The control stream

    def on_control(self, signal: ControlSignal, message: Message) -> None:
        """Advance the control stream's state; a message out of order is a violation."""
        control = CONTROL.get((self.control, signal))
        if control is None:
            raise ProtocolViolation(
                f"{message_name(type(message))} on a control stream that is {self.control.value}"
            )
        self.control = control

    def on_setup(self, options: SetupOptions) -> None:
        """Handle the peer's SETUP, once :meth:`on_control` has allowed it."""
        check_options(options, self.role.peer, self.config.transport)
        tokens = self.peer_tokens.resolve_setup(options.authorization_tokens)
        self.own_tokens.set_limit(options.max_auth_token_cache_size or 0)
        if self.draft is Draft.D16:
            self.own_ids.maximum = options.max_request_id or 0
        self.events.append(SetupReceived(options=options, tokens=tokens))

    def on_goaway(self, message: Goaway) -> None:
        """Handle a GOAWAY for the session."""
        self._check_goaway(message)
        if message.request_id is not None:
            parity = self.role.first_request_id
            if message.request_id % 2 != parity:
                raise InvalidRequestId(
                    f"GOAWAY names request {message.request_id}, not one of ours"
                )
        self.events.append(GoawayReceived(message=message))

    def on_request_goaway(self, request: Request, message: Goaway) -> None:
        """Handle a GOAWAY for one request (draft 18)."""
        self._check_goaway(message)
        if message.request_id is not None:
            raise ProtocolViolation("GOAWAY on a request stream with a request id")
        state = MIGRATION.get(request.their_goaway)
        if state is None:
            raise ProtocolViolation(f"a second GOAWAY for {request.kind.value} {request.id}")
        request.their_goaway = state
        if not request.over:
            self.events.append(RequestGoaway(request_id=request.id, message=message))

    def _check_goaway(self, message: Goaway) -> None:
        if self.role is Role.SERVER and message.new_session_uri:
            raise ProtocolViolation("GOAWAY from a client with a new session URI")

    # Requests

    def on_request(self, message: RequestMessage, stream: Stream | None) -> None:
        """Handle a request whose id was checked."""
        tokens, why = self.tokens_of(message.parameters)
        why = why or refusal(
            message,
            self.requests,
            self.draft,
            max_requests=self.config.limits.max_requests,
            leaving=self.goaway_sent,
        )
        request = Request(self.draft, message, ours=False, stream=stream)
        if stream is not None:
            stream.request = request
        self.requests.add(request)
        if stream is not None and stream.stopped is not None:
            # It was cancelled before it arrived: nobody needs to hear of it.
            request.apply_theirs(Signal.CANCEL)
            self.end(request, abrupt=self.cancelled)
        elif why is not None:
            self.refuse(request, message, why)
        else:
            self.events.append(
                RequestReceived(request_id=request.id, message=message, tokens=tokens)
            )

    def tokens_of(self, parameters: Parameters) -> tuple[tuple[AuthToken, ...], Refusal | None]:
        """Resolve the tokens of a message; a malformed one refuses that message only."""
        try:
            return self.peer_tokens.resolve(parameters.authorization_tokens), None
        except MalformedAuthToken as error:
            return (), Refusal(RequestErrorCode.MALFORMED_AUTH_TOKEN, str(error))

    def on_update(self, request: Request, message: RequestUpdate) -> None:
        """Handle an update whose id was checked."""
        tokens, why = self.tokens_of(message.parameters)
        check_scope(message.parameters, self.draft, update_scope(request.kind))
        update_id = message.request_id
        if not request.apply_theirs(Signal.UPDATE):
            if self.draft is Draft.D16:
                self.refuse_late_update(request, update_id)
            return
        request.their_updates.append(update_id)
        self.updates[update_id] = request
        prefix = message.parameters.track_namespace_prefix
        if why is None and prefix is not None:
            request.prefixes[update_id] = prefix
            why = overlap(request.kind, prefix, self.requests, request.id)
        if why is not None:
            self.refuse(request, message, why)
        elif len(request.their_updates) > self.config.limits.max_updates and (
            self.draft is Draft.D18
        ):
            # In draft 16 MAX_REQUEST_ID is the limit.
            self.give_up(request, "too many updates wait for an answer")
        else:
            if request.is_subscription:
                request.note_parameters(message)
            self.events.append(
                UpdateReceived(
                    request_id=request.id, update_id=update_id, message=message, tokens=tokens
                )
            )

    # Replies

    def on_ok(self, request: Request, message: OkMessage) -> None:
        """Handle the reply that accepts a request of ours."""
        if request.kind not in _OK_KINDS[self.draft].get(type(message), ()):
            raise ProtocolViolation(
                f"{message_name(type(message))} in reply to {request.kind.value} {request.id}"
            )
        if isinstance(message, RequestOk):
            self._check_request_ok(message, _OK_SCOPES[request.kind])
        if isinstance(message, FetchOk) and isinstance(request.message, Fetch):
            check_fetch_ok(request.message.target, message)
        if isinstance(message, SubscribeOk) and not request.over:
            check_alias(message.track_alias, request.track, self.requests)
        if not request.apply_theirs(Signal.OK):
            return
        self.own_tokens.answered(request.id)
        if isinstance(message, SubscribeOk):
            self.requests.add_alias(request, message.track_alias)
        if request.is_subscription:
            request.note_parameters(message)
        self.events.append(RequestAccepted(request_id=request.id, message=message))
        if request.over:
            self.end(request)

    def _check_request_ok(self, message: RequestOk, scope: Scope) -> None:
        """Check that a REQUEST_OK carries what ``scope`` allows (moq-transport-18, 10.5)."""
        if self.draft is Draft.D16:
            # Parameters out of place are ignored, and there are no properties.
            return
        check_scope(message.parameters, self.draft, scope)
        if message.track_properties and scope is not Scope.TRACK_STATUS_OK:
            raise ProtocolViolation(f"track properties in {scope.value}")

    def on_error(self, request: Request, message: RequestError) -> None:
        """Handle the reply that rejects a request of ours."""
        self._check_redirect(request, message)
        if request.apply_theirs(Signal.ERROR):
            self.own_tokens.answered(request.id)
            self.events.append(RequestRejected(request_id=request.id, message=message))
            self.end(request)

    def _check_redirect(self, request: Request, message: RequestError) -> None:
        """Check a redirect (moq-transport-18, 10.6.1)."""
        if message.redirect is None:
            return
        if self.role is Role.SERVER and message.redirect.connect_uri:
            raise ProtocolViolation("a redirect from a client with a connect URI")
        if request.kind in _NAMESPACE_KINDS and message.redirect.track.name:
            raise ProtocolViolation(f"a redirect of {request.kind.value} with a track name")

    def on_update_ok(self, request: Request, update_id: int, message: RequestOk) -> None:
        """Handle the answer that accepts an update of ours."""
        self._check_request_ok(message, Scope.REQUEST_UPDATE_OK)
        prefix = request.prefixes.pop(update_id, None)
        request.our_updates.remove(update_id)
        if not request.apply_theirs(Signal.UPDATE_OK):
            return
        self._answered_ours(update_id)
        self.events.append(
            UpdateAccepted(request_id=request.id, update_id=update_id, message=message)
        )
        if prefix is not None:
            self.move_prefix(request, prefix)

    def on_update_error(self, request: Request, update_id: int, message: RequestError) -> None:
        """Handle the answer that rejects an update of ours; in draft 18 it answers all of them."""
        self._check_redirect(request, message)
        answered = [update_id] if self.draft is Draft.D16 else list(request.our_updates)
        live = request.apply_theirs(Signal.UPDATE_ERROR)
        # The younger ones may have arrived behind the error: then they get answers of their own.
        request.late_answers += len(answered) - 1
        for answered_id in answered:
            request.our_updates.remove(answered_id)
            request.prefixes.pop(answered_id, None)
            if live:
                self._answered_ours(answered_id)
        if not live:
            return
        self.events.append(
            UpdateRejected(request_id=request.id, update_id=update_id, message=message)
        )
        if request.over:
            self._closed_by_peer(request, None, "an update failed")

    def _answered_ours(self, update_id: int) -> None:
        del self.updates[update_id]
        self.recent_updates.put(update_id, False)
        self.own_tokens.answered(update_id)

    # Messages that follow a reply

    def on_done(self, request: Request, message: PublishDone) -> None:
        """Handle PUBLISH_DONE: a subscription of ours ends."""
        if request.apply_theirs(Signal.DONE):
            self.events.append(PublishEnded(request_id=request.id, message=message))
            self.end(request)

    def on_namespace(self, request: Request, message: NamespaceMessage | NamespaceDone) -> None:
        """Handle NAMESPACE or NAMESPACE_DONE."""
        if not request.apply_theirs(Signal.NAMESPACE):
            return
        namespace = self._join(request, message.suffix)
        if isinstance(message, NamespaceMessage):
            if len(request.namespaces) >= self.config.limits.max_namespaces:
                self.give_up(request, "too many namespaces are advertised")
                return
            request.namespaces[namespace] = None
            self.events.append(NamespaceAdvertised(request_id=request.id, namespace=namespace))
            return
        if namespace not in request.namespaces:
            raise ProtocolViolation(f"NAMESPACE_DONE for {namespace} before its NAMESPACE")
        del request.namespaces[namespace]
        self.events.append(NamespaceWithdrawn(request_id=request.id, namespace=namespace))

    def on_blocked(self, request: Request, message: PublishBlocked) -> None:
        """Handle PUBLISH_BLOCKED (draft 18)."""
        if request.apply_theirs(Signal.BLOCKED):
            try:
                namespace = self._join(request, message.track.namespace)
                track = FullTrackName(namespace, message.track.name)
            except EncodeError as error:
                raise ProtocolViolation(f"prefix and name together: {error}") from error
            self.events.append(TrackBlocked(request_id=request.id, track=track))

    def _join(self, request: Request, suffix: Namespace) -> Namespace:
        try:
            return request.join(suffix)
        except EncodeError as error:
            raise ProtocolViolation(f"prefix and suffix together: {error}") from error

    # Ends without a message

    def on_cancel(self, request: Request, code: int | None = None, reason: str = "") -> None:
        """Handle the peer's cancel of a request."""
        if request.apply_theirs(Signal.CANCEL):
            self._closed_by_peer(request, code, reason, abrupt=self.cancelled)

    def on_fin(self, request: Request) -> None:
        """Handle the end of the peer's half of a request's stream."""
        if request.apply_theirs(Signal.FIN) and request.over:
            self._closed_by_peer(request, None, "its stream was closed")

    def _closed_by_peer(
        self, request: Request, code: int | None, reason: str, *, abrupt: int | None = None
    ) -> None:
        self.withdraw_namespaces(request)
        self.events.append(RequestCancelled(request_id=request.id, code=code, reason=reason))
        self.end(request, abrupt=abrupt)
