"""Chapters on the network: topology, links, fan-out and path stretch."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from laps_analytics.report.chapter import (
    BAD,
    COLOURS,
    FAINT,
    GOOD,
    INK,
    Context,
    Picture,
    Section,
    bytes_,
    cities,
    clock,
    draw,
    percent,
    ratio,
    short,
    time_axis,
)

__all__ = ["fanout", "links", "stretch", "topology"]

_LINES = 6
_SNAPSHOT = (
    *("at", "kind", "node", "peer", "node_type", "region", "longitude", "latitude"),
    *("load", "change"),
)
_QUALITY = (
    *("window_start", "relay", "peer", "rtt_p50_us", "rtt_p95_us", "sent_packets"),
    *("lost_packets", "loss", "out_bytes", "rate_bps", "change_point"),
)
_LINKS = {"link_quality_5m": "five minutes", "link_quality_1h": "hour", "link_quality_1d": "day"}
"""Table to the name of its window."""
_LONGER = {"rate_bps": "peak_bps", "change_point": "change_points"}
"""Column of five minutes to the column of longer windows that replaces it."""
_FANOUT = (
    *("window_start", "track", "tenant", "s_relays", "hops_max", "track_bytes", "wan_bytes"),
    *("ideal_wan_bytes", "stress_max", "worst_pair"),
)
_PATHS = ("window_start", "relay", "node", "actual_us", "best_us", "best_over", "stretch")


def topology(context: Context) -> Section:
    """Return the chapter with the last snapshot on a map."""
    head = ("topology", "The network on a map", "What does the network look like?")
    table = context.gold.recent("topology_snapshot", _SNAPSHOT, at="at")
    if table.empty:
        return context.empty_section(*head, "topology_snapshot")
    # A link that nobody sampled for five minutes is not in their snapshot; in fifteen it is.
    since = table["at"].max() - pd.Timedelta(minutes=15)
    recent = table[(table["at"] > since) & (table["change"] != "removed")].sort_values("at")
    now = recent.drop_duplicates(["kind", "node", "peer"], keep="last")
    nodes = now[now["kind"] == "node"].set_index("node")
    links = now[now["kind"] == "link"]
    placed = nodes.dropna(subset=["longitude", "latitude"])
    traffic = context.gold.latest_stretch(
        context.gold.by_span(*_LINKS), ("window_start", "relay", "peer", "out_bytes")
    )
    carried = traffic.groupby(["relay", "peer"])["out_bytes"].sum() if len(traffic) else {}
    pairs: dict[tuple[str, str], float] = {}
    for row in links.itertuples():
        pair = (min(row.node, row.peer), max(row.node, row.peer))
        size = carried.get((row.node, row.peer), 0) if len(carried) else 0
        pairs[pair] = pairs.get(pair, 0.0) + (0.0 if pd.isna(size) else float(size))
    most = max(pairs.values(), default=0.0)

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        known = cities()
        if known:
            axes.plot(
                [lon for lon, _, _ in known],
                [lat for _, lat, _ in known],
                linestyle="none", marker=".", markersize=1.6, color=FAINT, alpha=0.55,
            )  # fmt: skip
        for (one, other), size in sorted(pairs.items(), key=lambda item: item[1]):
            if one not in placed.index or other not in placed.index:
                continue
            a, b = placed.loc[one], placed.loc[other]
            wide = 0.3 + 2.6 * size / most if most and size else 0.3
            for xs, ys in _split_at_date_line(a.longitude, a.latitude, b.longitude, b.latitude):
                axes.plot(
                    xs, ys, color=COLOURS[0] if size else FAINT, linewidth=wide,
                    alpha=0.55 if size else 0.18, solid_capstyle="round",
                )  # fmt: skip
        for kind, marker, colour in (("edge", "o", COLOURS[1]), ("via", "D", COLOURS[4])):
            of_kind = placed[placed["node_type"] == kind]
            axes.scatter(
                of_kind["longitude"], of_kind["latitude"],
                s=28 + 60 * of_kind["load"].fillna(0).astype(float), marker=marker, color=colour,
                edgecolors=INK, linewidths=0.5, zorder=3, label=f"{kind} ({len(of_kind)})",
            )  # fmt: skip
        _label(axes, context, placed)
        low, high = placed["latitude"].min(), placed["latitude"].max()
        axes.set_xlim(-180, 180)
        axes.set_ylim(max(-60.0, low - 12), min(78.0, high + 12))
        axes.set_xticks(range(-180, 181, 30))
        axes.set_yticks(range(-60, 79, 15))
        axes.set_ylim(max(-60.0, low - 12), min(78.0, high + 12))
        axes.set_xlabel("degrees east")
        axes.set_ylabel("degrees north")
        axes.legend(loc="lower left", ncols=2)

    counts = nodes["node_type"].value_counts()
    roles = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    words = (
        (
            f"{len(nodes)} relays ({roles}) in"
            f" {nodes['region'].nunique()} regions, {len(pairs)} peerings, as of"
            f" {clock(table['at'].max())} UTC. Blue lines carried traffic, wider ones more; markers"
            " grow with the load. Faint dots are cities."
        ),
    )
    pictures: tuple[Picture, ...] = ()
    if not placed.empty:
        alt = (
            f"Map of {len(placed)} relays by longitude and latitude with {len(pairs)} peerings;"
            " numbers in the table below."
        )
        pictures = (draw("topology", alt, paint, size=(10, 5)),)
    shown = nodes.reset_index()[
        ["node", "node_type", "region", "longitude", "latitude", "load", "change"]
    ]
    shown.insert(1, "place", [context.places.city(node) for node in shown["node"]])
    return Section(*head, words, pictures, {"nodes": shown.sort_values("node")})


def _label(axes: Axes, context: Context, placed: pd.DataFrame) -> None:
    """Label places on the map, the busiest first, where there is room."""
    taken: list[tuple[float, float]] = []
    for node, row in placed.sort_values("load", ascending=False).iterrows():
        if any(abs(row.longitude - x) < 16 and abs(row.latitude - y) < 5 for x, y in taken):
            continue
        taken.append((row.longitude, row.latitude))
        axes.annotate(
            short(context.places.city(str(node)), 16),
            (row.longitude, row.latitude),
            textcoords="offset points",
            xytext=(5, 4),
            fontsize=7.5,
            zorder=4,
        )


def _split_at_date_line(
    lon: float, lat: float, to_lon: float, to_lat: float
) -> list[tuple[list[float], list[float]]]:
    """Return a line, in two parts if the short way crosses the edge of the map."""
    if abs(to_lon - lon) <= 180:
        return [([lon, to_lon], [lat, to_lat])]
    edge = 180.0 if lon > 0 else -180.0
    far = to_lon + 2 * edge
    middle = lat + (to_lat - lat) * (edge - lon) / (far - lon)
    return [([lon, edge], [lat, middle]), ([-edge, to_lon], [middle, to_lat])]


def links(context: Context) -> Section:
    """Return the chapter on links that are slow, lossy or full."""
    head = ("links", "Link quality", "Which link is slow, lossy or full, and since when?")
    name = context.gold.by_span(*_LINKS)
    other = {} if name == "link_quality_5m" else _LONGER
    table = context.gold.latest_stretch(name, tuple(other.get(item, item) for item in _QUALITY))
    table = table.rename(columns={longer: item for item, longer in other.items()})
    table = table[table["rtt_p50_us"].notna()]
    if table.empty:
        return context.empty_section(*head, "link_quality_5m")
    grouped = table.groupby(["relay", "peer"])
    numbers = grouped.agg(
        rtt_ms=("rtt_p50_us", lambda v: float(v.median()) / 1000),
        worst_rtt_ms=("rtt_p95_us", lambda v: float(v.max()) / 1000),
        sent=("sent_packets", "sum"),
        lost=("lost_packets", "sum"),
        worst_loss=("loss", "max"),
        bytes=("out_bytes", "sum"),
        peak_bps=("rate_bps", "max"),
        change_points=("change_point", "sum"),
    ).reset_index()
    numbers["loss"] = (numbers.pop("lost") / numbers["sent"].replace(0, np.nan)).astype(float)
    del numbers["sent"]
    numbers["rise"] = numbers["worst_rtt_ms"] / numbers["rtt_ms"]
    numbers.insert(2, "link", [context.places.link(a, b) for a, b in zip(
        numbers["relay"], numbers["peer"], strict=True)])  # fmt: skip
    slow = numbers.sort_values("rise", ascending=False).head(_LINES)
    lossy = numbers.sort_values("worst_loss", ascending=False).head(_LINES)

    def paint(figure: Figure) -> None:
        top, below = figure.subplots(2, 1, sharex=True)
        for axes, chosen, column, scale in (
            (top, slow, "rtt_p50_us", 1e-3), (below, lossy, "loss", 100.0)
        ):  # fmt: skip
            for colour, row in zip(COLOURS, chosen.itertuples(), strict=False):
                line = table[(table["relay"] == row.relay) & (table["peer"] == row.peer)]
                axes.plot(
                    line["window_start"], line[column].astype(float) * scale,
                    color=colour, linewidth=1.6, marker=".", markersize=3, label=short(row.link),
                )  # fmt: skip
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
            axes.set_ylim(bottom=0)
        top.set_title("Round trip time of the links that rose most")
        top.set_ylabel("ms")
        below.set_title("Loss of the links that lost most")
        below.set_ylabel("% of packets")
        time_axis(below)

    worst, lossiest = slow.iloc[0], lossy.iloc[0]
    words = [
        (
            f"{worst['link']} rose most: from {worst['rtt_ms']:.0f} ms usually to"
            f" {worst['worst_rtt_ms']:.0f} ms."
        )
    ]
    if pd.notna(lossiest["worst_loss"]):
        words.append(
            f"{lossiest['link']} lost most: {percent(float(lossiest['worst_loss']))} of its packets"
            f" in its worst {_LINKS[name]}."
        )
    words.append(
        f"{int((numbers['change_points'] > 0).sum())} of {len(numbers)} links left their usual"
        " range at least once."
    )
    alt = (
        f"Two line charts over time: round trip time of {len(slow)} links, highest"
        f" {worst['worst_rtt_ms']:.0f} ms on {worst['link']}, and loss of {len(lossy)} links."
    )
    return Section(
        *head,
        tuple(words),
        (draw("links", alt, paint, size=(9.6, 4.8)),),
        {"links": numbers.sort_values("rise", ascending=False)},
    )


def fanout(context: Context) -> Section:
    """Return the chapter on WAN bytes by track, and their ideal."""
    head = ("fanout", "Fan-out and duplication", "Where do WAN bytes travel twice?")
    table = context.gold.latest_stretch("track_fanout_5m", _FANOUT)
    if table.empty:
        return context.empty_section(*head, "track_fanout_5m")
    tracks = table.groupby(["track", "tenant"]).agg(
        s_relays=("s_relays", "max"),
        hops_max=("hops_max", "max"),
        track_bytes=("track_bytes", "sum"),
        wan_bytes=("wan_bytes", "sum"),
        ideal_wan_bytes=("ideal_wan_bytes", "sum"),
        stress_max=("stress_max", "max"),
    )
    last = table.sort_values("window_start").groupby(["track", "tenant"])
    tracks["worst_pair"] = last["worst_pair"].last()
    tracks = tracks.reset_index().sort_values(["wan_bytes", "track"], ascending=[False, True])
    tracks["dup_factor"] = tracks["wan_bytes"].astype(float) / tracks["ideal_wan_bytes"].replace(
        0, pd.NA
    ).astype("Float64")
    wan, ideal = int(tracks["wan_bytes"].sum()), int(tracks["ideal_wan_bytes"].sum())
    extra = wan - ideal
    top = tracks.head(10)
    over_time = table.groupby("window_start")[["wan_bytes", "ideal_wan_bytes"]].sum()
    over_time = over_time[over_time["ideal_wan_bytes"] > 0].astype(float)

    def paint(figure: Figure) -> None:
        bars, lines = figure.subplots(1, 2, width_ratios=(3, 2))
        order = top.iloc[::-1]
        names = [
            f"{short(row.tenant or '(nobody)', 14)} {row.track[:6]}" for row in order.itertuples()
        ]
        needed = np.minimum(order["ideal_wan_bytes"], order["wan_bytes"]).astype(float) / 1e9
        more = np.maximum(order["wan_bytes"] - order["ideal_wan_bytes"], 0).astype(float) / 1e9
        rows = np.arange(len(order))
        bars.barh(rows, needed, color=GOOD, label="once for each region")
        bars.barh(rows, more, left=needed, color=BAD, label="again")
        bars.set_yticks(rows, names)
        for row, total, factor in zip(rows, needed + more, order["dup_factor"], strict=True):
            if pd.notna(factor):
                bars.annotate(f" x{factor:.1f}", (total, row), va="center", fontsize=9)
        bars.set_xlabel("GB between regions")
        bars.set_title("Tracks with most WAN bytes")
        bars.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        bars.margins(x=0.12)
        lines.plot(
            over_time.index, over_time["wan_bytes"] / over_time["ideal_wan_bytes"],
            color=COLOURS[0], marker=".",
        )  # fmt: skip
        lines.axhline(1, color=GOOD, linewidth=1)
        lines.set_ylim(bottom=0)
        lines.set_title("Duplication factor, all tracks")
        time_axis(lines, 5)

    factor = wan / ideal if ideal else None
    answer = (
        "No track crossed a border of a region."
        if factor is None
        else f"{bytes_(wan)} crossed regions where {bytes_(ideal)} would have done:"
        f" every byte travelled {ratio(factor)} times."
    )
    words = [answer]
    if factor is not None and len(top):
        worst = tracks.assign(
            extra=tracks["wan_bytes"] - tracks["ideal_wan_bytes"]
        ).sort_values("extra", ascending=False).iloc[0]  # fmt: skip
        if worst["extra"] > 0:
            whose = f"of {worst['tenant']}" if worst["tenant"] else "of no tenant"
            pair = worst["worst_pair"]
            where = f", most copies {pair}" if isinstance(pair, str) and pair else ""
            sentence = (
                f"Most of it in track {worst['track']} {whose}:"
                f" {bytes_(int(worst['extra']))} too many{where}."
            )
            words.append(sentence)
            answer += f" {percent(extra / wan, 0)} of WAN bytes were copies. {sentence}"
    alt = (
        f"Bars of WAN bytes of {len(top)} tracks, split into needed and duplicate, and the"
        " duplication factor over time."
    )
    return Section(
        *head,
        tuple(words),
        (draw("fanout", alt, paint, size=(10, 1.9 + 0.26 * max(4, len(top)))),),
        {"tracks": tracks},
        answer,
    )


def stretch(context: Context) -> Section:
    """Return the chapter on pairs of relays with a shorter path over another relay."""
    head = ("stretch", "Detours", "Which pairs of relays would be nearer over another one?")
    table = context.gold.recent("path_stretch", _PATHS)
    table = table[table["stretch"].notna()]
    if table.empty:
        return context.empty_section(*head, "path_stretch")
    newest = table.sort_values("window_start").drop_duplicates(["relay", "node"], keep="last")
    over = newest[newest["best_over"].fillna("") != ""]
    worth = over[over["stretch"] >= 1.1].copy()
    worth["saved_ms"] = (worth["actual_us"] - worth["best_us"]).astype(float) / 1000
    vias = worth.groupby("best_over").agg(
        pairs=("node", "size"),
        median_saved_ms=("saved_ms", "median"),
        most_saved_ms=("saved_ms", "max"),
    )
    vias = vias.reset_index().rename(columns={"best_over": "over"})
    vias.insert(1, "place", [context.places.city(node) for node in vias["over"]])
    vias = vias.sort_values(["pairs", "over"], ascending=[False, True])
    share = len(worth) / len(newest)
    words = [
        (
            f"{len(worth)} of {len(newest)} pairs ({percent(share, 0)}) would be at least a tenth"
            " nearer over one relay between them."
        )
    ]
    answer = words[0]
    if len(vias):
        best = vias.iloc[0]
        sentence = (
            f"{context.places.full(best['over'])} would help most: {int(best['pairs'])} pairs, half"
            f" of them by {best['median_saved_ms']:.0f} ms or more."
        )
        words.append(sentence)
        answer = f"{words[0]} {sentence}"
    ratios = newest["stretch"].astype(float).clip(upper=4)

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.hist(ratios, bins=np.arange(1, 4.05, 0.1).tolist(), color=COLOURS[0])
        axes.axvline(1.1, color=BAD, linewidth=1)
        axes.set_xlabel("round trip time in use, by the best over at most one relay")
        axes.set_ylabel("pairs of relays")

    alt = f"Histogram of path stretch over {len(newest)} pairs; {len(worth)} are above 1.1."
    return Section(
        *head, tuple(words), (draw("stretch", alt, paint, size=(9, 2.6)),), {"over": vias}, answer
    )
