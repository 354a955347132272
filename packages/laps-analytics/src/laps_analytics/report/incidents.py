"""The chapter about what is unusual."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure

from laps_analytics.report.formatting import bits, cell, percent, short, span
from laps_analytics.report.plots import COLOURS, FAINT, draw, time_axis
from laps_analytics.report.section import Context, Section

__all__ = ["anomalies"]

_UNITS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "latency": ("ms", lambda value: f"{value:,.0f} ms"),
    "stalls": ("share of time", lambda value: f"{percent(value)} of the time"),
    "gaps": ("objects/min", lambda value: f"{value:,.1f} objects a minute"),
    "loss": ("share of packets", lambda value: f"{percent(value)} of packets"),
    "rtt": ("us", lambda value: f"{value / 1000:,.0f} ms"),
    "drops": ("share of objects", lambda value: f"{percent(value)} of objects"),
    "traffic": ("bit/s", bits),
}
"""Metric to the unit of its numbers, and to a number in words."""


def anomalies(context: Context) -> Section:
    """Incidents, and what they have in common."""
    head = ("anomalies", "Incidents", "What is unusual, since when, and what has it in common?")
    table = context.gold.recent("anomaly", at="last")
    if table.empty:
        return context.nothing(*head, "anomaly")
    shown = table.sort_values("peak_z", ascending=False, ignore_index=True)
    labels = [
        f"{metric}: {short(_explained(context.places.city, common), 44)}"
        for metric, common in zip(shown["metric"], shown["explained"], strict=True)
    ]
    shown["explained"] = [_explained(context.places.full, item) for item in shown["explained"]]
    shown.insert(list(shown).index("expected") + 1, "unit", [_unit(m) for m in shown["metric"]])
    top = shown.head(14).sort_values("first", ascending=False)
    metrics = sorted(set(shown["metric"]))
    colour = dict(zip(metrics, COLOURS, strict=False))

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for row, item in enumerate(top.itertuples()):
            axes.plot(
                [item.first, item.last], [row, row], linewidth=7, solid_capstyle="butt",
                color=colour.get(item.metric, FAINT),
            )  # fmt: skip
        axes.set_yticks(range(len(top)), [labels[row] for row in top.index])
        axes.set_ylim(-0.7, len(top) - 0.3)
        time_axis(axes)

    worst = shown.iloc[0]
    words = (
        (
            f"{len(shown)} incidents. The strongest: {worst['metric']} from"
            f" {span(worst['first'], worst['last'])}, {_said(worst['metric'], worst['observed'])}"
            f" where {_said(worst['metric'], worst['expected'])} is usual"
            f" ({worst['explained'] or 'nothing in common'})."
        ),
    )
    alt = f"Time bars of the {len(top)} strongest incidents; all are in the table below."
    return Section(
        *head,
        words,
        (draw("anomalies", alt, paint, size=(10, 1.2 + 0.3 * len(top))),),
        {"incidents": shown},
    )


def _unit(metric: str) -> str:
    """What the numbers of the table are in."""
    return _UNITS.get(metric, ("", str))[0]


def _said(metric: str, value: Any) -> str:
    """A number of a metric as people read it."""
    return "nothing" if pd.isna(value) else _UNITS.get(metric, ("", cell))[1](float(value))


def _explained(place: Callable[[str], str], items: Any) -> str:
    """``relay Warsaw (0.1:0.7) 94 %, tenant acme 60 %``; ``place`` gives a relay its name."""
    if items is None or isinstance(items, float):
        return ""
    return ", ".join(
        f"{_common(place, str(item['dimension']), str(item['value']))}"
        f" {percent(float(item['share']), 0)}"
        for item in items
    )


def _common(place: Callable[[str], str], dimension: str, value: str) -> str:
    """A dimension and its value, with names of places for relays."""
    if dimension in {"peer", "out_peer"}:
        return f"to {place(value)}" if value else "to clients"
    if dimension == "relay":
        return f"relay {place(value)}"
    if dimension == "link":
        one, _, other = value.partition(">")
        return f"link {place(one)} > {place(other)}"
    return f"{dimension} {value or '(none)'}"
