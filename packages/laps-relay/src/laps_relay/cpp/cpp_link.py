"""The announces and subscribes that cross one session with a C++ relay, in both directions.

::

    C++ relay  -- announces, subscribes of any of its nodes -->  Claims --> owner
               -- nodes that came and went ------------------->
               <- announces, subscribes ----------------------   source: our node, always

The C++ network sees our Edge as one node that announces every name of our network. The link ignores
entries whose source is a node of our own network: passing them on would create a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from laps_relay.cpp.cpp_words import (
    CPP_DRAFT,
    announce_info,
    announced_name,
    subscribe_info,
    subscribed_track,
)
from laps_sdk.edge.tree import NamespaceTree
from laps_sdk.peering.links import ForeignPeerWire
from laps_wire.errors import StateError
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.laps2 import AnnounceKind, SubscribeData
from laps_wire.peering.session import (
    AnnouncesAdvertised,
    AnnouncesWithdrawn,
    Event,
    NodesAdvertised,
    NodesWithdrawn,
    SnsAdvertised,
    SnsWithdrawn,
    SubscribesAdvertised,
    SubscribesWithdrawn,
)

__all__ = ["Claims", "CppLimits", "CppLink", "CppOwner"]

_SEQUENCES: Final = 1 << 16


class CppLimits(NamedTuple):
    """How many entries one C++ relay may advertise."""

    max_nodes: int = 65_536
    max_announces: int = 1_048_576
    max_subscribes: int = 16_777_216


class CppOwner(Protocol):
    """Handles the announces and subscribes of a C++ relay."""

    def announced(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Add a name that the C++ network announces."""

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw a name that the C++ network no longer announces."""

    def takers_changed(self, now: float, key: int) -> None:
        """Handle a change of the nodes that subscribe to a track (:meth:`CppLink.takers`)."""

    def asked_again(self, now: float, key: int) -> None:
        """Handle a subscribe with new parameters from a node that already subscribes."""


class _Taken(NamedTuple):
    """A track that the C++ network subscribes to."""

    name: FullTrackName
    info: cpp.SubscribeInfo
    """The latest subscribe for the track, of any node."""


class CppLink:
    """Sends our announces and subscribes, and keeps those of the C++ relay, for one session."""

    __slots__ = (
        "_announces",
        "_heard",
        "_limits",
        "_nodes",
        "_ours",
        "_owner",
        "_sequence",
        "_sequences",
        "_sets",
        "_source",
        "_spaces",
        "_takers",
        "_tracks",
        "_wants",
        "_wire",
        "said",
    )

    def __init__(
        self,
        owner: CppOwner,
        wire: ForeignPeerWire,
        *,
        source: NodeId,
        ours: Callable[[NodeId], bool],
        limits: CppLimits,
    ) -> None:
        """``source`` is our node id; ``ours`` returns whether a node is in our own network."""
        self._owner = owner
        self._wire = wire
        self._source = source
        self._ours = ours
        self._limits = limits
        self._sequence = 0
        self._wants: dict[int, cpp.SubscribeInfo] = {}
        """Our subscribes."""
        self._heard: Claims[tuple[AnnounceKind, FullTrackName]] = Claims()
        self._announces: dict[tuple[AnnounceKind, FullTrackName], None] = {}
        """The names among ``_heard`` that the owner has as announced."""
        self._spaces: NamespaceTree[FullTrackName] = NamespaceTree()
        """The namespaces among ``_announces``."""
        self._takers: Claims[int] = Claims()
        self._tracks: dict[int, _Taken] = {}
        self._sequences: dict[tuple[int, NodeId], int] = {}
        self._nodes: set[NodeId] = set()
        self._sets: dict[int, frozenset[NodeId]] = {}
        self.said = 0.0
        """When the link last sent a message."""

    # Sending

    def _send(self, now: float, message: Any) -> None:
        self.said = now
        with suppress(StateError):  # the session is over; the owner gets ``closed``
            self._wire.send(now, message)

    def alive(self, now: float, node: cpp.NodeInfo) -> None:
        """Advertise our node again, unchanged, to keep the session alive."""
        self._send(now, cpp.NodeInfoAdvertise(node))

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Announce a name that our network publishes."""
        self._send(now, cpp.AnnounceInfoAdvertised(announce_info(self._source, kind, name)))

    def retract(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw the announce of a name."""
        self._send(now, cpp.AnnounceInfoWithdrawn(announce_info(self._source, kind, name)))

    def subscribe(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """Subscribe to a track, or change the parameters of the subscribe.

        Each call uses a new sequence number: a C++ relay ignores a subscribe with a known one.
        """
        self._sequence = self._sequence % (_SEQUENCES - 1) + 1
        info = self._wants[key] = subscribe_info(self._sequence, self._source, name, data)
        self._send(now, cpp.SubscribeInfoAdvertised(info))

    def unsubscribe(self, now: float, key: int) -> None:
        """Withdraw the subscribe of a track, with the fields that it was advertised with."""
        info = self._wants.pop(key, None)
        if info is not None:
            self._send(now, cpp.SubscribeInfoWithdrawn(info))

    # Lookups

    def takers(self, key: int) -> tuple[NodeId, ...]:
        """Return the nodes that subscribe to a track, lowest id first."""
        return self._takers.of(key)

    def taken(self, key: int) -> tuple[FullTrackName, SubscribeData]:
        """Return the name and the latest subscribe of a track that has takers."""
        name, info = self._tracks[key]
        return name, SubscribeData(CPP_DRAFT.value, info.subscribe_data)

    def offers(self, name: FullTrackName) -> bool:
        """Return whether the C++ network announces a track or a namespace that contains it."""
        if (AnnounceKind.TRACK, name) in self._announces:
            return True
        return bool(self._spaces.covering(name.namespace))

    def takes(self, sns_id: int) -> bool:
        """Return whether data of a set is for us; True if the set has not arrived yet."""
        targets = self._sets.get(sns_id)
        return targets is None or self._source in targets

    # Receiving

    def event(self, now: float, event: Event) -> None:
        """Handle an event of the session; raise ``RemoteError`` if the peer exceeds a limit."""
        match event:
            case SubscribesAdvertised():
                for info in event.subscribes:
                    self._subscribed(now, info)
            case SubscribesWithdrawn():
                for info in event.subscribes:
                    self._unsubscribed(now, info.fullname_hash, info.source_node_id)
            case AnnouncesAdvertised():
                for info in event.announces:
                    self._announced(now, info)
            case AnnouncesWithdrawn():
                for info in event.announces:
                    self._retracted(now, info)
            case NodesAdvertised():
                for node in event.nodes:
                    self._seen(now, node.node_id)
            case NodesWithdrawn():
                for node_id in event.nodes:
                    self._gone(now, node_id)
            case SnsAdvertised():
                self._sets[event.sns_id] = event.targets
            case SnsWithdrawn():
                self._sets.pop(event.sns_id, None)
            case _:
                pass

    def _foreign(self, node: NodeId) -> bool:
        """Return whether a node is in the C++ network, and not in ours."""
        return node != self._source and not self._ours(node)

    def _seen(self, now: float, node: NodeId) -> None:
        """Add a node, and restore its announces and subscribes if it was gone."""
        if not self._foreign(node):
            return
        self._nodes.add(node)
        _check("nodes", len(self._nodes), self._limits.max_nodes)
        for kind, name in self._heard.show(node):
            self._settle(now, kind, name)
        for key in self._takers.show(node):
            self._owner.takers_changed(now, key)

    def _gone(self, now: float, node: NodeId) -> None:
        """Remove a node, and suspend its announces and subscribes."""
        if node not in self._nodes:
            return
        self._nodes.discard(node)
        for kind, name in self._heard.hide(node):
            self._settle(now, kind, name)
        for key in self._takers.hide(node):
            self._owner.takers_changed(now, key)

    # Announces

    def _announced(self, now: float, info: cpp.AnnounceInfo) -> None:
        source, found = info.source_node_id, announced_name(info)
        if not self._foreign(source):
            return
        if found is None:
            return
        self._seen(now, source)
        self._heard.add(found, source)
        _check("announces", len(self._heard), self._limits.max_announces)
        self._settle(now, *found)

    def _retracted(self, now: float, info: cpp.AnnounceInfo) -> None:
        found = announced_name(info)
        if found is not None and self._heard.remove(found, info.source_node_id):
            self._settle(now, *found)

    def _settle(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Report to the owner that a name was announced or withdrawn, if that changed."""
        announced = (kind, name)
        there = bool(self._heard.of(announced))
        if there and announced not in self._announces:
            self._announces[announced] = None
            if kind is AnnounceKind.NAMESPACE:
                self._spaces.add(name.namespace, name)
            self._owner.announced(now, kind, name)
        elif not there and announced in self._announces:
            del self._announces[announced]
            if kind is AnnounceKind.NAMESPACE:
                self._spaces.remove(name.namespace, name)
            self._owner.retracted(now, kind, name)

    # Subscribes

    def _subscribed(self, now: float, info: cpp.SubscribeInfo) -> None:
        source, key = info.source_node_id, info.fullname_hash
        if not self._foreign(source) or self._sequences.get((key, source)) == info.sequence:
            return
        name = subscribed_track(info)
        known = self._tracks.get(key)
        if name is None or (known is not None and known.name != name):
            return
        self._seen(now, source)
        self._sequences[key, source] = info.sequence
        self._tracks[key] = _Taken(name, info)
        before = self._takers.of(key)
        self._takers.add(key, source)
        _check("subscribes", len(self._takers), self._limits.max_subscribes)
        if source in before:
            self._owner.asked_again(now, key)
        else:
            self._owner.takers_changed(now, key)

    def _unsubscribed(self, now: float, key: int, source: NodeId) -> None:
        self._sequences.pop((key, source), None)
        if self._takers.remove(key, source):
            self._owner.takers_changed(now, key)
            if key not in self._takers:
                del self._tracks[key]


def _check(what: str, number: int, most: int) -> None:
    if number > most:
        raise LimitExceededError(f"more than {most} {what}")


K = TypeVar("K")


class Claims(Generic[K]):
    """Maps announces or subscribes to the nodes that advertise them.

    A node can be hidden and shown again, with its entries. Nodes without entries use no memory.
    """

    __slots__ = ("_by_node", "_claims", "_gone", "_size")

    def __init__(self) -> None:
        self._claims: dict[K, set[NodeId]] = {}
        self._by_node: dict[NodeId, dict[K, None]] = {}
        self._gone: set[NodeId] = set()
        """Hidden nodes that have entries."""
        self._size = 0

    def __len__(self) -> int:
        """Return the number of pairs of an entry and a node."""
        return self._size

    def add(self, thing: K, node: NodeId) -> None:
        """Add an entry of a node."""
        nodes = self._claims.setdefault(thing, set())
        if node not in nodes:
            nodes.add(node)
            self._by_node.setdefault(node, {})[thing] = None
            self._size += 1

    def remove(self, thing: K, node: NodeId) -> bool:
        """Remove an entry of a node; return whether the node had it."""
        nodes = self._claims.get(thing, set())
        if node not in nodes:
            return False
        nodes.discard(node)
        self._size -= 1
        if not nodes:
            del self._claims[thing]
        of_node = self._by_node[node]
        del of_node[thing]
        if not of_node:
            del self._by_node[node]
            self._gone.discard(node)
        return True

    def hide(self, node: NodeId) -> list[K]:
        """Hide a node; return its entries."""
        if node not in self._by_node:
            return []
        self._gone.add(node)
        return list(self._by_node[node])

    def show(self, node: NodeId) -> list[K]:
        """Show a hidden node again; return its entries, or none if the node was not hidden."""
        if node not in self._gone:
            return []
        self._gone.discard(node)
        return list(self._by_node[node])

    def of(self, thing: K) -> tuple[NodeId, ...]:
        """Return the nodes with an entry that are not hidden, lowest id first."""
        return tuple(sorted(self._claims.get(thing, set()) - self._gone))

    def __contains__(self, thing: K) -> bool:
        """Return whether any node has an entry, hidden or not."""
        return thing in self._claims
