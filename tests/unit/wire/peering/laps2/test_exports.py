"""The package's public names."""

from __future__ import annotations

import importlib
import pkgutil

from laps_wire.peering import laps2


def test_every_exported_name_exists_once() -> None:
    assert len(set(laps2.__all__)) == len(laps2.__all__)
    for name in laps2.__all__:
        assert hasattr(laps2, name)


def test_every_message_can_be_imported_from_the_package() -> None:
    messages = importlib.import_module("laps_wire.peering.laps2.messages")
    for cls in messages.TYPES:
        assert getattr(laps2, cls.__name__) is cls


def test_every_module_says_what_is_public() -> None:
    for module in pkgutil.iter_modules(laps2.__path__, "laps_wire.peering.laps2."):
        loaded = importlib.import_module(module.name)
        for name in loaded.__all__:
            assert hasattr(loaded, name), (module.name, name)
