"""Reference pages that are made from the code say what the code says now."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import laps_sdk
from testkit.pages import ROOT


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_the_sdk_page_is_made_from_its_docstrings() -> None:
    made = script("sdk_page")
    assert text_of(made.PAGE) == made.page().rstrip() + "\n", "run python scripts/sdk_page.py"


def test_the_sdk_page_has_every_public_name() -> None:
    page = text_of(ROOT / "docs" / "reference" / "sdk-api.md")
    for name in laps_sdk.__all__:
        assert f"### `laps_sdk.{name}`" in page


def test_the_admin_page_is_made_from_the_openapi_document() -> None:
    made = script("admin_page")
    assert text_of(made.PAGE) == made.page(made.document()), "run python scripts/admin_page.py"


def test_the_admin_page_has_every_route() -> None:
    made = script("admin_page")
    page = text_of(made.PAGE)
    for path, methods in made.document()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page


def test_the_threat_model_names_tests_that_exist() -> None:
    """Each is ``path::test`` below tests/."""
    page = text_of(ROOT / "docs" / "explanation" / "threat-model.md")
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", page)
    assert named
    for path, test in named:
        assert f"def {test}(" in text_of(ROOT / "tests" / path), (path, test)
