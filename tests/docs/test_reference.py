"""Reference pages that are made from the code say what the code says now."""

from __future__ import annotations

import importlib.util
import itertools
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import laps_sdk
from testkit.pages import PAGES, ROOT


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


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


def test_the_dependencies_are_named_with_their_ranges() -> None:
    page = text_of(ROOT / "docs" / "explanation" / "dependencies.md")
    for package in ("laps-sdk", "laps-relay"):
        project = tomllib.loads(text_of(ROOT / "packages" / package / "pyproject.toml"))["project"]
        extras = project.get("optional-dependencies", {}).values()
        for requirement in [*project["dependencies"], *itertools.chain(*extras)]:
            found = re.match(r"([\w-]+)(?:\[\w+\])?\s*([^;]*)", requirement)
            assert found is not None
            if not found[1].startswith("laps-"):
                assert found[1] in page, requirement
                assert f"`{found[2].strip()}`" in page, requirement


@pytest.mark.parametrize("page", [p for p in PAGES if "docs" not in p.parts], ids=page_id)
def test_links_outside_the_docs_lead_somewhere(page: Path) -> None:
    """Inside docs/ Sphinx says it."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text_of(page)):
        assert (page.parent / target).exists(), target


def test_the_threat_model_names_tests_that_exist() -> None:
    page = text_of(ROOT / "docs" / "explanation" / "threat-model.md")
    named = set(re.findall(r"`(test_\w+)`", page))
    assert named
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", text_of(path))
    }
    assert named <= defined, named - defined
