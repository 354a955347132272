"""Header fields of HTTP/3: field sections, requests and responses, and structured strings."""

from __future__ import annotations

import contextlib

from laps_sdk.quic.webtransport.h3 import (
    FieldCoder,
    H3Error,
    format_strings,
    parse_request,
    parse_response,
    parse_strings,
)


def one_input(data: bytes) -> None:
    """Read ``data`` as a list of strings, and as a field section."""
    values = parse_strings(data)
    plain = [value for value in values if value.isascii() and value.isprintable()]
    assert list(parse_strings(format_strings(plain))) == plain
    with contextlib.suppress(H3Error):
        fields = FieldCoder().decode(0, data)
        with contextlib.suppress(H3Error):
            parse_response(fields)
        parse_request(fields)


def seeds() -> list[bytes]:
    """A request, a response, and lists of strings."""
    request = [
        (b":method", b"CONNECT"),
        (b":scheme", b"https"),
        (b":authority", b"h"),
        (b":path", b"/"),
        (b":protocol", b"webtransport"),
        (b"wt-available-protocols", b'"moqt-18"'),
    ]
    response = [(b":status", b"200"), (b"wt-protocol", b'"moqt-18"')]
    coder = FieldCoder()
    return [
        coder.encode(0, request),
        coder.encode(0, response),
        b'"moqt-18", "moqt-16"',
        b'a;b="c;,", "d\\""',
    ]
