"""Chapter on capacity: what runs out, and when."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from laps_analytics.report.formatting import bits, short
from laps_analytics.report.plots import BAD, COLOURS, FAINT, draw, time_axis
from laps_analytics.report.section import Context, Section

__all__ = ["capacity"]

_HISTORY = 27
"""Days that the chapter looks back, besides the last one; as far as a forecast does."""
_MINUTES = ("relay", "out_peer", "window_start", "out_bytes")


def capacity(context: Context) -> Section:
    """Return the chapter: forecasts with their interval, the most urgent first."""
    head = ("capacity", "Capacity", "What runs out, and when?")
    made = context.gold.days("capacity_fc", _HISTORY)[-1:]
    table = context.gold.of_days("capacity_fc", days=made)
    if table.empty:
        return context.empty_section(*head, "capacity_fc")
    table = table.copy()
    table["name"] = [
        context.places.full(row.relay) if row.kind == "relay"
        else context.places.link(row.relay, row.peer)
        for row in table.itertuples()
    ]  # fmt: skip
    keys = ["kind", "relay", "peer"]
    last = table.sort_values("day").groupby(keys)
    numbers = last.agg(
        name=("name", "last"),
        next_day_bps=("peak_bps", "first"),
        last_day_bps=("peak_bps", "last"),
        last_low_bps=("low_bps", "last"),
        last_high_bps=("high_bps", "last"),
        capacity_bps=("capacity_bps", "last"),
        days_to_80=("days_to_80", "min"),
    ).reset_index()
    numbers["used_next_day"] = numbers["next_day_bps"] / numbers["capacity_bps"]
    numbers = numbers.sort_values(
        ["days_to_80", "used_next_day", "next_day_bps"],
        ascending=[True, False, False],
        na_position="last",
    )
    soon = numbers[numbers["days_to_80"].notna()]
    top = numbers.head(4)
    history = _daily_peaks(context, top)

    def paint(figure: Figure) -> None:
        panels = np.atleast_1d(figure.subplots(1, len(top), sharey=False)).ravel()
        for axes, row in zip(panels, top.itertuples(), strict=True):
            ahead = table[
                (table["kind"] == row.kind) & (table["relay"] == row.relay)
                & (table["peer"] == row.peer)
            ].sort_values("day")  # fmt: skip
            days = pd.to_datetime(ahead["day"])
            past = history.get((row.kind, row.relay, row.peer))
            if past is not None:
                axes.plot(past.index, past / 1e6, color=FAINT, marker=".", label="seen")
            axes.plot(days, ahead["peak_bps"] / 1e6, color=COLOURS[0], label="forecast")
            axes.fill_between(
                days, ahead["low_bps"].astype(float) / 1e6, ahead["high_bps"].astype(float) / 1e6,
                color=COLOURS[0], alpha=0.2, linewidth=0, label="80 % interval",
            )  # fmt: skip
            if pd.notna(row.capacity_bps):
                axes.axhline(row.capacity_bps / 1e6, color=BAD, linewidth=1)
                axes.axhline(row.capacity_bps * 0.8 / 1e6, color=BAD, linewidth=1, linestyle=":")
            axes.set_title(short(row.name, 26), fontsize=9)
            axes.set_ylim(bottom=0)
            time_axis(axes, 5)
        panels[0].set_ylabel("Mbit/s, busiest five minutes")
        # Not every one of them has a past.
        known = {
            label: handle
            for axes in panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=3)

    if len(soon):
        first = soon.iloc[0]
        days = int(first["days_to_80"])
        when = "already passes" if days <= 0 else f"passes in {days} days" if days > 1 else (
            "passes tomorrow"
        )  # fmt: skip
        answer = (
            f"{first['kind'].capitalize()} {first['name']} {when} 80 % of its"
            f" {bits(float(first['capacity_bps']))}; {len(soon)} of {len(numbers)} relays and links"
            " do within fourteen days."
        )
    elif numbers["capacity_bps"].notna().any():
        answer = "Nothing passes 80 % of its capacity within fourteen days."
    else:
        answer = "Capacities are not known: name them in a dimension file (laps-analytics build)."
    alt = f"Forecast of the busiest five minutes of a day for {len(top)} relays or links."
    return Section(
        *head,
        (answer, "Red: capacity; dotted: 80 % of it."),
        (draw("capacity", alt, paint, size=(10.4, 3.4)),),
        {"capacity": numbers},
        answer,
    )


def _daily_peaks(context: Context, shown: pd.DataFrame) -> dict[tuple[str, str, str], pd.Series]:
    """Return the busiest five minutes of each day in bits a second, by relay and link.

    ``traffic_1m`` is by far the largest table, so it is read day by day and only for the shown
    relays.
    """
    gold, relays = context.gold, set(shown["relay"])
    peaks: dict[tuple[str, str, str], dict[pd.Timestamp, float]] = {}
    for day in gold.days("traffic_1m", _HISTORY):
        rows = gold.of_days("traffic_1m", _MINUTES, days=(day,), where={"relay": relays})
        fives = [rows["relay"], rows["out_peer"], rows["window_start"].dt.floor("5min")]
        ways = rows["out_bytes"].astype(float).groupby(fives).sum()
        for row in shown.itertuples():
            if row.relay not in ways.index.get_level_values(0):
                continue
            of_relay = ways.loc[row.relay]
            if row.kind == "relay":
                part = of_relay.groupby(level=1).sum()
            else:
                part = of_relay[of_relay.index.get_level_values(0) == row.peer]
            if len(part):
                days = peaks.setdefault((row.kind, row.relay, row.peer), {})
                days[pd.Timestamp(day)] = float(part.max()) * 8 / 300
    return {key: pd.Series(days) for key, days in peaks.items()}
