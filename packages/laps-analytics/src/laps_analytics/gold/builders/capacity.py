"""The table ``capacity_fc``: a linear forecast of daily peaks, with an interval.

The busiest five minutes of each day are few numbers, so the driver fits them. It uses least
squares, with an offset for each weekday from two weeks on. The interval is a prediction interval
(Student's t) and widens with the distance. With fewer than three days it is null, and the forecast
is their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import FIVE_MINUTES, five_minutes
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.tables import GOLD

__all__ = ["AHEAD", "HISTORY", "Forecast", "capacity_fc", "forecast", "peaks"]

AHEAD: Final = 14
"""Number of forecast days."""
HISTORY: Final = 28
"""Days that a forecast uses, the last one included."""
_FULL: Final = 0.8
"""Share of the capacity that counts as full."""
_WEEKS: Final = 14

_T90: Final = (
    *(3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372),
    *(1.363, 1.356, 1.350, 1.345, 1.341, 1.337, 1.333, 1.330, 1.328, 1.325),
    *(1.323, 1.321, 1.319, 1.318, 1.316, 1.315, 1.314, 1.313, 1.311, 1.310),
)
"""90th percentile of Student's t for 1 to 30 degrees of freedom. It gives an 80 % interval."""


class Forecast(NamedTuple):
    """Forecast of a day."""

    peak: float
    low: float | None
    high: float | None


def peaks(minutes: DataFrame) -> DataFrame:
    """Return the busiest five minutes of each day in bits a second, for links and relays."""
    windows = minutes.groupBy(
        "dt", "relay", F.col("out_peer").alias("peer"), five_minutes("window_start").alias("at")
    ).agg(F.sum("out_bytes").alias("bytes"))
    links = windows.where("peer <> ''").withColumn("kind", F.lit("link"))
    relays = (
        windows.groupBy("dt", "relay", "at")
        .agg(F.sum("bytes").alias("bytes"))
        .select("dt", "relay", F.lit("").alias("peer"), "at", "bytes", F.lit("relay").alias("kind"))
    )
    return (
        links.select("dt", "relay", "peer", "at", "bytes", "kind")
        .unionByName(relays)
        .groupBy("dt", "kind", "relay", "peer")
        .agg((F.max("bytes") * 8 / F.lit(float(FIVE_MINUTES))).alias("peak_bps"))
    )


def forecast(
    days: Sequence[date], seen: Sequence[float], last: date, ahead: int = AHEAD
) -> list[Forecast]:
    """Return the peaks of the days after ``last``, forecast from the peaks up to it."""
    future = [last + timedelta(days=step) for step in range(1, ahead + 1)]
    count = len(days)
    if count < 3:
        level = float(np.mean(seen))
        return [Forecast(level, None, None) for _ in future]
    x = np.array([(day - last).days for day in days], dtype=float)
    y = np.array(seen, dtype=float)
    slope, level = (float(value) for value in np.polyfit(x, y, 1))
    rest = y - (level + slope * x)
    offsets = _weekdays(days, rest) if count >= _WEEKS else {}
    rest = rest - np.array([offsets.get(day.weekday(), 0.0) for day in days])
    freedom = max(count - 2 - max(len(offsets) - 1, 0), 1)
    spread = float(np.sqrt(np.sum(rest**2) / freedom))
    middle, width = float(x.mean()), float(np.sum((x - x.mean()) ** 2))
    times = _T90[min(freedom, len(_T90)) - 1]
    found = []
    for step, day in enumerate(future, 1):
        peak = level + slope * step + offsets.get(day.weekday(), 0.0)
        reach = times * spread * float(np.sqrt(1 + 1 / count + (step - middle) ** 2 / width))
        found.append(Forecast(max(peak, 0.0), max(peak - reach, 0.0), max(peak + reach, 0.0)))
    return found


def _weekdays(days: Sequence[date], rest: np.ndarray[Any, Any]) -> dict[int, float]:
    by_day: dict[int, list[float]] = {}
    for day, value in zip(days, rest, strict=True):
        by_day.setdefault(day.weekday(), []).append(float(value))
    return {weekday: float(np.mean(values)) for weekday, values in by_day.items()}


def capacity_fc(
    spark: SparkSession, minutes: DataFrame, days: Iterable[str], dimensions: Dimensions
) -> DataFrame:
    """Build ``capacity_fc``; ``minutes`` is ``traffic_1m`` of the days and the 27 before each."""
    history: dict[tuple[str, str, str], dict[date, float]] = {}
    for row in peaks(minutes).collect():
        subject = (row["kind"], row["relay"], row["peer"])
        history.setdefault(subject, {})[date.fromisoformat(row["dt"])] = row["peak_bps"]
    rows: list[tuple[Any, ...]] = []
    for last in map(date.fromisoformat, sorted(days)):
        for (kind, relay, peer), known in sorted(history.items()):
            window = sorted(day for day in known if 0 <= (last - day).days < HISTORY)
            if not window:
                continue
            capacity = dimensions.links.get((relay, peer)) if peer else dimensions.relays.get(relay)
            found = forecast(window, [known[day] for day in window], last)
            full = [
                step
                for step, item in enumerate(found, 1)
                if capacity is not None and item.peak >= _FULL * capacity
            ]
            rows += [
                (
                    *(str(last), kind, relay, peer, last + timedelta(days=step)),
                    *(item.peak, item.low, item.high, capacity),
                    full[0] if full else None,
                )
                for step, item in enumerate(found, 1)
            ]
    return spark.createDataFrame(rows, GOLD["capacity_fc"].schema())
