"""Advertisements: export rules, messages for each peer, and denied exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from laps_relay.network.advertisements import Advertiser, ExportDenied
from laps_relay.network.events import SubscribeRefused
from laps_relay.network.flood.floods import FloodTable
from laps_relay.policy import OpenPolicy
from laps_relay.policy.facts import stranger
from laps_sdk.forwarding.interfaces import PeerEgress
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import Link
from laps_sdk.upstream.interfaces import Answer
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
    SubscribeCode,
    SubscribeInfo,
    SubscribeWithdraw,
    SyncBegin,
    SyncEnd,
)
from laps_wire.peering.laps2.information import NO_DATA
from testkit.relay_net import OTHER, RelayNet
from testkit.relay_shapes import square
from testkit.subscription_rig import subscribe_info, track

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


CONTROL = RelayType.CONTROL
A = NodeId(1)


class Secretive(OpenPolicy):
    """Some peers hear of nothing."""

    __slots__ = ("peers",)

    def __init__(self, *peers: int) -> None:
        self.peers = peers

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("export", "no") if peer.node_id in self.peers else None

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("export", "no") if peer.node_id in self.peers else None


def test_what_policy_lets_out() -> None:
    net = RelayNet()
    net.add(1, policy=Secretive(3))
    net.add(2)
    net.add(3)
    net.join(1, 2)
    net.join(1, 3)
    net.publish(1)
    net.publish(2)
    net.subscribe(1)
    net.run()
    assert [row.source for row in net.relays[2].tables.announce_rows()] == [2, 1]
    assert [row.source for row in net.relays[2].tables.subscribe_rows()] == [1]
    assert net.relays[3].tables.announce_rows() == []
    assert net.relays[3].tables.subscribe_rows() == []
    # Another policy: what was kept back is told, and taken back again.
    net.relays[1].set_policy(net.now, OpenPolicy())
    net.run()
    assert [row.source for row in net.relays[3].tables.announce_rows()] == [1, 2]
    net.relays[1].set_policy(net.now, Secretive(3))
    net.run(8)
    assert net.relays[3].tables.announce_rows() == []


def test_an_export_to_a_session_that_is_not_there() -> None:
    net = square()
    relay = net.relays[1]
    net.publish(1)
    net.subscribe(1, OTHER)
    (announce,) = relay.announces.live()
    (subscribe,) = relay.subscribes.live()
    assert not relay.exports.announce(99, announce)
    assert not relay.exports.subscribe(99, subscribe)
    assert relay.exports.announce(net.session(1, 2), announce)


def test_a_control_server_has_rules_of_its_own_even_when_it_is_empty() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.add(9, CONTROL)
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.publish(1)
    net.run(2)
    # Namespaces are for everybody to discover; tracks are too many.
    assert [row.source for row in net.relays[9].tables.announce_rows()] == [A]
    assert net.relays[2].tables.announce_rows() == []


def test_a_control_server_says_what_it_keeps_from_who_announced_it() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.add(9, CONTROL, policy=Secretive(1))
    net.dial_for_ever(1, 9)
    net.dial_for_ever(2, 9)
    net.publish(1)
    net.publish(2)  # who asks has announced it, too: it does not serve itself
    net.run(2)
    net.subscribe(2)
    net.run(3)
    server = net.relays[9]
    (subscribe,) = server.subscribes.live()
    assert [event.reason for event in net.told(9, SubscribeRefused)] == ["no"]
    assert (Answer.REFUSED, SubscribeCode.POLICY) in net.answers(2)
    assert net.relays[1].subscribes.get(subscribe.identity) is None


ENTRY = subscribe_info(3, track("a/b"), NO_DATA)


class Keeps(OpenPolicy):
    """Some peers hear of nothing."""

    __slots__ = ("peers",)

    def __init__(self, *peers: int) -> None:
        self.peers = peers

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("export", f"not to {peer.node_id}") if peer.node_id in self.peers else None


class Leads:
    """Peers 1, 2 and 4, and which of them lead to a publisher."""

    def __init__(self, *peers: int) -> None:
        self.peers = peers
        self.denied = ExportDenied(self.of)

    def is_due(self) -> bool:
        return self.denied.again

    def of(self, entry: SubscribeInfo) -> Iterator[tuple[NodeSelf, bool]]:
        assert entry.source == 3
        return ((stranger(NodeId(peer)), peer in self.peers) for peer in (1, 2, 4))


def test_it_is_said_if_nobody_hears_of_it() -> None:
    case = Leads(1, 2)
    assert case.denied.check(Keeps(1), ENTRY) is None
    assert case.denied.check(Keeps(2), ENTRY) is None
    refusal = case.denied.check(Keeps(1, 2), ENTRY)
    assert refusal == Refusal("export", "not to 0.0:0.1")
    assert case.denied.check(Keeps(1, 2), ENTRY) is None
    assert case.denied.check(Keeps(1, 2), replace(ENTRY, stamp=Stamp(1, 2))) == refusal
    assert len(case.denied) == 1
    # It went out meanwhile: then it is news again.
    assert case.denied.check(Keeps(), ENTRY) is None
    assert len(case.denied) == 0
    assert case.denied.check(Keeps(1, 2), ENTRY) == refusal
    case.denied.forget((NodeId(3), ENTRY.full_name_hash))
    assert (len(case.denied), case.denied.again) == (0, False)


def test_nobody_to_tell_is_no_matter_of_policy() -> None:
    assert Leads().denied.check(Keeps(1, 2), ENTRY) is None


def test_other_ways_matter_if_anything_is_kept_from_anybody() -> None:
    case = Leads(1)
    assert case.denied.check(Keeps(), ENTRY) is None
    case.denied.paths_removed()
    assert not case.is_due()
    assert case.denied.check(Keeps(2), ENTRY) is None
    case.denied.paths_removed()
    assert case.is_due()
    case.peers = (2,)
    assert case.denied.check(Keeps(2), ENTRY) == Refusal("export", "not to 0.0:0.2")
