"""The tables of a relay as rows, for the admin and for tests; read between two turns."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from laps_relay.network.flood.floods import AnnounceTable, SubscribeTable
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.own_node import OwnNode
from laps_relay.network.nodes.path_finder import PathFinder
from laps_relay.network.nodes.probing import Prober
from laps_relay.network.sets.sets import Sets
from laps_relay.network.subscriptions.subscriptions import Subscriptions
from laps_relay.network.views import (
    AnnounceRow,
    FibRow,
    NodeRow,
    PeerRow,
    SetRow,
    SubscribeRow,
    TableSizes,
    peer_rows,
)
from laps_relay.peer_forwarding.forwarding import LOCAL
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_sdk.peering.dialler import Dialler, DialRow
from laps_sdk.peering.links import Links
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, SubscribeInfo

__all__ = [
    "ALL",
    "RelayTables",
    "announce_rows",
    "fib_rows",
    "node_rows",
    "set_rows",
    "subscribe_rows",
    "subscribe_rows_of",
]

_NOTHING: Final[Mapping[NodeId, int]] = MappingProxyType({})
ALL: Final = slice(0, None)
"""A table as a whole. Of a large one only some rows are made at a time, or the relay would stand
still for seconds."""


def node_rows(
    own: NodeInfo, nib: Nib, part: slice = ALL, round_trips: Mapping[NodeId, int] = _NOTHING
) -> list[NodeRow]:
    """Return a row for each node, this relay first."""
    rows = []
    for node in [own.node.node_id, *nib.nodes()][part]:
        info = own if node == own.node.node_id else nib.info(node)
        if info is not None:
            rows.append(_node_row(info, nib, round_trips.get(node)))
    return rows


def _node_row(info: NodeInfo, nib: Nib, rtt_us: int | None) -> NodeRow:
    node = info.node
    best = nib.best(node.node_id)
    return NodeRow(
        node=node.node_id,
        relay_type=node.relay_type.name.lower(),
        region=node.region,
        epoch=node.stamp.epoch,
        sequence=node.stamp.sequence,
        load_class=node.load.load_class.name.lower(),
        load=node.load.value,
        contacts=node.contacts,
        longitude=None if node.location is None else node.location.longitude,
        latitude=None if node.location is None else node.location.latitude,
        next_hop=None if best is None else best.peer,
        hops=0 if best is None else best.hops,
        cost_us=0 if best is None else best.cost_us,
        path=() if best is None else best.relays,
        ways=len(nib.candidates(node.node_id)),
        rtt_us=rtt_us,
    )


def announce_rows(announces: AnnounceTable, part: slice = ALL) -> list[AnnounceRow]:
    """Return the announces in use."""
    return [
        AnnounceRow(
            source=entry.source,
            kind=entry.kind.name.lower(),
            key=entry.full_name_hash,
            name=entry.plaintext,
            epoch=entry.stamp.epoch,
            sequence=entry.stamp.sequence,
            session=announces.heard_on(entry.identity),
        )
        for entry in islice(announces.live(part.start), _length(part))
    ]


def subscribe_rows(
    subscribes: SubscribeTable, subscriptions: Subscriptions, part: slice = ALL
) -> list[SubscribeRow]:
    """Return the subscribes in use."""
    return [
        _subscribe_row(entry, subscribes, subscriptions)
        for entry in islice(subscribes.live(part.start), _length(part))
    ]


def subscribe_rows_of(
    subscribes: SubscribeTable, subscriptions: Subscriptions, key: int
) -> list[SubscribeRow]:
    """Return the subscribes of one track; reads each source once, not each entry."""
    return [_subscribe_row(entry, subscribes, subscriptions) for entry in subscribes.of_key(key)]


def _subscribe_row(
    entry: SubscribeInfo, subscribes: SubscribeTable, subscriptions: Subscriptions
) -> SubscribeRow:
    return SubscribeRow(
        source=entry.source,
        key=entry.full_name_hash,
        name=subscriptions.name(entry.full_name_hash),
        epoch=entry.stamp.epoch,
        sequence=entry.stamp.sequence,
        session=subscribes.heard_on(entry.identity),
    )


def _length(part: slice) -> int | None:
    return None if part.stop is None else max(0, part.stop - part.start)


def set_rows(sets: Sets) -> list[SetRow]:
    """Return the sets of peers and our own, each ingress followed by its egress."""
    rows: list[SetRow] = []
    for row in sets.rows():
        if row.ingress.session != LOCAL:
            rows.append(
                SetRow(
                    session=row.ingress.session,
                    sns_id=row.ingress.set_id,
                    incoming=True,
                    targets=row.targets,
                    scope=row.scope,
                    hops=row.hops - 1,
                    key=row.key,
                    retiring=False,
                )
            )
        rows += [
            SetRow(
                session=each.egress.session,
                sns_id=each.egress.sns_id,
                incoming=False,
                targets=each.targets,
                scope=row.scope,
                hops=row.hops,
                key=row.key,
                retiring=each.retired,
            )
            for each in row.egress
        ]
    return rows


def fib_rows(plane: PeerPlane, sets: Sets) -> list[FibRow]:
    """Return the FIB as rows."""
    keys = {row.ingress: row.key for row in sets.rows()}
    return [
        FibRow(
            session=ingress.session,
            set_id=ingress.set_id,
            egress=tuple((each.session, each.sns_id) for each in egress),
            local=local,
            key=keys.get(ingress),
            streams=counters.streams,
            datagrams=counters.datagrams,
            bytes_in=counters.bytes_in,
            bytes_out=counters.bytes_out,
        )
        for ingress, (egress, local, counters) in plane.entries().items()
    ]


class RelayTables:
    """All tables of one relay."""

    __slots__ = (
        "_announces",
        "_dialler",
        "_links",
        "_nib",
        "_own",
        "_paths",
        "_plane",
        "_prober",
        "_sets",
        "_subscribes",
        "_subscriptions",
    )

    def __init__(
        self,
        own: OwnNode,
        *,
        links: Links,
        nib: Nib,
        paths: PathFinder,
        announces: AnnounceTable,
        subscribes: SubscribeTable,
        subscriptions: Subscriptions,
        sets: Sets,
        plane: PeerPlane,
        prober: Prober,
        dialler: Dialler,
    ) -> None:
        self._own = own
        self._links = links
        self._nib = nib
        self._paths = paths
        self._announces = announces
        self._subscribes = subscribes
        self._subscriptions = subscriptions
        self._sets = sets
        self._plane = plane
        self._prober = prober
        self._dialler = dialler

    def peers(self) -> list[PeerRow]:
        """Return all connections."""
        return peer_rows(self._links)

    def contacts(self) -> list[DialRow]:
        """Return the addresses that are dialled, and the state of each."""
        return self._dialler.rows()

    def sizes(self) -> TableSizes:
        """Return the sizes of the tables, without making rows."""
        return TableSizes(
            nodes=1 + self._nib.size,
            announces=self._announces.size,
            subscribes=self._subscribes.size,
            sets_in=self._sets.incoming,
            sets_out=self._sets.living,
            fib=self._plane.fib_size(),
        )

    def nodes(self, part: slice = ALL) -> list[NodeRow]:
        """Return the node information base."""
        return node_rows(self._own.info, self._nib, part, self._prober.round_trips())

    def announce_rows(self, part: slice = ALL) -> list[AnnounceRow]:
        """Return the announces."""
        return announce_rows(self._announces, part)

    def subscribe_rows(self, part: slice = ALL) -> list[SubscribeRow]:
        """Return the subscribes."""
        return subscribe_rows(self._subscribes, self._subscriptions, part)

    def subscribe_rows_of(self, key: int) -> list[SubscribeRow]:
        """Return the subscribes for one track."""
        return subscribe_rows_of(self._subscribes, self._subscriptions, key)

    def sets(self) -> list[SetRow]:
        """Return all subscriber node sets."""
        return set_rows(self._sets)

    def fib(self) -> list[FibRow]:
        """Return the FIB as rows."""
        return fib_rows(self._plane, self._sets)
