"""Percentiles of merged KLL sketches in Spark's format (Apache DataSketches, longs).

A sketch keeps some of the values; a value kept at level *n* stands for 2**n values. Sketches merge
by concatenating their values with these weights. The mean of their percentiles would be wrong.

::

    0 preInts | 1 version | 2 family 15 | 3 flags | 4-5 k | 6 m | 7 0
    flags: 1 empty, 4 a single item (preInts 2, the item at 8)
    else preInts 5: 8-15 n | 16-17 min k | 18 levels | 19 0 | 20.. levels as int32 each: where a
    level begins | least item | greatest item | items
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import numpy as np

from laps_analytics.errors import LakeError

__all__ = ["quantiles", "weighted"]

_FAMILY: Final = 15
_EMPTY: Final = 1
_SINGLE: Final = 4
_HEAD: Final = 8


def weighted(sketch: bytes) -> tuple[list[int], list[int]]:
    """Return the values of a sketch and their weights.

    Raises :class:`LakeError` if it is not a sketch.
    """
    try:
        if sketch[2] != _FAMILY:
            raise LakeError(f"not a KLL sketch (family {sketch[2]}): build the table again")
        flags = sketch[3]
        if flags & _EMPTY:
            return [], []
        if flags & _SINGLE:
            return [struct.unpack_from("<q", sketch, _HEAD)[0]], [1]
        count = sketch[18]
        levels = [*struct.unpack_from(f"<{count}i", sketch, 20)]
        at = 20 + 4 * count + 16
        kept = (len(sketch) - at) // 8
        values = list(struct.unpack_from(f"<{kept}q", sketch, at))
    except (IndexError, struct.error):
        raise LakeError("a KLL sketch is truncated: build the table again") from None
    # Items are packed from where the lowest level begins.
    ends = [begin - levels[0] for begin in levels[1:]] + [kept]
    begins = [begin - levels[0] for begin in levels]
    weights = [0] * kept
    for level, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        weights[begin:end] = [1 << level] * (end - begin)
    return values, weights


def quantiles(sketches: Iterable[bytes], shares: Iterable[float]) -> list[float] | None:
    """Return the percentiles of merged sketches; None without values."""
    values: list[int] = []
    weights: list[int] = []
    for sketch in sketches:
        some, their = weighted(sketch)
        values += some
        weights += their
    if not values:
        return None
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(np.asarray(weights)[order])
    total = int(sums[-1])
    return [
        float(values[order[min(len(values) - 1, int(np.searchsorted(sums, share * total)))]])
        for share in shares
    ]
