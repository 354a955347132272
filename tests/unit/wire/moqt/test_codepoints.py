"""Code points against what was transcribed from the drafts, both ways."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.moqt import codepoints
from laps_wire.moqt.codepoints import (
    ONLY,
    PUBLISH_DONE_CODES,
    STREAM_RESET_CODES,
    grease,
    is_grease,
    registries,
)
from laps_wire.moqt.versions import Draft
from testkit.moqt import VECTORS


def transcribed(draft: Draft) -> dict[str, list[dict[str, Any]]]:
    path = VECTORS / "codepoints" / f"moqt-draft{draft.value}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["draft"] == f"draft-ietf-moq-transport-{draft.value}"
    found: dict[str, list[dict[str, Any]]] = data["registries"]
    return found


ENTRIES = [
    pytest.param(draft, registry, entry, id=f"{draft.value}-{registry}-{entry['name']}")
    for draft in Draft
    for registry, entries in transcribed(draft).items()
    for entry in entries
]


@pytest.mark.parametrize(("draft", "registry", "entry"), ENTRIES)
def test_what_the_draft_has_is_in_the_code(
    draft: Draft, registry: str, entry: dict[str, Any]
) -> None:
    assert registries(draft)[registry][entry["name"]] == int(entry["value"], 16)
    assert entry["section"]


@pytest.mark.parametrize("draft", list(Draft))
def test_what_the_code_has_is_in_the_draft(draft: Draft) -> None:
    assert registries(draft) == {
        registry: {entry["name"]: int(entry["value"], 16) for entry in entries}
        for registry, entries in transcribed(draft).items()
    }


def test_exceptions_name_members_that_exist() -> None:
    for enumeration, member in ONLY:
        assert member in getattr(codepoints, enumeration).__members__


def test_numbers_that_changed_their_meaning() -> None:
    assert PUBLISH_DONE_CODES[Draft.D16].EXPIRED == PUBLISH_DONE_CODES[Draft.D18].TOO_FAR_BEHIND
    assert PUBLISH_DONE_CODES[Draft.D16].TOO_FAR_BEHIND == PUBLISH_DONE_CODES[Draft.D18].EXPIRED
    assert STREAM_RESET_CODES[Draft.D16].UNKNOWN_OBJECT_STATUS == 0x4
    assert STREAM_RESET_CODES[Draft.D18].UNKNOWN_OBJECT_STATUS == 0x6


def test_the_page_has_the_same_message_types() -> None:
    page = (VECTORS.parent.parent / "docs" / "spec" / "moqt.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([A-Z_]+) \| `\w+` \| (0x\w+)? ?\| \(?(0x\w+)?\)? ?\|", page, flags=re.MULTILINE
    )
    for draft, column in ((Draft.D16, 1), (Draft.D18, 2)):
        written = {row[0]: int(row[column], 16) for row in rows if row[column]}
        assert written == registries(draft)["message_types"]


LAST = 0x3FFF_FFFF_FFFF_FFDE


def test_the_numbers_of_the_draft() -> None:
    assert [grease(0), grease(1)] == [0x9D, 0x11C]
    assert grease((LAST - 0x9D) // 0x7F) == LAST


@given(st.integers(0, (LAST - 0x9D) // 0x7F))
def test_what_is_made_is_seen(n: int) -> None:
    assert is_grease(grease(n))
    assert not is_grease(grease(n) + 1)


@pytest.mark.parametrize("value", [0, 0x9D - 0x7F, 0x9E, LAST + 0x7F])
def test_other_numbers(value: int) -> None:
    assert not is_grease(value)


def test_no_assigned_number_is_grease() -> None:
    for draft in Draft:
        for registry, members in registries(draft).items():
            if registry != "message_types":
                assert not [name for name, value in members.items() if is_grease(value)]
