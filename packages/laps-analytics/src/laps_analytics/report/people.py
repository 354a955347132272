"""Chapters about those who watch: what they get, whose fault it is, and who comes and goes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from laps_analytics.report.kll import quantiles
from laps_analytics.report.pictures import BAD, COLOURS, INK, Picture, draw
from laps_analytics.report.section import Context, Section, nothing
from laps_analytics.report.words import percent, short

__all__ = ["blame", "churn", "experience"]

_CLASSES = ("gold", "silver", "bronze", "")
_MARKS = (("median", "o", 0), ("95 %", "s", 1), ("99 %", "|", 3))


def experience(context: Context) -> Section:
    """Latency by region and class of service, and whether promises are kept."""
    head = ("experience", "What viewers get", "Who hurts, and is the promise to their class kept?")
    table = context.gold.last_day("qoe_region_1m")
    if table.empty:
        return nothing(*head, "qoe_region_1m")
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
                "startup_p95_ms_worst": part["startup_p95_ms"].max(),
                "stall_ratio": _mean(part["stall_ratio"], weight),
                "gap_rate": _mean(part["gap_rate"], weight),
                "over_limit": over,
                "over_share": over / reports if reports else np.nan,
                "burn": _mean(burn["burn"], burn["reports"].astype(float)),
            }
        )
    numbers = pd.DataFrame(rows)
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

    total, over = int(numbers["reports"].sum()), int(numbers["over_limit"].sum())
    words = [
        f"{percent(over / total)} of {total:,} client reports were over the limit of their class."
    ]
    hurt = numbers.sort_values(["over_limit", "region"], ascending=[False, True]).iloc[0]
    answer = words[0]
    if hurt["over_limit"] > 0:
        sentence = (
            f"Most of them in {hurt['region'] or '(no region)'}, class"
            f" {hurt['class'] or '(none)'}: {percent(float(hurt['over_share']))} of its reports,"
            f" half of them {hurt['latency_p50_ms']:.0f} ms or more behind live, one in twenty"
            f" {hurt['latency_p95_ms']:.0f} ms."
        )
        words.append(sentence)
        answer = f"{words[0]} {sentence}"
    broken = numbers[numbers["burn"] > 1]
    if len(broken):
        names = ", ".join(
            f"{row.region or '(none)'} {getattr(row, 'class_', '')}".strip()
            for row in broken.rename(columns={"class": "class_"})
            .sort_values("burn", ascending=False)
            .head(5)
            .itertuples()
        )
        words.append(f"Promises that are broken (burn above 1): {len(broken)}, worst {names}.")
    else:
        words.append("Every promise is kept: no burn above 1 over the day.")
    alt = (
        f"Median, 95th and 99th percentile of latency for {numbers['region'].nunique()} regions"
        f" and {len(classes)} classes of service; numbers in the table below."
    )
    height = 1.6 + 0.28 * numbers["region"].nunique()
    shown = numbers.sort_values(["over_limit", "region", "class"], ascending=[False, True, True])
    return Section(
        *head,
        tuple(words),
        (draw("experience", alt, paint, size=(10, height)),),
        {"experience": shown},
        answer,
    )


def _mean(values: pd.Series, weight: pd.Series) -> float:
    known = values.notna()
    if not known.any() or not weight[known].sum():
        return float("nan")
    return float(np.average(values[known].astype(float), weights=weight[known]))


def blame(context: Context) -> Section:
    """Who held slow objects up."""
    head = ("blame", "Blame", "Whose fault is it?")
    table = context.gold.last_day("blame")
    if table.empty:
        return nothing(*head, "blame")
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
    who.insert(0, "who", [_culprit(context, row) for row in who.itertuples()])
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


def _culprit(context: Context, row: object) -> str:
    part, relay, peer = (str(getattr(row, name)) for name in ("part", "relay", "peer"))
    if part == "link":
        return f"link {context.places.full(relay)} > {context.places.full(peer)}"
    if part == "client":
        return f"last mile at {context.places.full(relay)}"
    return f"relay {context.places.full(relay)}" if relay else part


def churn(context: Context) -> Section:
    """Subscribers that come and go."""
    head = ("churn", "Churn", "Who comes and goes too often, and what did holding back save?")
    table = context.gold.last_day("churn_1h")
    if table.empty:
        return nothing(*head, "churn_1h")
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
