"""Whatever comes and goes at edges and Stubs: nothing twice, nothing back, nothing left behind."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from laps_sdk.edge.settings import EdgeSettings
from testkit.bridges import NETWORK, Client, Edge, World
from testkit.edge_net import DRAFTS, NAMESPACE, track_of
from testkit.plane import subgroup
from testkit.properties import examples
from testkit.stubs import Stub

TRACKS = [track_of("zero"), track_of("one")]
OPERATIONS = ["publish"] * 3 + ["subscribe"] * 3 + ["send"] * 2 + ["leave", "watch", "wait"]
STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 3), st.sampled_from([0, 0, 0, 1])),
    min_size=6,
    max_size=20,
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
        self.group = self.count = 0
        self.resting = False

    def do(self, operation: str, where: int, which: int) -> None:
        edge = self.edges[where]
        match operation:
            case "publish":
                client = edge.publisher(DRAFTS[self.turn()], TRACKS[which])
                self.publishers.append((client, which))
            case "subscribe":
                client = edge.subscriber(DRAFTS[self.turn()], TRACKS[which])
                self.subscribers.append((client, which))
                # Who publishes it somewhere serves it everywhere.
                published = any(track == which for _, track in self.publishers)
                assert not published or self.is_served(client) or self.is_expected(client)
            case "watch":
                client = edge.connect(DRAFTS[1])
                session = client.session
                (session.subscribe_tracks if which else session.subscribe_namespace)(NAMESPACE)
                self.world.settle()
                self.others.append(client)
            case "leave":
                gone = (self.publishers, self.subscribers)[self.turn()]
                if gone:
                    gone.pop(where % len(gone))[0].leave()
            case "send":
                if self.publishers:
                    self.send(*self.publishers[where % len(self.publishers)])
            case "wait":
                self.world.advance((0.5, 6.0, 20.0, 70.0)[where])

    def turn(self) -> int:
        self.count += 1
        return self.count % 2

    def send(self, client: Client, track: int) -> None:
        """A new group, which nobody else sends, to everybody who has a subscription."""
        self.group += 1
        payload = b"(%d)" % self.group
        live = [
            each
            for each, wants in self.subscribers
            if wants == track and self.is_served(each) and self.is_prompt(each)
        ]
        before = len(self.world.carried)
        client.send(subgroup(client.draft, [payload], group=self.group))
        for subscriber in live:
            assert subscriber.objects().get((self.group, 0)) == payload
        # From where it is published to everywhere else, once, and never back.
        home = 0 if client.edge is self.stub.edge else client.edge.number
        links = [(origin, target) for origin, target, _ in self.world.carried[before:]]
        assert all(origin == home for origin, _ in links)
        assert len(set(links)) == len(links)
        # Nobody is sent anything that nobody there receives.
        wanted = {0 if each.edge is self.stub.edge else each.edge.number for each in live}
        if self.resting and not self.others:
            assert {target for _, target in links} <= wanted | {home}

    def is_expected(self, client: Client) -> bool:
        """Whether it waits for a publisher that is just leaving to be gone."""
        self.world.advance(0.5)
        return self.is_served(client)

    def is_prompt(self, client: Client) -> bool:
        """Whether it hears of a new publisher at once: a parent looks for one every second."""
        return self.resting or client.edge is not self.stub.edge

    def is_served(self, client: Client) -> bool:
        return any(
            row.session == client.id and row.established
            for row in client.edge.relay.subscriptions()
        )

    def rest(self) -> None:
        """After a while everybody who still has a subscription gets what anybody sends."""
        self.world.advance(30)
        self.resting = True
        for publisher in self.publishers:
            self.send(*publisher)
        for client, _ in self.subscribers:
            client.objects()  # no object twice

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
            assert port.bridge.client.idle
        assert not self.joint.uplink.link.subscribed_keys
        assert not self.joint.uplink.link.takers
        assert self.joint.parent.client.idle


@settings(deadline=None, max_examples=examples(30))
@given(STEPS, st.booleans(), st.booleans())
def test_anything_may_come_and_go(
    steps: list[tuple[str, int, int]], lag: bool, plaintext: bool
) -> None:
    play = Play(lag=lag, plaintext=plaintext)
    for step in steps:
        play.do(*step)
    play.rest()
    play.end()
