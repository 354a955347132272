"""A synthetic network of relays on the fibre of the world.

The fibre is ``backbone/world`` of ``topohub`` (PyPI): cities, landing points and cables with their
lengths. Relays are in cities. The round trip time between two of them is

::

    rtt = 2 * kilometres of the shortest fibre / 200 km per ms * inflation + HOP_MS

``inflation`` stands for routes that are not the shortest. It is a factor for each pair, log-normal
with a median of 1.28 and a 95th percentile of about 2.3, at least 1. **That is an assumption, not a
measurement.** Without it no path over a third relay could be shorter than the direct one.

Loss, prices and capacities are also assumptions from the same seed; see :func:`make_backbone`. The
same seed gives the same backbone on every machine.
"""

from __future__ import annotations

import heapq
import math
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from laps_analytics.errors import UsageError
from laps_analytics.synth.geography import great_circle_km, nearest

__all__ = [
    "HOP_MS",
    "INFLATION_MEDIAN",
    "INFLATION_P95",
    "KM_PER_MS",
    "Backbone",
    "Fibre",
    "Relay",
    "load_fibre",
    "make_backbone",
]

Floats = npt.NDArray[np.float64]

KM_PER_MS: Final = 200.0
"""Speed of light in fibre."""
HOP_MS: Final = 0.6
"""Delay at both ends of a link, from the relay to the exchange."""
INFLATION_MEDIAN: Final = 1.28
INFLATION_P95: Final = 2.3
_SIGMA: Final = math.log(INFLATION_P95 / INFLATION_MEDIAN) / 1.6449

_EGRESS: Final = {"us": 1.0, "eu": 1.0, "latam": 3.0, "me": 3.5, "africa": 4.0, "oceania": 2.5}
"""Price of a gigabyte to another region, by the first word of the region's name.

The default is 2. Within a region the price is a fifth. Only ratios matter.
"""


@dataclass(frozen=True, slots=True)
class Fibre:
    """Graph of the fibre."""

    names: tuple[str, ...]
    """Name of a city; empty for landing points and bends of a cable."""
    lon: Floats
    lat: Floats
    links: tuple[tuple[int, int, float], ...]
    """From, to, kilometres."""
    countries: tuple[str, ...]
    """Country of each place; empty at sea."""
    regions: tuple[str, ...]
    around: tuple[tuple[tuple[int, int, float], ...], ...]
    """Neighbour, index of the link and kilometres, by place."""


@cache
def load_fibre() -> Fibre:
    """Return the fibre of ``topohub``; raise :class:`UsageError` if it is not installed."""
    try:
        import topohub  # noqa: PLC0415 - an extra, and half a second
    except ImportError:
        raise UsageError(
            'the synthetic network needs topohub: pip install -e "packages/laps-analytics[world]"'
        ) from None
    with warnings.catch_warnings():
        # topohub leaves its file to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        raw = topohub.get("backbone/world")
    # topohub lists nodes in no order that it promises.
    nodes = sorted(raw["nodes"], key=lambda node: node["id"])
    index = {node["id"]: number for number, node in enumerate(nodes)}
    lon = np.array([node["pos"][0] for node in nodes], dtype=float)
    lat = np.array([node["pos"][1] for node in nodes], dtype=float)
    ends = [
        (index[edge["source"]], index[edge["target"]], float(edge["dist"])) for edge in raw["edges"]
    ]
    links = sorted((min(a, b), max(a, b), km) for a, b, km in ends)
    around: list[list[tuple[int, int, float]]] = [[] for _ in nodes]
    for number, (a, b, km) in enumerate(links):
        around[a].append((b, number, km))
        around[b].append((a, number, km))
    where = nearest(lon, lat)
    at_sea = ["Waypoint" in node["type"] for node in nodes]
    return Fibre(
        names=tuple(node["name"] if node["type"] == "City" else "" for node in nodes),
        lon=lon,
        lat=lat,
        links=tuple(links),
        countries=tuple(
            "" if sea else country for sea, (country, _) in zip(at_sea, where, strict=True)
        ),
        regions=tuple(region for _, region in where),
        around=tuple(tuple(near) for near in around),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """A relay of the backbone."""

    node: str
    """Node id as text."""
    kind: str
    """edge or via."""
    city: str
    place: int
    """Index of its place in the fibre."""
    region: str
    country: str
    longitude: float
    latitude: float
    capacity_bps: float
    """Rate that it can send."""
    weight: float
    """Share of all viewers near it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """Relays and links. Rows and columns of tables are relays, in one order."""

    seed: int
    relays: tuple[Relay, ...]
    km: Floats
    """Kilometres of fibre."""
    inflation: Floats
    rtt_ms: Floats
    """Round trip times; 0 on the diagonal."""
    loss: Floats
    """Share of packets lost."""
    price: Floats
    """Price of a gigabyte from row to column."""
    capacity_bps: Floats
    routes: tuple[npt.NDArray[np.int32], ...]
    """For each relay and place of the fibre: the last link on the path; -1 at the relay."""

    @property
    def edges(self) -> list[int]:
        """Indices of the Edges."""
        return [number for number, relay in enumerate(self.relays) if relay.kind == "edge"]

    @property
    def vias(self) -> list[int]:
        """Indices of the Vias."""
        return [number for number, relay in enumerate(self.relays) if relay.kind == "via"]

    def fibre_links(self, source: int, target: int) -> list[int]:
        """Return the fibre links between two relays, from the source on."""
        fibre = load_fibre()
        came_by = self.routes[source]
        at, found = self.relays[target].place, []
        while (link := int(came_by[at])) >= 0:
            found.append(link)
            a, b, _ = fibre.links[link]
            at = a if at == b else b
        return found[::-1]

    def path_countries(self, source: int, target: int) -> frozenset[str]:
        """Return the countries on the path between two relays, both ends included."""
        fibre = load_fibre()
        found = {self.relays[source].country, self.relays[target].country}
        for link in self.fibre_links(source, target):
            found.update(fibre.countries[place] for place in fibre.links[link][:2])
        return frozenset(found - {""})


def make_backbone(seed: int, *, edges: int = 120, vias: int = 25) -> Backbone:
    """Make a backbone from a seed, with Edges and Vias in cities.

    Edges are in cities where much fibre meets, which stands for population. Vias are near the Edges
    of each region.
    """
    if edges < 2 or vias < 0:
        raise UsageError(f"{edges} Edges and {vias} Vias are too few: use at least two Edges")
    fibre = load_fibre()
    rng = np.random.default_rng(np.random.SeedSequence([0x1A95, seed]))
    relays = _place(fibre, rng, edges, vias)
    count = len(relays)
    km = np.zeros((count, count))
    routes = []
    for number, relay in enumerate(relays):
        distance, came_by = _shortest(relay.place)
        km[number] = [distance[other.place] for other in relays]
        routes.append(came_by)
    # Sums of the same kilometres from the other end may differ in the last digit.
    km = _symmetric(km)
    inflation = _symmetric(INFLATION_MEDIAN * np.exp(_SIGMA * rng.standard_normal((count, count))))
    inflation = np.maximum(inflation, 1.0)
    np.fill_diagonal(inflation, 1.0)
    rtt = 2 * km / KM_PER_MS * inflation + HOP_MS
    np.fill_diagonal(rtt, 0.0)
    # Half of the links lose less than 0.02 %, one in a hundred more than 1 %.
    loss = _symmetric(np.minimum(2e-4 * np.exp(1.7 * rng.standard_normal((count, count))), 0.2))
    np.fill_diagonal(loss, 0.0)
    rate = np.array([_EGRESS.get(relay.region.split("-")[0], 2.0) for relay in relays])
    same = np.array([[a.region == b.region for b in relays] for a in relays])
    price = np.where(same, 0.2, 1.0) * rate[:, None]
    np.fill_diagonal(price, 0.0)
    capacity = np.where(same, 40e9, 10e9) * np.exp(0.4 * rng.standard_normal((count, count)))
    return Backbone(
        seed=seed,
        relays=relays,
        km=km,
        inflation=inflation,
        rtt_ms=rtt,
        loss=loss,
        price=price,
        capacity_bps=_symmetric(capacity),
        routes=tuple(routes),
    )


def _symmetric(values: Floats) -> Floats:
    """Return the upper triangle, mirrored: both directions of a pair are equal."""
    upper = np.triu(values, 1)
    return upper + upper.T


def _place(fibre: Fibre, rng: np.random.Generator, edges: int, vias: int) -> tuple[Relay, ...]:
    cities = np.array([number for number, name in enumerate(fibre.names) if name])
    if edges + vias > len(cities):
        raise UsageError(f"{edges + vias} relays are too many: there are {len(cities)} cities")
    degree = np.array([len(fibre.around[city]) for city in cities], dtype=float)
    weight = degree**1.5 * np.exp(0.5 * rng.standard_normal(len(cities)))
    chosen = rng.choice(len(cities), size=edges, replace=False, p=weight / weight.sum())
    wanted = sorted(chosen.tolist(), key=lambda at: (-weight[at], at))
    hubs = _hubs(fibre, cities, wanted, vias)
    total = weight[wanted].sum()
    capacity = np.exp(0.3 * rng.standard_normal(edges + vias))
    relays = []
    for order, at in enumerate([*wanted, *sorted(hubs)]):
        place = int(cities[at])
        is_edge = order < edges
        relays.append(
            Relay(
                node=f"0.{1 if is_edge else 2}:0.{order + 1 if is_edge else order - edges + 1}",
                kind="edge" if is_edge else "via",
                city=fibre.names[place],
                place=place,
                region=fibre.regions[place],
                country=fibre.countries[place],
                longitude=float(fibre.lon[place]),
                latitude=float(fibre.lat[place]),
                capacity_bps=float(capacity[order] * (20e9 if is_edge else 60e9)),
                weight=float(weight[at] / total) if is_edge else 0.0,
            )
        )
    return tuple(relays)


def _hubs(fibre: Fibre, cities: npt.NDArray[np.int64], taken: list[int], count: int) -> list[int]:
    """Return the cities of the Vias.

    The next Via goes to the region with the most Edges for each Via, into the city nearest to its
    Edges.
    """
    members: dict[str, list[int]] = {}
    for at in taken:
        members.setdefault(fibre.regions[cities[at]], []).append(at)
    free: dict[str, list[int]] = {region: [] for region in members}
    for at, city in enumerate(cities):
        if at not in set(taken) and fibre.regions[city] in free:
            free[fibre.regions[city]].append(at)
    lon, lat = fibre.lon[cities], fibre.lat[cities]
    far = {
        region: great_circle_km(
            lon[free[region]][:, None], lat[free[region]][:, None], lon[edges], lat[edges]
        )
        for region, edges in members.items()
    }
    reach = {region: np.full(len(edges), np.inf) for region, edges in members.items()}
    hubs: dict[str, list[int]] = {region: [] for region in members}
    for _ in range(count):
        open_ones = [region for region in members if len(hubs[region]) < len(free[region])]
        if not open_ones:
            raise UsageError(f"{count} Vias are too many for the cities near the Edges")
        region = max(open_ones, key=lambda name: (len(members[name]) / (len(hubs[name]) + 1), name))
        sums = np.minimum(far[region], reach[region]).sum(axis=1)
        sums[[free[region].index(at) for at in hubs[region]]] = np.inf
        best = int(sums.argmin())
        reach[region] = np.minimum(reach[region], far[region][best])
        hubs[region].append(free[region][best])
    return [at for region in sorted(hubs) for at in hubs[region]]


@cache
def _shortest(source: int) -> tuple[Floats, npt.NDArray[np.int32]]:
    """Return the distance to every place by Dijkstra, and the last link on the path."""
    fibre = load_fibre()
    distance = np.full(len(fibre.around), np.inf)
    came_by = np.full(len(fibre.around), -1, dtype=np.int32)
    distance[source] = 0.0
    queue = [(0.0, source)]
    done = bytearray(len(fibre.around))
    while queue:
        so_far, at = heapq.heappop(queue)
        if done[at]:
            continue
        done[at] = 1
        for near, link, km in fibre.around[at]:
            if so_far + km < distance[near]:
                distance[near] = so_far + km
                came_by[near] = link
                heapq.heappush(queue, (so_far + km, near))
    return distance, came_by
