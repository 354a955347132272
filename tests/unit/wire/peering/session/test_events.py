"""Events: what a close means, and that events are values."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest

from laps_wire.errors import ProtocolViolation
from laps_wire.peering.errors import HoldExpiredError, PeeringError
from laps_wire.peering.session import events
from laps_wire.peering.session.events import Closed, StreamData


@pytest.mark.parametrize(
    ("code", "error"),
    [(0, None), (3, ProtocolViolation), (0xC, HoldExpiredError), (0x7777, PeeringError)],
)
def test_what_a_close_stands_for(code: int, error: type | None) -> None:
    assert Closed(code=code).error is error


def test_every_event_is_frozen_and_named_in_full() -> None:
    kinds: tuple[Any, ...] = typing.get_args(events.Event)
    assert len(kinds) == 26
    for kind in kinds:
        assert kind.__dataclass_params__.frozen
        assert all(field.kw_only for field in dataclasses.fields(kind))
        assert kind.__name__ in events.__all__


def test_bytes_are_not_printed() -> None:
    assert "secret" not in repr(StreamData(0, b"secret"))
