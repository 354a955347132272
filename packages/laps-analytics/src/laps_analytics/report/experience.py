"""Chapters on the experience of viewers, and on the causes of slow deliveries.

Only a player knows its latency behind live. Without reports of players the chapter shows what
relays measure of their clients: start-up, stalls and missing objects.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from laps_analytics.report.chapter import (
    BAD,
    COLOURS,
    Context,
    Picture,
    Section,
    draw,
    percent,
    short,
)
from laps_analytics.report.gold import quantiles

__all__ = ["blame", "experience"]

_COLUMNS: Final = (
    *("window_start", "region", "class", "reports", "latency_kll", "startup_p95_ms"),
    *("stall_ratio", "gap_rate", "over_limit", "burn"),
)
_BLAME: Final = ("window_start", "track", "part", "relay", "peer", "objects", "excess_ms")
_CLASSES: Final = ("gold", "silver", "bronze", "")
_MARKS: Final = (("median", "o", 0), ("95 %", "s", 1), ("99 %", "|", 3))
_RELAY_METRICS: Final = (
    ("startup_p95_ms_worst", 1.0, "ms to start, 95 %, worst {}"),
    ("stall_ratio", 100.0, "% of the time stalled"),
    ("gap_rate", 1.0, "objects missing in a minute"),
)
"""Metrics without reports of players: column, factor and label with the length of a window."""
_TABLES: Final = {"qoe_region_1m": "minute", "qoe_region_1h": "hour", "qoe_region_1d": "day"}
"""Table to the name of its window."""


def experience(context: Context) -> Section:
    """Return the chapter: latency by region and class of service, and the limits of classes."""
    head = ("experience", "What viewers get", "Who hurts, and is the promise to their class kept?")
    name = context.gold.by_span(*_TABLES)
    table, window = context.gold.recent(name, _COLUMNS), _TABLES[name]
    if table.empty:
        return context.empty_section(*head, "qoe_region_1m")
    numbers = _numbers(table)
    timed = numbers[numbers["latency_p50_ms"].notna()]
    untimed = numbers[numbers["latency_p50_ms"].isna()]
    total, over = int(numbers["reports"].sum()), int(numbers["over_limit"].sum())
    words = [
        f"{percent(over / total)} of {total:,} client reports were over the limit of their class."
        if total
        else "No client reported."
    ]
    hurt = numbers.sort_values(["over_limit", "region"], ascending=[False, True]).iloc[0]
    if hurt["over_limit"] > 0:
        words.append(
            f"Most of them in {_who(hurt)}: {percent(float(hurt['over_share']))} of its reports,"
            f" {_how(hurt, window)}."
        )
    elif timed.empty:
        words += _worst(untimed, window)
    answer = " ".join(words)
    words.append(_objectives(numbers))
    if timed.empty:
        words.append(
            "No player says how far behind live it is: start-up, stalls and gaps are what relays"
            " see."
        )
    pictures = [_behind_live(timed)] if len(timed) else []
    if len(untimed):
        pictures.append(_relay_metrics(untimed, window))
    shown = numbers.sort_values(["over_limit", "region", "class"], ascending=[False, True, True])
    return Section(*head, tuple(words), tuple(pictures), {"experience": shown}, answer)


def _numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each region and class."""
    rows = []
    for (region, service), part in table.groupby(["region", "class"]):
        reports = int(part["reports"].sum())
        sketches = [bytes(item) for item in part["latency_kll"].dropna()]
        found = quantiles(sketches, (0.5, 0.95, 0.99))
        p50, p95, p99 = found or (np.nan, np.nan, np.nan)
        weight = part["reports"].astype(float)
        over = int(part["over_limit"].sum())
        burn = part[part["burn"].notna()]
        rows.append(
            {
                "region": region,
                "class": service,
                "reports": reports,
                "latency_p50_ms": p50,
                "latency_p95_ms": p95,
                "latency_p99_ms": p99,
                "startup_p95_ms_worst": part["startup_p95_ms"].astype("Float64").max(),
                "stall_ratio": _mean(part["stall_ratio"], weight),
                "gap_rate": _mean(part["gap_rate"], weight),
                "over_limit": over,
                "over_share": over / reports if reports else np.nan,
                "burn": _mean(burn["burn"], burn["reports"].astype(float)),
            }
        )
    frame = pd.DataFrame(rows)
    frame["startup_p95_ms_worst"] = pd.to_numeric(frame["startup_p95_ms_worst"]).astype("Float64")
    return frame


def _mean(values: pd.Series, weight: pd.Series) -> float:
    known = values.notna()
    if not known.any() or not weight[known].sum():
        return float("nan")
    return float(np.average(values[known].astype(float), weights=weight[known]))


def _who(row: pd.Series) -> str:
    return f"{row['region'] or '(no region)'}, class {row['class'] or '(none)'}"


def _how(row: pd.Series, window: str) -> str:
    """Describe the quality: latency behind live if players report it, else what relays measure."""
    if pd.notna(row["latency_p50_ms"]):
        return (
            f"half of them {row['latency_p50_ms']:.0f} ms or more behind live, one in twenty"
            f" {row['latency_p95_ms']:.0f} ms"
        )
    known = []
    if pd.notna(row["startup_p95_ms_worst"]):
        slow = f"{row['startup_p95_ms_worst']:,.0f} ms"
        known.append(f"start-up of one in twenty {slow} or more in the worst {window}")
    if pd.notna(row["stall_ratio"]):
        known.append(f"{percent(float(row['stall_ratio']))} of the time stalled")
    if pd.notna(row["gap_rate"]):
        known.append(f"{row['gap_rate']:,.1f} objects missing in a minute")
    return ", ".join(known) or "and nothing is known of how it was"


def _worst(rows: pd.DataFrame, window: str) -> list[str]:
    """Return a sentence on the worst region and class, for use without limits."""
    order = [column for column, _, _ in _RELAY_METRICS if (rows[column].fillna(0) > 0).any()]
    if not order:
        return []
    column = "stall_ratio" if "stall_ratio" in order else order[-1]
    worst = rows.sort_values([column, "region"], ascending=[False, True]).iloc[0]
    return [f"It was worst in {_who(worst)}: {_how(worst, window)}."]


def _objectives(numbers: pd.DataFrame) -> str:
    broken = numbers[numbers["burn"] > 1].sort_values("burn", ascending=False)
    if len(broken):
        names = ", ".join(
            f"{row['region'] or '(none)'} {row['class']}".strip()
            for _, row in broken.head(5).iterrows()
        )
        return f"Promises that are broken (burn above 1): {len(broken)}, worst {names}."
    if numbers["burn"].isna().all():
        return (
            "Nothing is promised to anybody here: name classes of tracks in a dimension file"
            " (laps-analytics build --dimensions)."
        )
    return "Every promise is kept: no burn above 1 over the day."


def _behind_live(numbers: pd.DataFrame) -> Picture:
    classes = [name for name in _CLASSES if name in set(numbers["class"])]
    classes += sorted(set(numbers["class"]) - set(classes))

    def paint(figure: Figure) -> None:
        panels = np.atleast_1d(figure.subplots(1, len(classes), sharey=True))
        regions = sorted(numbers["region"].unique(), reverse=True)
        for axes, service in zip(panels, classes, strict=True):
            part = numbers[numbers["class"] == service].set_index("region")
            for row, region in enumerate(regions):
                if region not in part.index:
                    continue
                here = part.loc[region]
                axes.plot(
                    [here["latency_p50_ms"], here["latency_p99_ms"]], [row, row],
                    color=COLOURS[0], linewidth=1.4, alpha=0.6,
                )  # fmt: skip
                for column, marker, colour in (
                    ("latency_p50_ms", "o", COLOURS[0]),
                    ("latency_p95_ms", "s", COLOURS[1]),
                    ("latency_p99_ms", "|", BAD),
                ):
                    axes.plot(here[column], row, marker=marker, color=colour, markersize=6)
            axes.set_yticks(range(len(regions)), [short(name or "(none)", 18) for name in regions])
            axes.set_title(short(service or "no class", 20))
            axes.set_xlim(left=0)
            axes.set_ylim(-0.7, len(regions) - 0.3)
            axes.set_xlabel("ms behind live")
        for label, marker, number in _MARKS:
            panels[-1].plot([], [], marker=marker, color=COLOURS[number], linestyle="none",
                            label=label)  # fmt: skip
        figure.legend(loc="outside lower center", ncols=3)

    count = numbers["region"].nunique()
    alt = (
        f"Median, 95th and 99th percentile of latency for {count} regions"
        f" and {len(classes)} classes of service; numbers in the table below."
    )
    return draw("experience", alt, paint, size=(10, 1.6 + 0.28 * count))


def _relay_metrics(numbers: pd.DataFrame, window: str) -> Picture:
    """Plot start-up, stalls and gaps of viewers whose players do not report."""
    order = numbers.sort_values(["region", "class"], ascending=False)
    names = [
        short(f"{region or '(none)'}, {service or 'no class'}", 26)
        for region, service in zip(order["region"], order["class"], strict=True)
    ]

    def paint(figure: Figure) -> None:
        rows = np.arange(len(order))
        panels = figure.subplots(1, len(_RELAY_METRICS), sharey=True)
        for axes, colour, (column, factor, words) in zip(
            panels, COLOURS, _RELAY_METRICS, strict=False
        ):
            known = order[column].astype("Float64")
            axes.barh(rows, known.fillna(0).astype(float) * factor, color=colour, height=0.6)
            axes.set_yticks(rows, names)
            axes.set_ylim(-0.7, len(order) - 0.3)
            axes.set_xlim(left=0)
            axes.set_xlabel(words.format(window))
            for row in rows[known.isna().to_numpy()]:
                axes.text(0.02, row, "not known", va="center", fontsize=9,
                          transform=axes.get_yaxis_transform())  # fmt: skip

    alt = (
        f"Bars: start-up, share of time stalled and objects missing for {len(order)} regions and"
        " classes whose players do not say how far behind live they are."
    )
    return draw("felt", alt, paint, size=(10, 1.3 + 0.3 * len(order)))


def blame(context: Context) -> Section:
    """Return the chapter on the parts of the network that delayed objects."""
    head = ("blame", "Blame", "Whose fault is it?")
    table = context.gold.recent("blame", _BLAME)
    if table.empty:
        return context.empty_section(*head, "blame")
    table = table.assign(
        excess_sum=table["excess_ms"].astype(float) * table["objects"].astype(float)
    )
    who = table.groupby(["part", "relay", "peer"]).agg(
        objects=("objects", "sum"),
        minutes=("window_start", "nunique"),
        tracks=("track", "nunique"),
        excess_sum=("excess_sum", "sum"),
    )
    who = who.reset_index()
    who["mean_excess_ms"] = who.pop("excess_sum") / who["objects"].astype(float)
    total = int(who["objects"].sum())
    who["share"] = who["objects"].astype(float) / total
    who.insert(0, "who", [_part_name(context, row) for row in who.itertuples()])
    who = who.sort_values(["objects", "who"], ascending=[False, True])
    top = who.head(10).iloc[::-1]
    parts = sorted(set(who["part"]))
    colour = dict(zip(parts, COLOURS, strict=False))

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        rows = np.arange(len(top))
        axes.barh(rows, top["objects"].astype(float), color=[colour[part] for part in top["part"]])
        axes.set_yticks(rows, [short(name, 46) for name in top["who"]])
        for row, excess, count in zip(rows, top["mean_excess_ms"], top["objects"], strict=True):
            axes.annotate(f" +{excess:.0f} ms", (float(count), row), va="center", fontsize=9)
        axes.set_xlabel("slow objects that it held up longest")
        axes.margins(x=0.1)

    worst = who.iloc[0]
    by_part = who.groupby("part")["objects"].sum().sort_values(ascending=False)
    answer = (
        f"To blame first: {worst['who']}, for {percent(float(worst['share']), 0)} of {total:,} slow"
        f" objects, each {worst['mean_excess_ms']:.0f} ms over its usual time."
    )
    words = (
        answer,
        "By kind: "
        + ", ".join(f"{part} {percent(count / total, 0)}" for part, count in by_part.items())
        + ".",
    )
    alt = f"Bars: the {len(top)} parts of the network that held up most slow objects."
    return Section(
        *head,
        words,
        (draw("blame", alt, paint, size=(9.6, 1.2 + 0.3 * len(top))),),
        {"blame": who},
        answer,
    )


def _part_name(context: Context, row: object) -> str:
    part, relay, peer = (str(getattr(row, name)) for name in ("part", "relay", "peer"))
    if part == "link":
        return f"link {context.places.full(relay)} > {context.places.full(peer)}"
    if part == "client":
        return f"last mile at {context.places.full(relay)}"
    return f"relay {context.places.full(relay)}" if relay else part
