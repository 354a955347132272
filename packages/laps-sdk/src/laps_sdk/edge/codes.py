"""What changes its number or its form on the way from one draft to another.

A publisher speaks one draft and a subscriber another; status codes, error codes and track
properties mean the same in both, but are not written the same.
"""

from __future__ import annotations

from typing import Final

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import MalformedError
from laps_wire.moqt.codepoints import (
    ONLY,
    PUBLISH_DONE_CODES,
    STREAM_RESET_CODES,
    PropertyTypeD18,
    RequestErrorCode,
)
from laps_wire.moqt.keyvalue import KeyValue, KeyValues, read_pairs, write_pairs
from laps_wire.moqt.messages import RequestError
from laps_wire.moqt.structures import MAX_REASON_LENGTH
from laps_wire.moqt.versions import Draft
from laps_wire.varint import QUIC_MAX

__all__ = [
    "done_code",
    "done_name",
    "properties_for",
    "request_code",
    "reset_code",
    "shorten",
    "upstream_code",
]

_OURS: Final = frozenset(
    {
        RequestErrorCode.GOING_AWAY,
        RequestErrorCode.DUPLICATE_SUBSCRIPTION,
        RequestErrorCode.PREFIX_OVERLAP,
        RequestErrorCode.INVALID_JOINING_REQUEST_ID,
        RequestErrorCode.REDIRECT,
    }
)
"""Errors about our own request to a publisher: they would mislead the subscriber behind us."""


def request_code(draft: Draft, code: RequestErrorCode) -> int:
    """How a draft writes an error; INTERNAL_ERROR if it cannot."""
    # Draft 16 speaks of GOING_AWAY without listing it (9.4).
    if code is RequestErrorCode.GOING_AWAY:
        return int(code)
    if ONLY.get(("RequestErrorCode", code.name), draft) is not draft:
        return int(RequestErrorCode.INTERNAL_ERROR)
    return int(code)


def upstream_code(error: RequestError) -> RequestErrorCode:
    """What a publisher's error means for whoever waits for it."""
    try:
        code = RequestErrorCode(error.error_code)
    except ValueError:
        return RequestErrorCode.INTERNAL_ERROR
    return RequestErrorCode.INTERNAL_ERROR if code in _OURS else code


def done_name(draft: Draft, code: int) -> str:
    """The name of a status code of PUBLISH_DONE."""
    try:
        return PUBLISH_DONE_CODES[draft](code).name
    except ValueError:
        return "INTERNAL_ERROR"


def done_code(draft: Draft, name: str) -> int:
    """The status code of PUBLISH_DONE with this name, or INTERNAL_ERROR."""
    codes = PUBLISH_DONE_CODES[draft].__members__
    return int(codes.get(name, codes["INTERNAL_ERROR"]))


def reset_code(draft: Draft, name: str) -> int:
    """The stream reset code with this name, or CANCELLED."""
    codes = STREAM_RESET_CODES[draft].__members__
    return int(codes.get(name, codes["CANCELLED"]))


def shorten(reason: str) -> str:
    """A reason that fits its field."""
    return reason.encode()[:MAX_REASON_LENGTH].decode(errors="ignore")


def properties_for(pairs: KeyValues, source: Draft, target: Draft) -> KeyValues:
    """A track's properties as another draft can carry them.

    Unknown ones are carried through. What the target cannot write is left out: 0 as a delivery
    timeout, which is draft 18's "none", and integers of more than 62 bits. The integers inside
    IMMUTABLE are written anew, for the two drafts do not write them alike.
    """
    if source is target:
        return pairs
    kept: list[KeyValue] = []
    for pair in pairs:
        value = pair.value
        if isinstance(value, int):
            if target is Draft.D16 and (
                value > QUIC_MAX
                or (pair.type == PropertyTypeD18.OBJECT_DELIVERY_TIMEOUT and value == 0)
            ):
                continue
        elif pair.type == PropertyTypeD18.IMMUTABLE_PROPERTIES:
            try:
                inner = tuple(read_pairs(Reader(value, integers=source.integers)))
            except MalformedError:
                continue
            writer = Writer(integers=target.integers)
            write_pairs(writer, properties_for(inner, source, target), "immutable")
            value = writer.getvalue()
        kept.append(KeyValue(pair.type, value))
    return tuple(kept)
