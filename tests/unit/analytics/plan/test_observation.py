"""What a planner reads of a lake, and that it is not more than it needs; no Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from laps_analytics.errors import GateError, PlanError
from laps_analytics.plan import observation
from laps_analytics.plan.assemble import assemble
from laps_analytics.plan.constraints import Settings
from laps_analytics.plan.core.estimates import DAY
from laps_analytics.plan.observation import (
    Gate,
    Observation,
    gate_of,
    observe,
    require_fresh,
    untrusted_relays,
)
from laps_analytics.synth.backbone import make_backbone
from laps_analytics.synth.dataset import make_demand
from testkit.plan_lake import END_US, make_lake, observe_backbone

WINDOW_US = 300_000_000


def short_backbone(*, edges: int = 7, vias: int = 3) -> Observation:
    backbone = make_backbone(4, edges=edges, vias=vias)
    return observe_backbone(backbone, make_demand(backbone, tracks=4))


def with_history(seen: Observation, windows: int) -> Observation:
    """The same with links that were measured for longer, with busy evenings; one is new."""

    def longer(
        values: dict[tuple[str, str], dict[int, float]],
    ) -> dict[tuple[str, str], dict[int, float]]:
        found = {}
        for number, (pair, known) in enumerate(sorted(values.items())):
            rng = np.random.default_rng(number)  # holes are the same in both tables
            base = next(iter(known.values()))
            count = 3 if not number else windows
            found[pair] = {
                END_US - back * WINDOW_US: base
                * (1.5 + np.sin(2 * np.pi * back / DAY) + 0.05 * float(rng.standard_normal()))
                for back in range(count)
                if rng.random() > 0.02
            }
        return found

    return replace(seen, rtt_ms=longer(seen.rtt_ms), loss=longer(seen.loss))  # type: ignore[arg-type]


def test_a_lake_gives_back_what_was_reported(tmp_path: Path) -> None:
    seen = short_backbone()
    found = observe(make_lake(tmp_path, seen))
    assert found.nodes == sorted(seen.nodes, key=lambda row: row.node)
    assert found.at_us == seen.at_us
    assert found.rtt_ms.keys() == seen.rtt_ms.keys()
    for pair, values in seen.rtt_ms.items():
        assert found.rtt_ms[pair] == pytest.approx(values, abs=1e-3)
        assert found.loss[pair] == pytest.approx(seen.loss[pair])
    assert len(found.hops) == len(seen.hops)
    by_way = {(row.relay, row.track, row.out_peer): row for row in found.hops}
    for row in seen.hops:
        same = by_way[row.relay, row.track, row.out_peer]
        assert (same.in_bps, same.out_bps) == pytest.approx((row.in_bps, row.out_bps), rel=1e-5)


def test_data_is_of_now_or_an_error_says_how_old_it_is() -> None:
    seen = short_backbone()
    minute = 60_000_000
    for apart in (-30, 0, 30):
        require_fresh(seen, now_us=END_US + apart * minute, max_age_us=30 * minute)
    for apart, words in (
        (31, r"18 21:00 UTC, 31 minutes old, and a plan needs data .*`laps-analytics ingest`"),
        (180, "3 hours old, .* --max-age"),
        (3 * 1440, "3 days old"),
        (-31, "31 minutes in the future: correct the clock"),
    ):
        with pytest.raises(GateError, match=words):
            require_fresh(seen, now_us=END_US + apart * minute, max_age_us=30 * minute)


def test_a_long_history_is_not_read_and_plans_do_not_differ(tmp_path: Path) -> None:
    seen = with_history(short_backbone(edges=4, vias=2), 4 * DAY)
    found = observe(make_lake(tmp_path, seen))
    links = len(found.rtt_ms)
    whole = [pair for pair, values in found.rtt_ms.items() if len(values) > 200]
    assert len(whole) == 20 < links
    assert sum(map(len, found.rtt_ms.values())) < 20 * 4 * DAY + links * 120
    exact = {pair: {at: round(v * 1000) / 1000 for at, v in values.items()}
             for pair, values in seen.rtt_ms.items()}  # fmt: skip
    names = [row.node for row in found.nodes]
    ours = assemble(found, Settings())
    theirs = assemble(
        replace(seen, nodes=sorted(seen.nodes, key=lambda row: row.node), rtt_ms=exact), Settings()
    )
    assert ours.predicted
    assert [node.id for node in ours.network.nodes] == names
    assert np.array_equal(ours.network.rtt_ms, theirs.network.rtt_ms)
    assert np.array_equal(ours.network.loss, theirs.network.loss)
    assert (ours.prediction, ours.loss_prediction) == (theirs.prediction, theirs.loss_prediction)


def test_more_ways_than_a_planner_can_hold_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(tmp_path, short_backbone())
    monkeypatch.setattr(observation, "MAX_PATHS", 10)
    with pytest.raises(PlanError, match="a planner can handle 10"):
        observe(lake)


def test_a_few_red_relays_are_doubted_and_more_stop(tmp_path: Path) -> None:
    seen = short_backbone()
    lakes = [make_lake(tmp_path / str(red), seen, red=red) for red in range(3)]
    gates = [gate_of(lake, at_us=END_US) for lake in lakes]
    assert untrusted_relays(gates[0], seen) == frozenset()
    assert untrusted_relays(gates[1], seen) == {seen.nodes[0].node}
    with pytest.raises(GateError, match="telemetry_gap"):
        untrusted_relays(gates[2], seen)
    with pytest.raises(GateError, match="not checked"):
        untrusted_relays(Gate(0, []), seen)
    # Red for a reason that is about nobody.
    with pytest.raises(GateError, match="something"):
        untrusted_relays(Gate(1, ["something"]), seen)
