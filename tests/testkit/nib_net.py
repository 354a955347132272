"""Node information bases that talk to each other in memory, and what they should come to.

:class:`NibNet` carries what they flush through a queue for each direction of a link, in any order
that a test likes. :meth:`NibNet.check` compares them at rest with a search over the whole graph.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

from laps_relay.network.nodes.nib import Nib
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy import OPEN_POLICY
from laps_relay.policy.interface import Policy
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    UNSIGNED,
    Label,
    Load,
    LoadClass,
    Location,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    NodeSignature,
    Reachable,
    RelayType,
    Stamp,
)

__all__ = [
    "BERLIN",
    "TOKYO",
    "WE",
    "NibNet",
    "key_of",
    "located",
    "nib_of",
    "node_info",
    "told",
    "with_peers",
]

_WEIGHTS = {
    LoadClass.NORMAL: 0,
    LoadClass.BUSY: 1,
    LoadClass.OVERLOADED: 256,
    LoadClass.DRAINING: 65536,
}
Key = tuple[int, int, int, int]
Message = tuple[tuple[NodeInfo, ...], tuple[NodeId, ...]]


def key_of(letter: str) -> NodeSignature:
    """Held by a key that is named by one letter."""
    return NodeSignature(fingerprint=letter.encode() * 32)


def node_info(
    node: int,
    *path: tuple[int, int],
    epoch: int = 1,
    sequence: int = 1,
    kind: RelayType = RelayType.EDGE,
    load: Load = Load(),  # noqa: B008 - immutable
    location: Location | None = None,
    region: str = "",
    reachable: tuple[Reachable, ...] = (),
    signature: NodeSignature = UNSIGNED,
    labels: tuple[Label, ...] = (),
) -> NodeInfo:
    """A node, and the relays ``(node, sRTT)`` that passed it on."""
    told = NodeSelf(
        NodeId(node),
        kind,
        Stamp(epoch, sequence),
        location=location,
        region=region,
        load=load,
        reachable=reachable,
        labels=labels,
    )
    items = tuple(NodePathItem(NodeId(relay), srtt) for relay, srtt in path)
    return NodeInfo(told, signature, items)


class NibNet:
    """Relays with numbers from 1, links with an sRTT in microseconds."""

    def __init__(self, count: int, settings: NetworkSettings, policy: Policy = OPEN_POLICY) -> None:
        self.now = 0.0
        self.settings = settings
        self.policy = policy
        self.messages = 0
        self.infos = {number: node_info(number) for number in range(1, count + 1)}
        self.nibs = {number: self._nib(number) for number in self.infos}
        self.links: dict[tuple[int, int], int] = {}
        """The lower number first."""
        self.queues: dict[tuple[int, int], deque[Message]] = {}

    def _nib(self, number: int) -> Nib:
        return Nib(self.infos[number], self.settings, policy=self.policy)

    # Events

    def up(self, a: int, b: int, srtt_us: int) -> None:
        low, high = min(a, b), max(a, b)
        self.links[low, high] = srtt_us
        for one, other in ((low, high), (high, low)):
            self.queues[one, other] = deque()
            self.nibs[one].add_peer(
                self.now, NodeId(other), self.infos[other], srtt_us=srtt_us, forwards=True
            )

    def down(self, a: int, b: int) -> None:
        del self.links[min(a, b), max(a, b)]
        for one, other in ((a, b), (b, a)):
            del self.queues[one, other]
            self.nibs[one].remove_peer(self.now, NodeId(other))

    def measure(self, a: int, b: int, srtt_us: int) -> None:
        self.links[min(a, b), max(a, b)] = srtt_us
        self.nibs[a].set_peer(self.now, NodeId(b), srtt_us=srtt_us)
        self.nibs[b].set_peer(self.now, NodeId(a), srtt_us=srtt_us)

    def load(self, number: int, load: Load) -> None:
        info = self.infos[number]
        stamp = Stamp(info.node.stamp.epoch, info.node.stamp.sequence + 1)
        self.infos[number] = replace(info, node=replace(info.node, load=load, stamp=stamp))
        self.nibs[number].set_self(self.now, self.infos[number])

    def restart(self, number: int) -> None:
        """A new life: everything is forgotten, and its links come back at once."""
        links = [(link, srtt) for link, srtt in self.links.items() if number in link]
        for (a, b), _ in links:
            self.down(a, b)
        info = self.infos[number]
        stamp = Stamp(info.node.stamp.epoch + 1, 0)
        self.infos[number] = replace(info, node=replace(info.node, stamp=stamp))
        self.nibs[number] = self._nib(number)
        for (a, b), srtt in links:
            self.up(a, b, srtt)

    def flush(self, a: int, b: int) -> bool:
        """Let what ``a`` has to tell ``b`` be under way."""
        advertise, withdraw = message = self.nibs[a].flush(self.now, NodeId(b))
        if advertise or withdraw:
            self.messages += 1
            self.queues[a, b].append(message)
        return bool(advertise or withdraw)

    def deliver(self, a: int, b: int) -> None:
        """Let one message of ``a`` arrive at ``b``."""
        advertise, withdraw = self.queues[a, b].popleft()
        nib = self.nibs[b]
        nib.withdrawn(self.now, NodeId(a), withdraw)
        assert nib.advertised(self.now, NodeId(a), advertise) == []

    # Rest

    def rest(self, most: int) -> None:
        """Go on until nobody has anything to say, in at most so many messages."""
        before = self.messages
        while True:
            while sum(map(len, self.queues.values())) + sum(
                self.flush(*pair) for pair in self.queues
            ):
                assert self.messages - before <= most, "it does not settle"
                for pair, queue in self.queues.items():
                    while queue:
                        self.deliver(*pair)
            due = [at for nib in self.nibs.values() if (at := nib.poll_timeout()) is not None]
            if not due:
                return
            self.now = max(self.now, min(due))
            for nib in self.nibs.values():
                nib.handle_timeout(self.now)

    # What it should be

    def neighbours(self, number: int) -> Iterable[tuple[int, int]]:
        for (a, b), srtt in self.links.items():
            if number in (a, b):
                yield (b if number == a else a), srtt

    def oracle(self, target: int) -> dict[int, Key]:
        """For every relay that reaches it: avoided, hops, cost, load of the best way."""
        found: dict[int, Key] = {}
        heap: list[tuple[Key, int]] = [
            ((0, 0, srtt, 0), other) for other, srtt in self.neighbours(target)
        ]
        heap.sort()
        while heap:
            key, number = heappop(heap)
            if number == target or number in found:
                continue
            found[number] = key
            weight = _WEIGHTS[self.infos[number].node.load.load_class]
            _, hops, cost, load = key
            for other, srtt in self.neighbours(number):
                burden = load + weight
                heappush(heap, ((burden >> 8, hops + 1, cost + srtt, burden), other))
        return found

    def next_hop(self, number: int, target: int, found: dict[int, Key]) -> int:
        """Of the neighbours with which the best way can begin, the lowest."""
        for other, srtt in sorted(self.neighbours(number)):
            if other == target:
                key = (0, 0, srtt, 0)
            elif other in found:
                _, hops, cost, load = found[other]
                burden = load + _WEIGHTS[self.infos[other].node.load.load_class]
                key = (burden >> 8, hops + 1, cost + srtt, burden)
            else:
                continue
            if key == found[number]:
                return other
        raise AssertionError("the search contradicts itself")

    def check(self, *, costs: bool = True) -> None:
        """At rest everybody knows what a search over the graph finds."""
        for target in self.infos:
            found = self.oracle(target)
            for number, nib in self.nibs.items():
                if number == target:
                    continue
                best = nib.best(NodeId(target))
                key = found.get(number)
                if key is None:
                    assert best is None, f"{number} still knows a way to {target}"
                    assert nib.info(NodeId(target)) is None
                    continue
                assert best is not None, f"{number} knows no way to {target}"
                assert best == nib.candidates(NodeId(target))[0]
                assert (best.load >> 8, best.hops) == key[:2]
                if costs:
                    assert (best.cost_us, best.load) == key[2:]
                    assert best.peer == self.next_hop(number, target, found)
                told = nib.info(NodeId(target))
                assert told is not None
                assert told.node.stamp.epoch == self.infos[target].node.stamp.epoch
                assert told.node.load.load_class == self.infos[target].node.load.load_class
        self.check_adj_outs()

    def check_adj_outs(self) -> None:
        """Each peer was told the best way with the teller appended, if it does not lead to it."""
        for a, b in self.queues:
            told = {a: self.nibs[a].info(NodeId(a))}
            for node in self.nibs[a].nodes():
                best = self.nibs[a].best(node)
                assert best is not None
                if b not in best.relays:  # the peer and the node are the ends of it
                    told[node] = best.info.passed_on(NodeId(a), best.link_srtt_us)
            sent = {
                node for node in self.infos if self.nibs[a].advertised_to(NodeId(b), NodeId(node))
            }
            assert sent == set(told), f"{a} told {b} of {sent}"
            heard = {
                way.node: way.relays
                for node in self.nibs[b].nodes()
                for way in self.nibs[b].candidates(node)
                if way.peer == a
            }
            # Of a former life nothing is a candidate; at rest nobody speaks of one.
            assert set(heard) == set(told) - {b} | {a}
            for node, relays in heard.items():
                info = told[node]
                assert info is not None
                path = tuple(item.node_id for item in info.path)
                assert relays == (*reversed(path), node)


# One of them, for tests of single rules

WE = NodeId(10)
BERLIN, TOKYO = Location(13.4, 52.5), Location(139.7, 35.7)


def nib_of(**changes: object) -> Nib:
    """One that knows nobody."""
    settings = replace(NetworkSettings(), **changes)  # type: ignore[arg-type]  # fields of the settings
    return Nib(node_info(WE), settings, policy=OPEN_POLICY)


def with_peers(*peers: int, srtt_us: int = 10_000, nib: Nib | None = None) -> Nib:
    """One that has control sessions with these."""
    nib = nib or nib_of()
    for peer in peers:
        nib.add_peer(0.0, NodeId(peer), node_info(peer), srtt_us=srtt_us, forwards=True)
    return nib


def told(nib: Nib, peer: int, now: float = 0.0) -> tuple[dict[int, tuple[int, ...]], list[int]]:
    """What a flush says: node to the relays on its path, and the withdrawn."""
    advertise, withdraw = nib.flush(now, NodeId(peer))
    paths = {
        int(info.node.node_id): tuple(int(item.node_id) for item in info.path) for info in advertise
    }
    return paths, [int(node) for node in withdraw]


def located(light_time: bool = True) -> Nib:
    """One in Berlin, with a peer there."""
    settings = replace(NetworkSettings(), light_time=light_time)
    nib = Nib(node_info(WE, location=BERLIN), settings, policy=OPEN_POLICY)
    peer = NodeId(1)
    nib.add_peer(0.0, peer, node_info(peer, location=BERLIN), srtt_us=1_000, forwards=True)
    return nib
