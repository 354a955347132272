"""A C++ relay, with the whole network behind it, as a client of our Edge.

::

    C++ relay --announces-----> PUBLISH_NAMESPACE, PUBLISH --> EdgeRelay
              --subscribes----> SUBSCRIBE ------------------->
              <-subscribes----- its SUBSCRIBE to the session <-
              <-announces------ Directory: names of our clients and of our network
              ==data, SNS====== Plane, in draft 16

Its network sees ours as one node, and ours sees its as more clients of this Edge. There are no
answers in its protocol: everything is accepted at once, and what nobody publishes is looked for
again. Objects that have the id of a set which it does not know are lost there, so a set is told
some time before the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from laps_relay.cpp.cpp_data import CppFeed, CppStreams
from laps_relay.cpp.cpp_link import CppLimits, CppLink, CppWire
from laps_relay.cpp.cpp_words import CITY, CPP_DRAFT
from laps_relay.cpp.directory import Directory
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.forwarding.interfaces import Egress, ForwardingPlane, OutStream
from laps_sdk.timers import Timers
from laps_sdk.upstream.interfaces import Answer
from laps_sdk.upstream.sink import PlaneSink
from laps_sdk.upstream.upstream import Upstream
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import AnnounceKind, SubscribeCode, SubscribeData
from laps_wire.peering.session import Event

__all__ = ["ALIVE_INTERVAL", "RETRY", "SET_DELAY", "CppPeer"]

SET_DELAY: Final = 0.05
"""Seconds between a set and the first data for it: streams overtake each other."""
ALIVE_INTERVAL: Final = 2.0
"""How often something is said, in seconds: a C++ relay gives up after five without a packet."""
RETRY: Final = 5.0
"""When what its network wants and nobody publishes is looked for again; then ever more rarely."""
_MOST_RETRY: Final = 60.0
_ALIVE: Final = -1
"""The timer for that; others have the key of a track."""


@dataclass(slots=True)
class _Served:
    """A track that its network wants."""

    sns_id: int
    targets: tuple[NodeId, ...]
    retry: float = RETRY


class CppPeer:
    """One C++ relay; a ``ForeignPeer`` of the network core."""

    __slots__ = (
        "_directory",
        "_dirty",
        "_egress",
        "_ended",
        "_link",
        "_node",
        "_plane",
        "_refused",
        "_served",
        "_streams",
        "_timers",
        "_told",
        "_wanted",
        "_wire",
        "client",
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
        wire: CppWire,
        egress: Egress,
        clock: Callable[[], float],
        limits: CppLimits = CppLimits(),  # noqa: B008 - a tuple
        setup: SetupOptions = NO_OPTIONS,
    ) -> None:
        """``session`` is the Edge's number for it; ``node`` is what we say of ourselves now.

        ``ours`` says whether a node is one of our own network.
        """
        self._plane = plane
        self._directory = directory
        self._node = node
        self._wire = wire
        self._egress = egress
        self._served: dict[int, _Served] = {}
        self._refused: dict[int, None] = {}
        """Those of them that the Edge does not have."""
        self._wanted: dict[int, tuple[FullTrackName, SubscribeData]] = {}
        """What the Edge wants, by key."""
        self._told: dict[int, SubscribeData] = {}
        """What the C++ relay was told of that."""
        self._dirty: dict[int, None] = {}
        """Where the two may differ."""
        self._ended: dict[int, None] = {}
        """What the Edge wants and nobody announces any more."""
        self._timers: Timers[int] = Timers()
        self._link = CppLink(self, wire, source=node().node_id, ours=ours, limits=limits)
        sink = PlaneSink(plane, session, CPP_DRAFT)
        self._streams = CppStreams(egress, sink, count(1), self._link.takes)
        self.client = Upstream(
            relay,
            session,
            self,
            CITY,
            clock,
            stop=self._streams.stop,
            setup=setup,
            draft=CPP_DRAFT,
        )

    # For the shell

    def open(self, now: float, address: str = "cpp") -> None:
        """Join the Edge, and tell all names; once, before anything else."""
        self.client.open(now, address, upstream=False, distant=True)
        self._directory.watch(now, self.client.number, self)
        self._timers.set(_ALIVE, now + ALIVE_INTERVAL)

    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""
        return self.client.pump(now) | self._flush(now)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        due = (self.client.poll_timeout(), self._timers.next())
        return min((when for when in due if when is not None), default=None)

    def handle_timeout(self, now: float) -> None:
        """Give up what nobody waits for any more; begin what is due."""
        self.client.handle_timeout(now)
        while (key := self._timers.pop(now)) is not None:
            if key == _ALIVE:
                self._stay(now)
            else:
                self._pull(now, key)
        self._flush(now)

    def _stay(self, now: float) -> None:
        """Say something if we have been silent."""
        due = self._link.said + ALIVE_INTERVAL
        if due <= now:
            self._link.alive(now, self._node())
            due = now + ALIVE_INTERVAL
        self._timers.set(_ALIVE, due)

    # ForeignPeer

    def event(self, now: float, event: Event) -> None:
        """Something of the peering session; raises ``RemoteError`` for the peer's fault."""
        self._link.event(now, event)
        self._flush(now)

    def stream_data(self, now: float, stream_id: int, data: bytes, fin: bool) -> None:
        """A chunk of a unidirectional stream; raises like :meth:`event`."""
        self._streams.data(now, stream_id, data, fin)

    def stream_reset(self, now: float, stream_id: int, code: int) -> None:
        """The C++ relay abandoned it."""
        self._streams.reset(now, stream_id, code)

    def datagram(self, now: float, data: bytes) -> None:
        """A datagram; raises like :meth:`event`."""
        self._streams.datagram(now, data)

    def out_stream_gone(self, now: float, stream: OutStream, lost: int, *, stopped: bool) -> None:
        """An outgoing stream was dropped, or stopped by the C++ relay."""
        ours = self.client.egress.stream_of(stream)
        if ours is not None:
            self._plane.out_stream_gone(now, self.client.number, ours, lost, stopped=stopped)

    def measured(self, now: float, srtt_us: int) -> None:
        """How far it is does not matter: there is no other way to its network."""

    def closed(self, now: float) -> None:
        """The session with it is over, and everything that came by it."""
        self._directory.unwatch(self.client.number)
        self.client.close(now)

    # NameWatcher: what we have

    def named(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """A name is there, but not from this C++ relay."""
        self._link.announce(now, kind, name)
        for key in self._refused:
            wanted, _ = self._link.taken(key)
            if wanted == name or (
                kind is AnnounceKind.NAMESPACE and name.namespace.is_prefix_of(wanted.namespace)
            ):
                self._timers.set(key, now)

    def unnamed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """It is not any more."""
        self._link.retract(now, kind, name)

    # CppOwner: what it has, and wants

    def announced(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Its network publishes this."""
        self.client.publish(now, kind, name)
        for key in [key for key in self._ended if self._link.offers(self._wanted[key][0])]:
            del self._ended[key]
            self._accept(now, key)

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """It does not any more."""
        self.client.unpublish(now, kind, name)
        for key, (wanted, _) in list(self._wanted.items()):
            if key not in self._ended and not self._link.offers(wanted):
                self._ended[key] = None
                self._answer(now, key, Answer.ENDED, SubscribeCode.ENDED, "not announced any more")

    def takers_changed(self, now: float, key: int) -> None:
        """Others want a track: they are the targets of its set."""
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
        """Who wants a track wants a new group of it, perhaps."""
        if key in self._served and self._timers.when(key) is None:
            self._pull(now, key)

    def _pull(self, now: float, key: int) -> None:
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
        """The Edge wants a track that its network announced. Nobody there ever says no."""
        self._wanted[key] = (name, data)
        self._dirty[key] = None
        self._ended.pop(key, None)
        self._accept(now, key)

    def edge_unsubscribed(self, now: float, key: int, name: FullTrackName) -> None:  # noqa: ARG002
        """It does not any more."""
        del self._wanted[key]
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
        """Tell what the Edge wants by now, and what not; whether there was anything.

        An announced track is wanted for a moment, until the Edge says that nobody watches it.
        """
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            wanted = self._wanted.get(key)
            if wanted is None:
                self._told.pop(key, None)
                self._link.unwant(now, key)
            elif self._told.get(key) != wanted[1]:
                self._told[key] = wanted[1]
                self._link.want(now, key, *wanted)
        return bool(dirty)

    def edge_accepted(self, now: float, key: int, data: SubscribeData) -> None:  # noqa: ARG002
        """The Edge serves what its network wants."""
        self._served[key].retry = RETRY

    def edge_refused(
        self,
        now: float,
        key: int,
        code: SubscribeCode,  # noqa: ARG002 - there is nobody to tell it
        reason: str,  # noqa: ARG002
        data: SubscribeData,  # noqa: ARG002
    ) -> None:
        """The Edge does not serve it."""
        served = self._served.get(key)
        if served is not None:
            self._refused[key] = None
            self._timers.set(key, now + served.retry)
            served.retry = min(2 * served.retry, _MOST_RETRY)

    def edge_ended(self, now: float, key: int, reason: str) -> None:
        """The Edge serves it no longer."""
        self.edge_refused(now, key, SubscribeCode.ENDED, reason, SubscribeData())

    def edge_closed(self, now: float, code: int, reason: str) -> None:  # noqa: ARG002
        """The Edge does not want its network: neither do we."""
        self._wire.close(now, CloseCode.NOT_AUTHORIZED, reason)
