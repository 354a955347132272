"""The clock of each relay in each hour: ``silver/clock``.

Only the events stamped in an hour decide about its clocks. So the same events give the same clocks,
in any order and any number of batches.

A clock is broken, and silver drops the events of that hour, in four cases:

- it shows a year before 2020, as after a start without a battery;
- it was ahead of the local clock by more than :data:`LIMIT_US` when the file was read;
- it differs from its peers by more than that;
- the relay and its peers stamped objects of the same link, and no object has both stamps, although
  other relays have such pairs.

:func:`solve` estimates clock errors from objects that two relays stamped. An object leaves A at
``out`` by A's clock and reaches B at ``in`` by B's clock. With the clock errors ``e`` and the delay
``d``:

::

    A -> B    in - out = e(B) - e(A) + d        the least of many: d without queues
    B -> A    in - out = e(A) - e(B) + d

Half the difference of both is ``e(B) - e(A)``, as in NTP. If objects travel in one direction only,
half of the least round trip time replaces ``d``. The errors are the least-squares solution over all
links. The median clock of each connected component counts as right, so one broken clock does not
move the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

__all__ = [
    "LIMIT_US",
    "OLDEST_US",
    "ONE_WAY_WEIGHT",
    "Link",
    "Offset",
    "clock_rows",
    "link_rows",
    "relay_rows",
    "solve",
]

# Clock errors from stamped objects

ONE_WAY_WEIGHT: Final = 0.25
"""Weight of a link with one direction, whose delay is half a round trip."""


@dataclass(frozen=True, slots=True)
class Link:
    """Measurements of one direction between two relays."""

    sender: str
    receiver: str
    least_us: int
    """Least value of ``in - out``."""
    pairs: int
    rtt_us: int | None = None
    """Least round trip time that one of the relays reported."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Clock error of a relay, and the number of pairs it is estimated from."""

    offset_us: int
    pairs: int


def solve(links: Iterable[Link]) -> dict[str, Offset]:
    """Return the error of each clock that has a usable link."""
    ways = {(link.sender, link.receiver): link for link in links}
    pairs: dict[str, int] = {}
    edges: list[tuple[str, str, float, float]] = []
    for (a, b), there in sorted(ways.items()):
        back = ways.get((b, a))
        if back is not None:
            if a < b:
                edges.append((a, b, (there.least_us - back.least_us) / 2, 1.0))
        elif there.rtt_us is not None:
            edges.append((a, b, there.least_us - there.rtt_us / 2, ONE_WAY_WEIGHT))
        else:
            continue
        for relay in (a, b):
            pairs[relay] = pairs.get(relay, 0) + there.pairs
    found: dict[str, Offset] = {}
    for part in _parts(edges):
        errors = _least_squares(part, edges)
        middle = median(errors.values())
        for relay, error in errors.items():
            found[relay] = Offset(round(error - middle), pairs[relay])
    return found


def _parts(edges: list[tuple[str, str, float, float]]) -> list[list[str]]:
    """Return the relays of each connected component."""
    root: dict[str, str] = {}

    def find(relay: str) -> str:
        while root.setdefault(relay, relay) != relay:
            relay = root[relay]
        return relay

    for a, b, _, _ in edges:
        root[find(a)] = find(b)
    parts: dict[str, list[str]] = {}
    for relay in sorted(root):
        parts.setdefault(find(relay), []).append(relay)
    return list(parts.values())


def _least_squares(
    part: list[str], edges: list[tuple[str, str, float, float]]
) -> Mapping[str, float]:
    """Return the errors that fit the differences best, relative to the first relay."""
    place = {relay: index for index, relay in enumerate(part)}
    matrix = np.zeros((len(part), len(part)))
    right = np.zeros(len(part))
    for a, b, difference, weight in edges:
        if a not in place:
            continue
        i, j = place[a], place[b]
        matrix[i, i] += weight
        matrix[j, j] += weight
        matrix[i, j] -= weight
        matrix[j, i] -= weight
        right[i] -= weight * difference
        right[j] += weight * difference
    # The matrix is singular (all errors may grow together): pin the first relay.
    errors = np.zeros(len(part))
    if len(part) > 1:
        errors[1:] = np.linalg.solve(matrix[1:, 1:], right[1:])
    return {relay: float(errors[index]) for relay, index in place.items()}


# Clocks of an hour

LIMIT_US: Final = 1_000_000_000
"""Largest clock error, 1000 s; NTP gives up at the same value."""
OLDEST_US: Final = 1_577_836_800_000_000
"""Start of 2020."""
_FEW: Final = 20
"""Least number of stamps for the check that some of them have a partner."""
_DAY_US: Final = 86_400_000_000


def relay_rows(bronze: DataFrame) -> DataFrame:
    """Return one row for each relay and hour: number of events, first and last time."""
    return bronze.groupBy("dt", "hour", "relay").agg(
        fn.count("*").alias("events"),
        fn.min("ts_us").alias("first_us"),
        fn.max("ts_us").alias("last_us"),
        fn.min("batch").alias("first_batch"),
        fn.max(fn.col("ts_us") - fn.col("seen_us")).alias("ahead_us"),
    )


def link_rows(samples: DataFrame, quic: DataFrame) -> DataFrame:
    """Return one row for each direction of a link and hour: stamps of both ends, and pairs.

    ``samples`` and ``quic`` are bronze rows of delivery.sample and quic.sample.
    """

    def field(name: str, kind: str) -> Any:
        return fn.try_variant_get("body", f"$.{name}", kind).alias(name)

    stamps = samples.select(
        *("dt", "hour", "relay"),
        *(field(name, "string") for name in ("track", "in_peer", "out_peer")),
        *(field(name, "bigint") for name in ("group_id", "object_id", "in_us", "out_us")),
    )
    key = ["dt", "hour", "sender", "receiver", "track", "group_id", "object_id"]
    sent = (
        stamps.where("out_peer is not null")
        .withColumnsRenamed({"relay": "sender", "out_peer": "receiver"})
        .groupBy(*key)
        .agg(fn.min("out_us").alias("out_us"))
    )
    came = (
        stamps.where("in_peer is not null")
        .withColumnsRenamed({"relay": "receiver", "in_peer": "sender"})
        .groupBy(*key)
        .agg(fn.min("in_us").alias("in_us"))
    )
    took = fn.col("in_us") - fn.col("out_us")
    both = (
        sent.join(came, key, "full_outer")
        .withColumn("took", fn.when(fn.abs(took) <= _DAY_US, took))
        .groupBy("dt", "hour", "sender", "receiver")
        .agg(
            fn.count("out_us").alias("sent"),
            fn.count("in_us").alias("came"),
            fn.count("took").alias("pairs"),
            # Not the very least: one wrong stamp must not decide.
            fn.expr("percentile_approx(took, 0.05, 200)").alias("least_us"),
        )
    )
    rtt = quic.select("dt", "hour", "relay", field("peer", "string"), field("min_rtt_us", "bigint"))
    ends = rtt.where("peer is not null").select(
        "dt",
        "hour",
        fn.least("relay", "peer").alias("low"),
        fn.greatest("relay", "peer").alias("high"),
        "min_rtt_us",
    )
    least = ends.groupBy("dt", "hour", "low", "high").agg(fn.min("min_rtt_us").alias("rtt_us"))
    return (
        both.withColumn("low", fn.least("sender", "receiver"))
        .withColumn("high", fn.greatest("sender", "receiver"))
        .join(fn.broadcast(least), ["dt", "hour", "low", "high"], "left")
        .drop("low", "high")
    )


def clock_rows(
    relays: Iterable[Mapping[str, Any]], links: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows of ``silver/clock``. They are few, so no Spark job computes them."""
    by_hour: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for link in links:
        by_hour[link["dt"], link["hour"]].append(link)
    solved = {
        hour: solve(
            Link(link["sender"], link["receiver"], link["least_us"], link["pairs"], link["rtt_us"])
            for link in rows
            if link["pairs"]
        )
        for hour, rows in by_hour.items()
    }
    unpaired = {hour: _unpaired_relays(rows) for hour, rows in by_hour.items()}
    out = []
    for row in relays:
        hour = (row["dt"], row["hour"])
        offset = solved.get(hour, {}).get(row["relay"], Offset(0, 0))
        reason = _reason(row, offset, row["relay"] in unpaired.get(hour, ()))
        out.append(
            {
                "relay": row["relay"],
                "offset_us": offset.offset_us,
                "pairs": offset.pairs,
                "ok": reason is None,
                "reason": reason,
                "events": row["events"],
                "first_us": row["first_us"],
                "last_us": row["last_us"],
                "first_batch": row["first_batch"],
                "dt": row["dt"],
                "hour": row["hour"],
            }
        )
    return sorted(out, key=lambda item: (item["dt"], item["hour"], item["relay"]))


def _reason(row: Mapping[str, Any], offset: Offset, unpaired_relay: bool) -> str | None:
    if row["first_us"] < OLDEST_US:
        year = datetime.fromtimestamp(row["first_us"] / 1e6, UTC).year
        return f"the clock of the relay is broken: it says {year}"
    if row["ahead_us"] > LIMIT_US:
        return f"the clock of the relay is broken: it was {row['ahead_us'] // 1_000_000} s ahead"
    if abs(offset.offset_us) > LIMIT_US:
        off = offset.offset_us // 1_000_000
        return f"the clock of the relay is broken: it is {off} s off its peers"
    if unpaired_relay:
        return "the clock of the relay is broken: no object is stamped by it and a peer"
    return None


def _unpaired_relays(links: list[Mapping[str, Any]]) -> set[str]:
    """Return relays that share links but no stamped object with a peer, if most others do."""
    chances: defaultdict[str, int] = defaultdict(int)
    pairs: defaultdict[str, int] = defaultdict(int)
    for link in links:
        for relay in (link["sender"], link["receiver"]):
            chances[relay] += min(link["sent"], link["came"])
            pairs[relay] += link["pairs"]
    able = [relay for relay, count in chances.items() if count >= _FEW]
    alone = {relay for relay in able if not pairs[relay]}
    # If most have no partner, relays sample different objects, and that says nothing.
    return alone if 2 * len(alone) < len(able) else set()
