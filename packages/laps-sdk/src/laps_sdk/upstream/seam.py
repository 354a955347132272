"""The session between an Edge and what is above it, when both are in one process.

::

    EdgeRelay --commands--> SeamEnd  ==messages==>  SeamEnd --events--> Upstream
              <--events---            <==messages==         <-commands--

A :class:`SeamEnd` has the commands of a MoQT session (:class:`laps_wire.moqt.session.Session`), so
that the Edge treats what is above it like any client. What crosses are the frozen dataclasses of
:mod:`laps_wire.moqt.messages`: nothing is encoded. The states of requests are those of draft 18.

:meth:`Seam.pump` carries messages until both ends are quiet. A handler that gives a command while
it is called needs not pump: the loop that called it goes on. Objects do not cross here: they go to
and from the forwarding plane directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import Egress
from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import STREAM_RESET_CODES, SessionCode
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    FetchTarget,
    Goaway,
    Publish,
    PublishDone,
    PublishNamespace,
    RequestError,
    RequestOk,
    RequestUpdate,
    Subscribe,
    SubscribeOk,
    TrackStatus,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    Event,
    GoawayReceived,
    Kind,
    OkMessage,
    PublishEnded,
    Request,
    RequestAccepted,
    RequestCancelled,
    RequestMessage,
    RequestReceived,
    RequestRefused,
    RequestRejected,
    Requests,
    Role,
    SetupReceived,
    Signal,
    State,
    Terminated,
    TokenCache,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
    is_reserved,
    namespace_of,
    refusal,
)
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Seam", "SeamEnd"]

_RULES: Final = Draft.D18
"""Whose rules for requests the seam follows, whatever the draft of properties and codes."""
_CANCELLED: Final = int(STREAM_RESET_CODES[_RULES].CANCELLED)
_MAX_REASON: Final = 512
"""The most characters in the reason of a close, as in a MoQT session."""
_MANY: Final = 1 << 30
"""No limit of requests: the caps of the relay hold."""


class SeamEnd:
    """One end of the seam: a MoQT session's commands, getters and events, without bytes.

    Commands raise :class:`~laps_wire.errors.StateError` and do nothing if they are not allowed.
    """

    __slots__ = (
        "_events",
        "_goaway_sent",
        "_leaving",
        "_next_id",
        "_requests",
        "_updates",
        "closed",
        "outbox",
    )

    def __init__(self, role: Role) -> None:
        self._next_id = role.first_request_id
        self._requests = Requests(0)
        self._updates: dict[int, Request] = {}
        """Updates without an answer, of both ends, by their ids."""
        self._goaway_sent = False
        self._leaving = False
        """Whether the other end has sent GOAWAY."""
        self._events: list[Event] = []
        self.closed = False
        """Whether the session is over."""
        self.outbox: list[Event] = []
        """What the other end has not received yet, as the events that it will see."""

    # Getters

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to carry and nothing to handle."""
        return not self._events and not self.outbox

    @property
    def open_requests(self) -> tuple[int, ...]:
        """The ids of all requests that are not over, of both ends, oldest first."""
        return tuple(request.id for request in self._requests)

    def request_state(self, request_id: int) -> State | None:
        """Return the state of a request; None if it does not exist or is over."""
        request = self._requests.get(request_id)
        return None if request is None else request.state

    def request_kind(self, request_id: int) -> Kind | None:
        """Return the kind of a request; None if it does not exist or is over."""
        request = self._requests.get(request_id)
        return None if request is None else request.kind

    def poll_events(self) -> list[Event]:
        """Return what happened, in order, and forget it."""
        events, self._events = self._events, []
        return events

    # Requests

    def subscribe(self, track: FullTrackName, parameters: Parameters = NO_PARAMETERS) -> int:
        """Ask for the objects of a track from now on; return the request's id."""
        if self._requests.subscriptions(track, we_publish=False):
            raise StateError(f"there is a subscription to {track} already")
        return self._request(Subscribe(self._next_id, track, parameters))

    def publish(
        self,
        track: FullTrackName,
        track_alias: int,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> int:
        """Offer a track; return the request's id."""
        if self._requests.subscriptions(track, we_publish=True):
            raise StateError(f"the other end has a subscription to {track} already")
        self._check_alias(track_alias, track)
        return self._request(
            Publish(self._next_id, track, track_alias, parameters, track_properties)
        )

    def fetch(self, target: FetchTarget, parameters: Parameters = NO_PARAMETERS) -> int:
        """Ask for past objects; :meth:`fetch_ended` when their stream has ended."""
        return self._request(Fetch(self._next_id, target, parameters))

    def track_status(self, track: FullTrackName, parameters: Parameters = NO_PARAMETERS) -> int:
        """Ask what a subscription would find; return the request's id."""
        return self._request(TrackStatus(self._next_id, track, parameters))

    def publish_namespace(
        self, namespace: Namespace, parameters: Parameters = NO_PARAMETERS
    ) -> int:
        """Say that there are tracks in a namespace; return the request's id."""
        return self._request(PublishNamespace(self._next_id, namespace, parameters))

    def _request(self, message: RequestMessage) -> int:
        self._check_open()
        if self._leaving:
            raise StateError("the other end has sent GOAWAY")
        if is_reserved(namespace_of(message)):
            raise StateError(f"the namespace {namespace_of(message)} is reserved")
        self._requests.add(Request(_RULES, message, ours=True))
        self.outbox.append(RequestReceived(request_id=self._take_id(), message=message))
        return message.request_id

    def _take_id(self) -> int:
        request_id = self._next_id
        self._next_id += 2
        return request_id

    def _check_alias(self, track_alias: int, track: FullTrackName | None) -> None:
        other = self._requests.alias_holder(track_alias, track, we_publish=True)
        if other is not None:
            raise StateError(f"track alias {track_alias} stands for the track of {other.id}")

    def update(self, request_id: int, parameters: Parameters) -> int:
        """Change a request that was accepted; return the update's own id."""
        request = self._find(request_id)
        if request.state is State.PENDING:
            raise StateError(f"request {request_id} was not accepted yet: update it then")
        request.apply_ours(Signal.UPDATE)
        update_id = self._take_id()
        request.our_updates.append(update_id)
        self._updates[update_id] = request
        message = RequestUpdate(update_id, None, parameters)
        if request.is_subscription:
            request.note_parameters(message)
        self.outbox.append(
            UpdateReceived(request_id=request_id, update_id=update_id, message=message)
        )
        return update_id

    # Answers

    def accept(
        self,
        request_id: int,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> None:
        """Accept a PUBLISH, a TRACK_STATUS, a PUBLISH_NAMESPACE or an update."""
        if request_id in self._updates:
            self._accept_update(request_id, parameters)
            return
        request = self._find(request_id)
        if request.kind in (Kind.SUBSCRIBE, Kind.FETCH):
            raise StateError(f"accept a {request.kind.value} with its own command")
        if request.kind is Kind.PUBLISH and request.track is not None:
            for other in self._requests.subscriptions(request.track, we_publish=False):
                if other is not request:
                    raise StateError(f"cancel our own SUBSCRIBE {other.id} to this track first")
        self._send_ok(request, RequestOk(None, parameters, track_properties))

    def accept_subscribe(
        self,
        request_id: int,
        track_alias: int,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> None:
        """Accept a SUBSCRIBE."""
        request = self._find(request_id)
        if request.kind is not Kind.SUBSCRIBE:
            raise StateError(f"request {request_id} is a {request.kind.value}")
        self._check_alias(track_alias, request.track)
        self._send_ok(request, SubscribeOk(None, track_alias, parameters, track_properties))
        self._requests.add_alias(request, track_alias)

    def accept_fetch(
        self,
        request_id: int,
        end_location: Location,
        *,
        end_of_track: bool = False,
        parameters: Parameters = NO_PARAMETERS,
        track_properties: KeyValues = (),
    ) -> None:
        """Accept a FETCH; :meth:`fetch_ended` when its objects are sent."""
        request = self._find(request_id)
        if request.kind is not Kind.FETCH:
            raise StateError(f"request {request_id} is a {request.kind.value}")
        message = FetchOk(None, end_of_track, end_location, parameters, track_properties)
        self._send_ok(request, message)

    def _send_ok(self, request: Request, message: OkMessage) -> None:
        request.apply_ours(Signal.OK)
        if request.is_subscription:
            request.note_parameters(message)
        self.outbox.append(RequestAccepted(request_id=request.id, message=message))
        self._end_if_over(request)

    def _accept_update(self, update_id: int, parameters: Parameters) -> None:
        request = self._updated(update_id)
        request.apply_ours(Signal.UPDATE_OK)
        request.their_updates.remove(update_id)
        del self._updates[update_id]
        message = RequestOk(None, parameters)
        self.outbox.append(
            UpdateAccepted(request_id=request.id, update_id=update_id, message=message)
        )

    def _updated(self, update_id: int) -> Request:
        """Return the request of an update that this end may answer now."""
        request = self._updates[update_id]
        if not request.their_updates or request.their_updates[0] != update_id:
            raise StateError(f"update {update_id} is not the oldest of the other end")
        return request

    def reject(
        self, request_id: int, error_code: int, reason: str = "", *, retry_interval: int = 0
    ) -> None:
        """Reject a request or an update; one rejected update answers all that wait."""
        self._check_open()
        error = RequestError(None, error_code, retry_interval, reason)
        if request_id not in self._updates:
            self._reject(self._find(request_id), error)
            return
        request = self._updated(request_id)
        request.apply_ours(Signal.UPDATE_ERROR)
        for answered in request.their_updates:
            del self._updates[answered]
        request.their_updates.clear()
        self.outbox.append(
            UpdateRejected(request_id=request.id, update_id=request_id, message=error)
        )
        self._end_if_over(request)

    def _reject(self, request: Request, error: RequestError) -> None:
        request.apply_ours(Signal.ERROR)
        self.outbox.append(RequestRejected(request_id=request.id, message=error))
        self._end(request)

    # Ends

    def cancel(self, request_id: int, *, code: int | None = None, reason: str = "") -> None:
        """Cancel a request; ``code`` is a stream reset code, CANCELLED without one."""
        request = self._find(request_id)
        request.apply_ours(Signal.CANCEL)
        code = _CANCELLED if code is None else code
        self.outbox.append(RequestCancelled(request_id=request_id, code=code, reason=reason))
        self._end(request)

    def publish_done(
        self, request_id: int, status_code: int, stream_count: int, reason: str = ""
    ) -> None:
        """End a subscription as its publisher."""
        request = self._find(request_id)
        request.apply_ours(Signal.DONE)
        message = PublishDone(None, status_code, stream_count, reason)
        self.outbox.append(PublishEnded(request_id=request_id, message=message))
        self._end(request)

    def fetch_ended(self, request_id: int) -> None:
        """Record that the stream of a FETCH was closed or reset, by either side."""
        self._check_open()
        request = self._requests.get(request_id)
        if request is not None:
            request.apply_ours(Signal.DATA_END)
            self._end_if_over(request)

    def goaway(self, new_session_uri: str = "", timeout: int = 0) -> None:
        """Ask the other end to leave."""
        self._check_open()
        if self._goaway_sent:
            raise StateError("GOAWAY was sent already")
        self._goaway_sent = True
        self.outbox.append(GoawayReceived(message=Goaway(new_session_uri, timeout, None)))

    def close(self, code: int = SessionCode.NO_ERROR, reason: str = "") -> None:
        """End the session. A second call does nothing."""
        if not self.closed:
            reason = reason[:_MAX_REASON]
            self._terminate(Terminated(code=code, reason=reason, by_peer=False))
            self.outbox.append(Terminated(code=code, reason=reason, by_peer=True))

    def _terminate(self, event: Terminated) -> None:
        self.closed = True
        self._events.append(event)
        self._requests.clear()
        self._updates.clear()

    def _end_if_over(self, request: Request) -> None:
        if request.over:
            self._end(request)

    def _end(self, request: Request) -> None:
        self._requests.end(request)
        for update_id in (*request.our_updates, *request.their_updates):
            self._updates.pop(update_id, None)

    # Namespace subscriptions: what is above an Edge makes none

    def namespace(self, request_id: int, suffix: Namespace) -> NoReturn:
        """Raise StateError: there is no SUBSCRIBE_NAMESPACE to answer."""
        raise StateError(f"request {request_id} does not ask for namespaces such as {suffix}")

    def namespace_done(self, request_id: int, suffix: Namespace) -> NoReturn:
        """Raise StateError: there is no SUBSCRIBE_NAMESPACE to answer."""
        self.namespace(request_id, suffix)

    def publish_blocked(self, request_id: int, track: FullTrackName) -> NoReturn:
        """Raise StateError: there is no SUBSCRIBE_TRACKS to answer."""
        self.namespace(request_id, track.namespace)

    # The other end

    def receive(self, event: Event) -> None:
        """Take what the other end sent; what is about a request that is over is dropped."""
        if self.closed:
            return
        match event:
            case SetupReceived():
                self._events.append(event)
            case GoawayReceived():
                self._leaving = True
                self._events.append(event)
            case Terminated():
                self._terminate(event)
            case RequestReceived():
                self._on_request(event)
            case (
                UpdateReceived()
                | RequestAccepted()
                | RequestRejected()
                | UpdateAccepted()
                | UpdateRejected()
                | PublishEnded()
                | RequestCancelled()
            ):
                request = self._requests.get(event.request_id)
                if request is not None:
                    self._on_event(request, event)
            case _:
                raise StateError(f"{type(event).__name__} does not cross the seam")

    def _on_request(self, event: RequestReceived) -> None:
        message = event.message
        why = refusal(
            message, self._requests, _RULES, max_requests=_MANY, leaving=self._goaway_sent
        )
        request = Request(_RULES, message, ours=False)
        self._requests.add(request)
        if why is None:
            self._events.append(event)
            return
        self._events.append(
            RequestRefused(
                request_id=request.id, message=message, error_code=why.code, reason=why.reason
            )
        )
        self._reject(request, RequestError(None, why.code, 0, why.reason))

    def _on_event(
        self,
        request: Request,
        event: UpdateReceived
        | RequestAccepted
        | RequestRejected
        | UpdateAccepted
        | UpdateRejected
        | PublishEnded
        | RequestCancelled,
    ) -> None:
        match event:
            case UpdateReceived():
                request.apply_theirs(Signal.UPDATE)
                request.their_updates.append(event.update_id)
                self._updates[event.update_id] = request
                if request.is_subscription:
                    request.note_parameters(event.message)
            case RequestAccepted():
                request.apply_theirs(Signal.OK)
                if isinstance(event.message, SubscribeOk):
                    self._requests.add_alias(request, event.message.track_alias)
                if request.is_subscription:
                    request.note_parameters(event.message)
            case RequestRejected():
                request.apply_theirs(Signal.ERROR)
            case UpdateAccepted():
                request.apply_theirs(Signal.UPDATE_OK)
                request.our_updates.remove(event.update_id)
                del self._updates[event.update_id]
            case UpdateRejected():
                self._on_update_rejected(request)
            case PublishEnded():
                request.apply_theirs(Signal.DONE)
            case RequestCancelled():
                request.apply_theirs(Signal.CANCEL)
        self._events.append(event)
        if request.over:
            if isinstance(event, UpdateRejected):
                self._events.append(
                    RequestCancelled(request_id=request.id, reason="an update failed")
                )
            self._end(request)

    def _on_update_rejected(self, request: Request) -> None:
        """One refusal answers all updates that wait."""
        request.apply_theirs(Signal.UPDATE_ERROR)
        for update_id in request.our_updates:
            del self._updates[update_id]
        request.our_updates.clear()

    # Helpers

    def _check_open(self) -> None:
        if self.closed:
            raise StateError("the session is closed")

    def _find(self, request_id: int) -> Request:
        self._check_open()
        request = self._requests.get(request_id)
        if request is None:
            raise StateError(f"request {request_id} does not exist, or is over")
        return request


class Seam:
    """Both ends, and what carries messages between them."""

    __slots__ = ("_handler", "_pumping", "_relay", "_setup", "edge", "number", "session")

    def __init__(
        self,
        relay: EdgeRelay,
        number: int,
        handler: Callable[[float, Event], None],
        *,
        setup: SetupOptions = NO_OPTIONS,
    ) -> None:
        """``number`` is the relay's number of the session; ``handler`` takes our end's events."""
        self.number = number
        """The relay's number of the session."""
        self.session = SeamEnd(Role.CLIENT)
        """Our end, for commands; :meth:`pump` behind them."""
        self.edge = SeamEnd(Role.SERVER)
        """The Edge's end."""
        self._setup = setup
        self._relay = relay
        self._handler = handler
        self._pumping = False

    def open(self, now: float, egress: Egress, info: SessionInfo) -> None:
        """Become a session of the relay; the Edge authorizes what ``setup`` carries."""
        tokens = TokenCache(0).resolve_setup(self._setup.authorization_tokens)
        self.session.outbox.append(SetupReceived(options=self._setup, tokens=tokens))
        self._relay.add_session(now, self.number, self.edge, egress, info)
        self.pump(now)

    def close(self, now: float) -> None:
        """Leave the relay: what was published here ends."""
        self.session.close()
        self._relay.remove_session(now, self.number)

    @property
    def closed(self) -> bool:
        """Whether the session is over, for either end."""
        return self.session.closed or self.edge.closed

    def pump(self, now: float) -> bool:
        """Carry messages until both ends are quiet; return whether there were any.

        A call from inside is left to the outer one.
        """
        if self._pumping or (self.session.is_idle and self.edge.is_idle):
            return False  # the second is so after most events of a relay, for most of its clients
        self._pumping = True
        try:
            while not (self.session.is_idle and self.edge.is_idle):
                self._turn(now)
        finally:
            self._pumping = False
        return True

    def _turn(self, now: float) -> None:
        _carry(self.session, self.edge)
        _carry(self.edge, self.session)
        for event in self.edge.poll_events():
            self._relay.handle_session_event(now, self.number, event)
        for event in self.session.poll_events():
            self._handler(now, event)


def _carry(sender: SeamEnd, receiver: SeamEnd) -> None:
    outbox, sender.outbox = sender.outbox, []
    for event in outbox:
        receiver.receive(event)
