"""The public names of a package: what it gives out, and that a change of it is deliberate.

A file in ``tests/vectors/`` holds the list. To change it on purpose run the test with
``LAPS_UPDATE_EXPORTS=1`` and look at the diff.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

__all__ = ["check_handed_on", "check_locked", "check_promises", "modules_of", "packages_of"]

VECTORS = Path(__file__).parents[1] / "vectors"


def _walk(root: ModuleType) -> list[pkgutil.ModuleInfo]:
    found = pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
    return [info for info in found if "._" not in info.name]


def packages_of(root: ModuleType) -> list[str]:
    """Every public package from ``root`` on."""
    return sorted([root.__name__, *(info.name for info in _walk(root) if info.ispkg)])


def modules_of(root: ModuleType) -> list[str]:
    """Every public module below ``root``, packages included."""
    return sorted(info.name for info in _walk(root))


def _public(module: ModuleType) -> list[str]:
    names: list[str] = getattr(module, "__all__", [])
    return names


def check_locked(packages: Sequence[str], file: str) -> None:
    """The public names are those in the file."""
    locked = VECTORS / file
    names = {package: _public(importlib.import_module(package)) for package in packages}
    if os.environ.get("LAPS_UPDATE_EXPORTS"):
        locked.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
    assert names == json.loads(locked.read_text(encoding="utf-8"))


def check_promises(name: str, *, package: bool) -> None:
    """Whatever ``__all__`` says is there, once; a module that is no package has one."""
    module = importlib.import_module(name)
    promised = _public(module)
    assert len(promised) == len(set(promised))
    for attribute in promised:
        assert hasattr(module, attribute), f"{name}.{attribute}"
    if not package:
        assert promised, f"{name} has no __all__"


def check_handed_on(name: str) -> None:
    """``__init__`` holds re-exports: nothing is defined there."""
    module = importlib.import_module(name)
    for attribute in _public(module):
        value = getattr(module, attribute)
        assert getattr(value, "__module__", "elsewhere") != name
