from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from laps_analytics.errors import PlanError
from laps_analytics.gold.dimensions import Dimensions, TrackFacts
from laps_analytics.plan.assemble import Assembled, assemble, demand_of
from laps_analytics.plan.constraints import Settings, parse_settings
from laps_analytics.plan.core.compose import choose_vias
from laps_analytics.plan.core.evaluate import figures, trees_of
from laps_analytics.plan.core.inputs import Track
from laps_analytics.plan.core.placement import Draft
from laps_analytics.plan.observation import HopRow, Observation
from laps_analytics.synth.backbone import Backbone, make_backbone
from laps_analytics.synth.dataset import TrackDemand, make_demand
from laps_analytics.synth.planning import SYNTH_POLICY, tracks_of
from testkit.plan_lake import END_US, observe_backbone

SETTINGS = Settings(policy=SYNTH_POLICY)


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return make_backbone(11, edges=70, vias=30)


@pytest.fixture(scope="module")
def demand(backbone: Backbone) -> list[TrackDemand]:
    return make_demand(backbone, tracks=25)


def facts(demand: list[TrackDemand]) -> Dimensions:
    return Dimensions(tracks={item.track: TrackFacts(item.scope) for item in demand})


@pytest.fixture(scope="module")
def honest(backbone: Backbone, demand: list[TrackDemand]) -> tuple[Draft, float]:
    """A plan of the network as it is, and what one from honest reports costs in it."""
    found = assemble(observe_backbone(backbone, demand), SETTINGS, facts(demand))
    true = replace(found.network, rtt_ms=backbone.rtt_ms, loss=backbone.loss)
    real, _ = choose_vias(true, SYNTH_POLICY, tracks_of(demand))
    return real, objective(real, found)


def objective(real: Draft, found: Assembled) -> float:
    """What the plan from these reports costs in the network as it is."""
    made, _ = choose_vias(found.network, SYNTH_POLICY, found.tracks)
    by_cell = {
        (made.groups[cell.group].origin, key, cell.region): via
        for cell, via in zip(made.cells, made.via, strict=True)
        for key in made.groups[cell.group].keys
    }
    origins = [(real.groups[cell.group], cell.region) for cell in real.cells]
    chosen = [by_cell.get((group.origin, group.keys[0], region), -1) for group, region in origins]
    followed = replace(real, via=chosen)
    shown = figures(real.network, SYNTH_POLICY, real.groups, trees_of(followed))
    weights = SYNTH_POLICY.weights
    heads = sum(sum(group.viewers) for group in real.groups)
    late = shown.over_limit * heads * weights.poor_price
    return shown.cost + late + shown.delay_p50_ms * heads * weights.delay_price


def test_what_honest_relays_say_is_the_network(
    backbone: Backbone, demand: list[TrackDemand]
) -> None:
    found = assemble(observe_backbone(backbone, demand), SETTINGS, facts(demand))
    pairs = np.triu_indices(len(backbone.relays), 1)
    error = np.abs(found.network.rtt_ms[pairs] / backbone.rtt_ms[pairs] - 1)
    assert np.median(error) < 0.02
    assert (found.network.loss == backbone.loss).all()
    assert found.suspects == ()
    assert not found.predicted  # an hour is no history
    assert sorted(track.key for track in found.tracks) == sorted(
        int(item.track, 16) for item in demand
    )
    by_key = {track.key: track for track in found.tracks}
    for item in demand:
        track = by_key[int(item.track, 16)]
        assert (track.origin, track.scope) == (item.origin, item.scope)
        assert track.rate_bps == pytest.approx(item.rate_bps)
        assert set(track.viewers) == set(item.viewers)


@pytest.mark.parametrize("kind", ["near", "far", "crowd", "records", "lossy", "lossless"])
def test_one_percent_of_poison_costs_at_most_five_percent(
    backbone: Backbone, demand: list[TrackDemand], honest: tuple[Draft, float], kind: str
) -> None:
    rng = np.random.default_rng(5)
    liar = backbone.relays[backbone.vias[3]].node if kind != "crowd" else backbone.relays[0].node
    # One of a hundred relays lies in all that it says, or one record in a hundred is wrong.
    spoil = {
        "near": lambda a, _b, _w, rtt: 0.05 * rtt if a == liar else rtt,
        "far": lambda a, _b, _w, rtt: 20 * rtt if a == liar else rtt,
        "crowd": lambda _a, _b, _w, rtt: rtt,
        "lossy": lambda _a, _b, _w, rtt: rtt,
        "lossless": lambda _a, _b, _w, rtt: rtt,
        "records": lambda _a, _b, _w, rtt: rtt * 0.01 if rng.random() < 0.01 else rtt,
    }[kind]

    def claim(relay: str, bps: float) -> float:
        return 1e6 * bps if kind == "crowd" and relay == liar else bps

    def lose(relay: str, share: float) -> float:
        return {"lossy": 0.5, "lossless": 0.0}.get(kind, share) if relay == liar else share

    known = facts(demand)
    real, clean = honest
    seen = observe_backbone(backbone, demand, spoil=spoil, claim=claim, lose=lose)
    found = assemble(seen, SETTINGS, known)
    poisoned = objective(real, found)
    assert poisoned <= 1.05 * clean
    if kind in ("near", "far"):
        assert found.suspects == (liar,)


def small(**changes: object) -> Observation:
    base = Observation(
        at_us=END_US,
        nodes=[],
        rtt_ms={},
        hops=[
            HopRow(relay="a", track="ff", in_peer=None, out_peer="b", in_bps=8e6, out_bps=8e6),
            HopRow(relay="b", track="ff", in_peer="a", out_peer=None, in_bps=8e6, out_bps=24e6),
        ],
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_a_relay_that_claims_to_be_the_origin_is_outvoted(backbone: Backbone) -> None:
    nodes = observe_backbone(make_backbone(1, edges=3, vias=1), []).nodes
    names = [row.node for row in nodes]
    rows = [
        HopRow(
            relay=names[0], track="0a", in_peer=None, out_peer=names[1], in_bps=8e6, out_bps=8e6
        ),
        HopRow(
            relay=names[1], track="0a", in_peer=names[0], out_peer=None, in_bps=8e6, out_bps=8e6
        ),
        HopRow(relay=names[2], track="0a", in_peer=None, out_peer=None, in_bps=8e9, out_bps=8e9),
    ]
    found = assemble(small(nodes=nodes, hops=rows), Settings())
    (track,) = found.tracks
    assert track.origin == 0
    assert track.rate_bps == 8e6
    with pytest.raises(PlanError, match="not the hash of a track"):
        assemble(small(nodes=nodes, hops=[replace(row, track="xyz") for row in rows]), Settings())
    unknown = [replace(row, relay="9.9:9.9") for row in rows]
    assert assemble(small(nodes=nodes, hops=unknown), Settings()).tracks == []


def test_what_the_operator_says_counts(backbone: Backbone) -> None:
    tiny = make_backbone(1, edges=3, vias=1)
    seen = observe_backbone(tiny, [])
    a, b, c, via = (relay.node for relay in tiny.relays)
    text = f"""
        [price]
        between = 2.0
        from = {{ "{tiny.relays[0].region}" = 3.0 }}
        [node."{a}"]
        country = "DE"
        capacity_bps = 5e9
        [node."{via}"]
        usable = false
        [link."{b}>{c}"]
        countries = ["FR"]
        price = 9.0
        capacity_bps = 1e6
        [link."9.9:9.9>{c}"]
        price = 1.0
    """
    known = Dimensions(relays={a: 1e9, b: 2e9}, links={(a, b): 3e9, ("x", "y"): 1.0})
    net = assemble(seen, parse_settings(text, "t"), known).network
    assert (net.nodes[0].country, net.nodes[0].capacity_bps) == ("DE", 5e9)
    assert net.nodes[1].capacity_bps == 2e9
    assert not net.nodes[3].usable
    assert net.capacity_bps[0, 1] == 3e9
    assert net.price[1, 2] == net.price[2, 1] == 9.0
    assert net.capacity_bps[2, 1] == 1e6
    assert net.path_countries(2, 1) == frozenset({"FR"})
    if tiny.relays[0].region != tiny.relays[1].region:
        assert net.price[0, 1] == 6.0


def test_a_daily_pattern_is_forecast_if_that_is_better(backbone: Backbone) -> None:
    tiny = make_backbone(1, edges=3, vias=1)
    rng = np.random.default_rng(2)
    seen = observe_backbone(tiny, [])
    history = {
        pair: {
            END_US - back * 300_000_000: base
            * (1 + 0.5 * np.sin(back / 288 * 6.283))
            * float(np.exp(0.1 * rng.standard_normal()))
            for back in range(5 * 288)
        }
        for pair, values in seen.rtt_ms.items()
        for base in [float(np.median(list(values.values())))]
    }
    found = assemble(replace(seen, rtt_ms=history), Settings())
    assert found.predicted
    assert found.prediction.error < found.prediction.last_error
    assert not found.loss_predicted  # an hour of it is no history


def test_loss_is_forecast_like_round_trips_and_an_end_that_lies_is_not_believed() -> None:
    tiny = make_backbone(1, edges=4, vias=2)
    seen = observe_backbone(tiny, [])
    rng = np.random.default_rng(2)
    history = {
        pair: {
            END_US - back * 300_000_000: max(
                0.0, 0.01 * (1 + np.sin(back / 288 * 6.283)) + 0.004 * rng.standard_normal()
            )
            for back in range(5 * 288)
        }
        for pair in seen.rtt_ms
    }
    found = assemble(replace(seen, loss=history), Settings())
    assert found.loss_predicted
    assert found.loss_prediction.error < found.loss_prediction.last_error
    # The pattern is at 1 % now, and noise is larger than what the forecast is off by.
    assert np.abs(found.network.loss[np.triu_indices(6, 1)] - 0.01).max() < 0.005
    liar = tiny.relays[0].node
    spoiled = observe_backbone(tiny, [], lose=lambda relay, share: 0.9 if relay == liar else share)
    assert (assemble(spoiled, Settings()).network.loss == tiny.loss).all()
    # Without a witness there is nothing better, and what is no share is nothing.
    lone = {pair: values for pair, values in spoiled.loss.items() if pair[0] == liar}
    assert (assemble(replace(seen, loss=lone), Settings()).network.loss[0, 1:] == 0.9).all()
    wild = {pair: dict.fromkeys(values, 7.0) for pair, values in seen.loss.items()}
    assert (assemble(replace(seen, loss=wild), Settings()).network.loss == 0).all()


INDEX = {name: number for number, name in enumerate("oabcdx")}


def hop(relay: str, came: str | None, went: str | None, in_bps: float, out_bps: float) -> HopRow:
    return HopRow(
        relay=relay, track="0a", in_peer=came, out_peer=went, in_bps=in_bps, out_bps=out_bps
    )


def star(*targets: str, viewers: int = 3) -> list[HopRow]:
    return [
        *(hop("o", None, target, 8.0, 8.0) for target in targets),
        *(hop(target, "o", None, 8.0, 8.0 * viewers) for target in targets),
    ]


def track(rows: list[HopRow], excluded: tuple[str, ...] = ()) -> Track:
    (found,), _ = demand_of(rows, INDEX, Dimensions(), excluded)
    return found


def test_honest_relays_are_believed() -> None:
    found, to_clients = demand_of(star("a", "b"), INDEX, Dimensions())
    assert [(item.origin, item.rate_bps, item.viewers) for item in found] == [
        (0, 8.0, {1: 3, 2: 3})
    ]
    assert to_clients == {1: 24.0, 2: 24.0}


def test_of_a_relay_no_more_counts_than_was_sent_to_it() -> None:
    rows = [*star("a"), hop("a", "o", None, 8000.0, 0.0)]
    assert track(rows).rate_bps == 8.0


def test_a_via_that_claims_to_be_the_origin_is_not_while_the_origin_sends_to_it() -> None:
    rows = [
        hop("o", None, "x", 8.0, 8.0),
        hop("o", None, "d", 8.0, 8.0),
        hop("d", "o", None, 8.0, 8.0),
        *(hop("x", None, target, 8.0, 8.0) for target in "abc"),
        *(hop(target, "x", None, 8.0, 8.0) for target in "abc"),
    ]
    assert track(rows).origin == INDEX["o"]
    # If both say that of each other, votes decide.
    assert track([*rows, hop("x", None, "o", 8.0, 8.0)]).origin == INDEX["x"]
    # Who is got from by nobody cannot take it from the origin.
    fake = [*star("a", "b"), hop("x", None, "o", 8.0, 8.0)]
    assert track(fake).origin == INDEX["o"]


def test_an_origin_that_denies_it_is_found_by_the_others() -> None:
    rows = [
        *(hop("o", "d", target, 8.0, 8.0) for target in "abc"),
        *(hop(target, "o", None, 8.0, 8.0) for target in "abc"),
    ]
    assert track(rows).origin == INDEX["o"]


def test_who_is_set_aside_has_what_others_say() -> None:
    rows = [*star("a", "b", "c"), hop("x", None, None, 9e9, 9e9)]
    assert track(rows, ("x",)).viewers == {1: 3, 2: 3, 3: 3}
    # They send it to a, whatever a makes of it: as many viewers as others have.
    loud = [*star("b", "c"), hop("o", None, "a", 8.0, 8.0), hop("a", "o", None, 9e9, 9e12)]
    found = track(loud, ("a",))
    assert (found.rate_bps, found.viewers) == (8.0, {1: 3, 2: 3, 3: 3})
    # Nobody who is believed says anything of the track.
    assert demand_of([hop("x", None, None, 8.0, 8.0)], INDEX, Dimensions(), ("x",)) == ([], {})
    alone = [hop("o", None, "a", 8.0, 8.0), hop("a", "o", None, 8.0, 16.0)]
    assert track(alone, ("a",)).viewers == {1: pytest.approx(2)}
