"""The Edge relay's control plane: events, notices and timers in; commands and programming out.

::

    shell                         EdgeRelay
    add_session ---------------->  Context: sessions, tracks, namespaces, prefixes
    handle_session_event ------->  Grants: may it?  then  Sources, Receivers, Spaces, Fetches
    handle_notices ------------->      |                     |
    handle_timeout ------------->      v                     v
    poll_dirty  <---------------   wire sessions         ForwardingPlane

It reads no clock and does no I/O: ``now`` is given, commands go to the sans-IO sessions, and the
shell carries out what those have to send (``poll_dirty``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from laps_sdk.edge.authorization import Authorizer
from laps_sdk.edge.context import Context, Due
from laps_sdk.edge.dispatch import Dispatch
from laps_sdk.edge.events import RelayEvent, ReportsRefused, SessionFaulted
from laps_sdk.edge.fetches import Fetches
from laps_sdk.edge.grants import Grants
from laps_sdk.edge.intakes import Intakes
from laps_sdk.edge.receivers import Receivers
from laps_sdk.edge.records import (
    Client,
    ClientSession,
    Deposit,
    FetchJob,
    FetchLeg,
    Load,
    Offer,
    Receiver,
    Source,
    Stage,
    StatusLeg,
    Track,
    Watch,
)
from laps_sdk.edge.reports import ReportDesk
from laps_sdk.edge.settings import EdgeSettings, SessionInfo
from laps_sdk.edge.sources import Sources
from laps_sdk.edge.spaces import Spaces
from laps_sdk.edge.statuses import Statuses
from laps_sdk.edge.tracks import Tracks
from laps_sdk.edge.upstreams import Upstreams
from laps_sdk.edge.views import NamespaceRow, SessionRow, SubscriptionRow, TrackRow
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
from laps_wire.moqt.session.events import Event
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName, Namespace

__all__ = ["EdgeRelay"]


class EdgeRelay:
    """Who gets what from whom, and why: see the package's parts."""

    __slots__ = ("_context", "_desk", "_dispatch")

    def __init__(
        self,
        plane: ForwardingPlane,
        authorizer: Authorizer,
        settings: EdgeSettings,
        desk: ReportDesk | None = None,
    ) -> None:
        """``desk`` takes the reports of players; without one no namespace is reserved."""
        context = self._context = Context(plane, settings)
        context.grants = Grants(context, authorizer)
        context.sources = Sources(context)
        context.receivers = Receivers(context)
        context.spaces = Spaces(context)
        context.fetches = Fetches(context)
        context.statuses = Statuses(context)
        context.tracks = Tracks(context)
        context.upstreams = Upstreams(context)
        context.intakes = Intakes(context, desk)
        self._desk = desk
        self._dispatch = Dispatch(context)

    # Sessions

    def add_session(
        self, now: float, session: int, wire: ClientSession, egress: Egress, info: SessionInfo
    ) -> None:
        """A connection has a MoQT session; its SETUP may still be to come."""
        context = self._context
        client = Client(
            id=session,
            wire=wire,
            info=info,
            opened=now,
            credit=float(context.settings.request_burst),
            credited=now,
        )
        context.plane.add_session(
            session, info.draft, egress, peering=info.peering, upstream=info.upstream
        )
        context.clients[session] = client
        context.upstreams.add(client)
        count = len(context.clients) - len(context.upstreams.clients)
        full = count > context.settings.max_sessions and not info.upstream
        if full:
            reason = "the relay has as many sessions as it can"
            context.tell(client, wire.close, int(SessionCode.INTERNAL_ERROR), reason)

    def handle_session_event(self, now: float, session: int, event: Event) -> None:
        """Something happened in a session; data streams are not for here."""
        client = self._context.clients.get(session)
        if client is not None:
            self._dispatch.event(now, client, event)

    def remove_session(self, now: float, session: int) -> None:
        """The connection is over: what it fed ends, what it received is forgotten."""
        context = self._context
        client = context.clients.pop(session, None)
        if client is None:
            return
        client.closed = True
        client.blocked.clear()
        context.upstreams.remove(client)
        context.dirty.pop(session, None)
        for due in (Due.EXPIRY, Due.GOAWAY):
            context.timers.cancel((due, client))
        # Receivers first: they are not told that their own tracks end.
        for request_id, record in list(client.requests.items()):
            if client.requests.get(request_id) is not record:
                continue  # the end of another one was its end
            if isinstance(record, Receiver):
                context.receivers.left(now, record, "the session is over")
            elif isinstance(record, Watch):
                context.spaces.unwatched(now, record)
            elif isinstance(record, FetchJob):
                context.fetches.cancelled(now, record)
        # Then its streams end, before those who receive them are told.
        context.plane.remove_session(now, session)
        for record in list(client.requests.values()):
            if isinstance(record, Offer):
                context.spaces.unpublished(now, record)
            elif isinstance(record, FetchLeg):
                context.fetches.leg_lost(now, record)
            elif isinstance(record, StatusLeg):
                code, reason = RequestErrorCode.INTERNAL_ERROR, "the publisher is gone"
                context.statuses.unknown(record, code, reason)
            elif isinstance(record, Deposit):
                context.intakes.gone(now, record)
        context.intakes.left(now, session)
        # Those that wait to be asked, or are behind PUBLISH_DONE, have no request any more.
        for source in list(client.feeds):
            done = source.stage is Stage.DONE
            status = source.status if done else "INTERNAL_ERROR"
            reason = source.reason if done else "the publisher is gone"
            context.sources.gone(now, source, status, reason)

    # From the forwarding plane

    def handle_notices(self, now: float) -> None:
        """Act on what the forwarding plane has to say."""
        for notice in self._context.plane.poll_notices():
            self._notice(now, notice)

    def _notice(self, now: float, notice: Notice) -> None:
        context = self._context
        match notice:
            case SessionFault():
                client = context.clients.get(notice.session)
                if client is not None and not client.closed:
                    code, reason = notice.error.code, str(notice.error)
                    context.events.append(
                        SessionFaulted(session=client.id, code=code, reason=reason)
                    )
                    # One bad stream of somebody far away must not end what all others send.
                    if not client.info.upstream:
                        context.tell(client, client.wire.close, code, reason)
            case TrackMalformed():
                track = context.tracks.get(notice.track)
                if track is not None:
                    context.sources.malformed(now, track, notice.session, notice.reason)
            case TrackEnded():
                track = context.tracks.get(notice.track)
                if track is not None:
                    context.receivers.ended(now, track, notice.final)
            case SubscriptionDone():
                record = self._record(notice.subscription)
                if isinstance(record, Receiver):
                    reason = "the last group was sent"
                    context.receivers.end(now, record, "SUBSCRIPTION_ENDED", reason)
            case FetchEnded():
                record = self._record(notice.subscription)
                if isinstance(record, FetchJob):
                    context.fetches.ended(now, record, complete=notice.complete)
            case UpstreamEnded():
                record = self._record(Subscription(notice.session, notice.request_id))
                if isinstance(record, FetchLeg):
                    context.fetches.upstream_ended(now, record)
            case RankChanged():
                track = context.tracks.get(notice.track)
                if track is not None:
                    context.spaces.rank_changed(now, track, notice.value)

    def _record(self, key: Subscription) -> object:
        client = self._context.clients.get(key.session)
        return None if client is None else client.requests.get(key.request_id)

    # Time

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self._context.timers.next()

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        timers = self._context.timers
        while (key := timers.pop(now)) is not None:
            self._due(now, *key)

    def _due(self, now: float, due: Due, holder: object) -> None:
        context = self._context
        match due, holder:
            case (
                Due.EXPIRY,
                Client() | Source() | Receiver() | Offer() | Watch() | FetchJob() | Deposit(),
            ):
                context.grants.check(now, holder)
            case Due.PATIENCE, Receiver():
                context.receivers.impatient(now, holder)
            case Due.ANSWER, Source():
                context.sources.overdue(now, holder)
            case Due.ANSWER, StatusLeg():
                leg = holder
                context.tell(leg.client, leg.client.wire.cancel, leg.request_id)
                reason = "the publisher does not answer"
                context.statuses.unknown(leg, RequestErrorCode.TIMEOUT, reason)
            case Due.LINGER, Track():
                context.sources.idle(now, holder)
            case Due.DONE, Source():
                context.sources.done_now(now, holder)
            case Due.DONE, Deposit():
                context.intakes.gone(now, holder)
            case Due.FINISH, Track():
                context.receivers.over(now, holder)
            case Due.FORGET, Track():
                context.tracks.forget(now, holder)
            case Due.FILL, FetchJob():
                context.fetches.overdue(now, holder)
            case Due.GOAWAY, Client():
                reason = "the session did not leave in time"
                context.tell(holder, holder.wire.close, int(SessionCode.GOAWAY_TIMEOUT), reason)

    # Polls

    def poll_dirty(self) -> list[int]:
        """Sessions that were given commands: the shell carries out their ``poll_transmit``."""
        dirty, self._context.dirty = self._context.dirty, {}
        return list(dirty)

    def poll_events(self) -> list[RelayEvent]:
        """What happened, for logs and telemetry; taken once."""
        events, self._context.events = self._context.events, []
        if self._desk is not None:
            events += [ReportsRefused(*refused) for refused in self._desk.poll_refused()]
        return events

    # Orders

    def drain(
        self, now: float, new_uri: str = "", *, places: Callable[[int], str] | None = None
    ) -> None:
        """Send GOAWAY to everybody; who is still there after ``goaway_timeout`` is closed.

        ``places`` gives a session its own address; what it leaves empty is ``new_uri``.
        """
        context = self._context
        context.draining = lambda session: (places and places(session)) or new_uri
        for client in list(context.clients.values()):
            if client.ready or client.info.upstream:
                self._dispatch.goaway(now, client)
            else:
                # It has asked for nothing yet.
                context.tell(client, client.wire.close, int(SessionCode.NO_ERROR), "draining")

    def redirect(self, now: float, places: Mapping[int, str]) -> int:
        """Send GOAWAY to some sessions, each with an address of its own; how many were told.

        All others stay, and new ones are taken as before. So do those that got GOAWAY before: they
        cannot be told another address.
        """
        clients = [self._context.clients.get(session) for session in places]
        return sum(
            self._dispatch.goaway(now, client, places[client.id])
            for client in clients
            if client is not None and client.ready and not client.drained
        )

    def resume(self, *, all_stay: bool = False) -> None:
        """Take sessions again, after :meth:`drain`.

        Those that got GOAWAY must leave still, unless ``all_stay``: then those that are still there
        are served as before. GOAWAY cannot be taken back, so most of them may go all the same.
        """
        self._context.draining = None
        for client in list(self._context.clients.values()) if all_stay else ():
            self._dispatch.let_stay(client)

    def set_settings(self, now: float, settings: EdgeSettings) -> None:  # noqa: ARG002 - as all
        """Change the settings; what is there already stays."""
        self._context.settings = settings

    def set_policy(self, against: Callable[[FullTrackName], str | None] | None) -> None:
        """Keep tracks from those who receive here: ``against`` gives the reason, or None.

        What is there already is asked about by :meth:`reauthorize`, also when answers change.
        """
        self._context.grants.against = against

    def reauthorize(self, now: float) -> None:
        """The keys, or the policy, have changed: ask again about everything that was allowed."""
        self._context.grants.check_all(now)

    def largest(self, track: FullTrackName) -> Location | None:
        """The largest location that is known of a track."""
        found = self._context.tracks.by_name.get(track)
        return None if found is None else self._context.tracks.largest(found)

    def take_fetch_joins(self) -> int:
        """FETCHes that waited for another one's answer, since the last time."""
        return self._context.fetches.joins.take()

    def is_watched(self, namespace: Namespace) -> bool:
        """Whether somebody wants the tracks of a namespace to be pushed."""
        return any(watch.tracks for watch in self._context.watches.covering(namespace))

    def is_wanted(self, session: int, track: FullTrackName) -> bool:
        """Whether others than a session with relays behind it receive or wait for a track."""
        return self._context.upstreams.wanted(session, track)

    def ask_again(self, now: float, session: int, track: FullTrackName) -> None:
        """A session that refused a track has it now."""
        self._context.upstreams.ask_again(now, session, track)

    def purge(self, track: FullTrackName | None = None) -> int:
        """Forget the cached objects of one track, or of all; how many bytes that were."""
        context = self._context
        if track is None:
            return context.plane.purge()
        found = (context.tracks.by_name.get(track), context.tracks.stale.get(track))
        return sum(
            context.plane.purge(item.number)
            for item in found
            if item is not None and item.installed
        )

    # Views

    def sessions(self) -> list[SessionRow]:
        """All sessions."""
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
            for client in self._context.clients.values()
        ]

    def path_of(self, session: int) -> str:
        """The path, with its query, that a client connected to; empty if it is gone."""
        client = self._context.clients.get(session)
        return "" if client is None else client.path or client.info.path

    def track_numbers(self) -> list[int]:
        """Of all tracks, for those who read them in parts."""
        return list(self._context.tracks.by_number)

    def tracks(self, numbers: Iterable[int] | None = None) -> list[TrackRow]:
        """All tracks that the forwarding plane knows, or those with ``numbers`` that are left."""
        context = self._context
        known = context.tracks.by_number
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
                largest=context.tracks.largest(track),
                rank=track.rank,
                network=any(
                    source.live and source.client.info.upstream for source in track.sources.values()
                ),
                counters=context.plane.track_counters(track.number),
            )
            for track in chosen
            if track is not None and track.installed
        ]

    def subscriptions(self) -> list[SubscriptionRow]:
        """All receivers, those that wait for a publisher too."""
        context = self._context
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
                counters=context.plane.subscription_counters(receiver.subscription),
            )
            for track in context.tracks.by_number.values()
            for receiver in track.receivers.values()
        ]

    def namespaces(self) -> list[NamespaceRow]:
        """All published namespaces."""
        return [
            NamespaceRow(
                namespace=offer.namespace,
                session=offer.client.id,
                expires=None if offer.grant is None else offer.grant.expires,
            )
            for offer in self._context.offers.under(Namespace())
        ]
