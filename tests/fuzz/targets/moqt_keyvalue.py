"""Key-Value-Pairs in every frame and both integer codings; the first byte chooses."""

from __future__ import annotations

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.moqt.keyvalue import KEY_VALUES, KEY_VALUES_COUNTED, PrefixedKeyValues
from laps_wire.moqt.parameters import TrackProperties
from laps_wire.moqt.versions import Draft

CODECS = (KEY_VALUES, KEY_VALUES_COUNTED, PrefixedKeyValues(4096))


def one_input(data: bytes) -> None:
    """Read pairs; they must read again as themselves, and can be viewed as properties."""
    if not data:
        return
    codec = CODECS[data[0] % len(CODECS)]
    draft = Draft.D18 if data[0] & 0x80 else Draft.D16
    try:
        reader = Reader(data[1:], integers=draft.integers, partial=codec is not KEY_VALUES)
        pairs = codec.read(reader, "pairs")
    except (IncompleteError, RemoteError):
        return
    writer = Writer(integers=draft.integers)
    codec.write(writer, pairs, "pairs")
    if codec.read(Reader(writer.getvalue(), integers=draft.integers), "pairs") != pairs:
        raise AssertionError(f"{writer.getvalue().hex()} is not {pairs!r}")
    TrackProperties.of(pairs, draft)


def seeds() -> list[bytes]:
    """Pairs in each frame, with properties that a track may have."""
    return [
        bytes.fromhex(text)
        for text in (
            "00 02 05 01 02 6162 00 00 1f 412c",
            "01 04 02 05 01 02 6162 00 00 1f 412c",
            "02 0b 02 05 01 02 6162 00 00 1f 412c",
            "81 02 9388 09 04 0e05 2201 03 8080 14 02 0e 01",
            "80 ffffffffffffffffff 00",
        )
    ]
