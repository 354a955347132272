from __future__ import annotations

from laps_relay.telemetry.refusals import _MOST, Refusals, advice
from laps_wire.peering.errors import CloseCode


def test_what_can_be_done() -> None:
    assert "network.type" in advice(CloseCode.MODE_REFUSED, "no Stubs here")
    assert "for peers" in advice(None, "nobody answers")
    assert advice(CloseCode.NO_ERROR, "bye") == ""


def test_reasons_are_remembered_for_so_many_contacts() -> None:
    refusals = Refusals()
    for number in range(_MOST + 1):
        assert refusals.news(f"a:{number}", "x")
    assert not refusals.news(f"a:{_MOST}", "x")
    assert refusals.news("a:0", "x")
    refusals.reached("a:0")
    refusals.reached("never seen")
    assert refusals.news("a:0", "x")
