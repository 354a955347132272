"""Assemble the network and the demand from reports, robust against false reports.

Tracks and their viewers are estimated from byte counters of relays. A relay may report false
values, so no result depends on one relay:

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
from dataclasses import dataclass
from math import isfinite, nan
from typing import Final

import numpy as np

from laps_analytics.errors import PlanError
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.plan.constraints import Settings
from laps_analytics.plan.core.estimates import (
    DAY,
    WINDOW_US,
    Backtest,
    backtest,
    backtest_links,
    forecast,
    inconsistent_ends,
    reconcile_loss,
    reconcile_rtt,
    window_medians,
)
from laps_analytics.plan.core.inputs import Floats, Network, Node, Track
from laps_analytics.plan.observation import HopRow, NodeRow, Observation

__all__ = ["Assembled", "assemble", "demand_of"]

# Demand

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


# Network and demand

_RECENT: Final = 12
"""Number of latest windows that count as the present."""
_UNKNOWN_BPS: Final = 1e15


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assembled:
    """Input of a plan, and how it was derived."""

    until_us: int
    """End of the observed time."""
    network: Network
    tracks: Sequence[Track]
    suspects: tuple[str, ...]
    """Relays whose measurements are not used."""
    excluded: tuple[str, ...] = ()
    """Relays of which nothing is used, because their reports contradict others or are broken."""
    prediction: Backtest
    predicted: bool
    """Whether the forecast of round trip times is used; otherwise the present values."""
    loss_prediction: Backtest
    loss_predicted: bool
    """Whether the forecast of loss is used."""


def assemble(
    observed: Observation,
    settings: Settings,
    dimensions: Dimensions | None = None,
    *,
    excluded: Collection[str] = (),
) -> Assembled:
    """Return the network and the demand; reports of ``excluded`` relays are not used."""
    facts = dimensions or Dimensions()
    index = {row.node: number for number, row in enumerate(observed.nodes)}
    places = [
        None if row.longitude is None or row.latitude is None else (row.longitude, row.latitude)
        for row in observed.nodes
    ]
    series = _all_series(observed.rtt_ms, index, observed.at_us, 1e-9, np.inf)
    present, ahead, judged = _expected(series, 1e-9, np.inf)
    untrusted = {index[name] for name in excluded if name in index}
    suspects = inconsistent_ends(present, places) | untrusted
    rtt = reconcile_rtt(ahead, places, untrusted)
    lost = _all_series(observed.loss, index, observed.at_us, 0.0, 1.0)
    _, lost_ahead, loss_judged = _expected(lost, 0.0, 1.0)
    loss = reconcile_loss(lost_ahead, len(index), suspects)
    tracks, to_clients = demand_of(observed.hops, index, facts, excluded)
    nodes = tuple(
        _node(row, settings, facts, to_clients.get(number, 0.0))
        for number, row in enumerate(observed.nodes)
    )
    network = _links(nodes, index, rtt, loss, settings, facts)
    return Assembled(
        until_us=observed.at_us,
        network=network,
        tracks=tracks,
        suspects=tuple(sorted(observed.nodes[number].node for number in suspects)),
        excluded=tuple(sorted(excluded)),
        prediction=judged,
        predicted=judged.wins,
        loss_prediction=loss_judged,
        loss_predicted=loss_judged.wins,
    )


def _all_series(
    measured: Mapping[tuple[str, str], Mapping[int, float]],
    index: Mapping[str, int],
    end_us: int,
    least: float,
    most: float,
) -> dict[tuple[int, int], Floats]:
    """Return the series of windows by measuring end and other end."""
    return {
        (index[a], index[b]): _series(values, end_us, least, most)
        for (a, b), values in measured.items()
        if a in index and b in index and a != b
    }


def _expected(
    series: Mapping[tuple[int, int], Floats], least: float, most: float
) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float], Backtest]:
    """Return present and expected values by measuring and other end, and the backtest.

    A forecast that is no better than the last value is not used.
    """
    present = window_medians(
        {
            pair: found.tolist()
            for pair, values in series.items()
            if len(found := values[-_RECENT:][np.isfinite(values[-_RECENT:])])
        }
    )
    links = backtest_links({pair: len(values) for pair, values in series.items()})
    judged = backtest([series[pair] for pair in links], trials=12)
    if not judged.wins:
        return present, present, judged
    ahead = {pair: forecast(series[pair]) for pair in present}
    better = {
        pair: min(max(value, least), most) for pair, value in ahead.items() if np.isfinite(value)
    }
    return present, present | better, judged


def _series(values: Mapping[int, float], end_us: int, least: float, most: float) -> Floats:
    """Return the five-minute windows up to now; NaN where nothing was measured."""
    last = end_us // WINDOW_US
    first = max(min(at // WINDOW_US for at in values), last - 8 * DAY)
    found = [nan] * max(last - first + 1, 1)
    for at, value in values.items():
        slot = at // WINDOW_US - first
        if 0 <= slot < len(found) and least <= value <= most and isfinite(value):
            found[slot] = value
    return np.array(found)


def _node(row: NodeRow, settings: Settings, facts: Dimensions, clients_bps: float) -> Node:
    claimed = settings.nodes.get(row.node)
    capacity = facts.relays.get(row.node, _UNKNOWN_BPS)
    if claimed is not None and claimed.capacity_bps is not None:
        capacity = claimed.capacity_bps
    usable = (claimed is None or claimed.usable) and row.load < 0.95
    return Node(
        id=row.node,
        kind=row.kind,
        region=row.region,
        country="" if claimed is None else claimed.country,
        longitude=row.longitude,
        latitude=row.latitude,
        capacity_bps=capacity,
        load_bps=min(clients_bps, capacity),
        usable=usable,
    )


def _links(
    nodes: tuple[Node, ...],
    index: Mapping[str, int],
    rtt: Floats,
    loss: Floats,
    settings: Settings,
    facts: Dimensions,
) -> Network:
    count = len(nodes)
    regions = [node.region or node.id for node in nodes]
    same = np.array([[a == b for b in regions] for a in regions])
    leaving = np.array([settings.leaving.get(region, 1.0) for region in regions])
    price = np.where(same, settings.within, settings.between * leaving[:, None])
    np.fill_diagonal(price, 0.0)
    capacity = np.full((count, count), _UNKNOWN_BPS)
    for (a, b), bps in facts.links.items():
        if a in index and b in index:
            capacity[index[a], index[b]] = bps
    countries: dict[tuple[int, int], frozenset[str]] = {}
    for (a, b), claimed in settings.links.items():
        if a not in index or b not in index:
            continue
        for pair in ((index[a], index[b]), (index[b], index[a])):
            if claimed.price is not None:
                price[pair] = claimed.price
            if claimed.capacity_bps is not None:
                capacity[pair] = claimed.capacity_bps
        if claimed.countries is not None:
            countries[index[a], index[b]] = claimed.countries
    return Network(
        nodes=nodes,
        rtt_ms=rtt,
        loss=loss,
        price=price,
        capacity_bps=capacity,
        load_bps=np.zeros((count, count)),
        countries=countries,
    )
