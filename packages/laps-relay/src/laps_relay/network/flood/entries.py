"""What announces and subscribes have in common: a flooded entry, seen by a table that holds it.

::

    announce     source | kind, full-name hash    stamp, and everything else
    subscribe    source | full-name hash          stamp, and everything else
                 ------   --------------------
                 who      key within that source

A :class:`Kind` says what a table of one of them needs to know. A key names an entry within its
source; for subscribes, of which a control server holds a million, it is the hash that the entry has
anyway and costs nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from laps_relay.network.settings import NetworkSettings
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    AnnounceWithdrawal,
    Label,
    Stamp,
    SubscribeInfo,
    SubscribeWithdrawal,
)
from laps_wire.peering.laps2.information import AnnounceIdentity, SubscribeIdentity

__all__ = ["AnnounceEntries", "Flooded", "Kind", "SubscribeEntries", "hide_name"]


class Flooded(Protocol):
    """What every advertisement and every withdrawal has."""

    @property
    def source(self) -> NodeId:
        """The node that originated the entry."""

    @property
    def stamp(self) -> Stamp:
        """The stamp of the entry."""


E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)
I = TypeVar("I", bound=Hashable)  # noqa: E741 - the identity


T = TypeVar("T", bound=Hashable)

_MOST_SHARED: Final = 65_536


class Kind(Protocol[E, W, I]):
    """One kind of flooded entries: advertisements ``E``, withdrawals ``W``, identities ``I``."""

    @property
    def local(self) -> NodeId:
        """This relay: what has it as the source is its own."""

    def limit(self, settings: NetworkSettings) -> int:
        """How many of them one peer may give us."""

    def key(self, item: E | W) -> Hashable:
        """The identity without the source."""

    def identity(self, item: E | W) -> I:
        """What makes two entries the same one."""

    def split(self, identity: I) -> tuple[NodeId, Hashable]:
        """Source and key of an identity."""

    def withdrawal(self, entry: E) -> W:
        """The withdrawal with the entry's own stamp: the sender no longer gives it."""

    def carried(self, entry: E) -> E:
        """The entry as it is passed on: parameters for the neighbour stay behind (laps-2, 3.2)."""


class AnnounceEntries:
    """Announces."""

    __slots__ = ("local",)

    def __init__(self, local: NodeId) -> None:
        self.local = local

    def limit(self, settings: NetworkSettings) -> int:
        """MAX_ANNOUNCES."""
        return settings.max_announces

    def key(self, item: AnnounceInfo | AnnounceWithdrawal) -> tuple[AnnounceKind, int]:
        """Kind and full-name hash."""
        return item.kind, item.full_name_hash

    def identity(self, item: AnnounceInfo | AnnounceWithdrawal) -> AnnounceIdentity:
        """Source, kind and full-name hash."""
        return item.identity

    def split(self, identity: AnnounceIdentity) -> tuple[NodeId, tuple[AnnounceKind, int]]:
        """Source; kind and full-name hash."""
        return identity[0], identity[1:]

    def withdrawal(self, entry: AnnounceInfo) -> AnnounceWithdrawal:
        """With the entry's own stamp."""
        return AnnounceWithdrawal(entry.source, entry.stamp, entry.kind, entry.full_name_hash)

    def carried(self, entry: AnnounceInfo) -> AnnounceInfo:
        """Without what was meant for the neighbour."""
        carried = entry.parameters.carried()
        return entry if carried is entry.parameters else replace(entry, parameters=carried)


class SubscribeEntries:
    """Subscribes.

    Those of one node, of one namespace and of one kind of subscribers have much in common. Every
    message brings it as objects of its own; a table keeps each value once.
    """

    __slots__ = ("_elements", "_epochs", "_nodes", "_scopes", "local")

    def __init__(self, local: NodeId) -> None:
        self.local = local
        self._nodes: dict[NodeId, NodeId] = {}
        self._epochs: dict[int, int] = {}
        self._elements: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._scopes: dict[tuple[Label, ...], tuple[Label, ...]] = {}

    def limit(self, settings: NetworkSettings) -> int:
        """MAX_SUBSCRIBES."""
        return settings.max_subscribes

    def key(self, item: SubscribeInfo | SubscribeWithdrawal) -> int:
        """The full-name hash."""
        return item.full_name_hash

    def identity(self, item: SubscribeInfo | SubscribeWithdrawal) -> SubscribeIdentity:
        """Source and full-name hash."""
        return item.identity

    def split(self, identity: SubscribeIdentity) -> tuple[NodeId, int]:
        """Source; full-name hash."""
        return identity

    def withdrawal(self, entry: SubscribeInfo) -> SubscribeWithdrawal:
        """With the entry's own stamp."""
        return SubscribeWithdrawal(entry.source, entry.stamp, entry.full_name_hash)

    def carried(self, entry: SubscribeInfo) -> SubscribeInfo:
        """Without what was meant for the neighbour, and with shared parts."""
        stamp = entry.stamp
        return SubscribeInfo(
            _shared(self._nodes, entry.source),
            Stamp(_shared(self._epochs, stamp.epoch), stamp.sequence),
            _shared(self._elements, entry.element_hashes),
            entry.name_hash,
            entry.full_name_hash,
            _shared(self._scopes, entry.scope),
            entry.data,
            entry.parameters.carried(),
        )


def _shared(known: dict[T, T], value: T) -> T:
    """The first object that was equal to this one; what is known is forgotten when it is a lot."""
    if len(known) >= _MOST_SHARED:
        known.clear()
    return known.setdefault(value, value)


def hide_name(entry: AnnounceInfo) -> AnnounceInfo:
    """The announce for a session without the feature PLAINTEXT_NAMES (laps-2, 5.2)."""
    return entry if entry.plaintext is None else replace(entry, plaintext=None)
