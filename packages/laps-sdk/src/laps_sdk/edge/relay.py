"""The control plane of an Edge: events, notices and timers in; commands and programming out.

::

    server                        EdgeRelay
    add_session ---------------->  State: sessions, namespaces, prefixes, timers
    handle_session_event ------->  Admission: allowed?  then  Subscriptions, Namespaces, Tracks
    handle_notices ------------->                                 |               |
    handle_timeout ------------->                                 v               v
    poll_dirty  <---------------                            wire sessions   ForwardingPlane

EdgeRelay reads no clock and does no I/O: ``now`` is an argument, and commands go to the sans-IO
sessions. The server sends what those have to send (``poll_dirty``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from laps_sdk.edge.admission import Admission, denial_code
from laps_sdk.edge.authorization import Action, Authorizer, Decision
from laps_sdk.edge.codes import reset_code, shorten, upstream_code
from laps_sdk.edge.events import (
    NamespaceRow,
    RelayEvent,
    ReportsRefused,
    RequestDenied,
    SessionClosed,
    SessionFaulted,
    SessionLeaving,
    SessionOpened,
    SessionRow,
    SubscriptionRow,
    TrackRow,
)
from laps_sdk.edge.namespaces import Namespaces
from laps_sdk.edge.records import (
    Client,
    ClientSession,
    Deposit,
    FetchJob,
    FetchLeg,
    Load,
    Offer,
    Receiver,
    Record,
    Source,
    Stage,
    StatusLeg,
    Track,
    Watch,
)
from laps_sdk.edge.reports import PlaybackReports, ReportTracks
from laps_sdk.edge.settings import EdgeSettings, SessionInfo
from laps_sdk.edge.state import Due, State
from laps_sdk.edge.subscriptions import Subscriptions
from laps_sdk.edge.tracks import Tracks
from laps_sdk.forwarding.interfaces import (
    Egress,
    FetchEnded,
    ForwardingPlane,
    Notice,
    RankChanged,
    SessionFault,
    Subscription,
    SubscriptionDone,
    TrackEnded,
    TrackMalformed,
    UpstreamEnded,
)
from laps_wire.moqt.codepoints import RequestErrorCode, SessionCode
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
from laps_wire.moqt.session import (
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
from laps_wire.moqt.structures import Location
from laps_wire.moqt.top_n import offered_top_n
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["EdgeRelay"]


class EdgeRelay:
    """The control plane of an Edge: dispatches events, notices and timers to the parts below it."""

    __slots__ = (
        "_admission",
        "_desk",
        "_namespaces",
        "_reports",
        "_state",
        "_subscriptions",
        "_tracks",
    )

    def __init__(
        self,
        plane: ForwardingPlane,
        authorizer: Authorizer,
        settings: EdgeSettings,
        desk: PlaybackReports | None = None,
    ) -> None:
        """``desk`` takes the reports of players; without one no namespace is reserved."""
        state = self._state = State(plane, settings)
        admission = self._admission = Admission(state, authorizer)
        tracks = self._tracks = Tracks(state, admission)
        self._subscriptions = Subscriptions(state, admission, tracks)
        self._namespaces = Namespaces(state, admission, tracks, self._subscriptions)
        self._reports = ReportTracks(state, admission, desk)
        self._desk = desk

    # Sessions

    def add_session(
        self, now: float, session: int, wire: ClientSession, egress: Egress, info: SessionInfo
    ) -> None:
        """Add a MoQT session; its SETUP may still be to come."""
        state = self._state
        client = Client(
            id=session,
            wire=wire,
            info=info,
            opened=now,
            credit=float(state.settings.request_burst),
            credited=now,
        )
        state.plane.add_session(
            session, info.draft, egress, peering=info.peering, upstream=info.upstream
        )
        state.clients[session] = client
        if info.upstream:
            state.upstreams[session] = client
        count = len(state.clients) - len(state.upstreams)
        full = count > state.settings.max_sessions and not info.upstream
        if full:
            reason = "the relay has as many sessions as it can"
            state.command(client, wire.close, int(SessionCode.INTERNAL_ERROR), reason)

    def handle_session_event(self, now: float, session: int, event: Event) -> None:
        """Act on one event of a session. Data streams go to the forwarding plane instead."""
        client = self._state.clients.get(session)
        if client is not None:
            self._session_event(now, client, event)

    def remove_session(self, now: float, session: int) -> None:
        """Remove a session: the tracks that it fed end, what it received is forgotten."""
        state = self._state
        client = state.clients.pop(session, None)
        if client is None:
            return
        client.closed = True
        client.blocked.clear()
        state.upstreams.pop(session, None)
        state.dirty.pop(session, None)
        for due in (Due.EXPIRY, Due.GOAWAY):
            state.timers.cancel((due, client))
        # Receivers first: they get no end of tracks that the session itself fed.
        for request_id, record in list(client.requests.items()):
            if client.requests.get(request_id) is not record:
                continue  # the end of another one was its end
            if isinstance(record, Receiver):
                self._subscriptions.receiver_left(now, record, "the session is over")
            elif isinstance(record, Watch):
                self._namespaces.watch_ended(now, record)
            elif isinstance(record, FetchJob):
                self._tracks.fetches.fetch_cancelled(now, record)
        # Then its streams end, before PUBLISH_DONE to those who receive them.
        state.plane.remove_session(now, session)
        for record in list(client.requests.values()):
            if isinstance(record, Offer):
                self._namespaces.publish_namespace_ended(now, record)
            elif isinstance(record, FetchLeg):
                self._tracks.fetches.leg_lost(now, record)
            elif isinstance(record, StatusLeg):
                code, reason = RequestErrorCode.INTERNAL_ERROR, "the publisher is gone"
                self._tracks.status_failed(record, code, reason)
            elif isinstance(record, Deposit):
                self._reports.gone(now, record)
        self._reports.session_left(now, session)
        # Sources that wait to be asked, or have sent PUBLISH_DONE, have no request.
        for source in list(client.feeds):
            done = source.stage is Stage.DONE
            status = source.status if done else "INTERNAL_ERROR"
            reason = source.reason if done else "the publisher is gone"
            self._subscriptions.source_gone(now, source, status, reason)

    # Events of a session

    def _session_event(self, now: float, client: Client, event: Event) -> None:
        """Act on one event."""
        if client.closed and not isinstance(event, Terminated):
            return
        match event:
            case RequestReceived():
                self._request(now, client, event)
            case RequestAccepted() | RequestRejected():
                self._answered(now, client, event)
            case UpdateReceived():
                self._update(now, client, event)
            case UpdateRejected():
                self._update_rejected(now, client, event)
            case PublishEnded():
                record = client.requests.get(event.request_id)
                if isinstance(record, Source):
                    self._subscriptions.publish_done_received(now, record, event.message)
                elif isinstance(record, Deposit):
                    self._reports.publish_done_received(now, record)
            case RequestCancelled():
                self._request_cancelled(now, client, event)
            case _:
                self._other_event(now, client, event)

    def _other_event(self, now: float, client: Client, event: Event) -> None:
        state = self._state
        match event:
            case SetupReceived():
                self._setup(now, client, event)
            case RequestsAllowed():
                self._unblock(now, client)
            case GoawayReceived():
                client.leaving = True
                state.events.append(SessionLeaving(session=client.id, by_peer=True))
            case RequestRefused():
                self._request_refused(now, client, event)
            case Terminated():
                client.closed = True
                state.events.append(
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
        state = self._state
        client.tokens = event.tokens
        client.top_n = offered_top_n(event.options.unknown)
        client.path = event.options.path or ""
        if not self._admission.setup(now, client):
            return
        client.ready = True
        state.events.append(
            SessionOpened(
                session=client.id,
                info=client.info,
                implementation=event.options.moqt_implementation or "",
            )
        )
        if state.draining is not None:
            self._goaway(now, client)
        self._subscriptions.upstream_ready(now, client)

    def _goaway(self, now: float, client: Client, uri: str | None = None) -> bool:
        """Send GOAWAY with ``uri`` or the address of the drain; return whether that is new.

        A session gets GOAWAY once (moq-transport-16, 9.4). One that was allowed to stay after that
        gets no second message, and has the same time to leave.
        """
        state = self._state
        if client.info.upstream or (client.drained and not client.stays):
            return False
        timeout = state.settings.goaway_timeout
        if uri is None:
            uri = "" if state.draining is None else state.draining(client.id)
        # Only draft 18 has the timeout in the message.
        announced = int(timeout * 1000) if client.draft is Draft.D18 else 0
        if not client.drained and not state.command(client, client.wire.goaway, uri, announced):
            return False
        client.drained, client.stays = True, False
        state.timers.set((Due.GOAWAY, client), now + timeout)
        state.events.append(SessionLeaving(session=client.id, by_peer=False))
        return True

    def _let_stay(self, client: Client) -> None:
        """Cancel the deadline of a session that got GOAWAY."""
        if client.drained:
            client.stays = True
            self._state.timers.cancel((Due.GOAWAY, client))

    # Requests of the peer

    def _request(self, now: float, client: Client, event: RequestReceived) -> None:
        state, message, tokens = self._state, event.message, event.tokens
        request_id = event.request_id
        action, namespace, name = self._about(client, event)
        if client.drained and not client.stays:
            state.reject(client, request_id, RequestErrorCode.GOING_AWAY, "GOAWAY was sent")
            return
        if namespace is None:
            code = RequestErrorCode.INVALID_JOINING_REQUEST_ID
            state.reject(client, request_id, code, "there is no such subscription")
            return
        whole = namespace if name is None else FullTrackName(namespace, name)
        overload = self._admission.overloaded(now, client, whole)
        if overload is not None:
            reason, wait = overload
            state.reject(client, request_id, RequestErrorCode.EXCESSIVE_LOAD, reason, retry=wait)
            return
        grant = self._admission.allow(now, client, request_id, action, namespace, name, tokens)
        if grant is None:
            return
        if self._reports.reserves(client, namespace):
            if isinstance(message, Publish):
                self._reports.publish_received(now, client, message, grant)
            else:
                self._reports.refuse(client, request_id)
            return
        match message:
            case Subscribe():
                self._subscriptions.subscribe_received(now, client, message, grant)
            case Publish():
                self._subscriptions.publish_received(now, client, message, grant)
            case Fetch():
                self._tracks.fetches.fetch_received(now, client, message, grant)
            case TrackStatus():
                self._tracks.status_received(now, client, message)
            case PublishNamespace():
                self._namespaces.publish_namespace_received(now, client, message, grant)
            case SubscribeNamespace() | SubscribeTracks():
                self._namespaces.subscribe_namespace_received(now, client, message, grant)

    def _about(
        self, client: Client, event: RequestReceived
    ) -> tuple[Action, Namespace | None, bytes | None]:
        """Return the action, the namespace and the track name of a request."""
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
                name = self._tracks.fetches.name_of(client, message)
                if name is None:
                    return Action.FETCH, None, None
                return Action.FETCH, name.namespace, name.name

    def _update(self, now: float, client: Client, event: UpdateReceived) -> None:
        state = self._state
        record = client.requests.get(event.request_id)
        overload = self._admission.overloaded(now, client, None)
        if overload is not None:
            reason, wait = overload
            code = RequestErrorCode.EXCESSIVE_LOAD
            state.reject(client, event.update_id, code, reason, retry=wait)
            if record is not None:
                self._update_failed(now, record, reason)
            return
        match record:
            case Receiver():
                self._subscriptions.update_received(now, record, event)
            case Offer():
                self._namespaces.offer_updated(now, record, event)
            case Watch():
                self._namespaces.watch_updated(now, record, event)
            case Source() | FetchJob() | Deposit():
                # A publisher has nothing to change that we keep; a FETCH only its priority.
                if self._admission.renew(now, record, event.update_id, event.tokens):
                    state.command(client, client.wire.accept, event.update_id)
                else:
                    self._update_failed(now, record, "an update was not allowed")
            case _:
                code = RequestErrorCode.NOT_SUPPORTED
                state.reject(client, event.update_id, code, "this cannot be updated")

    def _request_refused(self, now: float, client: Client, event: RequestRefused) -> None:
        """Record that the session itself rejected something; an update takes its request along."""
        state = self._state
        state.events.append(
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
        """End the request of an update that was rejected (moq-transport-18, 10.9.1)."""
        request_id = record.request_id
        if request_id is not None and record.client.wire.request_state(request_id) is None:
            self._request_over(now, record)
            return
        match record:
            case Receiver():
                self._subscriptions.end_receiver(now, record, "UPDATE_FAILED", reason)
            case Source():
                self._subscriptions.end_source(now, record, None, reason, status="UNAUTHORIZED")
            case Deposit():
                self._reports.end(now, record, None)
            case FetchJob():
                self._tracks.fetches.fail(now, record, RequestErrorCode.UNAUTHORIZED, reason)
            case _:
                pass  # what is about namespaces goes on as it was, in draft 16

    def _request_over(self, now: float, record: Record) -> None:
        """Forget a request that its peer has ended."""
        match record:
            case Receiver():
                self._subscriptions.receiver_left(now, record, "unsubscribed")
            case Source():
                self._subscriptions.source_ended(now, record)
            case Offer():
                self._namespaces.publish_namespace_ended(now, record)
            case Watch():
                self._namespaces.watch_ended(now, record)
            case FetchJob():
                self._tracks.fetches.fetch_cancelled(now, record)
            case FetchLeg():
                self._tracks.fetches.leg_lost(now, record)
            case StatusLeg():
                code = RequestErrorCode.INTERNAL_ERROR
                self._tracks.status_failed(record, code, "the publisher is gone")
            case Deposit():
                self._reports.gone(now, record)

    def _request_cancelled(self, now: float, client: Client, event: RequestCancelled) -> None:
        record = client.requests.get(event.request_id)
        if record is not None:
            self._request_over(now, record)

    # Answers to requests of ours

    def _answered(
        self, now: float, client: Client, event: RequestAccepted | RequestRejected
    ) -> None:
        record = client.requests.get(event.request_id)
        match record, event.message:
            case Source(), SubscribeOk() as ok:
                self._subscriptions.subscribe_accepted(now, record, ok)
            case Source(), error if isinstance(event, RequestRejected):
                self._subscriptions.subscribe_rejected(now, record, event.message)
            case Receiver(), (PublishOk() | RequestOk()) as ok:
                self._subscriptions.publish_accepted(now, record, ok.parameters)
            case Receiver(), _ if isinstance(event, RequestRejected):
                self._subscriptions.receiver_left(now, record, "the subscriber is not interested")
            case FetchLeg(), FetchOk() as ok:
                self._tracks.fetches.fetch_accepted(now, record, ok)
            case FetchLeg(), _ if isinstance(event, RequestRejected):
                self._tracks.fetches.fetch_rejected(now, record, event.message)
            case StatusLeg(), RequestOk() as ok:
                self._tracks.status_answered(record, ok)
            case StatusLeg(), _ if isinstance(event, RequestRejected):
                error = event.message
                self._tracks.status_failed(record, upstream_code(error), error.reason)
            case _:
                pass

    def _update_rejected(self, now: float, client: Client, event: UpdateRejected) -> None:
        """End a receiver that rejected an update; a publisher sends PUBLISH_DONE itself."""
        record = client.requests.get(event.request_id)
        if isinstance(record, Receiver):
            self._subscriptions.end_receiver(now, record, "UPDATE_FAILED", event.message.reason)

    # Grants that end

    def _check_grant(self, now: float, holder: Record | Client) -> None:
        """Decide again about a grant: it has expired, or keys or policy have changed."""
        grant = holder.grant
        if grant is None:
            return
        client = holder if isinstance(holder, Client) else holder.client
        decision = self._admission.decide(now, client, grant)
        if decision.allowed:
            grant.expires = decision.expires
            self._admission.keep(holder, grant)
            return
        self._revoke_grant(now, holder, decision)

    def reauthorize(self, now: float) -> None:
        """Ask the authorizer and the policy again about everything that was allowed.

        For when keys or the policy have changed.
        """
        for client in list(self._state.clients.values()):
            self._check_grant(now, client)
            for record in list(client.requests.values()):
                # An end may have taken others with it.
                if client.requests.get(record.request_id or 0) is record and not client.closed:
                    self._check_grant(now, record)

    def _revoke_grant(self, now: float, holder: Record | Client, decision: Decision) -> None:
        state = self._state
        if isinstance(holder, Client):
            self._admission.refuse_session(holder, decision)
            return
        client = holder.client
        code = denial_code(decision)
        expired = code is RequestErrorCode.EXPIRED_AUTH_TOKEN
        reset = reset_code(client.draft, "EXPIRED_AUTH_TOKEN")
        reason = shorten(decision.reason)
        state.events.append(
            RequestDenied(
                session=client.id,
                request_id=-1 if holder.request_id is None else holder.request_id,
                kind=None,
                code=int(code),
                reason=reason,
            )
        )
        match holder:
            case Receiver():
                status = "EXPIRED" if expired else "UNAUTHORIZED"
                self._subscriptions.end_receiver(
                    now, holder, status, reason, reset=reset, code=code
                )
            case Source():
                self._subscriptions.end_source(now, holder, reset, reason, status="UNAUTHORIZED")
            case Deposit():
                self._reports.end(now, holder, reset)
            case Offer():
                # Draft 16 sends a request error code, draft 18 resets the stream.
                number = int(code) if client.draft is Draft.D16 else reset
                self._namespaces.revoke(now, holder, number, reason)
            case Watch():
                self._namespaces.end_watch(now, holder, reset, reason)
            case FetchJob():
                self._tracks.fetches.fail(now, holder, code, reason, reset=reset)
            case _:
                pass

    # From the forwarding plane

    def handle_notices(self, now: float) -> None:
        """Act on the notices of the forwarding plane."""
        for notice in self._state.plane.poll_notices():
            self._notice(now, notice)

    def _notice(self, now: float, notice: Notice) -> None:
        state = self._state
        match notice:
            case SessionFault():
                client = state.clients.get(notice.session)
                if client is not None and not client.closed:
                    code, reason = notice.error.code, str(notice.error)
                    state.events.append(SessionFaulted(session=client.id, code=code, reason=reason))
                    # One bad stream of a remote publisher must not end the session for all others.
                    if not client.info.upstream:
                        state.command(client, client.wire.close, code, reason)
            case TrackMalformed():
                track = self._tracks.get(notice.track)
                if track is not None:
                    self._subscriptions.track_malformed(now, track, notice.session, notice.reason)
            case TrackEnded():
                track = self._tracks.get(notice.track)
                if track is not None:
                    self._subscriptions.track_ended(now, track, notice.final)
            case SubscriptionDone():
                record = self._record(notice.subscription)
                if isinstance(record, Receiver):
                    self._subscriptions.subscription_done(now, record)
            case FetchEnded():
                record = self._record(notice.subscription)
                if isinstance(record, FetchJob):
                    self._tracks.fetches.answer_ended(now, record, complete=notice.complete)
            case UpstreamEnded():
                record = self._record(Subscription(notice.session, notice.request_id))
                if isinstance(record, FetchLeg):
                    self._tracks.fetches.upstream_ended(now, record)
            case RankChanged():
                track = self._tracks.get(notice.track)
                if track is not None:
                    self._subscriptions.rank_changed(now, track, notice.value)

    def _record(self, key: Subscription) -> object:
        client = self._state.clients.get(key.session)
        return None if client is None else client.requests.get(key.request_id)

    # Time

    def poll_timeout(self) -> float | None:
        """Return when to call :meth:`handle_timeout`; None if no timer is set."""
        return self._state.timers.next()

    def handle_timeout(self, now: float) -> None:
        """Run all timers that are due."""
        timers = self._state.timers
        while (key := timers.pop(now)) is not None:
            self._due(now, *key)

    def _due(self, now: float, due: Due, holder: object) -> None:
        state = self._state
        match due, holder:
            case (
                Due.EXPIRY,
                Client() | Source() | Receiver() | Offer() | Watch() | FetchJob() | Deposit(),
            ):
                self._check_grant(now, holder)
            case Due.GRACE, Receiver():
                self._subscriptions.grace_over(now, holder)
            case Due.PATIENCE, Receiver():
                self._subscriptions.rendezvous_due(now, holder)
            case Due.ANSWER, Source():
                self._subscriptions.subscribe_overdue(now, holder)
            case Due.ANSWER, StatusLeg():
                leg = holder
                state.command(leg.client, leg.client.wire.cancel, leg.request_id)
                reason = "the publisher does not answer"
                self._tracks.status_failed(leg, RequestErrorCode.TIMEOUT, reason)
            case Due.LINGER, Track():
                self._subscriptions.unsubscribe_unused(now, holder)
            case Due.DONE, Source():
                self._subscriptions.publish_done_due(now, holder)
            case Due.DONE, Deposit():
                self._reports.gone(now, holder)
            case Due.FINISH, Track():
                self._subscriptions.track_finish_due(now, holder)
            case Due.FORGET, Track():
                self._tracks.forget(now, holder)
            case Due.FILL, FetchJob():
                self._tracks.fetches.fill_due(now, holder)
            case Due.GOAWAY, Client():
                reason = "the session did not leave in time"
                state.command(holder, holder.wire.close, int(SessionCode.GOAWAY_TIMEOUT), reason)

    # Polls

    def poll_dirty(self) -> list[int]:
        """Return the sessions that got commands since the last call.

        The caller carries out their ``poll_transmit``.
        """
        dirty, self._state.dirty = self._state.dirty, {}
        return list(dirty)

    def poll_events(self) -> list[RelayEvent]:
        """Return the events since the last call, for logs and telemetry."""
        events, self._state.events = self._state.events, []
        if self._desk is not None and self._desk.refused:
            events += [ReportsRefused(*refused) for refused in self._desk.poll_refused()]
        return events

    # Orders

    def drain(
        self, now: float, new_uri: str = "", *, places: Callable[[int], str] | None = None
    ) -> None:
        """Send GOAWAY to all sessions; close those that stay longer than ``goaway_timeout``.

        ``places`` returns the address for a session; where that is empty, ``new_uri`` is sent.
        """
        state = self._state
        state.draining = lambda session: (places and places(session)) or new_uri
        for client in list(state.clients.values()):
            if client.ready or client.info.upstream:
                self._goaway(now, client)
            else:
                # It has asked for nothing yet.
                state.command(client, client.wire.close, int(SessionCode.NO_ERROR), "draining")

    def redirect(self, now: float, places: Mapping[int, str]) -> int:
        """Send GOAWAY to some sessions, each with its own address; return how many got it.

        All other sessions stay, and new ones are accepted. Sessions that got GOAWAY before are left
        out: GOAWAY cannot be sent twice.
        """
        clients = [self._state.clients.get(session) for session in places]
        return sum(
            self._goaway(now, client, places[client.id])
            for client in clients
            if client is not None and client.ready and not client.drained
        )

    def resume(self, *, all_stay: bool = False) -> None:
        """Accept sessions again after :meth:`drain`.

        Sessions that got GOAWAY must still leave, unless ``all_stay``: then those that are still
        connected are served as before. Most may leave all the same: GOAWAY cannot be withdrawn.
        """
        self._state.draining = None
        for client in list(self._state.clients.values()) if all_stay else ():
            self._let_stay(client)

    def set_settings(self, now: float, settings: EdgeSettings) -> None:  # noqa: ARG002 - as all
        """Replace the settings; existing sessions and requests stay."""
        self._state.settings = settings

    def set_policy(self, against: Callable[[FullTrackName], str | None] | None) -> None:
        """Forbid tracks to all who receive here: ``against`` returns the reason, or None.

        Call :meth:`reauthorize` to apply a change to existing subscriptions.
        """
        self._admission.against = against

    def largest(self, track: FullTrackName) -> Location | None:
        """Return the largest known location of a track."""
        found = self._tracks.by_name.get(track)
        return None if found is None else self._tracks.largest(found)

    def take_fetch_joins(self) -> int:
        """Return how many FETCHes waited for another one's answer since the last call."""
        return self._tracks.fetches.joins.take()

    def is_watched(self, namespace: Namespace) -> bool:
        """Return whether a session subscribed to the tracks of a namespace."""
        return any(watch.tracks for watch in self._state.watches.covering(namespace))

    def has_receivers(self, session: int, track: FullTrackName) -> bool:
        """Return whether sessions other than ``session`` receive a track or wait for it."""
        return self._subscriptions.has_other_receivers(session, track)

    def subscribe_again(self, now: float, session: int, track: FullTrackName) -> None:
        """Subscribe to a track once more at a session that refused it before."""
        self._subscriptions.subscribe_again(now, session, track)

    def purge(self, track: FullTrackName | None = None) -> int:
        """Forget the cached objects of one track, or of all; return their size in bytes."""
        state = self._state
        if track is None:
            return state.plane.purge()
        found = (self._tracks.by_name.get(track), self._tracks.stale.get(track))
        return sum(
            state.plane.purge(item.number) for item in found if item is not None and item.installed
        )

    # Views

    def sessions(self) -> list[SessionRow]:
        """Return a row for each session."""
        return [
            SessionRow(
                session=client.id,
                info=client.info,
                opened=client.opened,
                ready=client.ready,
                leaving=client.leaving or (client.drained and not client.stays),
                subscriptions=client.load[Load.SUBSCRIPTIONS],
                publishes=client.load[Load.PUBLISHES],
                namespaces=client.load[Load.NAMESPACES],
                prefixes=client.load[Load.PREFIXES],
                fetches=client.load[Load.FETCHES],
                offers=client.load[Load.OFFERS],
            )
            for client in self._state.clients.values()
        ]

    def path_of(self, session: int) -> str:
        """Return the path, with its query, that a session connected to; empty if it is gone."""
        client = self._state.clients.get(session)
        return "" if client is None else client.path or client.info.path

    def track_number(self, name: FullTrackName) -> int | None:
        """Return the number of a track that is installed; None if it is not."""
        track = self._tracks.known(name)
        return None if track is None or not track.number else track.number

    def goes_on(self, name: FullTrackName) -> None:
        """Note that the next publisher of a track is its former one: its objects stay known."""
        track = self._tracks.by_name.get(name)
        if track is not None:
            track.goes_on = True

    def track_numbers(self) -> list[int]:
        """Return the numbers of all tracks, for :meth:`tracks` in parts."""
        return list(self._tracks.by_number)

    def tracks(self, numbers: Iterable[int] | None = None) -> list[TrackRow]:
        """Return a row for each installed track, or for those of ``numbers`` that still exist."""
        state = self._state
        known = self._tracks.by_number
        chosen = known.values() if numbers is None else map(known.get, numbers)
        return [
            TrackRow(
                track=track.name,
                number=track.number,
                live=track.established,
                publishers=tuple(
                    session for session, source in track.sources.items() if source.live
                ),
                subscribers=sum(r.stage is Stage.ESTABLISHED for r in track.receivers.values()),
                waiting=sum(r.stage is Stage.PENDING for r in track.receivers.values()),
                largest=self._tracks.largest(track),
                rank=track.rank,
                network=any(
                    source.live and source.client.info.upstream for source in track.sources.values()
                ),
                counters=state.plane.track_counters(track.number),
            )
            for track in chosen
            if track is not None and track.installed
        ]

    def subscriptions(self) -> list[SubscriptionRow]:
        """Return a row for each receiver, those included that wait for a publisher."""
        state = self._state
        return [
            SubscriptionRow(
                session=receiver.client.id,
                request_id=receiver.request_id,
                track=track.name,
                pushed=receiver.pushed,
                established=receiver.stage is Stage.ESTABLISHED,
                forward=receiver.forward,
                priority=receiver.priority,
                expires=None if receiver.grant is None else receiver.grant.expires,
                counters=state.plane.subscription_counters(receiver.subscription),
            )
            for track in self._tracks.by_number.values()
            for receiver in track.receivers.values()
        ]

    def namespaces(self) -> list[NamespaceRow]:
        """Return a row for each published namespace."""
        return [
            NamespaceRow(
                namespace=offer.namespace,
                session=offer.client.id,
                expires=None if offer.grant is None else offer.grant.expires,
            )
            for offer in self._state.offers.under(Namespace())
        ]
