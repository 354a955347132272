"""Sets in a small network, as machines: every target gets every stream once, whatever moves."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from laps_wire.nodeid import NodeId
from testkit.set_world import SetWorld, feed

RING = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1), (1, 3)]
"""Five relays and a chord."""
NUMBERS = st.integers(1, 5)
NODES = st.lists(NUMBERS, max_size=5)
CHOICE = st.integers(0, 1000)


def ids(*numbers: int) -> frozenset[NodeId]:
    return frozenset(NodeId(number) for number in numbers)


class Network(RuleBasedStateMachine):
    """Five relays, two feeds, streams that begin at any moment, and every target on the move.

    Routes change at one relay for one target at a time, and never into a loop. A relay that changes
    its route has heard everything that its neighbours said before, as in the real network, where
    routes and sets come over the same control streams.
    """

    def __init__(self) -> None:
        super().__init__()
        self.net = SetWorld(5, RING)
        self.feeds = {1: 1, 2: 4}
        """Number to relay."""
        self.wanted: dict[int, frozenset[NodeId]] = {1: ids(), 2: ids()}
        self.settled: dict[int, frozenset[NodeId]] = {1: ids(), 2: ids()}
        self.names: dict[str, tuple[int, set[NodeId]]] = {}
        """Name to feed, and who must get it, whole and once."""
        self.lossy: set[NodeId] = set()
        """Targets that somebody denies: what becomes of them is not certain."""
        self.widened: set[int] = set()
        """Relays with a new parallel session: feeds take their share of it when they look again."""

    @initialize(one=NODES, two=NODES)
    def begin_feeds(self, one: list[int], two: list[int]) -> None:
        self.set_feed(1, one)
        self.set_feed(2, two)
        self.settle()

    def set_feed(self, number: int, targets: list[int]) -> None:
        wanted = ids(*targets)
        relay = self.net[self.feeds[number]]
        relay.sets.set_feed(self.net.now, feed(number), number, wanted, "")
        self.wanted[number] = wanted
        self.settled[number] &= wanted
        for of, expected in self.names.values():
            if of == number:
                expected.intersection_update(wanted)

    @rule(number=st.integers(1, 2), nodes=NODES)
    def change_targets(self, number: int, nodes: list[int]) -> None:
        self.set_feed(number, nodes)

    @rule(number=st.integers(1, 2))
    def begin_stream(self, number: int) -> None:
        name = f"stream {len(self.names)}"
        self.names[name] = (number, set(self.settled[number] - self.lossy))
        self.net[self.feeds[number]].plane.begin(feed(number), name)

    @precondition(lambda self: self.names)
    @rule(choice=CHOICE)
    def end_stream(self, choice: int) -> None:
        names = sorted(self.names)
        self.net.finished.add(names[choice % len(names)])

    @precondition(lambda self: self.net.control)
    @rule(choice=CHOICE)
    def message(self, choice: int) -> None:
        channels = sorted(self.net.control)
        self.net.deliver(*channels[choice % len(channels)])

    @precondition(lambda self: self.net.in_flight())
    @rule(choice=CHOICE)
    def header(self, choice: int) -> None:
        streams = self.net.in_flight()
        self.net.arrive(streams[choice % len(streams)])

    @rule()
    def idle(self) -> None:
        self.net.idle()

    @rule(relay=NUMBERS, to=NUMBERS, choice=CHOICE)
    def move(self, relay: int, to: int, choice: int) -> None:
        net, node, goal = self.net, NodeId(relay), NodeId(to)
        hops = [
            peer
            for peer in net.neighbours(node)
            if (path := net.path(peer, goal)) and node not in path
        ]
        if node == goal or not hops:
            return
        for peer in net.neighbours(node):
            for session in net.between(node, peer):
                while (peer, session) in net.control:
                    net.deliver(peer, session)
        net[relay].hop[goal] = hops[choice % len(hops)]
        net[relay].sets.reroute(net.now, [goal])

    @precondition(lambda self: len(self.net.links) < 2 * len(RING))
    @rule(choice=CHOICE)
    def parallel(self, choice: int) -> None:
        """One more session between two relays: what comes later may take it."""
        self.net.sessions += 1
        a, b = RING[choice % len(RING)]
        self.net.links[self.net.sessions] = (NodeId(a), NodeId(b))
        self.widened |= {a, b}

    @rule(relay=NUMBERS)
    def metrics(self, relay: int) -> None:
        """Nothing changes but figures: nothing is made."""
        sets = self.net[relay].sets
        before = sets.counters.made
        sets.reroute(self.net.now, sorted(self.net.relays))
        if not self.lossy and relay not in self.widened:
            assert sets.counters.made == before
        self.widened.discard(relay)

    @rule(seconds=st.sampled_from([0.01, 0.05, 0.5, 5.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.net.advance(seconds)

    @rule()
    def settle(self) -> None:
        self.net.advance(0.2)
        self.check_streams()
        for number, relay in self.feeds.items():
            reached = self.net.reached(NodeId(relay), feed(number))
            certain = self.wanted[number] - self.lossy
            assert all(reached[target] == 1 for target in certain)
            assert all(count == 1 for count in reached.values())
            self.settled[number] = certain

    def heal(self) -> None:
        """Whatever was wrong is over, for long enough."""

    def check_streams(self) -> None:
        """Everything has arrived."""
        for name, (_, expected) in self.names.items():
            for target in expected:
                assert self.net.delivered[target, name] == 1, (name, target)
                assert (target, name) not in self.net.truncated

    @invariant()
    def holds(self) -> None:
        self.net.check()

    def teardown(self) -> None:
        self.net.drain()
        self.check_streams()
        self.heal()
        for number, relay in self.feeds.items():
            reached = self.net.reached(NodeId(relay), feed(number))
            assert reached == dict.fromkeys(self.wanted[number], 1)
        for number, relay in self.feeds.items():
            self.net[relay].sets.drop_feed(self.net.now, feed(number))
        self.net.finished.update(self.names)
        self.net.advance(2.0)
        assert self.net.is_empty()


class Storm(Network):
    """The same, with relays that deny targets for a while, and links that fail."""

    @rule(relay=NUMBERS, to=NUMBERS)
    def deny(self, relay: int, to: int) -> None:
        """A relay does not serve a target to its peers any more."""
        node = NodeId(to)
        self.net[relay].denied.add(node)
        self.lossy.add(node)
        for _, expected in self.names.values():
            expected.discard(node)

    @rule()
    def allow(self) -> None:
        """All relays serve all targets again; after a while all refusals have been forgotten."""
        for relay in self.net.relays.values():
            relay.denied.clear()

    @rule(choice=CHOICE)
    def kill(self, choice: int) -> None:
        """A link fails, if the rest still holds together: what was under way is lost."""
        sessions = sorted(self.net.links)
        session = sessions[choice % len(sessions)]
        ends = self.net.links.pop(session)
        is_connected = len(self.net.shortest(NodeId(1))) == 4
        self.net.links[session] = ends
        if is_connected:
            self.net.kill(session)
            self.recompute()

    @rule()
    def mend(self) -> None:
        """All links are there again, with new sessions."""
        for a, b in RING:
            if self.net.link(NodeId(a), NodeId(b)) is None:
                self.net.sessions += 1
                self.net.links[self.net.sessions] = (NodeId(a), NodeId(b))
        self.recompute()

    def recompute(self) -> None:
        for relay in self.net.relays.values():
            relay.hop = self.net.shortest(relay.node)
        for relay in self.net.relays.values():
            relay.sets.reroute(self.net.now)
        for _, expected in self.names.values():
            expected.clear()
        self.settled = {1: ids(), 2: ids()}

    def heal(self) -> None:
        self.mend()
        self.allow()
        self.net.advance(31.0)
        self.net.advance(31.0)


TestNetwork = Network.TestCase
TestStorm = Storm.TestCase
