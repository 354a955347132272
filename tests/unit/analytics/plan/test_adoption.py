"""Who followed a plan and when, and what hours that leaves; no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from laps_analytics.errors import PlanError
from laps_analytics.lake import Lake
from laps_analytics.plan.adoption import adoption_of
from laps_analytics.plan.before_after import before_and_after
from laps_analytics.plan.core.revert import Part
from testkit.plan_lake import END_US, add_answers, add_traffic

HOUR_US = 3_600_000_000


def hours_of(lake: Lake, first: int, last: int) -> list[int]:
    """Hours before the end that count, the earliest first."""
    found = adoption_of(lake, "laps", first, last)
    return [hour for hour in range(12, 0, -1) if found.covers_hour(END_US - hour * HOUR_US)]


def test_hours_in_which_a_series_was_not_followed_do_not_count(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, create=True)
    with pytest.raises(PlanError, match="follows laps any of the versions 1 to 2"):
        adoption_of(lake, "laps", 1, 2)
    add_answers(
        lake,
        "laps",
        [
            *(("a", 1, "accepted", 10), ("b", 1, "accepted", 10), ("c", 1, "refused", 10)),
            # Both go on with the next version; one of them stops in the middle of an hour.
            *(("a", 2, "accepted", 8), ("b", 2, "accepted", 8), ("b", 2, "expired", 6.6)),
            # The other one follows another plan for a while, and takes the third version again.
            *(("a", 2, "reverted", 5), ("a", 3, "accepted", 2), ("b", 3, "refused", 2)),
            # Of a version that was not followed any more.
            ("a", 2, "expired", 1),
        ],
    )
    found = adoption_of(lake, "laps", 1, 3)
    assert found.since_us == END_US - 10 * HOUR_US
    assert (set(found.accepted), set(found.refused)) == ({"a", "b"}, {"b", "c"})
    assert hours_of(lake, 1, 3) == [10, 9, 8, 7, 6, 2, 1]
    assert hours_of(lake, 1, 2) == [10, 9, 8, 7, 6]
    assert hours_of(lake, 1, 1) == [10, 9]
    assert hours_of(lake, 3, 3) == [2, 1]
    with pytest.raises(PlanError, match="follows laps version 4"):
        adoption_of(lake, "laps", 4, 4)
    with pytest.raises(PlanError, match="follows other version 1"):
        adoption_of(lake, "other", 1, 1)


def test_the_hour_of_the_first_acceptance_counts_from_there_on(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, create=True)
    add_answers(lake, "laps", [("a", 1, "accepted", 3.2), ("a", 1, "expired", 3.05)])
    assert hours_of(lake, 1, 1) == [4]


@pytest.mark.parametrize(("times", "word"), [(0.5, "better"), (2.0, "worse"), (1.0, "unclear")])
def test_what_goes_between_regions_is_judged(tmp_path: Path, times: float, word: str) -> None:
    lake = Lake.open(tmp_path, create=True)
    add_traffic(lake, wan_after=times)
    found = before_and_after(lake, END_US - 48 * HOUR_US)
    (wan,), (copies,) = found["wan"].items(), found["copies"].items()
    assert wan[0] == copies[0] == Part()
    assert (wan[1].word, copies[1].word) == (word, word)
    # 3.2 million bytes for 10 million that clients got, and for 2 million that are needed.
    assert wan[1].change == pytest.approx(0.32 * (times - 1), abs=0.03)
    assert copies[1].change == pytest.approx(1.6 * (times - 1), abs=0.15)
    nothing = before_and_after(lake, END_US - 48 * HOUR_US, counts=lambda _: False)
    assert nothing["wan"][Part()].pairs == 0
