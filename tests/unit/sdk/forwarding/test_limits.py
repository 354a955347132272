"""The limits' defaults."""

from __future__ import annotations

from dataclasses import fields

from laps_sdk.forwarding.interfaces import PlaneCounters, PlaneLimits


def test_everything_is_bounded() -> None:
    limits = PlaneLimits()
    assert all(getattr(limits, field.name) > 0 for field in fields(limits))
    assert len(PlaneCounters._fields) == 7
