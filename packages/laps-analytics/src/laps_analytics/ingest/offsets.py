"""Estimate clock errors from objects that two relays stamped. Pure functions.

An object leaves A at ``out`` by A's clock and reaches B at ``in`` by B's clock. With the clock
errors ``e`` and the delay ``d``:

::

    A -> B    in - out = e(B) - e(A) + d        the least of many: d without queues
    B -> A    in - out = e(A) - e(B) + d

Half the difference of both is ``e(B) - e(A)``, as in NTP. If objects travel in one direction only,
half of the least round trip time replaces ``d``. The errors are the least-squares solution over all
links. The median clock of each connected component counts as right, so one broken clock does not
move the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

__all__ = ["ONE_WAY_WEIGHT", "Link", "Offset", "solve"]

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
