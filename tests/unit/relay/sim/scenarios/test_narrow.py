from __future__ import annotations

from laps_relay.sim.checks.drops import AMPLE
from laps_relay.sim.clients.publications import Style
from laps_relay.sim.runner import simulate
from laps_relay.sim.scenarios.narrow import DRAIN, NARROW, offered_by
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.world.build import network_relay


def test_every_tenth_seed_has_narrow_links_large_objects_and_small_queues() -> None:
    for seed in (7, 17, 27):
        made = scenario(seed)
        assert made.offered > 0
        rates = [
            rate
            for link in made.topology.links
            for rate in (link.bandwidth, link.bandwidth_back)
            if rate is not None
        ]
        assert 0 < len(rates) < 2 * len(made.topology.links)
        one = offered_by(made.style)
        assert min(rates) < 1.6 * one
        assert any(link.bandwidth != link.bandwidth_back for link in made.topology.links)
        assert made.style.padding >= 1000
        assert made.queue <= 32 * 1024
        assert len({priority for priority, _ in made.manners}) == 3
        assert {ttl for _, ttl in made.manners} & {300}
    assert not scenario(8).offered


def test_a_via_leaves_most_of_these_networks() -> None:
    made = [scenario(seed, kind=NARROW) for seed in range(1, 30)]
    drains = [action for each in made for action in each.actions if action.verb == "drain"]
    assert len(made) / 3 < len(drains) < len(made)
    assert {action.value for action in drains} == {2 * DRAIN}
    for each in made:
        ends = [action.when + action.value for action in each.actions if action.verb == "drain"]
        assert max(ends, default=0.0) <= each.healed


def test_some_links_are_wide_enough_for_everything() -> None:
    rates = [
        (link.bandwidth, made.offered)
        for made in (scenario(seed, kind=NARROW) for seed in range(1, 6))
        for link in made.topology.links
        if link.bandwidth is not None
    ]
    assert any(rate >= AMPLE * offered for rate, offered in rates)


def test_slow_receivers_among_faults_have_something_to_be_slow_about() -> None:
    made = [scenario(seed, kind="faults") for seed in range(1, 30)]
    slow = [each for each in made if any(action.verb == "slow" for action in each.actions)]
    assert slow
    for each in made:
        assert (each.style.padding > 0) is (each in slow)
        assert not each.offered


def test_what_a_publisher_offers_is_its_groups() -> None:
    style = Style(period=0.5, objects=3, padding=1000)
    assert offered_by(style) == (24 + 3 * 1024) / 0.5


def test_a_narrow_network_sheds_and_expires_and_everything_else_holds() -> None:
    made = scenario(6, relays=8, topology="random", kind=NARROW)
    outcome, run = simulate(made, network_relay)
    assert outcome.ok, outcome.problem
    drops, ledger = run.checks.drops, run.world.ledger
    assert drops.sent > 100
    assert drops.shed + drops.expired > 0
    assert ledger.given_up > 0
    assert ledger.lost == 0
