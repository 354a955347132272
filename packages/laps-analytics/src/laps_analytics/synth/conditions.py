"""Delay and loss of each window, independent of routing.

The noise depends on the seed and the window, not on the traffic. So two routings run under the same
conditions.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from laps_analytics.synth.dataset import Dataset, Window
from laps_analytics.synth.incidents import Incidents

__all__ = ["MAX_VIEWERS", "OBJECT_PACKETS", "Conditions", "WindowConditions"]

MAX_VIEWERS: Final = 64
"""Most viewers of one track at one relay that have their own last mile."""

OBJECT_PACKETS: Final = 50
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
        slow = draws < 1 - (1 - loss) ** OBJECT_PACKETS
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
            * (1 + 0.5 * np.abs(rng.normal(0, 1, (self._tracks, count, MAX_VIEWERS)))),
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
        return int(self._last_mile[track, self._index[relay], viewer % MAX_VIEWERS])

    @staticmethod
    def queue_us(load: float) -> int:
        """Return the queueing delay in a relay, by its load."""
        return int(400 / (1 - min(load, 0.985)))
