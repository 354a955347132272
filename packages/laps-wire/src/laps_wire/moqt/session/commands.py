"""What the application asks a session to do.

Every command checks first and acts then: a command that raises has sent nothing and changed
nothing. :class:`~laps_wire.errors.StateError` means that the state forbids it now,
:class:`~laps_wire.errors.EncodeError` that the message cannot be written in this draft.
"""

from __future__ import annotations

from laps_wire.errors import StateError
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import (
    FetchOk,
    Goaway,
    NamespaceDone,
    NamespaceMessage,
    Publish,
    PublishBlocked,
    PublishDone,
    PublishOk,
    RequestError,
    RequestOk,
    SubscribeOk,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session.asking import Asking
from laps_wire.moqt.session.config import Role
from laps_wire.moqt.session.events import OkMessage
from laps_wire.moqt.session.requests import Request
from laps_wire.moqt.session.state import MIGRATION, Control, Kind, Signal
from laps_wire.moqt.structures import Location, Redirect
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Commands"]


class Commands(Asking):
    """The commands of a session; see :class:`~laps_wire.moqt.session.session.Session`."""

    __slots__ = ()

    # Answering requests

    def accept(
        self,
        request_id: int,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> None:
        """Say OK to a PUBLISH, a TRACK_STATUS, a namespace request or an update."""
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
        self._say_ok(request, message)

    def accept_subscribe(
        self,
        request_id: int,
        track_alias: int,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> None:
        """Say SUBSCRIBE_OK."""
        request = self._find(request_id)
        if request.kind is not Kind.SUBSCRIBE:
            raise StateError(f"request {request_id} is a {request.kind.value}")
        self._check_own_alias(track_alias, request.track)
        reply_id = self._core.reply_id(request_id)
        self._say_ok(request, SubscribeOk(reply_id, track_alias, parameters, track_properties))
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
        """Say FETCH_OK; tell the session with :meth:`fetch_ended` when the objects are sent."""
        request = self._find(request_id)
        if request.kind is not Kind.FETCH:
            raise StateError(f"request {request_id} is a {request.kind.value}")
        reply_id = self._core.reply_id(request_id)
        message = FetchOk(reply_id, end_of_track, end_location, parameters, track_properties)
        self._say_ok(request, message)

    def _check_no_pending_subscribe(self, publish: Publish) -> None:
        """Our own SUBSCRIBE must be over before PUBLISH_OK (moq-transport-16, 5.1)."""
        for other in self._core.requests.subscriptions(publish.track, we_publish=False):
            if other.id != publish.request_id:
                raise StateError(f"cancel our own SUBSCRIBE {other.id} to this track first")

    def _say_ok(self, request: Request, message: OkMessage) -> None:
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
        """The request of an update that we may answer now."""
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
        """Say REQUEST_ERROR to a request or an update.

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
        """End a request that is not wanted any more.

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
        """Note that the data stream of a FETCH was closed or reset, by either side.

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

    # Telling about namespaces

    def namespace(self, request_id: int, suffix: Namespace) -> None:
        """Advertise a namespace that a SUBSCRIBE_NAMESPACE of the peer asks for."""
        whole = self._find(request_id).join(suffix)
        request = self._tell(request_id, Signal.NAMESPACE, NamespaceMessage(suffix))
        request.namespaces[whole] = None

    def namespace_done(self, request_id: int, suffix: Namespace) -> None:
        """Take back what :meth:`namespace` said."""
        whole = self._find(request_id).join(suffix)
        if whole not in self._find(request_id).namespaces:
            raise StateError(f"NAMESPACE_DONE for {whole} before its NAMESPACE")
        request = self._tell(request_id, Signal.NAMESPACE, NamespaceDone(suffix))
        del request.namespaces[whole]

    def publish_blocked(self, request_id: int, track: FullTrackName) -> None:
        """Tell that a track cannot be published for want of a stream (draft 18).

        The namespace of ``track`` is the part behind the prefix of the SUBSCRIBE_TRACKS.
        """
        self._tell(request_id, Signal.BLOCKED, PublishBlocked(track))

    def _tell(
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
        """Ask the peer to leave; only a server may say where to.

        Start a timer, and :meth:`close` with GOAWAY_TIMEOUT when your patience ends. ``timeout``
        tells it to the peer in milliseconds (draft 18).
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
        """Ask the peer to move one request elsewhere (draft 18)."""
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
