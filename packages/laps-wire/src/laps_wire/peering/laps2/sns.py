"""Subscriber node set IDs: 32-bit serial numbers that skip zero (seed 000, Source Routing).

::

           1 -> 2 -> 3 -> ... -> 2**32 - 1 -+        0 is "no ID": it is never given to a set
           ^                                |
           +--------------------------------+

The sender of data gives the IDs, one series for each session and direction. An ID may skip forward
but not go back, except over the end. "Forward" is RFC 1982 serial arithmetic: of two IDs the one
that is less than half the circle ahead is the later one. The circle has 2**32 - 1 members, an odd
number, so there is no pair exactly half a circle apart for which the order would be undefined.

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
"""The first ID of a session, and the one after the last."""
MAX_SNS_ID: Final = 0xFFFF_FFFF
"""The last ID before the series begins again."""

_HALF: Final = MAX_SNS_ID // 2


def successor(sns_id: int) -> int:
    """The ID after ``sns_id``; the one after "no ID" is the first."""
    if not 0 <= sns_id <= MAX_SNS_ID:
        raise EncodeError(f"SNS id {sns_id} is outside 0..{MAX_SNS_ID}")
    return FIRST_SNS_ID if sns_id == MAX_SNS_ID else sns_id + 1


def is_later(sns_id: int, than: int) -> bool:
    """Whether ``sns_id`` comes after ``than``; everything comes after "no ID"."""
    if than == NO_SNS_ID:
        return sns_id != NO_SNS_ID
    if sns_id == NO_SNS_ID:
        return False
    return 0 < (sns_id - than) % MAX_SNS_ID <= _HALF


def next_free(last: int, live: Container[int], *, limit: int = 1 << 20) -> int:
    """The next ID after ``last`` that no living set has; looks at ``limit`` IDs at most."""
    sns_id = last
    for _ in range(limit):
        sns_id = successor(sns_id)
        if sns_id not in live:
            return sns_id
    raise StateError(f"no free SNS id within {limit} after {last}")
