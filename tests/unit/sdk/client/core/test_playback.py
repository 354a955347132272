"""What a player notes of its playback, and the records that are made of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.client.core.playback import Playback
from laps_wire.errors import EncodeError, StateError
from laps_wire.reports import MAX_RECORDS, PlayerReport, decode_reports

NAN, INF = float("nan"), float("inf")


def records(playback: Playback) -> list[PlayerReport]:
    """All that wait, in objects as they would be sent."""
    found: list[PlayerReport] = []
    while (data := playback.take()) is not None:
        found += decode_reports(data)
    return found


def one(playback: Playback) -> PlayerReport:
    (found,) = records(playback)
    return found


def test_the_first_record() -> None:
    playback = Playback("me", "film")
    assert playback.take() is None
    playback.measured(buffer=1.5, latency=0.25, bitrate=5_000_000, asked=8e6, rate=1)
    playback.started(10.0, 1000.5, 0.4)
    assert one(playback) == PlayerReport(
        at_ms=1_000_500,
        event="ps",
        session="me",
        content="film",
        sequence=0,
        state="p",
        buffer_ms=1500,
        latency_ms=250,
        startup_ms=400,
        bitrate_kbps=5000,
        asked_kbps=8000,
        rate=1.0,
        starved=False,
        stalled_ms=0,
        stalls=0,
        gaps=0,
    )
    playback.tick(20.0, 1010.5)
    second = one(playback)
    # The start-up is said once, and what was measured stays.
    assert (second.sequence, second.startup_ms, second.buffer_ms) == (1, None, 1500)
    assert second.event == "t"


def test_a_stall_is_in_the_sum_while_it_lasts() -> None:
    playback = Playback("me")
    playback.resumed(9.0, 0.0)  # there is none
    playback.stalled(10.0, 0.0)
    playback.stalled(11.0, 0.0)  # it is the same
    begun = one(playback)
    assert (begun.state, begun.starved, begun.stalls, begun.stalled_ms) == ("r", True, 1, 0)
    playback.tick(14.0, 0.0)
    running = one(playback)
    assert (running.starved, running.stalled_ms, running.stall_ms) == (True, 4000, None)
    playback.resumed(15.5, 0.0)
    over = one(playback)
    assert (over.state, over.stalled_ms, over.stall_ms) == ("p", 5500, 5500)
    playback.tick(24.0, 0.0)
    later = one(playback)
    assert (later.starved, later.stalled_ms, later.stall_ms) == (False, 5500, None)


@pytest.mark.parametrize("state", sorted("spkawefqd"))
def test_another_state_ends_a_stall(state: str) -> None:
    playback = Playback("me")
    playback.become(10.0, 0.0, "r")
    playback.become(12.0, 0.0, state)
    assert [found.state for found in records(playback)] == ["r", state]
    playback.become(13.0, 0.0, state)
    assert records(playback) == []
    assert playback.stalled_since is None


@pytest.mark.parametrize("fatal", [True, False])
def test_something_goes_wrong(fatal: bool) -> None:
    playback = Playback("me")
    playback.stalled(10.0, 0.0)
    playback.failed(11.0, 0.0, "decode", fatal=fatal)
    _, wrong = records(playback)
    assert (wrong.event, wrong.errors, wrong.state) == ("e", ("decode",), "f" if fatal else "r")
    playback.tick(12.0, 0.0)
    assert one(playback).errors == ()
    with pytest.raises(EncodeError, match="such as 'decode'"):
        playback.failed(12.0, 0.0, "a b", fatal=False)
    assert records(playback) == []


def test_the_end() -> None:
    playback = Playback("me")
    playback.stalled(1.0, 0.0)
    records(playback)
    playback.end(2.0, 0.0)
    assert (one(playback).state, playback.ended) == ("q", True)
    with pytest.raises(StateError):
        playback.end(3.0, 0.0)
    finished = Playback("me")
    finished.become(1.0, 0.0, "e")
    records(finished)
    finished.end(2.0, 0.0)
    assert records(finished) == []


def test_gaps_are_a_sum() -> None:
    playback = Playback("me")
    playback.missed(3)
    playback.missed(-1)
    playback.missed(2)
    playback.tick(1.0, 0.0)
    assert one(playback).gaps == 5


@pytest.mark.parametrize(
    ("values", "field", "told"),
    [
        ({"buffer": -1}, "buffer_ms", 0),
        ({"buffer": INF}, "buffer_ms", 86_400_000),
        ({"latency": NAN}, "latency_ms", 0),
        ({"bitrate": 1e99}, "bitrate_kbps", 10_000_000),
        ({"rate": 1000}, "rate", 100.0),
        ({"rate": NAN}, "rate", 0.0),
    ],
)
def test_what_cannot_be_said_is_said_as_the_nearest(
    values: dict[str, Any], field: str, told: float
) -> None:
    playback = Playback("me")
    playback.measured(**values)
    playback.tick(1.0, -5.0)
    found = one(playback)
    assert (getattr(found, field), found.at_ms) == (told, 0)


def test_names_are_checked_at_once() -> None:
    with pytest.raises(EncodeError, match="sid"):
        Playback("x" * 65)
    with pytest.raises(EncodeError, match="cid"):
        Playback("me", "")
    with pytest.raises(EncodeError, match="must be one of"):
        Playback("me").become(1.0, 0.0, "z")


def test_memory_is_bounded_and_events_outlive_ticks() -> None:
    playback = Playback("me" * 30, "film" * 30)
    playback.started(0.0, 0.0, 1.0)
    for number in range(10):
        playback.tick(float(number), 0.0)
    for number in range(10):
        playback.stalled(2.0 * number, 0.0)
        playback.resumed(2.0 * number + 1, 0.0)
    assert playback.waiting == MAX_RECORDS
    assert playback.dropped == 31 - MAX_RECORDS
    found = records(playback)
    assert len(found) == MAX_RECORDS
    assert {each.event for each in found} == {"ps"}
    assert found[-1].stalls == 10


STEPS = st.sampled_from(
    ["tick", "stalled", "resumed", "started", "measured", "missed", "failed", "become", "take"]
)


@given(st.lists(st.tuples(STEPS, st.floats(), st.integers(0, 10**12)), max_size=60))
def test_whatever_happens_can_be_sent(steps: list[tuple[str, float, int]]) -> None:
    """Any order, any numbers: records are good, sums never fall, and little waits."""
    playback, now = Playback("me"), 0.0
    found: list[PlayerReport] = []
    for step, number, count in steps:
        now += 1.0
        match step:
            case "tick" | "stalled" | "resumed":
                getattr(playback, step)(now, float(count))
            case "started":
                playback.started(now, float(count), number)
            case "measured":
                playback.measured(
                    buffer=number, latency=number, bitrate=number, asked=number, rate=number
                )
            case "missed":
                playback.missed(count)
            case "failed":
                playback.failed(now, float(count), "drm", fatal=bool(count % 2))
            case "become":
                playback.become(now, float(count), "spkrawefqd"[count % 10])
            case _:
                found += records(playback)
        assert playback.waiting <= MAX_RECORDS
    found += records(playback)
    for name in ("sequence", "stalled_ms", "stalls", "gaps"):
        sums = [getattr(each, name) for each in found]
        assert sums == sorted(sums)
