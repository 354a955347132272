"""Conditions of each window: incidents, and delay and loss of links.

The noise depends on the seed and the window, not on routing and traffic. So two routings run under
the same conditions.

Incidents are chosen from the seed and written beside the telemetry. Tests check that the tables and
the report show each incident at its place.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from laps_analytics.synth.dataset import FIVE_MINUTES_US, HOUR_US, Dataset, Window

__all__ = [
    "Conditions",
    "Incident",
    "Incidents",
    "WindowConditions",
    "choose",
]


# Incidents


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


# Delay and loss

_MAX_VIEWERS: Final = 64
"""Most viewers of one track at one relay that have their own last mile."""

_OBJECT_PACKETS: Final = 50
"""Packets of a large object. If one is lost, the object waits for a round trip."""

_PUBLISHER_US: Final = 12_000
_LAST_MILE_US: Final = 9_000


class Conditions:
    """Conditions of a dataset, by window."""

    def __init__(self, dataset: Dataset, incidents: Incidents, seed: int) -> None:
        self.nodes = [relay.node for relay in dataset.relays]
        self.index = {node: number for number, node in enumerate(self.nodes)}
        self._regions = [relay.region for relay in dataset.relays]
        self._incidents = incidents
        self._seed = seed
        count = len(self.nodes)
        self._rtt = np.zeros((count, count))
        for (one, other), rtt in dataset.rtt_us.items():
            self._rtt[self.index[one], self.index[other]] = rtt
        # Some links are always a little worse than others.
        steady = np.random.default_rng([seed, zlib.crc32(b"links")])
        self._loss = _symmetric(steady.uniform(0.0001, 0.0012, (count, count)))
        self._access = steady.uniform(0.6, 2.6, count)
        self._tracks = len(dataset.tracks)

    def at(self, window: Window) -> WindowConditions:
        """Return the conditions of a window."""
        count, middle = len(self.nodes), window.start_us + window.length_us // 2
        rng = np.random.default_rng([self._seed, window.start_us // 1_000_000])
        extra = np.zeros((count, count))
        for item in self._incidents.of("slow_link"):
            one, other = self.index[item.relay], self.index[item.peer]
            extra[one, other] = extra[other, one] = self._incidents.extra_us(
                item.relay, item.peer, middle
            )
        loss = self._loss * rng.uniform(0.6, 1.6, (count, count))
        for item in self._incidents.of("lossy_region"):
            if item.covers(middle):
                bad = np.array([region == item.region for region in self._regions])
                loss = loss + item.amount * (bad[:, None] | bad[None, :])
        jitter = _symmetric(np.abs(rng.normal(0, 1, (count, count))))
        spread = np.abs(rng.normal(0, 1, (count, count)))
        draws = rng.uniform(0, 1, (count, count))
        rtt = self._rtt * (1 + 0.02 * jitter) + 2 * extra
        # Halves of the same round trip, a little apart; a lost packet costs a round trip more.
        slow = draws < 1 - (1 - loss) ** _OBJECT_PACKETS
        one_way = rtt / 2 * (1 + 0.015 * spread) + np.where(slow, rtt * 1.1, 0)
        access_loss = np.array(
            [
                sum(
                    item.amount
                    for item in self._incidents.of("lossy_region")
                    if item.covers(middle) and item.region == region
                )
                for region in self._regions
            ]
        )
        return WindowConditions(
            self.index,
            rtt,
            one_way,
            loss,
            access_loss,
            _PUBLISHER_US * (1 + 0.3 * np.abs(rng.normal(0, 1, self._tracks))),
            _LAST_MILE_US
            * self._access[None, :, None]
            * (1 + 0.5 * np.abs(rng.normal(0, 1, (self._tracks, count, _MAX_VIEWERS)))),
            rng,
        )


def _symmetric(values: NDArray[np.float64]) -> NDArray[np.float64]:
    upper = np.triu(values, 1)
    both: NDArray[np.float64] = upper + upper.T
    return both


class WindowConditions:
    """Conditions of one window."""

    def __init__(
        self,
        index: dict[str, int],
        rtt: NDArray[np.float64],
        one_way: NDArray[np.float64],
        loss: NDArray[np.float64],
        access_loss: NDArray[np.float64],
        publisher: NDArray[np.float64],
        last_mile: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> None:
        self._index = index
        self._rtt = rtt
        self._one_way = one_way
        self._loss = loss
        self._access_loss = access_loss
        self._publisher = publisher
        self._last_mile = last_mile
        self.rng = rng

    def rtt_us(self, one: str, other: str) -> int:
        """Return the smoothed round trip time of a link."""
        return int(self._rtt[self._index[one], self._index[other]])

    def one_way_us(self, one: str, other: str) -> int:
        """Return the delay of the sampled object on a link."""
        return int(self._one_way[self._index[one], self._index[other]])

    def loss(self, one: str, other: str) -> float:
        """Return the share of packets lost from one relay to the other."""
        return float(self._loss[self._index[one], self._index[other]])

    def access_loss(self, relay: str) -> float:
        """Return the additional loss on the last mile."""
        return float(self._access_loss[self._index[relay]])

    def publisher_us(self, track: int) -> int:
        """Return the delay from the publisher to the origin."""
        return int(self._publisher[track])

    def last_mile_us(self, track: int, relay: str, viewer: int) -> int:
        """Return the delay from a relay to one of its viewers."""
        return int(self._last_mile[track, self._index[relay], viewer % _MAX_VIEWERS])

    @staticmethod
    def queue_us(load: float) -> int:
        """Return the queueing delay in a relay, by its load."""
        return int(400 / (1 - min(load, 0.985)))
