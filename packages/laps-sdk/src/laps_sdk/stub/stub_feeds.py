"""What a Stub publishes, to every parent that asked for it.

Everything goes to one parent; while the Stub moves, the old one serves on, and both are fed: who
subscribed beyond the old parent may not have reached the new one yet. Who gets an object from both
keeps one of them, as with any track that two relays serve.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.interfaces import Feed

__all__ = ["SplitStream", "StubFeeds"]

P = TypeVar("P", bound=Hashable)


class SplitStream:
    """One stream to each parent."""

    __slots__ = ("_registry", "parts")

    def __init__(self, registry: dict[OutStream, SplitStream], parts: list[OutStream]) -> None:
        self._registry = registry
        self.parts = parts
        for part in parts:
            registry[part] = self

    @property
    def closed(self) -> bool:
        """Whether nobody takes more."""
        return all(part.closed for part in self.parts)

    @property
    def queued(self) -> int:
        """Bytes that wait for the slowest."""
        return max((part.queued for part in self.parts), default=0)

    def write(self, data: bytes, fin: bool = False) -> None:
        """Pass bytes on by reference."""
        for part in list(self.parts):
            part.write(data, fin)
        if fin:
            self._end()

    def reset(self, code: int) -> None:
        """Abandon it."""
        for part in list(self.parts):
            part.reset(code)
        self._end()

    def _end(self) -> None:
        for part in self.parts:
            self._registry.pop(part, None)

    def set_priority(self, priority: int) -> None:
        """The parts have the publisher's."""

    def set_deadline(self, deadline: float | None) -> None:
        """When what has not been sent is given up."""
        for part in self.parts:
            part.set_deadline(deadline)


class _TrackFeeds(Generic[P]):
    """A :class:`~laps_sdk.upstream.interfaces.Feed` to some parents."""

    __slots__ = ("_registry", "feeds")

    def __init__(self, registry: dict[OutStream, SplitStream]) -> None:
        self._registry = registry
        self.feeds: dict[P, Feed] = {}

    def open_stream(
        self,
        now: float,
        *,
        priority: int,
        ttl_ms: int = 0,
        deadline: float | None = None,
        continued: bool = False,
    ) -> OutStream:
        """Begin a stream to each."""
        parts = [
            feed.open_stream(
                now, priority=priority, ttl_ms=ttl_ms, deadline=deadline, continued=continued
            )
            for feed in self.feeds.values()
        ]
        return SplitStream(self._registry, parts)

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        """Send an object to each; whether anybody can have it."""
        taken = [
            feed.send_datagram(now, payload, priority=priority, ttl_ms=ttl_ms)
            for feed in self.feeds.values()
        ]
        return any(taken)


class StubFeeds(Generic[P]):
    """All tracks that parents have asked for."""

    __slots__ = ("_registry", "_tracks")

    def __init__(self) -> None:
        self._registry: dict[OutStream, SplitStream] = {}
        self._tracks: dict[int, _TrackFeeds[P]] = {}

    def add(self, key: int, parent: P, feed: Feed) -> Feed:
        """A parent asks for a track; gives the feed for all who did."""
        track = self._tracks.setdefault(key, _TrackFeeds(self._registry))
        track.feeds[parent] = feed
        return track

    def remove(self, key: int, parent: P) -> bool:
        """It does not any more; whether nobody is left."""
        track = self._tracks.get(key)
        if track is None or track.feeds.pop(parent, None) is None or track.feeds:
            return False
        del self._tracks[key]
        return True

    def drop(self, key: int) -> None:
        """Nobody gets a track any more."""
        self._tracks.pop(key, None)

    def of(self, parent: P) -> list[int]:
        """The tracks that a parent asked for."""
        return [key for key, track in self._tracks.items() if parent in track.feeds]

    def owners(self, key: int) -> list[P]:
        """Who asked for a track."""
        track = self._tracks.get(key)
        return [] if track is None else list(track.feeds)

    def gone(self, part: OutStream) -> SplitStream | None:
        """A parent's part of a stream is gone; the whole of it, if it was the last one."""
        stream = self._registry.pop(part, None)
        if stream is None:
            return None
        stream.parts.remove(part)
        return None if stream.parts else stream
