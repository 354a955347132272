"""Chapters about changes: how long the network took to settle, and whether anything went round."""

from __future__ import annotations

import pandas as pd

from laps_analytics.report.formatting import clock
from laps_analytics.report.section import Context, Section

__all__ = ["convergence", "loops"]


def convergence(context: Context) -> Section:
    """After a node went: who noticed when, and when the last gap was."""
    head = ("convergence", "Settling", "How long did it take the network to settle?")
    table = context.gold.recent("convergence", at="at")
    if table.empty:
        return context.nothing(*head, "convergence")
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
    """Objects that travelled a link twice."""
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
