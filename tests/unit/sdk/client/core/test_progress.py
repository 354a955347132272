from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.client.core.progress import ANY_OBJECT, Gap, GapCause, Progress
from laps_wire.moqt.structures import Location

NOW = 100.0


def note(progress: Progress, *places: tuple[int, int]) -> list[bool]:
    return [progress.note(Location(*place)) for place in places]


def due(progress: Progress) -> float | None:
    """Asked anew each time; a checker of types believes that it stays as it was."""
    return progress.due


def gap(first: tuple[int, int], last: tuple[int, int]) -> Gap:
    return Gap(first=Location(*first), last=Location(*last))


def test_an_object_is_new_once() -> None:
    progress = Progress()
    assert note(progress, (1, 0), (1, 1), (1, 0), (1, 3), (1, 2), (1, 3)) == [
        True, True, False, True, True, False,
    ]  # fmt: skip
    assert progress.largest == Location(1, 3)


def test_a_number_that_is_late_is_no_gap() -> None:
    progress = Progress()
    note(progress, (1, 0), (1, 2), (1, 1), (2, 0))
    assert progress.take_gaps(NOW) == []


def test_a_group_is_settled_when_a_later_one_begins() -> None:
    progress = Progress()
    note(progress, (1, 0), (1, 1), (1, 4), (1, 6))
    assert progress.take_gaps(NOW) == []
    note(progress, (2, 0))
    assert progress.take_gaps(NOW) == [gap((1, 2), (1, 3)), gap((1, 5), (1, 5))]
    assert progress.take_gaps(NOW) == []


def test_a_group_is_not_settled_while_a_stream_of_it_is_open() -> None:
    progress = Progress()
    progress.stream_opened(1)
    progress.stream_opened(1)
    note(progress, (1, 0), (1, 2), (2, 0))
    progress.stream_closed(1, fin=True)
    assert progress.take_gaps(NOW) == []
    progress.stream_closed(1, fin=True)
    assert progress.take_gaps(NOW) == [gap((1, 1), (1, 1))]
    progress.stream_closed(1, fin=True)  # more closed than opened: nothing happens
    progress.stream_closed(77, fin=True)


def test_a_complete_group_is_settled_at_once() -> None:
    progress = Progress()
    note(progress, (1, 0), (1, 2))
    progress.complete(1)
    assert progress.take_gaps(NOW) == [gap((1, 1), (1, 1))]


def test_an_end_beyond_what_came_is_a_gap() -> None:
    progress = Progress()
    note(progress, (1, 0))
    progress.complete(1, last=2)
    assert progress.take_gaps(NOW) == [gap((1, 1), (1, 2))]
    progress.complete(2, last=5)
    note(progress, (3, 1))
    progress.complete(3, last=1)
    assert progress.take_gaps(NOW) == [gap((2, 0), (2, 5)), gap((3, 0), (3, 0))]


def test_a_subscription_may_begin_inside_its_first_group_but_not_inside_later_ones() -> None:
    progress = Progress()
    note(progress, (1, 5), (2, 1), (3, 0))
    assert progress.take_gaps(NOW) == [gap((2, 0), (2, 0))]


def test_groups_that_never_came_are_a_gap() -> None:
    progress = Progress()
    note(progress, (1, 0), (5, 0))
    assert progress.take_gaps(NOW) == []  # 2, 3 and 4 may be under way
    note(progress, (3, 0))
    note(progress, (6, 0))
    gaps = progress.take_gaps(NOW)
    assert gaps == [gap((2, 0), (2, ANY_OBJECT)), gap((4, 0), (4, ANY_OBJECT))]
    assert gaps[0].objects is None


def test_what_the_publisher_explains_is_no_gap() -> None:
    progress = Progress()
    note(progress, (1, 0))
    progress.note(Location(1, 4), object_gap=3)
    progress.note(Location(9, 0), group_gap=7)
    note(progress, (10, 0))
    assert progress.take_gaps(NOW) == []


def test_what_is_accounted_for_is_no_gap() -> None:
    progress = Progress()
    note(progress, (1, 0), (1, 3))
    progress.account(Location(1, 1), Location(1, 2))
    note(progress, (5, 2), (6, 0))
    assert progress.take_gaps(NOW) == [
        gap((2, 0), (4, ANY_OBJECT)),
        gap((5, 0), (5, 1)),
    ]
    other = Progress()
    note(other, (1, 0), (5, 2))
    other.account(Location(1, 1), Location(5, 1))
    note(other, (6, 0))
    assert other.take_gaps(NOW) == []


def test_nothing_is_settled_while_it_is_being_fetched() -> None:
    progress = Progress()
    progress.hold()
    progress.release()  # nothing has come: nothing to settle
    progress.hold()
    note(progress, (3, 0), (5, 1), (6, 0))
    assert progress.take_gaps(NOW) == []
    note(progress, (4, 0), (5, 0))
    progress.release()
    assert progress.take_gaps(NOW) == []


def test_what_is_lost_is_told_once() -> None:
    progress = Progress()
    note(progress, (3, 0))
    progress.account(Location(3, 1), Location(5, 5))
    note(progress, (5, 6), (6, 0), (7, 0))
    assert progress.take_gaps(NOW) == []


def test_the_end_settles_everything() -> None:
    progress = Progress()
    progress.stream_opened(1)
    note(progress, (1, 0), (1, 2))
    progress.finish()
    assert progress.take_gaps(NOW) == [gap((1, 1), (1, 1))]
    progress.finish()
    assert progress.take_gaps(NOW) == []


def test_only_so_many_groups_are_remembered() -> None:
    progress = Progress(max_groups=2)
    for group in range(1, 33):
        progress.stream_opened(group)
        note(progress, (group, 0), (group, 2))
    assert progress.take_gaps(NOW) == []
    note(progress, (33, 0))
    assert progress.take_gaps(NOW) == [gap((1, 1), (1, 1))]


def test_a_group_that_was_forgotten_lacks_nothing() -> None:
    """Another stream of it comes: nobody knows what came before."""
    progress = Progress(max_groups=2)
    for group in (1, 2, 3, 6, 7, 8):
        note(progress, (group, 0), (group, 1))
        progress.take_gaps(NOW)
    note(progress, (2, 5), (4, 3), (9, 0))
    assert progress.take_gaps(NOW) == []
    assert progress.late == 1  # 4 and 5 were told to be missing


def test_a_gap_speaks() -> None:
    found = gap((1, 2), (1, 4))
    assert found.objects == 3
    assert str(found) == "1:2 to 1:4 missing"
    lost = Gap(first=Location(1, 2), last=Location(3, ANY_OBJECT), cause=GapCause.RECONNECTED)
    assert str(lost) == "1:2 to 3:end reconnected"
    assert lost.objects is None


@given(st.permutations(range(12)), st.sets(st.integers(0, 11)))
def test_whatever_the_order_exactly_what_is_missing_is_reported(
    order: list[int], lost: set[int]
) -> None:
    progress = Progress()
    progress.note(Location(0, 0))
    progress.stream_opened(1)
    for object_ in order:
        if object_ not in lost:
            assert progress.note(Location(1, object_))
    progress.note(Location(1, 12))
    progress.note(Location(2, 0))
    progress.stream_closed(1, fin=True)
    reported = {
        object_
        for found in progress.take_gaps(NOW)
        for object_ in range(found.first.object, found.last.object + 1)
    }
    assert reported == lost


def test_streams_that_are_lost_with_their_connection_hold_nothing_up() -> None:
    progress = Progress()
    progress.streams_lost()
    progress.stream_opened(3)
    progress.note(Location(3, 0))
    progress.note(Location(3, 2))
    progress.note(Location(4, 0))
    assert progress.take_gaps(NOW) == []
    progress.streams_lost()
    assert progress.take_gaps(NOW) == [gap((3, 1), (3, 1)), gap((3, 3), (3, ANY_OBJECT))]


# What may be late


def test_a_gap_is_told_when_it_is_late_and_not_before() -> None:
    progress = Progress(late=3.0)
    note(progress, (1, 0), (1, 2))
    assert progress.take_gaps(NOW) == []
    assert due(progress) is None
    note(progress, (2, 0))
    assert progress.take_gaps(NOW) == []
    assert due(progress) == NOW + 3.0
    note(progress, (2, 1))
    assert progress.take_gaps(NOW + 2.9) == []
    assert progress.take_gaps(NOW + 3.0) == [gap((1, 1), (1, 1))]
    assert due(progress) is None
    assert progress.late == 0
    assert note(progress, (1, 1), (1, 3)) == [True, True]
    assert progress.late == 1  # what comes behind all others was not told


def test_what_comes_in_time_is_not_told() -> None:
    progress = Progress(late=3.0)
    note(progress, (1, 0), (1, 2), (5, 0), (6, 0))
    assert progress.take_gaps(NOW) == []
    note(progress, (1, 1), (2, 0), (4, 0))
    assert progress.take_gaps(NOW + 1.0) == []
    assert progress.take_gaps(NOW + 3.0) == [gap((3, 0), (3, ANY_OBJECT))]
    assert due(progress) is None
    assert progress.late == 0


def test_a_group_that_was_told_and_comes_is_late() -> None:
    progress = Progress(late=1.0)
    note(progress, (1, 0), (4, 0), (5, 0))
    assert progress.take_gaps(NOW) == []
    assert progress.take_gaps(NOW + 1.0) == [gap((2, 0), (3, ANY_OBJECT))]
    assert note(progress, (2, 0), (2, 1), (2, 1), (5, 1)) == [True, True, False, True]
    assert progress.late == 2


def test_groups_that_are_jumped_over_wait_for_those_behind_them() -> None:
    """Group 4 came before 2 and 3, and is open: nothing says yet that they do not come."""
    progress = Progress(late=1.0)
    note(progress, (1, 0))
    progress.stream_opened(4)
    note(progress, (4, 0), (5, 0))
    assert progress.take_gaps(NOW) == []
    assert due(progress) is None
    progress.stream_closed(4, fin=True)
    assert progress.take_gaps(NOW + 9.0) == []
    assert due(progress) == NOW + 10.0


def test_a_stream_that_comes_makes_a_group_wait_anew() -> None:
    progress = Progress(late=1.0)
    note(progress, (1, 0), (1, 3), (2, 0))
    assert progress.take_gaps(NOW) == []
    progress.stream_opened(1)
    assert progress.take_gaps(NOW + 1.0) == []
    note(progress, (1, 1))
    progress.stream_closed(1, fin=True)
    assert progress.take_gaps(NOW + 1.5) == []
    assert progress.take_gaps(NOW + 2.5) == [gap((1, 2), (1, 2))]


def test_what_a_lost_connection_took_with_it_is_told_at_once() -> None:
    progress = Progress(late=3.0)
    progress.stream_opened(1)
    note(progress, (1, 0), (1, 2), (4, 0), (5, 0))
    assert progress.take_gaps(NOW) == []
    progress.streams_lost()
    assert progress.take_gaps(NOW) == [
        gap((2, 0), (3, ANY_OBJECT)), gap((1, 1), (1, 1)), gap((1, 3), (1, ANY_OBJECT)),
    ]  # fmt: skip


def test_the_end_tells_everything_at_once() -> None:
    progress = Progress(late=3.0)
    note(progress, (1, 0), (1, 2), (4, 0))
    assert progress.take_gaps(NOW) == []
    progress.finish()
    assert progress.take_gaps(NOW) == [gap((2, 0), (3, ANY_OBJECT)), gap((1, 1), (1, 1))]


def test_what_is_fetched_waits_from_then_on() -> None:
    progress = Progress(late=3.0)
    progress.hold()
    note(progress, (1, 0), (1, 2), (2, 0))
    assert progress.take_gaps(NOW) == []
    assert due(progress) is None
    progress.release()
    assert progress.take_gaps(NOW + 5.0) == []
    assert progress.take_gaps(NOW + 8.0) == [gap((1, 1), (1, 1))]


def test_groups_that_lack_something_are_remembered_longer_but_not_for_ever() -> None:
    progress = Progress(max_groups=2, late=3.0)
    note(progress, *((group, number) for group in range(1, 33) for number in (0, 2)))
    assert progress.take_gaps(NOW) == []
    note(progress, (33, 0), (34, 0))
    assert progress.take_gaps(NOW) == [gap((1, 1), (1, 1)), gap((2, 1), (2, 1))]
    assert note(progress, (3, 1)) == [True]
    assert progress.late == 0


# Tails of groups that were cut


def test_the_tail_of_a_group_that_was_cut_is_missing() -> None:
    progress = Progress()
    progress.stream_opened(1, 0)
    note(progress, (1, 0), (1, 1))
    progress.stream_closed(1, 0, fin=False)
    assert progress.take_gaps(NOW) == []  # another stream may go on
    note(progress, (2, 0))
    assert progress.take_gaps(NOW) == [gap((1, 2), (1, ANY_OBJECT))]
    note(progress, (1, 2))
    assert progress.late == 1


def test_a_group_of_which_nothing_came_before_it_was_cut() -> None:
    progress = Progress()
    progress.stream_opened(1, 0)
    progress.stream_closed(1, 0, fin=False)
    progress.finish()
    assert progress.take_gaps(NOW) == [gap((1, 0), (1, ANY_OBJECT))]


def test_a_stream_that_goes_on_with_what_was_cut_brings_the_tail() -> None:
    progress = Progress()
    for fin in (False, True):
        progress.stream_opened(1, 7)
        note(progress, (1, 2 * fin), (1, 2 * fin + 1))
        progress.stream_closed(1, 7, fin=fin)
    note(progress, (2, 0))
    assert progress.take_gaps(NOW) == []


def test_a_group_whose_end_is_known_has_no_tail() -> None:
    progress = Progress()
    progress.stream_opened(1, 0)
    note(progress, (1, 0), (1, 3))
    progress.complete(1)
    progress.stream_closed(1, 0, fin=False)
    assert progress.take_gaps(NOW) == [gap((1, 1), (1, 2))]


def test_a_lost_connection_cuts_what_was_open_and_a_fetch_mends_it() -> None:
    progress = Progress()
    for group in (1, 2):
        progress.stream_opened(group, 0)
        note(progress, (group, 0))
    progress.hold()
    progress.streams_lost()
    note(progress, (2, 1), (2, 2), (3, 0))
    progress.fetched(2, 2)
    progress.release()
    assert progress.take_gaps(NOW) == [gap((1, 1), (1, ANY_OBJECT))]
    progress.finish()
    assert progress.take_gaps(NOW) == []
