"""Which relays there are and how they are connected.

A topology is data: names, types, places and links. It comes from a generator
(:mod:`laps_relay.sim.scenarios.shapes`), from a TOML file, or from a real backbone
(:mod:`laps_relay.sim.scenarios.backbones`)::

    [[relay]]
    name = "sea1"                # also its contact
    type = "edge"                # edge, via, control
    region = "us"
    country = "US"
    location = [-122.3, 47.6]    # longitude, latitude

    [[link]]
    a = "sea1"                   # dials
    b = "lon1"
    delay_ms = 38.5              # one way; the light time of the two places if it is not given
    jitter_ms = 0.5
    loss = 0.001
    bandwidth_kbps = 10000
    bandwidth_back_kbps = 2000   # from b to a, if that is another one

The same in JSON is an object with the lists ``relay`` and ``link``.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from laps_wire.errors import LapsError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = [
    "LinkSpec",
    "RelaySpec",
    "Topology",
    "TopologyError",
    "light_delay",
    "read_document",
    "read_topology",
    "topology_of",
]

_EARTH_KM: Final = 6371.0
_FIBRE_KM_PER_SECOND: Final = 200_000.0
_DETOUR: Final = 1.2
"""Cables are longer than the distance."""
_BASE: Final = 0.0005
_TYPES: Final = {"edge": RelayType.EDGE, "via": RelayType.VIA, "control": RelayType.CONTROL}


class TopologyError(LapsError):
    """A topology that cannot be used, and what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySpec:
    """One relay; its name is its contact too."""

    name: str
    node_id: NodeId
    relay_type: RelayType = RelayType.EDGE
    region: str = ""
    location: tuple[float, float] | None = None
    """Longitude and latitude in degrees."""
    country: str = ""
    """Two letters; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """A configured peering: ``a`` dials ``b``."""

    a: str
    b: str
    delay: float
    """One-way delay in seconds."""
    jitter: float = 0.0
    loss: float = 0.0
    bandwidth: float | None = None
    """Bytes a second from ``a`` to ``b``; None: no limit."""
    bandwidth_back: float | None = None
    """The same from ``b`` to ``a``; None: as much as there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Relays and links."""

    name: str
    relays: tuple[RelaySpec, ...]
    links: tuple[LinkSpec, ...]

    def __post_init__(self) -> None:
        names = {relay.name for relay in self.relays}
        if len(names) != len(self.relays):
            raise TopologyError(f"{self.name}: two relays have the same name")
        if len({relay.node_id for relay in self.relays}) != len(self.relays):
            raise TopologyError(f"{self.name}: two relays have the same node ID")
        for link in self.links:
            for end in (link.a, link.b):
                if end not in names:
                    raise TopologyError(f"{self.name}: a link names {end!r}, which is no relay")
            if link.a == link.b:
                raise TopologyError(f"{self.name}: {link.a!r} has a link with itself")

    def relay(self, name: str) -> RelaySpec:
        """By its name."""
        return next(relay for relay in self.relays if relay.name == name)


def light_delay(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the one-way time of light in a cable between two places, with a detour."""
    (lon1, lat1), (lon2, lat2) = (map(math.radians, place) for place in (one, other))
    half = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    distance = 2 * _EARTH_KM * math.asin(math.sqrt(min(1.0, half)))
    return round(_BASE + _DETOUR * distance / _FIBRE_KM_PER_SECOND, 6)


def read_topology(file: Path) -> Topology:
    """A topology from a TOML or JSON file."""
    return topology_of(file, read_document(file))


def read_document(file: Path) -> Mapping[str, Any]:
    """Read a TOML or JSON file without checking its contents."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TopologyError(f"{file}: not UTF-8") from None
    if file.suffix != ".json":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise TopologyError(f"{file}: not TOML: {error}") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"{file}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise TopologyError(f"{file}: not an object with relay and link")
    return data


def topology_of(file: Path, data: Mapping[str, Any]) -> Topology:
    """Return the topology in the contents of a file; ``file`` is for messages."""
    relays = tuple(
        _relay(file, number, entry) for number, entry in enumerate(data.get("relay", []), 1)
    )
    if not relays:
        raise TopologyError(f"{file}: no [[relay]]")
    by_name = {relay.name: relay for relay in relays}
    links = tuple(_link(file, entry, by_name) for entry in data.get("link", []))
    return Topology(name=file.name, relays=relays, links=links)


def _relay(file: Path, number: int, entry: Mapping[str, Any]) -> RelaySpec:
    known = {"name", "type", "region", "country", "location", "node_id"}
    _no_others(file, f"relay {number}", entry, known)
    kind = entry.get("type", "edge")
    if kind not in _TYPES:
        raise TopologyError(f"{file}: relay {number}: type {kind!r} is none of {', '.join(_TYPES)}")
    place = entry.get("location")
    if place is not None and (not isinstance(place, list) or len(place) != 2):
        raise TopologyError(f"{file}: relay {number}: location is [longitude, latitude]")
    return RelaySpec(
        name=str(entry.get("name", f"r{number}")),
        node_id=NodeId.parse(entry["node_id"]) if "node_id" in entry else NodeId(number),
        relay_type=_TYPES[kind],
        region=str(entry.get("region", "")),
        location=None if place is None else (float(place[0]), float(place[1])),
        country=str(entry.get("country", "")),
    )


def _link(file: Path, entry: Mapping[str, Any], relays: Mapping[str, RelaySpec]) -> LinkSpec:
    known = {"a", "b", "delay_ms", "jitter_ms", "loss", "bandwidth_kbps", "bandwidth_back_kbps"}
    known.add("countries")
    _no_others(file, "link", entry, known)
    try:
        a, b = str(entry["a"]), str(entry["b"])
    except KeyError as error:
        raise TopologyError(f"{file}: a [[link]] has no {error.args[0]}") from None
    if "delay_ms" in entry:
        delay = float(entry["delay_ms"]) / 1000
    else:
        ends = [relays[name].location for name in (a, b) if name in relays]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            raise TopologyError(f"{file}: link {a} - {b}: give delay_ms, or two locations")
        delay = light_delay(ends[0], ends[1])

    def rate(key: str) -> float | None:
        return float(entry[key]) * 125 if key in entry else None

    return LinkSpec(
        a=a,
        b=b,
        delay=delay,
        jitter=float(entry.get("jitter_ms", 0)) / 1000,
        loss=float(entry.get("loss", 0)),
        bandwidth=rate("bandwidth_kbps"),
        bandwidth_back=rate("bandwidth_back_kbps"),
    )


def _no_others(file: Path, what: str, entry: Mapping[str, Any], known: set[str]) -> None:
    others = sorted(set(entry) - known)
    if others:
        raise TopologyError(f"{file}: {what}: unknown key {others[0]!r}")
