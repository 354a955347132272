"""Other relays as a client of the Edge: what it wants from them, and what they want from it.

::

    Edge --SUBSCRIBE-----> Wishes --wanted----------> host (the network, a Stub, a parent)
         <-SUBSCRIBE_OK--         <-answered---------
    Edge <-SUBSCRIBE------ Pulls  <-pull-------------
         --SUBSCRIBE_OK->         --pulled---------->       objects: FeedEgress
    Edge --FETCH--> Fetching, if the host has any           the past; both ways
    Edge <-PUBLISH_NAMESPACE, PUBLISH- Namespaces, Publications <-offer, withdraw--

Tracks are known by their key, the full-name hash; it is their alias, too, as far as an alias goes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import ForwardingPlane, Subscription
from laps_sdk.timers import earliest
from laps_sdk.upstream.bodies import DRAFT
from laps_sdk.upstream.egress import FeedEgress, FetchOutlet, alias_of
from laps_sdk.upstream.fetching import Fetching, FetchNetwork
from laps_sdk.upstream.interfaces import Answer, Feed
from laps_sdk.upstream.offers import Namespaces, Publications
from laps_sdk.upstream.parts import EdgeClientHost, NameHasher, Office
from laps_sdk.upstream.pulls import Pulls
from laps_sdk.upstream.seam import Seam
from laps_sdk.upstream.wishes import Wishes
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import Fetch, StandaloneFetch, Subscribe
from laps_wire.moqt.session import (
    Event,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    Terminated,
    UpdateReceived,
)
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceKind, SubscribeData

__all__ = ["EdgeClient"]


class EdgeClient:
    """One session of an Edge with other relays behind it."""

    __slots__ = (
        "_namespaces",
        "_office",
        "_publications",
        "_pulls",
        "_renew",
        "_seam",
        "_wishes",
        "egress",
        "fetching",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        number: int,
        host: EdgeClientHost,
        hasher: NameHasher,
        clock: Callable[[], float],
        *,
        stop: Callable[[int, int], None] | None = None,
        renew: Callable[[Subscription, float], None] | None = None,
        setup: SetupOptions = NO_OPTIONS,
        draft: Draft = DRAFT,
        fetches: tuple[ForwardingPlane, FetchNetwork] | None = None,
    ) -> None:
        """``fetches``: the plane that answers go to, and who brings them; None: nobody does."""
        self._seam = Seam(relay, number, self._event, setup=setup)
        self._office = Office(relay, self._seam, host, hasher, draft)
        self._wishes = Wishes(self._office)
        self._pulls = Pulls(self._office)
        self._namespaces = Namespaces(self._office)
        self._publications = Publications(self._office, self._wishes)
        self._renew = renew
        outlets: dict[int, FetchOutlet] = {}
        self.egress = FeedEgress(clock, self._pulls.outlets, stop, draft, outlets)
        """What the forwarding plane writes to."""
        self.fetching: Fetching | None = None
        """What was published before, if the others are asked for it."""
        if fetches is not None:
            self.fetching = Fetching(self._office, *fetches, outlets, clock)

    def open(self, now: float, address: str, *, upstream: bool, distant: bool = False) -> None:
        """Become a session of the Edge, which logs show with this address."""
        info = SessionInfo(
            peer_address=address,
            draft=self._office.draft,
            peering=True,
            upstream=upstream,
            distant=distant,
            fetches=self.fetching is not None,
            alias=lambda name: alias_of(self.key_of(name)),
        )
        self._seam.open(now, self.egress, info)

    def close(self, now: float) -> None:
        """Leave: what came from the others ends at the Edge."""
        self._pulls.outlets.clear()
        self._seam.close(now)

    @property
    def number(self) -> int:
        """The Edge's number of the session."""
        return self._seam.number

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self._seam.closed

    def key_of(self, name: FullTrackName) -> int:
        """The full-name hash of a track."""
        return self._office.key_of(name)

    # Time

    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""
        return self._seam.pump(now)

    @property
    def collisions(self) -> int:
        """Names that the Edge wanted and did not get: others have their hashes."""
        return self._wishes.collisions

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        fetching = None if self.fetching is None else self.fetching.poll_timeout()
        return earliest(self._wishes.poll_timeout(), fetching)

    def handle_timeout(self, now: float) -> None:
        """Give up what nobody waits for any more."""
        self._wishes.handle_timeout(now)
        if self.fetching is not None:
            self.fetching.handle_timeout(now)
        self.pump(now)

    # What the Edge says

    def _event(self, now: float, event: Event) -> None:
        match event:
            case RequestReceived(message=Subscribe() as message):
                self._wishes.subscribe(now, message)
            case RequestReceived(
                message=Fetch(target=StandaloneFetch() as target, parameters=parameters)
            ) if self.fetching is not None:
                self.fetching.asked(now, event.request_id, target, parameters)
            case RequestReceived():
                code = RequestErrorCode.NOT_SUPPORTED
                self._office.session.reject(event.request_id, code, "there is only the present")
            case (
                RequestAccepted()
                | RequestRejected()
                | PublishEnded()
                | RequestCancelled()
                | UpdateReceived()
            ):
                _ = (
                    self._wishes.event(now, event)
                    or self._pulls.event(now, event)
                    or self._namespaces.event(now, event)
                    or self._publications.event(now, event)
                    or (self.fetching is not None and self.fetching.event(now, event))
                )
            case Terminated():
                self._office.host.edge_closed(now, event.code, event.reason)
            case _:
                pass  # SETUP, GOAWAY; the rest is about requests that we never make

    # What the others say

    def answered(
        self, now: float, key: int, answer: Answer, *, code: int, reason: str, data: SubscribeData
    ) -> None:
        """What became of a track that the Edge wants."""
        self._wishes.answered(now, key, answer, code, reason, data)
        self._publications.answered(now, key, answer, code, reason, data)
        self.pump(now)

    def pull(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """The others want a track; its objects go into the feed."""
        self._pulls.pull(now, key, name, data, feed)
        self.pump(now)

    def renew(self, key: int, before: float = inf) -> None:
        """Streams of a track that are open go on in new ones, from their next objects on.

        Those that began after ``before`` do not.
        """
        request_id = self._pulls.request_of(key)
        if self._renew is not None and request_id is not None:
            self._renew(Subscription(self._seam.number, request_id), before)

    def release(self, now: float, key: int) -> None:
        """They do not any more."""
        self._pulls.release(key)
        self.pump(now)

    def offer(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """The others publish a namespace, or push a track."""
        if kind is AnnounceKind.NAMESPACE:
            self._namespaces.offer(name.namespace)
        else:
            self._publications.offer(now, name)
        self.pump(now)

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """They do not any more."""
        if kind is AnnounceKind.NAMESPACE:
            self._namespaces.withdraw(name.namespace)
        else:
            self._publications.withdraw(now, name)
        self.pump(now)
