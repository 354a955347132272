"""A peer that speaks a peering protocol and is a client of the Edge.

::

    peering session --events, streams--> EdgePeer: link, streams --> Upstream --> EdgeRelay
                    <-messages----------           <-- Plane: objects, through FeedEgress

The parent's side of a Stub and the session with a C++ relay are such peers. They differ in their
messages and in the keys of tracks. :class:`EdgePeer` holds what they share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.forwarding.interfaces import Egress, ForwardingPlane, OutStream
from laps_sdk.peering.links import ForeignPeerWire
from laps_sdk.timers import Timers, earliest
from laps_sdk.upstream.bodies import DRAFT
from laps_sdk.upstream.stub_data import TrackStreams
from laps_sdk.upstream.upstream import NameHasher, Upstream
from laps_wire.errors import StateError
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import SubscribeCode, SubscribeData

__all__ = ["EdgePeer"]


class EdgePeer(ABC):
    """The base class of a Stub and a C++ relay at an Edge.

    An instance is a ``ForeignPeer`` of the network core and the ``UpstreamOwner`` of its session
    with the Edge. A subclass implements the messages: ``event``, ``edge_subscribed``,
    ``edge_unsubscribed``, ``edge_accepted``, ``edge_refused`` and ``_due``.
    """

    __slots__ = ("_egress", "_plane", "_streams", "_timers", "_wire", "client")

    def __init__(
        self,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        hasher: NameHasher,
        *,
        session: int,
        wire: ForeignPeerWire,
        egress: Egress,
        streams: TrackStreams,
        clock: Callable[[], float],
        setup: SetupOptions,
        draft: Draft = DRAFT,
    ) -> None:
        """``session`` is the Edge's number for the peer; ``setup`` may carry a token."""
        self._plane = plane
        self._wire = wire
        self._egress = egress
        self._streams = streams
        self._timers: Timers[int] = Timers()
        """Timers by the key of a track; a subclass may add other keys."""
        self.client = Upstream(
            relay, session, self, hasher, clock, stop=streams.stop, setup=setup, draft=draft
        )
        """The session with the Edge."""

    # For the shell

    def pump(self, now: float) -> bool:
        """Carry messages until both ends are quiet; return whether there were any."""
        return self.client.pump(now)

    def poll_timeout(self) -> float | None:
        """Return when to call :meth:`handle_timeout`; None for never."""
        return earliest(self.client.poll_timeout(), self._timers.next())

    def handle_timeout(self, now: float) -> None:
        """Run the timers that are due."""
        self.client.handle_timeout(now)
        while (key := self._timers.pop(now)) is not None:
            self._due(now, key)

    @abstractmethod
    def _due(self, now: float, key: int) -> None:
        """Handle the timer of a track."""

    # ForeignPeer

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        """Take a chunk of a unidirectional stream; raise ``RemoteError`` for the peer's fault."""
        self._streams.data(now, stream_id, data, fin)

    def stream_reset(self, now: float, stream_id: int, code: int) -> None:
        """End a stream that the peer reset."""
        self._streams.reset(now, stream_id, code)

    def datagram(self, now: float, data: bytes) -> None:
        """Take a datagram; raise like :meth:`stream_data`."""
        self._streams.datagram(now, data)

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        """Report to the plane that an outgoing stream was dropped, or stopped by the peer."""
        ours = self.client.egress.stream_of(stream)
        if ours is not None:
            self._plane.out_stream_gone(now, self.client.number, ours, lost, stopped=stopped)

    def measured(self, now: float, srtt_us: int) -> None:
        """Ignore the round-trip time: there is no other path to this peer."""
        del now, srtt_us

    def closed(self, now: float) -> None:
        """Leave the Edge: the peering session is over."""
        self.client.close(now)

    # UpstreamOwner

    @abstractmethod
    def edge_subscribed(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """Subscribe to a track at the peer."""

    @abstractmethod
    def edge_unsubscribed(self, now: float, key: int, name: FullTrackName) -> None:
        """Unsubscribe from a track at the peer."""

    @abstractmethod
    def edge_accepted(self, now: float, key: int, data: SubscribeData) -> None:
        """Respond to the peer that the Edge serves a track."""

    @abstractmethod
    def edge_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """Respond to the peer that the Edge refused a track; schedule a retry."""

    def edge_ended(self, now: float, key: int, reason: str) -> None:
        """Treat a track that ended as refused: a publisher may return."""
        self.edge_refused(now, key, SubscribeCode.ENDED, reason, SubscribeData())

    def edge_closed(self, now: float, code: int, reason: str) -> None:
        """Close the peering session: the Edge refused this peer."""
        del code
        with suppress(StateError):  # the session may be over
            self._wire.close(now, CloseCode.NOT_AUTHORIZED, reason)
