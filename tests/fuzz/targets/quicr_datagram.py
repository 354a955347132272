"""QuicR's datagrams: the fast reader, the traced one, PUBLISH, and writing all of it again."""

from __future__ import annotations

from laps_wire.buffer import Reader
from laps_wire.errors import RemoteError
from laps_wire.quicr import (
    DatagramFragment,
    decode_datagram,
    decode_header,
    encode_datagram,
    encode_publish,
    read_header,
)


def one_input(data: bytes) -> None:
    try:
        datagram = decode_datagram(data)
    except RemoteError:
        return
    if not isinstance(datagram, DatagramFragment):
        assert decode_datagram(encode_publish(datagram)) == datagram
        return
    reader = Reader(data)
    assert (read_header(reader), reader.pos) == decode_header(data)
    again = encode_datagram(datagram.header, datagram.data)
    assert len(again) <= len(data)
    assert decode_datagram(again) == datagram


def seeds() -> list[bytes]:
    return [
        bytes.fromhex(text)
        for text in (
            "44d2 01 00 00 00 05 1e 616263",
            "07 01 00 01 00 00 00",
            "07 01 00 06 00 00 64",
            "44d2 01 02 49a5 47d0 10 ff",
            "3f 000000000100000008003000000003e8 1d 03 47d0 43e8 6869",
            "403f 000000000100000008003000000003e8 00 02 00 00",
        )
    ]
