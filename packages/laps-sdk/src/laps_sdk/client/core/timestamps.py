"""The capture time that publishers put on objects, and the latency that subscribers read from it.

One extension, an even type with an integer: microseconds since the Unix epoch. Relays hand it on
as they do with every extension that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from laps_wire.errors import EncodeError
from laps_wire.moqt.data.extensions import encode_extensions
from laps_wire.moqt.keyvalue import KeyValue, KeyValues
from laps_wire.moqt.versions import Draft

__all__ = ["CAPTURE_TIMESTAMP", "capture_time", "encode_object_extensions", "latency"]

CAPTURE_TIMESTAMP: Final = 0x14C50
"""The extension type of the capture time, in microseconds since the Unix epoch."""


def encode_object_extensions(
    pairs: Iterable[tuple[int, int | bytes]], stamp: float | None, draft: Draft
) -> bytes:
    """The extension block of an object; ``stamp`` is its capture time in seconds, None for none.

    A capture time among the pairs wins.
    """
    known = [KeyValue(type_, value) for type_, value in pairs]
    for type_, value in known:
        if isinstance(value, int) == bool(type_ & 1):
            wanted = "bytes" if type_ & 1 else "an integer"
            raise EncodeError(f"extension {type_:#x} wants {wanted}, not {value!r}")
    if stamp is not None and all(pair.type != CAPTURE_TIMESTAMP for pair in known):
        known.append(KeyValue(CAPTURE_TIMESTAMP, max(0, int(stamp * 1_000_000))))
    return encode_extensions(known, draft) if known else b""


def capture_time(pairs: KeyValues) -> float | None:
    """When an object was captured, in seconds since the Unix epoch; None if it does not say."""
    for type_, value in pairs:
        if type_ == CAPTURE_TIMESTAMP and isinstance(value, int):
            return value / 1_000_000
    return None


def latency(pairs: KeyValues, received_at: float) -> float | None:
    """Seconds from capture to reception. Below 0 if the clocks disagree."""
    captured = capture_time(pairs)
    return None if captured is None else received_at - captured
