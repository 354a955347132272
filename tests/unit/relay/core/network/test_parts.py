"""What the parts ask of the relay around them."""

from __future__ import annotations

import pytest

from laps_relay.core.network.events import SetChanged, SetGone, SubscribeRefused
from laps_relay.core.network.forwarding import Feed
from laps_relay.core.network.interfaces import Answer, Assignment, Refusal
from laps_relay.core.network.set_records import Unserved
from laps_relay.core.policy import OpenPolicy
from laps_wire.errors import StateError
from laps_wire.moqt.control import encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    NodeSelf,
    RelayType,
    SnsRefusal,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
)
from testkit.relay_ends import Clients
from testkit.relay_net import OTHER, TRACK, RelayNet, key_of

VIA, CONTROL = RelayType.VIA, RelayType.CONTROL
A, B, C, D = (NodeId(number) for number in (1, 2, 3, 4))


def square() -> RelayNet:
    """Edges 1 and 4 at both ends of Vias 2 and 3."""
    net = RelayNet()
    net.add(1)
    net.add(4)
    for via in (2, 3):
        net.add(via, VIA)
        net.join(1, via)
        net.join(via, 4)
    net.run()
    return net


# Feeds


def test_something_else_of_a_track_reaches_the_publisher_in_the_same_feed() -> None:
    net = square()
    net.publish(1)
    net.run()
    net.want(4)
    net.run()
    feed = net.feed(1)
    pulls: list[tuple[SubscribeData, bool]] = []
    clients = net.clients[1]

    def pull(
        self: Clients, now: float, key: int, name: FullTrackName, data: SubscribeData, to: Feed
    ) -> None:
        pulls.append((data, to is feed))

    message = Subscribe(0, TRACK, Parameters(new_group_request=7))
    data = SubscribeData(Draft.D18, encode_subscribe_body(message, Draft.D18))
    stream = net.begin(1, b"one ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(clients), "pull", pull)
        net.relays[4].want(net.now, TRACK, data)
        net.run()
    assert pulls == [(data, True)]
    stream.write(b"stream", fin=True)
    net.run()
    assert net.got(4) == [[b"one stream"]]


def test_a_publisher_that_comes_back_has_another_feed_and_nothing_is_left_of_the_first() -> None:
    net = square()
    net.publish(1)
    net.run()
    net.want(4)
    net.run()
    relay, first = net.relays[1], net.feed(1)
    # It ends, and is asked for again before anything else happens.
    relay._interests.pull_ended(net.now, key_of(TRACK), "a pause")
    relay._interests.reconsider(net.now)
    net.run()
    assert net.feed(1) is not first
    assert [row.ingress for row in relay._sets.rows()] == [net.feed(1).ingress]
    net.send(1, b"object")
    net.run()
    assert net.got(4) == [[b"object"]]
    net.unwant(4)
    net.run(10)
    relay.withdraw(net.now, AnnounceKind.TRACK, TRACK)
    net.run()
    assert net.at_rest() == []


# Sets


def test_telemetry_hears_of_every_change_of_a_set_and_of_its_track() -> None:
    net = square()
    net.add(5)
    net.join(5, 2)
    net.publish(1)
    net.run()
    net.want(4)
    net.run()
    session = net.session(1, 2)
    made = SetChanged(
        session=session,
        sns_id=1,
        incoming=False,
        added=(D,),
        removed=(),
        members=1,
        key=key_of(TRACK),
    )
    assert net.told(1, SetChanged) == [made]
    net.want(5)
    net.run()
    (grown,) = net.told(1, SetChanged)
    assert (grown.added, grown.removed, grown.members) == ((NodeId(5),), (), 2)
    assert grown.key == key_of(TRACK)
    net.unwant(4)
    net.run(6)
    (shrunk,) = net.told(1, SetChanged)
    assert (shrunk.added, shrunk.removed, shrunk.members) == ((), (D,), 1)
    net.unwant(5)
    net.run(8)
    (gone,) = net.told(1, SetGone)
    assert (gone.removed, gone.key, gone.incoming) == ((NodeId(5),), key_of(TRACK), False)
    # A Via sees sets only, no tracks: what it makes has no key.
    events = net.told(2, SetChanged)
    assert {event.key for event in events} == {None}
    assert {event.incoming for event in events} == {True, False}
    ended = net.told(2, SetGone)
    assert sorted(event.incoming for event in ended) == [False, False, True]


def test_a_set_that_its_session_can_not_take_is_not_told() -> None:
    net = square()
    relay = net.relays[1]
    session = net.session(1, 2)
    with pytest.raises(StateError):
        relay.withdraw_sns(net.now, session, 9)
    with pytest.raises(StateError):
        relay.advertise_sns(net.now, session, (), 0, "")
    with pytest.raises(StateError):
        relay.update_sns(net.now, session, 9, (B,))
    with pytest.raises(StateError):
        relay.refuse_sns(net.now, session, 9, SnsRefusal.POLICY, (B,))
    net.run(0.1)
    assert (net.told(1, SetChanged), net.told(1, SetGone)) == ([], [])


def test_the_next_hop_and_its_alternates() -> None:
    net = square()
    relay = net.relays[1]
    ways = relay.assign(net.now, None, frozenset({D}), "", arrived_on=None)
    assert ways == Assignment({D: B}, {})
    nobody: frozenset[NodeId] = frozenset()
    assert relay.detour(D, "", arrived_on=None, avoid=nobody) == B
    assert relay.detour(D, "", arrived_on=None, avoid=frozenset({B})) == C
    assert relay.detour(D, "", arrived_on=B, avoid=nobody) == C
    assert isinstance(relay.detour(D, "", arrived_on=B, avoid=frozenset({C})), Refusal)
    assert [relay.length(peer, D, "", arrived_on=None) for peer in (B, C, D)] == [1, 1, None]
    assert relay.length(B, D, "", arrived_on=B) is None


def test_sessions_and_the_nodes_at_their_ends() -> None:
    net = square()
    relay = net.relays[1]
    session = net.session(1, 2)
    assert (relay.session_to(B, 7), relay.node_of(session)) == (session, B)
    assert relay.session_to(D, 7) is None
    with pytest.raises(StateError, match="no peer on session 99"):
        relay.node_of(99)


def test_whom_a_peer_may_name() -> None:
    net = square()
    session = net.session(2, 1)
    via = net.relays[2]
    assert via.may_serve(session, B)
    assert via.may_serve(session, D)
    assert not via.may_serve(session, NodeId(77))
    assert not via.may_serve(99, D)


# Interests


def test_what_nodes_say_of_themselves() -> None:
    net = square()
    relay = net.relays[1]
    own, other = relay.node(A), relay.node(D)
    assert own is not None
    assert other is not None
    assert (own.node_id, other.node_id, relay.node(NodeId(77))) == (A, D, None)
    assert relay.policy is net.relays[2].policy
    assert relay.stamp() < relay.stamp()
    assert relay.replicas(5) == ()


def test_without_clients_nothing_is_answered_and_nothing_breaks() -> None:
    net = square()
    via = net.relays[2]
    via.announce(net.now, AnnounceKind.TRACK, TRACK)
    via.want(net.now, OTHER)
    net.publish(1, OTHER)
    net.want(4)
    net.run(2)
    assert {row.source for row in net.relays[4].announce_rows()} == {A, B}
    assert [row.key for row in via.sets() if not row.incoming] == [key_of(TRACK)]
    via.unwant(net.now, OTHER)
    net.unwant(4)
    net.relays[1].withdraw(net.now, AnnounceKind.TRACK, OTHER)
    net.run(10)
    assert via.sets() == []
    assert net.relays[1].sets() == []


# What goes to whom


class Secretive(OpenPolicy):
    """Some peers hear of nothing."""

    __slots__ = ("peers",)

    def __init__(self, *peers: int) -> None:
        self.peers = peers

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("export", "no") if peer.node_id in self.peers else None

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("export", "no") if peer.node_id in self.peers else None

    def want(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        return Refusal("tracks", "not here") if name == OTHER else None


def test_what_policy_lets_out() -> None:
    net = RelayNet()
    net.add(1, policy=Secretive(3))
    net.add(2)
    net.add(3)
    net.join(1, 2)
    net.join(1, 3)
    net.publish(1)
    net.publish(2)
    net.want(1)
    net.run()
    assert [row.source for row in net.relays[2].announce_rows()] == [2, 1]
    assert [row.source for row in net.relays[2].subscribe_rows()] == [1]
    assert net.relays[3].announce_rows() == []
    assert net.relays[3].subscribe_rows() == []
    # Another policy: what was kept back is told, and taken back again.
    net.relays[1].set_policy(net.now, OpenPolicy())
    net.run()
    assert [row.source for row in net.relays[3].announce_rows()] == [1, 2]
    net.relays[1].set_policy(net.now, Secretive(3))
    net.run(8)
    assert net.relays[3].announce_rows() == []


def test_what_our_own_policy_denies_to_our_clients_is_logged() -> None:
    net = RelayNet()
    net.add(1, policy=Secretive())
    net.want(1, OTHER)
    net.run(0.1)
    (event,) = net.told(1, SubscribeRefused)
    assert (event.source, event.reason) == (A, "not here")


def test_an_export_to_a_session_that_is_not_there() -> None:
    net = square()
    relay = net.relays[1]
    net.publish(1)
    net.want(1, OTHER)
    (announce,) = relay.announces.live()
    (subscribe,) = relay.subscribes.live()
    assert not relay._exports_announce(99, announce)
    assert not relay._exports_subscribe(99, subscribe)
    assert relay._exports_announce(net.session(1, 2), announce)


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
    assert [row.source for row in net.relays[9].announce_rows()] == [A]
    assert net.relays[2].announce_rows() == []


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
    net.want(2)
    net.run(3)
    server = net.relays[9]
    (subscribe,) = server.subscribes.live()
    assert [(peer.node_id, leads) for peer, leads in server._hearers(subscribe)] == [(A, True)]
    assert [event.reason for event in net.told(9, SubscribeRefused)] == ["no"]
    assert (Answer.REFUSED, SubscribeCode.POLICY) in net.answers(2)
    assert not server._exports_subscribe(net.session(9, 1), subscribe)
    assert server._subscribe_goes(net.session(9, 1), subscribe)


# Who gets nothing


def test_who_gets_nothing_is_told_why_and_when() -> None:
    net = square()
    net.add(5, dynamic_peering=False)
    net.join(5, 2)
    for number in (1, 5):
        net.publish(number, TRACK if number == 1 else OTHER)
    net.run()
    for name in (TRACK, OTHER):
        net.want(4, name)
    net.run()
    net.answers(4)
    key, other = key_of(TRACK), key_of(OTHER)
    denied = Unserved(SnsRefusal.POLICY, "not through CA", net.now)
    # 4 could be dialled by 1, if policy is not against that; and not by 5.
    net.relays[1].led(net.now, key, frozenset((D,)), "", {D: denied})
    net.relays[5].led(net.now, other, frozenset((D,)), "", {D: denied})
    net.run(1)
    assert net.clients[4].answers == [(other, Answer.ENDED, SubscribeCode.POLICY, "not through CA")]
    net.answers(4)
    net.run(2)
    assert net.clients[4].answers == [(key, Answer.ENDED, SubscribeCode.POLICY, "not through CA")]
    net.answers(4)
    for number, each in ((1, key), (5, other)):
        net.relays[number].led(net.now, each, frozenset((D,)), "", {})
    net.run(2)
    assert [code for _, code in net.answers(4)] == [SubscribeCode.ACCEPTED] * 2
    away = Unserved(SnsRefusal.NOT_ADVERTISED, "no way", net.now)
    net.relays[1].led(net.now, key, frozenset((D,)), "", {D: away})
    net.run(4)
    assert net.answers(4) == []
    net.run(2)
    assert net.answers(4) == [(Answer.ENDED, SubscribeCode.UNREACHABLE)]
