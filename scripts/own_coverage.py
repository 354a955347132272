"""Each pure module is covered by its own test file, not by accident from elsewhere.

Reads the coverage data of a whole test run, in which every test file is a context of its own (see
``tests/conftest.py``), and looks at each module through the context of its own test file alone:
``laps_wire/moqt/control.py`` through ``tests/unit/wire/moqt/test_control.py``. A long test file may
be parted by subject, ``test_control_streams.py``; it counts unless a module has that name. Shells
are left to the sum: what they do needs sockets, clocks and other processes.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import NamedTuple

import coverage

ROOT = Path(__file__).resolve().parent.parent
MINIMUM = 95.0


class Tree(NamedTuple):
    """A folder of pure modules, and where their tests stand."""

    source: Path
    tests: Path


def _tree(package: str, folder: str = "") -> Tree:
    short = package.removeprefix("laps_")
    source = ROOT / "packages" / package.replace("_", "-") / "src" / package / folder
    return Tree(source, ROOT / "tests" / "unit" / short / folder)


TREES = (
    _tree("laps_wire"),
    _tree("laps_relay", "core"),
    _tree("laps_sdk", "client/core"),
    _tree("laps_sdk", "tokens"),
)


def test_file_of(module: Path, tree: Tree) -> Path:
    """Where the tests of a module must stand."""
    relative = module.relative_to(tree.source)
    return tree.tests / relative.parent / f"test_{relative.stem.strip('_')}.py"


def test_files_of(module: Path, tree: Tree) -> list[Path]:
    """The same with files for single subjects of it."""
    own = test_file_of(module, tree)
    others = {test_file_of(each, tree) for each in module.parent.glob("*.py")}
    parts = sorted(set(own.parent.glob(f"{own.stem}_*.py")) - others)
    return [own, *parts]


def main() -> int:
    """Report every module below the minimum; 1 if there is one."""
    measured = coverage.Coverage()
    measured.load()
    problems: list[str] = []
    lowest = (100.0, "")
    count = 0
    for tree in TREES:
        for module in sorted(tree.source.rglob("*.py")):
            if module.name == "__init__.py":
                continue
            count += 1
            shown = module.relative_to(ROOT / "packages").as_posix()
            tests = test_file_of(module, tree)
            name = tests.relative_to(ROOT).as_posix()
            if not tests.exists():
                problems.append(f"{shown}: no test file {name}")
                continue
            # The empty context is what runs at import: definitions, not behaviour.
            names = [each.relative_to(ROOT).as_posix() for each in test_files_of(module, tree)]
            contexts = ["^$", *(f"^{re.escape(each)}$" for each in names)]
            percent = measured.report(
                [str(module)], contexts=contexts, file=io.StringIO(), skip_covered=False
            )
            lowest = min(lowest, (percent, shown))
            if percent < MINIMUM:
                problems.append(f"{shown}: {percent:.1f} % by {name} alone")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{count} modules, lowest by its own tests: {lowest[1]} {lowest[0]:.1f} %")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
