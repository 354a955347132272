"""FETCHes across the network: messages for this relay, and messages to forward (laps-2, 6.5).

::

    our clients --fetch()--> FetchAsking ---request--> peers --...--> FetchServing --> our clients
                <-answered--             <--response--       <--...--
                                          --cancel--->

A message is for one relay. A relay in between forwards it to the best peer that supports fetches,
by its node information, and keeps no state: there is no table that a flood could fill. A budget
bounds what each peer may cause.

**The s-relay** (:class:`FetchAsking`): FETCHes of our own clients that other relays answer::

    ask() --> FETCH_REQUEST to the nearest holder --refused--> to the next one --...--> refused
                  |  accepted              (a lost holder counts as a refusal)
                  v
              accepted --> the stream ends: over()
                  |
                  '--> the serving relay is lost: refused
    cancel() --> FETCH_CANCEL

A FETCH id is random and lives as long as its FETCH: a relay that does not know it cannot answer.

**The o-relay** (:class:`FetchServing`): FETCHes of other relays that our own clients and our cache
answer::

    request() --> limits? name? policy? a path back? --> serve_fetch() --> fetched() --> stream
                       |                                    |                            |
                       '--> FETCH_RESPONSE <-- refused() ---'        served(), cancel() -'--> end
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from laps_relay.network.fetch.fetch_router import NO_FETCHES, FetchMessage, FetchRouter, entry_of
from laps_relay.network.subscriptions.subscriptions import TrackHashes
from laps_relay.peer_forwarding.feed import PlaneFeed
from laps_relay.policy.facts import scope_of
from laps_sdk.upstream.bodies import bounded, bounded_reason, read_fetch
from laps_sdk.upstream.interfaces import FetchHandle, FetchRefusal, FetchSide
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NO_PARAMETERS,
    FetchCancel,
    FetchRequest,
    FetchResponse,
    ParameterId,
    SubscribeCode,
    SubscribeData,
)
from laps_wire.peering.laps2.codepoints import MAX_HOPS

__all__ = [
    "BURST",
    "MAX_ASKED",
    "MAX_FETCHES",
    "MAX_SERVED",
    "RATE",
    "FetchAsking",
    "FetchServing",
    "Fetches",
]

MAX_ASKED: Final = 4
"""How many relays are asked for one FETCH, one after the other."""


@dataclass(slots=True, eq=False)
class _Asked:
    name: FullTrackName
    request: FetchRequest
    """The last message that was sent."""
    rest: list[NodeId]
    """The holders that are not asked yet."""
    accepted: bool = False


class FetchAsking:
    """The FETCHes of our own clients, by id."""

    __slots__ = ("_asked", "_hasher", "_local", "_router", "_side", "dropped")

    def __init__(self, local: NodeId, router: FetchRouter, hasher: KeyedHasher) -> None:
        self._local = local
        self._router = router
        self._hasher = hasher
        self._side: FetchSide | None = None
        self._asked: dict[int, _Asked] = {}
        self.dropped = 0
        """Responses to unknown FETCHes."""

    def attach(self, side: FetchSide) -> None:
        """Set who receives the answers."""
        self._side = side

    def __len__(self) -> int:
        return len(self._asked)

    # Our clients

    def ask(self, now: float, name: FullTrackName, data: SubscribeData) -> int | FetchRefusal:
        """Ask for a range of a track; return the FETCH id, or why no relay can be asked."""
        router, own = self._router, self._router.node(self._local)
        refusal = None if own is None else router.policy.local_subscribe(name, own)
        if refusal is not None:
            return FetchRefusal(SubscribeCode.POLICY, refusal.reason)
        track = self._hashes(name)
        holders = router.holders(track)[:MAX_ASKED]
        if not holders:
            return FetchRefusal(SubscribeCode.NO_PUBLISHER, "nobody has announced it")
        fetch_id = router.draw()
        while fetch_id in self._asked:
            fetch_id = router.draw()
        scope = scope_of("" if own is None else own.region)
        request = FetchRequest(
            self._local, holders[0], fetch_id, 0, track.elements, track.name, track.key, scope, data
        )
        asked = _Asked(name, request, holders)
        refused = self._next(now, asked)
        if refused is None:
            self._asked[fetch_id] = asked
        return fetch_id if refused is None else refused

    def _hashes(self, name: FullTrackName) -> TrackHashes:
        fields, hasher = name.namespace.fields, self._hasher
        return TrackHashes(
            hasher.elements(fields), hasher.name(name.name), hasher.full_name(fields, name.name)
        )

    def _next(self, now: float, asked: _Asked) -> FetchRefusal | None:
        """Ask the next holder; return why not if none is left that can be asked."""
        router = self._router
        no = FetchRefusal(SubscribeCode.UNREACHABLE, "no relay that passes fetches on leads there")
        while asked.rest:
            request = asked.request = replace(asked.request, target=asked.rest.pop(0))
            entry = entry_of(request)
            for session in router.sessions_to(request.target):
                peer = router.peer(session)
                refusal = None if peer is None else router.policy.export_subscribe(entry, peer)
                if refusal is not None:
                    no = FetchRefusal(SubscribeCode.POLICY, refusal.reason)
                elif router.send(now, session, request):
                    return None
        return no

    def cancel(self, now: float, fetch_id: int) -> None:
        """Cancel a FETCH."""
        asked = self._asked.pop(fetch_id, None)
        if asked is not None:
            target = asked.request.target
            message = FetchCancel(self._local, target, fetch_id, 0)
            _ = any(
                self._router.send(now, session, message)
                for session in self._router.sessions_to(target)
            )

    def over(self, fetch_id: int) -> None:
        """Forget a FETCH whose stream has ended."""
        self._asked.pop(fetch_id, None)

    # Other relays

    def response(self, now: float, response: FetchResponse) -> None:
        """Handle a response to a FETCH of ours."""
        asked = self._asked.get(response.fetch_id)
        if asked is None or (asked.accepted and response.code == SubscribeCode.ACCEPTED):
            self.dropped += 1
            return
        if response.code != SubscribeCode.ACCEPTED:
            no = FetchRefusal(response.code, response.reason, response.data)
            self._refused(now, asked, no)
            return
        fields, name = asked.name.namespace.fields, asked.name.name
        digest = response.parameters.get(ParameterId.FULL_NAME_DIGEST)
        if digest != self._hasher.end_check(fields, name):
            reason = "the publisher's relay means another name"
            self._refused(now, asked, FetchRefusal(SubscribeCode.HASH_COLLISION, reason))
            return
        asked.accepted = True
        # A control server may have forwarded the request.
        asked.request = replace(asked.request, target=response.responder)
        if self._side is not None:
            self._side.fetch_answered(now, response.fetch_id, 0, response.reason, response.data)

    def _refused(self, now: float, asked: _Asked, no: FetchRefusal) -> None:
        if not asked.accepted and self._next(now, asked) is None:
            return
        fetch_id = asked.request.fetch_id
        del self._asked[fetch_id]
        if self._side is not None:
            self._side.fetch_answered(now, fetch_id, no.code, no.reason, no.data)

    def node_gone(self, now: float, node: NodeId) -> None:
        """Treat a node that became unreachable as a refusal of all that it was asked."""
        no = FetchRefusal(SubscribeCode.UNREACHABLE, "the publisher's relay is out of reach")
        for asked in [each for each in self._asked.values() if each.request.target == node]:
            self._refused(now, asked, no)


MAX_FETCHES: Final = 256
"""FETCHes of one source at a time."""
MAX_SERVED: Final = 2048
"""FETCHes of all sources at a time."""
_RETRY_MS: Final = 1000
"""After how many milliseconds a source over its limit may ask again."""


@dataclass(slots=True, eq=False)
class _Served:
    name: FullTrackName
    feed: PlaneFeed


class FetchServing:
    """The FETCHes that this relay serves, by source and id."""

    __slots__ = ("_counts", "_hasher", "_local", "_router", "_served", "_side")

    def __init__(self, local: NodeId, router: FetchRouter, hasher: KeyedHasher) -> None:
        self._local = local
        self._router = router
        self._hasher = hasher
        self._side: FetchSide | None = None
        self._served: dict[FetchHandle, _Served] = {}
        self._counts: Counter[NodeId] = Counter()

    def attach(self, side: FetchSide) -> None:
        """Set who answers the requests."""
        self._side = side

    def __len__(self) -> int:
        return len(self._served)

    # Other relays

    def request(self, now: float, request: FetchRequest) -> FetchRefusal | None:
        """Begin to serve a FETCH of another relay; return why not if that is known at once."""
        side, source = self._side, request.source
        handle = source, request.fetch_id
        if handle in self._served:
            return None  # a duplicate
        if side is None:
            return NO_FETCHES
        if len(self._served) >= MAX_SERVED or self._counts[source] >= MAX_FETCHES:
            return FetchRefusal(SubscribeCode.LIMIT, "as many fetches as it can have")
        asked = read_fetch(request.data)
        name = None if asked is None else asked.target.track
        if name is None or self._key(name) != request.full_name_hash:
            return FetchRefusal(SubscribeCode.HASH_COLLISION, "the name has another hash")
        node, own = self._router.node(source), self._router.node(self._local)
        if node is None or own is None:
            return FetchRefusal(SubscribeCode.UNREACHABLE, f"{source} is not known")
        refusal = self._router.policy.subscribe(name, entry_of(request), node, own)
        if refusal is not None:
            return FetchRefusal(SubscribeCode.POLICY, refusal.reason)
        feed = self._router.open_feed(now, request, name)
        if feed is None:
            return FetchRefusal(SubscribeCode.UNREACHABLE, f"no way to {source}")
        self._served[handle] = _Served(name, feed)
        self._counts[source] += 1
        side.serve_fetch(now, handle, name, request.data, feed)
        return None

    def _key(self, name: FullTrackName) -> int:
        return self._hasher.full_name(name.namespace.fields, name.name)

    def cancel(self, now: float, handle: FetchHandle) -> None:
        """End a FETCH that its source cancelled."""
        if self._remove(now, handle, cut=True) and self._side is not None:
            self._side.drop_fetch(now, handle)

    def node_gone(self, now: float, node: NodeId) -> None:
        """End all FETCHes of a node that became unreachable."""
        if node in self._counts:
            for handle in [each for each in self._served if each[0] == node]:
                self.cancel(now, handle)

    # Our clients

    def fetched(self, handle: FetchHandle, data: SubscribeData) -> FetchResponse | None:
        """Return the response that accepts a FETCH; None if it was cancelled."""
        served = self._served.get(handle)
        if served is None:
            return None
        digest = self._hasher.end_check(served.name.namespace.fields, served.name.name)
        parameters = NO_PARAMETERS.with_bytes(ParameterId.FULL_NAME_DIGEST, digest)
        return FetchResponse(
            *handle,
            self._local,
            0,
            SubscribeCode.ACCEPTED,
            data=bounded(data),
            parameters=parameters,
        )

    def refused(self, now: float, handle: FetchHandle, no: FetchRefusal) -> FetchResponse | None:
        """End a FETCH; return the response that refuses it, or None if it was cancelled."""
        return self.response(handle, no) if self._remove(now, handle, cut=True) else None

    def served(self, now: float, handle: FetchHandle) -> None:
        """Close the feed of a FETCH whose stream has ended."""
        self._remove(now, handle, cut=False)

    def response(self, handle: FetchHandle, no: FetchRefusal) -> FetchResponse:
        """Return the response that refuses a FETCH."""
        retry = _RETRY_MS if no.code == SubscribeCode.LIMIT else 0
        reason, data = bounded_reason(no.reason), bounded(no.data)
        return FetchResponse(*handle, self._local, 0, no.code, reason, retry, data)

    def _remove(self, now: float, handle: FetchHandle, *, cut: bool) -> bool:
        served = self._served.pop(handle, None)
        if served is None:
            return False
        self._counts[handle[0]] -= 1
        if not self._counts[handle[0]]:
            del self._counts[handle[0]]
        self._router.close_feed(now, served.feed, cut=cut)
        return True


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
