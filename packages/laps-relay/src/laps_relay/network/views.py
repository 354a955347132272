"""Rows of the network's tables, for the admin: plain values, read between two turns."""

from __future__ import annotations

from typing import NamedTuple

from laps_sdk.peering.links import Links
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId

__all__ = [
    "AnnounceRow",
    "FibRow",
    "NodeRow",
    "PeerRow",
    "SetRow",
    "SubscribeRow",
    "TableSizes",
    "peer_rows",
]


class TableSizes(NamedTuple):
    """How much there is of everything."""

    nodes: int
    """This relay included."""
    announces: int
    subscribes: int
    sets_in: int
    sets_out: int
    fib: int


class PeerRow(NamedTuple):
    """One connection to another relay."""

    session: int
    node: NodeId | None
    """None while the handshake is under way."""
    relay_type: str
    region: str
    alpn: str
    control: bool
    sends: bool
    receives: bool
    dialled: bool
    on_demand: bool
    leaving: bool
    guest: bool
    """A Stub or a C++ relay: known here only."""
    opened: float
    srtt_us: int
    loss: float


class NodeRow(NamedTuple):
    """A node and the best path to it."""

    node: NodeId
    relay_type: str
    region: str
    epoch: int
    sequence: int
    load_class: str
    load: int
    contacts: tuple[str, ...]
    longitude: float | None
    latitude: float | None
    next_hop: NodeId | None
    """None: this relay, or no peer forwards to it."""
    hops: int
    cost_us: int
    path: tuple[NodeId, ...]
    """From the next hop to the node."""
    ways: int
    """How many paths are known."""
    rtt_us: int | None = None
    """The shortest known round trip, by our sessions and by probes."""


class AnnounceRow(NamedTuple):
    """An announce of a node."""

    source: NodeId
    kind: str
    key: int
    name: FullTrackName | None
    """If announces carry names."""
    epoch: int
    sequence: int
    session: int | None
    """Where it came from; None: our own."""


class SubscribeRow(NamedTuple):
    """A subscribe of a node."""

    source: NodeId
    key: int
    name: FullTrackName | None
    """If we know it: our own, and those of tracks that we publish."""
    epoch: int
    sequence: int
    session: int | None


class SetRow(NamedTuple):
    """A subscriber node set."""

    session: int
    sns_id: int
    incoming: bool
    targets: tuple[NodeId, ...]
    scope: str
    hops: int
    key: int | None
    retiring: bool


class FibRow(NamedTuple):
    """Where data of one ingress goes."""

    session: int
    """0: our own clients."""
    set_id: int
    egress: tuple[tuple[int, int], ...]
    """(session, SNS id) of each."""
    local: bool
    key: int | None
    streams: int
    datagrams: int
    bytes_in: int
    bytes_out: int


def peer_rows(links: Links) -> list[PeerRow]:
    """All connections."""
    return [
        PeerRow(
            session=link.session,
            node=link.node,
            relay_type="" if link.info is None else link.info.node.relay_type.name.lower(),
            region="" if link.info is None else link.info.node.region,
            alpn=link.alpn,
            control=link.control,
            sends=link.sends,
            receives=link.receives,
            dialled=link.dial is not None,
            on_demand=link.dial is not None and link.dial.dynamic,
            leaving=link.leaving,
            guest=link.foreign_peer is not None,
            opened=link.opened,
            srtt_us=link.srtt_us,
            loss=link.loss,
        )
        for link in links.by_session.values()
    ]
