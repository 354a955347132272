"""Estimate tracks and their viewers from byte counters of relays.

A relay may report false values, so no result depends on one relay:

- the *rate* of a track is the median over its relays; a value counts up to the bytes that the
  previous relay sent;
- the *origin* is the relay that claims it and from which most others received the track. A relay
  does not count if another claimant sent it the track. Without a claimant, it is the relay from
  which most received the track and of which no relay reports to have sent it the track;
- a relay has at most twenty times the *viewers* of the median relay; an excluded one has at most
  those of the median relay of the track, if others report sending it the track.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from laps_analytics.errors import PlanError
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.plan.core.demand import Track
from laps_analytics.plan.observation import HopRow

__all__ = ["demand_of"]

_MAX_VIEWERS_RATIO: Final = 20.0
"""Most viewers of a relay, in multiples of the median relay."""


def demand_of(
    hops: Sequence[HopRow],
    index: Mapping[str, int],
    facts: Dimensions,
    excluded: Collection[str] = (),
) -> tuple[list[Track], dict[int, float]]:
    """Return tracks with their viewers, and the rate of each relay to its clients."""
    by_track: dict[str, list[HopRow]] = {}
    for row in hops:
        if row.relay in index:
            by_track.setdefault(row.track, []).append(row)
    raw: list[tuple[str, int, float, dict[int, float]]] = []
    totals: dict[int, float] = {}
    to_clients: dict[int, float] = {}
    for name, rows in sorted(by_track.items()):
        origin = _origin(rows, index, excluded)
        rates = _rates(rows, excluded)
        if origin is None or not rates:
            continue
        # Everybody receives the same track: whoever counts otherwise is outvoted.
        rate = float(np.median(rates))
        viewers = {index[relay]: bps / rate for relay, bps in _sent(rows, excluded).items()}
        for at, heads in viewers.items():
            to_clients[at] = to_clients.get(at, 0.0) + heads * rate
            totals[at] = totals.get(at, 0.0) + heads
        raw.append((name, index[origin], rate, viewers))
    most = _MAX_VIEWERS_RATIO * float(np.median(list(totals.values()))) if totals else 0.0
    scale = {at: min(1.0, most / total) for at, total in totals.items() if total > 0}
    tracks = []
    for name, source, rate, viewers in raw:
        heads_of = {
            at: max(1, round(heads * scale.get(at, 1.0)))
            for at, heads in viewers.items()
            if at != source
        }
        if heads_of:
            service = facts.tracks[name].service if name in facts.tracks else ""
            tracks.append(
                Track(key=_key(name), origin=source, scope=service, rate_bps=rate, viewers=heads_of)
            )
    bounded = {at: bps * scale.get(at, 1.0) for at, bps in to_clients.items()}
    return tracks, bounded


def _rates(rows: Sequence[HopRow], excluded: Collection[str]) -> list[float]:
    """Return the rate that each relay received; every outgoing path repeats it."""
    came: dict[str, float] = {}
    sent: dict[str, float] = {}
    for row in rows:
        if row.relay not in excluded:
            came[row.relay] = max(came.get(row.relay, 0.0), row.in_bps)
            if row.out_peer is not None:
                sent[row.out_peer] = sent.get(row.out_peer, 0.0) + row.out_bps
    known = [min(bps, sent.get(relay) or bps) for relay, bps in came.items()]
    return [bps for bps in known if bps > 0]


def _sent(rows: Sequence[HopRow], excluded: Collection[str]) -> dict[str, float]:
    """Return the rate of each relay to its clients."""
    found: dict[str, float] = {}
    reached = {row.out_peer for row in rows if row.relay not in excluded and row.out_bps > 0}
    for row in rows:
        counted = row.relay not in excluded or row.relay in reached
        if counted and row.out_peer is None and row.out_bps > 0:
            found[row.relay] = found.get(row.relay, 0.0) + row.out_bps
    others = [bps for relay, bps in found.items() if relay not in excluded]
    usual = float(np.median(others)) if others else 0.0
    return {
        relay: min(bps, usual) if relay in excluded and usual else bps
        for relay, bps in found.items()
    }


def _origin(
    rows: Sequence[HopRow], index: Mapping[str, int], excluded: Collection[str]
) -> str | None:
    """Return the relay of the publisher; None if unknown."""
    votes: dict[str, set[str]] = {}
    sent: set[tuple[str, str]] = set()
    for row in rows:
        if row.in_peer is not None and row.relay not in excluded and row.in_peer in index:
            votes.setdefault(row.in_peer, set()).add(row.relay)
        if row.out_peer is not None and row.out_bps > 0:
            sent.add((row.relay, row.out_peer))
    claimed = {row.relay for row in rows if row.in_peer is None and row.in_bps > 0}
    # Whom one that others got it from has sent it to is none, unless they say that of each other.
    fed = {
        name
        for name in claimed
        if any(
            (other, name) in sent and (name, other) not in sent and other in votes
            for other in claimed - {name}
        )
    }
    witnessed = {row.relay for row in rows if (row.in_peer, row.relay) in sent}
    chosen = claimed - fed or claimed or votes.keys() - witnessed
    return min(chosen, key=lambda name: (-len(votes.get(name, ())), name), default=None)


def _key(track: str) -> int:
    try:
        return int(track, 16)
    except ValueError:
        raise PlanError(f"{track!r} is not the hash of a track") from None
