"""Recipe of each gold table: its inputs, how far back they reach, and its builder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import pairwise
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from laps_analytics.gold.builders import anomaly as anomalies
from laps_analytics.gold.builders import capacity
from laps_analytics.gold.builders.common import Persist, unpersisted
from laps_analytics.gold.builders.network import (
    churn,
    convergence,
    link_quality,
    links_longer,
    loops_or_dups,
    path_stretch,
    topology_snapshot,
)
from laps_analytics.gold.builders.quality import quality
from laps_analytics.gold.builders.traffic import cache_eff, track_fanout, traffic_1m, traffic_longer
from laps_analytics.gold.builders.usage import restated, usage_tenant
from laps_analytics.gold.builders.viewers import blame, qoe_longer, qoe_region
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Lookback, Silver
from laps_analytics.schema import event_types

__all__ = ["ORDER", "RECIPES", "BuildContext", "Recipe"]


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Inputs that a recipe can use."""

    spark: SparkSession
    silver: Silver
    dimensions: Dimensions
    now_us: int
    gold: Callable[[str, Iterable[str]], DataFrame]
    """Returns some days of a gold table that was built before."""
    paths: Callable[[Sequence[str]], DataFrame]
    """Returns the traffic by path in five minutes of some days, computed once for a build."""
    persist: Persist = unpersisted
    quarantine: DataFrame | None = None
    """Lines that could not be read."""
    unfit: DataFrame | None = None
    """Events that could not be used."""
    clocks: DataFrame | None = None
    """Relays that ever wrote telemetry."""


Make: TypeAlias = Callable[[BuildContext, Sequence[str]], DataFrame]
_Longer: TypeAlias = Callable[[BuildContext, DataFrame, str], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a table is built."""

    make: Make
    silver: Mapping[str, Lookback] = field(default_factory=dict)
    """Event types to how far back they are read."""
    gold: Mapping[str, int] = field(default_factory=dict)
    """Lower gold tables to the number of days that are read, the day itself included."""
    uses_dimensions: bool = False
    adds: bool = False
    """Whether rows are added, and none replaced."""
    refused: bool = False
    """Whether it also reads the quarantine tables."""
    edition: int = 1
    """Increased when the content of the table changes, so that all days are stale."""


def _simple(
    make: Callable[[Silver, Sequence[str]], DataFrame], *kinds: str, back: Lookback = "none"
) -> Recipe:
    return Recipe(
        make=lambda context, days: make(context.silver, days), silver=dict.fromkeys(kinds, back)
    )


def _with_dimensions(
    make: Callable[[Silver, Sequence[str], Dimensions], DataFrame], **silver: Lookback
) -> Recipe:
    return Recipe(
        make=lambda context, days: make(context.silver, days, context.dimensions),
        silver={kind.replace("_", "."): back for kind, back in silver.items()},
        uses_dimensions=True,
    )


def _reaching_back(days: Sequence[str], count: int) -> list[str]:
    """Return some days with the days before each, ``count`` in all for each."""
    found = {
        str(date.fromisoformat(day) - timedelta(days=step)) for day in days for step in range(count)
    }
    return sorted(found)


def _capacity(context: BuildContext, days: Sequence[str]) -> DataFrame:
    minutes = context.gold("traffic_1m", _reaching_back(days, capacity.HISTORY))
    return capacity.capacity_fc(context.spark, minutes, days, context.dimensions)


def _anomaly(context: BuildContext, days: Sequence[str]) -> DataFrame:
    history = _reaching_back(days, anomalies.BEFORE + 1)
    return anomalies.anomaly(lambda name: context.gold(name, history), days, context.persist)


def _usage(context: BuildContext, days: Sequence[str]) -> DataFrame:
    now = usage_tenant(
        context.silver, days, context.dimensions, now_us=context.now_us, paths=context.paths(days)
    )
    before = context.gold("usage_tenant_day", days)
    return restated(now, before, now_us=context.now_us)


def _quality(context: BuildContext, days: Sequence[str]) -> DataFrame:
    return quality(
        context.silver,
        days,
        context.quarantine,
        unfit=context.unfit,
        clocks=context.clocks,
        persist=context.persist,
    )


def _qoe(context: BuildContext, lower: DataFrame, name: str) -> DataFrame:
    return qoe_longer(lower, name, context.dimensions)


def _plain(make: Callable[[DataFrame, str], DataFrame]) -> _Longer:
    return lambda _, lower, name: make(lower, name)


def _longer(make: _Longer, *names: str, uses_dimensions: bool = False) -> dict[str, Recipe]:
    """Return recipes of tables with longer windows, each built from the one before."""

    def recipe(lower: str, name: str) -> Recipe:
        return Recipe(
            make=lambda context, days: make(context, context.gold(lower, days), name),
            gold={lower: 1},
            uses_dimensions=uses_dimensions,
        )

    return {name: recipe(lower, name) for lower, name in pairwise(names)}


_WATCHED: Final = {metric.table: anomalies.BEFORE + 1 for metric in anomalies.METRICS}

RECIPES: Final[Mapping[str, Recipe]] = {
    "traffic_1m": _with_dimensions(traffic_1m, hop_stat="none"),
    **_longer(_plain(traffic_longer), "traffic_1m", "traffic_1h", "traffic_1d"),
    "topology_snapshot": Recipe(
        make=lambda context, days: topology_snapshot(context.silver, days, persist=context.persist),
        silver={
            "node.adv": "all",
            "node.wd": "all",
            "quic.sample": "hour",
            "session.open": "hour",
            "session.close": "hour",
        },
        edition=3,
    ),
    "link_quality_5m": Recipe(
        make=lambda context, days: link_quality(context.silver, days, context.paths(days)),
        silver={"quic.sample": "hour", "hop.stat": "none"},
    ),
    **_longer(_plain(links_longer), "link_quality_5m", "link_quality_1h", "link_quality_1d"),
    "track_fanout_5m": Recipe(
        make=lambda context, days: track_fanout(
            context.silver, days, context.dimensions, context.paths(days)
        ),
        silver=dict.fromkeys(("hop.stat", "quic.sample", "node.adv"), "none"),
        uses_dimensions=True,
    ),
    "path_stretch": Recipe(
        make=lambda context, days: path_stretch(context.silver, days, persist=context.persist),
        silver=dict.fromkeys(("node.adv", "quic.sample"), "none"),
    ),
    "qoe_region_1m": replace(_with_dimensions(qoe_region, client_report="none"), edition=2),
    **_longer(_qoe, "qoe_region_1m", "qoe_region_1h", "qoe_region_1d", uses_dimensions=True),
    "blame": Recipe(
        make=lambda context, days: blame(
            context.silver, days, context.dimensions, persist=context.persist
        ),
        silver={"delivery.sample": "hour", "client.report": "none"},
        uses_dimensions=True,
        edition=2,
    ),
    "churn_1h": _simple(churn, "sub.adv", "sub.wd", back="hour"),
    "cache_eff_1h": _simple(cache_eff, "cache.stat"),
    "capacity_fc": Recipe(
        make=_capacity, gold={"traffic_1m": capacity.HISTORY}, uses_dimensions=True
    ),
    "usage_tenant_day": Recipe(
        make=_usage,
        silver={"hop.stat": "none", "client.report": "none"},
        uses_dimensions=True,
        adds=True,
    ),
    "anomaly": Recipe(make=_anomaly, gold=_WATCHED),
    "convergence": _simple(
        convergence, "node.wd", "session.close", "route.change", "sns.adv", "client.report"
    ),
    "loops_or_dups": _simple(loops_or_dups, "delivery.sample"),
    "quality_1h": Recipe(
        make=_quality,
        silver=dict.fromkeys(event_types(), "hour"),
        refused=True,
        edition=3,
    ),
}
"""Table to recipe."""

ORDER: Final = tuple(RECIPES)
"""Tables in build order: each comes after the tables it reads."""
