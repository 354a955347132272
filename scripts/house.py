"""Measure the shape of the packages: modules, folders, import cycles and inheritance.

Everything is read from the source, nothing is imported. The rules behind the figures are in
CONTRIBUTING.md.

- *small*: modules under 80 lines that one other module imports; it could hold them.
- *cycle*: modules that import one another, imports for types included.
- *deep*: classes with more than two levels of own classes, themselves included. Exceptions are left
  out.

::

    python scripts/house.py                   # of this checkout
    python scripts/house.py --list            # and which modules and classes they are
    python scripts/house.py --json
    python scripts/house.py ../other laps_sdk # of another checkout, of modules below a prefix
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

SMALL: Final = 80
LEVELS: Final = 2


@dataclass(slots=True)
class Module:
    """One file of a package."""

    path: Path
    lines: int
    tree: ast.Module
    imports: set[str] = field(default_factory=set)
    """Modules of ours."""
    names: dict[str, str] = field(default_factory=dict)
    """What its top-level names stand for: a class or a module, with its full name."""
    bases: dict[str, list[str]] = field(default_factory=dict)
    """Its classes, with what they inherit from as it is written."""


class House:
    """All modules of a checkout."""

    def __init__(self, root: Path) -> None:
        self.modules: dict[str, Module] = {}
        for source in sorted(root.glob("packages/*/src")):
            for path in sorted(source.rglob("*.py")):
                parts = path.relative_to(source).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                text = path.read_text(encoding="utf-8")
                self.modules[name] = Module(path, text.count("\n"), ast.parse(text))
        for name, module in self.modules.items():
            self._read(name, module)
        self.importers: dict[str, set[str]] = defaultdict(set)
        for name, module in self.modules.items():
            for imported in module.imports:
                self.importers[imported].add(name)

    def _read(self, name: str, module: Module) -> None:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._import(name, module, alias.name)
                    module.names[alias.asname or alias.name] = alias.name
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    self._import(name, module, full)
                    module.names[alias.asname or alias.name] = full
            elif isinstance(node, ast.ClassDef):
                module.names[node.name] = f"{name}.{node.name}"
                module.bases[node.name] = [ast.unparse(_plain(base)) for base in node.bases]

    def _import(self, name: str, module: Module, imported: str) -> None:
        while imported and imported not in self.modules:
            imported = imported.rpartition(".")[0]
        if imported and imported != name:
            module.imports.add(imported)

    # Figures

    def small(self) -> list[tuple[str, int, str]]:
        """Small modules with one importer: name, lines, importer."""
        return sorted(
            (name, module.lines, next(iter(self.importers[name])))
            for name, module in self.modules.items()
            if module.lines < SMALL
            and len(self.importers[name]) == 1
            and module.path.name != "__init__.py"
        )

    def cycles(self) -> list[list[str]]:
        """Groups of modules that import one another, the largest first."""
        reach = {name: self._reachable(name) for name in self.modules}
        found: list[list[str]] = []
        done: set[str] = set()
        for name in self.modules:
            if name in done or name not in reach[name]:
                continue
            group = sorted(other for other in reach[name] if name in reach[other])
            done.update(group)
            found.append(group)
        return sorted(found, key=lambda group: (-len(group), group))

    def _reachable(self, name: str) -> set[str]:
        reached: set[str] = set()
        waiting = [name]
        while waiting:
            for imported in self.modules[waiting.pop()].imports - reached:
                reached.add(imported)
                waiting.append(imported)
        return reached

    def deep(self) -> list[list[str]]:
        """Classes with too many levels, each with the longest line of its ancestors."""
        found = []
        for name, module in self.modules.items():
            for own in module.bases:
                line = self._line(f"{name}.{own}")
                if len(line) > LEVELS and not self._is_exception(f"{name}.{own}"):
                    found.append(line)
        return sorted(found, key=lambda line: (-len(line), line))

    def _line(self, full: str, below: tuple[str, ...] = ()) -> list[str]:
        """The longest line of own classes that ends at a class, itself first."""
        lines = [
            self._line(base, (*below, full)) for base in self._bases(full) if base not in below
        ]
        return [full, *max(lines, key=len, default=[])]

    def _bases(self, full: str) -> Iterator[str]:
        """The own classes that a class inherits from."""
        name, _, own = full.rpartition(".")
        for base in self.modules[name].bases[own]:
            found = self._resolve(name, base)
            if found:
                yield found

    def _resolve(self, name: str, written: str) -> str:
        """The full name of an own class as a module writes it; empty: it is no own class."""
        head, _, rest = written.partition(".")
        seen: set[str] = set()
        full = ".".join(filter(None, (self.modules[name].names.get(head, ""), rest)))
        while full and full not in seen:
            seen.add(full)
            owner, _, own = full.rpartition(".")
            if owner not in self.modules:
                return ""
            if own in self.modules[owner].bases:
                return full
            full = self.modules[owner].names.get(own, "")
        return ""

    def _is_exception(self, full: str) -> bool:
        name, _, own = full.rpartition(".")
        if any(base.endswith(("Error", "Exception")) for base in self.modules[name].bases[own]):
            return True
        return any(self._is_exception(base) for base in self._bases(full))


def _plain(base: ast.expr) -> ast.expr:
    """A base class without its type arguments."""
    return base.value if isinstance(base, ast.Subscript) else base


def measure(house: House, prefix: str) -> dict[str, Any]:
    """All figures, of modules whose names begin with ``prefix``."""
    chosen = {name: each for name, each in house.modules.items() if name.startswith(prefix)}
    if not chosen:
        raise SystemExit(f"no module begins with {prefix!r}")
    folders = Counter(
        name if each.path.name == "__init__.py" else name.rpartition(".")[0]
        for name, each in chosen.items()
    )
    longest = max(chosen, key=lambda name: chosen[name].lines)
    return {
        "modules": len(chosen),
        "lines": sum(each.lines for each in chosen.values()),
        "largest_folder": list(folders.most_common(1)[0]),
        "largest_module": [longest, chosen[longest].lines],
        "small": [list(row) for row in house.small() if row[0] in chosen],
        "cycles": [group for group in house.cycles() if chosen.keys() & set(group)],
        "deep": [line for line in house.deep() if line[0].startswith(prefix)],
    }


def show(found: dict[str, Any], *, names: bool) -> None:
    """Print the figures."""
    print(f"modules: {found['modules']}, lines: {found['lines']}")
    print("largest folder: {} with {} modules".format(*found["largest_folder"]))
    print("largest module: {} with {} lines".format(*found["largest_module"]))
    print(f"modules under {SMALL} lines with one importer: {len(found['small'])}")
    for name, lines, importer in found["small"] if names else ():
        print(f"  {name} ({lines}) <- {importer}")
    print(f"import cycles: {len(found['cycles'])}")
    for group in found["cycles"] if names else ():
        print(f"  {len(group)}: {', '.join(group)}")
    print(f"classes deeper than {LEVELS} own levels: {len(found['deep'])}")
    for line in found["deep"] if names else ():
        print(f"  {len(line)}: {' < '.join(line)}")


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("root", nargs="?", type=Path, default=here, help="the checkout")
    parser.add_argument("prefix", nargs="?", default="", help="only modules that begin so")
    parser.add_argument("--list", action="store_true", help="print names too")
    parser.add_argument("--json", action="store_true", help="print JSON, names included")
    options = parser.parse_args()
    found = measure(House(options.root), options.prefix)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found, names=options.list)
    return 0


if __name__ == "__main__":
    sys.exit(main())
