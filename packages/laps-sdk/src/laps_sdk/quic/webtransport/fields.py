"""Header fields of requests and responses: QPACK, structured fields, and required fields.

::

    HEADERS --FieldCoder.decode--> fields --parse_request, parse_response--> Request, Response
    fields --FieldCoder.encode--> HEADERS

QPACK runs without a dynamic table (capacity 0 both ways). So field sections never wait for one
another, and a peer cannot make us hold state. A connection has few requests and needs no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pylsqpack

from laps_sdk.quic.webtransport.codepoints import H3Code, H3Error

__all__ = [
    "Field",
    "FieldCoder",
    "Request",
    "Response",
    "choose_protocol",
    "format_strings",
    "parse_request",
    "parse_response",
    "parse_string",
    "parse_strings",
]

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
