"""The doors of the wire package: each name in ``__all__`` exists, and packages only re-export."""

from __future__ import annotations

import pytest

import laps_wire
from testkit.exports import check_handed_on, check_promises, modules_of, packages_of

PACKAGES = packages_of(laps_wire)


@pytest.mark.parametrize("name", modules_of(laps_wire))
def test_every_name_in_all_exists_once(name: str) -> None:
    check_promises(name, package=name in PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_only_re_exports(name: str) -> None:
    check_handed_on(name)
