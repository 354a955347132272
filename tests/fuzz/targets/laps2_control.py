"""laps-2 control messages: a stream of any bytes, and what decodes must survive being written."""

from __future__ import annotations

import json
from pathlib import Path

from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.peering.laps2.handshake import Connect, ConnectResponse, Settings
from laps_wire.peering.laps2.messages import UnknownMessage, decode, encode

_VECTORS = Path(__file__).parents[2] / "vectors" / "laps2.json"


def one_input(data: bytes) -> None:
    """Read messages until the bytes end or are refused."""
    pos = 0
    while pos < len(data):
        try:
            message, after = decode(data, pos=pos)
        except (IncompleteError, RemoteError):
            return
        if not pos < after <= len(data):
            raise AssertionError(f"the reader went from {pos} to {after}")
        written = encode(message)
        # Shortest integers: what we write is never longer than what we read.
        if len(written) > after - pos:
            raise AssertionError(f"{len(written)} bytes written for {after - pos} read")
        if decode(written) != (message, len(written)):
            raise AssertionError(f"{message} does not survive")
        if isinstance(message, (Connect, ConnectResponse)):
            _check_settings(message)
        elif not isinstance(message, UnknownMessage):
            message.parameters.carried()
        pos = after


def _check_settings(message: Connect | ConnectResponse) -> None:
    try:
        settings = Settings.from_parameters(message.parameters)
    except RemoteError:
        return
    if Settings.from_parameters(settings.to_parameters()) != settings:
        raise AssertionError(f"{settings} do not survive")


def seeds() -> list[bytes]:
    """Every vector, alone and all in a row, and those that must be refused."""
    vectors = json.loads(_VECTORS.read_text())
    good = [bytes.fromhex(vector["hex"]) for vector in vectors["messages"]]
    bad = [bytes.fromhex(vector["hex"]) for vector in vectors["errors"]]
    return [*good, b"".join(good), *bad]
