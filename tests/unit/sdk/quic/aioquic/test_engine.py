"""When the aioquic engine uses the fast path."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from laps_sdk.quic.aioquic.engine import AioquicEngine, fast_path
from laps_sdk.quic.aioquic.fast import selfcheck
from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from laps_sdk.quic.engine import EngineOptions
from testkit.engines import Link, make_engine


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Check again whether the fast path fits, and once more after the test."""
    fast_path.cache_clear()
    yield
    fast_path.cache_clear()


def test_the_fast_path_is_used_if_it_fits() -> None:
    quic, why_not = fast_path()
    assert why_not == ""
    assert quic is not None
    assert issubclass(quic, FastQuicConnection)
    engine = AioquicEngine(EngineOptions())
    assert engine.fast
    assert engine.name == "aioquic"
    stock = AioquicEngine(EngineOptions(), fast=False)
    assert not stock.fast
    assert stock.name == "aioquic-stock"


@pytest.mark.usefixtures("unchecked")
def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPS_FAST_PATH", "0")
    assert fast_path() == (None, "switched off by LAPS_FAST_PATH=0")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("value", ["1", ""])
def test_other_values_of_the_environment_do_not(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("LAPS_FAST_PATH", value)
    assert fast_path().quic is not None


@pytest.mark.usefixtures("unchecked")
def test_a_fast_path_that_does_not_fit_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAPS_FAST_PATH", raising=False)
    monkeypatch.setattr(selfcheck, "fault", lambda: "something is off")
    assert fast_path() == (None, "something is off")
    assert not AioquicEngine(EngineOptions(), fast=True).fast
    link = Link(make_engine("aioquic", server=False), make_engine("aioquic", server=True))
    link.run(lambda: link.client.connected and link.server.connected)


@pytest.mark.usefixtures("unchecked")
def test_without_a_module_of_aioquic_the_fast_path_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LAPS_FAST_PATH", raising=False)
    monkeypatch.setitem(sys.modules, "laps_sdk.quic.aioquic.fast.connection", None)
    quic, why_not = fast_path()
    assert quic is None
    assert "lacks something" in why_not
    assert not AioquicEngine(EngineOptions(), fast=True).fast
