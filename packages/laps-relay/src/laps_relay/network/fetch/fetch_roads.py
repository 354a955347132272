"""The relay as its fetches see it: who leads where, who has what, and how an answer gets away.

An answer enters the network like the objects of a publisher: through a feed and a set of its own.
It has no key in steering. One stream to one relay needs no Via but those on the best way.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final, Protocol

from laps_relay.network.control_server.control_server import ControlServer
from laps_relay.network.fetch.fetch_host import FetchMessage, TrackHashes, entry_of
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.sets.sets import Sets
from laps_relay.network.subscriptions.interests import Interests
from laps_relay.peer_forwarding.forwarding import NetworkFeed
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.policy.interface import Policy
from laps_sdk.peering.links import Links
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FLAG_FETCH,
    Feature,
    FetchRequest,
    NodeSelf,
    PayloadFormat,
)

__all__ = ["FETCH_FEEDS", "FetchRoads", "RelayParts"]

FETCH_FEEDS: Final = 1 << 40
"""Feeds of fetches are numbered from here on: those of tracks have other numbers."""
_NOBODY: Final[frozenset[NodeId]] = frozenset()


class RelayParts(Protocol):
    """What there is in a relay; ``NetworkParts`` has it."""

    @property
    def policy(self) -> Policy:
        """The policy of the moment."""

    def node(self, node: NodeId) -> NodeSelf | None:
        """What a node says of itself, our own too."""

    def replicas(self, key: int) -> tuple[NodeId, ...]:
        """The control servers that hold a key; none: entries are flooded."""


class FetchRoads:
    """A :class:`~laps_relay.network.fetch.fetch_host.FetchHost`."""

    __slots__ = (
        "_contexts",
        "_interests",
        "_links",
        "_local",
        "_nib",
        "_numbers",
        "_parts",
        "_plane",
        "_send",
        "_server",
        "_sets",
    )

    def __init__(
        self,
        local: NodeId,
        parts: RelayParts,
        *,
        links: Links,
        nib: Nib,
        sets: Sets,
        plane: PeerPlane,
        interests: Interests,
        server: ControlServer | None,
        contexts: Callable[[], int],
        send: Callable[[float, int, Any], bool],
    ) -> None:
        self._local = local
        self._parts = parts
        self._links = links
        self._nib = nib
        self._sets = sets
        self._plane = plane
        self._interests = interests
        self._server = server
        self._contexts = contexts
        self._send = send
        self._numbers = count(FETCH_FEEDS)

    @property
    def policy(self) -> Policy:
        """The policy of the moment."""
        return self._parts.policy

    def node(self, node: NodeId) -> NodeSelf | None:
        """What a node says of itself, our own too."""
        return self._parts.node(node)

    def peer(self, session: int) -> NodeSelf | None:
        """The same of a peer, which may be other than in its handshake."""
        link = self._links.get(session)
        if link is None or link.info is None or link.node is None:
            return None
        return self.node(link.node) or link.info.node

    def ways(self, node: NodeId) -> list[int]:
        """The sessions with peers that pass fetches on and lead to a node, the best first."""
        links = (self._links.control(way.peer) for way in self._nib.candidates(node))
        found = [link for link in links if link is not None and Feature.FETCHES in link.features]
        return list(dict.fromkeys(link.session for link in found))

    def send(self, now: float, session: int, message: FetchMessage) -> bool:
        """Send a message; whether there was somebody to send it to."""
        return self._send(now, session, message)

    def holders(self, track: TrackHashes) -> list[NodeId]:
        """Other nodes that may have the objects of a track, the nearest first.

        Control servers come last: they can only send a request on.
        """
        known = [node for node in self._interests.holders(track) if node != self._local]
        known.sort(key=self._distance)
        return list(dict.fromkeys((*known, *self._parts.replicas(track.key))))

    def _distance(self, node: NodeId) -> tuple[bool, int, int]:
        way = self._nib.best(node)
        return (True, 0, 0) if way is None else (False, way.hops, way.cost_us)

    def announcers(self, request: FetchRequest) -> list[NodeId] | None:
        """A control server: the Edges that announced it, the nearest first."""
        if self._server is None:
            return None
        return sorted(self._server.announcers(entry_of(request)), key=self._distance)

    def draw(self) -> int:
        """32 random bits that are not 0."""
        return self._contexts()

    def open_feed(
        self, now: float, request: FetchRequest, name: FullTrackName
    ) -> NetworkFeed | None:
        """Make a feed for the answer, to its source; None if no way leads there."""
        key, number = request.full_name_hash, next(self._numbers)
        feed = self._plane.open_feed(
            number, key, request.fetch_id, PayloadFormat.MOQT_18, flags=FLAG_FETCH
        )
        scope = self.policy.scope(name)
        self._sets.set_feed(now, feed.ingress, None, frozenset({request.source}), scope)
        if self._sets.leads(feed.ingress):
            return feed
        self.close_feed(now, feed, cut=False)
        return None

    def close_feed(self, now: float, feed: NetworkFeed, *, cut: bool) -> None:
        """Nothing more goes into it; with ``cut`` what is under way is reset."""
        if cut:
            self._sets.set_feed(now, feed.ingress, None, _NOBODY, "")
        self._sets.drop_feed(now, feed.ingress)
        self._plane.close_feed(now, feed.ingress.set_id)
