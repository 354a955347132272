"""The error of plans: what is wrong, and where."""

from __future__ import annotations

from laps_wire.errors import TextFormError
from laps_wire.plan.errors import PlanFormatError


def test_it_says_what_and_where() -> None:
    error = PlanFormatError("'x' is not a node ID", where="plan.entries[3].via")
    assert str(error) == "plan.entries[3].via: 'x' is not a node ID"
    assert (error.reason, error.where) == ("'x' is not a node ID", "plan.entries[3].via")
    assert isinstance(error, TextFormError)


def test_the_whole_text_has_no_place() -> None:
    error = PlanFormatError("not JSON")
    assert (str(error), error.where) == ("not JSON", "")
