"""Names as text: what parses prints as the same text; and short names likewise."""

from __future__ import annotations

from laps_wire.errors import TextFormError
from laps_wire.names import FullTrackName, Namespace
from laps_wire.quicr.shortname import ShortName


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for kind in (FullTrackName, Namespace, ShortName):
        try:
            value = kind.parse(text)
        except TextFormError:
            continue
        assert str(value) == text
        assert kind.parse(str(value)) == value


def seeds() -> list[bytes]:
    return [
        b"example.2enet-team2-project_x--report",
        b"--",
        b".00.ff-a--.2d",
        b"example.2enet-team2",
        b"00000000010000000000000000000000/40",
    ]
