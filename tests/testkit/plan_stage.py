"""A small network in which a plan pays: an ocean, three relays behind it, Vias near them."""

from __future__ import annotations

from typing import Any

from laps_wire.nodeid import NodeId

__all__ = ["NODES", "stage_document"]

NODES = {
    name: NodeId(0x64_0007_0000_0000 + number)
    for number, name in enumerate(("o", "x", "y", "lonely", "e1", "e2", "e3"), 1)
}


def stage_document(**changed: dict[str, Any]) -> dict[str, Any]:
    """What a file of it says; ``changed`` is by the name of a relay."""
    places = {"o": ("edge", "us", "US"), "x": ("via", "eu", "DE"), "y": ("via", "eu", "FR")}
    places |= {"lonely": ("via", "eu", "DE")}
    relays = []
    for name, node in NODES.items():
        kind, region, country = places.get(name, ("edge", "eu", "DE"))
        row = {"name": name, "node_id": str(node), "type": kind, "region": region}
        relays.append({**row, "country": country, **changed.get(name, {})})
    links: list[dict[str, Any]] = [{"a": "lonely", "b": "o", "delay_ms": 40}]
    for end in ("e1", "e2", "e3"):
        links.append({"a": "o", "b": end, "delay_ms": 40})
        links += [{"a": via, "b": end, "delay_ms": 4} for via in ("x", "y")]
    links.append({"a": "o", "b": "x", "delay_ms": 38, "countries": ["US", "IE", "DE"]})
    demand = {"track": f"{0xFF:016x}", "class": "gold", "origin": "o", "at": ["e1", "e2", "e3"]}
    return {"relay": relays, "link": links, "demand": [demand]}
