"""Events: what a close means, and that bytes are not printed."""

from __future__ import annotations

import pytest

from laps_wire.errors import ProtocolViolation
from laps_wire.peering.errors import HoldExpiredError, PeeringError
from laps_wire.peering.session.events import Closed, StreamData


@pytest.mark.parametrize(
    ("code", "error"),
    [(0, None), (3, ProtocolViolation), (0xC, HoldExpiredError), (0x7777, PeeringError)],
)
def test_what_a_close_stands_for(code: int, error: type | None) -> None:
    assert Closed(code=code).error is error


def test_bytes_are_not_printed() -> None:
    assert "secret" not in repr(StreamData(0, b"secret"))
