"""Tracks that others announced, for those of our clients that want tracks pushed to them.

A track from elsewhere becomes a PUBLISH at the Edge only if somebody watches its namespace
(SUBSCRIBE_TRACKS, or draft 16's SUBSCRIBE_NAMESPACE for tracks): what a PUBLISH says about a track
must be asked for at its publisher first, and nobody asks for all tracks of the network.
"""

from __future__ import annotations

from collections.abc import Iterable

from laps_sdk.edge.events import PrefixAdded, RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.tree import NamespaceTree
from laps_sdk.upstream.upstream import EdgeClient
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceKind

__all__ = ["Elsewhere"]


class Elsewhere:
    """All of their names."""

    __slots__ = ("_client", "_relay", "_tracks")

    def __init__(self, relay: EdgeRelay, client: EdgeClient) -> None:
        self._relay = relay
        self._client = client
        self._tracks: NamespaceTree[FullTrackName] = NamespaceTree()

    def add(self, now: float, name: FullTrackName) -> None:
        """Somebody announced a track."""
        self._tracks.add(name.namespace, name)
        if self._relay.is_watched(name.namespace):
            self._client.offer(now, AnnounceKind.TRACK, name)

    def remove(self, name: FullTrackName) -> None:
        """Nobody does any more."""
        self._tracks.remove(name.namespace, name)

    def observe(self, now: float, events: Iterable[RelayEvent]) -> None:
        """Somebody may watch a namespace now."""
        for event in events:
            if isinstance(event, PrefixAdded) and event.tracks:
                for name in list(self._tracks.under(event.prefix)):
                    self._client.offer(now, AnnounceKind.TRACK, name)
