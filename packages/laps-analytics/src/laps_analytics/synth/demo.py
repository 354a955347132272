"""Run the whole pipeline once: telemetry, tables, report, plan, and the effect of the plan.

::

    seed -> dataset -> telemetry -> ingest -> gold -> report
                                                |
                                                plan -> same dataset, next day, with the plan
                                                          -> telemetry -> ingest -> gold -> gain

:class:`Gain` compares two time spans by the same gold tables.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd
from pyspark.sql import SparkSession

from laps_analytics.errors import OutputError, PlanError
from laps_analytics.gold.build import build
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.ingest.run import ingest
from laps_analytics.lake import Lake
from laps_analytics.plan.assemble import assemble
from laps_analytics.plan.constraints import Settings
from laps_analytics.plan.core.compose import compose_plan
from laps_analytics.plan.core.verify import verify
from laps_analytics.plan.effect import Window, history_of, matched
from laps_analytics.plan.observation import gate_of, observe, require_fresh, untrusted_relays
from laps_analytics.plan.signing import make_key, public_pem, read_key, sign, write_plan
from laps_analytics.plan.simulation import SimulationResult, simulate_plan, simulator
from laps_analytics.report.build import Report, export_csv, export_json, make_report, write_page
from laps_analytics.report.gold import Gold, quantiles, read_gold
from laps_analytics.report.plans import PlanHistory
from laps_analytics.synth.dataset import END_US, FULL, Dataset, Size, Track, Tree, make_config
from laps_analytics.synth.planning import settings_of
from laps_analytics.synth.telemetry import write_after, write_present
from laps_wire.plan import Plan

__all__ = ["STEPS", "Demo", "Gain", "PlannedRouting", "measure_gain", "run_demo"]

# Gain

_WINDOW_US: Final = 300_000_000


@dataclass(frozen=True, slots=True)
class Gain:
    """A figure before and after the plan; less is better."""

    what: str
    before: float
    after: float
    unit: str
    verdict: str = ""
    """better, worse or unclear; empty if windows could not be matched."""

    @property
    def change(self) -> float | None:
        """Change as a share of the value before; None if that is 0."""
        return (self.after - self.before) / self.before if self.before else None


def measure_gain(gold: Gold, before_us: tuple[int, int], after_us: tuple[int, int]) -> list[Gain]:
    """Return the figures of both spans; a figure without rows in one span is left out."""
    found: list[Gain] = []
    for what, unit, table, figure, by_window in _FIGURES:
        parts = [_within(gold[table], span) for span in (before_us, after_us)]
        values = [None if part.empty else figure(part) for part in parts]
        if values[0] is None or values[1] is None:
            continue
        verdict = ""
        if by_window:
            series = [_windows(part, figure) for part in parts]
            # Unlike a real one, this world draws each window anew, so that each is a witness.
            verdict = matched(series[0], series[1], block_us=_WINDOW_US, run=1).word
        found.append(Gain(what, values[0], values[1], unit, verdict))
    return found


def _within(frame: pd.DataFrame, span_us: tuple[int, int]) -> pd.DataFrame:
    first, last = (pd.Timestamp(at, unit="us", tz="UTC") for at in span_us)
    return frame[(frame["window_start"] >= first) & (frame["window_start"] < last)]


def _windows(frame: pd.DataFrame, figure: Callable[[pd.DataFrame], float | None]) -> list[Window]:
    found = []
    for at, part in frame.groupby(frame["window_start"].dt.floor("5min")):
        value = figure(part)
        if value is not None:
            column = "track_bytes" if "track_bytes" in part else "reports"
            demand = float(part[column].sum())
            found.append(Window(int(at.value // 1000), demand, value))
    return found


def _duplication(frame: pd.DataFrame) -> float | None:
    ideal = float(frame["ideal_wan_bytes"].sum())
    wan = float(frame["wan_bytes"].sum())
    return wan / ideal if ideal else None


def _wan_rate(frame: pd.DataFrame) -> float | None:
    seconds = 300.0 * int(frame["window_start"].nunique())
    return float(frame["wan_bytes"].sum()) * 8 / seconds / 1e6


def _stress(frame: pd.DataFrame) -> float | None:
    known = frame["stress_max"].dropna()
    return float(known.max()) if len(known) else None


def _latency(share: float, service: str) -> Callable[[pd.DataFrame], float | None]:
    def figure(frame: pd.DataFrame) -> float | None:
        part = frame[frame["class"] == service]
        found = quantiles([bytes(item) for item in part["latency_kll"].dropna()], (share,))
        return None if found is None else found[0]

    return figure


def _over(frame: pd.DataFrame) -> float | None:
    reports = float(frame["reports"].sum())
    over = float(frame["over_limit"].sum())
    return over / reports * 100 if reports else None


_FIGURES = (
    ("WAN bytes by what a copy for each region needs", "times", "track_fanout_5m",
     _duplication, True),
    ("WAN rate", "Mbit/s", "track_fanout_5m", _wan_rate, True),
    ("most copies of a track between two regions", "copies", "track_fanout_5m", _stress, False),
    ("latency of gold, median", "ms", "qoe_region_1m", _latency(0.5, "gold"), True),
    ("latency of gold, 95th percentile", "ms", "qoe_region_1m", _latency(0.95, "gold"), True),
    ("latency of silver, 95th percentile", "ms", "qoe_region_1m", _latency(0.95, "silver"), True),
    ("reports over the limit of their class", "%", "qoe_region_1m", _over, True),
)  # fmt: skip


# Demo

STEPS: Final = 8
_MINUTE_US: Final = 60_000_000
_DAY_US: Final = 86_400_000_000

StepProgress = Callable[[int, str], None]
"""Called with the number of a step and its description."""


@dataclass(frozen=True, slots=True)
class Demo:
    """Result of the demo."""

    folder: Path
    seed: int
    relays: int
    tracks: int
    lines: int
    report: Report
    plan: Plan
    gains: list[Gain]
    seconds: dict[str, float]
    """Step to its duration."""
    simulated: str = ""
    """Result of the relay simulator."""


def run_demo(
    folder: Path,
    spark: Callable[[], SparkSession],
    *,
    seed: int = 7,
    size: Size = FULL,
    progress: StepProgress | None = None,
) -> Demo:
    """Run the demo in an empty folder; raise :class:`OutputError` if it is not empty."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file: name a new folder")
    if folder.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder} is not empty: name a new folder")
    steps = _Steps(progress)

    steps.begin("world", f"A world from seed {seed}: places, relays, viewers, and their telemetry")
    config = make_config(seed, size)
    present = write_present(config, folder / "before")

    steps.begin("spark", "Spark starts")
    session = spark()

    steps.begin("ingest", f"{present.lines:,} lines into bronze and silver; one file comes late")
    lake = Lake.open(folder / "lake", create=True)
    ingest(lambda: session, lake, [present.telemetry], now_us=END_US + _MINUTE_US)
    ingest(lambda: session, lake, [present.late], now_us=END_US + 60 * _MINUTE_US)

    steps.begin("gold", "Gold tables: what was asked of silver once and for all")
    dimensions = Dimensions.read(present.dimensions)
    build(session, lake, dimensions=dimensions, now_us=END_US + 60 * _MINUTE_US)

    steps.begin("report", "The report of the network as it is")
    report = make_report(read_gold(lake), title=f"A synthetic world, seed {seed}")
    write_page(report, folder / "report.html")
    export_csv(report, folder / "numbers")
    export_json(report, folder / "numbers")

    steps.begin("plan", "A plan: which Via for which track towards which region")
    plan, simulated = _plan(lake, folder, dimensions, seed, settings_of(config.backbone))

    steps.begin("after", "The next day, with the plan: telemetry, ingest, gold")
    routing = PlannedRouting(plan, config.dataset)
    after = write_after(config, routing, folder / "after", plan=(plan.id, plan.version))
    moment = END_US + _DAY_US
    ingest(lambda: session, lake, [after.telemetry], now_us=moment)
    build(session, lake, dimensions=dimensions, now_us=moment, tables=size.after_tables)

    steps.begin("gain", "What the plan gained")
    gold = read_gold(lake)
    with_plan = make_report(
        gold,
        title=f"A synthetic world, seed {seed}, with the plan",
        plan=plan,
        history=PlanHistory(**history_of(lake, gold.span_us())),
    )
    write_page(with_plan, folder / "report-after.html")
    begin, end = config.quiet()
    gains = measure_gain(gold, (begin, end), (begin + _DAY_US, end + _DAY_US))
    (folder / "gain.csv").write_text(gains_csv(gains), encoding="utf-8")
    steps.end()
    return Demo(
        folder,
        seed,
        len(config.dataset.relays),
        len(config.dataset.tracks),
        present.lines + after.lines,
        report,
        plan,
        gains,
        steps.seconds,
        simulated.summary,
    )


def _plan(
    lake: Lake, folder: Path, dimensions: Dimensions, seed: int, settings: Settings
) -> tuple[Plan, SimulationResult]:
    """Make a plan from the last hour, and sign it with a new key."""
    observed = observe(lake, minutes=60)
    require_fresh(observed, now_us=END_US, max_age_us=30 * _MINUTE_US)
    excluded = untrusted_relays(gate_of(lake, at_us=observed.at_us), observed)
    known = assemble(observed, settings, dimensions, excluded=excluded)
    made = compose_plan(
        known.network,
        settings.policy,
        known.tracks,
        name=f"demo-{seed}",
        version=1,
        now_us=END_US,
        lifetime_us=7 * _DAY_US,
    )
    faults = verify(made.plan, known.network, known.tracks)
    if faults:
        raise PlanError(
            f"the verifier found {len(faults)} violations in the plan of the demo, the first:"
            f" {faults[0].constraint} at {faults[0].where}: {faults[0].text}"
        )
    make_key(folder / "plan-key.pem")
    key = read_key(folder / "plan-key.pem")
    signed = sign(made.plan, key)
    simulated = simulate_plan(
        simulator(), signed, public_pem(key), known.network, made.draft.groups
    )
    simulated.require()
    write_plan(signed, folder / "plan.json")
    return made.plan, simulated


def gains_csv(gains: list[Gain]) -> str:
    """Return the gains as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["figure", "before", "after", "change", "unit", "matched_windows"])
    for gain in gains:
        change = "" if gain.change is None else f"{gain.change:.4f}"
        row = [gain.what, f"{gain.before:.4f}", f"{gain.after:.4f}", change]
        writer.writerow([*row, gain.unit, gain.verdict])
    return out.getvalue()


class _Steps:
    """Reports the steps and measures their duration."""

    def __init__(self, progress: StepProgress | None) -> None:
        self._progress = progress
        self._name = ""
        self._since = 0.0
        self.seconds: dict[str, float] = {}

    def begin(self, name: str, text: str) -> None:
        self.end()
        self._name, self._since = name, time.monotonic()
        if self._progress is not None:
            self._progress(len(self.seconds) + 1, text)

    def end(self) -> None:
        if self._name:
            self.seconds[self._name] = time.monotonic() - self._since
            self._name = ""


class PlannedRouting:
    """Routing by a plan, as relays do that follow it.

    An entry names the Via of the copies of a track towards a region. Copies without an entry, and
    those within the region of the origin, go directly.
    """

    def __init__(self, plan: Plan, dataset: Dataset) -> None:
        self._dataset = dataset
        self._by_track: dict[tuple[str, str, int], str] = {}
        self._by_class: dict[tuple[str, str, str], str] = {}
        for entry in plan.entries:
            origin, via = str(entry.origin), str(entry.via)
            if entry.tracks is None:
                self._by_class[origin, entry.region, entry.scope] = via
            for key in entry.tracks or ():
                self._by_track[origin, entry.region, key] = via

    def via(self, track: Track, region: str) -> str | None:
        """Return the Via of a track towards a region; None without an entry."""
        of_class = self._by_class.get((track.origin, region, track.qos))
        return self._by_track.get((track.origin, region, int(track.track, 16)), of_class)

    def tree(self, track: Track, targets: frozenset[str]) -> Tree:
        """Return a tree from the origin over Vias to the relays of their regions."""
        parent: dict[str, str] = {}
        for target in sorted(targets):
            via = self.via(track, self._dataset.by_node[target].region)
            direct = via is None or via in {target, track.origin}
            parent[target] = track.origin if via is None or direct else via
            if via is not None and not direct:
                parent.setdefault(via, track.origin)
        # A Via that has viewers itself hangs on the origin: no way goes round.
        for via in set(parent.values()) & parent.keys():
            parent[via] = track.origin
        return Tree(track.origin, parent)
