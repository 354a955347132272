"""Records of type, length and value: the frames of HTTP/3 and the capsules of RFC 9297.

::

    +-----------+-------------+------------------+
    | type (i)  | length (i)  | value (length)   |      (RFC 9114, 7.1)  (RFC 9297, 3.2)
    +-----------+-------------+------------------+

A :class:`RecordReader` turns the bytes of a stream into records. For each type it is set to

- *keep* the value: it returns the value whole, and a longer value than the limit is an error;
- *stream* the value: it returns the value in pieces, as they arrive;
- skip the record, without holding it. This applies to all other types.

So a peer cannot make the reader hold more than the limits of the kept types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from laps_sdk.quic.webtransport.codepoints import (
    HTTP2_FRAMES,
    HTTP2_SETTINGS,
    CapsuleType,
    FrameType,
    H3Code,
    H3Error,
    Setting,
)
from laps_wire.errors import IncompleteError
from laps_wire.varint import decode_quic, encode_quic

__all__ = [
    "CAPSULES",
    "CONTROL_FRAMES",
    "MAX_CLOSE_REASON",
    "MAX_FIELD_SECTION",
    "REQUEST_FRAMES",
    "STREAMED",
    "CloseSession",
    "Record",
    "RecordReader",
    "decode_close",
    "decode_settings",
    "encode_close",
    "encode_record",
    "encode_settings",
]

STREAMED: Final = -1
"""Instead of a limit: return the value in pieces."""

MAX_FIELD_SECTION: Final = 16 * 1024
"""The longest field section that is accepted, in bytes."""
MAX_CLOSE_REASON: Final = 1024
"""The longest reason of a close, in bytes (webtrans-http3-07, 5)."""

CONTROL_FRAMES: Final[Mapping[int, int]] = {
    FrameType.SETTINGS: 4096,
    FrameType.GOAWAY: 8,
    FrameType.MAX_PUSH_ID: 8,
    FrameType.CANCEL_PUSH: 8,
    FrameType.DATA: 0,
    FrameType.HEADERS: 0,
    FrameType.PUSH_PROMISE: 0,
    **dict.fromkeys(HTTP2_FRAMES, 0),
}
"""Kept frames of a control stream. A limit of 0 marks frames that are refused."""

REQUEST_FRAMES: Final[Mapping[int, int]] = {
    FrameType.HEADERS: MAX_FIELD_SECTION,
    FrameType.DATA: STREAMED,
    FrameType.CANCEL_PUSH: 0,
    FrameType.SETTINGS: 0,
    FrameType.PUSH_PROMISE: 0,
    FrameType.GOAWAY: 0,
    FrameType.MAX_PUSH_ID: 0,
    FrameType.WT_STREAM: 0,
    **dict.fromkeys(HTTP2_FRAMES, 0),
}
"""Kept frames of a request stream."""

CAPSULES: Final[Mapping[int, int]] = {CapsuleType.CLOSE_SESSION: 4 + MAX_CLOSE_REASON}
"""Kept capsules. DRAIN is skipped, because MoQT has its own GOAWAY."""


class Record(NamedTuple):
    """One frame or capsule, or a piece of one whose type is streamed."""

    type: int
    value: bytes


class RecordReader:
    """Reads the records of one stream."""

    __slots__ = ("_error", "_held", "_left", "_limits", "_type")

    def __init__(self, limits: Mapping[int, int], error: H3Code = H3Code.FRAME_ERROR) -> None:
        self._limits = limits
        self._error = error  # the code for a record that is too long or cut short
        self._held = bytearray()  # of a header or of a kept value
        self._type: int | None = None  # of the incomplete record
        self._left = 0  # bytes of its value to come; of a kept one: all of them

    def feed(self, data: bytes) -> list[Record]:
        """Read the next bytes; raises :class:`H3Error` for a refused type or length."""
        records: list[Record] = []
        if self._held:
            data = bytes(self._held) + data
            self._held.clear()
        pos, end = 0, len(data)
        while True:
            kind = self._type
            if kind is None:
                try:
                    kind, after = decode_quic(data, pos, end)
                    length, after = decode_quic(data, after, end)
                except IncompleteError:
                    self._held += data[pos:end]
                    return records
                pos = after
                self._begin(kind, length)
            limit = self._limits.get(kind)
            here = min(self._left, end - pos)
            if limit is None or limit == STREAMED:
                if limit is not None and here:
                    records.append(Record(kind, data[pos : pos + here]))
                self._left -= here
                pos += here
                if self._left:
                    return records
            else:
                if here < self._left:
                    self._held += data[pos:end]
                    return records
                records.append(Record(kind, data[pos : pos + here]))
                pos += here
            self._type = None

    @property
    def type(self) -> int | None:
        """The type of the incomplete record at the end; None between two records."""
        return self._type

    def finish(self) -> None:
        """Check the end of the stream; raises :class:`H3Error` inside a record (RFC 9114, 7.1)."""
        if self._type is not None or self._held:
            raise H3Error(self._error, "the stream ended in the middle of a frame or capsule")

    def _begin(self, kind: int, length: int) -> None:
        limit = self._limits.get(kind)
        if limit == 0:
            raise H3Error(H3Code.FRAME_UNEXPECTED, f"a frame of type {kind:#x} may not stand here")
        if limit is not None and limit != STREAMED and length > limit:
            raise H3Error(
                H3Code.EXCESSIVE_LOAD if kind == FrameType.HEADERS else self._error,
                f"type {kind:#x} with {length} bytes: at most {limit} are taken",
            )
        self._type, self._left = kind, length


def encode_record(kind: int, value: bytes) -> bytes:
    """Encode a frame or capsule."""
    return encode_quic(kind) + encode_quic(len(value)) + value


def encode_settings(settings: Mapping[int, int]) -> bytes:
    """Encode the value of a SETTINGS frame."""
    return b"".join(encode_quic(key) + encode_quic(value) for key, value in settings.items())


def decode_settings(data: bytes) -> dict[int, int]:
    """Decode the value of a SETTINGS frame (RFC 9114, 7.2.4)."""
    settings: dict[int, int] = {}
    pos, end = 0, len(data)
    while pos < end:
        try:
            key, pos = decode_quic(data, pos, end)
            value, pos = decode_quic(data, pos, end)
        except IncompleteError:
            raise H3Error(H3Code.FRAME_ERROR, "SETTINGS ends in the middle of a setting") from None
        if key in settings:
            raise H3Error(H3Code.SETTINGS_ERROR, f"setting {key:#x} stands twice")
        if key in HTTP2_SETTINGS:
            raise H3Error(H3Code.SETTINGS_ERROR, f"setting {key:#x} is HTTP/2's")
        if key in (Setting.ENABLE_CONNECT_PROTOCOL, Setting.H3_DATAGRAM) and value > 1:
            raise H3Error(H3Code.SETTINGS_ERROR, f"setting {key:#x} is {value}: not 0 or 1")
        settings[key] = value
    return settings


class CloseSession(NamedTuple):
    """The content of CLOSE_WEBTRANSPORT_SESSION."""

    code: int
    reason: str


def encode_close(code: int, reason: str) -> bytes:
    """Encode a CLOSE_WEBTRANSPORT_SESSION capsule; code and reason are cut to their limits."""
    text = reason.encode()[:MAX_CLOSE_REASON].decode(errors="ignore").encode()
    return encode_record(CapsuleType.CLOSE_SESSION, min(code, 0xFFFFFFFF).to_bytes(4, "big") + text)


def decode_close(value: bytes) -> CloseSession:
    """Decode the value of a CLOSE_WEBTRANSPORT_SESSION capsule."""
    if len(value) < 4:
        raise H3Error(H3Code.MESSAGE_ERROR, "CLOSE_WEBTRANSPORT_SESSION without its code")
    return CloseSession(int.from_bytes(value[:4], "big"), value[4:].decode(errors="replace"))
