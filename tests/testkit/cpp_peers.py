"""A C++ relay's network in memory, as a guest of an Edge: its words in, our words out.

::

    world = World()
    edge = world.edge()
    cpp_relay = CppNetwork(world, edge)
    cpp_relay.announces(TRACK)                  somebody behind the C++ relay publishes a track
    cpp_relay.wire.take(cpp.SubscribeInfoAdvertised)
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from laps_relay.cpp.cpp_link import CppLimits
from laps_relay.cpp.cpp_peer import CppPeer
from laps_sdk.peering.links import ForeignPeerWire
from laps_wire.hashing import track_hashes
from laps_wire.moqt.control import encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.session import (
    AnnouncesAdvertised,
    AnnouncesWithdrawn,
    Event,
    NodesAdvertised,
    NodesWithdrawn,
    SubscribesAdvertised,
    SubscribesWithdrawn,
)
from testkit.bridges import Edge, World
from testkit.plane import FakeEgress

__all__ = [
    "FAR",
    "NEAR",
    "OURS",
    "CppNetwork",
    "CppWords",
    "announce",
    "key_of",
    "node",
    "subscribe",
]

M = TypeVar("M")

OURS = NodeId(0x11)
"""Our node."""
NEAR = NodeId(0x21)
"""The C++ relay that we have a session with."""
FAR = NodeId(0x22)
"""Another one behind it."""


def key_of(name: FullTrackName) -> int:
    return track_hashes(name.namespace.fields, name.name).fullname


def node(node_id: NodeId) -> cpp.NodeInfo:
    return cpp.NodeInfo(node_id, cpp.NodeType.EDGE, b"relay")


def subscribe(
    name: FullTrackName, source: NodeId = FAR, sequence: int = 1, **parameters: Any
) -> cpp.SubscribeInfo:
    """As a C++ relay says it."""
    hashes = track_hashes(name.namespace.fields, name.name)
    asked = Parameters(subscriber_priority=128, **parameters)
    body = encode_subscribe_body(Subscribe(0, name, asked), Draft.D16)
    return cpp.SubscribeInfo(sequence, source, hashes.namespace, hashes.name, hashes.fullname, body)


def announce(name: FullTrackName | Namespace, source: NodeId = FAR) -> cpp.AnnounceInfo:
    """As a C++ relay says it."""
    if isinstance(name, Namespace):
        whole = FullTrackName(name, b"")
        return cpp.AnnounceInfo(source, key_of(whole), name, b"", cpp.FLAG_NAMESPACE)
    return cpp.AnnounceInfo(source, key_of(name), name.namespace, name.name, 0)


class CppWords:
    """A peering session that remembers what it was told."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.sets: dict[int, tuple[NodeId, ...]] = {}
        self.order: list[Any] = []
        """Messages and sets."""
        self.closed: tuple[int, str] | None = None
        self.full = False
        self._next = 2

    def send(self, now: float, message: Any) -> None:
        self.sent.append(message)
        self.order.append(message)

    def take(self, kind: type[M]) -> list[M]:
        """Messages of one kind since the last call."""
        found = [each for each in self.sent if isinstance(each, kind)]
        self.sent = [each for each in self.sent if not isinstance(each, kind)]
        return found

    def advertise_sns(self, now: float, targets: tuple[NodeId, ...]) -> int | None:
        if self.full:
            return None
        self.sets[self._next] = targets
        self._next += 1
        return self._next - 1

    def update_sns(self, now: float, sns_id: int, targets: tuple[NodeId, ...]) -> None:
        assert sns_id in self.sets
        self.sets[sns_id] = targets

    def withdraw_sns(self, now: float, sns_id: int) -> None:
        del self.sets[sns_id]

    def close(self, now: float, code: int = 0, reason: str = "") -> None:
        self.closed = (code, reason)


class CppNetwork:
    """A session of an Edge with a C++ relay."""

    def __init__(
        self,
        world: World,
        edge: Edge,
        *,
        number: int = 3000,
        ours: frozenset[NodeId] = frozenset(),
        limits: CppLimits | None = None,
    ) -> None:
        self.world = world
        self.wire = CppWords()
        self.egress = FakeEgress(Draft.D16)
        self.directory = world.port(edge).directory
        self.peer = CppPeer(
            edge.relay,
            edge.plane,
            self.directory,
            session=number,
            node=lambda: node(OURS),
            ours=lambda each: each in ours,
            wire=cast("ForeignPeerWire", self.wire),
            egress=self.egress,
            clock=lambda: world.now,
            limits=limits or CppLimits(),
        )
        self.peer.open(world.now)
        edge.hooks.append(self.turn)
        world.timed.append(self.peer)
        self.over = False
        world.settle()

    def turn(self) -> bool:
        return not self.over and self.peer.pump(self.world.now)

    # What its network says

    def tell(self, event: Event) -> None:
        self.peer.event(self.world.now, event)
        self.world.settle()

    def announces(self, *names: FullTrackName | Namespace, source: NodeId = FAR) -> None:
        self.tell(AnnouncesAdvertised(announces=tuple(announce(name, source) for name in names)))

    def retracts(self, *names: FullTrackName | Namespace, source: NodeId = FAR) -> None:
        self.tell(AnnouncesWithdrawn(announces=tuple(announce(name, source) for name in names)))

    def subscribes(
        self, name: FullTrackName, source: NodeId = FAR, sequence: int = 1, **parameters: Any
    ) -> None:
        info = subscribe(name, source, sequence, **parameters)
        self.tell(SubscribesAdvertised(subscribes=(info,)))

    def unsubscribes(self, name: FullTrackName, source: NodeId = FAR) -> None:
        self.tell(SubscribesWithdrawn(subscribes=(subscribe(name, source),)))

    def nodes(self, *nodes: NodeId) -> None:
        self.tell(NodesAdvertised(nodes=tuple(node(each) for each in nodes)))

    def lost(self, *nodes: NodeId) -> None:
        self.tell(NodesWithdrawn(nodes=nodes))

    def sends(
        self, track: FullTrackName, data: bytes, *, stream: int = 3, fin: bool = True
    ) -> None:
        """A stream of the track's objects."""
        head = cpp.encode_stream_header(cpp.StreamHeader(2, key_of(track), 128, 5000))
        self.peer.stream_data(self.world.now, stream, head + data, fin)
        self.world.settle()

    def close(self) -> None:
        self.over = True
        self.world.timed.remove(self.peer)
        self.peer.closed(self.world.now)
        self.world.settle()

    # What it gets

    @property
    def announced(self) -> list[tuple[Namespace, bytes, int]]:
        """Names that we told it, and have not taken back."""
        names: dict[tuple[Namespace, bytes, int], None] = {}
        for message in self.wire.order:
            if isinstance(message, cpp.AnnounceInfoAdvertised | cpp.AnnounceInfoWithdrawn):
                info = message.info
                assert info.source_node_id == OURS
                key = (info.namespace, info.name, info.flags)
                if isinstance(message, cpp.AnnounceInfoAdvertised):
                    assert key not in names
                    names[key] = None
                else:
                    del names[key]
        return list(names)

    @property
    def wanted(self) -> list[int]:
        """The hashes of tracks that we subscribed to, and have not unsubscribed from."""
        keys: dict[int, None] = {}
        for message in self.wire.order:
            if isinstance(message, cpp.SubscribeInfoAdvertised):
                keys[message.info.fullname_hash] = None
            elif isinstance(message, cpp.SubscribeInfoWithdrawn):
                del keys[message.info.fullname_hash]
        return list(keys)
