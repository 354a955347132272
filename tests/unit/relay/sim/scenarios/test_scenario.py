from __future__ import annotations

from laps_relay.sim.scenarios.scenario import MOST, scenario


def test_the_seeds_of_ci_have_12_to_30_relays() -> None:
    for seed in range(1, 301):
        made = scenario(seed)
        assert 12 <= len(made.topology.relays) + len(made.spares) <= MOST, seed
        assert len(made.topology.relays) >= 12, seed


def test_a_size_that_is_given_is_that_size() -> None:
    assert len(scenario(1, relays=200).topology.relays) == 200
    assert len(scenario(1, relays=5).topology.relays) == 5


def test_what_is_inserted_among_places_has_one() -> None:
    """Also if the first that it meets is a control server: else it would be faster than light."""
    first = set()
    for seed in range(4000, 4060):
        made = scenario(seed, kind="planned")
        if made.topology.relay("r1").location is None:
            continue
        for spare in made.spares:
            beside = next(link.b for link in made.spare_links if link.a == spare.name)
            first.add(beside[0])
            assert spare.location is not None
    assert "c" in first
