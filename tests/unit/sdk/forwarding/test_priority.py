"""The order of streams as one integer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.priority import publisher_priority, stream_priority
from laps_wire.moqt.codepoints import GroupOrder

BYTES = st.integers(0, 255)
KEYS = st.tuples(BYTES, BYTES, st.integers(0, (1 << 36) - 1), st.integers(0, 1023))
UP, DOWN = GroupOrder.ASCENDING, GroupOrder.DESCENDING


def value(key: tuple[int, int, int, int], order: GroupOrder) -> int:
    return stream_priority(key[0], key[1], order, key[2], key[3])


@given(KEYS, KEYS)
def test_subscriber_publisher_group_subgroup(
    one: tuple[int, int, int, int], two: tuple[int, int, int, int]
) -> None:
    assert (value(one, UP) < value(two, UP)) is (one < two)
    turned = [(key[0], key[1], -key[2], key[3]) for key in (one, two)]
    assert (value(one, DOWN) < value(two, DOWN)) is (turned[0] < turned[1])


@given(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 64) - 1), st.sampled_from([UP, DOWN]))
def test_it_is_behind_control_and_fits(group: int, subgroup: int, order: GroupOrder) -> None:
    assert stream_priority(0, 0, order, group, subgroup) > 0
    assert stream_priority(255, 255, order, group, subgroup) < 1 << 63


@given(BYTES, BYTES, st.integers(0, (1 << 64) - 1), st.sampled_from([UP, DOWN]))
def test_the_publishers_part(
    subscriber: int, publisher: int, group: int, order: GroupOrder
) -> None:
    priority = stream_priority(subscriber, publisher, order, group, 5)
    assert publisher_priority(priority) == publisher
