"""The checker of the fault harness counts what is in histories, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from faults.checker import Event, Outcome, check, reported_objects, total
from faults.history import (
    HEAD,
    Delivered,
    Ended,
    Published,
    PublisherHistory,
    Reported,
    SubscriberHistory,
    pack,
    read_publishers,
    read_subscribers,
    unpack,
)

from laps_sdk.client.core.progress import ANY_OBJECT

PER_GROUP = 5
STEP = 0.1
DELAY = 0.01


def published(count: int) -> PublisherHistory:
    """A track of groups of five, one object every tenth of a second from time 0 on."""
    rows = [Published(n, n // PER_GROUP, n % PER_GROUP, n * STEP) for n in range(count)]
    return PublisherHistory("track", rows)


def delivery(number: int, received: float | None = None, subgroup: int = 0) -> Delivered:
    sent = number * STEP
    return Delivered(
        sequence=number,
        group=number // PER_GROUP,
        object=number % PER_GROUP,
        subgroup=subgroup,
        sent=sent,
        received=sent + DELAY if received is None else received,
        intact=True,
    )


def subscribed(*rows: Delivered, reports: tuple[Reported, ...] = ()) -> SubscriberHistory:
    return SubscriberHistory("one", "track", list(rows), list(reports))


def gap(first: tuple[int, int], last: tuple[int, int], at: float = 0.0) -> Reported:
    return Reported(*first, *last, at, "missing")


def numbers(*left_out: int, of: int = 20) -> list[Delivered]:
    return [delivery(number) for number in range(of) if number not in left_out]


def outcome(
    *rows: Delivered,
    reports: tuple[Reported, ...] = (),
    begin: float = 0.0,
    events: tuple[Event, ...] = (),
    of: int = 20,
) -> Outcome:
    return check(published(of), subscribed(*rows, reports=reports), begin, events)


# The sum


def test_all_objects_delivered_is_exact() -> None:
    found = outcome(*numbers())
    assert (found.published, found.delivered, found.lost, found.reported) == (20, 20, 0, 0)
    assert found.exact


def test_a_missing_object_without_a_report_breaks_the_sum() -> None:
    found = outcome(*numbers(7))
    assert (found.lost, found.unreported) == (1, 1)
    assert not found.exact


def test_a_missing_object_with_a_report_keeps_the_sum() -> None:
    found = outcome(*numbers(7), reports=(gap((1, 2), (1, 2)),))
    assert (found.lost, found.reported, found.unreported) == (1, 1, 0)
    assert found.exact


def test_overlapping_reports_count_an_object_once() -> None:
    reports = (gap((1, 2), (1, 3)), gap((1, 2), (1, 2)))
    found = outcome(*numbers(7, 8), reports=reports)
    assert (found.reported, found.unreported) == (2, 0)
    assert found.exact


def test_a_report_of_whole_groups_names_their_published_objects() -> None:
    found = outcome(*numbers(*range(5, 15)), reports=(gap((1, 0), (2, ANY_OBJECT)),))
    assert (found.reported, found.unreported, found.invented) == (10, 0, 0)
    assert found.exact


def test_a_tail_that_a_report_leaves_out_is_unreported() -> None:
    found = outcome(*numbers(7, 8, 9), reports=(gap((1, 2), (1, 3)),))
    assert (found.reported, found.unreported) == (2, 1)


def test_an_object_that_comes_after_its_report_is_late_and_delivered() -> None:
    found = outcome(*numbers(), reports=(gap((1, 2), (1, 2)),))
    assert (found.late, found.delivered, found.reported) == (1, 20, 0)
    assert found.exact


def test_a_report_of_numbers_that_do_not_exist_breaks_the_sum() -> None:
    found = outcome(*numbers(9), reports=(gap((1, 4), (1, 6)),))
    assert (found.reported, found.invented) == (1, 2)
    assert not found.exact


def test_objects_before_the_begin_are_not_judged() -> None:
    found = outcome(*numbers(0, 1, 2), delivery(3), begin=5 * STEP)
    assert (found.published, found.delivered, found.doubled) == (15, 15, 0)
    assert found.exact


def test_a_report_on_objects_before_the_begin_invents_nothing() -> None:
    found = outcome(*numbers(0, 1), reports=(gap((0, 0), (0, 1)),), begin=5 * STEP)
    assert (found.reported, found.invented) == (0, 0)
    assert found.exact


def test_nothing_delivered_is_all_unreported() -> None:
    found = outcome()
    assert (found.delivered, found.unreported) == (0, 20)


def test_reported_objects_are_those_between_both_ends() -> None:
    places = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    assert reported_objects([gap((0, 1), (1, 0))], places) == {(0, 1), (1, 0)}
    assert reported_objects([gap((3, 0), (9, ANY_OBJECT))], places) == set()
    assert reported_objects([], places) == set()


# Single objects


def test_a_second_copy_is_doubled() -> None:
    found = outcome(*numbers(), delivery(3))
    assert (found.doubled, found.delivered, found.reordered) == (1, 20, 0)
    assert not found.exact


def test_a_later_object_of_the_subgroup_first_is_reordered() -> None:
    rows = numbers()
    rows[6], rows[7] = rows[7], rows[6]
    found = outcome(*rows)
    assert found.reordered == 1
    assert not found.exact


def test_groups_and_subgroups_may_overtake_each_other() -> None:
    rows = numbers()
    rows[0:5], rows[5:10] = rows[5:10], rows[0:5]
    assert outcome(*rows).exact
    apart = [delivery(number, subgroup=number % 2) for number in (1, 3, 0, 2, 4)]
    assert outcome(*apart, *numbers(*range(5))).reordered == 0


@pytest.mark.parametrize(
    "changes",
    [{"intact": False}, {"sequence": 8}, {"group": 99}],
    ids=["hash", "sequence", "unpublished"],
)
def test_a_wrong_object_is_corrupt_and_not_delivered(changes: dict[str, Any]) -> None:
    found = outcome(*numbers(7), delivery(7)._replace(**changes))
    assert (found.corrupt, found.delivered, found.unreported) == (1, 19, 1)
    assert not found.exact


# Times


def test_a_pause_counts_from_the_first_object_that_was_not_received() -> None:
    rows = [*numbers(*range(5, 15)), *(delivery(n, received=1.5) for n in range(5, 15))]
    found = outcome(*rows, events=(Event(at=0.5),))
    assert found.pauses == [pytest.approx(1.0 - DELAY + DELAY)]


def test_a_silent_publisher_makes_no_pause() -> None:
    rows = [Published(n, n, 0, n * 40.0) for n in range(4)]
    got = [Delivered(n, n, 0, 0, n * 40.0, n * 40.0 + DELAY, True) for n in range(4)]
    found = check(PublisherHistory("track", rows), subscribed(*got), 0.0, [Event(at=0.0)])
    assert found.pauses == [pytest.approx(DELAY)]
    assert found.recoveries == [0.0]


def test_a_subscription_that_never_receives_again_pauses_until_the_last_object() -> None:
    found = outcome(*numbers(*range(10, 20)), events=(Event(at=1.0),))
    assert found.pauses == [pytest.approx(0.9)]


def test_recovery_is_the_time_of_the_last_object_that_was_late_or_lost() -> None:
    events = (Event(at=2.0), Event(at=7.0))
    rows = [*numbers(20, 21, of=100), delivery(20, received=3.2)]
    found = outcome(*rows, events=events, of=100)
    assert found.recoveries == [pytest.approx(1.2), 0.0]
    found = outcome(*numbers(75, of=100), events=events, of=100)
    assert found.recoveries == [0.0, pytest.approx(0.5)]


def test_a_long_pause_delays_recovery_though_nothing_was_written_in_it() -> None:
    rows = [Published(n, n, 0, at) for n, at in enumerate((0.0, 1.0, 1.1, 9.0, 9.1))]
    got = [Delivered(n, n, 0, 0, rows[n].sent, rows[n].sent + DELAY, True) for n in (0, 3, 4)]
    found = check(PublisherHistory("track", rows), subscribed(*got), 0.0, [Event(at=0.5)])
    assert found.pauses == [pytest.approx(8.0 + DELAY)]
    assert found.recoveries == [pytest.approx(8.5 + DELAY)]


def test_the_total_sums_up_and_counts_broken_subscriptions() -> None:
    good = outcome(*numbers(7), reports=(gap((1, 2), (1, 2)),), events=(Event(at=0.0),))
    bad = outcome(*numbers(7, 8), delivery(3), events=(Event(at=0.0),))
    sums = total([good, bad], 1)
    assert (sums.published, sums.delivered, sums.lost, sums.unreported) == (40, 37, 3, 2)
    assert (sums.doubled, sums.broken, sums.subscriptions, sums.events) == (1, 1, 2, 1)
    assert sums.pause_max >= sums.pause_p50 > 0
    assert total([], 0).pause_max == 0.0


# Histories


def test_a_payload_is_what_was_packed() -> None:
    payload = pack("track", 7, 1.5, 300)
    assert len(payload) == 300
    assert unpack("track", payload) == (7, 1.5, True)
    assert len(pack("track", 7, 1.5, 1)) == HEAD


def test_a_damaged_payload_is_not_intact() -> None:
    payload = pack("track", 7, 1.5, 100)
    damaged = [payload[:-1], payload + b"x", payload[:40] + b"x" + payload[41:], b"", b"x" * 99]
    assert not any(unpack("track", each).intact for each in damaged)
    assert not unpack("other", payload).intact


def test_histories_are_read_from_lines(tmp_path: Path) -> None:
    lines = [
        ["published", "track", 0, 4, 0, 1.0],
        ["ended", "track", 2.0, "lost"],
        ["subscription", "one", "track"],
        ["delivered", "one", 0, 4, 0, 0, 1.0, 1.1, True],
        ["reported", "one", 4, 1, 4, 2, 3.0, "missing"],
        ["discarded", "one", 2],
        ["discarded", "one", 1],
        ["ended", "one", 5.0, "end of track"],
    ]
    first, second = tmp_path / "publisher.jsonl", tmp_path / "subscriber.jsonl"
    text = [json.dumps(line) + "\n" for line in lines]
    first.write_text("".join(text[:2]), encoding="utf-8")
    second.write_text("".join(text[2:]) + '["delivered", "one", 1, 4', encoding="utf-8")
    tracks, subscribers = read_publishers([first]), read_subscribers([second])
    assert tracks == {
        "track": PublisherHistory("track", [Published(0, 4, 0, 1.0)], [Ended(2.0, "lost")])
    }
    one = subscribers["one"]
    assert one.delivered == [Delivered(0, 4, 0, 0, 1.0, 1.1, True)]
    assert one.reported == [Reported(4, 1, 4, 2, 3.0, "missing")]
    assert (one.discarded, one.ended) == (3, [Ended(5.0, "end of track")])
