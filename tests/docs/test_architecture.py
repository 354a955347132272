"""The drawing of the architecture page shows the rooms of all packages, and no others."""

from __future__ import annotations

import re

from testkit.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
PACKAGE = re.compile(r"\+-- (laps_\w+): ")
ROOM = re.compile(r"\| ( *)\d (\w+)/ +\w.*\|$")
INDENT = 3


def rooms_in_the_code() -> set[str]:
    """Return the dotted name of each folder that is a package below one of the four."""
    names = set()
    for source in ROOT.glob("packages/*/src"):
        for door in source.glob("laps_*/**/__init__.py"):
            parts = door.parent.relative_to(source).parts
            if len(parts) > 1:
                names.add(".".join(parts))
    return names


def rooms_in_the_drawing() -> list[str]:
    """Return the dotted name of each row: the indent says in which room it lies."""
    names = []
    path: list[str] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if package := PACKAGE.search(line):
            path = [package[1]]
        elif room := ROOM.search(line):
            depth = len(room[1]) // INDENT
            path = [*path[: depth + 1], room[2]]
            names.append(".".join(path))
    return names


def test_the_drawing_has_every_room() -> None:
    missing = rooms_in_the_code() - set(rooms_in_the_drawing())
    assert not missing, f"draw these rooms in {PAGE.name}: {sorted(missing)}"


def test_the_drawing_has_no_other_room() -> None:
    drawn = rooms_in_the_drawing()
    assert not set(drawn) - rooms_in_the_code()
    assert len(drawn) == len(set(drawn))
