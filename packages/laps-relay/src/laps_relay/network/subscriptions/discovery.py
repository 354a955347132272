"""The announces of other relays: who may serve a track, and which names our clients discover."""

from __future__ import annotations

from collections.abc import Iterable

from laps_relay.network.flood.floods import Change
from laps_sdk.upstream.interfaces import LocalSide
from laps_wire.hashing import KeyedHasher
from laps_wire.matching import Announce, AnnounceIndex, Subscribe
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, AnnounceKind
from laps_wire.peering.laps2.information import AnnounceIdentity

__all__ = ["Discovery"]


class Discovery:
    """The announces of all other nodes."""

    __slots__ = ("_hasher", "_index", "_local", "_names", "clients", "false_names")

    def __init__(self, local: NodeId, hasher: KeyedHasher) -> None:
        self._local = local
        self._hasher = hasher
        self._index: AnnounceIndex[int, NodeId] = AnnounceIndex()
        self._names: dict[tuple[AnnounceKind, FullTrackName], dict[NodeId, None]] = {}
        self.clients: LocalSide | None = None
        """The relay's own clients, who may discover names; None until they are attached."""
        self.false_names = 0
        """Plaintext names without the hashes that came with them; they are ignored."""

    def sizes(self) -> tuple[int, int]:
        """Return how many names and how many announces are known."""
        return len(self._names), len(self._index)

    def changed(
        self, now: float, changes: Iterable[Change[AnnounceIdentity, AnnounceInfo]]
    ) -> list[AnnounceInfo]:
        """Apply changes of the announces; return the new entries."""
        new: list[AnnounceInfo] = []
        for change in changes:
            if change.identity[0] == self._local:
                continue
            if change.previous is not None:
                self._index.remove(_announce(change.previous), change.previous.source)
            if change.entry is not None:
                self._index.add(_announce(change.entry), change.entry.source)
                new.append(change.entry)
            self._name(now, change)
        return new

    def _name(self, now: float, change: Change[AnnounceIdentity, AnnounceInfo]) -> None:
        old = self._name_of(change.previous)
        entry = change.entry
        new = self._name_of(entry)
        if entry is not None and new is not None:
            holders = self._names.setdefault((entry.kind, new), {})
            first = not holders
            holders[entry.source] = None
            if first and self.clients is not None:
                self.clients.announce_added(now, entry)
        if old is not None and old != new:
            kind, source = change.identity[1], change.identity[0]
            holders = self._names[kind, old]
            holders.pop(source, None)
            if not holders:
                del self._names[kind, old]
                if self.clients is not None:
                    self.clients.announce_removed(now, kind, old)

    def _name_of(self, entry: AnnounceInfo | None) -> FullTrackName | None:
        """Return the name of an announce if it has one with the right hashes, else None."""
        if entry is None or entry.plaintext is None:
            return None
        fields, name = entry.plaintext.namespace.fields, entry.plaintext.name
        hasher = self._hasher
        if (
            hasher.full_name(fields, name) != entry.full_name_hash
            or hasher.elements(fields) != entry.element_hashes
        ):
            self.false_names += 1
            return None
        return entry.plaintext

    def announcers(self, elements: tuple[int, ...], name_hash: int) -> list[NodeId]:
        """Return the nodes that announced what covers a track."""
        return self._index.match(Subscribe(elements, name_hash))


def _announce(entry: AnnounceInfo) -> Announce[int]:
    return Announce(entry.element_hashes, entry.name_hash)
