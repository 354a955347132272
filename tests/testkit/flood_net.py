"""Several flood tables joined by queues: sessions come, die, move; nodes restart; nothing is timed.

Only the order of messages within one direction of one session is kept. What each node knows of
others (its node information base) is told to it when the test says so, so it may lag behind.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from laps_relay.network.flood.entries import SubscribeEntries
from laps_relay.network.flood.floods import FloodTable
from laps_relay.network.settings import NetworkSettings
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeInfo, SubscribeWithdrawal
from laps_wire.peering.laps2.information import SubscribeIdentity

Table: TypeAlias = FloodTable[SubscribeInfo, SubscribeWithdrawal, SubscribeIdentity]

CONVERGENCE = 30.0
GRACE = 5.0


def subscribe(source: int, key: int, epoch: int = 1, sequence: int = 1) -> SubscribeInfo:
    """A subscribe of a node; the key stands for the name."""
    return SubscribeInfo(NodeId(source), Stamp(epoch, sequence), (key // 4, key), key, key)


def unsubscribe(source: int, key: int, epoch: int = 1, sequence: int = 1) -> SubscribeWithdrawal:
    """Its end."""
    return SubscribeWithdrawal(NodeId(source), Stamp(epoch, sequence), key)


@dataclass(slots=True)
class Node:
    """A relay of which there is no more than one table."""

    number: int
    settings: NetworkSettings
    epoch: int = 0
    sequence: int = 0
    own: dict[int, Stamp] = field(default_factory=dict)
    gives: bool = True
    """Whether it tells its peers what it has."""
    used: dict[SubscribeIdentity, SubscribeInfo] = field(default_factory=dict)
    table: Table = field(init=False)

    def start(self) -> None:
        """A new life."""
        self.epoch += 1
        self.own, self.used = {}, {}
        kind = SubscribeEntries(NodeId(self.number))
        self.table = FloodTable(kind, self.settings, exports=lambda *_: self.gives)

    def stamp(self) -> Stamp:
        """One series, whatever epoch."""
        self.sequence += 1
        return Stamp(self.epoch, self.sequence)

    def take_changes(self) -> None:
        """Follow the changes as a user of the table does, and see that they fit."""
        for change in self.table.take_changes():
            assert self.used.get(change.identity) is change.previous
            if change.entry is None:
                del self.used[change.identity]
            else:
                self.used[change.identity] = change.entry


class FloodNet:
    """The network."""

    def __init__(self, nodes: int, settings: NetworkSettings | None = None) -> None:
        self.now = 0.0
        settings = settings or NetworkSettings(convergence=CONVERGENCE, origin_grace=GRACE)
        self.nodes = [Node(number, settings) for number in range(1, nodes + 1)]
        for node in self.nodes:
            node.start()
        self.links: dict[tuple[int, int], int] = {}
        self._sessions = 0
        self.queues: dict[tuple[int, int], deque[tuple[str, Any]]] = {}
        """(session, receiver): what is under way."""

    # What happens

    def connect(self, a: int, b: int) -> None:
        """A control session between two nodes."""
        pair = min(a, b), max(a, b)
        if a == b or pair in self.links:
            return
        self._sessions += 1
        session = self.links[pair] = self._sessions
        for node, peer in (pair, pair[::-1]):
            self.nodes[node].table.add_session(session, source=NodeId(peer + 1))
            self.queues[session, node] = deque()
        for node in pair:
            self.flush(session, node, sync=True)

    def disconnect(self, pair: tuple[int, int]) -> None:
        """It ends; what was under way is lost."""
        session = self.links.pop(pair)
        for node in pair:
            del self.queues[session, node]
            self.nodes[node].table.remove_session(self.now, session)

    def move(self, pair: tuple[int, int]) -> None:
        """Its control stream moves: what was under way is lost, and everything is told again."""
        session = self.links[pair]
        for node in pair:
            self.queues[session, node].clear()
        for node in pair:
            self.nodes[node].table.resend(session)
            self.flush(session, node, sync=True)

    def restart(self, node: int) -> None:
        """A node dies and begins anew."""
        for pair in [pair for pair in self.links if node in pair]:
            self.disconnect(pair)
        self.nodes[node].start()

    def want(self, node: int, key: int) -> None:
        """It subscribes, or asks again."""
        it = self.nodes[node]
        it.own[key] = stamp = it.stamp()
        entry = subscribe(node + 1, key, stamp.epoch, stamp.sequence)
        it.table.originate(self.now, entry)

    def unwant(self, node: int, key: int) -> None:
        """It unsubscribes."""
        it = self.nodes[node]
        if it.own.pop(key, None) is not None:
            stamp = it.stamp()
            withdrawal = unsubscribe(node + 1, key, stamp.epoch, stamp.sequence)
            it.table.retract(self.now, withdrawal)

    def flush(self, session: int, node: int, *, sync: bool = False) -> bool:
        """A batch leaves a node; whether there was anything in it."""
        pair = next(pair for pair, number in self.links.items() if number == session)
        queue = self.queues[session, pair[0] if node == pair[1] else pair[1]]
        table = self.nodes[node].table
        if not (sync or table.pending(session)):
            return False
        advertise, withdraw = table.flush(session)
        assert not {item.identity for item in advertise} & {item.identity for item in withdraw}
        if sync:
            queue.append(("begin", None))
        queue.extend(("gone", item) for item in withdraw)
        queue.extend(("entry", item) for item in advertise)
        if sync:
            queue.append(("end", None))
        return bool(advertise or withdraw)

    def deliver(self, session: int, node: int) -> bool:
        """One message arrives; whether there was one."""
        queue = self.queues[session, node]
        if not queue:
            return False
        what, item = queue.popleft()
        table = self.nodes[node].table
        if what == "entry":
            table.heard(self.now, session, item)
        elif what == "gone":
            table.heard_withdrawal(self.now, session, item)
        elif what == "begin":
            table.sync_began(session)
        else:
            table.sync_ended(self.now, session)
        self.nodes[node].take_changes()
        return True

    def learn(self, node: int) -> None:
        """Its node information base is right, for now."""
        reached = self.component(node)
        for other in self.nodes:
            if other.number != node + 1:
                epoch = other.epoch if other.number - 1 in reached else None
                self.nodes[node].table.node_changed(self.now, NodeId(other.number), epoch)
        self.nodes[node].take_changes()

    def advance(self, seconds: float) -> None:
        """Time passes; what is under way is under way, but not for long."""
        if seconds >= GRACE:
            for index in range(len(self.nodes)):
                self.learn(index)
        if seconds >= 2 * GRACE:
            self.drain()
        self.now += seconds
        for node in self.nodes:
            node.table.handle_timeout(self.now)
            node.take_changes()

    # At rest

    def component(self, node: int) -> set[int]:
        """Whom a node is connected with."""
        found, todo = {node}, [node]
        while todo:
            at = todo.pop()
            for pair in self.links:
                if at in pair:
                    other = pair[0] if pair[1] == at else pair[1]
                    if other not in found:
                        found.add(other)
                        todo.append(other)
        return found

    def drain(self) -> None:
        """Until nothing is under way; it must come to an end."""
        for _ in range(1000):
            busy = False
            for pair, session in self.links.items():
                for node in pair:
                    busy |= self.flush(session, node)
                    while self.deliver(session, node):
                        busy = True
            if not busy:
                return
        raise AssertionError("the network does not come to rest")

    def settle(self) -> None:
        """Everybody knows whom it is connected with, and everything was told."""
        for _ in range(3):
            for node in range(len(self.nodes)):
                self.learn(node)
            self.drain()
            self.advance(GRACE)
        self.drain()

    def check(self) -> None:
        """Everybody uses exactly what those it is connected with say, in its newest form."""
        for index, node in enumerate(self.nodes):
            truth = {
                (NodeId(other + 1), key): stamp
                for other in self.component(index)
                for key, stamp in self.nodes[other].own.items()
            }
            used = {entry.identity: entry.stamp for entry in node.table.live()}
            assert used == truth, f"node {index}"
            assert {identity: entry.stamp for identity, entry in node.used.items()} == truth


def table(*, reflect: bool = True, most: int = 100, nodes: tuple[int, ...] = (1, 2, 3, 9)) -> Table:
    """A table with sessions 1 to 3 to nodes 1 to 3, all known with epoch 1."""
    made: Table = FloodTable(
        SubscribeEntries(NodeId(100)),
        NetworkSettings(reflect=reflect, max_subscribes=most),
        exports=lambda *_: True,
    )
    for session in (1, 2, 3):
        made.add_session(session, source=NodeId(session))
    for node in nodes:
        made.node_changed(0.0, NodeId(node), 1)
    return made


def told(made: Table) -> dict[int, tuple[list[int], list[int]]]:
    """What each session is told: the sequences that are advertised, and those withdrawn."""
    found = {}
    for session in (1, 2, 3):
        advertise, withdraw = made.flush(session)
        if advertise or withdraw:
            found[session] = (
                [item.stamp.sequence for item in advertise],
                [item.stamp.sequence for item in withdraw],
            )
    return found
