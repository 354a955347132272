"""What the clients of an Edge publish, each name once however many publish it."""

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
    """A namespace as announces name it: with an empty track name (laps-2, 2)."""
    return FullTrackName(namespace, b"")


class Announcements:
    """Counts publishers by name; a session of our own network is none."""

    __slots__ = ("_count", "_ignored", "_pushed")

    def __init__(self, ignored: Callable[[int], bool]) -> None:
        self._ignored = ignored
        self._count: Counter[Announced] = Counter()
        self._pushed: set[tuple[int, FullTrackName]] = set()
        """PUBLISHes: the end of a source does not say whether it was one."""

    def current(self) -> list[Announced]:
        """Everything that is announced now."""
        return list(self._count)

    def observe(self, events: Iterable[RelayEvent]) -> list[tuple[bool, Announced]]:
        """What is announced from now on (True) and what is not any more, in order."""
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
