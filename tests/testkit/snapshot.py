"""The whole state of an object as bytes, to see whether anything has changed."""

from __future__ import annotations

import io
import pickle
from types import FunctionType

from laps_wire.moqt.control import ControlCodec

__all__ = ["snapshot"]


class _Writer(pickle.Pickler):
    """Writes what never changes, functions and codecs, as a number."""

    def persistent_id(self, item: object) -> int | None:
        return id(item) if isinstance(item, (FunctionType, ControlCodec)) else None


def snapshot(item: object) -> bytes:
    """Return everything that is reachable from ``item``; equal bytes mean that nothing changed."""
    out = io.BytesIO()
    _Writer(out, pickle.HIGHEST_PROTOCOL).dump(item)
    return out.getvalue()
