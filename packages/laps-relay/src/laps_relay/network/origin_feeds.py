"""Tracks that enter the network at this relay: one feed for each that other relays subscribe to.

::

    OriginRole --request_track, release--> OriginFeeds --feed--> local side: objects go into it
                                               |
                                               '--targets, class--> Sets --> FIB
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_relay.network.sets.sets import Sets
from laps_relay.network.steering import Steering
from laps_relay.network.subscriptions.origin_role import OriginRole
from laps_relay.peer_forwarding.feed import PlaneFeed
from laps_relay.peer_forwarding.forwarding import Ingress, Outdated
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.policy.interface import Policy
from laps_sdk.upstream.interfaces import LocalSide
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import PayloadFormat, SubscribeData

__all__ = ["OriginFeeds"]

_NOBODY: Final[frozenset[NodeId]] = frozenset()


class OriginFeeds:
    """The feeds by key, and the keys whose targets have changed."""

    __slots__ = (
        "_changed",
        "_contexts",
        "_feeds",
        "_local",
        "_next",
        "_origin",
        "_plane",
        "_sets",
        "_steering",
        "policy",
    )

    def __init__(
        self,
        *,
        plane: PeerPlane,
        steering: Steering,
        contexts: Callable[[], int],
        policy: Policy,
    ) -> None:
        """``contexts`` returns 32 random bits that are not 0."""
        self._plane = plane
        self._steering = steering
        self._contexts = contexts
        self.policy = policy
        """The policy in force."""
        self._sets: Sets
        self._origin: OriginRole
        self._local: LocalSide | None = None
        self._feeds: dict[int, PlaneFeed] = {}
        self._next = 1
        self._changed: dict[int, None] = {}

    def __len__(self) -> int:
        """How many feeds are open."""
        return len(self._feeds)

    def connect(self, sets: Sets, origin: OriginRole) -> None:
        """Set the rooms that are built on this one; called once, before any feed is opened."""
        self._sets = sets
        self._origin = origin

    def attach(self, local: LocalSide) -> None:
        """Connect the relay's own clients."""
        self._local = local

    @property
    def has_changed(self) -> bool:
        """Whether the targets of any track may have changed."""
        return bool(self._changed)

    def ingress(self, key: int) -> Ingress | None:
        """Return where the feed of a track enters the network; None if it has none."""
        feed = self._feeds.get(key)
        return None if feed is None else feed.ingress

    def keys(self) -> list[int]:
        """The tracks that have a feed."""
        return list(self._feeds)

    def targets_changed(self, key: int) -> None:
        """Note that the targets of a track may have changed."""
        self._changed[key] = None

    def take_changed(self) -> dict[int, None]:
        """Return the tracks whose targets may have changed, and forget them."""
        keys: dict[int, None] = {}
        if self._changed:
            keys, self._changed = self._changed, keys
        return keys

    def open_feed(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """Open the feed of a track that another relay subscribes to first."""
        if key in self._feeds:
            # The publisher has just ended the former feed: this is another flow.
            self.close(now, key)
        feed = self._plane.open_feed(self._next, key, self._contexts(), PayloadFormat.MOQT_18)
        self._next += 1
        self._feeds[key] = feed
        self._changed[key] = None
        if self._local is not None:
            self._local.serve_track(now, key, name, data, feed)

    def request_again(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """Ask the publisher again: one more relay subscribes, or one with other parameters."""
        feed = self._feeds.get(key)
        if self._local is not None and feed is not None:
            self._local.serve_track(now, key, name, data, feed)

    def release(self, now: float, key: int) -> None:
        """Close the feed of a track after the last subscriber has left."""
        self._changed.pop(key, None)
        if self._local is not None:
            self._local.release(now, key)
        feed = self._feeds.get(key)
        if feed is not None:
            # Open streams end, too: the last subscriber is gone, or may not have them.
            self._sets.set_feed(now, feed.ingress, key, _NOBODY, "")
        self.close(now, key)

    def close(self, now: float, key: int) -> None:
        """Begin no more streams; those that are open go on to their end."""
        feed = self._feeds.pop(key, None)
        if feed is not None:
            self._sets.drop_feed(now, feed.ingress)
            self._plane.close_feed(now, feed.ingress.set_id)
        self._steering.release(key)

    def route(self, now: float, key: int) -> None:
        """Send a track to the relays that subscribe to it."""
        feed, name = self._feeds.get(key), self._origin.name(key)
        if feed is None:
            return
        if name is None:
            # Its publisher has ended it.
            self.close(now, key)
            return
        targets = self._origin.targets(key)
        self._sets.set_feed(now, feed.ingress, key, targets, self.policy.scope(name))

    def renew(self, now: float, notice: Outdated) -> None:
        """Continue the open streams of a track in new ones, to all targets."""
        key = self._sets.renew(now, notice.ingress)
        if key is not None and self._local is not None:
            self._local.renew(now, key, notice.before)

    def catch_up(self, now: float, key: int) -> None:
        """Continue streams of a track that our clients subscribe to again in time.

        An Edge without subscribers dropped the objects in between, and cannot get them back.
        """
        for ingress in self._plane.bringing(key):
            self._sets.renew(now, ingress)
