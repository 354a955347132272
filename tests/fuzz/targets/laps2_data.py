"""laps-2 data headers: both readers agree, and a hop changes four bytes only."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from laps_wire.buffer import Reader
from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.peering.laps2.forwarding import (
    decode_data_header,
    encode_data_header,
    read_data_header,
    rewrite_sns_id,
    sns_id_at,
    split,
)

_VECTORS = Path(__file__).parents[2] / "vectors" / "laps2.json"


def one_input(data: bytes) -> None:
    """Read a header fast and carefully, write it, and forward it."""
    with contextlib.suppress(RemoteError):
        split(data)
    try:
        header = decode_data_header(data)
    except (IncompleteError, RemoteError) as error:
        _check_refused(data, error)
        return
    if read_data_header(Reader(data, partial=True)) != header:
        raise AssertionError("the two readers differ")
    if encode_data_header(header) != data[: header.size]:
        raise AssertionError(f"{header} does not survive")
    with contextlib.suppress(RemoteError):
        len(header.parameters)
    copy = bytearray(data)
    other = header.sns_id ^ 0xFFFF_FFFF
    rewrite_sns_id(copy, other)
    if sns_id_at(copy) != other or copy[:4] + copy[8:] != data[:4] + data[8:]:
        raise AssertionError("a hop changed more than the SNS ID")


def _check_refused(data: bytes, error: Exception) -> None:
    try:
        read_data_header(Reader(data, partial=True))
    except (IncompleteError, RemoteError) as other:
        if type(other) is not type(error):
            raise AssertionError(f"the two readers differ: {error!r}, {other!r}") from None
        return
    raise AssertionError(f"only one reader refused: {error!r}")


def seeds() -> list[bytes]:
    """Every vector, with a payload, and those that must be refused."""
    vectors = json.loads(_VECTORS.read_text())
    return [
        bytes.fromhex(vector["hex"]) + b"payload"
        for vector in vectors["data_headers"] + vectors["data_errors"]
    ]
