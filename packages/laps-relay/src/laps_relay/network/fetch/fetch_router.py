"""Routing of fetches: sessions towards a node, nodes that hold a track, feeds for answers.

An answer enters the network like the objects of a publisher: through a feed and a set of its own.
It has no key in steering: one stream to one relay needs no Via beside those on the best path.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final, TypeAlias

from laps_relay.network.control_server.control_server import ControlServer
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.sets.sets import Sets
from laps_relay.network.subscriptions.subscriptions import Subscriptions, TrackHashes
from laps_relay.peer_forwarding.feed import PlaneFeed
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.policy.interface import Policy
from laps_sdk.peering.links import Links
from laps_sdk.upstream.interfaces import FetchRefusal
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FLAG_FETCH,
    Feature,
    FetchCancel,
    FetchRequest,
    FetchResponse,
    NodeSelf,
    PayloadFormat,
    Stamp,
    SubscribeCode,
    SubscribeInfo,
)

__all__ = ["FETCH_FEEDS", "NO_FETCHES", "FetchMessage", "FetchRouter", "entry_of"]

FetchMessage: TypeAlias = FetchRequest | FetchResponse | FetchCancel

FETCH_FEEDS: Final = 1 << 40
"""Feeds of fetches are numbered from here on: those of tracks have other numbers."""
NO_FETCHES: Final = FetchRefusal(SubscribeCode.NO_PUBLISHER, "there are no clients here")
"""The answer of a relay without clients."""
_NOBODY: Final[frozenset[NodeId]] = frozenset()
_NEVER: Final = Stamp(0, 0)


def entry_of(request: FetchRequest) -> SubscribeInfo:
    """Return the subscribe that stands for a FETCH in policy: same source, same track."""
    return SubscribeInfo(
        request.source,
        _NEVER,
        request.element_hashes,
        request.name_hash,
        request.full_name_hash,
        request.scope,
        request.data,
    )


class FetchRouter:
    """Finds paths for messages about fetches, and feeds for their answers."""

    __slots__ = (
        "_links",
        "_local",
        "_nib",
        "_numbers",
        "_plane",
        "_server",
        "_sets",
        "_subscriptions",
        "draw",
        "node",
        "policy",
        "replicas",
        "send",
    )

    def __init__(
        self,
        local: NodeId,
        *,
        links: Links,
        nib: Nib,
        sets: Sets,
        plane: PeerPlane,
        subscriptions: Subscriptions,
        server: ControlServer | None,
        policy: Policy,
        node: Callable[[NodeId], NodeSelf | None],
        replicas: Callable[[int], tuple[NodeId, ...]],
        draw: Callable[[], int],
        send: Callable[[float, int, FetchMessage], bool],
    ) -> None:
        """``policy`` may be replaced later.

        ``node`` returns what a node says of itself, this relay's own node too; ``replicas`` the
        control servers that hold a key; ``draw`` 32 random bits that are not 0. ``send`` returns
        whether there was a session to send a message over.
        """
        self._local = local
        self._links = links
        self._nib = nib
        self._sets = sets
        self._plane = plane
        self._subscriptions = subscriptions
        self._server = server
        self.policy = policy
        self.node = node
        self.replicas = replicas
        self.draw = draw
        self.send = send
        self._numbers = count(FETCH_FEEDS)

    def peer(self, session: int) -> NodeSelf | None:
        """Return what the peer of a session says of itself now, not only in its handshake."""
        link = self._links.get(session)
        if link is None or link.info is None or link.node is None:
            return None
        return self.node(link.node) or link.info.node

    def sessions_to(self, node: NodeId) -> list[int]:
        """Return the sessions with peers that forward fetches towards a node, the best first."""
        links = (self._links.control(path.peer) for path in self._nib.candidates(node))
        found = [link for link in links if link is not None and Feature.FETCHES in link.features]
        return list(dict.fromkeys(link.session for link in found))

    def holders(self, track: TrackHashes) -> list[NodeId]:
        """Return other nodes that may have the objects of a track, the nearest first.

        Control servers come last: they can only forward a request.
        """
        known = [node for node in self._subscriptions.holders(track) if node != self._local]
        known.sort(key=self._distance)
        return list(dict.fromkeys((*known, *self.replicas(track.key))))

    def _distance(self, node: NodeId) -> tuple[bool, int, int]:
        path = self._nib.best(node)
        return (True, 0, 0) if path is None else (False, path.hops, path.cost_us)

    def announcers(self, request: FetchRequest) -> list[NodeId] | None:
        """Return the Edges that announced a track, the nearest first; None: no control server."""
        if self._server is None:
            return None
        return sorted(self._server.announcers(entry_of(request)), key=self._distance)

    def open_feed(self, now: float, request: FetchRequest, name: FullTrackName) -> PlaneFeed | None:
        """Open a feed for the answer to a FETCH; return None if no path leads to its source."""
        key, number = request.full_name_hash, next(self._numbers)
        feed = self._plane.open_feed(
            number, key, request.fetch_id, PayloadFormat.MOQT_18, flags=FLAG_FETCH
        )
        scope = self.policy.scope(name)
        self._sets.set_feed(now, feed.ingress, None, frozenset({request.source}), scope)
        if self._sets.is_routed(feed.ingress):
            return feed
        self.close_feed(now, feed, cut=False)
        return None

    def close_feed(self, now: float, feed: PlaneFeed, *, cut: bool) -> None:
        """Close a feed; with ``cut`` streams under way are reset."""
        if cut:
            self._sets.set_feed(now, feed.ingress, None, _NOBODY, "")
        self._sets.drop_feed(now, feed.ingress)
        self._plane.close_feed(now, feed.ingress.set_id)
