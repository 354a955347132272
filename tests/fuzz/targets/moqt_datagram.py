"""Datagrams of both drafts, and the extensions in them: the first byte chooses the draft."""

from __future__ import annotations

import contextlib

from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.moqt.data import (
    ObjectDatagram,
    ObjectStatus,
    PaddingDatagram,
    decode_datagram,
    encode_datagram,
    object_extensions,
)
from laps_wire.moqt.data.types import encode_extensions, parse_extensions
from laps_wire.moqt.versions import Draft


def one_input(data: bytes) -> None:
    """Read one datagram and what its extensions say."""
    draft = Draft.D18 if data[:1] > b"\x7f" else Draft.D16
    try:
        datagram = decode_datagram(data[1:], draft)
    except (IncompleteError, RemoteError):
        return
    again = encode_datagram(datagram, draft)
    if decode_datagram(again, draft) != datagram or len(again) > len(data) - 1:
        raise AssertionError(f"{again.hex()} is not {data[1:].hex()}")
    if isinstance(datagram, ObjectDatagram):
        with contextlib.suppress(IncompleteError, RemoteError):
            object_extensions(datagram.to_object().header, draft)
        with contextlib.suppress(IncompleteError, RemoteError):
            extensions = parse_extensions(datagram.extensions, draft)
            block = encode_extensions(extensions.pairs, draft)
            if parse_extensions(block, draft) != extensions:
                raise AssertionError(f"{block.hex()} is not {datagram.extensions.hex()}")


def seeds() -> list[bytes]:
    """A few datagrams."""
    out = []
    for first, draft in ((b"\x00", Draft.D16), (b"\xff", Draft.D18)):
        pairs = bytes.fromhex("0205 0904 3c020201")
        datagrams: list[ObjectDatagram | PaddingDatagram] = [
            ObjectDatagram(0x1234, 70, 3, b"payload", 128),
            ObjectDatagram(1, 2, 0, b"p", None, ObjectStatus.NORMAL, pairs, end_of_group=True),
            ObjectDatagram(1, 2, 3, status=ObjectStatus.END_OF_TRACK),
        ]
        if draft >= Draft.D18:
            datagrams.append(PaddingDatagram(4))
        out += [first + encode_datagram(datagram, draft) for datagram in datagrams]
    return out
