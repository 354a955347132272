"""Tracks that the relay takes itself: the reports of players.

Their namespace is reserved. Who publishes a track in it, with the grant that any PUBLISH needs,
gives it to this relay and to nobody else: it is in no table of tracks, nobody can subscribe to it,
and the network never hears of it. A relay that takes no reports refuses it all the same, so that
what a player says of its viewer does not become a track for everybody.
"""

from __future__ import annotations

from laps_sdk.edge.context import Context, Due
from laps_sdk.edge.records import Client, Deposit, Grant, Load
from laps_sdk.edge.reports import ReportDesk
from laps_sdk.edge.sources import DONE_PATIENCE
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import Publish
from laps_wire.moqt.parameters import Parameters
from laps_wire.names import Namespace

__all__ = ["Intakes"]


class Intakes:
    """Who reports to this relay."""

    __slots__ = ("_context", "_desk", "_ending")

    def __init__(self, context: Context, desk: ReportDesk | None) -> None:
        self._context = context
        self._desk = desk
        self._ending: dict[int, Deposit] = {}
        """Behind PUBLISH_DONE, by session."""

    def reserves(self, client: Client, namespace: Namespace) -> bool:
        """Whether a namespace is for reports; other relays have their own clients."""
        desk = self._desk
        return (
            desk is not None
            and desk.limits.namespace.is_prefix_of(namespace)
            and not (client.info.upstream or client.info.peering)
        )

    def refuse(self, client: Client, request_id: int) -> None:
        """Something else than a PUBLISH is about the namespace."""
        reason = "this namespace is for the reports of players"
        self._context.reject(client, request_id, RequestErrorCode.NOT_SUPPORTED, reason)

    def published(self, now: float, client: Client, message: Publish, grant: Grant) -> None:
        """Take a PUBLISH that is allowed."""
        context, desk, request_id = self._context, self._desk, message.request_id
        if desk is None:
            raise AssertionError(message)  # nothing is reserved
        full = context.full(client, Load.PUBLISHES)
        if full is not None:
            context.reject(client, request_id, RequestErrorCode.EXCESSIVE_LOAD, full, retry=1.0)
            return
        ending = self._ending.get(client.id)
        if ending is not None:
            self.gone(now, ending)  # the next playback has begun
        reason = desk.open(now, client.id)
        if reason is not None:
            context.reject(client, request_id, RequestErrorCode.NOT_SUPPORTED, reason)
            return
        expires = None if grant.expires is None else max(int((grant.expires - now) * 1000), 1)
        parameters = Parameters(forward=True, expires=expires)
        if not context.tell(client, client.wire.accept, request_id, parameters):
            desk.close(now, client.id)
            return
        deposit = Deposit(
            client=client, request_id=request_id, alias=message.track_alias, grant=grant
        )
        context.add(deposit, Load.PUBLISHES)
        context.grants.hold(deposit)
        context.plane.add_intake(now, client.id, deposit.alias, desk, desk.limits.object_bytes)

    def done(self, now: float, deposit: Deposit) -> None:
        """The player said PUBLISH_DONE; its last words may still be under way."""
        context = self._context
        deposit.client.requests.pop(deposit.request_id, None)
        self._ending[deposit.client.id] = deposit
        delay = context.settings.done_delay * DONE_PATIENCE
        context.timers.set((Due.DONE, deposit), now + delay)

    def drop(self, now: float, deposit: Deposit, code: int | None) -> None:
        """End it ourselves."""
        client = deposit.client
        self._context.tell(client, client.wire.cancel, deposit.request_id, code=code)
        self.gone(now, deposit)

    def gone(self, now: float, deposit: Deposit) -> None:
        """It is over."""
        context, session = self._context, deposit.client.id
        context.drop(deposit, Load.PUBLISHES)
        context.plane.remove_intake(session, deposit.alias)
        self.left(now, session)

    def left(self, now: float, session: int) -> None:
        """A session, or its track of reports, is over."""
        self._ending.pop(session, None)
        if self._desk is not None:
            self._desk.close(now, session)
