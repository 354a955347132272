"""The tables of a relay as rows, for the admin and for tests; read between two turns."""

from __future__ import annotations

from itertools import islice
from typing import Final

from laps_relay.network.flood.floods import AnnounceTable, SubscribeTable
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.own_node import OwnNode
from laps_relay.network.nodes.probing import Prober
from laps_relay.network.sets.sets import Sets
from laps_relay.network.subscriptions.origin_role import OriginRole
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
from laps_wire.peering.laps2 import NodeInfo, SubscribeInfo

__all__ = ["ALL", "RelayTables"]

ALL: Final = slice(0, None)
"""A table as a whole. Of a large one only some rows are made at a time, or the relay would stand
still for seconds."""


class RelayTables:
    """All tables of one relay."""

    __slots__ = (
        "_announces",
        "_dialler",
        "_links",
        "_nib",
        "_origin",
        "_own",
        "_plane",
        "_prober",
        "_sets",
        "_subscribes",
    )

    def __init__(
        self,
        own: OwnNode,
        *,
        links: Links,
        nib: Nib,
        announces: AnnounceTable,
        subscribes: SubscribeTable,
        origin: OriginRole,
        sets: Sets,
        plane: PeerPlane,
        prober: Prober,
        dialler: Dialler,
    ) -> None:
        self._own = own
        self._links = links
        self._nib = nib
        self._announces = announces
        self._subscribes = subscribes
        self._origin = origin
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
        """Return the node information base, this relay first."""
        own, round_trips = self._own.info, self._prober.round_trips()
        rows = []
        for node in [own.node.node_id, *self._nib.nodes()][part]:
            info = own if node == own.node.node_id else self._nib.info(node)
            if info is not None:
                rows.append(self._node_row(info, round_trips.get(node)))
        return rows

    def _node_row(self, info: NodeInfo, rtt_us: int | None) -> NodeRow:
        node = info.node
        best = self._nib.best(node.node_id)
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
            ways=len(self._nib.candidates(node.node_id)),
            rtt_us=rtt_us,
        )

    def announce_rows(self, part: slice = ALL) -> list[AnnounceRow]:
        """Return the announces in use."""
        return [
            AnnounceRow(
                source=entry.source,
                kind=entry.kind.name.lower(),
                key=entry.full_name_hash,
                name=entry.plaintext,
                epoch=entry.stamp.epoch,
                sequence=entry.stamp.sequence,
                session=self._announces.heard_on(entry.identity),
            )
            for entry in islice(self._announces.live(part.start), _length(part))
        ]

    def subscribe_rows(self, part: slice = ALL) -> list[SubscribeRow]:
        """Return the subscribes in use."""
        entries = islice(self._subscribes.live(part.start), _length(part))
        return [self._subscribe_row(entry) for entry in entries]

    def subscribe_rows_of(self, key: int) -> list[SubscribeRow]:
        """Return the subscribes of one track; reads each source once, not each entry."""
        return [self._subscribe_row(entry) for entry in self._subscribes.of_key(key)]

    def _subscribe_row(self, entry: SubscribeInfo) -> SubscribeRow:
        return SubscribeRow(
            source=entry.source,
            key=entry.full_name_hash,
            name=self._origin.name(entry.full_name_hash),
            epoch=entry.stamp.epoch,
            sequence=entry.stamp.sequence,
            session=self._subscribes.heard_on(entry.identity),
        )

    def sets(self) -> list[SetRow]:
        """Return the sets of peers and our own, each ingress followed by its egress."""
        rows: list[SetRow] = []
        for row in self._sets.rows():
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

    def fib(self) -> list[FibRow]:
        """Return the FIB as rows."""
        keys = {row.ingress: row.key for row in self._sets.rows()}
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
            for ingress, (egress, local, counters) in self._plane.entries().items()
        ]


def _length(part: slice) -> int | None:
    return None if part.stop is None else max(0, part.stop - part.start)
