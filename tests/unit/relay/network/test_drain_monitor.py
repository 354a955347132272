from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.drain_monitor import DrainMonitor, Standing


def test_a_relay_without_anything_stays_for_a_flight() -> None:
    departure = DrainMonitor(10.0, 5.0)
    assert departure.deadline == 15.0
    assert departure.look(10.0, busy=False, flight=0.5) is Standing.STAYS
    assert departure.look(10.4, busy=False, flight=0.5) is Standing.STAYS
    assert departure.look(10.5, busy=False, flight=0.5) is Standing.DONE
    assert DrainMonitor(10.0, 5.0).look(12.0, busy=False, flight=0.0) is Standing.DONE


def test_what_is_under_way_keeps_it_and_the_last_bytes_have_their_flight() -> None:
    departure = DrainMonitor(0.0, 10.0)
    assert departure.look(0.0, busy=True, flight=0.5) is Standing.STAYS
    assert departure.look(3.0, busy=True, flight=0.5) is Standing.STAYS
    assert departure.look(3.4, busy=False, flight=0.5) is Standing.STAYS
    assert departure.look(3.6, busy=False, flight=0.5) is Standing.DONE


@pytest.mark.parametrize("busy", [True, False])
def test_its_time_ends(busy: bool) -> None:
    departure = DrainMonitor(0.0, 2.0)
    assert departure.look(1.9, busy=True, flight=0.5) is Standing.STAYS
    assert departure.look(2.0, busy=busy, flight=0.5) is Standing.LATE


@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=20),
    st.floats(0.0, 2.0),
)
def test_nobody_ends_before_a_quiet_flight(looks: list[tuple[float, bool]], flight: float) -> None:
    departure = DrainMonitor(0.0, 100.0)
    now, quiet = 0.0, 0.0
    for number, (step, busy) in enumerate(looks):
        now += step
        if busy or not number:
            quiet = now
        standing = departure.look(now, busy=busy, flight=flight)
        assert (standing is Standing.DONE) == (not busy and now >= quiet + flight)
