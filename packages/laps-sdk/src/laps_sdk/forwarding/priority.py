"""One integer for the order in which streams are sent (moq-transport-16, 7).

::

    subscriber priority | publisher priority | group order | subgroup      + 1
          8 bits               8 bits            36 bits      10 bits

The lowest number goes first; 0 is left to control streams. Group ids are taken modulo 2**36: only
their order among the groups that are under way at a time counts.
"""

from __future__ import annotations

from typing import Final

from laps_wire.moqt.codepoints import GroupOrder

__all__ = ["PRIORITIES", "publisher_priority", "stream_priority"]

_GROUP_BITS: Final = 36
_SUBGROUP_BITS: Final = 10
_GROUPS: Final = (1 << _GROUP_BITS) - 1
_SUBGROUPS: Final = (1 << _SUBGROUP_BITS) - 1


def stream_priority(
    subscriber: int, publisher: int, order: GroupOrder, group_id: int, subgroup_id: int
) -> int:
    """How urgent a stream is: lower first."""
    group = group_id & _GROUPS
    if order is GroupOrder.DESCENDING:
        group = _GROUPS - group
    value = subscriber << 8 | publisher
    value = value << _GROUP_BITS | group
    return (value << _SUBGROUP_BITS | min(subgroup_id, _SUBGROUPS)) + 1


def publisher_priority(priority: int) -> int:
    """The publisher's part of a stream's priority."""
    return (priority - 1) >> (_GROUP_BITS + _SUBGROUP_BITS) & 0xFF


PRIORITIES: Final = tuple(
    stream_priority(128, publisher, GroupOrder.ASCENDING, 0, 0) for publisher in range(256)
)
"""The priority of a stream to another relay, for each publisher priority."""
