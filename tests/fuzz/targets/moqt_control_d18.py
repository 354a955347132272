"""Control messages of draft 18: bytes are a message, partial, or the peer's fault."""

from __future__ import annotations

import json
from pathlib import Path

from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.moqt.control import decode, encode
from laps_wire.moqt.versions import Draft

DRAFT = Draft.D18
VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "moqt" / "draft18.json"


def one_input(data: bytes) -> None:
    """Read messages one after the other; each must read again as itself."""
    pos = 0
    while pos < len(data):
        try:
            message, pos = decode(data, DRAFT, pos=pos)
        except (IncompleteError, RemoteError):
            return
        written = encode(message, DRAFT)
        if decode(written, DRAFT) != (message, len(written)):
            raise AssertionError(f"{written.hex()} is not {message!r}")


def seeds() -> list[bytes]:
    """The byte vectors, bad ones too."""
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]
    return [bytes.fromhex(vector["hex"]) for vector in vectors]
