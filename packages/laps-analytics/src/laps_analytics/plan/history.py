"""What became of plans: who followed which version from when to when, who did not, what it did.

From what relays say of plans (``policy.applied``), and what ``plan measure`` compares. Rows are
plain, for whoever shows them.
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
    """What a relay said of a plan."""

    at_us: int
    relay: str
    plan: str
    version: int
    outcome: str
    """accepted, refused, expired or reverted."""
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Span:
    """A version of a plan, and the relays that had to do with it."""

    plan: str
    version: int
    first_us: int
    """When it was first answered."""
    last_us: int | None = None
    """When the last relay stopped to follow it; None: one still does, or none ever did."""
    followed: set[str] = field(default_factory=set)
    now: set[str] = field(default_factory=set)
    """Relays that follow it at the end."""
    refused: dict[str, str] = field(default_factory=dict)
    """Relay to its last reason."""
    expired: set[str] = field(default_factory=set)
    """Relays that let it expire: no other came in time."""
    reverted: set[str] = field(default_factory=set)
    """Relays that dropped it because they were told to."""


def answers_of(lake: Lake, *, until_us: int | None = None) -> list[Answer]:
    """What relays said of plans up to a moment, in the order of time."""
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
    """The versions that relays answered, in the order in which they were first heard of."""
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
    """What the newest series of plans moved, as rows, and the parts to go back for.

    All versions of the series are judged as one, as ``plan measure --since`` does.
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
    """The plans of a time, in force then or answered by a relay: as the chapter of a report has it.

    ``span_us`` is its begin and end; None if there is nothing to report on.
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
