"""History of plans: which relays followed which version when, and its effect.

The input is ``policy.applied`` of relays, and the comparison of ``plan measure``. The rows are
plain data for a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from laps_analytics.lake import Lake
from laps_analytics.plan.adoption import adoption_of
from laps_analytics.plan.before_after import before_and_after, worse_parts
from laps_analytics.plan.columns import batches
from laps_analytics.plan.core.revert import widest

__all__ = ["Answer", "Span", "answers_of", "effects_of", "history_of", "spans_of"]

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
