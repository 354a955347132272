"""What README and docs show: the commands of ``console`` blocks, and ``python`` blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

__all__ = ["PAGES", "ROOT", "Step", "is_serve", "serves", "steps_of"]

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PAGES: Final = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("packages/*/README.md"),
        *(ROOT / "docs").rglob("*.md"),
    ]
)

_SERVE: Final = re.compile(r"laps-relay serve(?! --help)\b")


@dataclass(frozen=True, slots=True)
class Step:
    """A command with the output that the page shows, or a program."""

    page: Path
    line: int
    text: str
    output: str = ""
    program: bool = False

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def steps_of(page: Path) -> list[Step]:
    """All that a reader of the page would run, in order."""
    found: list[Step] = []
    inside = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            inside = line[3:].strip()
            if inside == "python":
                found.append(Step(page, number, "", program=True))
        elif inside == "python":
            found[-1] = replace(found[-1], text=found[-1].text + line + "\n")
        elif inside == "console" and line.startswith("$ "):
            found.append(Step(page, number, line[2:]))
        elif inside == "console" and found:
            found[-1] = replace(found[-1], output=found[-1].output + line + "\n")
    return found


def is_serve(step: Step) -> bool:
    """Whether the step starts a relay."""
    return not step.program and _SERVE.match(step.text) is not None


def serves(page: Path) -> bool:
    """Whether the page starts a relay, which makes it one session."""
    return any(map(is_serve, steps_of(page)))
