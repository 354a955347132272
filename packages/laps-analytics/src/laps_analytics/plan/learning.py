"""From the trials of a plan to what the next plans know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laps_analytics.lake import Lake
from laps_analytics.plan.core.lessons import Trial, Way
from laps_analytics.plan.following import Following, following
from laps_analytics.plan.remembered import remember, remembered
from laps_analytics.plan.trials import Outcome, Tried, judged, trials_of
from laps_wire.plan import Plan

__all__ = ["learn", "outcomes_of"]


def outcomes_of(lake: Lake, plan: Plan, followed: Following | None = None) -> list[Outcome]:
    """What came of the trials of a plan, each by all versions that have it.

    Of one that the lake does not know, that is the version of the plan. ``followed`` is who
    followed that one, for whoever knows it already.
    """
    own = {} if followed is None else {(plan.version, plan.version): followed}
    known = _known(lake, plan)
    found = []
    for way, tracks in trials_of(plan).items():
        trial = known.get(way)
        span = (plan.version, plan.version) if trial is None else (trial.first, trial.last)
        if span not in own:
            own[span] = following(lake, plan.id, *span)
        spent = own[span]
        found.append(Tried(way=way, tracks=tracks, since_us=spent.since_us, counts=spent.hour))
    return judged(lake, found)


def learn(lake: Lake, plan: Plan, outcomes: Sequence[Outcome]) -> frozenset[Way]:
    """Keep what came of trials for the next plans; of which ways that is.

    What it is too early to judge, and what the lake did not know of, teaches nothing.
    """
    known = _known(lake, plan)
    new = {
        outcome.way: replace(known[outcome.way], judged=found)
        for outcome in outcomes
        if outcome.way in known and (found := outcome.judged) is not None
    }
    remember(lake, new.values(), now_us=max((item.until_us for item in outcomes), default=0))
    return frozenset(new)


def _known(lake: Lake, plan: Plan) -> dict[Way, Trial]:
    """The trials of a plan that the lake knows of."""
    return {
        trial.way: trial
        for trial in remembered(lake)
        if trial.plan == plan.id and trial.first <= plan.version <= trial.last
    }
