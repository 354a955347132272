"""Each module of laps_wire is covered by its own test file, not by accident from elsewhere.

Reads the coverage data of a whole test run, in which every test is a context of its own (see
``tests/conftest.py``), and looks at each module through the contexts of its own test file alone:
``laps_wire/moqt/control.py`` through ``tests/unit/wire/moqt/test_control.py``.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "packages" / "laps-wire" / "src" / "laps_wire"
TESTS = ROOT / "tests" / "unit" / "wire"
MINIMUM = 95.0


def test_file_of(module: Path) -> Path:
    """Where the tests of a module must stand."""
    relative = module.relative_to(SOURCE)
    return TESTS / relative.parent / f"test_{relative.stem.strip('_')}.py"


def main() -> int:
    """Report every module below the minimum; 1 if there is one."""
    measured = coverage.Coverage()
    measured.load()
    problems: list[str] = []
    lowest = (100.0, "")
    modules = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    for module in modules:
        tests = test_file_of(module)
        name = tests.relative_to(ROOT).as_posix()
        if not tests.exists():
            problems.append(f"{module.relative_to(SOURCE)}: no test file {name}")
            continue
        # The empty context is what runs at import: definitions, not behaviour.
        contexts = ["^$", f"^{re.escape(name)}::"]
        percent = measured.report(
            include=[str(module)], contexts=contexts, file=io.StringIO(), skip_covered=False
        )
        lowest = min(lowest, (percent, str(module.relative_to(SOURCE))))
        if percent < MINIMUM:
            problems.append(f"{module.relative_to(SOURCE)}: {percent:.1f} % by {name} alone")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(modules)} modules, lowest by its own tests: {lowest[1]} {lowest[0]:.1f} %")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
