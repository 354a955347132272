from __future__ import annotations

import sys
from types import ModuleType

import pytest

from laps_sdk.quic.aioquic import engine
from laps_sdk.quic.aioquic.engine import AioquicEngine
from laps_sdk.quic.engine import EngineOptions
from testkit.engines import Link, make_engine

FAST = "laps_sdk.quic.aioquic.fast_path"


def test_the_fast_path_is_used_if_it_is_available() -> None:
    engine = AioquicEngine(EngineOptions())
    assert engine.fast
    assert engine.name == "aioquic"
    stock = AioquicEngine(EngineOptions(), fast=False)
    assert not stock.fast
    assert stock.name == "aioquic-stock"


def test_a_fast_path_that_does_not_fit_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(FAST)
    module.available = False  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, FAST, module)
    assert not AioquicEngine(EngineOptions(), fast=True).fast
    link = Link(make_engine("aioquic", server=False), make_engine("aioquic", server=True))
    link.run(lambda: link.client.connected and link.server.connected)


def test_a_fast_path_that_is_missing_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(engine, "import_module", missing)
    assert not AioquicEngine(EngineOptions(), fast=True).fast


def test_a_fast_path_that_is_broken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> ModuleType:
        raise ModuleNotFoundError(name="something_else")

    monkeypatch.setattr(engine, "import_module", broken)
    with pytest.raises(ModuleNotFoundError):
        AioquicEngine(EngineOptions(), fast=True)
