from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laps_analytics.plan.core.compose import TRIAL, Made, make
from laps_analytics.plan.core.explain import diff
from laps_analytics.plan.core.explore import Exploring
from laps_analytics.plan.core.network import Floats
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
    share: float, spread_ms: Floats, *, previous: Plan | None = None, hold: tuple[Part, ...] = ()
) -> Made:
    return make(
        OCEAN,
        POLICY,
        [track(), track(2, viewers={2: 5, 3: 5, 4: 6})],
        name="p",
        version=2,
        now_us=1,
        lifetime_us=10,
        previous=previous,
        hold=hold,
        exploring=Exploring(share=share, spread_ms=spread_ms),
    )


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
