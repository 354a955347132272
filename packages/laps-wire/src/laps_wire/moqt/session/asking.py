"""Requests that the application makes, and how it changes them.

A command checks first and acts then: one that raises has sent nothing and changed nothing, but that
the peer may be told with REQUESTS_BLOCKED that a request had to wait.
"""

from __future__ import annotations

from collections.abc import Callable

from laps_wire.errors import EncodeError, RemoteError, StateError
from laps_wire.moqt.codepoints import SubscribeOptions
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import (
    Fetch,
    FetchTarget,
    Publish,
    PublishNamespace,
    RequestsBlocked,
    RequestUpdate,
    Subscribe,
    SubscribeNamespace,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.parameter_coding import check_scope
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session.core import Core
from laps_wire.moqt.session.events import RequestMessage
from laps_wire.moqt.session.handlers import update_scope
from laps_wire.moqt.session.ids import RequestsBlockedError
from laps_wire.moqt.session.refusals import is_reserved, namespace_of
from laps_wire.moqt.session.requests import Request
from laps_wire.moqt.session.state import Control, Signal, State
from laps_wire.moqt.structures import Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Asking"]


class Asking:
    """The commands that make and change requests."""

    __slots__ = ("_core",)

    _core: Core

    # Making requests

    def subscribe(self, track: FullTrackName, parameters: Parameters = NO_PARAMETERS) -> int:
        """Ask for the objects of a track from now on; gives the request's id."""
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
        """Offer a track to the peer; objects may follow at once unless FORWARD is 0.

        Do not give an alias to another track before the peer can know that the first one is done.
        """
        if self._core.requests.subscriptions(track, we_publish=True):
            raise StateError(f"the peer has a subscription to {track} already")
        self._check_own_alias(track_alias, track)
        return self._request(
            lambda request_id: Publish(request_id, track, track_alias, parameters, track_properties)
        )

    def fetch(self, target: FetchTarget, parameters: Parameters = NO_PARAMETERS) -> int:
        """Ask for objects of the past; tell the session with :meth:`fetch_ended` when they came."""
        return self._request(lambda request_id: Fetch(request_id, target, parameters))

    def track_status(self, track: FullTrackName, parameters: Parameters = NO_PARAMETERS) -> int:
        """Ask what a subscription would find."""
        return self._request(lambda request_id: TrackStatus(request_id, track, parameters))

    def publish_namespace(
        self, namespace: Namespace, parameters: Parameters = NO_PARAMETERS
    ) -> int:
        """Tell the peer that there are tracks in this namespace."""
        return self._request(lambda request_id: PublishNamespace(request_id, namespace, parameters))

    def subscribe_namespace(
        self,
        prefix: Namespace,
        options: SubscribeOptions = SubscribeOptions.NAMESPACE,
        parameters: Parameters = NO_PARAMETERS,
    ) -> int:
        """Ask which namespaces begin so; draft 16 can ask for PUBLISH messages too."""
        return self._request(
            lambda request_id: SubscribeNamespace(request_id, prefix, options, parameters)
        )

    def subscribe_tracks(self, prefix: Namespace, parameters: Parameters = NO_PARAMETERS) -> int:
        """Ask for a PUBLISH of each track whose namespace begins so (draft 18)."""
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
        """StateError if there is no id for a request or an update now."""
        core = self._core
        try:
            core.own_ids.check()
        except RequestsBlockedError as error:
            # Before SETUP no maximum was said that we could be blocked at.
            established = core.control is not Control.AWAITING_SETUP
            if established and core.own_ids.blocked_at != error.maximum:
                core.own_ids.blocked_at = error.maximum
                core.shape.send_control(RequestsBlocked(error.maximum))
            raise

    def _spend_tokens(self, tokens: tuple[Token, ...], updated: Request | None) -> int:
        """Check a message's tokens, take its request id, and note what it registers."""
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
        """Change a request that was accepted; gives the update's own id.

        The peer's GOAWAY does not forbid it: it leaves requests as they are (16: 9.4; 18: 10.4).
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

    # Helpers

    def _find(self, request_id: int) -> Request:
        self._core.check_open()
        request = self._core.requests.get(request_id)
        if request is None:
            raise StateError(f"request {request_id} does not exist, or is over")
        return request
