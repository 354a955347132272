"""What changes its number or its form on the way from one draft to another.

A publisher speaks one draft and a subscriber another; status codes, error codes and track
properties mean the same in both, but are not written the same.
"""

from __future__ import annotations

from typing import Final

from laps_wire.buffer import QUIC_MAX, Reader, Writer
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
    """Return the number of an error in a draft; that of INTERNAL_ERROR if the draft lacks it."""
    # Draft 16 speaks of GOING_AWAY without listing it (9.4).
    if code is RequestErrorCode.GOING_AWAY:
        return int(code)
    if ONLY.get(("RequestErrorCode", code.name), draft) is not draft:
        return int(RequestErrorCode.INTERNAL_ERROR)
    return int(code)


def upstream_code(error: RequestError) -> RequestErrorCode:
    """Return the error for a subscriber that follows from a publisher's error."""
    try:
        code = RequestErrorCode(error.error_code)
    except ValueError:
        return RequestErrorCode.INTERNAL_ERROR
    return RequestErrorCode.INTERNAL_ERROR if code in _OURS else code


def done_name(draft: Draft, code: int) -> str:
    """Return the name of a status code of PUBLISH_DONE, or INTERNAL_ERROR."""
    try:
        return PUBLISH_DONE_CODES[draft](code).name
    except ValueError:
        return "INTERNAL_ERROR"


def done_code(draft: Draft, name: str) -> int:
    """Return the status code of PUBLISH_DONE with this name, or that of INTERNAL_ERROR."""
    codes = PUBLISH_DONE_CODES[draft].__members__
    return int(codes.get(name, codes["INTERNAL_ERROR"]))


def reset_code(draft: Draft, name: str) -> int:
    """Return the stream reset code with this name, or that of CANCELLED."""
    codes = STREAM_RESET_CODES[draft].__members__
    return int(codes.get(name, codes["CANCELLED"]))


def shorten(reason: str) -> str:
    """Cut a reason to the length that its field can hold."""
    return reason.encode()[:MAX_REASON_LENGTH].decode(errors="ignore")


def properties_for(pairs: KeyValues, source: Draft, target: Draft) -> KeyValues:
    """Return the properties of a track as another draft can carry them.

    Unknown properties are carried through. What the target draft cannot write is left out: a
    delivery timeout of 0, which means "none" in draft 18, and integers of more than 62 bits. The
    integers inside IMMUTABLE are encoded again, because the drafts encode integers differently.
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
