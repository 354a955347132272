"""A synthetic network of relays on the fibre of the world.

The fibre is ``backbone/world`` of ``topohub`` (PyPI): cities, landing points and cables with their
lengths. Relays are in cities. The round trip time between two of them is

::

    rtt = 2 * kilometres of the shortest fibre / 200 km per ms * inflation + 0.6 ms

``inflation`` stands for routes that are not the shortest. It is a factor for each pair, log-normal
with a median of 1.28 and a 95th percentile of about 2.3, at least 1. **That is an assumption, not a
measurement.** Without it no path over a third relay could be shorter than the direct one.

Loss, prices and capacities are also assumptions from the same seed; see :func:`make_backbone`. The
same seed gives the same backbone on every machine.

``topohub`` has coordinates and no countries. A place gets the country and region of the nearest
large city of a short list. Along borders that may be the neighbour's. Results depend only on that
nearby places share a country.
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

__all__ = [
    "INFLATION_MEDIAN",
    "INFLATION_P95",
    "REGIONS",
    "Backbone",
    "Fibre",
    "Relay",
    "great_circle_km",
    "load_fibre",
    "make_backbone",
    "nearest",
]

# Places

_EARTH_KM: Final = 6371.0

# longitude, latitude, country, region
_POINTS: Final[tuple[tuple[float, float, str, str], ...]] = (
    *(
        (-74.0, 40.7, "US", "us-east"),
        (-80.2, 25.8, "US", "us-east"),
        (-84.4, 33.7, "US", "us-east"),
    ),
    *(
        (-77.0, 38.9, "US", "us-east"),
        (-71.1, 42.4, "US", "us-east"),
        (-82.5, 39.9, "US", "us-east"),
    ),
    *((-87.6, 41.9, "US", "us-central"), (-96.8, 32.8, "US", "us-central")),
    *((-93.3, 44.9, "US", "us-central"), (-90.1, 30.0, "US", "us-central")),
    *(
        (-104.9, 39.7, "US", "us-west"),
        (-118.2, 34.1, "US", "us-west"),
        (-112.1, 33.4, "US", "us-west"),
    ),
    *(
        (-122.4, 37.8, "US", "us-west"),
        (-122.3, 47.6, "US", "us-west"),
        (-157.9, 21.3, "US", "us-west"),
    ),
    *(
        (-111.9, 40.8, "US", "us-west"),
        (-149.9, 61.2, "US", "us-west"),
        (-116.2, 43.6, "US", "us-west"),
    ),
    *(
        (-79.4, 43.7, "CA", "us-east"),
        (-73.6, 45.5, "CA", "us-east"),
        (-63.6, 44.6, "CA", "us-east"),
    ),
    *(
        (-97.1, 49.9, "CA", "us-central"),
        (-114.1, 51.0, "CA", "us-west"),
        (-123.1, 49.3, "CA", "us-west"),
    ),
    *((-99.1, 19.4, "MX", "latam-north"), (-103.3, 20.7, "MX", "latam-north")),
    *((-106.1, 28.6, "MX", "latam-north"), (-89.6, 21.0, "MX", "latam-north")),
    *((-90.5, 14.6, "GT", "latam-north"), (-84.1, 9.9, "CR", "latam-north")),
    *((-79.5, 9.0, "PA", "latam-north"), (-69.9, 18.5, "DO", "latam-north")),
    *((-82.4, 23.1, "CU", "latam-north"), (-66.1, 18.4, "PR", "latam-north")),
    *((-74.1, 4.7, "CO", "latam-north"), (-66.9, 10.5, "VE", "latam-north")),
    *((-78.5, -0.2, "EC", "latam-south"), (-77.0, -12.0, "PE", "latam-south")),
    *((-68.1, -16.5, "BO", "latam-south"), (-70.7, -33.4, "CL", "latam-south")),
    *((-58.4, -34.6, "AR", "latam-south"), (-64.2, -31.4, "AR", "latam-south")),
    *((-57.6, -25.3, "PY", "latam-south"), (-56.2, -34.9, "UY", "latam-south")),
    *((-46.6, -23.6, "BR", "latam-south"), (-43.2, -22.9, "BR", "latam-south")),
    *((-38.5, -3.7, "BR", "latam-south"), (-47.9, -15.8, "BR", "latam-south")),
    *((-60.0, -3.1, "BR", "latam-south"), (-51.2, -30.0, "BR", "latam-south")),
    *((-0.1, 51.5, "GB", "eu-west"), (-2.2, 53.5, "GB", "eu-west"), (-4.2, 55.9, "GB", "eu-west")),
    *((-6.3, 53.3, "IE", "eu-west"), (2.3, 48.9, "FR", "eu-west"), (5.4, 43.3, "FR", "eu-west")),
    *((-0.6, 44.8, "FR", "eu-west"), (-3.7, 40.4, "ES", "eu-west"), (2.2, 41.4, "ES", "eu-west")),
    *((-6.0, 37.4, "ES", "eu-west"), (-9.1, 38.7, "PT", "eu-west"), (4.4, 50.9, "BE", "eu-west")),
    *((4.9, 52.4, "NL", "eu-west"), (-22.0, 64.1, "IS", "eu-west")),
    *((8.7, 50.1, "DE", "eu-central"), (13.4, 52.5, "DE", "eu-central")),
    *((11.6, 48.1, "DE", "eu-central"), (10.0, 53.6, "DE", "eu-central")),
    *((8.5, 47.4, "CH", "eu-central"), (16.4, 48.2, "AT", "eu-central")),
    *((9.2, 45.5, "IT", "eu-central"), (12.5, 41.9, "IT", "eu-central")),
    *((14.3, 40.9, "IT", "eu-central"), (14.4, 50.1, "CZ", "eu-central")),
    *((12.6, 55.7, "DK", "eu-central"), (18.1, 59.3, "SE", "eu-central")),
    *((10.8, 59.9, "NO", "eu-central"), (24.9, 60.2, "FI", "eu-central")),
    *((21.0, 52.2, "PL", "eu-east"), (19.0, 47.5, "HU", "eu-east"), (26.1, 44.4, "RO", "eu-east")),
    *((23.3, 42.7, "BG", "eu-east"), (23.7, 38.0, "GR", "eu-east"), (20.5, 44.8, "RS", "eu-east")),
    *((30.5, 50.4, "UA", "eu-east"), (25.3, 54.7, "LT", "eu-east"), (24.1, 56.9, "LV", "eu-east")),
    *((37.6, 55.8, "RU", "eu-east"), (30.3, 59.9, "RU", "eu-east"), (49.1, 55.8, "RU", "eu-east")),
    *(
        (60.6, 56.8, "RU", "eu-east"),
        (82.9, 55.0, "RU", "asia-north"),
        (131.9, 43.1, "RU", "asia-north"),
    ),
    *((29.0, 41.0, "TR", "me"), (32.9, 39.9, "TR", "me"), (35.5, 33.9, "LB", "me")),
    *((34.8, 32.1, "IL", "me"), (44.4, 33.3, "IQ", "me"), (51.4, 35.7, "IR", "me")),
    *((46.7, 24.7, "SA", "me"), (39.2, 21.5, "SA", "me"), (55.3, 25.2, "AE", "me")),
    *((51.5, 25.3, "QA", "me"), (58.4, 23.6, "OM", "me"), (49.9, 40.4, "AZ", "me")),
    *((31.2, 30.0, "EG", "africa-north"), (3.1, 36.8, "DZ", "africa-north")),
    *((-7.6, 33.6, "MA", "africa-north"), (10.2, 36.8, "TN", "africa-north")),
    *((32.5, 15.6, "SD", "africa-north"), (-17.4, 14.7, "SN", "africa-north")),
    *((3.4, 6.5, "NG", "africa-south"), (-0.2, 5.6, "GH", "africa-south")),
    *((-4.0, 5.3, "CI", "africa-south"), (36.8, -1.3, "KE", "africa-south")),
    *((38.7, 9.0, "ET", "africa-south"), (39.3, -6.8, "TZ", "africa-south")),
    *((28.0, -26.2, "ZA", "africa-south"), (18.4, -33.9, "ZA", "africa-south")),
    *((13.2, -8.8, "AO", "africa-south"), (15.3, -4.3, "CD", "africa-south")),
    *((31.0, -17.8, "ZW", "africa-south"), (47.5, -18.9, "MG", "africa-south")),
    *((67.0, 24.9, "PK", "asia-south"), (74.3, 31.5, "PK", "asia-south")),
    *((77.2, 28.6, "IN", "asia-south"), (72.9, 19.1, "IN", "asia-south")),
    *((80.3, 13.1, "IN", "asia-south"), (88.4, 22.6, "IN", "asia-south")),
    *((78.5, 17.4, "IN", "asia-south"), (90.4, 23.8, "BD", "asia-south")),
    *((79.9, 6.9, "LK", "asia-south"), (85.3, 27.7, "NP", "asia-south")),
    *((69.2, 41.3, "UZ", "asia-north"), (76.9, 43.2, "KZ", "asia-north")),
    *((106.9, 47.9, "MN", "asia-north"), (92.9, 56.0, "RU", "asia-north")),
    *((116.4, 39.9, "CN", "asia-east"), (121.5, 31.2, "CN", "asia-east")),
    *((113.3, 23.1, "CN", "asia-east"), (104.1, 30.6, "CN", "asia-east")),
    *((87.6, 43.8, "CN", "asia-east"), (126.6, 45.8, "CN", "asia-east")),
    *((114.2, 22.3, "HK", "asia-east"), (121.6, 25.0, "TW", "asia-east")),
    *((127.0, 37.6, "KR", "asia-east"), (129.1, 35.2, "KR", "asia-east")),
    *((139.7, 35.7, "JP", "asia-east"), (135.5, 34.7, "JP", "asia-east")),
    *((141.4, 43.1, "JP", "asia-east"), (130.4, 33.6, "JP", "asia-east")),
    *((103.9, 1.3, "SG", "asia-southeast"), (101.7, 3.1, "MY", "asia-southeast")),
    *((106.8, -6.2, "ID", "asia-southeast"), (112.7, -7.3, "ID", "asia-southeast")),
    *((119.4, -5.1, "ID", "asia-southeast"), (100.5, 13.8, "TH", "asia-southeast")),
    *((106.7, 10.8, "VN", "asia-southeast"), (105.8, 21.0, "VN", "asia-southeast")),
    *((121.0, 14.6, "PH", "asia-southeast"), (96.2, 16.8, "MM", "asia-southeast")),
    *((151.2, -33.9, "AU", "oceania"), (145.0, -37.8, "AU", "oceania")),
    *((153.0, -27.5, "AU", "oceania"), (115.9, -31.9, "AU", "oceania")),
    *((138.6, -34.9, "AU", "oceania"), (174.8, -36.8, "NZ", "oceania")),
    *(
        (172.6, -43.5, "NZ", "oceania"),
        (178.4, -18.1, "FJ", "oceania"),
        (147.2, -9.4, "PG", "oceania"),
    ),
)

REGIONS: Final[tuple[str, ...]] = tuple(sorted({point[3] for point in _POINTS}))
"""All regions."""

_WHERE: Final = np.array([point[:2] for point in _POINTS])


def great_circle_km(
    lon: npt.ArrayLike, lat: npt.ArrayLike, to_lon: npt.ArrayLike, to_lat: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return the great-circle distance, with NumPy broadcasting."""
    a, b, c, d = (
        np.radians(np.asarray(value, dtype=float)) for value in (lon, lat, to_lon, to_lat)
    )
    h = np.sin((d - b) / 2) ** 2 + np.cos(b) * np.cos(d) * np.sin((c - a) / 2) ** 2
    found: npt.NDArray[np.float64] = 2 * _EARTH_KM * np.arcsin(np.sqrt(np.clip(h, 0, 1)))
    return found


def nearest(lon: npt.ArrayLike, lat: npt.ArrayLike) -> list[tuple[str, str]]:
    """Return country and region of each place."""
    lons = np.atleast_1d(np.asarray(lon, dtype=float))[:, None]
    lats = np.atleast_1d(np.asarray(lat, dtype=float))[:, None]
    which = great_circle_km(lons, lats, _WHERE[:, 0], _WHERE[:, 1]).argmin(axis=1)
    return [_POINTS[index][2:] for index in which]


# Fibre and relays

Floats = npt.NDArray[np.float64]

_KM_PER_MS: Final = 200.0
"""Speed of light in fibre."""
_HOP_MS: Final = 0.6
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
    rtt = 2 * km / _KM_PER_MS * inflation + _HOP_MS
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
