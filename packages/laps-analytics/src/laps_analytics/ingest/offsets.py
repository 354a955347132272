"""How far the clocks of relays are apart, from stamps on objects that two of them saw. Pure.

An object leaves A at ``out`` of A's clock and comes to B at ``in`` of B's. With ``e`` the error of
a clock and ``d`` the time on the way::

    A -> B    in - out = e(B) - e(A) + d        the least of many: d without queues
    B -> A    in - out = e(A) - e(B) + d

Half the difference of both is ``e(B) - e(A)``, as in NTP. Where objects go one way only, half of
the least round trip time stands for ``d``. The errors themselves are the least-squares solution
over all links, and the median relay of each connected part is right by definition: one broken clock
moves nobody else's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

__all__ = ["ONE_WAY_WEIGHT", "Link", "Offset", "solve"]

ONE_WAY_WEIGHT: Final = 0.25
"""What a link with one direction counts: half a round trip is a guess at the way there."""


@dataclass(frozen=True, slots=True)
class Link:
    """What was seen in one direction between two relays."""

    sender: str
    receiver: str
    least_us: int
    """The least of ``in - out``."""
    pairs: int
    rtt_us: int | None = None
    """The least round trip time, if one of them said."""


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a clock is ahead, and how many pairs say so."""

    offset_us: int
    pairs: int


def solve(links: Iterable[Link]) -> dict[str, Offset]:
    """The error of each clock that has a usable link."""
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
    """The relays, by connected part."""
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
    """Errors that fit the differences best; only their differences mean something."""
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
