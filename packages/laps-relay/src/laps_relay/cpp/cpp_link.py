"""What we and the network of a C++ relay told each other over one session.

::

    C++ relay  -- announces, subscribes of any of its nodes -->  Claims --> owner
               -- nodes that came and went ------------------->
               <- announces, subscribes ----------------------   source: our node, always

To its network we are one node that has everything that ours has. What it sends us back of that, and
what nodes of our own network said to it elsewhere, is not taken: it would never end.
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
    """What one C++ relay may fill."""

    max_nodes: int = 65_536
    max_announces: int = 1_048_576
    max_subscribes: int = 16_777_216


class CppOwner(Protocol):
    """What is done about what the C++ relay says."""

    def announced(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Its network publishes this."""

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """It does not any more."""

    def takers_changed(self, now: float, key: int) -> None:
        """Others want a track (:meth:`CppLink.takers`)."""

    def asked_again(self, now: float, key: int) -> None:
        """Who wants a track wants something else of it."""


class _Taken(NamedTuple):
    """What was subscribed to."""

    name: FullTrackName
    info: cpp.SubscribeInfo
    """The last one that came."""


class CppLink:
    """What was said over one session."""

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
        """``source`` is our node; ``ours`` says whether a node is one of our own network."""
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
        """What the owner was told of that."""
        self._spaces: NamespaceTree[FullTrackName] = NamespaceTree()
        """The namespaces among it."""
        self._takers: Claims[int] = Claims()
        self._tracks: dict[int, _Taken] = {}
        self._sequences: dict[tuple[int, NodeId], int] = {}
        self._nodes: set[NodeId] = set()
        self._sets: dict[int, frozenset[NodeId]] = {}
        self.said = 0.0
        """When we last said something."""

    # What we say

    def _send(self, now: float, message: Any) -> None:
        self.said = now
        with suppress(StateError):  # a session that is over says so by itself
            self._wire.send(now, message)

    def alive(self, now: float, node: cpp.NodeInfo) -> None:
        """Say who we are, again: it changes nothing there."""
        self._send(now, cpp.NodeInfoAdvertise(node))

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Tell of a name that can be had from us."""
        self._send(now, cpp.AnnounceInfoAdvertised(announce_info(self._source, kind, name)))

    def retract(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Tell that it cannot any more."""
        self._send(now, cpp.AnnounceInfoWithdrawn(announce_info(self._source, kind, name)))

    def subscribe(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """Subscribe to a track, or ask for something else of it.

        A number that was there before counts as the same subscribe, and is not looked at.
        """
        self._sequence = self._sequence % (_SEQUENCES - 1) + 1
        info = self._wants[key] = subscribe_info(self._sequence, self._source, name, data)
        self._send(now, cpp.SubscribeInfoAdvertised(info))

    def unsubscribe(self, now: float, key: int) -> None:
        """Do not any more; it is said with all that was said before."""
        info = self._wants.pop(key, None)
        if info is not None:
            self._send(now, cpp.SubscribeInfoWithdrawn(info))

    # What is known

    def takers(self, key: int) -> tuple[NodeId, ...]:
        """The nodes that want a track, lowest first."""
        return self._takers.of(key)

    def taken(self, key: int) -> tuple[FullTrackName, SubscribeData]:
        """A track that somebody wants, and what of it."""
        name, info = self._tracks[key]
        return name, SubscribeData(CPP_DRAFT.value, info.subscribe_data)

    def offers(self, name: FullTrackName) -> bool:
        """Whether its network announces a track, or a namespace around it."""
        if (AnnounceKind.TRACK, name) in self._announces:
            return True
        return bool(self._spaces.covering(name.namespace))

    def takes(self, sns_id: int) -> bool:
        """Whether data of a set is for us; a set may come behind its data."""
        targets = self._sets.get(sns_id)
        return targets is None or self._source in targets

    # What the peer says

    def event(self, now: float, event: Event) -> None:
        """Take what the session tells. Raises ``RemoteError`` if the peer says too much."""
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
        """Whether a node is behind the C++ relay, and not one of ours that it has heard of."""
        return node != self._source and not self._ours(node)

    def _seen(self, now: float, node: NodeId) -> None:
        """A node is there."""
        if not self._foreign(node):
            return
        self._nodes.add(node)
        _check("nodes", len(self._nodes), self._limits.max_nodes)
        for kind, name in self._heard.show(node):
            self._settle(now, kind, name)
        for key in self._takers.show(node):
            self._owner.takers_changed(now, key)

    def _gone(self, now: float, node: NodeId) -> None:
        """A node is not there any more."""
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
        """Tell the owner whether a name is there, if that is news."""
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
    """Things, each with the nodes that claim it.

    Of a node that claims nothing nothing is kept, however often it comes and goes.
    """

    __slots__ = ("_by_node", "_claims", "_gone", "_size")

    def __init__(self) -> None:
        self._claims: dict[K, set[NodeId]] = {}
        self._by_node: dict[NodeId, dict[K, None]] = {}
        self._gone: set[NodeId] = set()
        """Those that claim something and are not there."""
        self._size = 0

    def __len__(self) -> int:
        """How many there are, each node's counted."""
        return self._size

    def add(self, thing: K, node: NodeId) -> None:
        """A node claims something; it is there, then."""
        nodes = self._claims.setdefault(thing, set())
        if node not in nodes:
            nodes.add(node)
            self._by_node.setdefault(node, {})[thing] = None
            self._size += 1

    def remove(self, thing: K, node: NodeId) -> bool:
        """It does not any more; whether it did."""
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
        """A node is gone; gives what it claims."""
        if node not in self._by_node:
            return []
        self._gone.add(node)
        return list(self._by_node[node])

    def show(self, node: NodeId) -> list[K]:
        """It is back; gives what it claims, if it was gone."""
        if node not in self._gone:
            return []
        self._gone.discard(node)
        return list(self._by_node[node])

    def of(self, thing: K) -> tuple[NodeId, ...]:
        """The nodes that claim something and are there, lowest first."""
        return tuple(sorted(self._claims.get(thing, set()) - self._gone))

    def __contains__(self, thing: K) -> bool:
        """Whether somebody claims it, there or not."""
        return thing in self._claims
