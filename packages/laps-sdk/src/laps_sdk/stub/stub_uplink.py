"""The uplink of a Stub: the upstream session of its Edge relay, and the parents behind it.

::

    EdgeRelay == Upstream == StubUplink ---- UplinkParent (active)   announces, subscribes
    of the Stub                    |     '---- UplinkParent             ready to take over
                                   '-- who serves what

A Stub announces and subscribes at its active parent, the one with the lowest sRTT. Another parent
takes over when the active one fails or drains, or when the active one is idle and another is
nearer. A parent that drains still serves. A track moves when the new parent serves it and the old
parent's streams have ended (make before break). The forwarding plane delivers objects from both
parents once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.forwarding.interfaces import Egress, ForwardingPlane, OutStream
from laps_sdk.peering.links import ForeignPeerWire
from laps_sdk.stub.stub_feeds import StubFeeds
from laps_sdk.stub.stub_leaving import Leaving
from laps_sdk.timers import earliest
from laps_sdk.upstream.announcements import Announcements
from laps_sdk.upstream.interfaces import answer_of
from laps_sdk.upstream.sink import PlaneSink
from laps_sdk.upstream.stub_data import TrackFeed, TrackStreams
from laps_sdk.upstream.stub_link import STUB, StubLink
from laps_sdk.upstream.upstream import Upstream
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceKind,
    SubscribeCode,
    SubscribeData,
    SubscribeResponse,
)
from laps_wire.peering.session import Draining, Event, Staying

__all__ = ["StubUplink", "UplinkParent"]

_GRACE: Final = 5.0
"""Seconds without a parent after which subscriptions are refused."""


class UplinkParent:
    """The session with one parent; a ``ForeignPeer`` of the network core."""

    __slots__ = (
        "_streams",
        "_uplink",
        "draining",
        "egress",
        "link",
        "node",
        "serves",
        "srtt_us",
    )

    def __init__(
        self, uplink: StubUplink, wire: ForeignPeerWire, egress: Egress, node: NodeId, srtt_us: int
    ) -> None:
        self._uplink = uplink
        self.egress = egress
        self.node = node
        self.srtt_us = srtt_us
        self.draining = False
        self.serves: set[int] = set()
        """The keys of the tracks that the parent accepted."""
        self.link = StubLink(self, wire, uplink.hasher, source=STUB, epoch=uplink.epoch)
        self._streams = TrackStreams(egress, uplink.sink, uplink.numbers)

    @property
    def rank(self) -> tuple[bool, int, NodeId]:
        """The sort key of parents: the lowest is the best."""
        return self.draining, self.srtt_us, self.node

    @property
    def idle(self) -> bool:
        """Whether neither end subscribes to a track."""
        return not self.link.subscribed_keys and not self.link.takers

    def measured(self, now: float, srtt_us: int) -> None:
        """Note the round trip to the parent; the Stub may move to a nearer one."""
        self.srtt_us = srtt_us
        self._uplink.choose(now)

    def stop(self, number: int, code: int) -> None:
        """Stop a stream that the plane no longer takes, if it is one of this parent."""
        self._streams.stop(number, code)

    def under_way(self, key: int) -> set[int]:
        """Return the streams of a track that have not ended."""
        return self._streams.under_way(key)

    def unsubscribe(self, now: float, key: int) -> None:
        """Unsubscribe from a track at this parent."""
        self.serves.discard(key)
        self.link.unsubscribe(now, key)

    # ForeignPeer

    def event(self, now: float, event: Event) -> None:
        """Handle an event of the peering session."""
        if isinstance(event, Draining):
            self.draining = True
            self._uplink.choose(now)
        elif isinstance(event, Staying):
            self.draining = False
            self._uplink.choose(now)
        else:
            self.link.event(now, event)

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        """Take a chunk of a unidirectional stream; raise ``RemoteError`` if it breaks a rule."""
        self._streams.data(now, stream_id, data, fin)
        if fin:
            self._uplink.stream_ended(now, self)

    def stream_reset(self, now: float, stream_id: int, code: int) -> None:
        """End a stream that the parent reset."""
        self._streams.reset(now, stream_id, code)
        self._uplink.stream_ended(now, self)

    def datagram(self, now: float, data: bytes) -> None:
        """Take a datagram; raise like :meth:`stream_data`."""
        self._streams.datagram(now, data)

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        """Handle an outgoing stream that was dropped, or that the parent stopped."""
        self._uplink.out_stream_gone(now, stream, lost, stopped=stopped)

    def closed(self, now: float) -> None:
        """Leave the uplink: the session is over."""
        self._streams.close(now)
        self._uplink.lost(now, self)

    # LinkOwner

    def subscribed(
        self, now: float, link: StubLink, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """Subscribe to a track that we announced, for the parent."""
        del link
        self._uplink.subscribed(now, self, key, name, data)

    def unsubscribed(self, now: float, link: StubLink, key: int) -> None:
        """Unsubscribe from a track, for the parent."""
        del link
        self._uplink.unsubscribed(now, self, key)

    def responded(self, now: float, link: StubLink, response: SubscribeResponse) -> None:
        """Handle the parent's answer to a subscribe of ours."""
        del link
        self._uplink.responded(now, self, response)

    def announced(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Do nothing: parents announce nothing to a Stub, and the session lets no announce pass."""

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Do nothing: there is no announce to withdraw."""


class StubUplink:
    """The upstream of a Stub's own Edge relay."""

    __slots__ = (
        "_active",
        "_announcements",
        "_contexts",
        "_feeds",
        "_leaving",
        "_parents",
        "_plane",
        "_refusals",
        "_subscriptions",
        "_until",
        "client",
        "epoch",
        "hasher",
        "numbers",
        "sink",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        hasher: KeyedHasher,
        *,
        session: int,
        epoch: int,
        contexts: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        """``session`` is the relay's number for the uplink; ``epoch`` grows with every start.

        ``contexts`` returns random numbers of 32 bits, never 0.
        """
        self.hasher = hasher
        self.epoch = epoch
        self.sink = PlaneSink(plane, session)
        self.numbers = count(1)
        self.client = Upstream(
            relay, session, self, hasher, clock, stop=self._stop, renew=plane.renew_egress
        )
        self._plane = plane
        self._contexts = contexts
        self._announcements = Announcements(lambda number: number == session)
        self._parents: dict[UplinkParent, None] = {}
        self._active: UplinkParent | None = None
        self._subscriptions: dict[int, tuple[FullTrackName, SubscribeData]] = {}
        self._feeds: StubFeeds[UplinkParent] = StubFeeds()
        """The parents that subscribe to our tracks."""
        self._leaving: Leaving[UplinkParent] = Leaving(UplinkParent.under_way, self._left)
        self._refusals: dict[int, SubscribeResponse] = {}
        """Refusals of the active parent for tracks that another parent still serves."""
        self._until: float | None = None
        """When to refuse all subscriptions, unless a parent connects before."""

    @property
    def parents(self) -> tuple[UplinkParent, ...]:
        """The parents that the Stub has sessions with."""
        return tuple(self._parents)

    # For the shell

    def open(self, now: float) -> None:
        """Join the Edge relay; call this once, before any other method."""
        self.client.open(now, "parents", upstream=True)

    def parent(
        self, now: float, wire: ForeignPeerWire, egress: Egress, *, node: NodeId, srtt_us: int
    ) -> UplinkParent:
        """Add a parent whose session is established; return its side of the uplink."""
        parent = UplinkParent(self, wire, egress, node, srtt_us)
        self._parents[parent] = None
        self.choose(now)
        return parent

    def pump(self, now: float) -> bool:
        """Carry messages until both ends are quiet; return whether there were any."""
        return self.client.pump(now)

    def observe(self, now: float, events: Iterable[RelayEvent]) -> None:
        """Announce the names of clients to the active parent; withdraw them from all parents."""
        for added, (kind, name) in self._announcements.observe(events):
            for parent in self._parents:
                if not added:
                    parent.link.retract(now, kind, name)
                elif parent is self._active:
                    parent.link.announce(now, kind, name)

    def poll_timeout(self) -> float | None:
        """Return when to call :meth:`handle_timeout`; None for never."""
        return earliest(self.client.poll_timeout(), self._until, self._leaving.poll_timeout())

    def handle_timeout(self, now: float) -> None:
        """Refuse tracks that no parent serves in time; leave former parents that are done."""
        self._leaving.handle_timeout(now)
        if self._until is not None and self._until <= now:
            self._until = None
            for key in list(self._subscriptions):
                self._answer(now, key, SubscribeCode.UNREACHABLE, "there is no parent")
        self.client.handle_timeout(now)

    @property
    def active(self) -> UplinkParent | None:
        """The parent that gets our announces and subscribes."""
        return self._active

    # Choosing

    def choose(self, now: float) -> None:
        """Move to the best parent if there is none yet, or if the current one drains or is idle."""
        best = min(self._parents, key=lambda parent: parent.rank, default=None)
        former = self._active
        if best is former or best is None:
            return
        if former is not None and not former.draining and not former.idle:
            return  # a move costs more than a longer path
        self._active = best
        self._until = None
        self._refusals.clear()
        self._leaving.forget_parent(best)
        for kind, name in self._announcements.current():
            best.link.announce(now, kind, name)
        for key, (name, data) in list(self._subscriptions.items()):
            best.link.subscribe(now, key, name, data)
        if former is not None and not former.draining:
            for kind, name in self._announcements.current():
                former.link.retract(now, kind, name)

    def lost(self, now: float, parent: UplinkParent) -> None:
        """Remove a parent whose session is over."""
        self._parents.pop(parent, None)
        self._leaving.forget_parent(parent)
        for key in self._feeds.of(parent):
            self.unsubscribed(now, parent, key)
        if parent is self._active:
            self._active = None
            self.choose(now)
            if not self._parents and self._subscriptions:
                self._until = now + _GRACE
        for key in list(self._refusals):
            self._refuse(now, key)

    def stream_ended(self, now: float, parent: UplinkParent) -> None:
        """Handle the end of a parent's stream; unsubscribe from a former parent that is done."""
        self._leaving.stream_ended(now, parent)

    def _left(self, now: float, parent: UplinkParent, key: int) -> None:
        parent.unsubscribe(now, key)
        self._refuse(now, key)

    # From parents

    def subscribed(
        self,
        now: float,
        parent: UplinkParent,
        key: int,
        name: FullTrackName,
        data: SubscribeData,
    ) -> None:
        """Subscribe to a track at the Edge for a parent."""
        feed = TrackFeed(parent.egress, key, self._contexts())
        others = self._feeds.owners(key)
        self.client.subscribe_at_edge(now, key, name, data, self._feeds.add(key, parent, feed))
        if others and parent not in others:
            # Open streams go to the other parents only, and may never end: go on in new ones.
            self.client.renew(key)

    def unsubscribed(self, now: float, parent: UplinkParent, key: int) -> None:
        """Remove a parent from a track; unsubscribe at the Edge when no parent is left."""
        if self._feeds.remove(key, parent):
            self.client.unsubscribe_at_edge(now, key)

    def responded(self, now: float, parent: UplinkParent, response: SubscribeResponse) -> None:
        """Handle a parent's answer to a subscribe."""
        key = response.full_name_hash
        if response.code == SubscribeCode.ACCEPTED:
            parent.serves.add(key)
            if parent is self._active:
                self._refusals.pop(key, None)
                for other in self._parents:
                    if other is not parent and key in other.link.subscribed_keys:
                        self._leaving.begin(now, other, key)
                self._answer(now, key, response.code, response.reason, response.data)
            return
        parent.serves.discard(key)
        if parent is self._active:
            self._refusals[key] = response
        self._refuse(now, key)

    def _refuse(self, now: float, key: int) -> None:
        """Pass a refusal of the active parent on, unless another one serves the track."""
        if key in self._refusals and not any(key in other.serves for other in self._parents):
            response = self._refusals.pop(key)
            self._answer(now, key, response.code, response.reason, response.data)

    def _answer(
        self, now: float, key: int, code: int, reason: str, data: SubscribeData | None = None
    ) -> None:
        answer = answer_of(code)
        self.client.subscribe_answered(
            now, key, answer, code=code, reason=reason, data=data or SubscribeData()
        )

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        """Report to the plane that an outgoing stream was dropped, or stopped by a parent."""
        whole = self._feeds.gone(stream)
        ours = None if whole is None else self.client.egress.stream_of(whole)
        if ours is not None:
            self._plane.out_stream_gone(now, self.client.number, ours, lost, stopped=stopped)

    def _stop(self, number: int, code: int) -> None:
        for parent in self._parents:
            parent.stop(number, code)

    # UpstreamOwner

    def edge_subscribed(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """Subscribe to a track at the active parent."""
        self._subscriptions[key] = (name, data)
        if self._active is not None:
            self._active.link.subscribe(now, key, name, data)
        elif self._until is None:
            self._until = now + _GRACE

    def edge_unsubscribed(self, now: float, key: int, name: FullTrackName) -> None:
        """Unsubscribe from a track at all parents."""
        del name
        self._subscriptions.pop(key, None)
        self._refusals.pop(key, None)
        self._leaving.forget_key(key)
        for parent in self._parents:
            parent.unsubscribe(now, key)

    def edge_accepted(self, now: float, key: int, data: SubscribeData) -> None:
        """Respond to the parents that the Edge serves a track."""
        self._respond(now, key, SubscribeCode.ACCEPTED, "", data)

    def edge_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """Respond to the parents that the Edge refused a track."""
        self._respond(now, key, code, reason, data)

    def edge_ended(self, now: float, key: int, reason: str) -> None:
        """Respond to the parents that a track has ended."""
        self._respond(now, key, SubscribeCode.ENDED, reason, SubscribeData())

    def _respond(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        owners = self._feeds.owners(key)
        if code is not SubscribeCode.ACCEPTED:
            self._feeds.drop(key)
        for owner in owners:
            owner.link.respond(now, key, code, reason, data)

    def edge_closed(self, now: float, code: int, reason: str) -> None:
        """Do nothing: a Stub never closes the session with its own uplink."""
