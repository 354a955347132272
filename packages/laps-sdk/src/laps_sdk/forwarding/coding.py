"""Writing objects again: for another draft, or behind another object than they stood before.

::

    ingress   | delta | ext | length | payload ......   | delta | ext | length | payload ...
                `------ head ------'                       mark: (head, start, payload start)
    egress    | delta'| ext'| length'| the same bytes   | ...

A :data:`Mark` says where in a run of bytes an object begins. Between two marks, and before the
first, there is nothing but payload, which is never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.moqt.codepoints import PropertyTypeD18, StreamResetCodeD16, StreamResetCodeD18
from laps_wire.moqt.data.types import (
    MalformedTrackError,
    ObjectHeader,
    SubgroupHeader,
    object_extensions,
)
from laps_wire.moqt.keyvalue import (
    MAX_TYPE,
    MAX_VALUE_LENGTH,
    KeyValue,
    read_pairs,
    write_pairs,
)
from laps_wire.moqt.versions import Draft

__all__ = [
    "CANCELLED",
    "DELIVERY_TIMEOUT",
    "INTERNAL_ERROR",
    "MALFORMED_TRACK",
    "Mark",
    "cut_mark",
    "drop_code",
    "integers_of",
    "mirrored_code",
    "object_header",
    "start_header",
    "transcode",
    "translate_extensions",
]

Mark: TypeAlias = tuple[ObjectHeader, int, int]
"""An object, where its header starts, and where its payload does."""

# These have the same value in both drafts.
INTERNAL_ERROR: Final = int(StreamResetCodeD18.INTERNAL_ERROR)
CANCELLED: Final = int(StreamResetCodeD18.CANCELLED)
DELIVERY_TIMEOUT: Final = int(StreamResetCodeD18.DELIVERY_TIMEOUT)
MALFORMED_TRACK: Final = int(StreamResetCodeD18.MALFORMED_TRACK)

_IMMUTABLE: Final = PropertyTypeD18.IMMUTABLE_PROPERTIES
_SHARED_CODES: Final = {
    code.value for code in StreamResetCodeD16 if code.name != "UNKNOWN_OBJECT_STATUS"
}
_UNKNOWN_STATUS: Final = {
    Draft.D16: int(StreamResetCodeD16.UNKNOWN_OBJECT_STATUS),
    Draft.D18: int(StreamResetCodeD18.UNKNOWN_OBJECT_STATUS),
}


# Reset codes


def mirrored_code(code: int, source: Draft, target: Draft) -> int:
    """A reset code of one draft in another one; what has no name there becomes CANCELLED."""
    if source is target or code in _SHARED_CODES:
        return code
    if code == _UNKNOWN_STATUS[source]:
        return _UNKNOWN_STATUS[target]
    return CANCELLED


def drop_code(draft: Draft) -> int:
    """What a stream is reset with that a receiver is too slow for."""
    return int(StreamResetCodeD18.TOO_FAR_BEHIND) if draft >= Draft.D18 else DELIVERY_TIMEOUT


# Extensions


def translate_extensions(data: bytes, source: Draft, target: Draft) -> bytes:
    """An extension block in another draft's integers; types, order and byte values stay.

    The pairs in the immutable block are written anew as well: their values do not change, and
    a receiver could not read them otherwise.
    """
    if not data or source.integers is target.integers:
        return data
    pairs: list[KeyValue] = []
    for pair in _pairs(data, source):
        if pair.type == _IMMUTABLE and isinstance(pair.value, bytes):
            inner = _written(_pairs(pair.value, source), target)
            pairs.append(KeyValue(pair.type, inner))
        else:
            pairs.append(pair)
    return _written(pairs, target)


def _pairs(data: bytes, draft: Draft) -> Sequence[KeyValue]:
    try:
        return read_pairs(Reader(data, integers=draft.integers))
    except MalformedError as error:
        raise MalformedTrackError(f"extensions cannot be translated: {error}") from error


def _written(pairs: Sequence[KeyValue], draft: Draft) -> bytes:
    writer = Writer(integers=draft.integers)
    write_pairs(writer, pairs, "extensions")
    return writer.getvalue()


def integers_of(head: ObjectHeader, draft: Draft) -> dict[int, int]:
    """The values of even types in an object's extensions, those of the immutable block as well.

    Every object with extensions comes here, so good ones are read in place; faults and what they
    are called are left to :func:`object_extensions`.
    """
    found: dict[int, int] = {}
    try:
        if _integers_in(head.extensions, draft, found):
            found.pop(_IMMUTABLE, None)
            return found
    except IncompleteError:
        pass
    object_extensions(head, draft)
    return found


def _integers_in(data: bytes, draft: Draft, found: dict[int, int], *, inner: bool = False) -> bool:
    """Collect them; False if something may be wrong that a closer look has to name."""
    decode, pos, end, type_ = draft.integers.decode, 0, len(data), 0
    good = True
    while pos < end:
        delta, pos = decode(data, pos, end)
        type_ += delta
        value, pos = decode(data, pos, end)
        if type_ & 1:
            stop = pos + value
            good = good and stop <= end and value <= MAX_VALUE_LENGTH
            if type_ == _IMMUTABLE:
                # Never one inside another: a peer decides how deep they would nest.
                good = good and not inner and _IMMUTABLE not in found
                if good:
                    found[_IMMUTABLE] = value
                    good = _integers_in(data[pos:stop], draft, found, inner=True)
            pos = stop
        else:
            # A second gap is a fault, a second anything else is not: the first one counts.
            good = good and not (type_ in found and type_ in _GAPS)
            found.setdefault(type_, value)
    return good and type_ <= MAX_TYPE


_GAPS: Final = frozenset(
    {int(PropertyTypeD18.PRIOR_GROUP_ID_GAP), int(PropertyTypeD18.PRIOR_OBJECT_ID_GAP)}
)


# Objects on subgroup streams


def object_header(
    head: ObjectHeader, previous: int, has_extensions: bool, source: Draft, target: Draft
) -> bytes:
    """What stands before a payload on a subgroup stream, behind the object ``previous``."""
    encode = target.integers.encode
    data = encode(head.object_id - previous - 1)
    if has_extensions:
        extensions = head.extensions
        if source is not target and extensions:
            extensions = translate_extensions(extensions, source, target)
        data += encode(len(extensions)) + extensions
    elif head.extensions:
        raise EncodeError("a stream without extensions cannot carry an object that has some")
    length = head.payload_length
    if length:
        return data + encode(length)
    return data + encode(0) + encode(head.status)


def cut_mark(head: ObjectHeader, previous: int, target: Draft) -> bytes:
    """What a stream ends with that goes on elsewhere: the object ID delta of its next object.

    No object is so short, so that nothing else is taken for it (laps-2, 7.2).
    """
    return target.integers.encode(head.object_id - previous - 1)


def transcode(
    body: bytes,
    marks: Sequence[Mark],
    previous: int,
    has_extensions: bool,
    source: Draft,
    target: Draft,
) -> bytes:
    """A run of bytes in another draft; ``previous`` is the object before its first mark.

    ``has_extensions`` says whether the objects of the result have extension blocks. Raises
    ``EncodeError`` if an object cannot be written so.
    """
    parts: list[bytes] = []
    pos = 0
    for head, start, payload in marks:
        if start > pos:
            parts.append(body[pos:start])
        parts.append(object_header(head, previous, has_extensions, source, target))
        pos, previous = payload, head.object_id
    if not parts:
        return body
    parts.append(body[pos:])
    return b"".join(parts)


def start_header(
    header: SubgroupHeader, alias: int, subgroup_id: int, target: Draft, *, whole: bool
) -> SubgroupHeader:
    """The SUBGROUP_HEADER for a receiver; ``whole`` if it begins with the same object."""
    return SubgroupHeader(
        alias,
        header.group_id,
        header.subgroup_id if whole else subgroup_id,
        header.priority,
        header.has_extensions,
        header.end_of_group,
        header.first_object and whole and target >= Draft.D18,
    )
