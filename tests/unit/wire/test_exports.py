"""The doors of the wire package: each name in ``__all__`` exists, and packages only re-export."""

from __future__ import annotations

from types import ModuleType

import pytest

import laps_wire
from laps_wire.peering import cpp, laps2
from laps_wire.peering.cpp.messages import LAYOUTS as CPP_LAYOUTS
from laps_wire.peering.laps2.messages import LAYOUTS as LAPS2_LAYOUTS
from testkit.exports import check_handed_on, check_promises, modules_of, packages_of

PACKAGES = packages_of(laps_wire)


@pytest.mark.parametrize("name", modules_of(laps_wire))
def test_every_name_in_all_exists_once(name: str) -> None:
    check_promises(name, package=name in PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_only_re_exports(name: str) -> None:
    check_handed_on(name)


@pytest.mark.parametrize(
    ("package", "messages"),
    [
        (cpp, [layout.cls for layout in CPP_LAYOUTS.values()]),
        (laps2, [layout.cls for layout in LAPS2_LAYOUTS.values()]),
    ],
    ids=["cpp", "laps2"],
)
def test_a_peering_package_exports_each_of_its_messages(
    package: ModuleType, messages: list[type]
) -> None:
    assert messages
    for message in messages:
        assert message.__name__ in package.__all__
        assert getattr(package, message.__name__) is message
