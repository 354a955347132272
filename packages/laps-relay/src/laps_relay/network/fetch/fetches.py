"""FETCHes across the network: messages for this relay, and messages to forward (laps-2, 6.5).

::

    our clients --fetch()--> FetchAsking ---request--> peers --...--> FetchServing --> our clients
                <-answered--             <--response--       <--...--
                                          --cancel--->

A message is for one relay. A relay in between forwards it to the best peer that supports fetches,
by its node information, and keeps no state: there is no table that a flood could fill. A budget
bounds what each peer may cause.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from laps_relay.network.fetch.fetch_asking import FetchAsking
from laps_relay.network.fetch.fetch_router import FetchMessage, FetchRouter, entry_of
from laps_relay.network.fetch.fetch_serving import FetchServing
from laps_sdk.upstream.interfaces import FetchHandle, FetchRefusal, FetchSide
from laps_wire.hashing import KeyedHasher
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FetchCancel,
    FetchRequest,
    FetchResponse,
    SubscribeCode,
    SubscribeData,
)
from laps_wire.peering.laps2.limits import MAX_HOPS

__all__ = ["BURST", "RATE", "Fetches"]

BURST: Final = 500.0
"""Messages that one peer may send at once ..."""
RATE: Final = 200.0
"""... and in a second."""


class Fetches:
    """Handles messages about fetches, of peers and of our own clients."""

    __slots__ = ("_budgets", "_local", "asking", "router", "serving")

    def __init__(self, local: NodeId, router: FetchRouter, hasher: KeyedHasher) -> None:
        self._local = local
        self.router = router
        self.asking = FetchAsking(local, router, hasher)
        self.serving = FetchServing(local, router, hasher)
        self._budgets: dict[int, tuple[float, float]] = {}
        """By session: the messages left, and the time of that count."""

    def attach(self, side: FetchSide) -> None:
        """Connect our own clients."""
        self.asking.attach(side)
        self.serving.attach(side)

    # Peers

    def received(self, now: float, session: int, message: FetchMessage) -> None:
        """Handle a message of a peer: for this relay, or for another one."""
        within = self._spend(now, session)
        match message:
            case FetchRequest():
                self._request(now, session, message, within=within)
            case _ if not within:
                pass
            case FetchResponse():
                if message.source == self._local:
                    self.asking.response(now, message)
                else:
                    self._pass(now, session, message, message.source)
            case FetchCancel():
                if message.target == self._local:
                    self.serving.cancel(now, (message.source, message.fetch_id))
                else:
                    self._pass(now, session, message, message.target)

    def session_gone(self, session: int) -> None:
        """Forget the budget of a session that has ended."""
        self._budgets.pop(session, None)

    def node_gone(self, now: float, node: NodeId) -> None:
        """End the FETCHes with a node that became unreachable."""
        self.asking.node_gone(now, node)
        self.serving.node_gone(now, node)

    def _spend(self, now: float, session: int) -> bool:
        left, when = self._budgets.get(session, (BURST, now))
        left = min(BURST, left + (now - when) * RATE)
        within = left >= 1
        self._budgets[session] = (left - within, now)
        return within

    def _request(self, now: float, session: int, request: FetchRequest, *, within: bool) -> None:
        source = request.source
        if source == self._local:
            return  # it came back to its source
        no = self._handle_request(now, session, request, within=within)
        if no is not None:
            handle = source, request.fetch_id
            self._respond(now, self.serving.response(handle, no), session)

    def _handle_request(
        self, now: float, session: int, request: FetchRequest, *, within: bool
    ) -> FetchRefusal | None:
        """Serve or forward a request; return why not."""
        if not within:
            return FetchRefusal(SubscribeCode.LIMIT, "too many fetches at once")
        peer = self.router.peer(session)
        refusal = None
        if peer is not None:
            refusal = self.router.policy.import_subscribe(entry_of(request), peer)
        if refusal is not None:
            return FetchRefusal(SubscribeCode.POLICY, refusal.reason)
        if request.target == self._local:
            announcers = self.router.announcers(request)
            if announcers is None:
                return self.serving.request(now, request)
            others = [node for node in announcers if node != request.source]
            if not others:
                return FetchRefusal(SubscribeCode.NO_PUBLISHER, "nobody has announced it")
            request = replace(request, target=others[0])
        return self._pass(now, session, request, request.target)

    def _pass(
        self, now: float, session: int, message: FetchMessage, to: NodeId
    ) -> FetchRefusal | None:
        """Forward a message; return why not."""
        no = FetchRefusal(SubscribeCode.UNREACHABLE, f"no way to {to} for a fetch")
        if message.hops >= MAX_HOPS:
            return FetchRefusal(SubscribeCode.UNREACHABLE, "it goes round")
        onward = replace(message, hops=message.hops + 1, parameters=message.parameters.carried())
        for onward_session in self.router.sessions_to(to):
            if onward_session == session:
                continue
            peer, refusal = self.router.peer(onward_session), None
            if isinstance(onward, FetchRequest) and peer is not None:
                refusal = self.router.policy.export_subscribe(entry_of(onward), peer)
            if refusal is not None:
                no = FetchRefusal(SubscribeCode.POLICY, refusal.reason)
            elif self.router.send(now, onward_session, onward):
                return None
        return no

    def _respond(self, now: float, response: FetchResponse, session: int | None = None) -> None:
        """Send a response over the session of its request, or over any other path."""
        sessions = self.router.sessions_to(response.source)
        if session is not None:
            sessions.insert(0, session)
        _ = any(self.router.send(now, each, response) for each in sessions)

    # Our own clients

    def fetched(self, now: float, handle: FetchHandle, data: SubscribeData) -> None:
        """Accept a FETCH of another relay."""
        response = self.serving.fetched(handle, data)
        if response is not None:
            self._respond(now, response)

    def refused(self, now: float, handle: FetchHandle, no: FetchRefusal) -> None:
        """Refuse a FETCH of another relay."""
        response = self.serving.refused(now, handle, no)
        if response is not None:
            self._respond(now, response)
