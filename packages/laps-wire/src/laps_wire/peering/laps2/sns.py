"""Subscriber node set IDs: 32-bit serial numbers that skip zero (seed 000, Source Routing).

::

           1 -> 2 -> 3 -> ... -> 2**32 - 1 -+        0 is "no ID" and never assigned to a set
           ^                                |
           +--------------------------------+

The sender of data assigns the IDs, one series for each session and direction. IDs may be skipped
but never go back, except at the wrap. The order is RFC 1982 serial arithmetic: of two IDs, the
later one is less than half the circle ahead. The circle has 2**32 - 1 members, an odd number. So no
pair is exactly half a circle apart, where the order would be undefined.

After a wrap an ID may still be in use: :func:`next_free` skips it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from laps_wire.errors import EncodeError, StateError

__all__ = [
    "FIRST_SNS_ID",
    "MAX_SNS_ID",
    "NO_SNS_ID",
    "is_later",
    "next_free",
    "successor",
]

NO_SNS_ID: Final = 0
"""No set: data between a Stub and its parent Edge, which is forwarded by track alone."""
FIRST_SNS_ID: Final = 1
"""The first ID of a session, and the successor of :data:`MAX_SNS_ID`."""
MAX_SNS_ID: Final = 0xFFFF_FFFF
"""The last ID before the series begins again."""

_HALF: Final = MAX_SNS_ID // 2


def successor(sns_id: int) -> int:
    """Return the ID after ``sns_id``; the successor of "no ID" is the first ID."""
    if not 0 <= sns_id <= MAX_SNS_ID:
        raise EncodeError(f"SNS id {sns_id} is outside 0..{MAX_SNS_ID}")
    return FIRST_SNS_ID if sns_id == MAX_SNS_ID else sns_id + 1


def is_later(sns_id: int, than: int) -> bool:
    """Return whether ``sns_id`` is later than ``than``; every ID is later than "no ID"."""
    if than == NO_SNS_ID:
        return sns_id != NO_SNS_ID
    if sns_id == NO_SNS_ID:
        return False
    return 0 < (sns_id - than) % MAX_SNS_ID <= _HALF


def next_free(last: int, live: Container[int], *, limit: int = 1 << 20) -> int:
    """Return the next ID after ``last`` that is not in ``live``; tries at most ``limit`` IDs."""
    sns_id = last
    for _ in range(limit):
        sns_id = successor(sns_id)
        if sns_id not in live:
            return sns_id
    raise StateError(f"no free SNS id within {limit} after {last}")
