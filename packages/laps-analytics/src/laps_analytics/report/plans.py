"""Chapters on the Vias of a plan, and on the history of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure

from laps_analytics.report.chapter import (
    BAD,
    COLOURS,
    FAINT,
    GOOD,
    Context,
    Picture,
    Section,
    cell,
    clean,
    clock,
    draw,
    short,
    time_axis,
)
from laps_wire.plan import Plan

__all__ = ["PlanHistory", "plans", "vias"]

Rows = Sequence[Mapping[str, Any]]

_HEAD: Final = ("plans", "Plans", "Which plan was in force, who followed it, and did it help?")
_MOST: Final = 12
"""Most versions in the plot."""
_LABELS: Final = 0.4
"""Height of the time labels in inches."""
_UNITS: Final = {"latency": " ms", "startup": " ms"}
_NAMES: Final = {
    "latency": "latency (95th percentile)",
    "startup": "start-up (95th percentile)",
    "stalls": "share of time stalled",
    "wan": "WAN bytes by delivered bytes",
    "copies": "WAN bytes by what one copy for each region needs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHistory:
    """Rows of the history of plans, with times in microseconds since 1970."""

    versions: Rows = ()
    """plan, version, first_us, last_us, and numbers of relays.

    The numbers are followed, following, refused, expired and reverted. last_us is None if a version
    is in force or was never followed.
    """
    answers: Rows = ()
    """at_us, relay, plan, version, outcome, reason."""
    effects: Rows = ()
    """Result of ``plan measure`` for the newest series."""
    back: Sequence[str] = field(default_factory=tuple)
    """Parts for which reverting is proposed."""


def plans(context: Context, history: PlanHistory) -> Section:
    """Return the chapter: versions over time, responses, effects and proposals."""
    if not history.versions:
        nothing = "No relay has said anything of a plan in this time (policy.applied)."
        return Section(*_HEAD, (nothing,), answer=nothing)
    versions = _timed(history.versions, "first_us", "last_us")
    answers = _timed(history.answers, "at_us")
    tables = {"plan_versions": versions.iloc[::-1].reset_index(drop=True)}
    if len(answers):
        answers.insert(2, "place", [context.places.city(node) for node in answers["relay"]])
        # Who did not follow is what one looks for; then the newest.
        order = answers.assign(fine=answers["outcome"] == "accepted")
        order = order.sort_values(["fine", "at"], ascending=[True, False], kind="stable")
        tables["plan_answers"] = order.drop(columns="fine").reset_index(drop=True)
    if history.effects:
        tables["plan_effects"] = pd.DataFrame(list(history.effects))
    words = [
        _in_force(versions),
        *_refusals(context, history.answers),
        _moved(history),
        _proposed(history),
    ]
    return Section(*_HEAD, tuple(words), (_picture(context, versions, answers),), tables, words[0])


def _timed(rows: Rows, *columns: str) -> pd.DataFrame:
    """Return rows as a table, with times for readers."""
    frame = pd.DataFrame(list(rows))
    for column in columns:
        if column in frame:
            frame[column] = pd.to_datetime(frame[column], unit="us", utc=True)
    return frame.rename(columns={name: name.removesuffix("_us") for name in columns})


def _in_force(versions: pd.DataFrame) -> str:
    going = versions[versions["following"] > 0]
    if going.empty:
        ended = versions["last"].max()
        since = "ever was" if pd.isna(ended) else f"has been since {clock(ended)}"
        return f"No plan is in force; none {since}."
    newest = going.iloc[-1]
    others = int(going["following"].sum() - newest["following"])
    more = f"; {others} relays follow an earlier one" if others else ""
    return (
        f"Plan {clean(newest['plan'])}, version {newest['version']}, is in force at"
        f" {newest['following']} relays since {clock(newest['first'])}; {newest['refused']} refused"
        f" it, and {newest['expired']} let it expire{more}."
    )


def _refusals(context: Context, answers: Rows) -> list[str]:
    """Return the most frequent reasons, and the relays that gave them."""
    by_reason: dict[str, set[str]] = {}
    for row in answers:
        if row["outcome"] == "refused":
            by_reason.setdefault(str(row["reason"] or "no reason"), set()).add(str(row["relay"]))
    if not by_reason:
        return []
    common = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))[:3]
    shown = "; ".join(
        f"{clean(reason)} ({', '.join(context.places.full(name) for name in sorted(relays)[:3])}"
        f"{'' if len(relays) <= 3 else f' and {len(relays) - 3} more'})"
        for reason, relays in common
    )
    return [f"Refused because: {shown}."]


def _moved(history: PlanHistory) -> str:
    whole = [row for row in history.effects if row["part"] == "all"]
    clear = [row for row in whole if row["verdict"] != "unclear"]
    if not whole:
        return "What it moved cannot be told yet: no hours before and after it are alike."
    first = whole[0]
    span = f"version {first['last_version']}"
    if first["first_version"] != first["last_version"]:
        span = f"versions {first['first_version']} to {first['last_version']}"
    if not clear:
        return f"What {span} moved cannot be told from chance yet."
    said = ", ".join(f"{_NAMES[row['metric']]} {_signed(row)} ({row['verdict']})" for row in clear)
    return f"Hours that are alike, before and after {span}: {said}."


def _signed(row: Mapping[str, Any]) -> str:
    unit = _UNITS.get(row["metric"], "")
    sign = "+" if row["change"] > 0 else ""
    return f"{sign}{cell(float(row['change']))}{unit}"


def _proposed(history: PlanHistory) -> str:
    if not history.back:
        return "Nothing got worse beyond doubt: no proposal to go back is open."
    parts = ", ".join(clean(part) for part in history.back)
    return (
        f"Open proposal to go back for: {parts}. The plan that does is made by laps-analytics plan"
        " measure with --out."
    )


def _picture(context: Context, versions: pd.DataFrame, answers: pd.DataFrame) -> Picture:
    shown = versions.tail(_MOST).reset_index(drop=True)
    height = 1.7 + 0.34 * len(shown)
    row_of = {(row.plan, row.version): at for at, row in enumerate(shown.itertuples())}
    ends = [versions["first"].max(), versions["last"].max(), context.gold.until()]
    if len(answers):
        ends.append(answers["at"].max())
    end: Any = max(item for item in ends if pd.notna(item))
    marks = {
        "refused": ("x", BAD, "a relay refused it"),
        "expired": ("|", COLOURS[1], "a relay let it expire"),
        "reverted": ("v", COLOURS[4], "a relay was told to drop it"),
    }

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        labels = set()
        for at, row in enumerate(shown.itertuples()):
            going = row.following > 0
            if row.followed:
                label = "in force" if going else "was in force"
                last = end if going or pd.isna(row.last) else row.last
                axes.plot(
                    [row.first, last], [at, at], linewidth=9, solid_capstyle="butt",
                    color=GOOD if going else COLOURS[0], alpha=0.75, zorder=2,
                    label=None if label in labels else label,
                )  # fmt: skip
                labels.add(label)
        for outcome, (mark, colour, label) in marks.items():
            part = answers[answers["outcome"] == outcome] if len(answers) else answers
            points = [
                (row.at, row_of[row.plan, row.version])
                for row in part.itertuples()
                if (row.plan, row.version) in row_of
            ]
            if points:
                axes.scatter(
                    [at for at, _ in points], [row for _, row in points],
                    marker=mark, color=colour, s=60, linewidths=2, label=label, zorder=3,
                )  # fmt: skip
        names = [
            f"{short(row.plan, 18)} {row.version}: {row.followed} followed, {row.refused} refused"
            for row in shown.itertuples()
        ]
        axes.set_yticks(range(len(shown)), names)
        axes.set_ylim(-0.7, len(shown) - 0.3)
        axes.axvline(end, color=FAINT, linestyle=":", linewidth=1)
        time_axis(axes)
        # Below the labels of the time, however low the picture is.
        below = -_LABELS / (height - 0.5)
        axes.legend(loc="upper left", bbox_to_anchor=(0, below), ncols=5, borderaxespad=0)

    count = f"the last {len(shown)} versions" if len(shown) > 1 else "the one version"
    alt = (
        f"Time bars of {count} of plans, with marks where relays refused one or let it expire; all"
        " are in the tables below."
    )
    return draw("plans", alt, paint, size=(10, height))


def vias(context: Context, plan: Plan) -> Section:
    """Return the chapter on the entries of a plan and its main Vias."""
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
