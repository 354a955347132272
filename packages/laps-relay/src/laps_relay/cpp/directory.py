"""All names that an Edge can announce to foreign peers: of its clients and of its network.

::

    EdgeRelay --events--> Directory <--discovered, vanished-- network (tracks)
                              |
                              '--> NameWatcher: each name once, except names that only
                                   the watcher's own session publishes

C++ relays watch the directory: they are no part of the network, but need its names. The bridge
publishes namespaces of the network at the Edge, so the Edge's events include them. The bridge does
not publish tracks (see :mod:`laps_relay.network.bridge`): the network reports these directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from laps_sdk.edge.events import (
    NamespaceAdded,
    NamespaceGone,
    PublisherAdded,
    PublisherGone,
    RelayEvent,
)
from laps_sdk.upstream.announcements import Announced, namespace_name
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceKind

__all__ = ["Directory", "NameWatcher"]


class NameWatcher(Protocol):
    """Receives the changes of a directory; a namespace has an empty track name."""

    def named(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Add a name that another session publishes."""

    def unnamed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Remove a name that no other session publishes."""


class Directory:
    """Maps each name to the sessions that publish it, and notifies watchers."""

    __slots__ = ("_names", "_network", "_watchers")

    def __init__(self, network: int) -> None:
        """``network`` is the Edge's number for the session with its own network."""
        self._network = network
        self._names: dict[Announced, dict[int, None]] = {}
        self._watchers: dict[int, NameWatcher] = {}

    # Watchers

    def watch(self, now: float, session: int, watcher: NameWatcher) -> None:
        """Add a watcher; give it all current and later names of sessions other than its own."""
        self._watchers[session] = watcher
        for kind, name in list(self.visible(session)):
            watcher.named(now, kind, name)

    def unwatch(self, session: int) -> None:
        """Remove the watcher of a session."""
        self._watchers.pop(session, None)

    def visible(self, session: int) -> Iterator[Announced]:
        """Yield the names that sessions other than ``session`` publish."""
        return (
            announced
            for announced, sessions in self._names.items()
            if any(each != session for each in sessions)
        )

    # Names

    def observe(self, now: float, events: Iterable[RelayEvent]) -> None:
        """Add and remove names according to events of the Edge."""
        for event in events:
            match event:
                case NamespaceAdded():
                    announced = (AnnounceKind.NAMESPACE, namespace_name(event.namespace))
                    self._add(now, event.session, announced)
                case NamespaceGone():
                    announced = (AnnounceKind.NAMESPACE, namespace_name(event.namespace))
                    self._remove(now, event.session, announced)
                case PublisherAdded(pushed=True) if event.session != self._network:
                    self._add(now, event.session, (AnnounceKind.TRACK, event.track))
                case PublisherGone() if event.session != self._network:
                    self._remove(now, event.session, (AnnounceKind.TRACK, event.track))
                case _:
                    pass

    def discovered(self, now: float, track: FullTrackName) -> None:
        """Add a track that the network announces."""
        self._add(now, self._network, (AnnounceKind.TRACK, track))

    def vanished(self, now: float, track: FullTrackName) -> None:
        """Remove a track that the network no longer announces."""
        self._remove(now, self._network, (AnnounceKind.TRACK, track))

    def _add(self, now: float, session: int, announced: Announced) -> None:
        sessions = self._names.setdefault(announced, {})
        if session not in sessions:
            told = self._told(sessions)
            sessions[session] = None
            for number in self._told(sessions):
                if number not in told:
                    self._watchers[number].named(now, *announced)

    def _remove(self, now: float, session: int, announced: Announced) -> None:
        sessions = self._names.get(announced, {})
        if session not in sessions:
            return  # the source of a subscription, not of a PUBLISH
        told = self._told(sessions)
        del sessions[session]
        if not sessions:
            del self._names[announced]
        rest = self._told(sessions)
        for number in told:
            if number not in rest:
                self._watchers[number].unnamed(now, *announced)

    def _told(self, sessions: dict[int, None]) -> list[int]:
        """Return the watchers to which a name with these publishers is visible."""
        return [
            number for number in self._watchers if any(session != number for session in sessions)
        ]
