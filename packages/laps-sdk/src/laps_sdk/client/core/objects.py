"""Objects and discovery events as applications see them, and the extensions of objects.

The capture time of an object is one extension: an even type with an integer, in microseconds since
the Unix epoch. Relays forward it like every extension that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import ObjectStatus
from laps_wire.moqt.data import (
    Extensions,
    MoqObject,
    ObjectExtensions,
    encode_extensions,
    object_extensions,
)
from laps_wire.moqt.keyvalue import KeyValue, KeyValues
from laps_wire.moqt.properties import TrackProperties
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "CAPTURE_TIMESTAMP",
    "NamespaceAdded",
    "NamespaceRemoved",
    "Object",
    "TrackAdded",
    "TrackRemoved",
    "TrackStatus",
    "capture_time",
    "decode_object_extensions",
    "encode_object_extensions",
    "to_object",
]

CAPTURE_TIMESTAMP: Final = 0x14C50
"""The extension type of the capture time, in microseconds since the Unix epoch."""

_NO_EXTENSIONS: Final = ObjectExtensions(Extensions())


class Object(NamedTuple):
    """One object as it arrived. A tuple, because one is made for every object."""

    group: int
    object: int
    payload: bytes
    subgroup: int | None = 0
    """None: the object came as a datagram."""
    priority: int | None = None
    """The publisher's priority; None: the default of the track."""
    extensions: KeyValues = ()
    """Pairs of type and value, including the immutable extensions."""
    received_at: float = 0.0
    """When the last byte arrived: seconds since the Unix epoch."""
    status: ObjectStatus = ObjectStatus.NORMAL
    """Any other status marks the end of the group or the track, without payload."""

    @property
    def location(self) -> Location:
        """Group and object id."""
        return Location(self.group, self.object)

    @property
    def captured_at(self) -> float | None:
        """The publisher's capture time, in seconds since the Unix epoch; None without one."""
        return capture_time(self.extensions)

    @property
    def latency(self) -> float | None:
        """Seconds from capture to reception; None without a capture time.

        The value is negative if the two clocks disagree.
        """
        captured = self.captured_at
        return None if captured is None else self.received_at - captured


# Discovery


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAdded:
    """A namespace was announced."""

    namespace: Namespace
    path: str
    """The namespace as text, such as ``demo/camera``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRemoved:
    """A namespace was withdrawn, or the connection to the relay was lost."""

    namespace: Namespace
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackAdded:
    """A track was published. Subscribe to it with ``session.subscribe(event.track)``."""

    track: FullTrackName
    path: str
    """Namespace and name as text, such as ``demo/camera video``."""
    largest: Location | None = None
    """The largest object so far, if the relay reported it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRemoved:
    """A track has ended, or the connection to the relay was lost."""

    track: FullTrackName
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackStatus:
    """The relay's answer to TRACK_STATUS."""

    track: FullTrackName
    largest: Location | None
    """The largest object so far; None if there is none yet."""
    expires: float | None
    """Seconds until the relay would end a subscription; None: never, or not known."""
    properties: TrackProperties


# Extensions


def encode_object_extensions(
    pairs: Iterable[tuple[int, int | bytes]], stamp: float | None, draft: Draft
) -> bytes:
    """Encode the extension block of an object; raises ``EncodeError`` for a wrong value type.

    ``stamp`` is the capture time in seconds, or None. A capture time among the pairs wins.
    """
    known = [KeyValue(type_, value) for type_, value in pairs]
    for type_, value in known:
        if isinstance(value, int) == bool(type_ & 1):
            wanted = "bytes" if type_ & 1 else "an integer"
            raise EncodeError(f"extension {type_:#x} takes {wanted}, not {value!r}")
    if stamp is not None and all(pair.type != CAPTURE_TIMESTAMP for pair in known):
        known.append(KeyValue(CAPTURE_TIMESTAMP, max(0, int(stamp * 1_000_000))))
    return encode_extensions(known, draft) if known else b""


def decode_object_extensions(item: MoqObject, draft: Draft) -> ObjectExtensions:
    """Decode an object's extensions; raises ``RemoteError`` if they make its track malformed."""
    return object_extensions(item.header, draft) if item.header.extensions else _NO_EXTENSIONS


def capture_time(pairs: KeyValues) -> float | None:
    """Return the capture time in seconds since the Unix epoch; None without one."""
    for type_, value in pairs:
        if type_ == CAPTURE_TIMESTAMP and isinstance(value, int):
            return value / 1_000_000
    return None


def to_object(item: MoqObject, decoded: ObjectExtensions, received_at: float) -> Object:
    """Convert an object of the wire, with its decoded extensions, to the application's."""
    header = item.header
    extensions = decoded.extensions
    pairs: KeyValues = extensions.pairs
    if extensions.immutable:
        pairs = (*pairs, *extensions.immutable)
    return Object(
        header.group_id,
        header.object_id,
        item.payload,
        header.subgroup_id,
        header.priority,
        pairs,
        received_at,
        header.status,
    )
