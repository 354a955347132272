"""The three order conditions of stream mode, each held and each broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import ProtocolViolation, RemoteError
from laps_wire.quicr.fragments import FragmentSequence, FragmentSequenceError

#: group, object, offset, length, is last: two groups with two objects and one, in five fragments.
STREAM = [
    (0, 0, 0, 4, False),
    (0, 0, 4, 6, False),  # condition 1
    (0, 0, 10, 0, True),  # condition 1, and an end without bytes
    (0, 1, 0, 3, True),  # condition 2
    (1, 0, 0, 9, True),  # condition 3
]


def run(fragments: list[tuple[int, int, int, int, bool]]) -> FragmentSequence:
    sequence = FragmentSequence()
    for fragment in fragments:
        sequence.check(*fragment)
    return sequence


def test_a_stream_in_order_passes() -> None:
    assert run(STREAM).allowed == ((1, 1, 0), (2, 0, 0))


def test_it_says_where_the_stream_may_end() -> None:
    assert [run(STREAM[:count]).at_boundary for count in range(6)] == [
        True,
        False,
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        # the first fragment stands at 0, 0, 0
        (0, (0, 0, 1, 4, False)),
        (0, (0, 1, 0, 4, False)),
        (0, (1, 0, 0, 4, False)),
        # condition 1: the same object, and no gap, no step back, before its last fragment
        (1, (0, 0, 0, 4, False)),
        (1, (0, 0, 3, 4, False)),
        (1, (0, 0, 5, 4, False)),
        (1, (0, 1, 4, 4, False)),
        (1, (1, 0, 4, 4, False)),
        (1, (0, 1, 0, 4, False)),  # 2 while the object is open
        (1, (1, 0, 0, 4, False)),  # 3 while the object is open
        # after a last fragment: conditions 2 and 3 only
        (3, (0, 0, 10, 1, True)),
        (3, (0, 0, 0, 1, True)),
        (3, (0, 1, 1, 1, True)),
        (3, (0, 2, 0, 1, True)),
        (3, (1, 0, 1, 1, True)),
        (3, (1, 1, 0, 1, True)),
        (3, (2, 0, 0, 1, True)),
    ],
)
def test_everything_else_is_the_peers_fault_and_changes_nothing(
    sent: int, got: tuple[int, int, int, int, bool]
) -> None:
    sequence = run(STREAM[:sent])
    allowed = sequence.allowed
    with pytest.raises(FragmentSequenceError) as caught:
        sequence.check(*got)
    assert caught.value.got == got[:3]
    assert caught.value.allowed == allowed == sequence.allowed
    for fragment in STREAM[sent:]:
        sequence.check(*fragment)


def test_a_start_point_moves_the_first_fragment() -> None:
    sequence = FragmentSequence()
    sequence.start_at(7, 3)
    with pytest.raises(FragmentSequenceError, match="only group 7 object 3 offset 0 may"):
        sequence.check(0, 0, 0, 1, False)
    assert sequence.at_boundary
    sequence.check(7, 3, 0, 1, True)
    assert sequence.allowed == ((7, 4, 0), (8, 0, 0))


def test_a_start_point_comes_before_the_first_fragment() -> None:
    sequence = run(STREAM[:1])
    with pytest.raises(ProtocolViolation, match="START_POINT after the first fragment"):
        sequence.start_at(7, 3)
    assert sequence.allowed == ((0, 0, 4),)


@given(
    st.integers(0, 5),
    st.integers(0, 5),
    st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 9), min_size=1, max_size=4)), max_size=8
    ),
)
def test_any_stream_that_is_sent_in_order_passes(
    group: int, obj: int, objects: list[tuple[bool, list[int]]]
) -> None:
    sequence = FragmentSequence()
    sequence.start_at(group, obj)
    for new_group, lengths in objects:
        offset = 0
        for index, length in enumerate(lengths):
            sequence.check(group, obj, offset, length, index == len(lengths) - 1)
            offset += length
        group, obj = (group + 1, 0) if new_group else (group, obj + 1)
    assert sequence.at_boundary


def test_a_sequence_error_says_what_came_and_what_was_due() -> None:
    error = FragmentSequenceError((1, 2, 30), ((1, 2, 7), (2, 0, 0)))
    assert isinstance(error, ProtocolViolation)
    assert isinstance(error, RemoteError)
    assert error.code == 0x3
    assert error.got == (1, 2, 30)
    assert error.allowed == ((1, 2, 7), (2, 0, 0))
    assert str(error) == (
        "fragment at group 1 object 2 offset 30 where only "
        "group 1 object 2 offset 7 or group 2 object 0 offset 0 may follow"
    )
