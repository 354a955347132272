"""The numbers: what the seeds fix is as they say, what we chose collides with nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError
from laps_wire.quicr.codepoints import (
    MAX_MESSAGE,
    MAX_NAMES,
    MAX_ORIGIN,
    MAX_REASON,
    MAX_RELAY_ADDRESS,
    RESERVED_DATAGRAM_STREAM_ID,
    Flags,
    MessageType,
    Response,
    SubscribeIntent,
)


def test_the_numbers_that_seed_001_gives() -> None:
    given_there = {
        "SUBSCRIBE_STREAM": 1,
        "SUBSCRIBE_DATAGRAM": 2,
        "FIN": 3,
        "FRAGMENT": 5,
        "PUBLISH_INTENT": 6,
        "PUBLISH_INTENT_OK": 7,
        "START_POINT": 8,
    }
    assert {kind.name: kind.value for kind in MessageType if kind < 0x10} == given_there
    assert [intent.value for intent in SubscribeIntent] == [0, 1, 2]
    assert [(r.name, r.value) for r in Response] == [
        ("OK", 0),
        ("EXPIRED", 1),
        ("FAIL", 2),
        ("REDIRECT", 3),
    ]


def test_our_numbers_take_one_byte_and_leave_the_prototypes_alone() -> None:
    # quicrq: REQUEST_REPAIR 4, and SUBSCRIBE 9 to RUSH_HEADER 14.
    assert not {4, *range(9, 16)} & set(MessageType)
    assert max(MessageType) is MessageType.PUBLISH
    assert MessageType.PUBLISH.value == 0x3F == RESERVED_DATAGRAM_STREAM_ID
    assert len(MessageType.__members__) == len(set(MessageType)) == 19


def test_the_numbers_that_we_give() -> None:
    assert [kind.name for kind in MessageType if 0x10 <= kind < 0x20] == [
        "SUBSCRIBE_REPLY",
        "SUBSCRIBE_CANCEL",
        "RELAY_REDIRECT",
        "SUBSCRIPTION_EXPIRY",
    ]
    assert [kind.name for kind in MessageType if 0x20 <= kind < 0x3F] == [
        "SUBSCRIBE",
        "NAMED_SUBSCRIBE_REPLY",
        "NAMED_SUBSCRIBE_CANCEL",
        "NAMED_SUBSCRIPTION_EXPIRY",
        "NAMED_PUBLISH_INTENT",
        "NAMED_PUBLISH_INTENT_OK",
        "SYNC_CATCHUP",
    ]
    assert [kind.value for kind in MessageType] == [
        *(1, 2, 3, 5, 6, 7, 8),
        *(0x10, 0x11, 0x12, 0x13),
        *(0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26),
        0x3F,
    ]


def test_the_limits_leave_room_for_each_other() -> None:
    assert MAX_MESSAGE == 65535
    assert MAX_NAMES == MAX_REASON == MAX_RELAY_ADDRESS == 1024
    assert MAX_ORIGIN == 255
    # Two full lists of names, an id and their counts; a list and a reason.
    assert 1 + 8 + 2 * (2 + 17 * MAX_NAMES) <= MAX_MESSAGE
    assert 1 + 8 + 2 + 17 * MAX_NAMES + 2 + MAX_REASON <= MAX_MESSAGE


def test_the_flags_byte() -> None:
    assert Flags.make() == 0
    assert Flags.make(priority=5) == 0b00000_101
    assert Flags.make(is_sync_point=True) == 0b0000_1_000
    assert Flags.make(is_discardable=True, priority=1) == 0b000_1_0_001
    assert Flags(0b101_0_0_000).reserved == 0b101


@given(st.integers(0, 7), st.booleans(), st.booleans())
def test_flags_come_apart_as_they_were_put_together(
    priority: int, is_discardable: bool, is_sync_point: bool
) -> None:
    flags = Flags.make(
        priority=priority, is_discardable=is_discardable, is_sync_point=is_sync_point
    )
    assert flags.priority == priority
    assert flags.is_discardable is is_discardable
    assert flags.is_sync_point is is_sync_point
    assert flags.reserved == 0


@pytest.mark.parametrize("priority", [-1, 8])
def test_a_priority_has_three_bits(priority: int) -> None:
    with pytest.raises(EncodeError, match=r"priority -?\d is outside 0..7"):
        Flags.make(priority=priority)
