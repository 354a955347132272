"""A Stub at its parent Edge: a client like others, that speaks the peering protocol.

::

    Stub --announces-----> PUBLISH_NAMESPACE, PUBLISH ----> EdgeRelay
         --subscribes----> SUBSCRIBE --------------------->
         <-subscribes----- its SUBSCRIBE to the session <-- (only what the Stub announced)
         ==data, SNS 0==== Plane

Nobody beyond the parent hears of the Stub: what it publishes is announced, and what it wants is
subscribed to, by the parent's own bridge as for any client. The authorizer and the caps of a
session hold for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.forwarding.interfaces import Egress, ForwardingPlane, OutStream
from laps_sdk.timers import Timers, earliest
from laps_sdk.upstream.bodies import read_subscribe
from laps_sdk.upstream.interfaces import answer_of
from laps_sdk.upstream.sink import PlaneSink
from laps_sdk.upstream.stub_data import TrackFeed, TrackStreams
from laps_sdk.upstream.stub_link import PeerWire, StubLimits, StubLink
from laps_sdk.upstream.upstream import Upstream
from laps_wire.errors import StateError
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    AnnounceKind,
    SubscribeCode,
    SubscribeData,
    SubscribeResponse,
)
from laps_wire.peering.session import Event

__all__ = ["StubParent"]

_RETRY: Final = 1.0
"""How often what the Stub wants and nobody publishes is looked for again, in seconds."""


class StubParent:
    """One Stub; a ``ForeignPeer`` of the network core."""

    __slots__ = (
        "_contexts",
        "_egress",
        "_link",
        "_plane",
        "_refused",
        "_streams",
        "_timers",
        "_wire",
        "client",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        hasher: KeyedHasher,
        *,
        session: int,
        node: NodeId,
        epoch: int,
        wire: PeerWire,
        egress: Egress,
        contexts: Callable[[], int],
        clock: Callable[[], float],
        setup: SetupOptions = NO_OPTIONS,
        limits: StubLimits = StubLimits(),  # noqa: B008 - a tuple
    ) -> None:
        """``session`` is the Edge's number for it; ``node`` and ``epoch`` are the parent's own.

        ``contexts`` gives random numbers of 32 bits that are not 0. ``setup`` may carry a token
        with which the authorizer knows Stubs.
        """
        self._plane = plane
        self._egress = egress
        self._contexts = contexts
        self._wire = wire
        self._refused: dict[int, tuple[FullTrackName, SubscribeData, SubscribeCode]] = {}
        """What the Stub wants and was told that it cannot have."""
        self._timers: Timers[int] = Timers()
        self._link = StubLink(self, wire, hasher, source=node, epoch=epoch, limits=limits)
        self._streams = TrackStreams(egress, PlaneSink(plane, session), count(1))
        self.client = Upstream(
            relay, session, self, hasher, clock, stop=self._streams.stop, setup=setup
        )

    # For the shell

    def open(self, now: float, address: str = "stub") -> None:
        """Join the Edge; once, before anything else."""
        self.client.open(now, address, upstream=False)

    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""
        return self.client.pump(now)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return earliest(self.client.poll_timeout(), self._timers.next())

    def handle_timeout(self, now: float) -> None:
        """Give up what nobody waits for any more; look again for what the Stub still wants."""
        self.client.handle_timeout(now)
        while (key := self._timers.pop(now)) is not None:
            name, data, _ = self._refused[key]
            self._pull(now, key, name, data)

    # ForeignPeer

    def event(self, now: float, event: Event) -> None:
        """Something of the peering session."""
        self._link.event(now, event)

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        """A chunk of a unidirectional stream; raises ``RemoteError`` for the Stub's fault."""
        self._streams.data(now, stream_id, data, fin)

    def stream_reset(self, now: float, stream_id: int, code: int) -> None:
        """The Stub abandoned it."""
        self._streams.reset(now, stream_id, code)

    def datagram(self, now: float, data: bytes) -> None:
        """A datagram; raises like :meth:`stream_data`."""
        self._streams.datagram(now, data)

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        """An outgoing stream was dropped, or stopped by the Stub."""
        ours = self.client.egress.stream_of(stream)
        if ours is not None:
            self._plane.out_stream_gone(now, self.client.number, ours, lost, stopped=stopped)

    def measured(self, now: float, srtt_us: int) -> None:
        """How far the Stub is does not matter: it has chosen us."""

    def closed(self, now: float) -> None:
        """The session with the Stub is over."""
        self.client.close(now)

    # LinkOwner

    def subscribed(
        self, now: float, link: StubLink, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """The Stub wants a track."""
        del link
        self._settle(key)
        self._pull(now, key, name, data)

    def _pull(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        feed = TrackFeed(self._egress, key, self._contexts())
        self.client.subscribe_at_edge(now, key, name, data, feed)

    def _settle(self, key: int) -> None:
        """Nothing is to be looked for again."""
        self._refused.pop(key, None)
        self._timers.cancel(key)

    def unsubscribed(self, now: float, link: StubLink, key: int) -> None:
        """It does not any more."""
        del link
        self._settle(key)
        self.client.unsubscribe_at_edge(now, key)

    def responded(self, now: float, link: StubLink, response: SubscribeResponse) -> None:
        """It answered what the Edge wants from it."""
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
        """It publishes this."""
        self.client.publish(now, kind, name)

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """It does not any more."""
        self.client.unpublish(now, kind, name)

    # UpstreamOwner

    def edge_subscribed(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """The Edge wants a track that the Stub announced."""
        self._link.want(now, key, name, data)

    def edge_unsubscribed(self, now: float, key: int, name: FullTrackName) -> None:
        """It does not any more."""
        del name
        self._link.unwant(now, key)

    def edge_accepted(self, now: float, key: int, data: SubscribeData) -> None:
        """The Edge serves what the Stub wants."""
        self._settle(key)
        self._link.respond(now, key, SubscribeCode.ACCEPTED, "", data)

    def edge_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """The Edge does not serve it."""
        info = self._link.takers.get(key)
        subscribe = None if info is None else read_subscribe(info.data)
        if info is None or subscribe is None:
            return
        _, _, told = self._refused.get(key, (None, None, None))
        self._refused[key] = (subscribe.track, info.data, code)
        self._timers.set(key, now + _RETRY)
        if told is not code:
            self._link.respond(now, key, code, reason, data)

    def edge_ended(self, now: float, key: int, reason: str) -> None:
        """The Edge serves it no longer."""
        self.edge_refused(now, key, SubscribeCode.ENDED, reason, SubscribeData())

    def edge_closed(self, now: float, code: int, reason: str) -> None:
        """The Edge does not want the Stub: neither does the network."""
        del code
        with suppress(StateError):  # it may be over already
            self._wire.close(now, CloseCode.NOT_AUTHORIZED, reason)
