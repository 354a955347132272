"""What the peer's messages do, once it is known which request they are about.

Here the drafts do not differ; how a message finds its request is the business of the shapes. Every
handler has the same steps: check what only this message can get wrong, ask the table
(``Request.apply_theirs``), and if the request is still of interest tell the application.
"""

from __future__ import annotations

from typing import Final

from laps_wire.errors import EncodeError, ProtocolViolation
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.control import message_name
from laps_wire.moqt.errors import InvalidRequestId, MalformedAuthToken
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
from laps_wire.moqt.parameter_coding import check_scope
from laps_wire.moqt.parameters import Parameters, Scope
from laps_wire.moqt.session.config import Role
from laps_wire.moqt.session.core import Core
from laps_wire.moqt.session.events import (
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
    RequestRejected,
    SetupReceived,
    TrackBlocked,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.session.handshake import check_options
from laps_wire.moqt.session.refusals import (
    Refusal,
    check_alias,
    check_fetch_ok,
    overlap,
    refusal,
)
from laps_wire.moqt.session.requests import Request
from laps_wire.moqt.session.state import CONTROL, MIGRATION, ControlSignal, Kind, Signal
from laps_wire.moqt.session.streams import Stream
from laps_wire.moqt.session.tokens import AuthToken
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Handlers", "update_scope"]

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
    """Which parameters an update of this kind of request may carry."""
    return _UPDATE_SCOPES.get(kind, Scope.UPDATE_OTHER)


class Handlers:
    """What the peer's messages do."""

    __slots__ = ("core",)

    def __init__(self, core: Core) -> None:
        self.core = core

    # The control stream

    def on_control(self, signal: ControlSignal, message: Message) -> None:
        """Move the control machine; a message out of its place is a violation."""
        core = self.core
        control = CONTROL.get((core.control, signal))
        if control is None:
            raise ProtocolViolation(
                f"{message_name(type(message))} on a control stream that is {core.control.value}"
            )
        core.control = control

    def on_setup(self, options: SetupOptions) -> None:
        """Take the peer's SETUP, which the control machine has let through."""
        core = self.core
        check_options(options, core.role.peer, core.config.transport)
        tokens = core.peer_tokens.resolve_setup(options.authorization_tokens)
        core.own_tokens.set_limit(options.max_auth_token_cache_size or 0)
        if core.draft is Draft.D16:
            core.own_ids.maximum = options.max_request_id or 0
        core.events.append(SetupReceived(options=options, tokens=tokens))

    def on_goaway(self, message: Goaway) -> None:
        """Take a GOAWAY for the session."""
        self._check_goaway(message)
        if message.request_id is not None:
            parity = self.core.role.first_request_id
            if message.request_id % 2 != parity:
                raise InvalidRequestId(
                    f"GOAWAY names request {message.request_id}, not one of ours"
                )
        self.core.events.append(GoawayReceived(message=message))

    def on_request_goaway(self, request: Request, message: Goaway) -> None:
        """Take a GOAWAY for one request (draft 18)."""
        self._check_goaway(message)
        if message.request_id is not None:
            raise ProtocolViolation("GOAWAY on a request stream with a request id")
        state = MIGRATION.get(request.their_goaway)
        if state is None:
            raise ProtocolViolation(f"a second GOAWAY for {request.kind.value} {request.id}")
        request.their_goaway = state
        if not request.over:
            self.core.events.append(RequestGoaway(request_id=request.id, message=message))

    def _check_goaway(self, message: Goaway) -> None:
        if self.core.role is Role.SERVER and message.new_session_uri:
            raise ProtocolViolation("GOAWAY from a client with a new session URI")

    # Requests

    def on_request(self, message: RequestMessage, stream: Stream | None) -> None:
        """Take a request whose id was checked."""
        core = self.core
        tokens, why = self.tokens_of(message.parameters)
        why = why or refusal(
            message,
            core.requests,
            core.draft,
            max_requests=core.config.limits.max_requests,
            leaving=core.goaway_sent,
        )
        request = Request(core.draft, message, ours=False, stream=stream)
        if stream is not None:
            stream.request = request
        core.requests.add(request)
        if stream is not None and stream.stopped is not None:
            # It was cancelled before it arrived: nobody needs to hear of it.
            request.apply_theirs(Signal.CANCEL)
            core.end(request, abrupt=core.cancelled)
        elif why is not None:
            core.refuse(request, message, why)
        else:
            core.events.append(
                RequestReceived(request_id=request.id, message=message, tokens=tokens)
            )

    def tokens_of(self, parameters: Parameters) -> tuple[tuple[AuthToken, ...], Refusal | None]:
        """Resolve the tokens of a message; a malformed one only ends what it came with."""
        try:
            return self.core.peer_tokens.resolve(parameters.authorization_tokens), None
        except MalformedAuthToken as error:
            return (), Refusal(RequestErrorCode.MALFORMED_AUTH_TOKEN, str(error))

    def on_update(self, request: Request, message: RequestUpdate) -> None:
        """Take an update whose id was checked."""
        core = self.core
        tokens, why = self.tokens_of(message.parameters)
        check_scope(message.parameters, core.draft, update_scope(request.kind))
        update_id = message.request_id
        if not request.apply_theirs(Signal.UPDATE):
            if core.draft is Draft.D16:
                core.refuse_late_update(request, update_id)
            return
        request.their_updates.append(update_id)
        core.updates[update_id] = request
        prefix = message.parameters.track_namespace_prefix
        if why is None and prefix is not None:
            request.prefixes[update_id] = prefix
            why = overlap(request.kind, prefix, core.requests, request.id)
        if why is not None:
            core.refuse(request, message, why)
        elif len(request.their_updates) > core.config.limits.max_updates and (
            core.draft is Draft.D18
        ):
            # In draft 16 MAX_REQUEST_ID is the limit.
            core.give_up(request, "too many updates wait for an answer")
        else:
            if request.is_subscription:
                request.note_parameters(message)
            core.events.append(
                UpdateReceived(
                    request_id=request.id, update_id=update_id, message=message, tokens=tokens
                )
            )

    # Replies

    def on_ok(self, request: Request, message: OkMessage) -> None:
        """Take the reply that accepts a request."""
        core = self.core
        if request.kind not in _OK_KINDS[core.draft].get(type(message), ()):
            raise ProtocolViolation(
                f"{message_name(type(message))} in reply to {request.kind.value} {request.id}"
            )
        if isinstance(message, RequestOk):
            self._check_request_ok(message, _OK_SCOPES[request.kind])
        if isinstance(message, FetchOk) and isinstance(request.message, Fetch):
            check_fetch_ok(request.message.target, message)
        if isinstance(message, SubscribeOk) and not request.over:
            check_alias(message.track_alias, request.track, core.requests)
        if not request.apply_theirs(Signal.OK):
            return
        core.own_tokens.answered(request.id)
        if isinstance(message, SubscribeOk):
            core.requests.add_alias(request, message.track_alias)
        if request.is_subscription:
            request.note_parameters(message)
        core.events.append(RequestAccepted(request_id=request.id, message=message))
        if request.over:
            core.end(request)

    def _check_request_ok(self, message: RequestOk, scope: Scope) -> None:
        """What a REQUEST_OK may carry depends on what it answers (moq-transport-18, 10.5)."""
        if self.core.draft is Draft.D16:
            # Parameters out of place are ignored, and there are no properties.
            return
        check_scope(message.parameters, self.core.draft, scope)
        if message.track_properties and scope is not Scope.TRACK_STATUS_OK:
            raise ProtocolViolation(f"track properties in {scope.value}")

    def on_error(self, request: Request, message: RequestError) -> None:
        """Take the reply that rejects a request."""
        self._check_redirect(request, message)
        if request.apply_theirs(Signal.ERROR):
            self.core.own_tokens.answered(request.id)
            self.core.events.append(RequestRejected(request_id=request.id, message=message))
            self.core.end(request)

    def _check_redirect(self, request: Request, message: RequestError) -> None:
        """What a redirect may not say (moq-transport-18, 10.6.1)."""
        if message.redirect is None:
            return
        if self.core.role is Role.SERVER and message.redirect.connect_uri:
            raise ProtocolViolation("a redirect from a client with a connect URI")
        if request.kind in _NAMESPACE_KINDS and message.redirect.track.name:
            raise ProtocolViolation(f"a redirect of {request.kind.value} with a track name")

    def on_update_ok(self, request: Request, update_id: int, message: RequestOk) -> None:
        """Take the answer that accepts an update of ours."""
        core = self.core
        self._check_request_ok(message, Scope.REQUEST_UPDATE_OK)
        prefix = request.prefixes.pop(update_id, None)
        request.our_updates.remove(update_id)
        if not request.apply_theirs(Signal.UPDATE_OK):
            return
        self._answered_ours(update_id)
        core.events.append(
            UpdateAccepted(request_id=request.id, update_id=update_id, message=message)
        )
        if prefix is not None:
            core.move_prefix(request, prefix)

    def on_update_error(self, request: Request, update_id: int, message: RequestError) -> None:
        """Take the answer that rejects an update of ours; in draft 18 it answers all of them."""
        core = self.core
        self._check_redirect(request, message)
        answered = [update_id] if core.draft is Draft.D16 else list(request.our_updates)
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
        core.events.append(
            UpdateRejected(request_id=request.id, update_id=update_id, message=message)
        )
        if request.over:
            self._closed_by_peer(request, None, "an update failed")

    def _answered_ours(self, update_id: int) -> None:
        core = self.core
        del core.updates[update_id]
        core.recent_updates.put(update_id, False)
        core.own_tokens.answered(update_id)

    # What follows

    def on_done(self, request: Request, message: PublishDone) -> None:
        """Take the end of a subscription."""
        if request.apply_theirs(Signal.DONE):
            self.core.events.append(PublishEnded(request_id=request.id, message=message))
            self.core.end(request)

    def on_namespace(self, request: Request, message: NamespaceMessage | NamespaceDone) -> None:
        """Take NAMESPACE or NAMESPACE_DONE."""
        core = self.core
        if not request.apply_theirs(Signal.NAMESPACE):
            return
        namespace = self._join(request, message.suffix)
        if isinstance(message, NamespaceMessage):
            if len(request.namespaces) >= core.config.limits.max_namespaces:
                core.give_up(request, "too many namespaces are advertised")
                return
            request.namespaces[namespace] = None
            core.events.append(NamespaceAdvertised(request_id=request.id, namespace=namespace))
            return
        if namespace not in request.namespaces:
            raise ProtocolViolation(f"NAMESPACE_DONE for {namespace} before its NAMESPACE")
        del request.namespaces[namespace]
        core.events.append(NamespaceWithdrawn(request_id=request.id, namespace=namespace))

    def on_blocked(self, request: Request, message: PublishBlocked) -> None:
        """Take PUBLISH_BLOCKED (draft 18)."""
        if request.apply_theirs(Signal.BLOCKED):
            try:
                namespace = self._join(request, message.track.namespace)
                track = FullTrackName(namespace, message.track.name)
            except EncodeError as error:
                raise ProtocolViolation(f"prefix and name together: {error}") from error
            self.core.events.append(TrackBlocked(request_id=request.id, track=track))

    def _join(self, request: Request, suffix: Namespace) -> Namespace:
        try:
            return request.join(suffix)
        except EncodeError as error:
            raise ProtocolViolation(f"prefix and suffix together: {error}") from error

    # Endings without a last word

    def on_cancel(self, request: Request, code: int | None = None, reason: str = "") -> None:
        """Take the peer's word that it does not want a request any more."""
        if request.apply_theirs(Signal.CANCEL):
            self._closed_by_peer(request, code, reason, abrupt=self.core.cancelled)

    def on_fin(self, request: Request) -> None:
        """Take the end of the peer's half of a request's stream."""
        if request.apply_theirs(Signal.FIN) and request.over:
            self._closed_by_peer(request, None, "its stream was closed")

    def _closed_by_peer(
        self, request: Request, code: int | None, reason: str, *, abrupt: int | None = None
    ) -> None:
        core = self.core
        core.withdraw_namespaces(request)
        core.events.append(RequestCancelled(request_id=request.id, code=code, reason=reason))
        core.end(request, abrupt=abrupt)
