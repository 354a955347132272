"""Relays with subscriber node sets, links between them, and time: everything else is brute force.

A world has relays, links (one session each, or several) and a next hop for every relay and target.
Control messages go in order on each session. Streams are on their own: their headers arrive
whenever the test says so, before or after the sets that they need.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from laps_relay.network.sets.set_records import Unserved
from laps_relay.network.sets.set_routing import SetRouting
from laps_relay.network.sets.sets import Sets
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering import Assignment
from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress, SetIdle
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import mixed
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SnsRefusal
from laps_wire.peering.session import SnsAdvertised, SnsRefusedByPeer, SnsWithdrawn

__all__ = ["HopStream", "SetPlane", "SetRelay", "SetWorld", "feed"]


@dataclass(eq=False)
class HopStream:
    """A publisher's stream on one hop."""

    name: str
    relay: NodeId
    """Who sends it."""
    ingress: Ingress
    egress: EgressSet
    in_flight: bool = True


class SetPlane:
    """The part of a forwarding plane that sets need; it checks what it is told."""

    def __init__(self, world: SetWorld, relay: NodeId) -> None:
        self.world = world
        self.relay = relay
        self.entries: dict[Ingress, tuple[tuple[EgressSet, ...], bool]] = {}
        self.retired: dict[EgressSet, None] = {}
        self.cuts: list[tuple[EgressSet, int]] = []
        self.streams: list[HopStream] = []
        self.local: set[tuple[Ingress, str]] = set()
        """Streams that our own clients get, and from where."""
        self.outdated: list[Ingress] = []
        self.in_place = False
        """Whether somebody was added in place when that was told last."""

    def install(
        self, now: float, ingress: Ingress, egress: Sequence[EgressSet], *, local: bool
    ) -> None:
        assert not any(each in self.retired for each in egress)
        assert len({each.session for each in egress}) == len(egress)
        self.entries[ingress] = (tuple(egress), local)

    def remove(self, now: float, ingress: Ingress) -> None:
        del self.entries[ingress]

    def carries(self, ingress: Ingress) -> bool:
        return any(stream.ingress == ingress for stream in self.streams)

    def outdate(self, now: float, ingress: Ingress, *, in_place: bool = False) -> None:
        assert ingress.session == LOCAL
        self.outdated.append(ingress)
        self.in_place = in_place

    def retire(self, now: float, egress: EgressSet) -> None:
        assert egress not in self.retired
        assert not any(egress in entry for entry, _ in self.entries.values())
        self.retired[egress] = None

    def cut(self, now: float, egress: EgressSet, code: int) -> None:
        assert not any(egress in entry for entry, _ in self.entries.values())
        self.cuts.append((egress, code))
        self.retired.pop(egress, None)
        for stream in [each for each in self.streams if each.egress == egress]:
            self.world.break_off(stream)

    def release(self, now: float, session: int, items: Iterable[object]) -> None:
        for name in items:
            self.begin(Ingress(session, self.world.released_id), cast("str", name))

    # For the world

    def begin(self, ingress: Ingress, name: str) -> None:
        """A stream comes in: it goes on to the sets of this moment."""
        egress, local = self.entries[ingress]
        if local:
            self.world.delivered[self.relay, name] += 1
            self.local.add((ingress, name))
        for each in egress:
            self.streams.append(HopStream(name, self.relay, ingress, each))

    def is_busy(self, egress: EgressSet) -> bool:
        return any(
            stream.in_flight or stream.name not in self.world.finished
            for stream in self.streams
            if stream.egress == egress
        )


class SetRelay(SetRouting):
    """One relay: its sets, its plane, and the routing that they ask."""

    def __init__(self, world: SetWorld, node: NodeId, settings: NetworkSettings) -> None:
        self.world = world
        self.node = node
        self.plane = SetPlane(world, node)
        self.sets = Sets(node, self, cast("PeerPlane", self.plane), settings)
        self.hop: dict[NodeId, NodeId] = {}
        self.denied: set[NodeId] = set()
        """Targets that this relay serves to nobody."""
        self.policy: set[NodeId] = set()
        """Targets that policy forbids here."""
        self.leaving: set[NodeId] = set()
        """Those that drain."""
        self.forbidden: set[tuple[NodeId, NodeId]] = set()
        """Peers, and targets to which policy forbids to go through them."""
        self.max_sets: dict[int, int] = {}
        self.max_targets: dict[int, int] = {}
        self.last_id: dict[int, int] = {}
        self.sent: dict[int, dict[int, frozenset[NodeId]]] = {}
        self.not_taken: list[tuple[int, frozenset[NodeId]]] = []
        """By session: targets of sets and changes that the session did not take, in order."""
        self.refusals: list[tuple[SnsRefusal, frozenset[NodeId]]] = []
        """What was refused to senders of sets."""
        self.got: dict[int, dict[int, tuple[frozenset[NodeId], int, str]]] = {}
        self.got_last: dict[int, int] = {}
        self.held: dict[tuple[int, int], list[str]] = {}
        self.assigned = 0
        self.routing_reports: dict[int, dict[NodeId, Unserved]] = {}
        """By key of a feed: who gets nothing, as told last."""

    # SetRouting

    def assign(
        self,
        now: float,
        key: int | None,
        targets: frozenset[NodeId],
        scope: str,
        *,
        arrived_on: NodeId | None,
    ) -> Assignment:
        self.assigned += 1
        hops: dict[NodeId, NodeId] = {}
        lost: dict[NodeId, Refusal] = {}
        for target in sorted(targets):
            way = self._way(target, arrived_on, frozenset())
            if isinstance(way, Refusal):
                lost[target] = way
            else:
                hops[target] = way
        return Assignment(hops, lost)

    def detour(
        self, target: NodeId, scope: str, *, arrived_on: NodeId | None, avoid: frozenset[NodeId]
    ) -> NodeId | Refusal:
        return self._way(target, arrived_on, avoid)

    def _way(
        self, target: NodeId, arrived_on: NodeId | None, avoid: frozenset[NodeId]
    ) -> NodeId | Refusal:
        if target in self.policy:
            return Refusal("rule", "policy")
        peers = sorted(self.world.neighbours(self.node))
        best = self.hop.get(target)
        if best in peers:
            peers = [best, *peers]
        for peer in peers:
            path = self.world.path(peer, target)
            if path and peer not in avoid and not {self.node, arrived_on} & set(path):
                return peer
        return Refusal("", f"no way to {target}")

    def length(
        self, peer: NodeId, target: NodeId, scope: str, *, arrived_on: NodeId | None
    ) -> int | None:
        path = self.world.path(peer, target)
        if not path or {self.node, arrived_on} & set(path) or target in self.policy:
            return None
        if (peer, target) in self.forbidden:
            return None
        return len(path) - 1

    def drains(
        self, peer: NodeId, target: NodeId, scope: str, *, arrived_on: NodeId | None
    ) -> bool:
        return not self.leaving.isdisjoint(self.world.path(peer, target)[:-1])

    def relays(self, peer: NodeId, target: NodeId) -> tuple[NodeId, ...]:
        path = tuple(self.world.path(peer, target))
        return () if self.node in path else path

    def permits(self, scope: str, relays: tuple[NodeId, ...]) -> bool:
        return relays[-1] not in self.policy and (relays[0], relays[-1]) not in self.forbidden

    def report_routing(
        self,
        now: float,
        key: int,
        wanted: frozenset[NodeId],
        scope: str,
        unserved: Mapping[NodeId, Unserved],
    ) -> None:
        assert unserved.keys() <= wanted
        self.routing_reports[key] = dict(unserved)

    def session_to(self, node: NodeId, key: int, used: Container[int] = ()) -> int | None:
        found = self.world.between(self.node, node)
        found = [session for session in found if session in used] or found
        return max(found, key=lambda session: (mixed(key ^ session << 32), session), default=None)

    def node_of(self, session: int) -> NodeId:
        return self.world.other(session, self.node)

    def may_serve(self, session: int, target: NodeId) -> bool:
        return target not in self.denied

    def advertise_sns(
        self, now: float, session: int, targets: Iterable[NodeId], hops: int, scope: str
    ) -> int:
        wanted = self._checked(session, targets)
        sets = self.sent.setdefault(session, {})
        if len(sets) >= self.max_sets.get(session, 1 << 30):
            self.not_taken.append((session, wanted))
            raise StateError("too many sets")
        sns_id = self.last_id[session] = self.last_id.get(session, 0) + 1
        sets[sns_id] = wanted
        self.world.send(self.node, session, ("advertise", sns_id, wanted, hops, scope))
        return sns_id

    def update_sns(self, now: float, session: int, sns_id: int, targets: Iterable[NodeId]) -> None:
        wanted = self._checked(session, targets)
        assert self.sent[session][sns_id] != wanted
        self.sent[session][sns_id] = wanted
        self.world.send(self.node, session, ("update", sns_id, wanted))

    def withdraw_sns(self, now: float, session: int, sns_id: int, *, empty: bool = False) -> None:
        if session not in self.world.links:
            raise StateError("the session is closed")
        del self.sent[session][sns_id]
        if empty:
            self.world.send(self.node, session, ("update", sns_id, frozenset()))
        self.world.send(self.node, session, ("withdraw", sns_id))

    def refuse_sns(
        self, now: float, session: int, sns_id: int, code: SnsRefusal, targets: Iterable[NodeId]
    ) -> None:
        if sns_id not in self.got.get(session, {}):
            raise StateError("no such set")
        named = tuple(targets)
        assert named
        assert set(named) <= self.got[session][sns_id][0]
        self.refusals.append((code, frozenset(named)))
        self.world.send(self.node, session, ("refuse", sns_id, code, named))

    def _checked(self, session: int, targets: Iterable[NodeId]) -> frozenset[NodeId]:
        wanted = frozenset(targets)
        assert wanted
        assert self.node not in wanted
        if session not in self.world.links:
            self.not_taken.append((session, wanted))
            raise StateError("the session is closed")
        if len(wanted) > self.max_targets.get(session, 1 << 30):
            self.not_taken.append((session, wanted))
            raise StateError("too many targets")
        return wanted

    # Messages that arrive

    def receive(self, session: int, message: tuple[Any, ...]) -> None:
        world, kind, sns_id = self.world, message[0], message[1]
        sets = self.got.setdefault(session, {})
        if kind == "refuse":
            event = SnsRefusedByPeer(sns_id=sns_id, version=1, code=message[2], targets=message[3])
            self.sets.refused(world.now, session, event)
            return
        if kind == "withdraw":
            targets, _, _ = sets.pop(sns_id)
            ended = SnsWithdrawn(sns_id=sns_id, targets=tuple(sorted(targets)))
            self.sets.withdrawn(world.now, session, ended)
            return
        before: frozenset[NodeId] = frozenset()
        if kind == "advertise":
            assert sns_id > self.got_last.get(session, 0)
            self.got_last[session] = sns_id
            sets[sns_id] = message[2:5]
        else:
            before, hops, scope = sets[sns_id]
            sets[sns_id] = (message[2], hops, scope)
        targets, hops, scope = sets[sns_id]
        world.released_id = sns_id
        self.sets.advertised(
            world.now,
            session,
            SnsAdvertised(
                sns_id=sns_id,
                version=1,
                hops=hops,
                targets=targets,
                added=tuple(sorted(targets - before)),
                removed=tuple(sorted(before - targets)),
                released=tuple(self.held.pop((session, sns_id), ())),
                scope=scope,
            ),
        )

    def header(self, session: int, sns_id: int, name: str) -> None:
        """The header of a stream arrives."""
        if sns_id in self.got.get(session, {}):
            self.plane.begin(Ingress(session, sns_id), name)
        else:
            # Whatever was withdrawn had no stream under way any more.
            assert sns_id > self.got_last.get(session, 0)
            self.held.setdefault((session, sns_id), []).append(name)

    def close(self, session: int) -> None:
        """A session ends."""
        self.plane.streams = [each for each in self.plane.streams if each.egress.session != session]
        for egress in [each for each in self.plane.retired if each.session == session]:
            del self.plane.retired[egress]
        self.sent.pop(session, None)
        self.got.pop(session, None)
        for held in [each for each in self.held if each[0] == session]:
            del self.held[held]
        self.sets.session_gone(self.world.now, session)


@dataclass
class SetWorld:
    """Everything."""

    nodes: int
    wires: Sequence[tuple[int, int]]
    settings: NetworkSettings = field(default_factory=NetworkSettings)

    def __post_init__(self) -> None:
        self.now = 100.0
        self.links = {number: (NodeId(a), NodeId(b)) for number, (a, b) in enumerate(self.wires, 1)}
        self.sessions = len(self.links)
        """How many there have been."""
        self.control: dict[tuple[NodeId, int], deque[tuple[Any, ...]]] = {}
        self.delivered: Counter[tuple[NodeId, str]] = Counter()
        self.truncated: set[tuple[NodeId, str]] = set()
        self.finished: set[str] = set()
        self.released_id = 0
        self.relays = {
            NodeId(number): SetRelay(self, NodeId(number), self.settings)
            for number in range(1, self.nodes + 1)
        }
        for relay in self.relays.values():
            relay.hop = self.shortest(relay.node)

    def __getitem__(self, number: int) -> SetRelay:
        return self.relays[NodeId(number)]

    # Topology

    def link(self, a: NodeId, b: NodeId) -> int | None:
        return next(iter(self.between(a, b)), None)

    def between(self, a: NodeId, b: NodeId) -> list[int]:
        return [n for n, ends in self.links.items() if {a, b} == set(ends)]

    def other(self, session: int, node: NodeId) -> NodeId:
        a, b = self.links[session]
        return b if node == a else a

    def neighbours(self, node: NodeId) -> list[NodeId]:
        return sorted({self.other(n, node) for n, ends in self.links.items() if node in ends})

    def shortest(self, node: NodeId) -> dict[NodeId, NodeId]:
        """The next hop to every other node: fewest hops, then the lowest."""
        hops: dict[NodeId, NodeId] = {}
        seen, queue = {node}, deque([(node, node)])
        while queue:
            at, first = queue.popleft()
            for peer in self.neighbours(at):
                if peer not in seen:
                    seen.add(peer)
                    hops[peer] = peer if at == node else first
                    queue.append((peer, hops[peer]))
        return hops

    def path(self, start: NodeId, target: NodeId) -> list[NodeId]:
        """The relays that data for a target passes; empty if it does not arrive."""
        path = [start]
        while path[-1] != target:
            hop = self.relays[path[-1]].hop.get(target)
            if hop is None or hop in path or self.link(path[-1], hop) is None:
                return []
            path.append(hop)
        return path

    # Messages and streams

    def send(self, sender: NodeId, session: int, message: tuple[Any, ...]) -> None:
        self.control.setdefault((sender, session), deque()).append(message)

    def deliver(self, sender: NodeId, session: int) -> None:
        """Let the next control message of a link arrive."""
        message = self.control[sender, session].popleft()
        if not self.control[sender, session]:
            del self.control[sender, session]
        self.relays[self.other(session, sender)].receive(session, message)

    def in_flight(self) -> list[HopStream]:
        return [
            each for relay in self.relays.values() for each in relay.plane.streams if each.in_flight
        ]

    def arrive(self, stream: HopStream) -> None:
        """Let the header of a stream arrive at the next relay."""
        stream.in_flight = False
        session, sns_id = stream.egress
        self.relays[self.other(session, stream.relay)].header(session, sns_id, stream.name)

    def break_off(self, stream: HopStream) -> None:
        """A stream is reset, and everything behind it."""
        self.relays[stream.relay].plane.streams.remove(stream)
        relay = self.relays[self.other(stream.egress.session, stream.relay)]
        held = relay.held.get((stream.egress.session, stream.egress.sns_id), [])
        if stream.name in held:
            held.remove(stream.name)
        if stream.in_flight or stream.name in self.finished:
            return
        source = (Ingress(*stream.egress), stream.name)
        if source in relay.plane.local:
            self.truncated.add((relay.node, stream.name))
        for behind in list(relay.plane.streams):
            if (behind.ingress, behind.name) == source:
                self.break_off(behind)

    def drain(self) -> None:
        """Let everything arrive that is under way, and idle sets be withdrawn."""
        while True:
            if self.control:
                self.deliver(*next(iter(self.control)))
            elif streams := self.in_flight():
                self.arrive(streams[0])
            elif not self.idle():
                return

    def idle(self) -> bool:
        """Report sets that are idle; whether there were any."""
        found = False
        for relay in self.relays.values():
            plane = relay.plane
            plane.streams = [
                each for each in plane.streams if each.in_flight or each.name not in self.finished
            ]
            for egress in [each for each in plane.retired if not plane.is_busy(each)]:
                del plane.retired[egress]
                relay.sets.idle(self.now, SetIdle(egress))
                found = True
        return found

    def advance(self, seconds: float) -> None:
        """Let time pass; everything that is under way arrives before."""
        end = self.now + seconds
        while True:
            self.drain()
            times = [r.sets.poll_timeout() for r in self.relays.values()]
            due = min((time for time in times if time is not None), default=end)
            self.now = max(self.now, min(due, end))
            for relay in self.relays.values():
                relay.sets.handle_timeout(self.now)
            if due >= end:
                break
        self.drain()

    def kill(self, session: int) -> None:
        """A link is gone at once, with everything on it."""
        ends = self.links.pop(session)
        for node in ends:
            self.control.pop((node, session), None)
        for node in ends:
            self.relays[node].close(session)

    # Looking

    def reached(self, relay: NodeId, ingress: Ingress, limit: int = 20) -> Counter[NodeId]:
        """Who would get a stream that begins now, and how often."""
        assert limit, "a loop"
        egress, local = self.relays[relay].plane.entries[ingress]
        found: Counter[NodeId] = Counter([relay] if local else [])
        for session, sns_id in egress:
            found += self.reached(self.other(session, relay), Ingress(session, sns_id), limit - 1)
        return found

    def check(self) -> None:
        """What holds at every moment."""
        assert not [entry for entry, count in self.delivered.items() if count > 1]
        for relay in self.relays.values():
            rows = {row.ingress: row for row in relay.sets.rows()}
            assert rows.keys() == relay.plane.entries.keys()
            for ingress, row in rows.items():
                current = [each for each in row.egress if not each.retired]
                assert relay.plane.entries[ingress] == (
                    tuple(each.egress for each in current),
                    row.local,
                )
                peers = [self.other(each.egress.session, relay.node) for each in current]
                assert len(set(peers)) == len(peers), "a stream would cross a link twice"
                served = Counter(target for each in current for target in each.targets)
                assert all(count == 1 for count in served.values())
                rest = set(row.targets) - {relay.node}
                assert set(served) <= rest
                assert rest - set(served) <= {target for target, _ in row.unserved}
                for each in row.egress:
                    assert set(each.targets) <= rest
                    assert relay.sent[each.egress.session][each.egress.sns_id] == set(each.targets)
            living = sum(len(sets) for sets in relay.sent.values())
            assert relay.sets.living == living

    def is_empty(self) -> bool:
        """Whether nothing is left anywhere."""
        return not any(
            relay.sets.rows()
            or relay.sets.living
            or relay.plane.entries
            or relay.plane.retired
            or any(relay.sent.values())
            or any(relay.got.values())
            or relay.sets.poll_timeout() is not None
            for relay in self.relays.values()
        )


def feed(number: int) -> Ingress:
    """The ingress of a feed."""
    return Ingress(LOCAL, number)
