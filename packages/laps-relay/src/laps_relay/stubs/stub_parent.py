"""A Stub at its parent Edge: a client that speaks the peering protocol.

::

    Stub --announces-----> PUBLISH_NAMESPACE, PUBLISH ----> EdgeRelay
         --subscribes----> SUBSCRIBE --------------------->
         <-subscribes----- its SUBSCRIBE to the session <-- (only what the Stub announced)
         ==data, SNS 0==== Plane

The network does not see the Stub. As for any client, the parent's bridge announces the Stub's names
and subscribes to the tracks that the Stub requests. The authorizer and the caps of a session
apply to the Stub.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.forwarding.interfaces import Egress, ForwardingPlane
from laps_sdk.peering.links import ForeignPeerWire
from laps_sdk.upstream.bodies import read_subscribe
from laps_sdk.upstream.edge_peer import EdgePeer
from laps_sdk.upstream.interfaces import answer_of
from laps_sdk.upstream.sink import PlaneSink
from laps_sdk.upstream.stub_data import TrackFeed, TrackStreams
from laps_sdk.upstream.stub_link import StubLimits, StubLink
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceKind,
    SubscribeCode,
    SubscribeData,
    SubscribeResponse,
)
from laps_wire.peering.session import Event

__all__ = ["StubParent"]

_RETRY: Final = 1.0
"""Seconds between retries of a track that the Edge refused."""


class StubParent(EdgePeer):
    """One Stub as a client of its parent Edge."""

    __slots__ = ("_contexts", "_link", "_refused")

    def __init__(
        self,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        hasher: KeyedHasher,
        *,
        session: int,
        node: NodeId,
        epoch: int,
        wire: ForeignPeerWire,
        egress: Egress,
        contexts: Callable[[], int],
        clock: Callable[[], float],
        setup: SetupOptions = NO_OPTIONS,
        limits: StubLimits = StubLimits(),  # noqa: B008 - a tuple
    ) -> None:
        """``session`` is the Edge's number for the Stub; ``node`` and ``epoch`` are the parent's.

        ``contexts`` returns random numbers of 32 bits, never 0. ``setup`` may carry a token
        by which the authorizer recognises Stubs.
        """
        super().__init__(
            relay,
            plane,
            hasher,
            session=session,
            wire=wire,
            egress=egress,
            streams=TrackStreams(egress, PlaneSink(plane, session), count(1)),
            clock=clock,
            setup=setup,
        )
        self._contexts = contexts
        self._refused: dict[int, tuple[FullTrackName, SubscribeData, SubscribeCode]] = {}
        """Subscribes of the Stub that the Edge refused, by key; each is retried."""
        self._link = StubLink(self, wire, hasher, source=node, epoch=epoch, limits=limits)

    def open(self, now: float, address: str = "stub") -> None:
        """Join the Edge; call this once, before any other method."""
        self.client.open(now, address, upstream=False)

    def _due(self, now: float, key: int) -> None:
        name, data, _ = self._refused[key]
        self._subscribe(now, key, name, data)

    def event(self, now: float, event: Event) -> None:
        """Handle an event of the peering session."""
        self._link.event(now, event)

    # LinkOwner

    def subscribed(
        self, now: float, link: StubLink, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """Subscribe to a track at the Edge for the Stub."""
        del link
        self._settle(key)
        self._subscribe(now, key, name, data)

    def _subscribe(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        feed = TrackFeed(self._egress, key, self._contexts())
        self.client.subscribe_at_edge(now, key, name, data, feed)

    def _settle(self, key: int) -> None:
        """Remove the refusal of a track and its retry timer."""
        self._refused.pop(key, None)
        self._timers.cancel(key)

    def unsubscribed(self, now: float, link: StubLink, key: int) -> None:
        """Unsubscribe from a track at the Edge."""
        del link
        self._settle(key)
        self.client.unsubscribe_at_edge(now, key)

    def responded(self, now: float, link: StubLink, response: SubscribeResponse) -> None:
        """Pass the Stub's response to the Edge."""
        del link
        self.client.subscribe_answered(
            now,
            response.full_name_hash,
            answer_of(response.code),
            code=response.code,
            reason=response.reason,
            data=response.data,
        )

    def announced(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Publish a name of the Stub at the Edge."""
        self.client.publish(now, kind, name)

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw a name of the Stub from the Edge."""
        self.client.unpublish(now, kind, name)

    # UpstreamOwner

    def edge_subscribed(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """Subscribe to a track at the Stub, which announced it."""
        self._link.subscribe(now, key, name, data)

    def edge_unsubscribed(self, now: float, key: int, name: FullTrackName) -> None:
        """Unsubscribe from a track at the Stub."""
        del name
        self._link.unsubscribe(now, key)

    def edge_accepted(self, now: float, key: int, data: SubscribeData) -> None:
        """Respond to the Stub that the Edge serves a track."""
        self._settle(key)
        self._link.respond(now, key, SubscribeCode.ACCEPTED, "", data)

    def edge_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """Schedule a retry of a track that the Edge refused; inform the Stub if the code is new."""
        info = self._link.takers.get(key)
        subscribe = None if info is None else read_subscribe(info.data)
        if info is None or subscribe is None:
            return
        _, _, told = self._refused.get(key, (None, None, None))
        self._refused[key] = (subscribe.track, info.data, code)
        self._timers.set(key, now + _RETRY)
        if told is not code:
            self._link.respond(now, key, code, reason, data)
