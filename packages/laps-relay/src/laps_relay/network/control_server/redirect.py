"""Where the clients of a draining relay go: to a near relay with the same subscriptions.

Seed 000, "Optimizing Peering using MoQT GOAWAY": an Edge knows from its information bases which
other relays receive the tracks of its clients. A client that is sent there costs the network
nothing new, and its tracks arrive there already::

    client's tracks --> holders: nodes that subscribe to them, or publish them
    nodes           --> places:  Edges that take clients, are not overloaded and do not drain
                                   |
                                   v
                        choose:  near, not busy, most of the tracks; if none is near the nearest

Near is the same region. Where regions are not configured, near is a short round trip. A client
stays near even if a distant relay has its tracks: the distance would delay every object. Among
equal places the session number decides, so that clients are spread.

The address for clients is in the node information of an Edge, as the label ``client`` (laps-2,
5.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from laps_wire.matching import Announce, AnnounceIndex, Subscribe
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, LoadClass, NodeSelf, RelayType, SubscribeInfo

__all__ = [
    "CLIENT_LABEL",
    "NEAR_US",
    "STEP_US",
    "ClientTrack",
    "Place",
    "choose",
    "client_address",
    "holders",
    "is_loopback_url",
    "is_near",
    "is_place",
    "places",
    "takes_clients",
]

CLIENT_LABEL: Final = "client"
"""The label of node information that says where clients connect: ``moqt://host:port``."""

NEAR_US: Final = 30_000
"""A round trip that is near where no regions are configured, in microseconds."""
STEP_US: Final = 20_000
"""Round trips of places far away that differ by less are equal."""

_FULL: Final = (LoadClass.OVERLOADED, LoadClass.DRAINING)


class Place(NamedTuple):
    """A relay to which clients can be sent."""

    node: NodeId
    url: str
    """``moqt://host:port``."""
    region: str
    rtt_us: int | None
    """None: not measured, and no path for data is known."""
    busy: bool = False


class ClientTrack(NamedTuple):
    """A track that a client has, by its hashes."""

    key: int
    """The full-name hash."""
    track: Subscribe[int]


def _authority(url: str) -> tuple[str, int] | None:
    """Return host and port of the address of an Edge; None if the address is not valid."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    plain = url.isascii() and url.isprintable() and "@" not in url
    if parts.scheme != "moqt" or not parts.hostname or not port or not plain:
        return None
    return None if parts.path or parts.query or parts.fragment else (parts.hostname, port)


def is_place(url: str) -> bool:
    """Return whether clients can be sent to a URL: ``moqt://host:port``."""
    return _authority(url) is not None


def is_loopback_url(url: str) -> bool:
    """Return whether only clients on the same machine can use a URL."""
    found = _authority(url)
    if found is None:
        return False
    host, _ = found
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(node: NodeSelf) -> str:
    return next((label.value for label in node.labels if label.key == CLIENT_LABEL), "")


def takes_clients(node: NodeSelf) -> bool:
    """Return whether clients of other relays can be sent to a node."""
    return (
        node.relay_type is RelayType.EDGE
        and node.load.load_class not in _FULL
        and is_place(_address(node))
    )


def places(
    nodes: Iterable[tuple[NodeSelf, int | None]], *, own_url: str, loopback: bool
) -> list[Place]:
    """Return the Edges that may take clients, of nodes and the round trip to each.

    ``own_url`` is no place: a worker beside this relay shares its address. Loopback addresses are
    included only with ``loopback``.
    """
    found = []
    for node, rtt_us in nodes:
        url = _address(node)
        if takes_clients(node) and url != own_url and (loopback or not is_loopback_url(url)):
            busy = node.load.load_class is LoadClass.BUSY
            found.append(Place(node.node_id, url, node.region, rtt_us, busy))
    return found


def holders(
    wanted: Iterable[ClientTrack],
    subscribes: Iterable[SubscribeInfo],
    announces: Iterable[AnnounceInfo],
) -> dict[int, frozenset[NodeId]]:
    """Return by key the nodes that have a track already: their clients receive or publish it."""
    tracks = {item.key: item.track for item in wanted}
    found: dict[int, set[NodeId]] = {key: set() for key in tracks}
    for entry in subscribes:
        if entry.full_name_hash in found:
            found[entry.full_name_hash].add(entry.source)
    index: AnnounceIndex[int, NodeId] = AnnounceIndex()
    for announce in announces:
        index.add(Announce(announce.element_hashes, announce.name_hash), announce.source)
    for key, track in tracks.items():
        found[key].update(index.match(track))
    return {key: frozenset(nodes) for key, nodes in found.items()}


def choose(
    keys: Collection[int],
    candidates: Iterable[Place],
    having: Mapping[int, Collection[NodeId]],
    *,
    region: str = "",
    session: int = 0,
) -> Place | None:
    """Return the best place for a client with tracks of these keys; None if there is none."""
    best: tuple[bool | int, ...] | None = None
    equals: list[Place] = []
    for place in candidates:
        near = is_near(place, region)
        shared = sum(place.node in having.get(key, ()) for key in keys)
        rank: tuple[bool | int, ...] = (not near, place.busy, -shared)
        if not near:
            rank += (place.rtt_us is None, (place.rtt_us or 0) // STEP_US)
        if best is None or rank < best:
            best, equals = rank, []
        if rank == best:
            equals.append(place)
    equals.sort(key=lambda place: place.node)
    return equals[session % len(equals)] if equals else None


def is_near(place: Place, region: str) -> bool:
    """Return whether a place is near for a client of this region."""
    if region and place.region:
        return place.region == region
    return place.rtt_us is not None and place.rtt_us <= NEAR_US


def client_address(url: str, *, webtransport: bool, path: str = "") -> str:
    """Return the address of a place for a client: with the client's scheme and path."""
    rest = url.partition("://")[2]
    if webtransport:
        return f"https://{rest}{path or '/'}"
    return f"moqt://{rest}{path}"
