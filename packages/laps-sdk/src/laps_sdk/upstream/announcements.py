"""The names that clients of an Edge publish, each once, regardless of the number of publishers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

from laps_sdk.edge.events import (
    NamespaceAdded,
    NamespaceGone,
    PublisherAdded,
    PublisherGone,
    RelayEvent,
)
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import AnnounceKind

__all__ = ["Announced", "Announcements", "namespace_name"]

Announced: TypeAlias = tuple[AnnounceKind, FullTrackName]


def namespace_name(namespace: Namespace) -> FullTrackName:
    """Return the name of a namespace in announces: with an empty track name (laps-2, 2)."""
    return FullTrackName(namespace, b"")


class Announcements:
    """Counts the publishers of each name; sessions for which ``ignored`` is True do not count."""

    __slots__ = ("_count", "_ignored", "_pushed")

    def __init__(self, ignored: Callable[[int], bool]) -> None:
        self._ignored = ignored
        self._count: Counter[Announced] = Counter()
        self._pushed: set[tuple[int, FullTrackName]] = set()
        """Tracks by PUBLISH: ``PublisherGone`` does not state how its source began."""

    def current(self) -> list[Announced]:
        """Return all names that clients publish now."""
        return list(self._count)

    def observe(self, events: Iterable[RelayEvent]) -> list[tuple[bool, Announced]]:
        """Return, in order, the names to announce (True) and to withdraw (False)."""
        changes: list[tuple[bool, Announced]] = []
        for event in events:
            found = self._change(event)
            if found is None:
                continue
            added, announced = found
            before = self._count[announced]
            after = before + 1 if added else before - 1
            if after:
                self._count[announced] = after
            else:
                del self._count[announced]
            if not before or not after:
                changes.append(found)
        return changes

    def _change(self, event: RelayEvent) -> tuple[bool, Announced] | None:
        match event:
            case NamespaceAdded() | NamespaceGone():
                if self._ignored(event.session):
                    return None
                announced = (AnnounceKind.NAMESPACE, namespace_name(event.namespace))
                return isinstance(event, NamespaceAdded), announced
            case PublisherAdded(pushed=True):
                if self._ignored(event.session):
                    return None
                self._pushed.add((event.session, event.track))
                return True, (AnnounceKind.TRACK, event.track)
            case PublisherGone() if (event.session, event.track) in self._pushed:
                self._pushed.discard((event.session, event.track))
                return False, (AnnounceKind.TRACK, event.track)
            case _:
                return None
