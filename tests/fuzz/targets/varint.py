"""Both integer codings: what decodes encodes to at most as many bytes, and back to itself."""

from __future__ import annotations

from laps_wire.buffer import QUIC, VI64
from laps_wire.errors import IncompleteError


def one_input(data: bytes) -> None:
    for coding in (QUIC, VI64):
        try:
            value, end = coding.decode(data, 0, len(data))
        except IncompleteError:
            continue
        shortest = coding.encode(value)
        assert len(shortest) <= end <= len(data)
        assert coding.decode(shortest, 0, len(shortest)) == (value, len(shortest))


def seeds() -> list[bytes]:
    return [b"\x25", b"\x40\x25", b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c", b"\xff" * 9]
