from __future__ import annotations

from datetime import UTC, datetime, timedelta

from laps_analytics.gold.anomaly import METRICS, Point, incidents

RTT = next(metric for metric in METRICS if metric.name == "rtt")
TRAFFIC = next(metric for metric in METRICS if metric.name == "traffic")
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
FIVE = timedelta(minutes=5)


def series(name: tuple[str, str], values: list[float], start: datetime = NOON) -> list[Point]:
    return [Point(start + index * FIVE, name, value) for index, value in enumerate(values)]


def test_one_incident_for_one_cause() -> None:
    calm = [80_000.0, 80_500.0] * 10
    bad = [*calm[:10], *[300_000.0] * 3, *calm[13:]]
    points = [
        *series(("a", "b"), bad),
        *series(("c", "b"), bad),
        *series(("a", "c"), calm),
        *series(("c", "a"), calm),
    ]
    (row,) = incidents(RTT, points, NOON.date())
    dt, name, metric, first, last, windows, count, peak_z, observed, expected, explained = row
    assert (dt, name, metric) == ("2026-11-17", "rtt@2026-11-17T12:50Z", "rtt")
    assert (first, last) == (NOON + 10 * FIVE, NOON + 13 * FIVE)
    assert (windows, count) == (6, 2)
    assert peak_z > 6
    assert (observed, expected) == (300_000.0, 80_500.0)
    assert explained == [("peer", "b", 1.0)]  # neither relay has more than half of it


def test_two_times_are_two_incidents() -> None:
    values = [80_000.0] * 30
    values[3] = values[20] = 400_000.0
    points = [*series(("a", "b"), values), *series(("a", "c"), [80_000.0] * 30)]
    rows = incidents(RTT, points, NOON.date())
    assert [row[1] for row in rows] == ["rtt@2026-11-17T12:15Z", "rtt@2026-11-17T13:40Z"]
    assert rows[0][-1] == [("peer", "b", 1.0)]  # all have the same relay: that explains nothing


def test_what_every_day_brings_is_usual() -> None:
    evening = [80_000.0] * 12 + [300_000.0] * 4
    days = [NOON - timedelta(days=back) for back in range(4)]
    points = [point for day in days for point in series(("a", "b"), evening, day)]
    assert incidents(RTT, points, NOON.date()) == []
    # Without the days before it is not.
    assert len(incidents(RTT, series(("a", "b"), evening), NOON.date())) == 1


def test_a_series_that_hardly_moves_does_not_cry_wolf() -> None:
    values = [80_000.0] * 20
    values[5] = 82_000.0
    assert incidents(RTT, series(("a", "b"), values), NOON.date()) == []


def test_too_little_traffic_is_unusual_too_but_a_short_way_is_not() -> None:
    values = [5e6] * 20
    values[7] = 0.0
    (row,) = incidents(TRAFFIC, series(("a", "t"), values), NOON.date())
    assert row[7] < -6
    assert incidents(RTT, series(("a", "b"), values), NOON.date()) == []


def test_from_a_few_windows_nothing_is_said() -> None:
    assert incidents(RTT, series(("a", "b"), [1.0, 1.0, 9e9]), NOON.date()) == []
