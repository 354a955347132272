"""What a policy cuts, what it keeps back, and which relays are answered."""

from __future__ import annotations

import pytest

from laps_relay.network.events import PolicyChanged, SubscribeRefused
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy import OPEN_POLICY, OpenPolicy
from laps_relay.policy.interface import NodeInfoLookup
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.reports import PeerGone
from laps_sdk.upstream.interfaces import Answer
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    NodeInfo,
    NodeSelf,
    RelayType,
    SubscribeCode,
    SubscribeInfo,
)
from testkit.relay_net import TRACK, RelayNet, key_of
from testkit.relay_shapes import chain

VIA = RelayType.VIA
ACCEPTED = (Answer.ACCEPTED, SubscribeCode.ACCEPTED)


class Closed(OpenPolicy):
    """Subscribers at some relays may have nothing."""

    __slots__ = ("excluded",)

    def __init__(self, *excluded: int) -> None:
        self.excluded = excluded

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        if source.node_id in self.excluded:
            return Refusal("tracks", f"{source.node_id} may not have it")
        return None


def test_a_policy_that_is_loaded_cuts_what_it_forbids() -> None:
    net = chain()
    net.publish(1)
    net.subscribe(3)
    net.run()
    net.answers(3)
    stream = net.begin(1, b"never ")
    net.run(0.1)
    net.relays[1].set_policy(net.now, Closed(3))
    stream.write(b"whole", fin=True)
    net.run()
    assert net.got(3) == [[]]
    assert [data for data, _ in net.clients[3].reset] == [b"never "]
    assert net.answers(3)[0][1] is SubscribeCode.POLICY
    assert net.relays[1].tables.sets() == net.relays[2].tables.sets() == []
    assert [event.reason for event in net.told(1, SubscribeRefused)]
    assert len(net.told(1, PolicyChanged)) == 1
    net.relays[1].set_policy(net.now, OPEN_POLICY)
    net.run()
    net.send(1, b"allowed again")
    net.run()
    assert net.got(3) == [[b"allowed again"]]


def test_a_policy_cuts_the_streams_of_one_of_several() -> None:
    net = chain()
    for number in (4, 5):
        net.add(number)
    net.join(2, 4)
    net.join(1, 5)
    net.run()
    net.publish(1)
    for number in (3, 4, 5):
        net.subscribe(number)
    net.run()
    stream = net.begin(1, b"begun ")
    net.run(0.1)
    net.relays[1].set_policy(net.now, Closed(3, 5))
    net.run(0.001)
    stream.write(b"and ended", fin=True)
    net.send(1, b"new")
    net.run()
    assert net.got(3, 4, 5) == [[], [b"begun and ended", b"new"], []]
    assert [data for data, _ in net.clients[3].reset] == [b"begun "]
    assert [data for data, _ in net.clients[5].reset] == [b"begun "]


class Secretive(OpenPolicy):
    """Nothing of node 3 goes out, to anybody or to one peer."""

    __slots__ = ("to",)

    def __init__(self, to: int | None = None) -> None:
        self.to = to

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        secret = entry.source == 3 and self.to in (None, peer.node_id)
        return Refusal("export", "not out of here") if secret else None


def guarded(*, announced: bool = True) -> RelayNet:
    """Edges 1 and 3 at both ends of Via 2; 4 is a neighbour of 2 and leads nowhere."""
    net = RelayNet()
    for number in (1, 2, 3, 4):
        net.add(number, RelayType.VIA if number == 2 else RelayType.EDGE)
        if number > 1:
            net.join(min(number - 1, 2), number)
    if announced:
        net.publish(1)
    net.run()
    return net


NOT_OUT = (Answer.REFUSED, SubscribeCode.POLICY)
SERVED = (Answer.ACCEPTED, SubscribeCode.ACCEPTED)


@pytest.mark.parametrize("where", [2, 3])
def test_what_is_kept_from_all_who_could_serve_it_is_answered(where: int) -> None:
    net = guarded()
    # At 2 only from the one that leads there.
    policy = Secretive(1 if where == 2 else None)
    net.relays[where].set_policy(net.now, policy)
    net.run()
    net.subscribe(3)
    net.run(1.2)
    assert net.answers(3) == [NOT_OUT]
    assert net.clients[3].reasons[-1] == "not out of here"
    assert [event.reason for event in net.told(where, SubscribeRefused)] == ["not out of here"]
    net.run(200)
    assert net.answers(3) == []
    net.relays[where].set_policy(net.now, OpenPolicy())
    net.run()
    assert net.answers(3) == [SERVED]
    net.relays[where].set_policy(net.now, policy)
    net.run(2)
    assert net.answers(3) == [(Answer.ENDED, SubscribeCode.POLICY)]
    net.unsubscribe(3)
    net.run(60)
    assert len(net.relays[where].export_denied) == 0


def test_what_is_kept_back_is_answered_when_somebody_announces_it() -> None:
    net = guarded(announced=False)
    net.relays[2].set_policy(net.now, Secretive())
    net.subscribe(3)
    net.run()
    assert net.answers(3) == [(Answer.REFUSED, SubscribeCode.NO_PUBLISHER)]
    net.publish(1)
    net.run(1.2)
    assert [event.source for event in net.told(2, SubscribeRefused)] == [3]
    # Who asks again is answered again.
    net.subscribe(3)
    net.run(2.2)
    assert net.answers(3)[-1] == NOT_OUT


def test_it_is_answered_when_the_last_way_around_is_gone() -> None:
    net = guarded()
    net.join(4, 1)
    net.relays[2].set_policy(net.now, Secretive(1))
    net.run()
    net.subscribe(3)
    net.run(3)
    assert net.answers(3) == [SERVED]
    net.cut(4, net.session(4, 1))
    net.run(10)
    assert net.answers(3) == [(Answer.ENDED, SubscribeCode.POLICY)]


def test_a_control_server_answers_what_it_keeps_from_all_who_announced_it() -> None:
    net = RelayNet()
    servers = (11, 12)
    for number in (1, 3, 4):
        net.add(number)
    for number in servers:
        net.add(number, RelayType.CONTROL)
    net.dial_for_ever(1, 3, 4, *servers)
    net.dial_for_ever(3, 4, *servers)
    net.dial_for_ever(4, *servers)
    net.publish(1)
    net.run(3)
    for number in servers:
        net.relays[number].set_policy(net.now, Secretive(1))
    net.run()
    net.subscribe(3)
    net.subscribe(4)
    net.run(3)
    assert (net.answers(3), net.answers(4)) == ([NOT_OUT], [SERVED])
    assert net.clients[3].reasons[-1] == "not out of here"
    for number in servers:
        told = net.told(number, SubscribeRefused)
        assert [event.reason for event in told] == ["not out of here"]
    # Somebody else announces it, of whom nothing is kept; then only the first one has it again.
    net.publish(4)
    net.run(10)
    assert net.answers(3)[-1:] == [SERVED]
    for number in servers:
        net.relays[number].set_policy(net.now, OpenPolicy())
    net.unsubscribe(3)
    net.unsubscribe(4)
    net.run(60)
    assert [len(net.relays[number].export_denied) for number in servers] == [0, 0]


class NotAway(OpenPolicy):
    """Nodes that say that they are away are left out, at the filter of the name."""

    __slots__ = ("at",)

    def __init__(self, at: str) -> None:
        self.at = at

    def _judge(self, at: str, node: NodeSelf) -> Refusal | None:
        away = at == self.at and any(label.key == "away" for label in node.labels)
        return Refusal(at, "away") if away else None

    def peer(self, node: NodeSelf) -> Refusal | None:
        return self._judge("peer", node)

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return self._judge("import", peer)

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return self._judge("export", peer)

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        return self._judge("subscribe", source)


@pytest.mark.parametrize(
    ("at", "where", "who"), [("subscribe", 1, 3), ("import", 2, 3), ("export", 2, 1)]
)
def test_policy_goes_by_what_a_node_says_now(at: str, where: int, who: int) -> None:
    net = guarded()
    net.relays[where].set_policy(net.now, NotAway(at))
    net.subscribe(3)
    net.run(2)
    assert net.answers(3)[-1] == SERVED
    net.relays[who].set_own_label(net.now, "away", "yes")
    net.run(5)
    assert net.answers(3) == [(Answer.ENDED, SubscribeCode.POLICY)]
    net.relays[who].set_own_label(net.now, "away", "")
    net.run(5)
    assert net.answers(3)[-1] == SERVED


def test_a_peer_that_goes_where_peers_must_not_be_is_left() -> None:
    net = guarded()
    net.relays[2].set_policy(net.now, NotAway("peer"))
    net.run()
    net.told(2, PeerGone)
    net.relays[3].set_own_label(net.now, "away", "yes")
    net.run()
    assert [(gone.node, gone.code) for gone in net.told(2, PeerGone)] == [(3, CloseCode.POLICY)]


class NoTransit(OpenPolicy):
    """Nothing is reached through other relays."""

    __slots__ = ()

    def import_node(self, info: NodeInfo, peer: NodeSelf, lookup: NodeInfoLookup) -> Refusal | None:
        return Refusal("transit", "no relay may be passed") if info.path else None


def test_a_relay_that_policy_cuts_off_asks_whether_it_is_still_served() -> None:
    net = RelayNet()
    for number in (1, 2, 3):
        net.add(number, VIA if number == 2 else RelayType.EDGE, dynamic_peering=False)
    net.join(1, 2)
    net.join(2, 3)
    net.run()
    net.publish(1)
    net.subscribe(3)
    net.run()
    assert net.answers(3)[-1] == (Answer.ACCEPTED, SubscribeCode.ACCEPTED)
    identity = NodeId(3), key_of(TRACK)
    before = net.relays[3].subscribes.get(identity)
    net.relays[3].set_policy(net.now, NoTransit())
    # The publisher's relay has still a way to us, and serves us.
    net.run(20)
    assert net.answers(3) == []
    net.send(1, b"still there")
    net.run()
    assert net.got(3) == [[b"still there"]]
    after = net.relays[3].subscribes.get(identity)
    assert before is not None
    assert after is not None
    assert after.stamp > before.stamp
    net.relays[3].set_policy(net.now, OPEN_POLICY)
    net.run(20)
    assert net.answers(3) == []
    for number in (1, 3):
        net.relays[number].set_policy(net.now, NoTransit())
    net.run(20)
    assert net.answers(3)[-1][0] is Answer.ENDED
    for number in (1, 3):
        net.relays[number].set_policy(net.now, OPEN_POLICY)
    net.run(20)
    assert net.answers(3)[-1] == (Answer.ACCEPTED, SubscribeCode.ACCEPTED)


def test_a_relay_that_policy_keeps_a_node_from_hears_again_what_that_said() -> None:
    """It forgets it after a while. Its peers do not: they still know the node."""
    net = RelayNet()
    for number in (1, 2, 3, 4):
        net.add(number, dynamic_peering=False)
    for pair in ((1, 2), (2, 3), (3, 4)):
        net.join(*pair)
    net.run()
    net.publish(1)
    net.subscribe(4)
    net.run()
    net.answers(4)
    identity = NodeId(4), key_of(TRACK)
    # For 2 nothing goes through 3 any more, so it tells 1 nothing of 4.
    net.relays[2].set_policy(net.now, NoTransit())
    net.run(NetworkSettings().convergence + 1)
    assert net.relays[1].subscribes.sizes() == (0, 0, 0)
    before = net.relays[2].subscribes.get(identity)
    assert before is not None
    net.relays[2].set_policy(net.now, OPEN_POLICY)
    net.run(0.2)
    assert net.relays[1].subscribes.get(identity) == before
    net.send(1, b"here again")
    net.run()
    assert net.got(4) == [[b"here again"]]
