"""What a track did since somebody looked."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.traffic import LinkTraffic, Tally, TrackTraffic, gained
from testkit.plane import NAME

BEFORE = TrackTraffic(NAME, 1, 10, 2, 20, 3, None, 4, (LinkTraffic(-1, 1, 2, 3, 4),))


def test_a_tally_counts_both_directions() -> None:
    tally = Tally()
    for _ in range(2):
        tally.came(1, 10)
        tally.sent(2, 20)
    assert (tally.objects_in, tally.bytes_in) == (2, 20)
    assert (tally.objects_out, tally.bytes_out) == (4, 40)


def test_the_first_look_sees_everything() -> None:
    assert gained(BEFORE, None) is BEFORE


def test_the_next_one_sees_what_was_added() -> None:
    now = TrackTraffic(
        NAME, 2, 15, 2, 26, 3, 4, 6, (LinkTraffic(-1, 1, 2, 5, 9), LinkTraffic(-2, 1, 7, 0, 0))
    )
    assert gained(now, BEFORE) == TrackTraffic(
        NAME, 1, 5, 0, 6, 0, 5, 6, (LinkTraffic(-1, 0, 0, 2, 5), LinkTraffic(-2, 1, 7, 0, 0))
    )


@pytest.mark.parametrize(
    ("before", "now", "first"), [(None, 3, 3), (3, 3, 3), (3, 5, 4), (None, None, None)]
)
def test_groups_of_a_window(before: int | None, now: int | None, first: int | None) -> None:
    old = BEFORE._replace(last_group=before)
    assert gained(BEFORE._replace(first_group=now, last_group=now), old)[6:8] == (first, now)


def test_idle_is_where_nothing_happened() -> None:
    idle = TrackTraffic(NAME, 0, 0, 0, 0, 0, 3, 3, (LinkTraffic(-1, 0, 0, 0, 0),))
    assert idle.is_idle
    assert not idle._replace(dropped=1).is_idle
    assert not idle._replace(links=(LinkTraffic(-1, 0, 0, 0, 1),)).is_idle
