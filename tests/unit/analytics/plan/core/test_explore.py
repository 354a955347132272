from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laps_analytics.plan.core.compose import TRIAL, Made, make, place
from laps_analytics.plan.core.explain import diff, explain
from laps_analytics.plan.core.explore import Exploring
from laps_analytics.plan.core.lessons import (
    DIRECTLY,
    Correction,
    Judged,
    Lessons,
    Measured,
    Way,
)
from laps_analytics.plan.core.network import Floats
from laps_analytics.plan.core.place import DIRECT
from laps_analytics.plan.core.revert import Part
from laps_analytics.plan.core.rules import Policy, Weights
from laps_analytics.plan.core.verify import verify
from laps_wire.plan import ClassRule, HardConstraints, Plan
from testkit.planning import random_case
from testkit.properties import examples
from unit.analytics.plan.core.test_compose import OCEAN, track

planned = partial(make, name="p", now_us=1, lifetime_us=10)
POLICY = Policy(weights=Weights(delay_price=1e-3))
BEST, OTHER = "0.0:0.6", "0.0:0.8"


def spread(**links: float) -> Floats:
    table = np.zeros((OCEAN.size, OCEAN.size))
    for name, value in links.items():
        a, b = (int(part) for part in name[1:].split("_"))
        table[a, b] = table[b, a] = value
    return table


def tried(
    share: float,
    spread_ms: Floats,
    *,
    previous: Plan | None = None,
    hold: tuple[Part, ...] = (),
    lessons: Lessons | None = None,
    policy: Policy = POLICY,
) -> Made:
    return make(
        OCEAN,
        policy,
        [track(), track(2, viewers={2: 5, 3: 5, 4: 6})],
        name="p",
        version=2 if previous is None else previous.version + 1,
        now_us=1,
        lifetime_us=10,
        previous=previous,
        hold=hold,
        exploring=Exploring(share=share, spread_ms=spread_ms),
        lessons=lessons,
    )


UNCERTAIN = spread(l7_2=40.0, l7_3=40.0, l7_4=40.0)


def test_what_is_tried_is_kept_with_what_was_expected_of_it() -> None:
    made = tried(1.0, UNCERTAIN)
    (found,) = made.trials
    assert (found.plan, found.first, found.last, found.begun_us) == ("p", 2, 2, 1)
    assert found.way == Way("0.0:0.1", "eu", "", OTHER)
    assert (found.instead, found.tracks, found.judged) == (BEST, (1, 2), None)
    (number,) = made.draft.trials
    viewers = made.draft.viewers(number)
    for expected, node in ((found.predicted_ms, OTHER), (found.against_ms, BEST)):
        over = made.draft.over(number, OCEAN.at(node))
        assert expected == pytest.approx(float(over @ viewers) / viewers.sum())
    ways = [made.draft.over(number, OCEAN.at(node)) for node in (OTHER, BEST)]
    assert found.expected_ms == pytest.approx(float(np.median(ways[0] - ways[1])))
    assert tried(0.0, UNCERTAIN).trials == []


def test_a_trial_goes_on_until_it_is_judged() -> None:
    first = tried(1.0, UNCERTAIN)
    known = Lessons.at(2, first.trials)
    # What prediction knows of it does not count any more: it goes on, within the share.
    second = tried(1.0, spread(), previous=first.plan, lessons=known)
    assert [str(entry.via) for entry in second.plan.entries] == [OTHER]
    assert second.plan.entries[0].reason.startswith(TRIAL)
    assert second.trials == [replace(first.trials[0], last=3)]
    assert tried(0.3, spread(), previous=first.plan, lessons=known).trials == []
    # A budget of changes that keeps it where it is does not make it something else.
    still = Policy(hard=replace(POLICY.hard, change_budget=0), weights=POLICY.weights)
    kept = tried(1.0, spread(), previous=first.plan, lessons=known, policy=still)
    assert kept.plan.entries[0].reason.startswith(TRIAL)
    assert (kept.trials, kept.draft.kept) == (second.trials, {})
    # Nobody goes on with what the plan in force does not try.
    other = replace(first.plan, id="q")
    assert tried(1.0, spread(), previous=other, lessons=known).trials == []


@pytest.mark.parametrize(("change", "via"), [(-20.0, OTHER), (0.0, BEST), (20.0, BEST)])
def test_what_was_judged_is_chosen_or_not_and_is_not_tried_again(change: float, via: str) -> None:
    first = tried(1.0, UNCERTAIN)
    (begun,) = first.trials
    middle = begun.expected_ms / 2 + change
    judged = Judged(
        at_us=1,
        hours=40,
        witnesses=3,
        p50_ms=200.0,
        latency=Measured(middle, middle - 1, middle + 1),
        stalls=None,
    )
    known = Lessons.at(2, [replace(begun, judged=judged)])
    made = tried(1.0, UNCERTAIN, previous=first.plan, lessons=known)
    (entry,) = made.plan.entries
    assert str(entry.via) == via
    assert made.trials == []
    assert TRIAL not in entry.reason
    if via == OTHER:
        assert "tried on 1970-01-01: 40 hours, 3 relays, p50 200 ms behind live" in entry.reason
    assert (made.plan.based_on == first.plan.based_on) == (change == 0.0)
    number = 0
    explained = explain(made.draft, number)
    others = {item.via: item.tried for item in explained.alternatives}
    words = explained.tried if via == OTHER else others[OTHER]
    assert words == known.words(begun.way)
    assert verify(made.plan, OCEAN, [track(), track(2, viewers={2: 5, 3: 5, 4: 6})]) == []


def test_stalls_and_direct_ways_count_as_well() -> None:
    way = Way("0.0:0.1", "eu", "", BEST)
    plain, _ = place(OCEAN, POLICY, [track()])
    for name, more in (
        (way, Correction(10.0, 0.1)),
        (way._replace(via=DIRECTLY), Correction(5.0, 0.2)),
        (way._replace(via="0.9:0.9"), Correction(5.0, 0.2)),
    ):
        wide = replace(POLICY, hard=replace(POLICY.hard, max_fanout=9))
        before, _ = place(OCEAN, wide, [track()])
        after, _ = place(
            OCEAN, wide, [track()], lessons=Lessons(now_us=1, corrections={name: more})
        )
        worth = more.rtt_ms * POLICY.weights.delay_price + more.stalled * POLICY.weights.poor_price
        heads = float(plain.viewers(0).sum())
        via = DIRECT if name.via == DIRECTLY else OCEAN.at(BEST)
        expected = 0.0 if name.via == "0.9:0.9" else worth * heads
        assert after.cost_of(0, via) - before.cost_of(0, via) == pytest.approx(expected)


def test_what_may_be_better_is_tried_and_marked() -> None:
    plain = make(OCEAN, POLICY, [track()], name="p", version=1, now_us=1, lifetime_us=10).plan
    assert [str(entry.via) for entry in plain.entries] == [BEST]
    # The ways from the other Via may be 80 ms shorter than they were measured.
    made = tried(1.0, spread(l7_2=40.0, l7_3=40.0, l7_4=40.0))
    (entry,) = made.plan.entries
    assert str(entry.via) == OTHER
    assert entry.reason.startswith(TRIAL)
    assert f"{BEST} is better by prediction" in entry.reason
    assert len(made.draft.trials) == 1
    assert verify(made.plan, OCEAN, [track(), track(2, viewers={2: 5, 3: 5, 4: 6})]) == []


@pytest.mark.parametrize(
    ("share", "uncertain"), [(0.0, 40.0), (0.4, 40.0), (1.0, 0.0), (1.0, np.nan)]
)
def test_nothing_is_tried_beyond_the_share_or_without_a_chance(
    share: float, uncertain: float
) -> None:
    made = tried(share, spread(l7_2=uncertain, l7_3=uncertain, l7_4=uncertain))
    assert made.draft.trials == {}
    assert {str(entry.via) for entry in made.plan.entries} == {BEST}


def test_a_limit_that_may_be_kept_counts() -> None:
    rule = ClassRule(limit_us=150_000, slack_permille=3000)
    policy = Policy(
        hard=HardConstraints(classes={"": rule}), weights=Weights(delay_price=0, poor_price=1e-9)
    )
    far = replace(OCEAN, rtt_ms=OCEAN.rtt_ms * 2)
    cheap = replace(far, price=np.where(far.price > 0, 1e-9, 0.0))
    made = make(
        cheap,
        policy,
        [track()],
        name="p",
        version=1,
        now_us=1,
        lifetime_us=10,
        exploring=Exploring(share=1.0, spread_ms=spread(l1_2=20.0, l1_3=20.0, l1_4=20.0)),
    )
    assert [str(entry.via) for entry in made.plan.entries] == ["0.0:0.2"]


def test_what_is_held_or_not_in_the_budget_is_not_tried() -> None:
    uncertain = spread(l7_2=40.0, l7_3=40.0, l7_4=40.0)
    before = tried(0.0, uncertain).plan
    assert tried(1.0, uncertain, previous=before).draft.trials
    assert not tried(1.0, uncertain, previous=before, hold=(Part("eu"),)).draft.trials


@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.05, 0.3]))
@settings(max_examples=examples(20))
def test_trials_keep_every_constraint_and_their_share(seed: int, share: float) -> None:
    network, tracks, policy = random_case(seed)
    dice = np.random.default_rng(seed)
    before = planned(network, policy, tracks, version=1)
    exploring = Exploring(
        share=share, spread_ms=dice.uniform(0, 40, size=(network.size, network.size))
    )
    made = planned(network, policy, tracks, version=2, previous=before.plan, exploring=exploring)
    assert verify(made.plan, network, tracks, previous=before.plan) == []
    draft = made.draft
    bits = [draft.rate(n) * draft.members(n) for n in range(len(draft.cells))]
    assert sum(bits[n] for n in draft.trials) <= share * sum(bits) * (1 + 1e-9)
    marked = [entry for entry in made.plan.entries if entry.reason.startswith(TRIAL)]
    assert len(marked) == len(draft.trials)
    if not draft.trials:
        assert diff(before.plan, made.plan) == []
