"""A C++ relay, with the network behind it, as a client of our Edge.

::

    C++ relay --announces-----> PUBLISH_NAMESPACE, PUBLISH --> EdgeRelay
              --subscribes----> SUBSCRIBE ------------------->
              <-subscribes----- its SUBSCRIBE to the session <-
              <-announces------ Directory: names of our clients and of our network
              ==data, SNS====== Plane, in draft 16

The C++ network sees our network as one node. Our network sees the C++ nodes as clients of this
Edge. The C++ protocol has no answers: :class:`CppPeer` accepts every subscribe at once, and retries
tracks without a publisher. A C++ relay drops objects of an unknown set, so ``CppPeer`` sends a set
some time before the first object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from laps_relay.cpp.cpp_data import CppFeed, CppStreams
from laps_relay.cpp.cpp_link import CppLimits, CppLink
from laps_relay.cpp.cpp_words import CITY, CPP_DRAFT
from laps_relay.cpp.directory import Directory
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.forwarding.interfaces import Egress, ForwardingPlane
from laps_sdk.peering.links import ForeignPeerWire
from laps_sdk.upstream.edge_peer import EdgePeer
from laps_sdk.upstream.interfaces import Answer
from laps_sdk.upstream.sink import PlaneSink
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.laps2 import AnnounceKind, SubscribeCode, SubscribeData
from laps_wire.peering.session import Event

__all__ = ["ALIVE_INTERVAL", "RETRY", "SET_DELAY", "CppPeer"]

SET_DELAY: Final = 0.05
"""Seconds between a set and its first data: QUIC streams are not ordered."""
ALIVE_INTERVAL: Final = 2.0
"""The longest silence in seconds: a C++ relay closes after five seconds without a packet."""
RETRY: Final = 5.0
"""Seconds until the first retry of a track without a publisher; the delay doubles each time."""
_MOST_RETRY: Final = 60.0
_ALIVE: Final = -1
"""The key of the keep-alive timer; the other timers have the key of a track."""


@dataclass(slots=True)
class _Served:
    """A track that the C++ network subscribes to."""

    sns_id: int
    targets: tuple[NodeId, ...]
    retry: float = RETRY


class CppPeer(EdgePeer):
    """One C++ relay as a client of our Edge."""

    __slots__ = (
        "_directory",
        "_dirty",
        "_ended",
        "_link",
        "_node",
        "_refused",
        "_sent",
        "_served",
        "_subscribed",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        directory: Directory,
        *,
        session: int,
        node: Callable[[], cpp.NodeInfo],
        ours: Callable[[NodeId], bool],
        wire: ForeignPeerWire,
        egress: Egress,
        clock: Callable[[], float],
        limits: CppLimits = CppLimits(),  # noqa: B008 - a tuple
        setup: SetupOptions = NO_OPTIONS,
    ) -> None:
        """``session`` is the Edge's number for the peer; ``node`` returns our node to advertise.

        ``ours`` returns whether a node is in our own network.
        """
        sink = PlaneSink(plane, session, CPP_DRAFT)
        self._link = CppLink(self, wire, source=node().node_id, ours=ours, limits=limits)
        super().__init__(
            relay,
            plane,
            CITY,
            session=session,
            wire=wire,
            egress=egress,
            streams=CppStreams(egress, sink, count(1), self._link.takes),
            clock=clock,
            setup=setup,
            draft=CPP_DRAFT,
        )
        self._directory = directory
        self._node = node
        self._served: dict[int, _Served] = {}
        """Tracks that the C++ network subscribes to, by key."""
        self._refused: dict[int, None] = {}
        """Keys among ``_served`` that the Edge refused."""
        self._subscribed: dict[int, tuple[FullTrackName, SubscribeData]] = {}
        """Tracks that the Edge subscribed to, by key."""
        self._sent: dict[int, SubscribeData] = {}
        """The subscribes that the C++ relay has, by key."""
        self._dirty: dict[int, None] = {}
        """Keys for which ``_subscribed`` and ``_sent`` may differ."""
        self._ended: dict[int, None] = {}
        """Keys among ``_subscribed`` that the C++ network no longer announces."""

    # For the shell

    def open(self, now: float, address: str = "cpp") -> None:
        """Join the Edge and announce all names; call this once, before any other method."""
        self.client.open(now, address, upstream=False, distant=True)
        self._directory.watch(now, self.client.number, self)
        self._timers.set(_ALIVE, now + ALIVE_INTERVAL)

    def pump(self, now: float) -> bool:
        """Carry messages until both ends are quiet; return whether there were any."""
        return super().pump(now) | self._flush(now)

    def handle_timeout(self, now: float) -> None:
        """Retry refused tracks, keep the session alive and send changed subscribes."""
        super().handle_timeout(now)
        self._flush(now)

    def _due(self, now: float, key: int) -> None:
        if key != _ALIVE:
            self._subscribe(now, key)
            return
        due = self._link.said + ALIVE_INTERVAL
        if due <= now:
            self._link.alive(now, self._node())
            due = now + ALIVE_INTERVAL
        self._timers.set(_ALIVE, due)

    # ForeignPeer

    def event(self, now: float, event: Event) -> None:
        """Handle an event of the peering session; raise ``RemoteError`` if the peer is at fault."""
        self._link.event(now, event)
        self._flush(now)

    def closed(self, now: float) -> None:
        """Leave the Edge: the peering session is over."""
        self._directory.unwatch(self.client.number)
        super().closed(now)

    # NameWatcher: names of our network

    def named(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Announce a name, and retry refused tracks that it covers."""
        self._link.announce(now, kind, name)
        for key in self._refused:
            wanted, _ = self._link.taken(key)
            if wanted == name or (
                kind is AnnounceKind.NAMESPACE and name.namespace.is_prefix_of(wanted.namespace)
            ):
                self._timers.set(key, now)

    def unnamed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw the announce of a name."""
        self._link.retract(now, kind, name)

    # CppOwner: announces and subscribes of the C++ network

    def announced(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Publish a name of the C++ network at the Edge."""
        self.client.publish(now, kind, name)
        for key in [key for key in self._ended if self._link.offers(self._subscribed[key][0])]:
            del self._ended[key]
            self._accept(now, key)

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw a name of the C++ network from the Edge; end tracks that it covered."""
        self.client.unpublish(now, kind, name)
        for key, (wanted, _) in list(self._subscribed.items()):
            if key not in self._ended and not self._link.offers(wanted):
                self._ended[key] = None
                self._answer(now, key, Answer.ENDED, SubscribeCode.ENDED, "not announced any more")

    def takers_changed(self, now: float, key: int) -> None:
        """Set the targets of a track's subscriber node set to the nodes that subscribe."""
        targets, served = self._link.takers(key), self._served.get(key)
        if served is None:
            if targets:
                sns_id = self._wire.advertise_sns(now, targets)
                if sns_id is not None:
                    self._served[key] = _Served(sns_id, targets)
                    self._timers.set(key, now + SET_DELAY)
        elif not targets:
            del self._served[key]
            self._refused.pop(key, None)
            self._timers.cancel(key)
            self.client.unsubscribe_at_edge(now, key)
            self._wire.withdraw_sns(now, served.sns_id)
        elif targets != served.targets:
            served.targets = targets
            self._wire.update_sns(now, served.sns_id, targets)

    def asked_again(self, now: float, key: int) -> None:
        """Subscribe at the Edge again: a subscriber may request a new group."""
        if key in self._served and self._timers.when(key) is None:
            self._subscribe(now, key)

    def _subscribe(self, now: float, key: int) -> None:
        served = self._served[key]
        self._refused.pop(key, None)
        name, data = self._link.taken(key)
        self.client.subscribe_at_edge(
            now, key, name, data, CppFeed(self._egress, key, served.sns_id)
        )

    # UpstreamOwner

    def edge_subscribed(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """Subscribe to a track of the C++ network; accept at once: the protocol has no answers."""
        self._subscribed[key] = (name, data)
        self._dirty[key] = None
        self._ended.pop(key, None)
        self._accept(now, key)

    def edge_unsubscribed(self, now: float, key: int, name: FullTrackName) -> None:  # noqa: ARG002
        """Unsubscribe from a track of the C++ network."""
        del self._subscribed[key]
        self._dirty[key] = None
        self._ended.pop(key, None)

    def _accept(self, now: float, key: int) -> None:
        self._answer(now, key, Answer.ACCEPTED, SubscribeCode.ACCEPTED, "")

    def _answer(
        self, now: float, key: int, answer: Answer, code: SubscribeCode, reason: str
    ) -> None:
        self.client.subscribe_answered(
            now, key, answer, code=code, reason=reason, data=SubscribeData()
        )

    def _flush(self, now: float) -> bool:
        """Send the subscribes that changed; return whether there were any.

        The Edge briefly subscribes to each announced track, until it knows that no client has
        subscribed. Such a subscribe is withdrawn before this method runs, and is not sent.
        """
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            wanted = self._subscribed.get(key)
            if wanted is None:
                self._sent.pop(key, None)
                self._link.unsubscribe(now, key)
            elif self._sent.get(key) != wanted[1]:
                self._sent[key] = wanted[1]
                self._link.subscribe(now, key, *wanted)
        return bool(dirty)

    def edge_accepted(self, now: float, key: int, data: SubscribeData) -> None:  # noqa: ARG002
        """Reset the retry delay of a track that the Edge serves."""
        self._served[key].retry = RETRY

    def edge_refused(
        self,
        now: float,
        key: int,
        code: SubscribeCode,  # noqa: ARG002 - the C++ protocol has no refusals
        reason: str,  # noqa: ARG002
        data: SubscribeData,  # noqa: ARG002
    ) -> None:
        """Schedule a retry of a track that the Edge refused."""
        served = self._served.get(key)
        if served is not None:
            self._refused[key] = None
            self._timers.set(key, now + served.retry)
            served.retry = min(2 * served.retry, _MOST_RETRY)
