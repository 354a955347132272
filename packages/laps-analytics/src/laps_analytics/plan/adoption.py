"""Which relays followed a plan, and when, from ``policy.applied``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from laps_analytics.errors import PlanError
from laps_analytics.lake import Lake
from laps_analytics.plan.columns import batches

__all__ = ["Adoption", "adoption_of"]

_HOUR_US: Final = 3_600_000_000
_ENOUGH: Final = 0.5
"""Least share of an hour, over all relays that adopted the plan, for the hour to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Adoption of some versions of a plan by relays."""

    since_us: int
    """Time at which the first relay adopted one of them, microseconds since 1970."""
    accepted: Collection[str]
    """Relays that adopted one."""
    refused: Collection[str]
    """Relays that refused one; some of them may have adopted another."""
    ended: Mapping[int, int]
    """Begin of an hour to the time in it that relays followed a version and then stopped."""
    going_on: Collection[int]
    """Times since which relays still follow a version."""

    def covers_hour(self, at_us: int) -> bool:
        """Return whether enough relays followed the plan in the hour that begins at ``at_us``."""
        end = at_us + _HOUR_US
        begin = max(at_us, self.since_us)
        time = self.ended.get(at_us, 0) + sum(
            max(0, end - max(since, begin)) for since in self.going_on
        )
        return begin < end and time >= _ENOUGH * len(self.accepted) * (end - begin)


def adoption_of(lake: Lake, plan_id: str, first: int, last: int) -> Adoption:
    """Return the adoption of versions ``first`` to ``last`` of a plan.

    A relay stops when it adopts another version or plan, or when its plan expires. Raises
    :class:`PlanError` if no relay adopted one.
    """
    versions = range(first, last + 1)
    accepted: set[str] = set()
    refused: set[str] = set()
    ended: dict[int, int] = {}
    now: dict[str, tuple[int, int]] = {}
    begins: list[int] = []

    def stop(relay: str, at: int) -> None:
        since, _ = now.pop(relay)
        hour = since // _HOUR_US * _HOUR_US
        while hour < at:
            part = min(at, hour + _HOUR_US) - max(since, hour)
            ended[hour] = ended.get(hour, 0) + part
            hour += _HOUR_US

    columns = ("ts", "relay", "plan_id", "plan_version", "outcome")
    parts = list(batches(lake.table("silver/policy_applied"), columns, times=("ts",)))
    # In the order of time; a relay that goes on with the next version stops and begins at once.
    rows = pa.concat_tables(parts).sort_by([("ts", "ascending")]) if parts else None
    for batch in () if rows is None else rows.to_batches():
        for row in batch.to_pylist():
            relay, at, outcome = row["relay"], row["ts"], row["outcome"]
            ours = row["plan_id"] == plan_id and row["plan_version"] in versions
            if outcome == "refused":
                if ours:
                    refused.add(relay)
                continue
            if outcome == "accepted":
                if relay in now:
                    stop(relay, at)
                if ours:
                    accepted.add(relay)
                    begins.append(at)
                    now[relay] = at, row["plan_version"]
            elif ours and relay in now and now[relay][1] == row["plan_version"]:
                stop(relay, at)
    if not begins:
        named = f"version {last}" if first == last else f"any of the versions {first} to {last}"
        raise PlanError(
            f"no relay has reported that it follows {plan_id} {named}: load it into relays,"
            " and ingest their telemetry"
        )
    return Adoption(
        since_us=min(begins),
        accepted=frozenset(accepted),
        refused=frozenset(refused),
        ended=ended,
        going_on=tuple(since for since, _ in now.values()),
    )
