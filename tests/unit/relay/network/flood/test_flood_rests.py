"""Entries that are told to nobody for a moment."""

from __future__ import annotations

from laps_relay.network.flood.flood_records import Record
from laps_relay.network.flood.flood_rests import REST, Rests
from laps_sdk.timers import first_of
from laps_wire.peering.laps2 import SubscribeInfo, SubscribeWithdrawal
from testkit.flood_net import subscribe


def test_a_rest_is_longer_than_changes_are_collected_for() -> None:
    assert REST > 1


def test_a_rest_ends_by_itself_or_when_it_is_ended() -> None:
    rests: Rests[SubscribeInfo, SubscribeWithdrawal] = Rests(0.5)
    one, two, three = (
        Record[SubscribeInfo, SubscribeWithdrawal](subscribe(9, key), dead=False)
        for key in (1, 2, 3)
    )
    assert (len(rests), rests.poll_timeout()) == (0, None)
    for record in (one, two, three):
        rests.begin(1.0, record)
    assert (len(rests), rests.poll_timeout()) == (3, 2.0)
    assert first_of(rests.clocks) == 2.0
    rests.begin(1.25, one)
    rests.end(two)
    rests.end(two)
    assert (one in rests, two in rests) == (True, False)
    assert rests.pop(1.75) is None
    assert rests.pop(2.0) is three
    assert rests.pop(2.0) is None
    assert rests.pop(2.25) is one
    assert (len(rests), rests.poll_timeout()) == (0, None)
