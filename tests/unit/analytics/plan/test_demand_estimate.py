"""Tracks from bytes: no relay's word counts alone."""

from __future__ import annotations

import pytest

from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.plan.core.demand import Track
from laps_analytics.plan.demand_estimate import demand_of
from laps_analytics.plan.observation import HopRow

INDEX = {name: number for number, name in enumerate("oabcdx")}


def hop(relay: str, came: str | None, went: str | None, in_bps: float, out_bps: float) -> HopRow:
    return HopRow(
        relay=relay, track="0a", in_peer=came, out_peer=went, in_bps=in_bps, out_bps=out_bps
    )


def star(*targets: str, viewers: int = 3) -> list[HopRow]:
    return [
        *(hop("o", None, target, 8.0, 8.0) for target in targets),
        *(hop(target, "o", None, 8.0, 8.0 * viewers) for target in targets),
    ]


def track(rows: list[HopRow], excluded: tuple[str, ...] = ()) -> Track:
    (found,), _ = demand_of(rows, INDEX, Dimensions(), excluded)
    return found


def test_honest_relays_are_believed() -> None:
    found, to_clients = demand_of(star("a", "b"), INDEX, Dimensions())
    assert [(item.origin, item.rate_bps, item.viewers) for item in found] == [
        (0, 8.0, {1: 3, 2: 3})
    ]
    assert to_clients == {1: 24.0, 2: 24.0}


def test_of_a_relay_no_more_counts_than_was_sent_to_it() -> None:
    rows = [*star("a"), hop("a", "o", None, 8000.0, 0.0)]
    assert track(rows).rate_bps == 8.0


def test_a_via_that_claims_to_be_the_origin_is_not_while_the_origin_sends_to_it() -> None:
    rows = [
        hop("o", None, "x", 8.0, 8.0),
        hop("o", None, "d", 8.0, 8.0),
        hop("d", "o", None, 8.0, 8.0),
        *(hop("x", None, target, 8.0, 8.0) for target in "abc"),
        *(hop(target, "x", None, 8.0, 8.0) for target in "abc"),
    ]
    assert track(rows).origin == INDEX["o"]
    # If both say that of each other, votes decide.
    assert track([*rows, hop("x", None, "o", 8.0, 8.0)]).origin == INDEX["x"]
    # Who is got from by nobody cannot take it from the origin.
    fake = [*star("a", "b"), hop("x", None, "o", 8.0, 8.0)]
    assert track(fake).origin == INDEX["o"]


def test_an_origin_that_denies_it_is_found_by_the_others() -> None:
    rows = [
        *(hop("o", "d", target, 8.0, 8.0) for target in "abc"),
        *(hop(target, "o", None, 8.0, 8.0) for target in "abc"),
    ]
    assert track(rows).origin == INDEX["o"]


def test_who_is_set_aside_has_what_others_say() -> None:
    rows = [*star("a", "b", "c"), hop("x", None, None, 9e9, 9e9)]
    assert track(rows, ("x",)).viewers == {1: 3, 2: 3, 3: 3}
    # They send it to a, whatever a makes of it: as many viewers as others have.
    loud = [*star("b", "c"), hop("o", None, "a", 8.0, 8.0), hop("a", "o", None, 9e9, 9e12)]
    found = track(loud, ("a",))
    assert (found.rate_bps, found.viewers) == (8.0, {1: 3, 2: 3, 3: 3})
    # Nobody who is believed says anything of the track.
    assert demand_of([hop("x", None, None, 8.0, 8.0)], INDEX, Dimensions(), ("x",)) == ([], {})
    alone = [hop("o", None, "a", 8.0, 8.0), hop("a", "o", None, 8.0, 16.0)]
    assert track(alone, ("a",)).viewers == {1: pytest.approx(2)}
