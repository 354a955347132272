"""Incidents of a dataset, chosen from its seed and written beside the telemetry.

Tests check that the tables and the report show each incident at its place.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from laps_analytics.synth.dataset import FIVE_MINUTES_US, HOUR_US, Dataset, Window

__all__ = ["Incident", "Incidents", "choose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A fault with a begin and an end."""

    kind: str
    """slow_link, lossy_region, clock, flap, outage, duplicates or late."""
    first_us: int
    last_us: int
    relay: str = ""
    peer: str = ""
    region: str = ""
    track: str = ""
    amount: float = 0.0
    """Slow link: ms each way. Lossy region: share of packets. Clock: microseconds."""

    def covers(self, at_us: int) -> bool:
        """Return whether the incident is active at a time."""
        return self.first_us <= at_us < self.last_us


class Incidents:
    """All incidents of a dataset."""

    def __init__(self, items: Sequence[Incident]) -> None:
        self.items = tuple(items)

    def of(self, kind: str) -> list[Incident]:
        """Return the incidents of one kind."""
        return [item for item in self.items if item.kind == kind]

    def clock_errors(self) -> dict[str, int]:
        """Return the clock error of each relay that has one."""
        return {item.relay: int(item.amount) for item in self.of("clock")}

    def extra_us(self, one: str, other: str, at_us: int) -> int:
        """Return the additional one-way delay of a link."""
        return sum(
            int(item.amount * 1000)
            for item in self.of("slow_link")
            if item.covers(at_us) and {item.relay, item.peer} == {one, other}
        )

    def down(self, at_us: int) -> frozenset[str]:
        """Return the relays that are down."""
        return frozenset(item.relay for item in self.of("outage") if item.covers(at_us))


def choose(dataset: Dataset, windows: Sequence[Window], seed: int) -> Incidents:
    """Choose incidents for the second part of the dense windows; the first part has none.

    Incidents are at different places, so that each can be found.
    """
    dense = [window for window in windows if window.dense]
    if not dense:
        return Incidents(())
    rng = random.Random(f"incidents/{seed}")  # noqa: S311 - a world, not a secret
    first, last = dense[0].start_us, dense[-1].end_us
    quiet = _window_start(first + (last - first) * 2 // 5)
    room = last - quiet
    origins = {track.origin for track in dataset.tracks}
    # Viewers that hang on a link in the middle of the time in question. Those of class gold feel a
    # slow link first.
    dependents: dict[tuple[str, str], int] = {}
    gold = [track for track in dataset.tracks if track.qos == "gold"]
    for track in gold or dataset.tracks:
        for relay, viewers in dataset.audience(track, quiet + room // 6).items():
            if relay != track.origin:
                pair = (track.origin, relay)
                dependents[pair] = dependents.get(pair, 0) + viewers
    busy = sorted(dependents, key=lambda pair: (-dependents[pair], pair))
    slow = rng.choice(busy[: max(1, len(busy) // 6)])
    taken = {slow[0], slow[1]}
    taken_regions = {dataset.by_node[node].region for node in taken}
    edges = sorted(relay.node for relay in dataset.relays if relay.kind == "edge")

    def pick(avoid_origins: bool = True) -> str:
        free = [n for n in edges if n not in taken and not (avoid_origins and n in origins)]
        found = rng.choice(free or [n for n in edges if n not in taken] or edges)
        taken.add(found)
        return found

    regions = sorted(
        {dataset.by_node[node].region for node in edges if node not in origins} - taken_regions
    )
    lossy = rng.choice(regions) if regions else ""
    lossy_nodes = {node for node in edges if dataset.by_node[node].region == lossy}
    taken |= lossy_nodes
    out, skewed, flapping = pick(), pick(), pick()
    watched = [
        track
        for track in dataset.tracks
        if track.origin != flapping and flapping in dataset.audience(track, quiet)
    ]
    items = [
        Incident(
            kind="slow_link",
            first_us=quiet,
            last_us=_window_start(quiet + room // 3),
            relay=slow[0],
            peer=slow[1],
            amount=260.0,
        ),
        Incident(kind="clock", first_us=0, last_us=last, relay=skewed, amount=2_500_000.0),
        Incident(
            kind="outage",
            relay=out,
            first_us=_outage(quiet, last),
            last_us=_outage(quiet, last) + FIVE_MINUTES_US,
        ),
    ]
    if lossy:
        items.append(
            Incident(
                kind="lossy_region",
                first_us=_window_start(quiet + room // 3),
                last_us=_window_start(quiet + room * 2 // 3),
                region=lossy,
                amount=0.06,
            )
        )
    if watched:
        items.append(
            Incident(
                kind="flap",
                first_us=quiet,
                last_us=_window_start(quiet + room // 2),
                relay=flapping,
                track=rng.choice(watched).track,
            )
        )
    return Incidents(items)


def _outage(first_us: int, last_us: int) -> int:
    """Return the start of the outage: the last full hour with room for it, else the middle.

    Sets are compared by hour, and a dead relay cannot withdraw its sets. So its sets before and
    after the outage must be in different hours.
    """
    hour = (last_us - 2 * FIVE_MINUTES_US) // HOUR_US * HOUR_US
    return hour if hour >= first_us else _window_start((first_us + last_us) // 2)


def _window_start(at_us: int) -> int:
    """Return the begin of the five-minute window of a time."""
    return at_us - at_us % FIVE_MINUTES_US
