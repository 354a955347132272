"""HTTP/3 as WebTransport needs it: numbers, records, header fields and the critical streams.

Sources are RFC 9114 (HTTP/3), RFC 9204 (QPACK), RFC 9220 (extended CONNECT), RFC 9297 (datagrams,
capsules) and draft-ietf-webtrans-http3. Chromium implements draft 02, others 07 and later.

**Records** have a type, a length and a value: the frames of HTTP/3 and the capsules of RFC 9297::

    +-----------+-------------+------------------+
    | type (i)  | length (i)  | value (length)   |      (RFC 9114, 7.1)  (RFC 9297, 3.2)
    +-----------+-------------+------------------+

A :class:`RecordReader` turns the bytes of a stream into records. For each type it is set to

- *keep* the value: it returns the value whole, and a longer value than the limit is an error;
- *stream* the value: it returns the value in pieces, as they arrive;
- skip the record, without holding it. This applies to all other types.

So a peer cannot make the reader hold more than the limits of the kept types.

**Header fields** of requests and responses are coded with QPACK and structured fields::

    HEADERS --FieldCoder.decode--> fields --parse_request, parse_response--> Request, Response
    fields --FieldCoder.encode--> HEADERS

QPACK runs without a dynamic table (capacity 0 both ways). So field sections never wait for one
another, and a peer cannot make us hold state. A connection has few requests and needs no more.

**The critical streams** are the control stream with SETTINGS, and those of QPACK::

    peer's control stream -------> ControlStream ---> settings, or H3Error
    peer's QPACK streams --------> FieldCoder
    ours: OPENING, the first bytes of our three streams; nothing follows on them
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, NoReturn

import pylsqpack

from laps_wire.buffer import decode_quic, encode_quic
from laps_wire.errors import IncompleteError, RemoteError

__all__ = [
    "CAPSULES",
    "CONTROL_FRAMES",
    "MAX_CLOSE_REASON",
    "MAX_FIELD_SECTION",
    "OPENING",
    "REQUEST_FRAMES",
    "SETTINGS",
    "STREAMED",
    "CapsuleType",
    "CloseSession",
    "ControlStream",
    "CriticalStreams",
    "Field",
    "FieldCoder",
    "FrameType",
    "H3Code",
    "H3Error",
    "Record",
    "RecordReader",
    "Request",
    "Response",
    "Setting",
    "StreamType",
    "choose_protocol",
    "decode_close",
    "decode_settings",
    "encode_close",
    "encode_record",
    "encode_settings",
    "format_strings",
    "from_http_code",
    "offers_webtransport",
    "parse_request",
    "parse_response",
    "parse_string",
    "parse_strings",
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


Field = tuple[bytes, bytes]

UPGRADE_TOKENS: Final = frozenset({"webtransport", "webtransport-h3"})
"""Values of ``:protocol``; the newest drafts use the second."""

AVAILABLE_PROTOCOLS: Final = b"wt-available-protocols"
PROTOCOL: Final = b"wt-protocol"

_REQUEST_PSEUDO: Final = frozenset({b":method", b":scheme", b":authority", b":path", b":protocol"})
_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_MAX_PROTOCOLS: Final = 64


class FieldCoder:
    """QPACK of one connection with the static table only."""

    __slots__ = ("_decoder", "_encoder")

    def __init__(self) -> None:
        self._encoder = pylsqpack.Encoder()
        self._decoder = pylsqpack.Decoder(0, 0)

    def encode(self, stream_id: int, fields: Sequence[Field]) -> bytes:
        """Encode a field section."""
        _, section = self._encoder.encode(stream_id, list(fields))
        return section

    def decode(self, stream_id: int, section: bytes) -> list[Field]:
        """Decode a field section."""
        try:
            _, fields = self._decoder.feed_header(stream_id, section)
        except (pylsqpack.DecompressionFailed, pylsqpack.StreamBlocked):
            raise H3Error(
                H3Code.QPACK_DECOMPRESSION_FAILED, "a field section that QPACK cannot read"
            ) from None
        return fields

    def feed_encoder_stream(self, data: bytes) -> None:
        """Read the peer's encoder stream; it may only set the table size to 0."""
        try:
            self._decoder.feed_encoder(data)
        except pylsqpack.EncoderStreamError:
            raise H3Error(
                H3Code.QPACK_ENCODER_STREAM_ERROR, "no dynamic table was offered"
            ) from None

    def feed_decoder_stream(self, data: bytes) -> None:
        """Read the peer's decoder stream, which acknowledges our field sections."""
        try:
            self._encoder.feed_decoder(data)
        except pylsqpack.DecoderStreamError:
            raise H3Error(
                H3Code.QPACK_DECODER_STREAM_ERROR, "it acknowledges what was not sent"
            ) from None


# Structured fields (RFC 9651): the strings and lists of strings that WebTransport needs.


def format_strings(values: Iterable[str]) -> bytes:
    """Encode a list of strings, which must be printable ASCII."""
    return ", ".join(
        '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values
    ).encode("ascii")


def parse_string(value: bytes) -> str | None:
    """Return the string in the value; None if it is anything else."""
    values = parse_strings(value)
    return values[0] if len(values) == 1 else None


def parse_strings(value: bytes) -> tuple[str, ...]:
    """Return the strings in a list; an unparsable value gives an empty list.

    Early drafts used tokens instead of strings, so a bare word counts as a string. Other members
    and parameters are skipped.
    """
    text = value.decode("latin-1").strip(" \t")
    found: list[str] = []
    pos = 0
    while pos < len(text) and len(found) < _MAX_PROTOCOLS:
        item, pos = _item(text, pos)
        if item is None:
            return ()
        found.append(item)
        while pos < len(text) and text[pos] in " \t":
            pos += 1
        if pos == len(text):
            return tuple(found)
        if text[pos] != ",":
            return ()
        pos += 1
        while pos < len(text) and text[pos] in " \t":
            pos += 1
        if pos == len(text):  # a comma at the end (RFC 9651, 4.2.1)
            return ()
    return tuple(found)


def _item(text: str, pos: int) -> tuple[str | None, int]:
    if text[pos] == '"':
        item, pos = _quoted(text, pos + 1)
    else:
        start = pos
        while pos < len(text) and text[pos] not in ' \t,;"':
            pos += 1
        item = text[start:pos] or None
    while item is not None and pos < len(text) and text[pos] == ";":
        pos += 1
        while pos < len(text) and text[pos] not in ',;"':
            pos += 1
        if pos < len(text) and text[pos] == '"':
            skipped, pos = _quoted(text, pos + 1)
            if skipped is None:
                return None, pos
    return item, pos


def _quoted(text: str, pos: int) -> tuple[str | None, int]:
    out: list[str] = []
    while pos < len(text):
        char = text[pos]
        pos += 1
        if char == '"':
            return "".join(out), pos
        if char == "\\":
            if pos == len(text) or text[pos] not in '"\\':
                return None, pos
            char = text[pos]
            pos += 1
        elif not " " <= char <= "~":
            return None, pos
        out.append(char)
    return None, pos


def choose_protocol(offered: Sequence[str], spoken: Sequence[str]) -> str | None:
    """Return the first of our protocols that the client offered; None if there is none."""
    return next((protocol for protocol in spoken if protocol in offered), None)


# Messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The fields of a request that the server reads."""

    method: str
    authority: str
    path: str
    protocol: str
    """``:protocol`` of an extended CONNECT; "" if it is missing."""
    available: tuple[str, ...]
    """``wt-available-protocols``."""
    draft02: bool
    """Whether the client asks for draft 02 with its own field, which needs an answer."""

    @property
    def is_webtransport(self) -> bool:
        """Whether the request asks for a session."""
        return self.method == "CONNECT" and self.protocol in UPGRADE_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The fields of a response that the client reads."""

    status: int
    protocol: str | None
    """``wt-protocol``."""


def parse_request(fields: Sequence[Field]) -> Request:
    """Parse a request's fields; raises ``H3Error`` for the stream (RFC 9114, 4.3.1)."""
    pseudo, regular = _split(fields, _REQUEST_PSEUDO)
    method = pseudo.get(b":method", "")
    protocol = pseudo.get(b":protocol", "")
    if not method:
        raise H3Error(H3Code.MESSAGE_ERROR, "a request without :method")
    if protocol and method != "CONNECT":
        raise H3Error(H3Code.MESSAGE_ERROR, ":protocol belongs to CONNECT")
    authority = pseudo.get(b":authority") or regular.get(b"host", b"").decode("latin-1")
    if (method != "CONNECT" or protocol) and not (
        pseudo.get(b":scheme") and pseudo.get(b":path") and authority
    ):
        raise H3Error(H3Code.MESSAGE_ERROR, "a request without :scheme, :authority or :path")
    return Request(
        method=method,
        authority=authority,
        path=pseudo.get(b":path", ""),
        protocol=protocol,
        available=parse_strings(regular.get(AVAILABLE_PROTOCOLS, b"")),
        draft02=regular.get(b"sec-webtransport-http3-draft02") == b"1",
    )


def parse_response(fields: Sequence[Field]) -> Response:
    """Parse a response's fields; raises ``H3Error`` if malformed (RFC 9114, 4.3.2)."""
    pseudo, regular = _split(fields, frozenset({b":status"}))
    status = pseudo.get(b":status", "")
    if len(status) != 3 or not status.isascii() or not status.isdigit():
        raise H3Error(H3Code.MESSAGE_ERROR, f"a response with :status {status!a}")
    chosen = regular.get(PROTOCOL)
    return Response(status=int(status), protocol=None if chosen is None else parse_string(chosen))


def _split(
    fields: Sequence[Field], allowed: frozenset[bytes]
) -> tuple[dict[bytes, str], dict[bytes, bytes]]:
    pseudo: dict[bytes, str] = {}
    regular: dict[bytes, bytes] = {}
    for name, value in fields:
        if name.startswith(b":"):
            if name not in allowed or name in pseudo or regular:
                raise H3Error(H3Code.MESSAGE_ERROR, f"{name!a} may not stand here")
            pseudo[name] = value.decode("latin-1")
            continue
        if not name or name != name.lower() or name in _HOP_BY_HOP:
            raise H3Error(H3Code.MESSAGE_ERROR, f"a field {name!a} may not be sent")
        # Repeated fields are one list (RFC 9110, 5.3).
        regular[name] = regular[name] + b", " + value if name in regular else value
    return pseudo, regular


SETTINGS: Final[Mapping[int, int]] = {
    Setting.QPACK_MAX_TABLE_CAPACITY: 0,
    Setting.MAX_FIELD_SECTION_SIZE: MAX_FIELD_SECTION,
    Setting.QPACK_BLOCKED_STREAMS: 0,
    Setting.ENABLE_CONNECT_PROTOCOL: 1,
    Setting.H3_DATAGRAM: 1,
    Setting.ENABLE_WEBTRANSPORT_02: 1,
    Setting.MAX_SESSIONS_02: 1,
    Setting.WT_MAX_SESSIONS_07: 1,
    Setting.WT_MAX_SESSIONS_14: 1,
}
"""Our SETTINGS: all codepoints with which the drafts announce WebTransport, one session."""

OPENING: Final = (
    encode_quic(StreamType.CONTROL) + encode_record(FrameType.SETTINGS, encode_settings(SETTINGS)),
    encode_quic(StreamType.QPACK_ENCODER),
    encode_quic(StreamType.QPACK_DECODER),
)
"""The first bytes of our three critical streams; nothing follows on them."""

_SIGNS: Final = (
    Setting.ENABLE_WEBTRANSPORT_02,
    Setting.WT_MAX_SESSIONS_07,
    Setting.WT_MAX_SESSIONS_14,
)


def offers_webtransport(settings: Mapping[int, int]) -> bool:
    """Return whether these SETTINGS of a server offer sessions by any of the drafts."""
    return settings.get(Setting.ENABLE_CONNECT_PROTOCOL) == 1 and any(
        settings.get(sign, 0) > 0 for sign in _SIGNS
    )


class ControlStream:
    """Reads the peer's control stream (RFC 9114, 6.2.1 and 7.2)."""

    __slots__ = ("_from_client", "_goaway", "_max_push", "_reader", "_settled")

    def __init__(self, *, from_client: bool) -> None:
        self._from_client = from_client
        self._reader = RecordReader(CONTROL_FRAMES)
        self._settled = False
        self._goaway: int | None = None
        self._max_push = 0

    def feed(self, data: bytes) -> dict[int, int] | None:
        """Read the next bytes; return the SETTINGS when they are complete, otherwise None.

        Raises ``H3Error`` for a frame that is malformed or not allowed.
        """
        settings: dict[int, int] | None = None
        for record in self._reader.feed(data):
            if record.type == FrameType.SETTINGS:
                if self._settled:
                    raise H3Error(H3Code.FRAME_UNEXPECTED, "a second SETTINGS frame")
                self._settled = True
                settings = decode_settings(record.value)
                continue
            self._frame(record)
        if not self._settled and self._reader.type not in (None, FrameType.SETTINGS):
            raise H3Error(H3Code.MISSING_SETTINGS, "the control stream begins without SETTINGS")
        return settings

    def _frame(self, record: Record) -> None:
        if not self._settled:
            raise H3Error(H3Code.MISSING_SETTINGS, "the control stream begins without SETTINGS")
        number = _only_integer(record)
        if record.type == FrameType.GOAWAY:
            # A server names the first request that it will not serve, a client a push.
            if not self._from_client and number & 3:
                raise H3Error(H3Code.ID_ERROR, f"GOAWAY names {number}, which is no request")
            if self._goaway is not None and number > self._goaway:
                raise H3Error(H3Code.ID_ERROR, "a GOAWAY takes back the one before it")
            self._goaway = number
        elif record.type == FrameType.MAX_PUSH_ID:
            if not self._from_client:
                raise H3Error(H3Code.FRAME_UNEXPECTED, "MAX_PUSH_ID is a client's frame")
            if number < self._max_push:
                raise H3Error(H3Code.ID_ERROR, "MAX_PUSH_ID goes back")
            self._max_push = number
        else:
            raise H3Error(H3Code.ID_ERROR, f"CANCEL_PUSH {number}: there is no push")


class CriticalStreams:
    """The peer's control and QPACK streams: one of each, and none may end (RFC 9114, 6.2.1)."""

    __slots__ = ("_coder", "_control", "_kinds", "settings")

    def __init__(self, coder: FieldCoder, *, from_client: bool) -> None:
        self._coder = coder
        self._control = ControlStream(from_client=from_client)
        self._kinds: dict[int, StreamType] = {}
        self.settings: dict[int, int] | None = None
        """The peer's SETTINGS; None before they arrive."""

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._kinds

    @property
    def takes_datagrams(self) -> bool:
        """Whether the peer's SETTINGS allow HTTP datagrams (RFC 9297, 2.1.1)."""
        return self.settings is not None and self.settings.get(Setting.H3_DATAGRAM) == 1

    def open(self, stream_id: int, kind: StreamType) -> None:
        """Register a stream of this kind; raises ``H3Error`` for the second of a kind."""
        if kind in self._kinds.values():
            raise H3Error(H3Code.STREAM_CREATION_ERROR, f"a second {kind.name} stream")
        self._kinds[stream_id] = kind

    def feed(self, stream_id: int, data: bytes, fin: bool) -> bool:
        """Read the next bytes of a stream; return whether they completed ``settings``."""
        kind = self._kinds[stream_id]
        arrived = None
        if kind == StreamType.QPACK_ENCODER:
            self._coder.feed_encoder_stream(data)
        elif kind == StreamType.QPACK_DECODER:
            self._coder.feed_decoder_stream(data)
        else:
            arrived = self._control.feed(data)
            if arrived is not None:
                self.settings = arrived
        if fin:
            self.lost(stream_id)
        return arrived is not None

    def lost(self, stream_id: int) -> NoReturn:
        """Raise ``H3Error``, because a critical stream ended or was reset."""
        name = self._kinds[stream_id].name
        raise H3Error(H3Code.CLOSED_CRITICAL_STREAM, f"the {name} stream ended")


def _only_integer(record: Record) -> int:
    try:
        number, pos = decode_quic(record.value, 0, len(record.value))
    except IncompleteError:
        pos, number = -1, 0
    if pos != len(record.value):
        raise H3Error(H3Code.FRAME_ERROR, f"frame {record.type:#x} holds not just one integer")
    return number
