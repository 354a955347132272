"""The effect of plans: who followed them, the time before and after, and their history.

::

    policy.applied --> Adoption --> hours that count
                          |               |
                          |     windows before and after --> matched --> Verdict
                          |                                                 |
                          +----------------> history <----------------------+

**Adoption.** Relays report in ``policy.applied`` which version they follow since when.

**Comparison.** A window after the plan is compared with earlier windows of the same hour and kind
of day whose demand is nearest. Kinds of day are working days and weekends. Neighbouring minutes are
not independent, so the differences of a run of hours count as one. The change is the
Hodges-Lehmann estimate, and its interval is that of the signed-rank test. That test is exact for
few values and does not assume normal noise. A plan is worse only if the whole interval is, and if
there are enough runs.

**History.** Which relays followed which version when, and its effect, as plain rows for a report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from laps_analytics.errors import PlanError
from laps_analytics.gold.build import gold_name
from laps_analytics.lake import Lake, batches, between, summed
from laps_analytics.plan.core.revert import Part, widest

__all__ = [
    "METRICS",
    "WAN_METRICS",
    "Adoption",
    "Answer",
    "Span",
    "Verdict",
    "Window",
    "adoption_of",
    "answers_of",
    "before_and_after",
    "effects_of",
    "history_of",
    "hours_after",
    "matched",
    "spans_of",
    "worse_parts",
]

# Comparison of windows

_NEAR: Final = 3
"""Number of earlier windows that a later one is compared with."""
_DEMAND: Final = 0.3
"""Largest relative difference of demand within a pair."""
_HOUR_US: Final = 3_600_000_000
_EXACT: Final = 60
"""Number of runs above which the normal approximation is used."""


@dataclass(frozen=True, slots=True)
class Window:
    """A measured value."""

    start_us: int
    """Begin of the window, microseconds since 1970."""
    demand: float
    """Viewers or bits, which the value may depend on."""
    value: float
    """Measured value; less is better."""

    @property
    def kind(self) -> tuple[bool, int]:
        """Whether it is a weekend, and the hour (UTC)."""
        hours = self.start_us // 3_600_000_000
        # The first day of 1970 was a Thursday.
        return (hours // 24 + 3) % 7 >= 5, hours % 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of a comparison."""

    pairs: int
    """Windows after the plan with a similar one before it."""
    runs: int
    """Runs of hours with such windows. Each counts once."""
    change: float
    """Median difference; negative is better, NaN without pairs."""
    low: float
    """Lower end of the interval."""
    high: float
    level: float = 0.95
    """Confidence level of the interval."""

    @property
    def enough(self) -> bool:
        """Whether there are enough runs to exclude chance.

        Without an effect all runs differ in one direction with a probability of ``2 ** (1 -
        runs)``.
        """
        return self.runs > 0 and 2.0 ** (1 - self.runs) <= 1 - self.level

    @property
    def word(self) -> str:
        """better, worse or unclear."""
        if not self.enough:
            return "unclear"
        if self.high < 0:
            return "better"
        return "worse" if self.low > 0 else "unclear"

    @property
    def revert(self) -> bool:
        """Whether reverting is proposed. An operator decides."""
        return self.word == "worse"


def matched(
    before: Sequence[Window],
    after: Sequence[Window],
    *,
    level: float = 0.95,
    block_us: int = _HOUR_US,
    run: int | None = None,
) -> Verdict:
    """Compare windows. The same arguments give the same verdict.

    Windows of one block count once, and so do ``run`` consecutive blocks; by default the cube root
    of their number.
    """
    return _verdict(_differences(before, after, block_us), level, run)


def _differences(
    before: Sequence[Window], after: Sequence[Window], block_us: int
) -> dict[int, list[float]]:
    """Return, by block, the differences of its windows to similar earlier ones."""
    by_kind: dict[tuple[bool, int], list[Window]] = {}
    for window in before:
        by_kind.setdefault(window.kind, []).append(window)
    blocks: dict[int, list[float]] = {}
    for window in after:
        like = [
            other
            for other in by_kind.get(window.kind, ())
            if abs(other.demand - window.demand) <= _DEMAND * max(abs(window.demand), 1e-9)
        ]
        like.sort(key=lambda other: (abs(other.demand - window.demand), -other.start_us))
        if like:
            usual = float(np.median([other.value for other in like[:_NEAR]]))
            blocks.setdefault(window.start_us // block_us, []).append(window.value - usual)
    return blocks


def _verdict(blocks: Mapping[int, Sequence[float]], level: float, run: int | None) -> Verdict:
    if not blocks:
        nothing = float("nan")
        return Verdict(pairs=0, runs=0, change=nothing, low=nothing, high=nothing, level=level)
    values = [float(np.median(blocks[at])) for at in sorted(blocks)]
    length = run or max(1, round(len(values) ** (1 / 3)))
    count = max(1, len(values) // length)
    means = np.array([part.mean() for part in np.array_split(np.array(values), count)])
    pairs = np.sort(((means[:, None] + means[None, :]) / 2)[np.triu_indices(count)])
    cut = _cut(count, (1 - level) / 2)
    return Verdict(
        pairs=sum(len(part) for part in blocks.values()),
        runs=count,
        change=float(np.median(pairs)),
        low=float(pairs[cut]),
        high=float(pairs[-1 - cut]),
        level=level,
    )


def _cut(count: int, tail: float) -> int:
    """Return the number of pair means below the interval, which is also that above it."""
    if count > _EXACT:
        mean, square = count * (count + 1) / 4, count * (count + 1) * (2 * count + 1) / 24
        return int(NormalDist(mean, math.sqrt(square)).inv_cdf(tail))
    # Of all signs of the ranks 1 to count, how many have each sum of the positive ones.
    share = np.zeros(count * (count + 1) // 2 + 1)
    share[0] = 1.0
    for rank in range(1, count + 1):
        share[rank:] += share[:-rank].copy()
        share /= 2
    below = np.cumsum(share)
    return int(np.searchsorted(below, tail, side="right")) - 1 if below[0] <= tail else 0


# Adoption

_ENOUGH: Final = 0.5
"""Least share of an hour, over all relays that adopted the plan, for the hour to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Adoption of some versions of a plan by relays."""

    since_us: int
    """Time at which the first relay adopted one of them, microseconds since 1970."""
    accepted: Collection[str]
    """Relays that adopted one."""
    refused: Collection[str]
    """Relays that refused one; some of them may have adopted another."""
    ended: Mapping[int, int]
    """Begin of an hour to the time in it that relays followed a version and then stopped."""
    going_on: Collection[int]
    """Times since which relays still follow a version."""

    def covers_hour(self, at_us: int) -> bool:
        """Return whether enough relays followed the plan in the hour that begins at ``at_us``."""
        end = at_us + _HOUR_US
        begin = max(at_us, self.since_us)
        time = self.ended.get(at_us, 0) + sum(
            max(0, end - max(since, begin)) for since in self.going_on
        )
        return begin < end and time >= _ENOUGH * len(self.accepted) * (end - begin)


def adoption_of(lake: Lake, plan_id: str, first: int, last: int) -> Adoption:
    """Return the adoption of versions ``first`` to ``last`` of a plan.

    A relay stops when it adopts another version or plan, or when its plan expires. Raises
    :class:`PlanError` if no relay adopted one.
    """
    versions = range(first, last + 1)
    accepted: set[str] = set()
    refused: set[str] = set()
    ended: dict[int, int] = {}
    now: dict[str, tuple[int, int]] = {}
    begins: list[int] = []

    def stop(relay: str, at: int) -> None:
        since, _ = now.pop(relay)
        hour = since // _HOUR_US * _HOUR_US
        while hour < at:
            part = min(at, hour + _HOUR_US) - max(since, hour)
            ended[hour] = ended.get(hour, 0) + part
            hour += _HOUR_US

    columns = ("ts", "relay", "plan_id", "plan_version", "outcome")
    parts = list(batches(lake.table("silver/policy_applied"), columns, times=("ts",)))
    # In the order of time; a relay that goes on with the next version stops and begins at once.
    rows = pa.concat_tables(parts).sort_by([("ts", "ascending")]) if parts else None
    for batch in () if rows is None else rows.to_batches():
        for row in batch.to_pylist():
            relay, at, outcome = row["relay"], row["ts"], row["outcome"]
            ours = row["plan_id"] == plan_id and row["plan_version"] in versions
            if outcome == "refused":
                if ours:
                    refused.add(relay)
                continue
            if outcome == "accepted":
                if relay in now:
                    stop(relay, at)
                if ours:
                    accepted.add(relay)
                    begins.append(at)
                    now[relay] = at, row["plan_version"]
            elif ours and relay in now and now[relay][1] == row["plan_version"]:
                stop(relay, at)
    if not begins:
        named = f"version {last}" if first == last else f"any of the versions {first} to {last}"
        raise PlanError(
            f"no relay has reported that it follows {plan_id} {named}: load it into relays,"
            " and ingest their telemetry"
        )
    return Adoption(
        since_us=min(begins),
        accepted=frozenset(accepted),
        refused=frozenset(refused),
        ended=ended,
        going_on=tuple(since for since, _ in now.values()),
    )


# Time before and after, from the lake

METRICS: Final = {
    "latency": "latency_p95_ms",
    "startup": "startup_p95_ms",
    "stalls": "stall_ratio",
}
"""Metric to its column in ``qoe_region_1m``."""

WAN_METRICS: Final = {
    "wan": ("wan_bytes", "delivered"),
    "copies": ("wan_bytes", "ideal_wan_bytes"),
}
"""Metric to numerator and denominator: bytes between regions by delivered bytes, and by the ideal.

The ideal is one copy for each region, so the second is the duplication factor. Both are measured
for the whole network, because a copy serves several regions.
"""

_ALL: Final = Part()


class _Hour(NamedTuple):
    """Reports of a region and class in an hour, before or after the plan."""

    after: bool
    at_us: int
    region: str
    scope: str
    reports: float
    weighed: float
    """Sum of the values, each weighted by its number of reports."""


def before_and_after(
    lake: Lake,
    at_us: int,
    *,
    days: int = 14,
    settle_us: int = 60_000_000,
    counts: Callable[[int], bool] = lambda _: True,
) -> dict[str, dict[Part, Verdict]]:
    """Compare hours before and after a moment, by metric and part.

    Parts are the whole network, each region, and each class in a region with several classes. With
    more regions the confidence level of each is higher (Bonferroni), and so for classes. Of the
    hours after the moment only those count for which ``counts`` is true. WAN metrics are compared
    for the whole network.
    """
    begin = at_us - days * 24 * _HOUR_US
    found: dict[str, dict[Part, Verdict]] = {}
    for metric, column in METRICS.items():
        hours = _hours(lake, column, begin, at_us, settle_us)
        parts = _parts([hour for hour in hours if not hour.after or counts(hour.at_us)])
        regions = sum(1 for part in parts if part.region is not None and part.scope is None)
        classes = sum(1 for part in parts if part.scope is not None)
        found[metric] = {
            part: matched(
                _windows([hour for hour in hours if not hour.after]),
                _windows([hour for hour in hours if hour.after]),
                level=0.95
                if part == _ALL
                else 1 - 0.05 / (regions if part.scope is None else classes),
            )
            for part, hours in sorted(parts.items(), key=lambda item: _order(item[0]))
        }
    return found | _wan(lake, begin, at_us, settle_us, counts)


def hours_after(lake: Lake, at_us: int, *, settle_us: int = 60_000_000) -> list[int]:
    """Return the hours after a moment for which viewers reported."""
    hours = _hours(lake, "reports", at_us, at_us, settle_us)
    return sorted({hour.at_us for hour in hours if hour.after})


def worse_parts(found: Mapping[str, Mapping[Part, Verdict]]) -> dict[Part, list[str]]:
    """Return what got worse, by part. Higher WAN cost counts only if viewers gained nothing."""
    better = any(found[metric][_ALL].word == "better" for metric in METRICS)
    worse: dict[Part, list[str]] = {}
    for metric, by_part in found.items():
        for part, verdict in by_part.items():
            if verdict.revert and not (better and metric in WAN_METRICS):
                worse.setdefault(part, []).append(metric)
    return worse


def _wan(
    lake: Lake, begin: int, at_us: int, settle_us: int, counts: Callable[[int], bool]
) -> dict[str, dict[Part, Verdict]]:
    """Compare the WAN metrics by hours; empty without their tables."""
    sums: dict[tuple[bool, int], dict[str, float]] = {}
    fanout = ("track_bytes", "wan_bytes", "ideal_wan_bytes")
    for table, columns in (("track_fanout_5m", fanout), ("traffic_1m", ("delivered",))):
        parts = _bytes(lake, table, columns, begin, at_us, settle_us)
        rows = summed(parts, ("after", "hour"), columns)
        for row in [] if rows is None else rows.to_pylist():
            found = sums.setdefault((row["after"], row["hour"]), {})
            found.update({name: float(row[name] or 0) for name in columns})
    windows: dict[str, dict[bool, list[Window]]] = {}
    for (after, hour), found in sorted(sums.items()):
        for metric, (top, bottom) in WAN_METRICS.items():
            if (after and not counts(hour)) or top not in found or not found.get(bottom):
                continue
            demand = found["track_bytes"]
            window = Window(hour, demand, found[top] / found[bottom])
            windows.setdefault(metric, {}).setdefault(after, []).append(window)
    return {
        metric: {_ALL: matched(by.get(False, []), by.get(True, []))}
        for metric, by in windows.items()
    }


def _bytes(
    lake: Lake, name: str, columns: tuple[str, ...], begin: int, at_us: int, settle_us: int
) -> Iterator[pa.Table]:
    """Yield rows of a table before and after; ``delivered`` is the bytes sent to clients."""
    clients = columns == ("delivered",)
    names = ("window_start", *(("out_peer", "out_bytes") if clients else columns))
    for rows in batches(lake.table(gold_name(name)), names, times=("window_start",)):
        chosen = rows
        if clients:
            chosen = rows.filter(pc.equal(pc.coalesce(rows["out_peer"], ""), ""))
            chosen = chosen.rename_columns(["window_start", "out_peer", "delivered"])
        for after, first, last in (
            (False, begin, at_us - 1),
            (True, at_us + settle_us, 1 << 62),
        ):
            part = between(chosen, "window_start", first, last)
            hour = pc.multiply(pc.divide(part["window_start"], _HOUR_US), _HOUR_US)
            values = {column: pc.coalesce(part[column], 0) for column in columns}
            yield pa.table(
                {"after": pa.repeat(pa.scalar(after), part.num_rows), "hour": hour, **values}
            )


def _order(part: Part) -> tuple[bool, str, str]:
    return part.region is not None, part.region or "", part.scope or ""


def _hours(lake: Lake, column: str, begin: int, at_us: int, settle_us: int) -> list[_Hour]:
    """Return sums of the minutes by hour, region and class."""

    def parts() -> Iterator[pa.Table]:
        names = tuple(dict.fromkeys(("window_start", "region", "class", "reports", column)))
        table = lake.table(gold_name("qoe_region_1m"))
        for rows in batches(table, names, times=("window_start",)):
            known = pc.and_(pc.is_valid(rows[column]), pc.greater(rows["reports"], 0))
            chosen = rows.filter(known)
            for after, part in (
                (False, between(chosen, "window_start", begin, at_us - 1)),
                (True, between(chosen, "window_start", at_us + settle_us, 1 << 62)),
            ):
                reports = part["reports"].cast(pa.float64())
                hour = pc.multiply(pc.divide(part["window_start"], _HOUR_US), _HOUR_US)
                yield pa.table(
                    {
                        "after": pa.repeat(pa.scalar(after), part.num_rows),
                        "hour": hour,
                        "region": pc.coalesce(part["region"], ""),
                        "class": pc.coalesce(part["class"], ""),
                        "reports": reports,
                        "weighed": pc.multiply(reports, part[column].cast(pa.float64())),
                    }
                )

    found = summed(parts(), ("after", "hour", "region", "class"), ("reports", "weighed"))
    return [
        _Hour(
            row["after"], row["hour"], row["region"], row["class"], row["reports"], row["weighed"]
        )
        for row in ([] if found is None else found.to_pylist())
    ]


def _parts(hours: list[_Hour]) -> Mapping[Part, list[_Hour]]:
    found: dict[Part, list[_Hour]] = {_ALL: []}
    classes: dict[str, set[str]] = {}
    for hour in hours:
        classes.setdefault(hour.region, set()).add(hour.scope)
    for hour in hours:
        found[_ALL].append(hour)
        found.setdefault(Part(hour.region), []).append(hour)
        if len(classes[hour.region]) > 1:
            found.setdefault(Part(hour.region, hour.scope), []).append(hour)
    return found


def _windows(hours: list[_Hour]) -> list[Window]:
    """Return one window for each hour, with the mean value weighted by reports."""
    sums: dict[int, list[float]] = {}
    for hour in hours:
        part = sums.setdefault(hour.at_us, [0.0, 0.0])
        part[0] += hour.reports
        part[1] += hour.weighed
    return [Window(at, part[0], part[1] / part[0]) for at, part in sorted(sums.items())]


# History

_COLUMNS: Final = ("ts", "event_seq", "relay", "plan_id", "plan_version", "outcome", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Response of a relay to a plan."""

    at_us: int
    relay: str
    plan: str
    version: int
    outcome: str
    """accepted, refused, expired or reverted."""
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Span:
    """A version of a plan and its relays."""

    plan: str
    version: int
    first_us: int
    """Time of the first response."""
    last_us: int | None = None
    """Time at which the last relay stopped following it; None if that did not happen."""
    followed: set[str] = field(default_factory=set)
    now: set[str] = field(default_factory=set)
    """Relays that follow it at the end."""
    refused: dict[str, str] = field(default_factory=dict)
    """Relay to its last reason."""
    expired: set[str] = field(default_factory=set)
    """Relays for which it expired."""
    reverted: set[str] = field(default_factory=set)
    """Relays that dropped it on command."""


def answers_of(lake: Lake, *, until_us: int | None = None) -> list[Answer]:
    """Return the responses of relays up to a moment, in order of time."""
    parts = list(batches(lake.table("silver/policy_applied"), _COLUMNS, times=("ts",)))
    if not parts:
        return []
    rows = pa.concat_tables(parts).sort_by([(name, "ascending") for name in _COLUMNS[:3]])
    return [
        Answer(
            at_us=row["ts"],
            relay=row["relay"],
            plan=row["plan_id"],
            version=row["plan_version"],
            outcome=row["outcome"],
            reason=row["reason"] or "",
        )
        for row in rows.to_pylist()
        if until_us is None or row["ts"] <= until_us
    ]


def spans_of(answers: Sequence[Answer]) -> list[Span]:
    """Return the versions with responses, in order of the first response."""
    found: dict[tuple[str, int], Span] = {}
    follows: dict[str, Span] = {}

    def stop(relay: str, at_us: int) -> None:
        span = follows.pop(relay)
        span.now.discard(relay)
        span.last_us = at_us

    for item in answers:
        key = item.plan, item.version
        span = found.setdefault(
            key, Span(plan=item.plan, version=item.version, first_us=item.at_us)
        )
        if item.outcome == "refused":
            span.refused[item.relay] = item.reason
            continue
        if item.outcome == "accepted":
            if item.relay in follows:
                stop(item.relay, item.at_us)
            follows[item.relay] = span
            span.followed.add(item.relay)
            span.now.add(item.relay)
            continue
        gone = span.expired if item.outcome == "expired" else span.reverted
        gone.add(item.relay)
        if follows.get(item.relay) is span:
            stop(item.relay, item.at_us)
    for span in found.values():
        if span.now:
            span.last_us = None
    return list(found.values())


def effects_of(lake: Lake, spans: Sequence[Span]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the effects of the newest series of plans as rows, and the parts to revert.

    All versions of the series are judged together, as by ``plan measure --since``.
    """
    followed_spans = [span for span in spans if span.followed]
    if not followed_spans:
        return [], []
    newest = max(followed_spans, key=lambda span: (bool(span.now), span.first_us))
    series = [span.version for span in followed_spans if span.plan == newest.plan]
    first, last = min(series), max(series)
    adoption = adoption_of(lake, newest.plan, first, last)
    found = before_and_after(lake, adoption.since_us, counts=adoption.covers_hour)
    worse = worse_parts(found)
    open_ = widest(worse)
    rows: list[dict[str, Any]] = []
    for metric, by_part in found.items():
        for part, verdict in by_part.items():
            if verdict.pairs:
                row: Mapping[str, Any] = {
                    "plan": newest.plan,
                    "first_version": first,
                    "last_version": last,
                    "part": str(part),
                    "metric": metric,
                    "change": verdict.change,
                    "low": verdict.low,
                    "high": verdict.high,
                    "level": verdict.level,
                    "hours": verdict.pairs,
                    "verdict": verdict.word,
                    "go_back": part in open_ and metric in worse[part],
                }
                rows.append(dict(row))
    return rows, [str(part) for part in open_]


def history_of(lake: Lake, span_us: tuple[int, int] | None) -> dict[str, Any]:
    """Return the plans in force or answered in a time span, for the chapter of a report.

    ``span_us`` has begin and end; None if there is nothing to report.
    """
    if span_us is None:
        return {}
    first, end = span_us
    answers = answers_of(lake, until_us=end)
    spans = spans_of(answers)
    effects, back = effects_of(lake, spans)
    shown = [span for span in spans if span.now or (span.last_us or span.first_us) >= first]
    return {
        "versions": [_row(span) for span in shown],
        "answers": [asdict(item) for item in answers if item.at_us >= first],
        "effects": effects,
        "back": back,
    }


def _row(span: Span) -> dict[str, Any]:
    return {
        "plan": span.plan,
        "version": span.version,
        "first_us": span.first_us,
        "last_us": span.last_us,
        **{name: len(getattr(span, name)) for name in ("followed", "refused", "expired")},
        "reverted": len(span.reverted),
        "following": len(span.now),
    }
