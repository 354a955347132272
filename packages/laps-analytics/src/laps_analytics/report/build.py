"""Make the page from gold tables, and export its tables.

The page is one HTML file without external resources. Names of tenants, relays and players are
untrusted. This module makes them printable and escapes them.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from laps_analytics.errors import OutputError
from laps_analytics.report.cells import escape_formula
from laps_analytics.report.chapter import Context, Section, cell, clean
from laps_analytics.report.experience import blame, experience
from laps_analytics.report.gold import Gold
from laps_analytics.report.incidents import anomalies, churn, convergence, loops
from laps_analytics.report.network import fanout, links, stretch, topology
from laps_analytics.report.operations import cache, capacity, quality, usage
from laps_analytics.report.plans import PlanHistory, plans, vias
from laps_wire.plan import Plan

__all__ = [
    "Report",
    "export_csv",
    "export_json",
    "make_report",
    "write_page",
]

# Page

_ROWS: Final = 25
"""Rows of a table on the page. Exported files have all rows."""

_POLICY: Final = (
    '<meta http-equiv="Content-Security-Policy"'
    " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)
"""Content security policy: the page may load nothing."""

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c1f24;--ground:#ffffff;--soft:#5b626c;--line:#d9dde3;
--card:#f5f7f9;--accent:#1f6fb2}
@media (prefers-color-scheme:dark){:root{--ink:#e6e8eb;--ground:#14171b;--soft:#a2a9b4;
--line:#333941;--card:#1d2127;--accent:#6cb2eb}}
*{box-sizing:border-box}
body{margin:0;color:var(--ink);background:var(--ground);font:16px/1.5 system-ui,sans-serif}
main,header,footer{max-width:66rem;margin:0 auto;padding:0 1.2rem}
header{padding-top:2rem}h1{margin:0;font-size:1.7rem}
h2{margin:2.6rem 0 .2rem;font-size:1.3rem;border-top:1px solid var(--line);padding-top:1.2rem}
.question,.soft,caption,footer{color:var(--soft)}.question{margin:.1rem 0 .8rem;font-style:italic}
ol.answers{list-style:none;padding:0;display:grid;gap:.7rem;margin:1.2rem 0}
ol.answers li{background:var(--card);border-left:4px solid var(--accent);padding:.7rem 1rem;
border-radius:4px}ol.answers b{display:block}
a{color:var(--accent)}nav a{margin-right:.9rem;white-space:nowrap}
figure{margin:1rem 0}figure svg{width:100%;height:auto;max-height:38rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;width:100%}
caption{text-align:left;padding:.3rem 0}th,td{padding:.25rem .6rem;text-align:left;
border-bottom:1px solid var(--line);vertical-align:top}td.n{text-align:right;
font-variant-numeric:tabular-nums;white-space:nowrap}th{white-space:nowrap}
details summary{cursor:pointer;color:var(--accent)}footer{padding:2rem 1.2rem}
@media print{:root{--ink:#000;--ground:#fff;--card:#fff}nav{display:none}
section{break-inside:avoid}h2{break-after:avoid}details:not([open])>*{display:none}}
"""


def _render(title: str, subtitle: str, answers: Sequence[tuple[str, str, str]],
           sections: Sequence[Section]) -> str:  # fmt: skip
    """Return the page; an answer is a key of a section, a question and a sentence."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        _POLICY,
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
        f"<header><h1>{_text(title)}</h1>",
        f'<p class="soft">{_text(subtitle)}</p></header><main>',
        '<ol class="answers">',
    ]
    for key, question, answer in answers:
        parts.append(
            f'<li><b><a href="#{key}">{_text(question)}</a></b> <span>{_text(answer)}</span></li>'
        )
    parts.append('</ol><nav aria-label="Chapters">')
    parts += [f'<a href="#{item.key}">{_text(item.title)}</a>' for item in sections]
    parts.append("</nav>")
    for item in sections:
        parts += _section(item)
    parts.append(
        "</main><footer>Made by laps-analytics. Times are UTC; a GB is a thousand million bytes;"
        " WAN is between regions.</footer></body></html>\n"
    )
    return "\n".join(parts)


def _text(text: object) -> str:
    return html.escape(clean_long(str(text)))


def clean_long(text: str) -> str:
    """Return printable text without a length limit."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _section(item: Section) -> list[str]:
    parts = [
        f'<section id="{item.key}" aria-labelledby="{item.key}-h">',
        f'<h2 id="{item.key}-h">{_text(item.title)}</h2>',
        f'<p class="question">{_text(item.question)}</p>',
    ]
    parts += [f"<p>{_text(words)}</p>" for words in item.paragraphs]
    parts += [f"<figure>{picture.svg}</figure>" for picture in item.pictures]
    for name, frame in item.tables.items():
        if frame.empty:
            continue
        rows = _table(name, frame)
        parts.append(f"<details><summary>Numbers: {_text(name)}</summary>{rows}</details>")
    parts.append("</section>")
    return parts


def _table(name: str, frame: pd.DataFrame) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in frame.columns)
    body = []
    numeric = [pd.api.types.is_numeric_dtype(frame[column]) for column in frame.columns]
    for row in frame.head(_ROWS).itertuples(index=False, name=None):
        cells = "".join(
            f'<td class="n">{_text(cell(value))}</td>'
            if is_number
            else f"<td>{_text(cell(value))}</td>"
            for value, is_number in zip(row, numeric, strict=True)
        )
        body.append(f"<tr>{cells}</tr>")
    more = len(frame) - _ROWS
    caption = clean(name) if more <= 0 else f"{clean(name)}: the first {_ROWS} of {len(frame)} rows"
    return (
        f'<div class="scroll"><table><caption>{_text(caption)}</caption><thead><tr>{head}</tr>'
        f"</thead><tbody>{''.join(body)}</tbody></table></div>"
    )


# Report

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
    return Report(_render(title, subtitle, answers, sections), answers, tables)


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
