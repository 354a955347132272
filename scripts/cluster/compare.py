"""What a way made, as lines of text, and how far two ways are apart.

Each row of each table of bronze, silver and gold is a line; so is each line of what commands
printed and of the numbers of the report. Left out is only when a command ran. The bytes of a sketch
depend on the order in which rows came, so of sketches what they hold is compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake, read_rows
from laps_analytics.report.gold import weighted

__all__ = ["Apart", "Made", "compare", "made_by", "unmade"]

_WHEN: Final = frozenset({"seen_us", "closed_us", "made_us", "expires_us", "signature"})
_FEW: Final = 3
"""A sketch of HLL with so long a head (in words) is a list of hashes still, or a set."""

Made = Mapping[str, Counter[str]]
"""Table, or file, to its lines."""


@dataclass(frozen=True, slots=True)
class Apart:
    """How far two ways are apart."""

    rows: int
    """Lines of the first."""
    differ: list[str]
    """Lines that only one of them has, ``-`` the first and ``+`` the second."""


def made_by(folder: Path) -> dict[str, Counter[str]]:
    """What the chain left in the folder of a way."""
    lake = Lake.open(folder / "lake")
    found = {
        name: Counter(_text(row) for row in read_rows(lake.table(name)))
        for name in lake.tables()
        if not name.startswith("_")
    }
    for path in sorted((*folder.glob("numbers/*"), folder / "sql.out", folder / "report.out")):
        if path.exists():
            found[path.name] = Counter(path.read_text().splitlines())
    for path in (folder / "bill.out", folder / "plan.json", folder / "plan.out"):
        if path.exists():
            found[path.name] = Counter(_leaves("", json.loads(path.read_text())))
    return found


def unmade(made: Made) -> list[str]:
    """The gold tables that a way did not build: of these nothing was compared."""
    return [name for name in GOLD if f"gold/{name}" not in made]


def _text(row: Mapping[str, Any]) -> str:
    kept = {name: _held(name, value) for name, value in row.items() if name not in _WHEN}
    return str(sorted((name, str(value)) for name, value in kept.items()))


def _held(column: str, value: Any) -> Any:
    """What a sketch holds, in order; other values as they are."""
    if value is None:
        return None
    if column.endswith("_kll"):
        return sorted(zip(*weighted(value), strict=True))
    if column.endswith("_hll") and value[0] <= _FEW:
        head = 4 * value[0]
        return value[:head], sorted(value[at : at + 4] for at in range(head, len(value), 4))
    return value


def _leaves(place: str, value: Any) -> list[str]:
    """A document as lines: each value with its way."""
    if isinstance(value, dict):
        pairs = [(f"{place}.{name}", part) for name, part in value.items() if name not in _WHEN]
    elif isinstance(value, list):
        pairs = [(f"{place}.{number}", part) for number, part in enumerate(value)]
    else:
        return [f"{place} {value!r}"]
    return [line for name, part in pairs for line in _leaves(name, part)]


def compare(one: Made, other: Made) -> Apart:
    """Every line of both."""
    differ: list[str] = []
    for name in sorted({*one, *other}):
        mine, theirs = one.get(name, Counter()), other.get(name, Counter())
        differ += [f"- {name} {line}" for line in (mine - theirs).elements()]
        differ += [f"+ {name} {line}" for line in (theirs - mine).elements()]
    return Apart(sum(map(Counter.total, one.values())), differ)
