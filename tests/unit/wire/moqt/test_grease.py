"""Grease: which numbers are reserved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.moqt.codepoints import registries
from laps_wire.moqt.grease import grease, is_grease
from laps_wire.moqt.versions import Draft

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
