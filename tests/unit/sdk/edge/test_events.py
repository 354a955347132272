"""Events: safe to log."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import get_args

import pytest

import laps_sdk.edge.events as module


@pytest.mark.parametrize("event", get_args(module.RelayEvent))
def test_events_are_frozen_and_hold_no_secret(event: type) -> None:
    assert is_dataclass(event)
    assert event.__dataclass_params__.frozen  # type: ignore[attr-defined]  # not in typeshed
    assert event.__name__ in module.__all__
    for field in fields(event):
        assert "token" not in field.name
        assert field.type != "bytes"
