"""QuicR's control channel: a stream of messages; what is read is written and read again."""

from __future__ import annotations

from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.quicr import decode, encode


def one_input(data: bytes) -> None:
    for untyped in (False, True):
        pos = 0
        while pos < len(data):
            try:
                message, end = decode(data, pos=pos, untyped_reply=untyped)
            except (IncompleteError, RemoteError):
                break
            assert pos + 3 <= end <= len(data)
            again = encode(message)
            assert decode(again) == (message, len(again))
            pos = end


def seeds() -> list[bytes]:
    name = "000000000100000008003000000003e8"
    return [
        bytes.fromhex(text)
        for text in (
            f"0014 01 10 {name} 80 01",
            f"0016 02 10 {name} 80 00 44d2",
            "0005 10 02 02 6e6f 0001 02",
            f"0016 11 10 {name} 03 627965",
            "0012 12 10 72322e6578616d706c653a3333343335",
            f"0013 06 10 {name} 01 0003 07 01 11 0003 08 04 09",
            "0016 05 00 8001e240 49a5 0d 0102030405060708090a0b0c0d 0006 03 11 8001e240",
            f"0025 20 05 02 {name} 54 {name} 80",
            f"0015 21 05 01 {name} 54 00 0007 22 05 00 03 627965",
            f"0026 24 09 01 {name} 54 11 61636d652e6d656574696e67732e636f6d",
            f"0014 26 {name} 54 43e8",
            f"0019 3f {name} 1d 03 47d0 43e8 6869",
        )
    ]
