from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from laps_relay.network.control_server.control_server import MAX_SHARED, ControlServer
from laps_relay.network.control_server.redirect import CLIENT_LABEL
from laps_relay.network.control_server.sharding import Sharding
from laps_relay.network.flood.entries import AnnounceEntries, SubscribeEntries
from laps_relay.network.flood.floods import AnnounceTable, FloodTable, SubscribeTable
from laps_relay.network.settings import NetworkSettings
from laps_sdk.upstream.bodies import body_for
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    AnnounceWithdrawal,
    Label,
    Load,
    LoadClass,
    NodeSelf,
    Parameters,
    RelayType,
    Stamp,
    SubscribeCode,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdrawal,
)
from laps_wire.peering.laps2.information import NO_DATA
from testkit.subscription_rig import announce_info, key_of, namespace, subscribe_info, track

SETTINGS = NetworkSettings()
NAMESPACE, TRACK = AnnounceKind.NAMESPACE, AnnounceKind.TRACK


class Server:
    """A control server; its tables, as a relay of type CONTROL has them."""

    def __init__(self, node: int = 50) -> None:
        local = NodeId(node)
        self.announces: AnnounceTable = FloodTable(
            AnnounceEntries(local),
            SETTINGS,
            exports=self.exports_announce,
        )
        self.subscribes: SubscribeTable = FloodTable(
            SubscribeEntries(local),
            SETTINGS,
            exports=self.exports_subscribe,
            audience=self.audience,
        )
        self.control = ControlServer(
            local,
            announces=self.announces,
            subscribes=self.subscribes,
            node=self.node,
            respond=self.respond,
        )
        self.responses: list[tuple[int, SubscribeResponse]] = []
        self.nodes: dict[NodeId, NodeSelf] = {}

    def exports_announce(self, session: int, entry: AnnounceInfo) -> bool:
        return self.control.exports_announce(session, entry)

    def exports_subscribe(self, session: int, entry: SubscribeInfo) -> bool:
        return self.control.exports_subscribe(session, entry)

    def audience(self, entry: SubscribeInfo) -> Iterator[int]:
        return self.control.audience(entry)

    def node(self, node: NodeId) -> NodeSelf | None:
        return self.nodes.get(node)

    def says(
        self, node: int, load: LoadClass = LoadClass.NORMAL, *, region: str = "", url: bool = True
    ) -> None:
        """Node information of an Edge."""
        labels = (Label(CLIENT_LABEL, f"moqt://n{node}:1"),) if url else ()
        self.nodes[NodeId(node)] = NodeSelf(
            NodeId(node),
            RelayType.EDGE,
            Stamp(1, 1),
            load=Load(load),
            region=region,
            labels=labels,
        )
        self.control.node_changed(NodeId(node))

    def respond(self, now: float, session: int, response: SubscribeResponse) -> None:
        self.responses.append((session, response))

    def add(self, session: int, node: int, kind: RelayType = RelayType.EDGE) -> None:
        for table in (self.announces, self.subscribes):
            table.add_session(session, source=NodeId(node))
            table.node_changed(0.0, NodeId(node), 1)
        self.control.add_session(session, NodeId(node), kind)

    def remove(self, now: float, session: int) -> None:
        self.announces.remove_session(now, session)
        self.subscribes.remove_session(now, session)
        self.control.remove_session(session)

    def settle(self) -> None:
        self.control.announces_changed(0.0, self.announces.take_changes())
        self.control.subscribes_changed(0.0, self.subscribes.take_changes())
        self.control.settle()

    def announce(self, session: int, entry: AnnounceInfo) -> None:
        self.announces.heard(0.0, session, entry)
        self.settle()

    def subscribe(self, session: int, entry: SubscribeInfo) -> None:
        self.subscribes.heard(0.0, session, entry)
        self.settle()

    def told(self, *sessions: int) -> dict[int, tuple[list[int], list[int]]]:
        """Sequences of subscribes: advertised, withdrawn."""
        found = {}
        for session in sessions:
            advertise, withdraw = self.subscribes.flush(session)
            if advertise or withdraw:
                found[session] = (
                    [item.stamp.sequence for item in advertise],
                    [item.stamp.sequence for item in withdraw],
                )
        return found

    def said(self) -> list[tuple[int, SubscribeCode]]:
        responses, self.responses = self.responses, []
        return [(session, SubscribeCode(response.code)) for session, response in responses]


def wanted(source: int, name: FullTrackName, sequence: int = 1) -> SubscribeInfo:
    return subscribe_info(source, name, body_for(name), sequence=sequence)


def made() -> Server:
    server = Server()
    for node in (1, 2, 3):
        server.add(node, node)
    return server


def test_a_subscribe_goes_to_the_edges_whose_announces_match() -> None:
    server = made()
    server.announce(1, announce_info(1, namespace("a")))
    server.announce(2, announce_info(2, track("a/b/n"), TRACK))
    server.subscribe(3, wanted(3, track("a/b/n"), 7))
    assert server.told(1, 2, 3) == {1: ([7], []), 2: ([7], [])}
    assert server.said() == []
    announcers = server.control.announcers(wanted(3, track("a/b/n")))
    assert sorted(announcers) == [1, 2]
    server.subscribe(3, wanted(3, track("a/b/m"), 8))
    assert server.told(1, 2, 3) == {1: ([8], [])}
    assert server.control.sizes().subscribes == 2


def test_nothing_matches_is_answered_at_once_and_a_later_announce_finds_it() -> None:
    server = made()
    server.subscribe(3, wanted(3, track("a/b/n"), 7))
    server.subscribe(3, wanted(3, track("a/c/n"), 8))
    assert server.said() == [(3, SubscribeCode.NO_PUBLISHER)] * 2
    assert server.told(1, 2, 3) == {}
    server.announce(1, announce_info(1, namespace("a/b")))
    assert server.told(1, 2, 3) == {1: ([7], [])}
    server.announce(2, announce_info(2, track("a/c/n"), TRACK))
    assert server.told(1, 2, 3) == {2: ([8], [])}
    # Asked anew, with a new stamp: there is somebody now.
    server.subscribe(3, wanted(3, track("a/b/n"), 9))
    assert server.said() == []


def test_who_announces_what_it_wants_itself_has_no_publisher_elsewhere() -> None:
    server = made()
    server.announce(3, announce_info(3, namespace("a")))
    server.subscribe(3, wanted(3, track("a/n"), 7))
    assert server.said() == [(3, SubscribeCode.NO_PUBLISHER)]
    assert server.told(1, 2, 3) == {}


def test_what_an_announce_no_longer_covers_is_taken_back() -> None:
    server = made()
    server.announce(1, announce_info(1, namespace("a")))
    server.announce(1, announce_info(1, track("a/n"), TRACK))
    server.subscribe(3, wanted(3, track("a/n"), 7))
    server.subscribe(3, wanted(3, track("a/m"), 8))
    server.told(1, 2, 3)
    key = key_of(namespace("a"))
    server.announces.heard_withdrawal(
        0.0, 1, AnnounceWithdrawal(NodeId(1), Stamp(1, 9), NAMESPACE, key)
    )
    server.settle()
    assert server.told(1, 2, 3) == {1: ([], [8])}
    key = key_of(track("a/n"))
    server.announces.heard_withdrawal(
        0.0, 1, AnnounceWithdrawal(NodeId(1), Stamp(1, 10), TRACK, key)
    )
    server.settle()
    assert server.told(1, 2, 3) == {1: ([], [7])}
    assert server.control.sizes().announces == 0
    assert server.control.announcers(subscribe_info(7, track("a/n"), NO_DATA)) == []


def test_an_end_goes_where_the_beginning_went() -> None:
    server = made()
    server.announce(1, announce_info(1, namespace("a")))
    server.subscribe(3, wanted(3, track("a/n"), 7))
    server.told(1, 2, 3)
    end = SubscribeWithdrawal(NodeId(3), Stamp(1, 8), key_of(track("a/n")))
    server.subscribes.heard_withdrawal(0.0, 3, end)
    server.settle()
    assert server.told(1, 2, 3) == {1: ([], [8])}
    assert server.control.sizes().subscribes == 0


def test_edges_hear_of_namespaces_and_not_of_tracks() -> None:
    server = made()
    server.add(4, 60, RelayType.CONTROL)
    server.add(5, 70, RelayType.VIA)
    server.announce(1, announce_info(1, namespace("a")))
    server.announce(1, announce_info(1, track("a/n"), TRACK))
    heard = {session: server.announces.flush(session)[0] for session in range(1, 6)}
    assert [(session, len(entries)) for session, entries in heard.items()] == [
        (1, 0),
        (2, 1),
        (3, 1),
        (4, 0),
        (5, 0),
    ]
    assert heard[2][0].kind is NAMESPACE
    # Subscribes go to nobody who is not an Edge.
    server.announce(4, announce_info(60, namespace("z")))
    server.subscribe(3, wanted(3, track("z/n"), 7))
    assert server.told(1, 2, 3, 4, 5) == {}
    server.remove(0.0, 4)


def test_an_edge_that_comes_back_is_told_what_its_announces_match() -> None:
    server = made()
    server.announce(1, announce_info(1, namespace("a")))
    server.subscribe(3, wanted(3, track("a/n"), 7))
    server.told(1, 2, 3)
    server.remove(0.0, 1)
    server.subscribe(3, wanted(3, track("a/m"), 8))
    assert server.told(2, 3) == {}
    server.add(9, 1)
    assert server.told(9, 2, 3) == {9: ([7, 8], [])}
    server.remove(0.0, 9)
    server.add(10, 1)
    server.add(11, 1)
    server.remove(0.0, 10)
    server.subscribe(3, wanted(3, track("a/x"), 9))
    assert server.told(11) == {11: ([7, 8, 9], [])}


def test_a_subscribe_that_nobody_gives_any_more_is_not_answered() -> None:
    server = made()
    server.subscribes.heard(0.0, 3, wanted(3, track("a/n"), 7))
    server.remove(0.0, 3)
    server.settle()
    assert server.said() == []


def test_answers_go_back_to_the_s_relay() -> None:
    server = made()
    server.announce(1, announce_info(1, namespace("a")))
    server.subscribe(3, wanted(3, track("a/n"), 7))
    parameters = Parameters(((0x41, b"end to end"), (0x42, b"neighbour")))
    key = key_of(track("a/n"))
    answer = SubscribeResponse(NodeId(3), key, Stamp(1, 7), NodeId(1), 0, parameters=parameters)
    server.control.response(0.0, 1, answer)
    [(session, passed)] = server.responses
    assert session == 3
    assert passed.parameters == Parameters(((0x41, b"end to end"),))
    server.control.response(0.0, 1, SubscribeResponse(NodeId(3), key, Stamp(1, 6), NodeId(1), 0))
    assert len(server.responses) == 1


# Edges and control servers together: what every Edge hears, while servers come and go


class Edge:
    def __init__(self, node: int) -> None:
        self.node = NodeId(node)
        self.sharding = Sharding(self.node)
        self.sequence = 0
        self.announces: AnnounceTable = FloodTable(
            AnnounceEntries(self.node), SETTINGS, exports=self.sharding.exports_announce
        )
        self.subscribes: SubscribeTable = FloodTable(
            SubscribeEntries(self.node), SETTINGS, exports=self.sharding.exports_subscribe
        )

    def reconsider(self) -> None:
        self.announces.reconsider()
        self.subscribes.reconsider()

    def settle(self) -> None:
        self.announces.take_changes()
        self.subscribes.take_changes()


class World:
    """Every Edge has a session with every server that is up."""

    def __init__(self, edges: int, servers: int) -> None:
        self.now = 0.0
        self.edges = [Edge(number + 1) for number in range(edges)]
        self.servers: dict[int, Server] = {}
        self.announced: dict[tuple[int, FullTrackName], int] = {}
        self.wanted: dict[tuple[int, FullTrackName], int] = {}
        for number in range(servers):
            self.start(50 + number)

    def session(self, edge: Edge, server: int) -> int:
        return server * 100 + edge.node

    def start(self, number: int) -> None:
        server = self.servers[number] = Server(number)
        for edge in self.edges:
            session = self.session(edge, number)
            server.add(session, edge.node)
            for table in (edge.announces, edge.subscribes):
                table.add_session(session, source=NodeId(number))
                for other in self.edges:
                    table.node_changed(self.now, other.node, 1)
            edge.sharding.add_server(session, NodeId(number))
            edge.reconsider()
        for other in self.edges:
            server.announces.node_changed(self.now, other.node, 1)
            server.subscribes.node_changed(self.now, other.node, 1)

    def stop(self, number: int) -> None:
        del self.servers[number]
        for edge in self.edges:
            session = self.session(edge, number)
            edge.announces.remove_session(self.now, session)
            edge.subscribes.remove_session(self.now, session)
            edge.sharding.remove_server(session)
            edge.reconsider()

    def announce(self, edge: Edge, name: FullTrackName) -> None:
        edge.sequence += 1
        kind = TRACK if name.name else NAMESPACE
        edge.announces.originate(
            self.now, announce_info(edge.node, name, kind, sequence=edge.sequence)
        )
        self.announced[edge.node, name] = edge.sequence

    def want(self, edge: Edge, name: FullTrackName) -> None:
        edge.sequence += 1
        edge.subscribes.originate(self.now, wanted(edge.node, name, edge.sequence))
        self.wanted[edge.node, name] = edge.sequence

    def unwant(self, edge: Edge, name: FullTrackName) -> None:
        if self.wanted.pop((edge.node, name), None) is not None:
            edge.sequence += 1
            end = SubscribeWithdrawal(edge.node, Stamp(1, edge.sequence), key_of(name))
            edge.subscribes.retract(self.now, end)

    def exchange(self) -> None:
        """Until nothing is left to be told."""
        busy = True
        while busy:
            busy = False
            for number, server in self.servers.items():
                for edge in self.edges:
                    session = self.session(edge, number)
                    for there, back in ((edge, server), (server, edge)):
                        busy |= self._carry(there.announces, back.announces, session)
                        busy |= self._carry(there.subscribes, back.subscribes, session)
                        server.settle()
                        edge.settle()

    def _carry(
        self,
        there: FloodTable[Any, Any, Any],
        back: FloodTable[Any, Any, Any],
        session: int,
    ) -> bool:
        advertise, withdraw = there.flush(session)
        for item in withdraw:
            back.heard_withdrawal(self.now, session, item)
        for item in advertise:
            back.heard(self.now, session, item)
        return bool(advertise or withdraw)

    def rest(self) -> None:
        for _ in range(2):
            self.exchange()
            self.now += 6.0
            relays: list[Edge | Server] = [*self.edges, *self.servers.values()]
            for relay in relays:
                relay.announces.handle_timeout(self.now)
                relay.subscribes.handle_timeout(self.now)
                relay.settle()
        self.exchange()

    def check(self) -> None:
        for edge in self.edges:
            offers = [name for node, name in self.announced if node == edge.node]
            expected = {
                (node, key_of(name)): sequence
                for (node, name), sequence in self.wanted.items()
                if node != edge.node
                and self.servers
                and any(
                    offer == name if offer.name else offer.namespace.is_prefix_of(name.namespace)
                    for offer in offers
                )
            }
            heard = {
                entry.identity: entry.stamp.sequence
                for entry in edge.subscribes.live()
                if entry.source != edge.node
            }
            assert heard == expected
        if self.servers:
            total = sum(server.control.sizes().subscribes for server in self.servers.values())
            assert total == min(2, len(self.servers)) * len(self.wanted)


@pytest.mark.parametrize("seed", range(12))
def test_servers_come_and_go_and_nothing_is_lost(seed: int) -> None:
    dice = random.Random(seed)
    world = World(edges=4, servers=3)
    names = [track(f"a/{space}/{name}") for space in "bc" for name in "xyz"]
    spaces = [namespace("a"), namespace("a/b"), namespace("a/c"), track("a/b/x")]
    for _ in range(40):
        edge = dice.choice(world.edges)
        step = dice.random()
        if step < 0.45:
            world.want(edge, dice.choice(names))
        elif step < 0.6:
            world.unwant(edge, dice.choice(names))
        elif step < 0.75:
            world.announce(edge, dice.choice(spaces))
        elif step < 0.82 and len(world.servers) > 1:
            world.stop(dice.choice(sorted(world.servers)))
        elif step < 0.9 and len(world.servers) < 5:
            world.start(min(set(range(50, 60)) - set(world.servers)))
        else:
            world.rest()
            world.check()
    world.rest()
    world.check()


def test_losing_one_server_takes_nothing_from_anybody_even_for_a_moment() -> None:
    world = World(edges=3, servers=3)
    world.announce(world.edges[0], namespace("a"))
    for number in range(20):
        world.want(world.edges[1], track(f"a/{number}"))
    world.rest()
    world.check()
    origin = world.edges[0].subscribes
    for number in (50, 51):
        world.stop(number)
        assert sum(entry.source == 2 for entry in origin.live()) == 20
        world.exchange()
        assert sum(entry.source == 2 for entry in origin.live()) == 20
        world.rest()
        world.check()


def test_another_edge_speaks_for_one_that_has_no_session() -> None:
    server = made()
    for table in (server.announces, server.subscribes):
        table.node_changed(0.0, NodeId(9), 1)
    server.subscribe(3, wanted(3, track("a/b/n"), 7))
    entry = announce_info(9, namespace("a"))
    server.announce(1, entry)
    assert server.told(1, 2, 3) == {1: ([7], [])}
    server.announce(2, entry)
    server.announce(1, announce_info(9, namespace("c"), sequence=2))
    assert server.told(1, 2, 3) == {}
    server.subscribe(3, wanted(3, track("c/n"), 8))
    assert server.told(1, 2, 3) == {1: ([8], [])}
    # It goes: somebody else had told the same.
    server.remove(0.0, 1)
    server.settle()
    assert server.told(2, 3) == {2: ([7, 8], [])}
    # The Edge comes itself, and goes again: what it had told waits for somebody to tell it.
    server.add(9, 9)
    server.settle()
    assert server.told(2, 3, 9) == {2: ([], [7, 8]), 9: ([7, 8], [])}
    server.remove(0.0, 9)
    server.settle()
    assert server.told(2, 3) == {2: ([7, 8], [])}
    # It is over.
    server.announces.node_changed(0.0, NodeId(9), None)
    server.settle()
    assert server.told(2, 3) == {2: ([], [7, 8])}


# Edges that drain


def shared() -> Server:
    """Edge 1 publishes; 2, 3 and 4 have its track."""
    server = made()
    server.add(4, 4)
    server.announce(1, announce_info(1, namespace("a")))
    for node in (2, 3, 4):
        server.says(node)
        server.subscribe(node, wanted(node, track("a/n"), 10 + node))
    server.subscribe(3, wanted(3, track("a/m"), 23))
    server.told(1, 2, 3, 4)
    return server


def test_who_drains_is_told_who_else_has_its_tracks() -> None:
    server = shared()
    server.says(2, LoadClass.BUSY)
    assert server.told(1, 2, 3, 4) == {}
    server.says(2, LoadClass.DRAINING)
    assert server.told(1, 2, 3, 4) == {2: ([13, 14], [])}
    server.says(2, LoadClass.DRAINING)
    assert server.told(1, 2, 3, 4) == {}
    # What is told changes and ends as anything does.
    server.subscribe(3, wanted(3, track("a/n"), 33))
    assert server.told(1, 2, 3, 4) == {1: ([33], []), 2: ([33], [])}
    end = SubscribeWithdrawal(NodeId(4), Stamp(1, 44), key_of(track("a/n")))
    server.subscribes.heard_withdrawal(0.0, 4, end)
    server.settle()
    assert server.told(1, 2, 3, 4) == {1: ([], [44]), 2: ([], [44])}


def test_it_leads_to_no_answer_and_is_over_with_its_own_subscribe() -> None:
    server = shared()
    server.says(2, LoadClass.DRAINING)
    entry = server.subscribes.get((NodeId(3), key_of(track("a/n"))))
    assert entry is not None
    assert list(server.control.audience(entry)) == [1, 2]
    assert list(server.control.answering(entry)) == [1]
    server.told(1, 2, 3, 4)
    # One of its clients wants another track, before it hears where to go.
    server.subscribe(2, wanted(2, track("a/m"), 50))
    assert server.told(1, 2, 3, 4) == {1: ([50], []), 2: ([23], [])}
    end = SubscribeWithdrawal(NodeId(2), Stamp(1, 51), key_of(track("a/n")))
    server.subscribes.heard_withdrawal(0.0, 2, end)
    server.settle()
    assert server.told(1, 2, 3, 4) == {1: ([], [51]), 2: ([], [13, 14])}
    server.says(2)
    assert server.told(1, 2, 3, 4) == {2: ([], [23])}


def test_an_edge_that_drains_comes_again_and_goes() -> None:
    server = shared()
    server.says(2, LoadClass.DRAINING)
    server.add(9, 2)
    server.subscribe(9, wanted(2, track("a/n"), 12))
    assert server.told(9) == {9: ([13, 14], [])}
    server.remove(0.0, 2)
    server.subscribe(4, wanted(4, track("a/n"), 45))
    assert server.told(9) == {9: ([45], [])}
    server.remove(0.0, 9)
    server.says(2, LoadClass.DRAINING)
    server.subscribe(4, wanted(4, track("a/n"), 46))
    assert server.told(1, 3, 4) == {1: ([46], [12])}
    assert server.control.sizes().draining == 0


def test_near_ones_that_take_clients_come_first_and_not_all_of_the_world() -> None:
    server = made()
    server.says(1, region="eu")
    server.subscribe(1, wanted(1, track("a/n"), 1))
    server.subscribe(1, wanted(1, track("a/m"), 2))
    for node in range(100, 140):
        server.add(node, node)
        server.subscribe(node, wanted(node, track("a/n"), node))
        server.subscribe(node, wanted(node, track("a/m"), node))
        server.says(node, region="eu" if node >= 132 else "us")
    server.says(132, LoadClass.OVERLOADED, region="eu")
    server.says(133, LoadClass.DRAINING, region="eu")
    server.says(134, region="eu", url=False)
    server.says(135, LoadClass.BUSY, region="eu")
    del server.nodes[NodeId(136)]
    for session in (1, 133):
        server.told(session)
    server.says(1, LoadClass.DRAINING, region="eu")
    ((told, _),) = server.told(1).values()
    assert len(told) == 2 * MAX_SHARED
    assert {135, 137, 138, 139} < set(told)
    assert set(told).isdisjoint({132, 133, 134, 136})
    # The same ones have both tracks.
    assert len(set(told)) == MAX_SHARED
    # Another one is told of others.
    server.says(2, LoadClass.NORMAL, region="eu")
    server.subscribe(2, wanted(2, track("a/n"), 3))
    server.says(2, LoadClass.DRAINING, region="eu")
    ((others, _),) = server.told(2).values()
    assert len(others) == MAX_SHARED
    assert set(others) != set(told)
