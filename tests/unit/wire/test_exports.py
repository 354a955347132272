"""The public names: every package says what it gives out, and a change of that is deliberate.

``tests/vectors/public-names.json`` holds the list. To change it on purpose run
``LAPS_UPDATE_EXPORTS=1 pytest tests/unit/wire/test_exports.py`` and look at the diff.
"""

from __future__ import annotations

import pytest

import laps_wire
from testkit.exports import (
    check_handed_on,
    check_locked,
    check_promises,
    modules_of,
    packages_of,
)

PACKAGES = packages_of(laps_wire)


def test_the_public_names_are_the_locked_ones() -> None:
    check_locked(PACKAGES, "public-names.json")


@pytest.mark.parametrize("name", modules_of(laps_wire))
def test_what_is_promised_is_there(name: str) -> None:
    check_promises(name, package=name in PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_only_hands_on(name: str) -> None:
    check_handed_on(name)
