"""Names as applications write them: ``demo/camera`` for a namespace, beside the text of the spec.

::

    "demo/camera", "video"    namespace (demo, camera), name video
    "demo-camera--video"      the same track in the text form of docs/spec/names.md

In a path a slash separates the fields. ``%`` and two hex digits stand for any byte, so every name
has a path: ``%2f`` is a slash, ``%25`` a percent sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from laps_wire.errors import EncodeError, TextFormError
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "NamespaceLike",
    "TrackLike",
    "namespace_path",
    "to_bytes",
    "to_namespace",
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
