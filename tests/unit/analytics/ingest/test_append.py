from __future__ import annotations

from laps_analytics.ingest.append import BOOT_TTL_US, Boots, maybe_seen, updated_boots
from laps_analytics.ingest.clock import LIMIT_US
from laps_analytics.ingest.facts import Facts
from laps_analytics.ingest.hours import HOUR_US, WATERMARK_US

NOW = 10 * HOUR_US


def test_only_higher_numbers_of_a_known_boot_are_new() -> None:
    boots: Boots = {"1:1:7": (10, NOW), "2:2:7": (10, NOW)}
    numbers = {("1:1", 7): (11, 20), ("2:2", 7): (10, 20), ("2:2", 8): (1, 5), ("3:3", 1): (0, 1)}
    assert maybe_seen(numbers, boots) == ["2:2:7", "2:2:8", "3:3:1"]
    assert maybe_seen({("1:1", 7): (11, 20)}, boots) == []


def test_the_highest_number_of_all_types_is_remembered() -> None:
    facts = Facts(
        numbers={"a": {("1:1", 7): (5, 20)}, "b": {("1:1", 7): (6, 9), ("2:2", 1): (0, 3)}}
    )
    after = updated_boots({"1:1:7": (10, 1), "3:3:1": (7, NOW - 1)}, facts, NOW)
    assert after == {"1:1:7": (20, NOW), "2:2:1": (3, NOW), "3:3:1": (7, NOW - 1)}
    # A number that is lower than one of before does not make it lower.
    assert updated_boots({"1:1:7": (30, 1)}, facts, NOW)["1:1:7"] == (30, NOW)


def test_boots_that_say_nothing_are_forgotten() -> None:
    boots: Boots = {"1:1:7": (10, NOW - BOOT_TTL_US), "2:2:7": (10, NOW - BOOT_TTL_US + 1)}
    assert updated_boots(boots, Facts(), NOW) == {"2:2:7": (10, NOW - BOOT_TTL_US + 1)}
    for hour in range(1000):
        now = NOW + hour * HOUR_US
        boots = updated_boots(boots, Facts(numbers={"a": {("1:1", hour): (1, 9)}}), now)
        assert len(boots) <= 3


def test_a_boot_is_known_for_as_long_as_its_events_can_come_to_an_open_hour() -> None:
    assert BOOT_TTL_US > HOUR_US + WATERMARK_US + LIMIT_US
