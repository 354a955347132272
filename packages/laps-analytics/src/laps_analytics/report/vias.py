"""The chapter about a plan: which Via for what, and what its maker expects of it."""

from __future__ import annotations

import pandas as pd

from laps_analytics.report.section import Context, Section
from laps_wire.plan import Plan

__all__ = ["vias"]


def vias(context: Context, plan: Plan) -> Section:
    """The entries of a plan, and the Vias that carry most of it."""
    places = context.places
    rows = [
        {
            "origin": places.full(str(entry.origin)),
            "region": entry.region,
            "class": entry.scope,
            "tracks": None if entry.tracks is None else len(entry.tracks),
            "via": places.full(str(entry.via)),
            "fallback": None if entry.fallback is None else places.full(str(entry.fallback)),
            "wan_saved_share": entry.wan_saved_permille / 1000,
            "delay_change_ms": entry.delay_us / 1000,
            "reason": entry.reason,
        }
        for entry in plan.entries
    ]
    head = ("vias", "The plan", "Which Via to insert, move or drop?")
    if not rows:
        answer = f"Plan {plan.id}, version {plan.version}, needs no Via: copies go directly."
        return Section(*head, (answer,), answer=answer)
    table = pd.DataFrame(rows)
    counts = table["via"].value_counts()
    first = ", ".join(f"{via} for {count}" for via, count in counts.head(3).items())
    answer = (
        f"Plan {plan.id}, version {plan.version}: {len(counts)} Vias for {len(table)} groups of"
        f" copies, most of them {first}."
    )
    order = table.sort_values(["wan_saved_share", "origin"], ascending=[False, True])
    return Section(*head, (answer,), (), {"plan": order}, answer)
