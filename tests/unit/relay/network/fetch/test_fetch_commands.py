"""Fetches of a relay's own clients, between real relays in memory."""

from __future__ import annotations

from itertools import pairwise

import pytest

from laps_sdk.upstream.interfaces import FetchRefusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import (
    AnnounceKind,
    FetchCancel,
    FetchResponse,
    RelayType,
    SubscribeCode,
)
from testkit.fetch_rig import FetchClients, asked_of, request_of
from testkit.relay_net import TRACK, RelayNet


class FetchNet(RelayNet):
    """Edges whose clients fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetchers: dict[int, FetchClients] = {}

    def edge(self, number: int) -> FetchClients:
        relay, clients = self.add(number), self.clients[number]
        self.fetchers[number] = FetchClients(relay)
        relay.attach(clients, clients, self.fetchers[number])
        return self.fetchers[number]

    def fetch(self, number: int) -> int:
        asked = self.relays[number].fetch(self.now, TRACK, asked_of())
        assert isinstance(asked, int)
        return asked

    def under_way(self) -> list[tuple[int, int]]:
        return [
            (len(relay.fetches.asking), len(relay.fetches.serving))
            for relay in self.relays.values()
        ]


def line(*vias: int) -> FetchNet:
    """Edge 1 publishes, Edge 9 asks; what is between them is in one line."""
    net = FetchNet()
    net.edge(1)
    for via in vias:
        net.add(via, RelayType.VIA)
    net.edge(9)
    relays = [1, *vias, 9]
    for left, right in pairwise(relays):
        net.join(left, right)
    net.publish(1)
    net.run()
    return net


@pytest.mark.parametrize("vias", [(), (5,), (5, 6)], ids=["direct", "one Via", "two Vias"])
def test_a_fetch_goes_there_and_its_answer_comes_back(vias: tuple[int, ...]) -> None:
    net = line(*vias)
    fetch_id = net.fetch(9)
    net.run(0.2)
    assert net.got(9) == [[b"past"]]
    assert net.fetchers[9].answers == [(fetch_id, 0, "")]
    net.relays[9].fetch_over(net.now, fetch_id)
    assert net.under_way() == [(0, 0)] * len(net.relays)
    net.run(5.0)
    # Its sets are withdrawn everywhere.
    assert [relay.tables.sets() for relay in net.relays.values()] == [[]] * len(net.relays)
    assert [relay.tables.fib() for relay in net.relays.values()] == [[]] * len(net.relays)


def test_refused_and_unknown() -> None:
    net = line(5)
    net.fetchers[1].code = SubscribeCode.PUBLISHER_REFUSED
    fetch_id = net.fetch(9)
    net.run(0.2)
    assert net.fetchers[9].answers == [(fetch_id, SubscribeCode.PUBLISHER_REFUSED, "not here")]
    net.relays[1].withdraw(net.now, AnnounceKind.TRACK, TRACK)
    net.run()
    asked = net.relays[9].fetch(net.now, TRACK, asked_of())
    assert isinstance(asked, FetchRefusal)
    assert asked.code == SubscribeCode.NO_PUBLISHER
    assert net.under_way() == [(0, 0)] * 3


def test_a_cancelled_answer_is_reset() -> None:
    net = line(5)
    net.fetchers[1].hold = True
    fetch_id = net.fetch(9)
    net.run(0.2)
    assert list(net.clients[9].streams.values()) == [b"past"]
    net.relays[9].unfetch(net.now, fetch_id)
    net.run(0.2)
    assert net.fetchers[1].dropped == [(NodeId(9), fetch_id)]
    assert net.clients[9].reset == [(b"past", StreamCode.NO_SUBSCRIBERS)]
    assert net.under_way() == [(0, 0)] * 3


def test_who_asked_is_gone() -> None:
    net = line(5)
    net.fetchers[1].hold = True
    fetch_id = net.fetch(9)
    net.run(0.2)
    net.crash(9)
    net.run(5.0)
    assert net.fetchers[1].dropped == [(NodeId(9), fetch_id)]


def test_who_answers_is_gone() -> None:
    net = line(5)
    net.fetchers[1].hold = True
    net.fetch(9)
    net.run(0.2)
    net.crash(1)
    net.run(5.0)
    assert [code for _, code, _ in net.fetchers[9].answers] == [0, SubscribeCode.UNREACHABLE]
    assert net.clients[9].reset == [(b"past", StreamCode.LOST)]


def test_a_control_server_knows_who_announced_a_track() -> None:
    net = FetchNet()
    net.edge(1)
    net.edge(9)
    net.add(3, RelayType.CONTROL)
    net.add(5, RelayType.VIA)
    for edge in (1, 9):
        net.dial_for_ever(edge, 3, 5)
    net.run()
    net.publish(1)
    net.run()
    assert net.relays[9].tables.announce_rows() == []  # a track is told to no Edge
    fetch_id = net.fetch(9)
    net.run(0.2)
    assert net.got(9) == [[b"past"]]
    assert net.fetchers[9].answers == [(fetch_id, 0, "")]
    # What nobody has announced, nobody has.
    net.relays[1].withdraw(net.now, AnnounceKind.TRACK, TRACK)
    net.run()
    net.fetch(9)
    net.run(0.2)
    assert net.fetchers[9].answers[-1][1] == SubscribeCode.NO_PUBLISHER


def test_messages_that_nobody_asked_for_change_nothing() -> None:
    net = line(5)
    net.say(5, 9, FetchResponse(NodeId(9), 7, NodeId(1), 0, 0))
    net.say(5, 1, FetchCancel(NodeId(9), NodeId(1), 7, 0))
    net.say(5, 1, request_of(66, 1))  # of a node that does not exist
    net.run(0.2)
    assert net.fetchers[9].answers == []
    assert net.under_way() == [(0, 0)] * 3
    fetch_id = net.fetch(9)
    net.run(0.2)
    assert net.fetchers[9].answers == [(fetch_id, 0, "")]
