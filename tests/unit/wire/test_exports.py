"""The public names: every package says what it gives out, and a change of that is deliberate.

``tests/vectors/public-names.json`` holds the list. To change it on purpose run
``LAPS_UPDATE_EXPORTS=1 pytest tests/unit/wire/test_exports.py`` and look at the diff.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import laps_wire

LOCKED = Path(__file__).parents[2] / "vectors" / "public-names.json"

PACKAGES = sorted(
    ["laps_wire"]
    + [
        found.name
        for found in pkgutil.walk_packages(laps_wire.__path__, "laps_wire.")
        if found.ispkg
    ]
)
MODULES = sorted(
    found.name
    for found in pkgutil.walk_packages(laps_wire.__path__, "laps_wire.")
    if not found.name.endswith("__main__")
)


def public(module: ModuleType) -> list[str]:
    names: list[str] = getattr(module, "__all__", [])
    return names


def test_the_public_names_are_the_locked_ones() -> None:
    names = {package: public(importlib.import_module(package)) for package in PACKAGES}
    if os.environ.get("LAPS_UPDATE_EXPORTS"):
        LOCKED.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
    assert names == json.loads(LOCKED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MODULES)
def test_what_is_promised_is_there(name: str) -> None:
    module = importlib.import_module(name)
    promised = public(module)
    assert len(promised) == len(set(promised))
    for attribute in promised:
        assert hasattr(module, attribute), f"{name}.{attribute}"
    if name not in PACKAGES:
        assert promised, f"{name} has no __all__"


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_only_hands_on(name: str) -> None:
    """``__init__`` holds re-exports: nothing is defined there."""
    module = importlib.import_module(name)
    for attribute in public(module):
        value = getattr(module, attribute)
        assert getattr(value, "__module__", "elsewhere") != name
