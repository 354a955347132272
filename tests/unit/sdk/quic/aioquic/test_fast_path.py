from __future__ import annotations

import runpy
import sys

import pytest
from aioquic.quic.connection import QuicConnection

from laps_sdk.quic.aioquic import fast_path
from laps_sdk.quic.aioquic.fast import selfcheck
from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection

MODULE = "laps_sdk.quic.aioquic.fast_path"


def loaded_anew() -> dict[str, object]:
    """The module's names when it is imported now; the one in use is left alone."""
    return runpy.run_path(str(fast_path.__file__))


def test_it_is_available_with_the_aioquic_that_we_ask_for() -> None:
    assert fast_path.available
    assert fast_path.why_not == ""
    assert fast_path.FastQuicConnection is FastQuicConnection
    assert issubclass(FastQuicConnection, QuicConnection)


def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPS_FAST_PATH", "0")
    names = loaded_anew()
    assert not names["available"]
    assert names["why_not"] == "switched off by LAPS_FAST_PATH=0"


@pytest.mark.parametrize("value", ["1", ""])
def test_other_values_do_not(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LAPS_FAST_PATH", value)
    assert loaded_anew()["available"]


def test_what_the_self_check_finds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAPS_FAST_PATH", raising=False)
    monkeypatch.setattr(selfcheck, "fault", lambda: "something is off")
    names = loaded_anew()
    assert not names["available"]
    assert names["why_not"] == "something is off"


def test_without_a_module_of_aioquic_the_stock_class_is_all_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "laps_sdk.quic.aioquic.fast.connection", None)
    names = loaded_anew()
    assert not names["available"]
    assert "lacks something" in str(names["why_not"])
    assert names["FastQuicConnection"] is QuicConnection
