"""What became of plans, from a lake to the chapter of a report."""

from __future__ import annotations

from dataclasses import asdict

from laps_analytics.lake import Lake
from laps_analytics.plan.history import Span, answers_of, effects_of, spans_of
from laps_analytics.report.gold import Gold
from laps_analytics.report.plans import PlanStory

__all__ = ["story_of"]

_DAY_US = 86_400_000_000


def story_of(lake: Lake, gold: Gold) -> PlanStory:
    """The plans of the time of a report: in force then, or answered by a relay."""
    clock, begin = gold.until(), gold.begin()
    if clock is None or begin is None:
        return PlanStory()
    # Relays may have answered after the newest row of gold: the whole last day counts.
    end = int(clock.normalize().value // 1000) + _DAY_US
    first = int(begin.value // 1000)
    answers = answers_of(lake, until_us=end)
    spans = spans_of(answers)
    effects, back = effects_of(lake, spans)
    told = [span for span in spans if span.now or (span.last_us or span.first_us) >= first]
    return PlanStory(
        versions=[_row(span) for span in told],
        answers=[asdict(item) for item in answers if item.at_us >= first],
        effects=effects,
        back=back,
    )


def _row(span: Span) -> dict[str, object]:
    return {
        "plan": span.plan,
        "version": span.version,
        "first_us": span.first_us,
        "last_us": span.last_us,
        **{name: len(getattr(span, name)) for name in ("followed", "refused", "expired")},
        "reverted": len(span.reverted),
        "following": len(span.now),
    }
