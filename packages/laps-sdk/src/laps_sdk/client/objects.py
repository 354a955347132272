"""What applications get: objects, and news about namespaces and tracks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from laps_sdk.client.core.timestamps import capture_time
from laps_wire.moqt.codepoints import ObjectStatus
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.properties import TrackProperties
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "NamespaceAdded",
    "NamespaceRemoved",
    "Object",
    "TrackAdded",
    "TrackRemoved",
    "TrackStatus",
]


class Object(NamedTuple):
    """One object as it arrived. A tuple, for one is made for each."""

    group: int
    object: int
    payload: bytes
    subgroup: int | None = 0
    """None: it came as a datagram."""
    priority: int | None = None
    """The publisher's; None: the track's default."""
    extensions: KeyValues = ()
    """Pairs of type and value, those that nobody may change on the way included."""
    received_at: float = 0.0
    """When its last byte arrived: seconds since the Unix epoch."""
    status: ObjectStatus = ObjectStatus.NORMAL
    """Anything else: the end of the group or the track, without payload."""

    @property
    def location(self) -> Location:
        """Group and object."""
        return Location(self.group, self.object)

    @property
    def captured_at(self) -> float | None:
        """When the publisher says that it was captured: seconds since the Unix epoch."""
        return capture_time(self.extensions)

    @property
    def latency(self) -> float | None:
        """Seconds from capture to reception; None if the publisher does not say."""
        captured = self.captured_at
        return None if captured is None else self.received_at - captured


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAdded:
    """There are tracks in this namespace now."""

    namespace: Namespace
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRemoved:
    """A namespace is gone, or the relay that told of it is."""

    namespace: Namespace
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackAdded:
    """A track is published. ``session.subscribe(event.track)`` takes it."""

    track: FullTrackName
    path: str
    largest: Location | None = None
    """The largest object so far, if the relay said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRemoved:
    """A track has ended, or the relay that told of it is gone."""

    track: FullTrackName
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackStatus:
    """What a subscription would find."""

    track: FullTrackName
    largest: Location | None
    """The largest object so far; None if there is none yet."""
    expires: float | None
    """Seconds until the relay would end a subscription; None: never, or not known."""
    properties: TrackProperties
