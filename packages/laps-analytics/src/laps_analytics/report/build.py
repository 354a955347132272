"""Make the page from gold tables, and export its tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from laps_analytics.errors import OutputError
from laps_analytics.report.capacity import capacity
from laps_analytics.report.cells import escape_formula
from laps_analytics.report.experience import blame, experience
from laps_analytics.report.gold import Gold
from laps_analytics.report.incidents import anomalies, churn, convergence, loops
from laps_analytics.report.network import fanout, links, stretch, topology
from laps_analytics.report.operations import cache, quality, usage
from laps_analytics.report.page import render
from laps_analytics.report.plans import PlanHistory, plans, vias
from laps_analytics.report.section import Context, Section
from laps_wire.plan import Plan

__all__ = ["Report", "export_csv", "export_json", "make_report", "write_page"]

_CHAPTERS: Final[tuple[Callable[[Context], Section], ...]] = (
    *(topology, links, fanout, stretch),
    *(experience, blame, churn, cache),
    *(capacity, usage, anomalies, convergence, loops, quality),
)


@dataclass(frozen=True, slots=True)
class Report:
    """A page and its tables."""

    html: str
    answers: tuple[tuple[str, str, str], ...]
    """Chapter, question and answer of the five main questions."""
    tables: Mapping[str, pd.DataFrame]


def make_report(
    gold: Gold,
    *,
    title: str = "Network report",
    plan: Plan | None = None,
    history: PlanHistory | None = None,
) -> Report:
    """Return the report of gold tables, and of a plan and the history of plans if given."""
    context = Context.of(gold)
    sections = [chapter(context) for chapter in _CHAPTERS]
    if history is not None:
        sections.insert(4, plans(context, history))
    if plan is not None:
        sections.insert(4, vias(context, plan))
    answers = _answers({item.key: item for item in sections})
    until = gold.until()
    subtitle = (
        "There is no gold table with rows yet: build them first (laps-analytics build)."
        if until is None
        else f"From {gold.name}, {_time(gold)} until {until:%Y-%m-%d %H:%M} UTC."
    )
    tables = {name: frame for item in sections for name, frame in item.tables.items()}
    return Report(render(title, subtitle, answers, sections), answers, tables)


def _time(gold: Gold) -> str:
    if gold.since is not None:
        return f"since {gold.since}"
    return "the day"


def _answers(sections: Mapping[str, Section]) -> tuple[tuple[str, str, str], ...]:
    """Return the five main answers."""

    def answer_of(key: str) -> str:
        return sections[key].answer or "No data yet."

    hurt = answer_of("experience")
    if sections["blame"].tables:
        hurt = f"{hurt} {sections['blame'].answer}"
    which = ("stretch", "Which Via would help?", answer_of("stretch"))
    if "vias" in sections:
        which = ("vias", "Which Via to insert, move or drop?", answer_of("vias"))
    return (
        ("fanout", "Where do WAN bytes travel twice?", answer_of("fanout")),
        ("experience", "Who hurts, and which hop is to blame?", hurt),
        ("capacity", "What runs out, and when?", answer_of("capacity")),
        ("usage", "Who pays what?", answer_of("usage")),
        which,
    )


def write_page(report: Report, path: Path) -> None:
    """Write the page to a file; raise :class:`OutputError` if that fails."""
    _write(path, report.html)


def export_csv(report: Report, folder: Path) -> list[Path]:
    """Write every table as CSV, and return the files."""
    paths = []
    for name, frame in report.tables.items():
        path = folder / f"{name}.csv"
        safe = {
            escape_formula(str(label)): values.map(escape_formula)
            if values.dtype.kind == "O"
            else values
            for label, values in frame.items()
        }
        text = pd.DataFrame(safe).to_csv(index=False, date_format="%Y-%m-%dT%H:%M:%SZ")
        _write(path, text)
        paths.append(path)
    return paths


def export_json(report: Report, folder: Path) -> list[Path]:
    """Write every table and the answers as JSON, and return the files."""
    answers = [
        dict(zip(("chapter", "question", "answer"), row, strict=True)) for row in report.answers
    ]
    plain: dict[str, Any] = {"answers": answers}
    for name, frame in report.tables.items():
        plain[name] = json.loads(frame.to_json(orient="records", date_format="iso"))
    paths = []
    for name, rows in plain.items():
        path = folder / f"{name}.json"
        _write(path, json.dumps(rows, indent=1) + "\n")
        paths.append(path)
    return paths


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.part")
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}; name another file"
        ) from None
