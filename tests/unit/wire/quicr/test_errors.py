"""QuicR's own error: its code, its words, its fields."""

from __future__ import annotations

from laps_wire.errors import ProtocolViolation, RemoteError
from laps_wire.quicr.errors import FragmentSequenceError


def test_a_sequence_error_says_what_came_and_what_was_due() -> None:
    error = FragmentSequenceError((1, 2, 30), ((1, 2, 7), (2, 0, 0)))
    assert isinstance(error, ProtocolViolation)
    assert isinstance(error, RemoteError)
    assert error.code == 0x3
    assert error.got == (1, 2, 30)
    assert error.allowed == ((1, 2, 7), (2, 0, 0))
    assert str(error) == (
        "fragment at group 1 object 2 offset 30 where only "
        "group 1 object 2 offset 7 or group 2 object 0 offset 0 may follow"
    )
