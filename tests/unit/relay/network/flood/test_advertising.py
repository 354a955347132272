"""Differences in messages: whole, split, or between the marks of a synchronisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from laps_relay.network.flood.advertising import Advertiser
from laps_relay.network.flood.floods import FloodTable
from laps_sdk.forwarding.interfaces import PeerEgress
from laps_sdk.peering.links import Link
from laps_wire.errors import EncodeError
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceAdvertise,
    AnnounceInfo,
    AnnounceKind,
    Bases,
    Feature,
    NodeAdvertise,
    NodeInfo,
    NodeSelf,
    NodeWithdraw,
    RelayType,
    Stamp,
    SubscribeAdvertise,
    SubscribeWithdraw,
    SyncBegin,
    SyncEnd,
)

NODE = NodeInfo(NodeSelf(NodeId(7), RelayType.VIA, Stamp(1, 1)))


class Table:
    """A table with something to tell."""

    def __init__(self, entries: tuple[object, ...] = (), ended: tuple[object, ...] = ()) -> None:
        self.entries = entries
        self.ended = ended
        self.resent: list[int] = []
        self.silences: dict[NodeId, float] = {}
        self.spoken: list[object] = []

    def flush(self, *_: object) -> tuple[tuple[object, ...], tuple[object, ...]]:
        return self.entries, self.ended

    def resend(self, session: int) -> None:
        self.resent.append(session)

    def take_spoken(self, peer: NodeId) -> dict[NodeId, float]:
        assert peer == 9
        taken, self.silences = self.silences, {}
        return taken

    def spoke(self, *arguments: object) -> None:
        assert not self.spoken
        self.spoken.append(arguments)
        self.entries = (object(),)


def made(
    nodes: Table, announces: Table, subscribes: Table
) -> tuple[Advertiser, Link, list[Any], Callable[[Any], None]]:
    advertiser = Advertiser(
        cast("Any", nodes),
        cast("FloodTable[Any, Any, Any]", announces),
        cast("FloodTable[Any, Any, Any]", subscribes),
    )
    link = Link(3, cast("PeerEgress", None), "laps-2", node=NodeId(9))
    sent: list[Any] = []
    return advertiser, link, sent, sent.append


def test_withdrawals_of_entries_come_before_entries() -> None:
    gone, entry = object(), object()
    nodes = Table((NODE,), (NodeId(5), NodeId(4)))
    advertiser, link, sent, send = made(nodes, Table(), Table((entry,), (gone,)))
    advertiser.flush(1.0, link, send)
    assert sent == [
        NodeAdvertise((NODE,)),
        NodeWithdraw((NodeId(4), NodeId(5))),
        SubscribeWithdraw((gone,)),  # type: ignore[arg-type] # only passed on
        SubscribeAdvertise((entry,)),  # type: ignore[arg-type] # only passed on
    ]
    assert nodes.resent == []


def test_a_synchronisation_has_a_beginning_and_an_end_and_is_asked_for_once() -> None:
    nodes, announces, subscribes = Table((NODE,)), Table(), Table()
    advertiser, link, sent, send = made(nodes, announces, subscribes)
    bases = Bases.NODES | Bases.ANNOUNCES | Bases.SUBSCRIBES
    link.sync = bases
    advertiser.flush(1.0, link, send)
    assert sent == [SyncBegin(bases), NodeAdvertise((NODE,)), SyncEnd(bases)]
    assert (nodes.resent, announces.resent, subscribes.resent) == ([9], [3], [3])
    sent.clear()
    advertiser.flush(2.0, link, send)
    assert sent == [NodeAdvertise((NODE,))]


def test_a_part_of_the_bases() -> None:
    nodes, announces, subscribes = Table(), Table(), Table()
    advertiser, link, sent, send = made(nodes, announces, subscribes)
    link.sync = Bases.ANNOUNCES
    advertiser.flush(1.0, link, send)
    assert sent == [SyncBegin(Bases.ANNOUNCES), SyncEnd(Bases.ANNOUNCES)]
    assert (nodes.resent, announces.resent, subscribes.resent) == ([], [3], [])


def test_names_go_only_where_they_are_agreed_on() -> None:
    name = FullTrackName.parse("room--video")
    bare = AnnounceInfo(NodeId(1), Stamp(1, 2), AnnounceKind.TRACK, (5,), 6, 7)
    named = replace(bare, plaintext=name)
    advertiser, link, sent, send = made(Table(), Table((named, bare)), Table())
    advertiser.flush(1.0, link, send)
    link.features = frozenset({Feature.PLAINTEXT_NAMES})
    advertiser.flush(1.0, link, send)
    assert sent == [AnnounceAdvertise((bare, bare)), AnnounceAdvertise((named, bare))]


def test_nobody_is_there_yet() -> None:
    advertiser, link, sent, send = made(Table((NODE,)), Table(), Table())
    link.node, link.sync = None, Bases.NODES
    advertiser.flush(1.0, link, send)
    assert sent == []


def test_what_a_node_said_follows_the_node_itself_after_a_long_silence() -> None:
    nodes, announces, subscribes = Table((NODE,)), Table(), Table()
    nodes.silences = {NodeId(7): 30.0}
    advertiser, link, sent, send = made(nodes, announces, subscribes)
    link.features = frozenset({Feature.PLAINTEXT_NAMES})
    advertiser.flush(1.0, link, send)
    assert announces.spoken == subscribes.spoken == [(1.0, 3, NodeId(7), 30.0)]
    assert [type(each) for each in sent] == [NodeAdvertise, AnnounceAdvertise, SubscribeAdvertise]
    advertiser.flush(2.0, link, send)


def test_an_entry_that_fits_no_message_is_left_out_and_the_others_are_sent() -> None:
    big = NodeInfo(NodeSelf(NodeId(8), RelayType.VIA, Stamp(1, 1), region="x" * 60))
    entry = object()
    advertiser, link, sent, keep = made(Table((NODE, big)), Table(), Table((entry,)))

    def send(message: object) -> None:
        if isinstance(message, NodeAdvertise) and big in message.nodes:
            raise EncodeError("too long")
        keep(message)

    advertiser.flush(1.0, link, send)
    assert sent == [
        NodeAdvertise((NODE,)),
        SubscribeAdvertise((entry,)),  # type: ignore[arg-type] # only passed on
    ]


def test_withdrawals_alone() -> None:
    gone = object()
    advertiser, link, sent, send = made(Table((), (NodeId(5),)), Table(), Table((), (gone,)))
    advertiser.flush(1.0, link, send)
    assert sent == [NodeWithdraw((NodeId(5),)), SubscribeWithdraw((gone,))]  # type: ignore[arg-type] # only passed on
