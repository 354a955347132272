"""Messages of peers, valid and invalid, do no harm to other peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from laps_relay.network.adjacency import MAX_VIOLATIONS
from laps_relay.network.advertisements import AdvertisementSchedule
from laps_relay.network.events import SetChanged, SetGone, SetRefused, SubscribeRefused
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.relay import NetworkRelay
from laps_relay.policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import Link
from laps_sdk.peering.reports import NodeSuspected, PeerFaulted, PeerGone, PeerLeaving, PeerStays
from laps_sdk.upstream.interfaces import Answer
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    AnnounceAdvertise,
    AnnounceInfo,
    AnnounceKind,
    AnnounceWithdraw,
    AnnounceWithdrawal,
    Bases,
    DataHeader,
    DataKind,
    Evidence,
    Feature,
    FetchCancel,
    NodeAdvertise,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    NodeSignature,
    NodeWithdraw,
    Probe,
    ProbeResponse,
    RelayType,
    SnsRefusal,
    Stamp,
    SubscribeAdvertise,
    SubscribeCode,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdraw,
    SubscribeWithdrawal,
    SyncRequest,
)
from laps_wire.peering.laps2.forwarding import encode_data_header
from testkit.fetch_rig import request_of
from testkit.relay_ends import OpenAuthenticator
from testkit.relay_net import OTHER, TRACK, RelayNet, key_of

VIA = RelayType.VIA
EARLY = DataHeader(DataKind.STREAM, 1, 7, 9)


class Filters(OpenPolicy):
    """Nothing of some sources comes in."""

    __slots__ = ("sources",)

    def __init__(self, *sources: int) -> None:
        self.sources = sources

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("import", "no") if entry.source in self.sources else None

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("import", "not from there") if entry.source in self.sources else None


def chain(policy: OpenPolicy | None = None) -> RelayNet:
    """Edge 1, Via 2 with a policy, Edge 3."""
    net = RelayNet()
    net.add(1)
    net.add(2, VIA, policy=policy or OpenPolicy())
    net.add(3)
    net.join(1, 2)
    net.join(2, 3)
    net.run()
    return net


def pair() -> RelayNet:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.join(1, 2)
    net.run()
    return net


# Policy


def test_a_filter_on_the_way_tells_the_subscriber_and_why() -> None:
    net = chain(Filters(3))
    net.publish(1)
    net.run()
    net.subscribe(3)
    # Another way may lead past the filter: that is waited for a moment.
    net.run(1.2)
    ((_, answer, code, reason),) = net.clients[3].answers
    assert (answer, code, reason) == (Answer.REFUSED, SubscribeCode.POLICY, "not from there")
    assert [event.source for event in net.told(2, SubscribeRefused)] == [3]
    assert net.relays[1].tables.subscribe_rows() == []


def test_a_filter_for_announces() -> None:
    net = chain(Filters(1))
    net.publish(1)
    net.publish(3)
    net.run()
    assert [row.source for row in net.relays[2].tables.announce_rows()] == [3]
    assert (net.clients[1].known, net.clients[3].known) == ([TRACK], [])


# Names


def test_names_stay_where_they_are_agreed_on() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2, VIA)
    net.add(3, plaintext_names=False)
    net.join(1, 2)
    net.join(2, 3)
    net.publish(1)
    net.run()
    names = {number: next(net.relays[number].announces.live()).plaintext for number in net.relays}
    assert names == {1: TRACK, 2: TRACK, 3: None}
    # A name that comes where none belongs is ignored; what else the announce says holds.
    entry = AnnounceInfo(NodeId(3), Stamp(3, 99), AnnounceKind.TRACK, (1, 2), 3, 4, OTHER)
    net.say(3, 2, AnnounceAdvertise((entry,)))
    net.run()
    assert net.relays[2].announces.get(entry.identity) == replace(entry, plaintext=None)


# Tables


def test_withdrawals_follow_the_same_ways() -> None:
    net = chain()
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run()
    net.unsubscribe(3)
    net.relays[1].withdraw(net.now, next(net.relays[1].announces.live()).kind, TRACK)
    net.run(7)
    for number in (1, 2, 3):
        assert net.relays[number].tables.announce_rows() == []
        assert net.relays[number].tables.subscribe_rows() == []
    net.say(2, 1, NodeWithdraw((NodeId(3),)))
    net.run(0.1)
    assert [row.node for row in net.relays[1].tables.nodes()] == [1, 2]


def test_what_a_peer_asks_for_is_told_again() -> None:
    net = chain()
    net.publish(1)
    net.subscribe(3)
    net.run()
    # Node 3 is not told again by itself; after a synchronisation it is known.
    net.say(2, 1, NodeWithdraw((NodeId(3),)))
    net.run()
    assert net.way(1, 3) == ()
    net.say(1, 2, SyncRequest(Bases.NODES | Bases.ANNOUNCES | Bases.SUBSCRIBES | Bases.SNS))
    net.run()
    assert net.way(1, 3) == (2, 3)
    assert [row.source for row in net.relays[1].tables.subscribe_rows()] == [3]


def test_nobody_is_told_everything_as_often_as_he_likes() -> None:
    net = chain()
    net.publish(1)
    net.subscribe(3)
    net.run(5)
    begun: list[float] = []
    sync_ended = Nib.sync_ended

    def counted(self: Nib, now: float, peer: NodeId) -> None:
        begun.append(now)
        sync_ended(self, now, peer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Nib, "sync_ended", counted)
        for _ in range(300):
            net.say(1, 2, SyncRequest(Bases.NODES))
            net.run(0.01)
        net.run(3)
    assert 3 <= len(begun) <= 5
    assert [row.source for row in net.relays[1].tables.subscribe_rows()] == [3]


def test_a_control_stream_that_moves_is_followed_by_a_synchronisation() -> None:
    net = chain()
    net.publish(1)
    net.subscribe(3)
    net.run()
    tables = [
        (
            relay.tables.nodes(),
            relay.tables.announce_rows(),
            relay.tables.subscribe_rows(),
            relay.tables.sets(),
        )
        for relay in net.relays.values()
    ]
    session = net.session(1, 2)
    stream = net.begin(1, b"all the ")
    net.run(0.1)
    # Relay 1 dialled: it opens the next control stream when it loses the first one.
    net.relays[1].control_reset(net.now, session, 0)
    net.relays[1].control_stopped(net.now, session, 0)
    net.run(3)
    stream.write(b"time", fin=True)
    net.run()
    assert net.got(3) == [[b"all the time"]]
    assert tables == [
        (
            relay.tables.nodes(),
            relay.tables.announce_rows(),
            relay.tables.subscribe_rows(),
            relay.tables.sets(),
        )
        for relay in net.relays.values()
    ]
    assert net.told(1, PeerGone) == []


@pytest.mark.parametrize("o_relay", [1, 2])
def test_an_answer_that_is_lost_with_its_stream_is_sent_again(o_relay: int) -> None:
    net, s_relay = pair(), 3 - o_relay
    net.publish(o_relay)
    net.run()
    net.clients[o_relay].answer = False
    net.subscribe(s_relay)
    net.run(0.1)
    table = net.relays[s_relay].subscribes
    (asked,) = [entry.stamp for entry in table.live()]
    net.relays[o_relay].publisher_accepted(net.now, key_of(TRACK))
    # It leaves on the old stream, and does not arrive. Relay 1 dialled: it opens the next one.
    net.transmit()
    net.lose()
    session = net.session(1, 2)
    net.relays[1].control_reset(net.now, session, 0)
    net.relays[1].control_stopped(net.now, session, 0)
    net.run(3)
    assert net.answers(s_relay) == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED)]
    assert [entry.stamp for entry in table.live()] == [asked]
    # Once more does no harm: it is known.
    net.relays[1].control_reset(net.now, session, 4)
    net.relays[1].control_stopped(net.now, session, 4)
    net.run(3)
    assert net.answers(s_relay) == []


# A Via that keeps nothing


def forgetful() -> RelayNet:
    """Edge 1, Via 2 that keeps nothing, Edge 3; what is published and wanted is old."""
    net = RelayNet()
    net.add(1)
    net.add(2, VIA, reflect=False)
    net.add(3)
    net.join(1, 2)
    net.join(2, 3)
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run(100)
    assert (net.relays[2].tables.announce_rows(), net.relays[2].tables.subscribe_rows()) == ([], [])
    assert net.answers(3) == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED)]
    return net


def test_a_newcomer_at_a_via_that_keeps_nothing_hears_what_others_have() -> None:
    net = forgetful()
    net.add(4)
    net.join(4, 2)
    net.run()
    assert net.clients[4].known == [TRACK]
    net.subscribe(4)
    net.run()
    net.send(1, b"object")
    net.run()
    assert net.got(3, 4) == [[b"object"], [b"object"]]
    net.run(100)
    assert (net.relays[2].tables.announce_rows(), net.relays[2].tables.subscribe_rows()) == ([], [])


def test_a_via_that_keeps_nothing_asks_others_before_it_says_that_this_is_all() -> None:
    net = forgetful()
    session = net.session(1, 2)
    net.relays[1].control_reset(net.now, session, 0)
    net.relays[1].control_stopped(net.now, session, 0)
    net.run(5)
    assert [row.source for row in net.relays[1].tables.subscribe_rows()] == [3]
    net.say(1, 2, SyncRequest(Bases.ALL))
    net.run(5)
    assert [row.source for row in net.relays[1].tables.subscribe_rows()] == [3]
    net.send(1, b"object")
    net.run()
    assert net.got(3) == [[b"object"]]
    assert (net.answers(3), net.clients[3].known) == ([], [TRACK])


def test_vias_that_keep_nothing_do_not_ask_each_other_for_ever() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, VIA, reflect=False, probe_interval=1000.0)
    for left, right in ((1, 2), (2, 3), (3, 1)):
        net.join(left, right)
    net.run(40)
    asked: list[int] = []
    for number in (1, 2, 3):
        net.events[number].clear()
    owners = {id(relay.advertisements): number for number, relay in net.relays.items()}
    ask = AdvertisementSchedule.request_sync

    def counted(self: AdvertisementSchedule, now: float, whom: Callable[[Link], bool]) -> None:
        asked.append(owners[id(self)])
        ask(self, now, whom)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AdvertisementSchedule, "request_sync", counted)
        net.say(1, 2, SyncRequest(Bases.ANNOUNCES))
        net.run(10)
    assert sorted(asked) == [1, 2, 3]
    assert [net.told(number, PeerGone) for number in (1, 2, 3)] == [[], [], []]


def test_an_answer_passes_a_control_server() -> None:
    net = RelayNet()
    for number, relay_type in ((1, RelayType.EDGE), (2, RelayType.EDGE), (9, RelayType.CONTROL)):
        net.add(number, relay_type)
    for number in (1, 2):
        net.dial_for_ever(number, 9)
    net.join(1, 2)
    net.publish(1)
    net.run()
    net.clients[1].answer = False
    net.subscribe(2)
    net.run()
    assert net.answers(2) == []
    key = key_of(TRACK)
    net.relays[1].publisher_refused(net.now, key, SubscribeCode.PUBLISHER_REFUSED, "not now")
    net.run()
    assert net.answers(2) == [(Answer.REFUSED, SubscribeCode.PUBLISHER_REFUSED)]


def test_an_answer_does_not_go_round() -> None:
    passed: list[SubscribeResponse] = []
    respond = NetworkRelay.respond

    def watch(self: NetworkRelay, now: float, session: int, response: SubscribeResponse) -> None:
        if self is net.relays[2]:
            passed.append(response)
        respond(self, now, session, response)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NetworkRelay, "respond", watch)
        net = chain()
        net.publish(1)
        net.run()
        net.subscribe(3)
        net.run(0.2)
        (answer,) = passed
        for _ in range(3):
            net.say(1, 2, answer)
            net.run(0.1)
        # One of its own that comes back.
        net.say(1, 2, replace(answer, responder=NodeId(2)))
        net.run(0.1)
        assert passed == [answer]
        net.say(1, 2, replace(answer, code=SubscribeCode.ENDED))
        net.run(0.1)
    assert len(passed) == 2
    assert net.answers(3)[-1][0] is Answer.ENDED


# Caps and lies: the one who is at fault is dropped, others do not notice


def watched() -> RelayNet:
    """Relay 1 serves 3; 2 is about to do something."""
    net = RelayNet()
    net.add(1, max_nodes=4, max_subscribes=3, max_announces=3, unknown_time=0.5)
    net.add(2)
    net.add(3)
    net.join(2, 1)
    net.join(3, 1)
    net.run()
    net.publish(1)
    net.subscribe(3)
    net.run()
    for number in net.relays:
        net.events[number].clear()
    return net


def assert_only_2_is_gone(net: RelayNet, code: int) -> None:
    net.run(0.5)
    assert [(gone.node, gone.code) for gone in net.told(1, PeerGone)] == [(2, code)]
    (gone,) = net.told(2, PeerGone)
    assert (gone.code, gone.by_peer) == (code, True)
    net.send(1, b"object")
    net.run()
    assert net.got(3) == [[b"object"]]
    assert net.told(3, PeerGone) == []


def test_too_many_nodes() -> None:
    net = watched()
    path = (NodePathItem(NodeId(2), 5_000),)
    nodes = [
        NodeInfo(NodeSelf(NodeId(number), VIA, Stamp(1, 1)), path=path) for number in range(50, 60)
    ]
    net.say(2, 1, NodeAdvertise(tuple(nodes)))
    assert_only_2_is_gone(net, CloseCode.LIMIT_EXCEEDED)
    assert [row.node for row in net.relays[1].tables.nodes()] == [1, 3]
    assert [fault.node for fault in net.told(1, PeerFaulted)] == [2]


def test_too_many_subscribes() -> None:
    net = watched()
    entries = [
        SubscribeInfo(NodeId(2), Stamp(2, 100 + number), (1,), 2, number) for number in range(4)
    ]
    net.say(2, 1, SubscribeAdvertise(tuple(entries)))
    assert_only_2_is_gone(net, CloseCode.LIMIT_EXCEEDED)
    assert [row.source for row in net.relays[1].tables.subscribe_rows()] == [3]


def test_too_many_announces() -> None:
    net = watched()
    kind = AnnounceKind.TRACK
    entries = [
        AnnounceInfo(NodeId(2), Stamp(2, 100 + number), kind, (1,), 2, number)
        for number in range(4)
    ]
    net.say(2, 1, AnnounceAdvertise(tuple(entries)))
    assert_only_2_is_gone(net, CloseCode.LIMIT_EXCEEDED)


def test_a_fetch_of_a_peer_that_has_not_agreed_on_them() -> None:
    net = watched()
    link = net.relays[1].links.by_session[net.session(1, 2)]
    link.features -= {Feature.FETCHES}
    net.say(2, 1, FetchCancel(NodeId(2), NodeId(1), 7, 0))
    assert_only_2_is_gone(net, CloseCode.PROTOCOL_VIOLATION)


def test_a_fetch_that_nobody_serves_is_refused() -> None:
    net = watched()
    net.say(2, 1, request_of(2, 1))
    net.run(0.5)
    assert net.relays[2].fetches.asking.dropped == 1  # the answer, to what 2 did not ask


def test_a_header_that_is_none() -> None:
    net = watched()
    header = encode_data_header(EARLY._replace(kind=DataKind.DATAGRAM))
    net.ends[2, net.session(2, 1)].open_unidirectional().write(header)
    assert_only_2_is_gone(net, CloseCode.PROTOCOL_VIOLATION)
    assert [fault.code for fault in net.told(1, PeerFaulted)] == [CloseCode.PROTOCOL_VIOLATION]


@pytest.mark.parametrize("datagram", [False, True])
def test_data_on_a_session_that_carries_none(datagram: bool) -> None:
    net = watched()
    net.add(4, RelayType.CONTROL)
    net.join(4, 1)
    net.run()
    end = net.ends[4, net.session(4, 1)]
    if datagram:
        header = encode_data_header(EARLY._replace(kind=DataKind.DATAGRAM))
        end.send_datagram(header + b"object")
    else:
        end.open_unidirectional().write(encode_data_header(EARLY) + b"object")
    net.run(0.5)
    code = CloseCode.PROTOCOL_VIOLATION
    assert [(fault.node, fault.code) for fault in net.told(1, PeerFaulted)] == [(4, code)]
    net.send(1, b"object")
    net.run()
    assert net.got(3) == [[b"object"]]


def test_a_datagram_before_the_handshake_is_over_is_lost() -> None:
    net = watched()
    net.add(5)
    net.join(5, 1)
    header = encode_data_header(EARLY._replace(kind=DataKind.DATAGRAM))
    net.ends[5, net.session(5, 1)].send_datagram(header + b"object")
    net.run()
    assert net.told(1, PeerGone) == []


def test_a_path_that_does_not_lead_to_the_one_who_tells_it() -> None:
    net = watched()
    path = (NodePathItem(NodeId(7), 5_000),)
    net.say(2, 1, NodeAdvertise((NodeInfo(NodeSelf(NodeId(50), VIA, Stamp(1, 1)), path=path),)))
    net.run(0.5)
    assert [(event.node, event.peer) for event in net.told(1, NodeSuspected)] == [(50, 2)]
    assert [row.node for row in net.relays[1].tables.nodes()] == [1, 2, 3]


def test_who_tells_such_paths_again_and_again_is_left() -> None:
    net = watched()
    bad = NodeInfo(NodeSelf(NodeId(50), VIA, Stamp(1, 1)), path=(NodePathItem(NodeId(7), 5_000),))
    for _ in range(MAX_VIOLATIONS):
        net.say(2, 1, NodeAdvertise((bad,)))
    net.run(0.5)
    assert net.told(1, PeerGone) == []
    net.say(2, 1, NodeAdvertise((bad,)))
    assert_only_2_is_gone(net, CloseCode.BAD_NODE)
    assert [fault.reason for fault in net.told(1, PeerFaulted)] == [
        "again and again: the path ends with 0.0:0.7, not with who sent it"
    ]
    assert len(net.relays[1].violations) == 0


def test_who_passes_on_the_lie_of_another_stays() -> None:
    net = watched()
    mine = NodeInfo(
        NodeSelf(NodeId(1), VIA, Stamp(1 << 40, 1)), path=(NodePathItem(NodeId(2), 5_000),)
    )
    for _ in range(2 * MAX_VIOLATIONS):
        net.say(2, 1, NodeAdvertise((mine,)))
    net.run(0.5)
    assert len(net.told(1, NodeSuspected)) == 2 * MAX_VIOLATIONS
    assert net.told(1, PeerGone) == []


def test_who_names_strangers_again_and_again_is_left() -> None:
    net = watched()
    wire = net.relays[2].peers.wire(net.session(2, 1))
    for _ in range(MAX_VIOLATIONS):
        wire.advertise_sns(net.now, [NodeId(3), NodeId(50), NodeId(51)], hops=0, scope="")
    net.run(0.5)
    assert net.told(1, PeerGone) == []
    wire = net.relays[2].peers.wire(net.session(2, 1))
    wire.advertise_sns(net.now, [NodeId(50)], hops=0, scope="")
    assert_only_2_is_gone(net, CloseCode.SNS_VIOLATION)


def test_who_has_not_heard_yet_that_a_node_is_gone_stays() -> None:
    """All its tracks go there: each has a set that names the node."""
    net = watched()
    net.cut(3, net.session(3, 1))
    net.run(0.5)
    assert [row.node for row in net.relays[2].tables.nodes()] == [2, 1]
    wire = net.relays[2].peers.wire(net.session(2, 1))
    for _ in range(2 * MAX_VIOLATIONS):
        wire.advertise_sns(net.now, [NodeId(1), NodeId(3)], hops=0, scope="")
    net.run(0.5)
    assert len(net.told(1, SetRefused)) == 2 * MAX_VIOLATIONS
    assert [gone.node for gone in net.told(1, PeerGone)] == [3]


class Key(OpenAuthenticator):
    """Whoever shows a fingerprint holds it."""

    def __init__(self, number: int) -> None:
        self.fingerprint = bytes([number]) * 32

    def sign(self, schemes: object, transcript: object) -> Evidence:
        return Evidence(credential=self.fingerprint)

    def verify(self, evidence: Evidence, transcript: bytes, peer: NodeInfo) -> bytes | Refusal:
        return evidence.credential

    def sign_node(self, node: NodeSelf) -> NodeInfo:
        return NodeInfo(node, NodeSignature(1, self.fingerprint, b"signed"))


def test_a_node_is_known_again_when_the_one_with_its_id_is_gone() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, authenticator=Key(number))
    net.join(1, 2)
    net.join(2, 3)
    net.run()
    real = net.relays.pop(3)
    net.add(3, authenticator=Key(9))
    session, _ = net.join(1, 3)
    net.run()
    assert net.way(1, 3) == (3,)
    net.relays[1].connection_closed(net.now, session, 0, "gone")
    net.relays[3] = real
    net.run()
    assert net.way(1, 3) == (2, 3)
    assert net.relays[1].links.disputed == {}


def test_who_alone_tells_of_a_node_and_names_another_key_is_asked_again() -> None:
    """It believed a lie and has heard the truth, or the other way round: it says that once."""
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, authenticator=Key(number))
    net.join(1, 2)
    net.join(2, 3)
    net.run()
    node = replace(net.relays[3].own.info.node, stamp=Stamp(7, 1))
    path = (NodePathItem(NodeId(2), 1),)
    false = NodeInfo(node, NodeSignature(1, b"9" * 32, b"signed"), path)
    net.say(2, 1, NodeAdvertise((false,)))
    net.run(0.5)
    assert [event.node for event in net.told(1, NodeSuspected)] == [3]
    assert net.way(1, 3) == (2, 3)
    assert net.relays[1].links.disputed == {}


@pytest.mark.parametrize("ahead", [0, 100])
def test_words_that_somebody_puts_into_our_mouth(ahead: int) -> None:
    """Our own entries may come back to us; with a stamp that we never gave they are forged."""
    net = watched()
    (row,) = net.relays[1].tables.announce_rows()
    stamp = Stamp(row.epoch, row.sequence + ahead)
    announce = AnnounceInfo(NodeId(1), stamp, AnnounceKind.TRACK, (1,), 2, row.key)
    net.say(2, 1, AnnounceAdvertise((announce,)))
    end = AnnounceWithdrawal(NodeId(1), stamp, AnnounceKind.TRACK, row.key)
    net.say(2, 1, AnnounceWithdraw((end,)))
    net.say(2, 1, SubscribeAdvertise((SubscribeInfo(NodeId(1), stamp, (1,), 2, 3),)))
    net.say(2, 1, SubscribeWithdraw((SubscribeWithdrawal(NodeId(1), stamp, 3),)))
    net.run(0.5)
    found = [(event.node, event.peer) for event in net.told(1, NodeSuspected)]
    assert found == ([(1, 2)] * 4 if ahead else [])
    assert net.relays[1].tables.announce_rows() == [row]


def test_targets_that_were_not_advertised() -> None:
    net = watched()
    session = net.session(2, 1)
    net.relays[2].set_routing.advertise_sns(net.now, session, (NodeId(50), NodeId(51)), 0, "")
    net.run(0.5)
    (refused,) = net.told(1, SetRefused)
    assert (refused.node, refused.sns_id, refused.targets) == (2, 1, 2)
    assert refused.code is SnsRefusal.NOT_ADVERTISED


def test_data_without_a_set_is_given_up_after_a_while() -> None:
    net = watched()
    out = net.ends[2, net.session(2, 1)].open_unidirectional()
    out.write(encode_data_header(EARLY) + b"for nobody")
    net.run(0.2)
    assert net.relays[1].plane.counters().held_bytes > 0
    net.run()
    counters = net.relays[1].plane.counters()
    assert (counters.held_bytes, counters.unknown_streams) == (0, 1)
    assert out.closed
    assert net.told(1, PeerGone) == []


def test_a_target_that_was_not_advertised_is_refused() -> None:
    net = watched()
    session = net.session(2, 1)
    refused: list[SnsRefusal] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            type(net.relays[2].sets),
            "refused",
            lambda *args: refused.append(args[-1].code),
        )
        net.relays[2].peers.wire(session).advertise_sns(net.now, [NodeId(77)], hops=0, scope="")
        net.run(1)
    assert refused == [SnsRefusal.NOT_ADVERTISED]
    made = net.told(1, SetChanged)[-1]
    assert (made.incoming, made.added, made.members) == (True, (NodeId(77),), 1)
    net.relays[2].peers.wire(session).withdraw_sns(net.now, 1)
    net.run(0.5)
    (gone,) = net.told(1, SetGone)
    assert (gone.incoming, gone.removed) == (True, (NodeId(77),))


# Probes


def test_probes_are_answered_and_lies_are_seen() -> None:
    net = chain()
    net.run(12)
    rows = {int(row.node): row.rtt_us for row in net.relays[1].tables.nodes()}
    assert rows == {1: None, 2: 10_000, 3: 20_000}
    net.told(1, NodeSuspected)
    prober = net.relays[2].prober
    answer = type(prober).answer

    def lie(self: object, probe: Probe, *, delay_us: int = 0) -> ProbeResponse:
        return replace(answer(prober, probe, delay_us=delay_us), timestamp=0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(prober), "answer", lie)
        net.run(12)
    lies = net.told(1, NodeSuspected)
    assert {(event.node, event.peer) for event in lies} == {(NodeId(3), NodeId(2))}


# Before the handshake is over


def test_data_that_is_faster_than_the_handshake_waits() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.publish(1)
    net.subscribe(2)
    session, other = net.join(1, 2)
    head = encode_data_header(EARLY)
    relay = net.relays[2]
    relay.data_stream(net.now, other, 2, head, False)
    relay.data_stream(net.now, other, 2, b"two ", False)
    relay.data_stream(net.now, other, 6, head + b"abandoned", False)
    relay.data_reset(net.now, other, 6, 0)
    relay.data_stream(net.now, other, 10, bytes(70_000), False)
    relay.data_stream(net.now, other, 10, bytes(10), False)
    net.run(0.2)
    assert net.relays[1].tables.sets()[0].sns_id == 1
    relay.data_stream(net.now, other, 2, b"parts", True)
    relay.data_stream(net.now, other, 10, bytes(10), True)
    assert net.got(2) == [[b"two parts"]]
    assert [row.session for row in net.relays[1].tables.peers()] == [session]


def test_garbage_before_the_handshake_is_over_ends_it_afterwards() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    _, other = net.join(1, 2)
    header = encode_data_header(EARLY._replace(kind=DataKind.DATAGRAM))
    net.relays[2].data_stream(net.now, other, 2, header, True)
    net.run()
    assert [gone.code for gone in net.told(2, PeerGone)] == [CloseCode.PROTOCOL_VIOLATION]


# Leaving


def test_a_peer_that_stays_is_used_again() -> None:
    net = pair()
    net.add(3, VIA)
    net.join(1, 3)
    net.join(3, 2)
    net.run()
    net.relays[3].drain(net.now, 5.0)
    net.run(0.5)
    assert len(net.told(1, PeerLeaving)) == 1
    net.relays[3].stay(net.now)
    net.run(10)
    (stays,) = net.told(1, PeerStays)
    assert stays.node == 3
    assert [row.leaving for row in net.relays[1].tables.peers()] == [False, False]


def test_a_peer_that_stays_without_having_agreed_on_that() -> None:
    net = watched()
    net.relays[2].drain(net.now, 30.0)
    net.run(0.5)
    link = net.relays[1].links.by_session[net.session(1, 2)]
    link.features -= {Feature.STAYS}
    net.relays[2].stay(net.now)
    net.run(0.5)
    assert_only_2_is_gone(net, CloseCode.PROTOCOL_VIOLATION)


def test_a_peer_that_drains_is_left_by_everything_that_can() -> None:
    net = pair()
    net.add(3, VIA)
    net.join(1, 3)
    net.join(3, 2)
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run()
    net.relays[3].drain(net.now, 5.0, "an update", ("relay-9:33434",))
    net.run(0.5)
    (leaving,) = net.told(1, PeerLeaving)
    assert (leaving.node, leaving.reason, leaving.by_peer) == (3, "an update", True)
    assert [row.node for row in net.relays[1].tables.peers() if row.leaving] == [3]
    net.run(10)
    assert [row.node for row in net.relays[1].tables.peers()] == [2]
    net.send(1, b"object")
    net.run()
    assert net.got(2) == [[b"object"]]
