"""The s-relay: FETCHes of our own clients that other relays answer.

::

    ask() --> FETCH_REQUEST to the nearest holder --refused--> to the next one --...--> refused
                  |  accepted              (a lost holder counts as a refusal)
                  v
              accepted --> the stream ends: over()
                  |
                  '--> the serving relay is lost: refused
    cancel() --> FETCH_CANCEL

A FETCH id is random and lives as long as its FETCH: a relay that does not know it cannot answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from laps_relay.network.fetch.fetch_router import FetchRouter, entry_of
from laps_relay.network.subscriptions.subscriptions import TrackHashes
from laps_relay.policy.facts import scope_of
from laps_sdk.upstream.interfaces import FetchRefusal, FetchSide
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FetchCancel,
    FetchRequest,
    FetchResponse,
    ParameterId,
    SubscribeCode,
    SubscribeData,
)

__all__ = ["MAX_ASKED", "FetchAsking"]

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
