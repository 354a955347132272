"""All names that an Edge can give others: of its own clients, and of the network behind it.

::

    EdgeRelay --events--> Directory <--discovered, vanished-- network (tracks)
                              |
                              '--> a watcher hears of each name once, and never of what
                                   its own session publishes

Peers that are no part of the network but want to hear of names (C++ relays) watch it. Namespaces of
the network are published at the Edge by the bridge, so they are among its events; tracks are not
(see :mod:`laps_relay.network.bridge`) and come by themselves.
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
    """Somebody who wants to hear of all names; a namespace has an empty track name."""

    def named(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """There is a name."""

    def unnamed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """There is not any more."""


class Directory:
    """Names, with the sessions that publish each."""

    __slots__ = ("_names", "_network", "_watchers")

    def __init__(self, network: int) -> None:
        """``network`` is the Edge's number of the session with its own network."""
        self._network = network
        self._names: dict[Announced, dict[int, None]] = {}
        self._watchers: dict[int, NameWatcher] = {}

    # Watchers

    def watch(self, now: float, session: int, watcher: NameWatcher) -> None:
        """Tell everything that there is, and everything new, but nothing of its own session."""
        self._watchers[session] = watcher
        for kind, name in list(self.visible(session)):
            watcher.named(now, kind, name)

    def unwatch(self, session: int) -> None:
        """Tell nothing more."""
        self._watchers.pop(session, None)

    def visible(self, session: int) -> Iterator[Announced]:
        """What others than a session publish."""
        return (
            announced
            for announced, sessions in self._names.items()
            if any(each != session for each in sessions)
        )

    # Names

    def observe(self, now: float, events: Iterable[RelayEvent]) -> None:
        """What happened at the Edge."""
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
        """Somebody in the network announced a track."""
        self._add(now, self._network, (AnnounceKind.TRACK, track))

    def vanished(self, now: float, track: FullTrackName) -> None:
        """Nobody there does any more."""
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
            return  # a track that was subscribed to, not pushed
        told = self._told(sessions)
        del sessions[session]
        if not sessions:
            del self._names[announced]
        rest = self._told(sessions)
        for number in told:
            if number not in rest:
                self._watchers[number].unnamed(now, *announced)

    def _told(self, sessions: dict[int, None]) -> list[int]:
        """The watchers that are told of a name with these publishers."""
        return [
            number for number in self._watchers if any(session != number for session in sessions)
        ]
