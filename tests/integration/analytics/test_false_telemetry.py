"""One relay lies in a hundredth of the lines that plans read: the plan is nearly as good.

From raw lines through ingest, silver, gold, the quality gate, prediction and planning; and a plan
is judged in the world as it is, not by the tables that were lied to.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.analytics.false_telemetry import (
    Case,
    Datasets,
    make_datasets,
    plan_of,
    settings_for,
    trusting,
    worth,
)
from laps_analytics.plan import assemble as assemble_module
from laps_analytics.plan.assemble import Assembled, assemble
from laps_analytics.plan.observation import untrusted_relays

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

VIA = ("far", "bytes", "gossip", "tracks")
EDGE = ("far", "crowd", "tracks", "gossip", "suffer")
ORIGIN = ("far", "crowd", "bytes", "tracks", "gossip", "forged", "suffer")
SEEDS = (1, 2, 3, 7)


class Judge:
    """Plans of the worlds of a lake, by what an honest one costs in the same world."""

    def __init__(self, datasets: Datasets) -> None:
        self.datasets = datasets
        self._honest: dict[int, tuple[Assembled, float]] = {}

    def honest(self, seed: int) -> tuple[Assembled, float]:
        if seed not in self._honest:
            found = self.believed(Case(seed))
            config = self.datasets.settings[seed]
            self._honest[seed] = found, worth(config, plan_of(found), found.network)
        return self._honest[seed]

    def believed(self, case: Case) -> Assembled:
        """As the planner does it, the gate included."""
        seen = self.datasets.observed(case)
        excluded = untrusted_relays(self.datasets.gate(case), seen)
        facts = self.datasets.facts(case)
        return assemble(
            seen, settings_for(self.datasets.settings[case.seed]), facts, excluded=excluded
        )

    def ratio(self, case: Case, found: Assembled) -> float:
        """What its plan costs in the true world, by what the plan from honest lines does."""
        base, cost = self.honest(case.seed)
        return worth(self.datasets.settings[case.seed], plan_of(found), base.network) / cost

    def without_plan(self, seed: int) -> float:
        base, cost = self.honest(seed)
        return worth(self.datasets.settings[seed], None, base.network) / cost

    def trusting(self, case: Case) -> float:
        """The same without the defence: plain means, no cap, and the gate switched off."""
        seen, config = self.datasets.observed(case), self.datasets.settings[case.seed]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(assemble_module, "_MAX_VIEWERS_RATIO", 1e18)
            found = assemble(trusting(seen), settings_for(config), self.datasets.facts(case))
        return self.ratio(case, found)


@pytest.mark.long
def test_a_lying_via_in_raw_lines(spark: SparkSession, tmp_path: Path) -> None:
    case = Case(7, "via", VIA)
    judge = Judge(make_datasets(spark, tmp_path, [Case(7), case]))
    assert 0.009 < judge.datasets.share[case] <= 0.01
    assert judge.honest(7)[0].excluded == ()
    assert judge.datasets.gate(Case(7)).open
    assert judge.without_plan(7) > 1.1  # else there is nothing to lose
    found = judge.believed(case)
    assert found.excluded == (judge.datasets.liars[case],)
    assert judge.ratio(case, found) <= 1.05
    assert judge.trusting(case) > 1.05


@pytest.mark.long
def test_lying_relays_over_seeds(spark: SparkSession, tmp_path: Path) -> None:
    """What was seen is written down, for the page about planning."""
    lies = (("via", VIA), ("edge", EDGE), ("origin", ORIGIN))
    cases = [Case(seed, role, kinds) for seed in SEEDS for role, kinds in lies]
    judge = Judge(make_datasets(spark, tmp_path, [*(Case(seed) for seed in SEEDS), *cases]))
    rows = []
    for case in cases:
        found = judge.believed(case)
        assert set(found.excluded) <= {judge.datasets.liars[case]}
        ratio, naive = judge.ratio(case, found), judge.trusting(case)
        rows.append((case, ratio, naive))
        figures = ratio, naive, judge.without_plan(case.seed), judge.datasets.share[case]
        with (tmp_path / "figures.txt").open("a", encoding="ascii") as out:
            shown = " ".join(f"{value:.4f}" for value in figures)
            out.write(f"{case.seed} {case.role} {found.excluded} {shown}\n")
    assert [row for row in rows if row[1] > 1.05] == []
    assert sum(naive > 1.05 for _, _, naive in rows) >= len(SEEDS)
