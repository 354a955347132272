"""Plans as data: what is said if nothing is said, and whom an entry is for."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from laps_wire.nodeid import NodeId
from laps_wire.plan.model import ClassRule, HardConstraints, Plan, PlanEntry

HERE, THERE, VIA = NodeId(1), NodeId(2), NodeId(3)


def entry(origin: NodeId, region: str) -> PlanEntry:
    return PlanEntry(origin=origin, region=region, scope="", tracks=None, via=VIA)


def plan(*entries: PlanEntry) -> Plan:
    return Plan(
        id="p", version=1, made_us=0, expires_us=1, based_on="0" * 64, entries=tuple(entries)
    )


def test_a_relay_takes_the_entries_for_itself_in_their_order() -> None:
    made = plan(entry(HERE, "eu"), entry(THERE, "eu"), entry(HERE, "us"))
    assert [item.region for item in made.of(HERE)] == ["eu", "us"]
    assert made.of(VIA) == ()


def test_who_says_nothing_gets_the_bounds_of_the_specification() -> None:
    assert HardConstraints().max_fanout == 2
    assert HardConstraints().change_budget is None
    assert ClassRule().allow_countries is None
    assert not ClassRule().disjoint
    gold = ClassRule(disjoint=True)
    assert HardConstraints(classes={"gold": gold}).rule("gold") is gold
    assert HardConstraints(classes={"gold": gold}).rule("") == ClassRule()


def test_what_is_signed_does_not_change() -> None:
    made = plan(entry(HERE, "eu"))
    with pytest.raises(FrozenInstanceError):
        made.version = 2  # type: ignore[misc]
