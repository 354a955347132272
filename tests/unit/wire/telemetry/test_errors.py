"""The error of the readers: what, where, and on which line."""

from __future__ import annotations

from laps_wire.errors import TextFormError
from laps_wire.telemetry.schema import TelemetryError


def test_it_says_what_and_where() -> None:
    error = TelemetryError("7 is not a string", where="body.track")
    assert str(error) == "body.track: 7 is not a string"
    assert (error.reason, error.where, error.line) == ("7 is not a string", "body.track", None)
    assert isinstance(error, TextFormError)
    assert isinstance(error, ValueError)


def test_it_takes_its_line_later() -> None:
    error = TelemetryError("not JSON").at_line(12)
    assert str(error) == "not JSON (line 12)"
    assert error.line == 12
    placed = TelemetryError("bad", where="v").at_line(3)
    assert (str(placed), placed.where) == ("v: bad (line 3)", "v")
