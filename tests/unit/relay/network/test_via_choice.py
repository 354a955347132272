from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.node_table import Candidate
from laps_relay.network.steering import (
    COPY_PRICE_US,
    Choice,
    Pick,
    Score,
    Situation,
    apply_choice,
    choose,
    prefer,
    score,
)
from laps_wire.nodeid import NodeId
from testkit.paths import Directory

V, W, X = (NodeId(number) for number in (11, 12, 13))
TARGETS = [NodeId(number) for number in range(101, 107)]

Costs = Mapping[NodeId, Mapping[NodeId, int]]


def situation(
    plain: Mapping[NodeId, int],
    through: Costs,
    *,
    most: int | None = 2,
    burdened: frozenset[NodeId] = frozenset(),
    edges: frozenset[NodeId] = frozenset(),
    bad_above: int = 10**9,
) -> Situation:
    """Direct ways with these costs, and ways through relays with those."""
    nodes = Directory()
    options: dict[NodeId, dict[NodeId, Candidate]] = {}
    for via, costs in through.items():
        for target, cost in costs.items():
            nodes.path(target, via, rtt=cost, link=0)
    for target, cost in plain.items():
        nodes.path(target, link=cost)
        for path in nodes.candidates(target):
            options.setdefault(path.peer, {})[target] = path
    return Situation(
        plain={target: options[target][target] for target in plain},
        options=options,
        vias=frozenset(through) - edges,
        burdened=burdened,
        is_bad=lambda path: path.cost_us > bad_above,
        max_copies=most,
    )


def hops(found: Situation, choice: Choice) -> dict[NodeId, NodeId]:
    return {target: path.peer for target, path in apply_choice(found, choice).items()}


def test_hub_and_spoke_while_it_is_allowed() -> None:
    plain = dict.fromkeys(TARGETS[:2], 100)
    found = situation(plain, {V: dict.fromkeys(TARGETS, 1)})
    assert choose(found) == ()
    assert hops(found, ()) == {target: target for target in plain}
    assert score(found, found.plain) == Score(0, 0, 200 + 2 * COPY_PRICE_US)
    many = situation(dict.fromkeys(TARGETS, 100), {V: dict.fromkeys(TARGETS, 1)}, most=None)
    assert choose(many) == ()


def test_too_many_copies_go_through_the_cheapest_via() -> None:
    plain = dict.fromkeys(TARGETS[:3], 100)
    found = situation(plain, {V: dict.fromkeys(plain, 120), W: dict.fromkeys(plain, 110)})
    assert choose(found) == (Pick(W),)
    assert hops(found, (Pick(W),)) == dict.fromkeys(plain, W)
    same = situation(plain, {W: dict.fromkeys(plain, 110), V: dict.fromkeys(plain, 110)})
    assert choose(same) == (Pick(V),), "the lowest node ID if nothing else differs"


def test_two_vias_if_one_is_not_enough() -> None:
    plain = dict.fromkeys(TARGETS, 100)
    first, second = TARGETS[:3], TARGETS[3:]
    found = situation(plain, {V: dict.fromkeys(first, 150), W: dict.fromkeys(second, 150)})
    assert choose(found) == (Pick(V), Pick(W))
    assert set(hops(found, choose(found)).values()) == {V, W}


def test_what_a_first_pick_took_a_second_does_not_take() -> None:
    plain = dict.fromkeys(TARGETS[:3], 100)
    found = situation(plain, {V: dict.fromkeys(plain, 1), W: dict.fromkeys(plain, 1)})
    assert hops(found, (Pick(W), Pick(V))) == dict.fromkeys(plain, W)


def test_a_via_that_helps_nothing_is_not_taken() -> None:
    plain = dict.fromkeys(TARGETS[:3], 100)
    assert choose(situation(plain, {V: {TARGETS[0]: 1}})) == ()
    assert choose(situation(plain, {})) == ()
    assert choose(situation(plain, {V: dict.fromkeys(plain, 1)}, edges=frozenset({V}))) == ()
    assert choose(situation(plain, {V: dict.fromkeys(plain, 1)}, burdened=frozenset({V}))) == ()


def test_a_bad_way_is_replaced_and_nothing_else() -> None:
    plain = {TARGETS[0]: 100, TARGETS[1]: 10}
    through = {V: dict.fromkeys(plain, 40)}
    found = situation(plain, through, bad_above=50, edges=frozenset({V}))
    assert choose(found) == (Pick(V, frozenset({TARGETS[0]})),)
    assert hops(found, choose(found)) == {TARGETS[0]: V, TARGETS[1]: TARGETS[1]}
    none = situation(plain, {V: dict.fromkeys(plain, 60)}, bad_above=50)
    assert choose(none) == ()


def test_the_class_counts_more_than_copies() -> None:
    plain = dict.fromkeys(TARGETS[:3], 10)
    found = situation(plain, {V: dict.fromkeys(plain, 60)}, bad_above=50)
    assert choose(found) == ()


def test_what_is_in_use_stays_unless_another_is_clearly_better() -> None:
    plain = dict.fromkeys(TARGETS[:3], 100_000)
    near = situation(plain, {V: dict.fromkeys(plain, 100_000), W: dict.fromkeys(plain, 95_000)})
    assert choose(near) == (Pick(W),)
    assert prefer(near, (Pick(V),)) == (Pick(V),)
    assert prefer(near, ()) == (Pick(W),)
    far = situation(plain, {V: dict.fromkeys(plain, 100_000), W: dict.fromkeys(plain, 50_000)})
    assert prefer(far, (Pick(V),)) == (Pick(W),)
    burdened = near._replace(burdened=frozenset({V}))
    assert prefer(burdened, (Pick(V),)) == (Pick(W),)


def test_what_does_not_pay_any_more_is_left() -> None:
    plain = dict.fromkeys(TARGETS[:2], 100)
    found = situation(plain, {V: dict.fromkeys(plain, 1)})
    assert prefer(found, (Pick(V),)) == ()


def test_a_better_kind_is_worth_any_price() -> None:
    plain = dict.fromkeys(TARGETS[:5], 10)
    found = situation(
        plain, {V: dict.fromkeys(TARGETS[:2], 10), W: dict.fromkeys(TARGETS[:5], 90_000)}
    )
    assert prefer(found, (Pick(V),)) == (Pick(W),)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    targets = draw(st.lists(st.sampled_from(TARGETS), min_size=1, unique=True))
    cost = st.integers(0, 100_000)
    plain = {target: draw(cost) for target in targets}
    through = {
        via: draw(st.dictionaries(st.sampled_from(targets), cost, min_size=1)) for via in (V, W, X)
    }
    subsets = st.frozensets(st.sampled_from((V, W, X)))
    return situation(
        plain,
        through,
        most=draw(st.none() | st.integers(1, 4)),
        burdened=draw(subsets),
        edges=draw(subsets),
        bad_above=draw(st.sampled_from((30_000, 60_000, 10**9))),
    )


@given(situations(), situations())
def test_a_choice_is_never_worse_and_stays(first: Situation, then: Situation) -> None:
    chosen = choose(first)
    plain = score(first, first.plain)
    found = score(first, apply_choice(first, chosen))
    assert found.faults < plain.faults if chosen else found == plain
    assert not {pick.via for pick in chosen} & first.burdened
    # Whatever was in use before: the aim stays when it is reached.
    aim = prefer(then, chosen)
    assert prefer(then, aim) == aim
    assert score(then, apply_choice(then, aim)).faults <= score(then, then.plain).faults
    assert apply_choice(then, aim).keys() == then.plain.keys()
