"""Chapters about those who watch: whose fault it is, and who comes and goes."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from laps_analytics.report.formatting import percent, short
from laps_analytics.report.plots import BAD, COLOURS, INK, Picture, draw
from laps_analytics.report.section import Context, Section

__all__ = ["blame", "churn"]

_BLAME = ("window_start", "track", "part", "relay", "peer", "objects", "excess_ms")
_CHURN = (
    *("window_start", "relay", "track", "source_node", "subscribes", "unsubscribes"),
    *("held_back", "flaps", "damp"),
)


def blame(context: Context) -> Section:
    """Who held slow objects up."""
    head = ("blame", "Blame", "Whose fault is it?")
    table = context.gold.recent("blame", _BLAME)
    if table.empty:
        return context.nothing(*head, "blame")
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
    table = context.gold.recent("churn_1h", _CHURN)
    if table.empty:
        return context.nothing(*head, "churn_1h")
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
