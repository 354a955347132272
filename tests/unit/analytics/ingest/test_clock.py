from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from laps_analytics.ingest.clock import LIMIT_US, Link, clock_rows, solve
from testkit.telemetry_lines import START_US


def relay(name: str, **changes: Any) -> dict[str, Any]:
    row = {"dt": "d", "hour": "00", "relay": name, "events": 9, "first_us": START_US}
    return {**row, "last_us": START_US + 5, "first_batch": 1, "ahead_us": -1_000_000, **changes}


def link(sender: str, receiver: str, least_us: int | None, pairs: int = 50) -> dict[str, Any]:
    row: dict[str, Any] = {"dt": "d", "hour": "00", "sender": sender, "receiver": receiver}
    return {**row, "least_us": least_us, "pairs": pairs, "sent": 50, "came": 50, "rtt_us": 2_000}


def verdicts(rows: list[dict[str, Any]], links: list[dict[str, Any]]) -> dict[str, str | None]:
    return {row["relay"]: row["reason"] for row in clock_rows(rows, links)}


def test_clocks_that_cannot_be_believed() -> None:
    rows = [
        relay("fine"),
        relay("old", first_us=86_400_000_000),
        relay("ahead", ahead_us=3 * 3_600_000_000),
        relay("off"),
        relay("other"),
    ]
    off = 2 * LIMIT_US
    found = verdicts(
        rows,
        [
            *(link("fine", "other", 1_000), link("other", "fine", 1_000)),
            *(link("fine", "off", off + 1_000), link("off", "fine", 1_000 - off)),
        ],
    )
    assert found == {
        "fine": None,
        "other": None,
        "old": "the clock of the relay is broken: it says 1970",
        "ahead": "the clock of the relay is broken: it was 10800 s ahead",
        "off": "the clock of the relay is broken: it is 2000 s off its peers",
    }


def test_a_relay_that_shares_no_object_with_peers_writes_of_another_hour() -> None:
    rows = [relay(name) for name in "abcd"]
    good = [link("a", "b", 1_000), link("b", "c", 1_000)]
    found = verdicts(rows, [*good, link("c", "d", None, pairs=0)])
    assert [name for name, reason in found.items() if reason] == ["d"]
    # Where nobody has pairs, relays sample different objects.
    none = [link(a, b, None, pairs=0) for a, b in ("ab", "bc", "cd")]
    assert set(verdicts(rows, none).values()) == {None}


def links(errors: dict[str, int], ways: list[tuple[str, str]], delay: int = 10_000) -> list[Link]:
    return [Link(a, b, errors[b] - errors[a] + delay, 10, 2 * delay) for a, b in ways]


@given(st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=9), st.booleans())
def test_differences_of_clocks_are_found(errors: list[int], both: bool) -> None:
    truth = {f"r{index}": error for index, error in enumerate(errors)}
    names = list(truth)
    ways = [*pairwise(names)]
    if both:
        ways += [(b, a) for a, b in ways]
    found = solve(links(truth, ways))
    for a, b in pairwise(names):
        wanted = truth[b] - truth[a]
        assert abs(found[b].offset_us - found[a].offset_us - wanted) <= 2


def test_one_broken_clock_moves_nobody_else() -> None:
    truth = {"a": 0, "b": 0, "c": 0, "d": 7_200_000_000}
    ways = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "c")]
    found = solve(links(truth, ways))
    assert {name: offset.offset_us for name, offset in found.items()} == truth
    assert found["b"].pairs == 40


def test_without_a_way_back_or_a_round_trip_nothing_is_known() -> None:
    assert solve([Link("a", "b", 5_000, 3)]) == {}
    parts = solve([*links({"a": 0, "b": 9}, [("a", "b")]), *links({"c": 4, "d": 4}, [("c", "d")])])
    assert set(parts) == {"a", "b", "c", "d"}
    assert parts["c"].offset_us == parts["d"].offset_us == 0
