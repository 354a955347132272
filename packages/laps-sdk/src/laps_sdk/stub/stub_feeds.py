"""Feeds that send a Stub's tracks to every parent that subscribes to them.

A Stub normally serves one parent. While the Stub moves to another parent, it sends to both: some
subscribers behind the old parent may not have reached the new one yet. A receiver of both copies
keeps one, as with any track that two relays serve.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.interfaces import Feed

__all__ = ["SplitStream", "StubFeeds"]

P = TypeVar("P", bound=Hashable)


class SplitStream:
    """A stream that is sent to several parents, as one part for each."""

    __slots__ = ("_registry", "parts")

    def __init__(self, registry: dict[OutStream, SplitStream], parts: list[OutStream]) -> None:
        self._registry = registry
        self.parts = parts
        for part in parts:
            registry[part] = self

    @property
    def closed(self) -> bool:
        """Whether all parts are closed."""
        return all(part.closed for part in self.parts)

    @property
    def queued(self) -> int:
        """The number of bytes that the slowest part has queued."""
        return max((part.queued for part in self.parts), default=0)

    def write(self, data: bytes, fin: bool = False) -> None:
        """Write bytes to all parts, without a copy."""
        for part in list(self.parts):
            part.write(data, fin)
        if fin:
            self._end()

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """Write bytes to all parts; none refuses them."""
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        """Do nothing: no part refuses bytes."""

    def reset(self, code: int) -> None:
        """Reset all parts."""
        for part in list(self.parts):
            part.reset(code)
        self._end()

    def _end(self) -> None:
        for part in self.parts:
            self._registry.pop(part, None)

    def set_priority(self, priority: int) -> None:
        """Do nothing: the parts keep the publisher's priority."""

    def set_deadline(self, deadline: float | None) -> None:
        """Set when all parts drop bytes that are not sent yet."""
        for part in self.parts:
            part.set_deadline(deadline)


class _TrackFeeds(Generic[P]):
    """A :class:`~laps_sdk.upstream.interfaces.Feed` of one track to several parents."""

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
        to: tuple[int, int] | None = None,  # noqa: ARG002 - a parent has no sets
    ) -> OutStream:
        """Open a stream to each parent."""
        parts = [
            feed.open_stream(
                now, priority=priority, ttl_ms=ttl_ms, deadline=deadline, continued=continued
            )
            for feed in self.feeds.values()
        ]
        return SplitStream(self._registry, parts)

    def send_datagram(self, now: float, payload: bytes, *, priority: int, ttl_ms: int = 0) -> bool:
        """Send an object to each parent; return whether any parent can receive it."""
        taken = [
            feed.send_datagram(now, payload, priority=priority, ttl_ms=ttl_ms)
            for feed in self.feeds.values()
        ]
        return any(taken)


class StubFeeds(Generic[P]):
    """The feeds of all tracks that parents subscribe to."""

    __slots__ = ("_registry", "_tracks")

    def __init__(self) -> None:
        self._registry: dict[OutStream, SplitStream] = {}
        self._tracks: dict[int, _TrackFeeds[P]] = {}

    def add(self, key: int, parent: P, feed: Feed) -> Feed:
        """Add the feed of a parent to a track; return the feed to all parents of the track."""
        track = self._tracks.setdefault(key, _TrackFeeds(self._registry))
        track.feeds[parent] = feed
        return track

    def remove(self, key: int, parent: P) -> bool:
        """Remove a parent from a track; return whether it was the last one."""
        track = self._tracks.get(key)
        if track is None or track.feeds.pop(parent, None) is None or track.feeds:
            return False
        del self._tracks[key]
        return True

    def drop(self, key: int) -> None:
        """Remove a track with all its feeds."""
        self._tracks.pop(key, None)

    def of(self, parent: P) -> list[int]:
        """Return the keys of the tracks that a parent subscribes to."""
        return [key for key, track in self._tracks.items() if parent in track.feeds]

    def owners(self, key: int) -> list[P]:
        """Return the parents that subscribe to a track."""
        track = self._tracks.get(key)
        return [] if track is None else list(track.feeds)

    def gone(self, part: OutStream) -> SplitStream | None:
        """Remove a parent's part of a stream; return the stream if that was its last part."""
        stream = self._registry.pop(part, None)
        if stream is None:
            return None
        stream.parts.remove(part)
        return None if stream.parts else stream
