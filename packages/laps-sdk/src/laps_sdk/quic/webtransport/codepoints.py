"""The numbers of HTTP/3 and WebTransport, and the mapping of WebTransport's error codes.

Sources are RFC 9114 (HTTP/3), RFC 9204 (QPACK), RFC 9220 (extended CONNECT), RFC 9297 (datagrams,
capsules) and draft-ietf-webtrans-http3. Chromium implements draft 02, others 07 and later.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from laps_wire.errors import RemoteError

__all__ = [
    "CapsuleType",
    "FrameType",
    "H3Code",
    "H3Error",
    "Setting",
    "StreamType",
    "from_http_code",
    "to_http_code",
]


class FrameType(IntEnum):
    """Frames that are read or refused (RFC 9114, 7.2); all others are skipped."""

    DATA = 0x0
    HEADERS = 0x1
    CANCEL_PUSH = 0x3
    SETTINGS = 0x4
    PUSH_PROMISE = 0x5
    GOAWAY = 0x7
    MAX_PUSH_ID = 0xD
    WT_STREAM = 0x41
    """No frame: the first integer of a session's bidirectional stream (webtrans-http3-07, 4.2)."""


HTTP2_FRAMES: Final = frozenset({0x2, 0x6, 0x8, 0x9})
"""Frames of HTTP/2 that are an error in HTTP/3 (RFC 9114, 7.2.8)."""


class StreamType(IntEnum):
    """The first integer of a unidirectional stream (RFC 9114, 6.2)."""

    CONTROL = 0x0
    PUSH = 0x1
    QPACK_ENCODER = 0x2
    QPACK_DECODER = 0x3
    WT_STREAM = 0x54


class Setting(IntEnum):
    """SETTINGS that are sent or read (RFC 9114, 7.2.4.1)."""

    QPACK_MAX_TABLE_CAPACITY = 0x1
    MAX_FIELD_SECTION_SIZE = 0x6
    QPACK_BLOCKED_STREAMS = 0x7
    ENABLE_CONNECT_PROTOCOL = 0x8
    H3_DATAGRAM = 0x33
    WT_MAX_SESSIONS_14 = 0x14E9CD29
    ENABLE_WEBTRANSPORT_02 = 0x2B603742
    MAX_SESSIONS_02 = 0x2B603743
    WT_MAX_SESSIONS_07 = 0xC671706A


HTTP2_SETTINGS: Final = frozenset({0x2, 0x3, 0x4, 0x5})
"""Settings of HTTP/2 that must not be sent (RFC 9114, 7.2.4.1)."""


class CapsuleType(IntEnum):
    """Capsules on the CONNECT stream (webtrans-http3-07, 5 and 8.4); all others are skipped."""

    CLOSE_SESSION = 0x2843
    DRAIN_SESSION = 0x78AE


class H3Code(IntEnum):
    """Error codes of HTTP/3, QPACK, HTTP datagrams and WebTransport."""

    DATAGRAM_ERROR = 0x33
    NO_ERROR = 0x100
    GENERAL_PROTOCOL_ERROR = 0x101
    INTERNAL_ERROR = 0x102
    STREAM_CREATION_ERROR = 0x103
    CLOSED_CRITICAL_STREAM = 0x104
    FRAME_UNEXPECTED = 0x105
    FRAME_ERROR = 0x106
    EXCESSIVE_LOAD = 0x107
    ID_ERROR = 0x108
    SETTINGS_ERROR = 0x109
    MISSING_SETTINGS = 0x10A
    REQUEST_REJECTED = 0x10B
    REQUEST_CANCELLED = 0x10C
    REQUEST_INCOMPLETE = 0x10D
    MESSAGE_ERROR = 0x10E
    CONNECT_ERROR = 0x10F
    QPACK_DECOMPRESSION_FAILED = 0x200
    QPACK_ENCODER_STREAM_ERROR = 0x201
    QPACK_DECODER_STREAM_ERROR = 0x202
    WT_SESSION_GONE = 0x170D7B68
    WT_BUFFERED_STREAM_REJECTED = 0x3994BD84


class H3Error(RemoteError):
    """The peer broke HTTP/3 or WebTransport; ``h3_code`` is the code to close with."""

    def __init__(self, h3_code: H3Code, reason: str) -> None:
        super().__init__(reason)
        self.h3_code = h3_code


_FIRST: Final = 0x52E4A40FA8DB
_LAST: Final = 0x52E5AC983162
_CODE_MAX: Final = 0xFFFFFFFF


def to_http_code(code: int) -> int:
    """Return the HTTP/3 code for a session's RESET_STREAM or STOP_SENDING (webtrans-http3-07, 4.3).

    Every 31st number of the range is reserved for greasing and left out. Codes of a session have 32
    bits: a greater one becomes the greatest.
    """
    code = min(code, _CODE_MAX)
    return _FIRST + code + code // 0x1E


def from_http_code(http_code: int) -> int:
    """Return the session's code; 0 if the HTTP/3 code is outside the range of sessions."""
    if not _FIRST <= http_code <= _LAST or (http_code - 0x21) % 0x1F == 0:
        return 0
    shifted = http_code - _FIRST
    return shifted - shifted // 0x1F
