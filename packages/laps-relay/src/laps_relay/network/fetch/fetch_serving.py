"""The o-relay: FETCHes of other relays that our own clients and our cache answer.

::

    request() --> limits? name? policy? a path back? --> serve_fetch() --> fetched() --> stream
                       |                                    |                            |
                       '--> FETCH_RESPONSE <-- refused() ---'        served(), cancel() -'--> end
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from laps_relay.network.fetch.fetch_router import NO_FETCHES, FetchRouter, entry_of
from laps_relay.peer_forwarding.feed import PlaneFeed
from laps_sdk.upstream.bodies import bounded, bounded_reason, read_fetch
from laps_sdk.upstream.interfaces import FetchHandle, FetchRefusal, FetchSide
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NO_PARAMETERS,
    FetchRequest,
    FetchResponse,
    ParameterId,
    SubscribeCode,
    SubscribeData,
)

__all__ = ["MAX_FETCHES", "MAX_SERVED", "FetchServing"]

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
