"""Names, objects and discovery events as applications see them.

**Names** have a short form, ``demo/camera`` for a namespace, beside the text of the spec::

    "demo/camera", "video"    namespace (demo, camera), name video
    "demo-camera--video"      the same track in the text form of docs/spec/names.md

In a path a slash separates the fields. ``%`` and two hex digits stand for any byte, so every name
has a path: ``%2f`` is a slash, ``%25`` a percent sign.

**Objects** may have extensions. The capture time is one of them: an even type with an integer, in
microseconds since the Unix epoch. Relays forward it like every extension that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from laps_wire.errors import EncodeError, TextFormError
from laps_wire.moqt.codepoints import ObjectStatus
from laps_wire.moqt.data import (
    Extensions,
    MoqObject,
    ObjectExtensions,
    encode_extensions,
    object_extensions,
)
from laps_wire.moqt.keyvalue import KeyValue, KeyValues
from laps_wire.moqt.parameters import TrackProperties
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "CAPTURE_TIMESTAMP",
    "NamespaceAdded",
    "NamespaceLike",
    "NamespaceRemoved",
    "Object",
    "TrackAdded",
    "TrackLike",
    "TrackRemoved",
    "TrackStatus",
    "capture_time",
    "decode_object_extensions",
    "encode_object_extensions",
    "namespace_path",
    "to_bytes",
    "to_namespace",
    "to_object",
    "to_track",
    "track_path",
]

NamespaceLike: TypeAlias = "str | Namespace | Sequence[str | bytes]"
"""A path (``demo/camera``), the fields of a namespace, or a namespace."""

TrackLike: TypeAlias = "NamespaceLike | FullTrackName"
"""A namespace, or a whole track name: a :class:`FullTrackName` or ``ns--name`` text."""

_KIND: Final = "namespace path"
_EXAMPLE: Final = "demo/camera"
_HEX: Final = frozenset("0123456789abcdefABCDEF")


def to_bytes(value: str | bytes) -> bytes:
    """Return a field or a track name as bytes; text becomes UTF-8."""
    return value.encode() if isinstance(value, str) else bytes(value)


def to_namespace(value: NamespaceLike) -> Namespace:
    """Return the namespace of a path or of fields; "" is the prefix of every namespace."""
    if isinstance(value, Namespace):
        return value
    if not isinstance(value, str):
        return Namespace(tuple(map(to_bytes, value)))
    if not value:
        return Namespace()
    fields: list[bytes] = []
    start = 0
    for part in value.split("/"):
        if not part:
            raise TextFormError.at(_KIND, value, start, "an empty field", example=_EXAMPLE)
        fields.append(_unescape(value, start, part))
        start += len(part) + 1
    try:
        return Namespace(tuple(fields))
    except EncodeError as error:
        raise TextFormError.at(_KIND, value, len(value), str(error), example=_EXAMPLE) from None


def to_track(namespace: TrackLike, name: str | bytes | None = None) -> FullTrackName:
    """Return the track of a namespace and a name.

    Without ``name`` the first argument is a whole name: a :class:`FullTrackName` or its text.
    """
    if isinstance(namespace, FullTrackName):
        if name is not None:
            raise TextFormError(
                f"a full track name ({namespace}) has its own name: leave {name!r} out"
            )
        return namespace
    if name is None:
        if isinstance(namespace, str) and "--" in namespace:
            return FullTrackName.parse(namespace)
        raise TextFormError(
            f"no track name beside {namespace!r}: give a namespace and a name, such as"
            " 'demo/camera', 'video', or one text such as 'demo-camera--video'"
        )
    return FullTrackName(to_namespace(namespace), to_bytes(name))


def namespace_path(namespace: Namespace) -> str:
    """Return the path of a namespace, which :func:`to_namespace` reads."""
    return "/".join(map(_escape, namespace.fields))


def track_path(track: FullTrackName) -> str:
    """Return the namespace path, a space and the name, for messages."""
    return f"{namespace_path(track.namespace)} {_escape(track.name)}"


def _escape(field: bytes) -> str:
    out: list[str] = []
    for char in field.decode("utf-8", errors="surrogateescape"):
        if "\udc80" <= char <= "\udcff":
            out.append(f"%{ord(char) - 0xDC00:02x}")
        elif char in "/% " or not char.isprintable():
            out.extend(f"%{byte:02x}" for byte in char.encode())
        else:
            out.append(char)
    return "".join(out)


def _unescape(text: str, start: int, part: str) -> bytes:
    if "%" not in part:
        return part.encode()
    out = bytearray()
    index = 0
    while index < len(part):
        char = part[index]
        if char != "%":
            out += char.encode()
            index += 1
            continue
        digits = part[index + 1 : index + 3]
        if len(digits) < 2 or not _HEX.issuperset(digits):
            at = start + index
            raise TextFormError.at(
                _KIND, text, at, "'%' must be followed by two hex digits", example="demo/50%25"
            )
        out.append(int(digits, 16))
        index += 3
    return bytes(out)


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
