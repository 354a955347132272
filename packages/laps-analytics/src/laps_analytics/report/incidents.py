"""Chapters on anomalies, convergence, loops and churn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from laps_analytics.report.chapter import (
    BAD,
    COLOURS,
    FAINT,
    INK,
    Context,
    Picture,
    Section,
    bits,
    cell,
    clock,
    draw,
    percent,
    short,
    span,
    time_axis,
)

__all__ = ["anomalies", "churn", "convergence", "loops"]

_CHURN: Final = (
    *("window_start", "relay", "track", "source_node", "subscribes", "unsubscribes"),
    *("held_back", "flaps", "damp"),
)
_UNITS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "latency": ("ms", lambda value: f"{value:,.0f} ms"),
    "stalls": ("share of time", lambda value: f"{percent(value)} of the time"),
    "gaps": ("objects/min", lambda value: f"{value:,.1f} objects a minute"),
    "loss": ("share of packets", lambda value: f"{percent(value)} of packets"),
    "rtt": ("us", lambda value: f"{value / 1000:,.0f} ms"),
    "drops": ("share of objects", lambda value: f"{percent(value)} of objects"),
    "traffic": ("bit/s", bits),
}
"""Metric to the unit of its numbers, and to a formatter."""


def anomalies(context: Context) -> Section:
    """Return the chapter on incidents and their shared dimensions."""
    head = ("anomalies", "Incidents", "What is unusual, since when, and what has it in common?")
    table = context.gold.recent("anomaly", at="last")
    if table.empty:
        return context.empty_section(*head, "anomaly")
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
            f" {span(worst['first'], worst['last'])},"
            f" {_value_text(worst['metric'], worst['observed'])}"
            f" where {_value_text(worst['metric'], worst['expected'])} is usual"
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
    """Return the unit of a metric."""
    return _UNITS.get(metric, ("", str))[0]


def _value_text(metric: str, value: Any) -> str:
    """Return a number of a metric as text."""
    return "nothing" if pd.isna(value) else _UNITS.get(metric, ("", cell))[1](float(value))


def _explained(place: Callable[[str], str], items: Any) -> str:
    """Return ``relay Warsaw (0.1:0.7) 94 %, tenant acme 60 %``; ``place`` names a relay."""
    if items is None or isinstance(items, float):
        return ""
    return ", ".join(
        f"{_common(place, str(item['dimension']), str(item['value']))}"
        f" {percent(float(item['share']), 0)}"
        for item in items
    )


def _common(place: Callable[[str], str], dimension: str, value: str) -> str:
    """Return a dimension and its value, with names of places for relays."""
    if dimension in {"peer", "out_peer"}:
        return f"to {place(value)}" if value else "to clients"
    if dimension == "relay":
        return f"relay {place(value)}"
    if dimension == "link":
        one, _, other = value.partition(">")
        return f"link {place(one)} > {place(other)}"
    return f"{dimension} {value or '(none)'}"


def convergence(context: Context) -> Section:
    """Return the chapter on changes of the topology and their duration."""
    head = ("convergence", "Settling", "How long did it take the network to settle?")
    table = context.gold.recent("convergence", at="at")
    if table.empty:
        return context.empty_section(*head, "convergence")
    shown = table.sort_values("at", ascending=False).copy()
    shown.insert(2, "place", [context.places.city(node) for node in shown["node"]])
    slow = shown.sort_values("rib_ms", ascending=False, na_position="last").iloc[0]
    took = f"; ways had settled after {slow['rib_ms']:.0f} ms" if pd.notna(slow["rib_ms"]) else ""
    sentence = (
        f"Changes of the topology: {len(shown)}. The longest: {context.places.full(slow['node'])}"
        f" at {clock(slow['at'])}, seen by {int(slow['relays'])} relays"
    )
    words = (f"{sentence}{took}.",)
    return Section(*head, words, (), {"convergence": shown})


def loops(context: Context) -> Section:
    """Return the chapter on objects that travelled a link twice."""
    head = (
        "loops",
        "Loops and copies",
        "Did an object travel a link twice, or come back? (It should not.)",
    )
    table = context.gold.recent("loops_or_dups", at="dt")
    if table.empty:
        last = context.gold.last_seen("loops_or_dups")
        since = "" if last is None else f" since {last}"
        return Section(*head, (f"No sampled object travelled a link twice{since}.",))
    words = (
        (
            f"{len(table)} times a sampled object travelled a link more than once,"
            f" {int(table['loop'].fillna(False).sum())} of them in a loop: that is a fault."
        ),
    )
    return Section(*head, words, (), {"loops": table.sort_values("times", ascending=False)})


def churn(context: Context) -> Section:
    """Return the chapter on subscribers that flap."""
    head = ("churn", "Churn", "Who comes and goes too often, and what did holding back save?")
    table = context.gold.recent("churn_1h", _CHURN)
    if table.empty:
        return context.empty_section(*head, "churn_1h")
    # What the source wrote itself; others saw the same.
    own = table[table["relay"] == table["source_node"]]
    own = own if len(own) else table
    who = own.groupby(["source_node", "track"]).agg(
        subscribes=("subscribes", "sum"),
        unsubscribes=("unsubscribes", "sum"),
        held_back=("held_back", "sum"),
        flaps=("flaps", "sum"),
        damp=("damp", "max"),
    )
    who = who.reset_index().sort_values(
        ["flaps", "unsubscribes", "source_node"], ascending=[False, False, True]
    )
    who.insert(1, "place", [context.places.city(node) for node in who["source_node"]])
    gone, held = int(who["unsubscribes"].sum()), int(who["held_back"].sum())
    damp = who[who["damp"].fillna(False).astype(bool)]
    words = [
        (
            f"{gone:,} unsubscribes, {held:,} of them held back first"
            f" ({percent(held / gone, 0) if gone else 'none'})."
        )
    ]
    if len(damp):
        worst = damp.iloc[0]
        words.append(
            f"Damping would pay for {len(damp)}: first"
            f" {context.places.full(worst['source_node'])} with track {worst['track']},"
            f" {int(worst['flaps'])} flaps."
        )
    else:
        words.append("Nobody flaps so much that damping would pay.")
    top = who[who["flaps"] > 0].head(10).iloc[::-1]
    pictures: tuple[Picture, ...] = ()
    if len(top):

        def paint(figure: Figure) -> None:
            axes = figure.add_subplot()
            rows = np.arange(len(top))
            colours = [BAD if flag else COLOURS[0] for flag in top["damp"].fillna(False)]
            axes.barh(rows, top["flaps"].astype(float), color=colours)
            names = [f"{short(row.place, 20)} {row.track[:6]}" for row in top.itertuples()]
            axes.set_yticks(rows, names)
            axes.set_xlabel("flaps (red: damping would pay)")
            axes.xaxis.label.set_color(INK)

        alt = f"Bars: flaps of the {len(top)} subscribers that flap most."
        pictures = (draw("churn", alt, paint, size=(9, 1.1 + 0.3 * len(top))),)
    return Section(*head, tuple(words), pictures, {"churn": who})
