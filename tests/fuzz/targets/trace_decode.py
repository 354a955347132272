"""The trace of any bytes: every protocol, the guess, both renderings, and hexadecimal text."""

from __future__ import annotations

import json

from laps_wire.errors import TextFormError
from laps_wire.trace.decode import Status, decode, guess
from laps_wire.trace.hextext import parse_hex
from laps_wire.trace.protocols import PROTOCOLS
from laps_wire.trace.text import as_dicts, render

NAMES = list(PROTOCOLS)


def one_input(data: bytes) -> None:
    """The first byte chooses a protocol, or all of them, or text."""
    if not data:
        return
    choice, rest = data[0], data[1:]
    if choice == 0xFF:
        try:
            rest = parse_hex(rest.decode("latin-1"))
        except TextFormError:
            return
    if choice >= 0xFE:
        decoded = guess(PROTOCOLS.values(), rest)[0]
    else:
        decoded = decode(PROTOCOLS[NAMES[choice % len(NAMES)]], rest)
    pos = 0
    for traced in decoded.messages:
        for path, leaf in traced.root.leaves():
            if leaf.start != pos or leaf.end < pos:
                raise AssertionError(f"{decoded.protocol.name}: {path} does not begin at {pos}")
            pos = leaf.end
    if decoded.status is Status.OK and pos != len(rest):
        raise AssertionError(f"{decoded.protocol.name}: {len(rest) - pos} bytes without a field")
    for line in render(decoded):
        if not line.isprintable():
            raise AssertionError(f"not printable: {line!a}")
    for plain in as_dicts(decoded):
        json.dumps(plain, allow_nan=False)


def seeds() -> list[bytes]:
    """A message of each family, a guess, and a dump as text."""
    connect = bytes.fromhex(
        "0100010000002202b97e0ef037b17f89010772656c61792d6100000000000000000000000000000000"
    )
    stream = bytes.fromhex("13020000000206563237cfe9cbb0800000138815c6563237cfe9cbb000008000000161")
    messages = {
        "laps-cpp": connect,
        "laps-cpp-data": stream,
        "laps-2": bytes.fromhex("120201006400020000000100"),
        "laps-2-data": bytes.fromhex("181080100000000106563237cfe9cbb00badcafe00001388"),
        "moqt-16": bytes.fromhex("1500024064"),
        "moqt-16-uni": stream[19:],
        "moqt-18": bytes.fromhex("af00000a80f10772656c61792d61"),
        "quicr": bytes.fromhex("0003010000"),
    }
    chosen = [bytes([NAMES.index(name)]) + data for name, data in messages.items()]
    return [*chosen, b"\xfe" + connect, b"\xff" + connect.hex(" ").encode()]
