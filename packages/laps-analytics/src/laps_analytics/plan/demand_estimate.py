"""From the bytes that relays counted to tracks, and who watches them where.

A relay can write what it likes, so nothing rests on one relay's word:

- a *rate* is the median over the relays that have the track, and of a relay no more counts than the
  one before it says to have sent;
- the *origin* is who says so and whom most others got the track from; not one that another such
  relay sent it to; and if nobody says so, whom most got it from without a witness of where that one
  got it from;
- no relay has more than twenty times the *viewers* of the median relay; and one that is set aside
  no more than the median relay of the track, where others say that they sent it there.
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
"""Most viewers that a relay is believed to have, in medians of all relays."""


def demand_of(
    hops: Sequence[HopRow],
    index: Mapping[str, int],
    facts: Dimensions,
    excluded: Collection[str] = (),
) -> tuple[list[Track], dict[int, float]]:
    """Tracks with their viewers, and what each relay sends to its clients."""
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
    """What each relay received; every way out repeats it."""
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
    """By relay: what it sends to its clients."""
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
    """The relay of the publisher."""
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
