"""Whatever comes and goes at edges and Stubs: nothing twice, nothing back, nothing left behind."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from laps_relay.core.control.settings import EdgeSettings
from testkit.bridges import NETWORK, Client, Edge, World
from testkit.edge_net import DRAFTS, NAMESPACE, track_of
from testkit.plane import subgroup
from testkit.stubs import Stub

TRACKS = [track_of("zero"), track_of("one")]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 3), st.integers(0, 1), st.booleans()),
        st.tuples(st.just("subscribe"), st.integers(0, 3), st.integers(0, 1), st.booleans()),
        st.tuples(st.just("watch"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("leave"), st.integers(0, 20)),
        st.tuples(st.just("send"), st.integers(0, 20)),
        st.tuples(st.just("wait"), st.sampled_from([0.5, 6.0, 20.0])),
    ),
    max_size=25,
)


class Play:
    """Three edges, a Stub behind the first, and clients that come and go."""

    def __init__(self, *, lag: bool, plaintext: bool) -> None:
        self.world = World(lag=lag, plaintext=plaintext)
        edges = [self.world.edge(settings=EdgeSettings(cache_linger=1.0)) for _ in range(3)]
        self.stub = Stub(self.world)
        self.joint = self.stub.join(edges[0])
        self.edges: list[Edge] = [*edges, self.stub.edge]
        self.publishers: list[tuple[Client, int]] = []
        self.subscribers: list[tuple[Client, int]] = []
        self.others: list[Client] = []
        self.group = 0

    def do(self, step: tuple[Any, ...]) -> None:
        match step:
            case "publish", where, track, new:
                client = self.edges[where].publisher(DRAFTS[new], TRACKS[track])
                self.publishers.append((client, track))
            case "subscribe", where, track, new:
                client = self.edges[where].subscriber(DRAFTS[new], TRACKS[track])
                self.subscribers.append((client, track))
            case "watch", where, tracks:
                client = self.edges[where].connect(DRAFTS[1])
                ask = (
                    client.session.subscribe_tracks
                    if tracks
                    else client.session.subscribe_namespace
                )
                ask(NAMESPACE)
                self.world.settle()
                self.others.append(client)
            case "leave", number:
                everybody: list[Any] = [*self.publishers, *self.subscribers]
                if everybody:
                    entry = everybody[number % len(everybody)]
                    (self.publishers if entry in self.publishers else self.subscribers).remove(
                        entry
                    )
                    entry[0].leave()
            case "send", number:
                if self.publishers:
                    self.send(*self.publishers[number % len(self.publishers)])
            case "wait", seconds:
                self.world.advance(seconds)

    def send(self, client: Client, track: int) -> None:
        """A new group, which nobody else sends, to everybody who has a subscription."""
        self.group += 1
        payload = b"%d of track %d" % (self.group, track)
        live = [each for each in self.subscribers if each[1] == track and self.is_served(each[0])]
        client.send(subgroup(client.draft, [payload], group=self.group))
        for subscriber, _ in live:
            assert subscriber.objects().get((self.group, 0)) == payload

    def is_served(self, client: Client) -> bool:
        return any(
            row.session == client.id and row.established
            for row in client.edge.relay.subscriptions()
        )

    def check(self) -> None:
        # Each object crosses each link once, and comes to each client once.
        for crossed in Counter(self.world.carried).values():
            assert crossed == 1
        for client, _ in self.subscribers:
            client.objects()
        ups = Counter(b"%d" % stream.number for stream in self.joint.up.streams)
        assert all(count == 1 for count in ups.values())

    def end(self) -> None:
        """Everybody leaves: the tables are as they were."""
        for client, _ in [*self.publishers, *self.subscribers]:
            client.leave()
        for client in self.others:
            client.leave()
        self.world.advance(200)
        for edge in self.edges:
            assert edge.relay.tracks() == []
            assert edge.relay.subscriptions() == []
            assert edge.relay.namespaces() == []
            assert {row.session for row in edge.relay.sessions()} <= {
                NETWORK,
                self.joint.parent.client.number,
            }
            assert edge.relay.poll_timeout() is None
        for port in self.world.ports:
            assert (port.announced, port.wants, port.targets, port.served) == ({}, {}, {}, {})
            assert port.bridge.poll_timeout() is None
            assert port.bridge.client._virtual.session.open_requests == ()
        assert self.joint.uplink.link.wants == []
        assert not self.joint.uplink.link.takers
        assert not self.joint.parent.client._pulls.outlets


@settings(deadline=None)
@given(STEPS, st.booleans(), st.booleans())
def test_anything_may_come_and_go(steps: list[tuple[Any, ...]], lag: bool, plaintext: bool) -> None:
    play = Play(lag=lag, plaintext=plaintext)
    for step in steps:
        play.do(step)
        play.check()
    play.end()
