"""Render the page: one HTML file without external resources.

Names of tenants, relays and players are untrusted. This module makes them printable and escapes
them.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

import pandas as pd

from laps_analytics.report.formatting import cell, clean
from laps_analytics.report.section import Section

__all__ = ["ROWS", "render"]

ROWS: Final = 25
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


def render(title: str, subtitle: str, answers: Sequence[tuple[str, str, str]],
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
    for row in frame.head(ROWS).itertuples(index=False, name=None):
        cells = "".join(
            f'<td class="n">{_text(cell(value))}</td>'
            if is_number
            else f"<td>{_text(cell(value))}</td>"
            for value, is_number in zip(row, numeric, strict=True)
        )
        body.append(f"<tr>{cells}</tr>")
    more = len(frame) - ROWS
    caption = clean(name) if more <= 0 else f"{clean(name)}: the first {ROWS} of {len(frame)} rows"
    return (
        f'<div class="scroll"><table><caption>{_text(caption)}</caption><thead><tr>{head}</tr>'
        f"</thead><tbody>{''.join(body)}</tbody></table></div>"
    )
