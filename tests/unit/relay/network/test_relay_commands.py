"""Operator commands act on all that is there and on all that comes later."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from laps_relay.network.events import PolicyChanged
from laps_relay.policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.reports import KeyForgotten, PeerAdded, PeerGone, PeerLeaving
from laps_sdk.upstream.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    Evidence,
    Label,
    Load,
    LoadClass,
    NodeInfo,
    NodeSelf,
    RelayType,
    SubscribeCode,
    SubscribeInfo,
)
from testkit.relay_ends import OpenAuthenticator
from testkit.relay_net import OTHER, RelayNet
from testkit.relay_shapes import pair


def test_what_a_relay_says_of_itself_reaches_others() -> None:
    net = pair()
    net.relays[1].set_load(net.now, Load(LoadClass.OVERLOADED, 900))
    net.relays[1].set_load(net.now, Load(LoadClass.OVERLOADED, 900))
    net.relays[1].set_own_contacts(net.now, ("here:1",))
    net.relays[1].set_own_contacts(net.now, ("here:1",))
    net.run()
    row = next(row for row in net.relays[2].tables.nodes() if row.node == 1)
    assert (row.load_class, row.load, row.contacts) == ("overloaded", 900, ("here:1",))
    net.relays[1].drain(net.now, 5.0)
    # Who drains gives everything away and is idle soon: that is no reason to come back.
    net.relays[1].set_load(net.now, Load(LoadClass.NORMAL, 10))
    net.run()
    row = next(row for row in net.relays[2].tables.nodes() if row.node == 1)
    assert row.load_class == "draining"


def test_a_relay_that_drains_takes_nobody_new_and_everybody_leaves() -> None:
    net = pair()
    net.add(3)
    net.relays[1].drain(net.now, 2.0, "an update", ("relay-2:33434",))
    net.dial_for_ever(3, 1)
    net.run()
    # Who comes now is sent to the other one.
    assert [row.node for row in net.relays[3].tables.peers()] == [2]
    net.run(5)
    assert net.relays[1].tables.peers() == []
    assert net.relays[1].poll_dials(net.now) == []


def test_a_relay_that_stays_is_as_before() -> None:
    """Its sessions live, others come again, and it can change its mind once more."""
    net = pair()
    net.add(3)
    before = [row.session for row in net.relays[1].tables.peers()]
    net.relays[1].stay(net.now)  # nothing to take back
    for _ in range(2):
        net.relays[1].drain(net.now, 2.0, "an update")
        net.run(0.5)
        assert [row.leaving for row in net.relays[2].tables.peers()] == [True]
        net.relays[1].stay(net.now)
        net.run(5)
        row = next(row for row in net.relays[2].tables.nodes() if row.node == 1)
        assert row.load_class == "normal"
        assert [row.session for row in net.relays[1].tables.peers()] == before
        assert [row.leaving for row in net.relays[2].tables.peers()] == [False]
    # Who is on the move arrives first: so long it is said to drain.
    net.relays[1].drain(net.now, 2.0)
    net.run(0.5)
    for _ in range(2):
        net.relays[1].stay(net.now)
        net.run(0.9)
        row = next(row for row in net.relays[2].tables.nodes() if row.node == 1)
        assert row.load_class == "draining"
    net.relays[1].drain(net.now, 30.0)  # it goes, after all
    net.run(3)
    row = next(row for row in net.relays[2].tables.nodes() if row.node == 1)
    assert row.load_class == "draining"
    net.relays[1].stay(net.now)
    net.run(3)
    net.relays[1].set_load(net.now, Load(LoadClass.BUSY, 700))
    net.dial_for_ever(3, 1)
    net.run()
    assert [row.node for row in net.relays[3].tables.peers()] == [1]


def test_everything_ends_by_order() -> None:
    net = pair()
    net.relays[1].close_all(net.now, reason="bye")
    net.run()
    assert net.relays[1].tables.peers() == net.relays[2].tables.peers() == []
    assert [gone.reason for gone in net.told(2, PeerGone)] == ["bye"]


@pytest.mark.parametrize("leaver", [1, 2], ids=["who sends", "who receives"])
def test_a_contact_that_is_not_configured_any_more_is_left_without_a_loss(leaver: int) -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number)
    net.dial_for_ever(leaver, 3 - leaver, 3)
    net.dial_for_ever(3 - leaver, 3)
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run()
    assert net.way(1, 2) == (2,)
    stream = net.begin(1, b"begun, ")
    net.run()
    net.dial_for_ever(leaver, 3)
    net.run()
    # Both ends use the other way; what has begun ends where it began.
    assert net.way(1, 2) == (3, 2)
    assert {row.node for row in net.relays[leaver].tables.peers()} == {3 - leaver, 3}
    net.send(1, b"later")
    net.run()
    stream.write(b"ended", fin=True)
    net.run()
    assert sorted(net.got(2)[0]) == [b"begun, ended", b"later"]
    net.run(2)
    assert [row.node for row in net.relays[leaver].tables.peers()] == [3]
    (leaving,) = net.told(leaver, PeerLeaving)
    assert (leaving.node, leaving.by_peer) == (3 - leaver, False)
    (gone,) = net.told(3 - leaver, PeerGone)
    assert (gone.code, gone.by_peer) == (CloseCode.NO_ERROR, True)
    # Nobody is avoided for it afterwards.
    net.dial_for_ever(leaver, 3 - leaver, 3)
    net.run(5)
    assert net.way(1, 2) == (2,)


def test_who_is_reached_no_other_way_is_left_when_the_time_is_over() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.dial_for_ever(1, 2)
    net.publish(1)
    net.run()
    net.subscribe(2)
    net.run()
    net.relays[1].set_contacts(net.now, [], seconds=3.0)
    net.relays[1].set_contacts(net.now, [], seconds=1.0)  # it is told once
    net.run(2)
    net.send(1, b"still here")
    net.run(0.5)
    assert net.got(2) == [[b"still here"]]
    net.run()
    assert net.relays[1].tables.peers() == []
    (gone,) = net.told(2, PeerGone)
    assert (gone.code, gone.by_peer) == (CloseCode.DRAINED, True)


def test_a_contact_that_nobody_uses_is_left_at_once() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2)
    net.dial_for_ever(1, 2)
    net.run()
    net.dial_for_ever(1)
    net.run(0.1)
    assert net.relays[1].tables.peers() == []
    assert net.told(1, PeerLeaving) == []


def test_a_relay_labels_itself() -> None:
    net = pair()
    net.relays[1].set_own_label(net.now, "clients", "example.org:4433")
    net.relays[1].set_own_label(net.now, "clients", "example.org:4433")
    net.run()
    info = net.relays[2].node(NodeId(1))
    assert info is not None
    assert info.labels == (Label("clients", "example.org:4433"),)


class Shut(OpenPolicy):
    """Nobody may peer."""

    __slots__ = ()

    def peer(self, node: NodeSelf) -> Refusal | None:
        return Refusal("peers", "nobody")


def test_a_policy_that_forbids_peers_ends_their_sessions() -> None:
    net = pair()
    net.relays[1].set_policy(net.now, Shut())
    net.run()
    assert len(net.told(1, PolicyChanged)) == 1
    assert [gone.code for gone in net.told(2, PeerGone)] == [CloseCode.POLICY]


def test_what_speaks_against_the_via_of_a_plan() -> None:
    class NotTwo(OpenPolicy):
        def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
            shut = scope == "gold" and any(node.node_id == 2 for node in nodes[1:-1])
            return Refusal("rule", "not there") if shut else None

    net = RelayNet()
    for number, region in ((1, "us"), (2, "eu"), (3, "eu")):
        net.add(number, region=region)
    net.join(1, 2)
    net.join(2, 3)
    net.run(3)
    relay = net.relays[1]
    assert relay.against_via(NodeId(2), "eu", "gold") is None
    assert relay.against_via(NodeId(9), "eu", "gold") == "nobody here knows this relay"
    relay.set_policy(net.now, NotTwo())
    assert relay.against_via(NodeId(2), "eu", "gold") == "not there"
    assert relay.against_via(NodeId(2), "eu", "") is None
    assert relay.against_via(NodeId(2), "asia", "gold") is None  # nobody is there yet
    assert relay.place_of(NodeId(2)) == ("eu", "")
    assert relay.place_of(NodeId(9)) == ("", "")
    net.relays[2].drain(net.now, 5.0)
    net.run(1)
    assert relay.against_via(NodeId(2), "eu", "") == "it drains"


class Deaf(OpenPolicy):
    """No announces and no subscribes of node 3 come in."""

    __slots__ = ()

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("import", "not of 3") if entry.source == 3 else None

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("import", "not of 3") if entry.source == 3 else None


def test_another_filter_is_as_if_it_had_always_been_there() -> None:
    net = RelayNet()
    net.add(1)
    net.add(2, RelayType.VIA, policy=Deaf())
    net.add(3)
    net.join(1, 2)
    net.join(2, 3)
    net.publish(3, OTHER)
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run(2)
    assert net.clients[1].known == []
    assert net.answers(3) == [(Answer.REFUSED, SubscribeCode.POLICY)]
    net.relays[2].set_policy(net.now, OpenPolicy())
    net.run()
    assert net.clients[1].known == [OTHER]
    assert net.answers(3) == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED)]
    net.relays[2].set_policy(net.now, Deaf())
    # Who is served is told, once nobody says that another way leads there.
    net.run(2)
    assert net.answers(3) == [(Answer.ENDED, SubscribeCode.POLICY)]
    assert net.clients[3].reasons[-1] == "not of 3"
    # Another peer could still give them.
    net.run(4)
    assert net.clients[1].known == []
    assert (net.relays[1].tables.subscribe_rows(), net.relays[1].tables.sets()) == ([], [])
    # However long it takes: who still wants it has it as soon as that is allowed.
    net.run(200)
    assert net.answers(3) == []
    net.relays[2].set_policy(net.now, OpenPolicy())
    net.run()
    assert net.answers(3) == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED)]


def test_a_filter_on_one_of_two_ways_ends_nothing() -> None:
    net = RelayNet()
    for number in (1, 2, 3, 4):
        net.add(number, RelayType.VIA if number in (2, 4) else RelayType.EDGE)
    for ends in ((1, 2), (2, 3), (1, 4), (4, 3)):
        net.join(*ends)
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run()
    assert net.answers(3) == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED)]
    for number in (2, 4):
        net.relays[number].set_policy(net.now, Deaf())
        net.run(20)
        if number == 2:
            assert net.answers(3) == []
            net.send(1, b"still")
            net.run()
            assert net.got(3) == [[b"still"]]
    assert net.answers(3) == [(Answer.ENDED, SubscribeCode.POLICY)]


class NotToThree(OpenPolicy):
    """The link to node 3 passes where data must not."""

    __slots__ = ()

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        ends = nodes[0].node_id, nodes[-1].node_id
        return Refusal("transit", "it passes CA") if ends[0] != 3 and ends[1] == 3 else None


@pytest.mark.parametrize("reloaded", [False, True])
def test_who_no_allowed_way_leads_to_is_told_at_once_and_when_one_does(reloaded: bool) -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        policy = OpenPolicy() if reloaded else NotToThree()
        net.add(number, RelayType.VIA if number == 2 else RelayType.EDGE, policy=policy)
    net.join(1, 2)
    net.join(2, 3)
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run(0.5)
    if reloaded:
        assert net.answers(3) == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED)]
        for relay in net.relays.values():
            relay.set_policy(net.now, NotToThree())
        net.run(0.5)
    answer = Answer.ENDED if reloaded else Answer.REFUSED
    assert net.answers(3) == [(answer, SubscribeCode.POLICY)]
    assert net.clients[3].reasons[-1] == "it passes CA"
    net.send(1, b"not for 3")
    net.run(200)
    assert (net.got(3), net.answers(3)) == ([[]], [])
    for relay in net.relays.values():
        relay.set_policy(net.now, OpenPolicy())
    net.run(2)
    assert net.answers(3) == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED)]
    net.send(1, b"for 3")
    net.run()
    assert net.got(3) == [[b"for 3"]]


def test_a_relay_on_the_way_with_other_rules_is_believed() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        policy = NotToThree() if number == 2 else OpenPolicy()
        kind = RelayType.VIA if number == 2 else RelayType.EDGE
        net.add(number, kind, policy=policy, dynamic_peering=False)
    net.join(1, 2)
    net.join(2, 3)
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run()
    told = [code for _, code in net.answers(3)]
    assert told[-1] is SubscribeCode.POLICY
    # It is tried again now and then, and nobody is told about that.
    net.run(100)
    assert net.answers(3) == []


def test_who_can_be_dialled_instead_has_a_moment_for_that() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, RelayType.VIA if number == 2 else RelayType.EDGE, policy=Gold())
    net.join(1, 2)
    net.join(2, 3)
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run(5)
    assert net.answers(3) == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED)]
    net.cut_off.update((1, 3))
    net.cut(1, net.session(1, 3))
    net.run(1)
    assert net.answers(3) == []
    net.run(5)
    assert net.answers(3) == [(Answer.ENDED, SubscribeCode.POLICY)]


class Gold(OpenPolicy):
    """All tracks are gold, and gold does not pass node 2."""

    __slots__ = ()

    def scope(self, name: FullTrackName) -> str:
        return "gold"

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        passes = any(node.node_id == 2 for node in nodes[1:-1])
        return Refusal("gold", "not through 2") if scope == "gold" and passes else None


def test_a_policy_may_give_a_track_another_class() -> None:
    net = RelayNet()
    for number in (1, 2, 3, 4, 5):
        net.add(number)
    for a, b in ((1, 2), (2, 3), (1, 4), (4, 5), (5, 3)):
        net.join(a, b)
    net.run()
    net.publish(1)
    net.subscribe(3)
    net.run()
    net.send(1, b"through 2")
    net.run()
    for number in (1, 2, 3, 4, 5):
        net.relays[number].set_policy(net.now, Gold())
    net.run(5)
    assert {row.scope for row in net.relays[1].tables.sets()} == {"gold"}
    assert net.relays[2].tables.sets() == []
    net.send(1, b"around it")
    net.run()
    assert net.got(3) == [[b"through 2", b"around it"]]


class Keyed(OpenAuthenticator):
    """Everybody has proved the same key."""

    def verify(self, evidence: Evidence, transcript: bytes, peer: NodeInfo) -> bytes | Refusal:
        return b"k" * 32


def test_a_key_is_forgotten_and_that_is_told() -> None:
    net = RelayNet()
    for number in (1, 2):
        net.add(number, authenticator=Keyed())
    ours, _ = net.join(1, 2)
    net.run()
    assert not net.relays[1].forget_key(NodeId(2))
    net.cut(1, ours)
    assert net.relays[1].forget_key(NodeId(2))
    assert not net.relays[1].forget_key(NodeId(2))
    net.run()
    assert net.told(1, KeyForgotten) == [KeyForgotten(node=NodeId(2))]
    assert net.relays[1].poll_known_keys() == {}


def test_a_key_of_a_former_life_is_forgotten_too() -> None:
    net = RelayNet()
    relay = net.add(1, authenticator=Keyed(), known_keys={NodeId(2): b"o" * 32})
    net.add(2, authenticator=Keyed())
    net.join(1, 2)
    net.run()
    assert not net.told(1, PeerAdded)
    assert relay.forget_key(NodeId(2))
    net.join(1, 2)
    net.run()
    assert net.told(1, PeerAdded)
    assert relay.poll_known_keys() == {NodeId(2): b"k" * 32}
