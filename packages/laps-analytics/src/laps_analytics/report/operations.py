"""Chapters on capacity, caches, usage and data quality."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from laps_analytics.report.chapter import (
    BAD,
    COLOURS,
    FAINT,
    GOOD,
    Context,
    Section,
    bits,
    bytes_,
    cell,
    clock,
    draw,
    percent,
    short,
    time_axis,
)

__all__ = ["cache", "capacity", "quality", "usage"]

# Capacity

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


# Caches, usage and data quality

_CACHE = (
    *("window_start", "relay", "hit_bytes", "miss_bytes", "expired_bytes", "evicted_bytes"),
    *("fetch_joins", "stored_bytes", "would_hit"),
)
_USAGE = (
    *("dt", "tenant", "version", "in_bytes", "out_bytes", "link_bytes", "watched_ms"),
    *("peak_sessions", "p95_bps", "events"),
)


def cache(context: Context) -> Section:
    """Return the chapter on caches and other ttls."""
    head = ("cache", "Caches", "Is the cache worth its memory, and what would another ttl bring?")
    table = context.gold.recent("cache_eff_1h", _CACHE)
    if table.empty:
        return context.empty_section(*head, "cache_eff_1h")
    asked = (table["hit_bytes"] + table["miss_bytes"]).astype(float)
    hit, total = float(table["hit_bytes"].sum()), float(asked.sum())
    relays = table.groupby("relay").agg(
        hit_bytes=("hit_bytes", "sum"),
        miss_bytes=("miss_bytes", "sum"),
        expired_bytes=("expired_bytes", "sum"),
        evicted_bytes=("evicted_bytes", "sum"),
        fetch_joins=("fetch_joins", "sum"),
        stored_bytes=("stored_bytes", "max"),
    )
    relays = relays.reset_index()
    both = (relays["hit_bytes"] + relays["miss_bytes"]).astype(float)
    relays.insert(1, "place", [context.places.city(node) for node in relays["relay"]])
    relays["hit_rate"] = relays["hit_bytes"].astype(float) / both.replace(0, np.nan)
    relays = relays.sort_values(["hit_rate", "relay"])
    curve = _curve(table, asked)
    words = [
        (
            f"Caches served {percent(hit / total) if total else 'nothing'} of {bytes_(total)} asked"
            f" for; {bytes_(float(table['evicted_bytes'].sum()))} were removed to make room."
        )
    ]
    if len(curve):
        best = curve.iloc[-1]
        words.append(
            f"With a ttl of {best['ttl_ms'] / 1000:g} s it would have been"
            f" {percent(float(best['hit_rate']))}."
        )
    else:
        words.append("Relays do not say how old things were, so other ttls cannot be judged.")

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        if len(curve):
            left.plot(curve["ttl_ms"] / 1000, curve["hit_rate"] * 100, color=COLOURS[0], marker="o")
            left.set_xscale("log")
            # Ticks as plain numbers: powers of ten would be formulas, which are off.
            ttls = [float(ttl) / 1000 for ttl in curve["ttl_ms"]]
            left.set_xticks(ttls, [f"{ttl:g}" for ttl in ttls])
            left.set_xticks([], minor=True)
            left.set_xlabel("ttl, s")
            left.set_ylim(0, 100)
            left.set_ylabel("% of bytes from the cache")
            if total:
                left.axhline(hit / total * 100, color=FAINT, linewidth=1, linestyle="--")
        else:
            left.text(0.5, 0.5, "ages unknown", ha="center", transform=left.transAxes)
            left.set_axis_off()
        left.set_title("Hit rate that another ttl would have had")
        worst = relays.dropna(subset=["hit_rate"]).head(10).iloc[::-1]
        rows = np.arange(len(worst))
        right.barh(rows, worst["hit_rate"] * 100, color=COLOURS[2])
        right.set_yticks(rows, [short(name, 20) for name in worst["place"]])
        right.set_xlim(0, 100)
        right.set_title("Relays with the lowest hit rate, %")

    alt = "Hit rate by would-be ttl, and the relays with the lowest hit rate."
    return Section(
        *head,
        tuple(words),
        (draw("cache", alt, paint, size=(9.6, 3.4)),),
        {"cache": relays, "cache_ttl": curve},
    )


def _curve(table: pd.DataFrame, asked: pd.Series) -> pd.DataFrame:
    """Return the hit rate of all relays by ttl, weighted by requested bytes."""
    sums: dict[int, list[float]] = {}
    for would, weight in zip(table["would_hit"], asked, strict=True):
        if would is None or not isinstance(would, dict | list):
            continue
        for ttl, rate in dict(would).items():
            if rate is not None:
                both = sums.setdefault(int(ttl), [0.0, 0.0])
                both[0] += float(rate) * weight
                both[1] += weight
    rows = [
        {"ttl_ms": ttl, "hit_rate": got / weight}
        for ttl, (got, weight) in sorted(sums.items())
        if weight
    ]
    return pd.DataFrame(rows, columns=["ttl_ms", "hit_rate"])


def usage(context: Context) -> Section:
    """Return the chapter on usage; the last version of each day counts."""
    head = ("usage", "Usage", "Who pays what?")
    days = context.gold.month("usage_tenant_day")
    table = context.gold.of_days("usage_tenant_day", _USAGE, days=days)
    if table.empty:
        return context.empty_section(*head, "usage_tenant_day")
    newest = table.sort_values("version").drop_duplicates(["dt", "tenant"], keep="last")
    tenants = newest.groupby("tenant").agg(
        days=("dt", "nunique"),
        in_bytes=("in_bytes", "sum"),
        out_bytes=("out_bytes", "sum"),
        link_bytes=("link_bytes", "sum"),
        watched_ms=("watched_ms", "sum"),
        peak_sessions=("peak_sessions", "max"),
        p95_bps_worst_day=("p95_bps", "max"),
        restated=("version", lambda v: int((v > 1).sum())),
    )
    tenants = tenants.reset_index().sort_values(["out_bytes", "tenant"], ascending=[False, True])
    total = float(tenants["out_bytes"].sum())
    tenants["share"] = tenants["out_bytes"].astype(float) / total if total else np.nan
    first = tenants.iloc[0]
    answer = (
        f"{first['tenant'] or '(nobody)'} is the largest of {len(tenants)}:"
        f" {bytes_(float(first['out_bytes']))} to clients"
        f" ({percent(float(first['share']), 0) if total else 'none'} of all) in"
        f" {_days(int(first['days']))} since {days[0]}."
    )
    words = [answer]
    if (again := int(tenants["restated"].sum())) > 0:
        words.append(f"{again} tenant days were stated again after late data.")
    daily = newest.pivot_table(
        index="dt", columns="tenant", values="out_bytes", aggfunc="sum", fill_value=0
    ).astype(float)
    largest = list(tenants["tenant"].head(6))

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        days = np.arange(len(daily))
        base = np.zeros(len(daily))
        for colour, tenant in zip(COLOURS, largest, strict=False):
            size = daily[tenant].to_numpy() / 1e9
            axes.bar(days, size, bottom=base, color=colour, label=short(tenant or "(nobody)", 24))
            base = base + size
        rest = daily.drop(columns=largest).sum(axis=1).to_numpy() / 1e9
        if rest.any():
            axes.bar(days, rest, bottom=base, color=FAINT, label="others")
        step = max(1, len(daily) // 10)
        axes.set_xticks(days[::step], [day[5:] for day in daily.index[::step]])
        axes.set_ylabel("GB to clients")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    alt = f"Bars: bytes to clients for each of {len(daily)} days, by tenant."
    return Section(
        *head,
        tuple(words),
        (draw("usage", alt, paint, size=(9.6, 3.2)),),
        {"usage": tenants, "usage_days": newest},
        answer,
    )


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


def quality(context: Context) -> Section:
    """Return the chapter on the quality checks."""
    head = ("quality", "Data quality", "Can the other chapters be believed?")
    table = context.gold.recent("quality_1h")
    if table.empty:
        return context.empty_section(*head, "quality_1h")
    checks = table.groupby("check").agg(
        checked=("ok", "size"),
        failed=("ok", lambda v: int((~v.fillna(False).astype(bool)).sum())),
        worst_error=("error", "max"),
        limit=("limit", "max"),
    )
    checks = checks.reset_index()
    bad = table[~table["ok"].fillna(False).astype(bool)].sort_values(
        ["window_start", "check", "subject"], ascending=[False, True, True]
    )
    failed = int(checks["failed"].sum())
    words = [
        f"The gate is green: all {len(table):,} checks passed."
        if not failed
        else f"The gate is red: {failed} of {len(table):,} checks failed. No plan is made from"
        " hours that fail."
    ]
    words += [
        (
            f"{row.check} of {row.subject} at {clock(row.window_start)}: {cell(row.seen)} where"
            f" {cell(row.expected)} should be."
        )
        for row in bad.head(3).itertuples()
    ]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        rows = np.arange(len(checks))
        good = (checks["checked"] - checks["failed"]).astype(float)
        share = good / checks["checked"].astype(float) * 100
        axes.barh(rows, share, color=GOOD)
        axes.barh(rows, 100 - share, left=share, color=BAD)
        axes.set_yticks(rows, [short(name) for name in checks["check"]])
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of checks that passed")

    alt = f"Bars: share of passed checks for {len(checks)} kinds; {failed} failed in all."
    return Section(
        *head,
        tuple(words),
        (draw("quality", alt, paint, size=(9, 0.9 + 0.32 * len(checks))),),
        {"checks": checks, "failed": bad.head(200)},
    )
