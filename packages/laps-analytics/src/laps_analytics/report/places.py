"""Names of cities for the coordinates of relays, from ``topohub`` if it is installed."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import pandas as pd

__all__ = ["Places", "cities"]

_NEAR_KM = 60.0


@cache
def cities() -> tuple[tuple[float, float, str], ...]:
    """Return longitude, latitude and name of cities; empty without ``topohub``."""
    try:
        import topohub  # noqa: PLC0415 - an extra, and half a second
    except ImportError:
        return ()
    with warnings.catch_warnings():
        # topohub leaves its file to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        nodes: list[dict[str, Any]] = topohub.get("backbone/world")["nodes"]
    return tuple(
        sorted(
            (float(node["pos"][0]), float(node["pos"][1]), str(node["name"]))
            for node in nodes
            if node["type"] == "City"
        )
    )


class Places:
    """Display names of relays: the nearest city, and the node id."""

    def __init__(self, nodes: pd.DataFrame) -> None:
        """``nodes`` has the columns node, region, longitude and latitude."""
        self._names: dict[str, str] = {}
        self.regions: dict[str, str] = {}
        for row in nodes.itertuples():
            node = str(row.node)
            if isinstance(row.region, str) and row.region:
                self.regions[node] = row.region
            if pd.notna(row.longitude) and pd.notna(row.latitude):
                name = _city(float(row.longitude), float(row.latitude))
                if name:
                    self._names[node] = name

    def city(self, node: str) -> str:
        """Return the city of a relay; its node id if no city is near."""
        return self._names.get(node, node)

    def full(self, node: str) -> str:
        """Return ``Warsaw (0.1:0.7)``."""
        name = self._names.get(node)
        return node if name is None else f"{name} ({node})"

    def link(self, one: str, other: str) -> str:
        """Return ``Warsaw > Cairo``."""
        return f"{self.city(one)} > {self.city(other)}"


def _city(lon: float, lat: float) -> str | None:
    best, name = _NEAR_KM, None
    for there_lon, there_lat, there in cities():
        if abs(there_lat - lat) > 1:
            continue
        east = (there_lon - lon) * math.cos(math.radians(lat))
        km = math.hypot(east, there_lat - lat) * 111.2
        if km < best:
            best, name = km, there
    return name
