"""What each event of a session leads to: admission, authorization, then the part that knows."""

from __future__ import annotations

from laps_sdk.edge.authorization import Action
from laps_sdk.edge.codes import upstream_code
from laps_sdk.edge.context import Context, Due
from laps_sdk.edge.events import RequestDenied, SessionClosed, SessionLeaving, SessionOpened
from laps_sdk.edge.records import (
    Client,
    Deposit,
    FetchJob,
    FetchLeg,
    Offer,
    Receiver,
    Record,
    Source,
    StatusLeg,
    Watch,
)
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    Publish,
    PublishNamespace,
    PublishOk,
    RequestOk,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.session.events import (
    Event,
    GoawayReceived,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRefused,
    RequestRejected,
    RequestsAllowed,
    SetupReceived,
    Terminated,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.top_n import offered_top_n
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Dispatch"]


class Dispatch:
    """Hands a session's events to the parts."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def event(self, now: float, client: Client, event: Event) -> None:
        """Act on one event."""
        if client.closed and not isinstance(event, Terminated):
            return
        match event:
            case RequestReceived():
                self._request(now, client, event)
            case RequestAccepted() | RequestRejected():
                self._answer(now, client, event)
            case UpdateReceived():
                self._update(now, client, event)
            case UpdateRejected():
                self._update_rejected(now, client, event)
            case PublishEnded():
                record = client.requests.get(event.request_id)
                if isinstance(record, Source):
                    self._context.sources.done(now, record, event.message)
                elif isinstance(record, Deposit):
                    self._context.intakes.done(now, record)
            case RequestCancelled():
                self._cancelled(now, client, event)
            case _:
                self._session(now, client, event)

    # The session

    def _session(self, now: float, client: Client, event: Event) -> None:
        context = self._context
        match event:
            case SetupReceived():
                self._setup(now, client, event)
            case RequestsAllowed():
                self._unblock(now, client)
            case GoawayReceived():
                client.leaving = True
                context.events.append(SessionLeaving(session=client.id, by_peer=True))
            case RequestRefused():
                self._refused(now, client, event)
            case Terminated():
                client.closed = True
                context.events.append(
                    SessionClosed(
                        session=client.id,
                        code=event.code,
                        reason=event.reason,
                        by_peer=event.by_peer,
                    )
                )
            case _:
                # What is left answers no request of ours, or belongs to the data plane.
                pass

    def _unblock(self, now: float, client: Client) -> None:
        """Make the requests that waited, in their order, until one is blocked again.

        A peer may allow one at a time: the others must not be tried each time.
        """
        blocked = client.blocked
        while blocked:
            retry = blocked.popleft()
            left = len(blocked)
            retry(now)
            if len(blocked) > left:
                blocked.rotate(len(blocked) - left)
                return

    def _setup(self, now: float, client: Client, event: SetupReceived) -> None:
        context = self._context
        client.tokens = event.tokens
        client.top_n = offered_top_n(event.options.unknown)
        client.path = event.options.path or ""
        if not context.grants.setup(now, client):
            return
        client.ready = True
        context.events.append(
            SessionOpened(
                session=client.id,
                info=client.info,
                implementation=event.options.moqt_implementation or "",
            )
        )
        if context.draining is not None:
            self.goaway(now, client)
        context.upstreams.ready(now, client)

    def goaway(self, now: float, client: Client, uri: str | None = None) -> bool:
        """Ask a session to leave, for where the drain sends it or for ``uri``; whether it is new.

        A session is told once (moq-transport-16, 9.4): one that was allowed to stay after that is
        not told again, and has the same time.
        """
        context = self._context
        if client.info.upstream or (client.drained and not client.stays):
            return False
        timeout = context.settings.goaway_timeout
        if uri is None:
            uri = "" if context.draining is None else context.draining(client.id)
        # Only draft 18 tells how long.
        told = int(timeout * 1000) if client.draft is Draft.D18 else 0
        if not client.drained and not context.tell(client, client.wire.goaway, uri, told):
            return False
        client.drained, client.stays = True, False
        context.timers.set((Due.GOAWAY, client), now + timeout)
        context.events.append(SessionLeaving(session=client.id, by_peer=False))
        return True

    def let_stay(self, client: Client) -> None:
        """A session that was asked to leave, and did not, need not any more."""
        if client.drained:
            client.stays = True
            self._context.timers.cancel((Due.GOAWAY, client))

    # Requests of the peer

    def _request(self, now: float, client: Client, event: RequestReceived) -> None:
        context, message, tokens = self._context, event.message, event.tokens
        request_id = event.request_id
        action, namespace, name = self._about(client, event)
        if client.drained and not client.stays:
            context.reject(client, request_id, RequestErrorCode.GOING_AWAY, "GOAWAY was sent")
            return
        if namespace is None:
            code = RequestErrorCode.INVALID_JOINING_REQUEST_ID
            context.reject(client, request_id, code, "there is no such subscription")
            return
        whole = namespace if name is None else FullTrackName(namespace, name)
        overload = context.overloaded(now, client, whole)
        if overload is not None:
            reason, wait = overload
            context.reject(client, request_id, RequestErrorCode.EXCESSIVE_LOAD, reason, retry=wait)
            return
        grant = context.grants.allow(now, client, request_id, action, namespace, name, tokens)
        if grant is None:
            return
        if context.intakes.reserves(client, namespace):
            if isinstance(message, Publish):
                context.intakes.published(now, client, message, grant)
            else:
                context.intakes.refuse(client, request_id)
            return
        match message:
            case Subscribe():
                context.receivers.subscribe(now, client, message, grant)
            case Publish():
                context.sources.published(now, client, message, grant)
            case Fetch():
                context.fetches.fetch(now, client, message, grant)
            case TrackStatus():
                context.statuses.ask(now, client, message)
            case PublishNamespace():
                context.spaces.publish(now, client, message, grant)
            case SubscribeNamespace() | SubscribeTracks():
                context.spaces.watch(now, client, message, grant)

    def _about(
        self, client: Client, event: RequestReceived
    ) -> tuple[Action, Namespace | None, bytes | None]:
        """What a request wants to do, and with what."""
        message = event.message
        match message:
            case Subscribe(track=track):
                return Action.SUBSCRIBE, track.namespace, track.name
            case Publish(track=track):
                return Action.PUBLISH, track.namespace, track.name
            case TrackStatus(track=track):
                return Action.TRACK_STATUS, track.namespace, track.name
            case PublishNamespace(namespace=namespace):
                return Action.PUBLISH_NAMESPACE, namespace, None
            case SubscribeNamespace(prefix=prefix) | SubscribeTracks(prefix=prefix):
                return Action.SUBSCRIBE_NAMESPACE, prefix, None
            case Fetch():
                name = self._context.fetches.name_of(client, message)
                if name is None:
                    return Action.FETCH, None, None
                return Action.FETCH, name.namespace, name.name

    def _update(self, now: float, client: Client, event: UpdateReceived) -> None:
        context = self._context
        record = client.requests.get(event.request_id)
        overload = context.overloaded(now, client, None)
        if overload is not None:
            reason, wait = overload
            code = RequestErrorCode.EXCESSIVE_LOAD
            context.reject(client, event.update_id, code, reason, retry=wait)
            if record is not None:
                self._update_failed(now, record, reason)
            return
        match record:
            case Receiver():
                context.receivers.update(now, record, event)
            case Offer():
                context.spaces.update_offer(now, record, event)
            case Watch():
                context.spaces.update_watch(now, record, event)
            case Source() | FetchJob() | Deposit():
                # A publisher has nothing to change that we keep; a FETCH only its priority.
                if context.grants.renew(now, record, event.update_id, event.tokens):
                    context.tell(client, client.wire.accept, event.update_id)
                else:
                    self._update_failed(now, record, "an update was not allowed")
            case _:
                code = RequestErrorCode.NOT_SUPPORTED
                context.reject(client, event.update_id, code, "this cannot be updated")

    def _refused(self, now: float, client: Client, event: RequestRefused) -> None:
        """The session itself rejected something; an update takes its request along."""
        context = self._context
        context.events.append(
            RequestDenied(
                session=client.id,
                request_id=event.request_id,
                kind=client.wire.request_kind(event.request_id),
                code=event.error_code,
                reason=event.reason,
            )
        )
        record = client.requests.get(event.request_id)
        if record is not None:
            self._update_failed(now, record, event.reason)

    def _update_failed(self, now: float, record: Record, reason: str) -> None:
        """An update was rejected: end what must end with it (moq-transport-18, 10.9.1)."""
        context, request_id = self._context, record.request_id
        if request_id is not None and record.client.wire.request_state(request_id) is None:
            self._over(now, record)
            return
        match record:
            case Receiver():
                context.receivers.end(now, record, "UPDATE_FAILED", reason)
            case Source():
                context.sources.drop(now, record, None, reason, status="UNAUTHORIZED")
            case Deposit():
                context.intakes.drop(now, record, None)
            case FetchJob():
                context.fetches.fail(now, record, RequestErrorCode.UNAUTHORIZED, reason)
            case _:
                pass  # what is about namespaces goes on as it was, in draft 16

    def _over(self, now: float, record: Record) -> None:
        """A request ended without a word to it: forget it."""
        context = self._context
        match record:
            case Receiver():
                context.receivers.left(now, record, "unsubscribed")
            case Source():
                context.sources.ended(now, record)
            case Offer():
                context.spaces.unpublished(now, record)
            case Watch():
                context.spaces.unwatched(now, record)
            case FetchJob():
                context.fetches.cancelled(now, record)
            case FetchLeg():
                context.fetches.leg_lost(now, record)
            case StatusLeg():
                code = RequestErrorCode.INTERNAL_ERROR
                context.statuses.unknown(record, code, "the publisher is gone")
            case Deposit():
                context.intakes.gone(now, record)

    def _cancelled(self, now: float, client: Client, event: RequestCancelled) -> None:
        record = client.requests.get(event.request_id)
        if record is not None:
            self._over(now, record)

    # Answers to ours

    def _answer(self, now: float, client: Client, event: RequestAccepted | RequestRejected) -> None:
        context = self._context
        record = client.requests.get(event.request_id)
        match record, event.message:
            case Source(), SubscribeOk() as ok:
                context.sources.accepted(now, record, ok)
            case Source(), error if isinstance(event, RequestRejected):
                context.sources.rejected(now, record, event.message)
            case Receiver(), (PublishOk() | RequestOk()) as ok:
                context.receivers.published(now, record, ok.parameters)
            case Receiver(), _ if isinstance(event, RequestRejected):
                context.receivers.left(now, record, "the subscriber is not interested")
            case FetchLeg(), FetchOk() as ok:
                context.fetches.accepted(now, record, ok)
            case FetchLeg(), _ if isinstance(event, RequestRejected):
                context.fetches.rejected(now, record, event.message)
            case StatusLeg(), RequestOk() as ok:
                context.statuses.known(record, ok)
            case StatusLeg(), _ if isinstance(event, RequestRejected):
                error = event.message
                context.statuses.unknown(record, upstream_code(error), error.reason)
            case _:
                pass

    def _update_rejected(self, now: float, client: Client, event: UpdateRejected) -> None:
        """A publisher refused an update: its PUBLISH_DONE follows. A subscriber refused ours."""
        record = client.requests.get(event.request_id)
        if isinstance(record, Receiver):
            self._context.receivers.end(now, record, "UPDATE_FAILED", event.message.reason)
