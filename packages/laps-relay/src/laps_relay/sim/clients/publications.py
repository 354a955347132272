"""What simulated clients publish, and how: groups of objects, datagrams, or one stream for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from laps_relay.sim.clients.ledger import Flow
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.interfaces import Feed
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceKind

__all__ = ["Publication", "Style"]


class Style(NamedTuple):
    """How a publication sends."""

    period: float = 0.5
    """Seconds between two groups."""
    objects: int = 3
    gap: float = 0.05
    """Seconds between two objects of a group."""
    datagrams: bool = False
    ttl_ms: int = 0
    padding: int = 0
    priority: int = 128
    endless: bool = False
    """Whether everything goes into one stream, an object at a time."""

    def deadline(self, now: float) -> float | None:
        """Until when what is written now may wait in the first relay."""
        return now + self.ttl_ms / 1000 if self.ttl_ms else None


class Publication:
    """What one client publishes: a track, or everything below a namespace."""

    __slots__ = ("beat", "flows", "group", "kind", "lane", "name", "open", "scope", "style")

    def __init__(
        self, kind: AnnounceKind, name: FullTrackName, scope: str, style: Style, lane: int = 0
    ) -> None:
        self.kind = kind
        self.name = name
        self.scope = scope
        self.style = style
        self.group = 0
        self.beat = 0
        """How often it has begun: who ends and begins again within a period has one rhythm."""
        self.lane = lane
        """Which one of several publishers of the track it is."""
        self.flows: dict[int, tuple[Flow, Feed]] = {}
        """By key: what the network pulls."""
        self.open: dict[int, tuple[Flow, OutStream]] = {}
        """By key: a stream that does not end."""

    def begin(self) -> int:
        """Begin anew with nothing pulled; return how often it has begun."""
        self.flows.clear()
        self.open.clear()
        self.beat += 1
        return self.beat

    def end(self) -> Callable[[], None]:
        """End the publication; return a function that ends its endless streams."""
        streams = []
        for flow, stream in self.open.values():
            flow.over = True
            streams.append(stream)
        self.open.clear()

        def end() -> None:
            for stream in streams:
                stream.write(b"", True)

        return end

    def covers(self, name: FullTrackName) -> bool:
        """Whether a track is part of it."""
        if self.kind is AnnounceKind.TRACK:
            return name == self.name
        own = self.name.namespace.fields
        return name.namespace.fields[: len(own)] == own
