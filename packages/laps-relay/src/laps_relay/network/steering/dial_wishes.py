"""With whom a data session is wanted: dynamic peering (seed 000, Topologies).

Three things can be missing for want of a peer: a way to a target that lasts, a Via that a plan
names, and a Via that would help (:mod:`.via_choice`). Such a Via is known by
its node information: it says which nodes it reaches, and how it is dialled; probes say how far it
is (:mod:`laps_relay.network.nodes.probing`). Whether it really helps shows when it is a peer
and has advertised them.

One Via at a time is wished for each track and region. One that did not become a peer within
``via_hold`` rests for ``dynamic_idle``, so that others have their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.path_finder import PathFinder
from laps_relay.network.nodes.selection import Candidate
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering.via_choice import COPY_PRICE_US
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeSelf, RelayType

__all__ = ["Need", "Shortage", "WishBook"]


class Shortage(NamedTuple):
    """What the peers of now cannot mend, for one track and region."""

    ways: Mapping[NodeId, Candidate]
    """The best that can be done with them."""
    bad: frozenset[NodeId]
    """Targets whose way is not what the class asks for."""
    max_copies: int | None


@dataclass(slots=True)
class Need:
    """What one track is short of."""

    scope: str
    lost: list[NodeId] = field(default_factory=list)
    """Targets without a way, or with none but over relays that go away."""
    vias: list[NodeId] = field(default_factory=list)
    """Next hops that are in use or about to be."""
    planned: list[tuple[NodeId, tuple[NodeId, ...]]] = field(default_factory=list)
    """Vias of a plan that cannot be followed now, and for whom."""
    shortages: list[Shortage] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.lost or self.vias or self.planned or self.shortages)


class WishBook:
    """The needs of all tracks that originate here, and whom to dial for them."""

    __slots__ = (
        "_due",
        "_needs",
        "_nodes",
        "_round_trips",
        "_settings",
        "_since",
        "_stale",
        "_ways",
    )

    def __init__(
        self,
        ways: PathFinder,
        nodes: Nib,
        settings: NetworkSettings,
        round_trips: Callable[[], Mapping[NodeId, int]] = dict,
    ) -> None:
        """``round_trips``: how far nodes are that somebody near is known to reach, in us."""
        self._round_trips = round_trips
        self._ways = ways
        self._nodes = nodes
        self._settings = settings
        self._needs: dict[int, Need] = {}
        self._since: dict[NodeId, float] = {}
        """When we began to wish for a Via that is not a peer yet."""
        self._due: float | None = None
        self._stale = False
        """Whether something that the answer depends on has happened since it was given."""

    def put(self, key: int, need: Need) -> None:
        """Replace what a track needs."""
        if not need:
            self.forget(key)
        elif self._needs.get(key) != need:
            self._needs[key] = need
            self._stale = True

    def forget(self, key: int) -> None:
        """It needs nothing any more."""
        if self._needs.pop(key, None) is not None:
            self._stale = True

    def __contains__(self, key: int) -> bool:
        """Whether a track needs something."""
        return key in self._needs

    def look_again(self) -> None:
        """Nodes, ways or policy are not what they were."""
        self._stale = self._stale or bool(self._needs)

    def is_due(self, now: float) -> bool:
        """Whether :meth:`nodes` may say something else than the last time."""
        return self._stale or (self._due is not None and now >= self._due)

    def poll_timeout(self) -> float | None:
        """When :meth:`nodes` gives up a Via, or tries one again."""
        return self._due

    def nodes(self, now: float) -> list[NodeId]:
        """With whom a data session is wanted, in ascending order; some may be peers."""
        self._due = None
        self._stale = False
        if not self._settings.dynamic_peering or not self._needs:
            self._since.clear()
            return []
        rested = now - self._settings.via_hold - self._settings.dynamic_idle
        self._since = {via: since for via, since in self._since.items() if since > rested}
        wanted: set[NodeId] = set()
        hopeful: set[NodeId] = set()
        vias: list[tuple[NodeSelf, int | None]] | None = None
        for key in sorted(self._needs):
            need = self._needs[key]
            wanted.update(need.vias)
            wanted.update(node for node in need.lost if self._may_dial(need.scope, node))
            wanted.update(
                via
                for via, targets in need.planned
                if any(self._may_dial(need.scope, via, target) for target in targets)
            )
            for shortage in need.shortages:
                wanted.update(
                    target
                    for target in shortage.bad
                    if shortage.ways[target].peer != target and self._may_dial(need.scope, target)
                )
                if vias is None:
                    vias = self._vias()
                hopeful.update(node.node_id for node, _ in vias)
                via = self._via_for(now, need.scope, shortage, vias)
                if via is not None:
                    wanted.add(via)
                    self._since.setdefault(via, now)
        self._rest(now, hopeful)
        return sorted(wanted)

    def _rest(self, now: float, hopeful: set[NodeId]) -> None:
        """Forget who became a peer or is not wanted; say when somebody has waited enough."""
        hold, rest = self._settings.via_hold, self._settings.dynamic_idle
        for via, since in list(self._since.items()):
            if via not in hopeful:
                del self._since[via]
            else:
                due = since + hold if now < since + hold else since + hold + rest
                self._due = due if self._due is None else min(self._due, due)

    def _may_dial(self, scope: str, *relays: NodeId) -> bool:
        """Whether the first of them can be dialled, and policy would let data go along them."""
        info = self._nodes.info(relays[0])
        return (
            info is not None
            and bool(info.node.contacts)
            and info.node.relay_type in (RelayType.EDGE, RelayType.VIA)
            and info.node.load.load_class < LoadClass.DRAINING
            and self._ways.refusal_of(scope, *relays) is None
        )

    def _vias(self) -> list[tuple[NodeSelf, int | None]]:
        """Vias that are not peers and could be, and how far they are, if that is known."""
        found: list[tuple[NodeSelf, int | None]] = []
        round_trips = self._round_trips()
        for node in self._nodes.nodes():
            info = self._nodes.info(node)
            if (
                info is not None
                and info.node.relay_type is RelayType.VIA
                and info.node.contacts
                and info.node.reachable
                and info.node.load.load_class < LoadClass.OVERLOADED
                and all(way.peer != node for way in self._nodes.candidates(node))
            ):
                found.append((info.node, round_trips.get(node)))
        return found

    def _via_for(
        self,
        now: float,
        scope: str,
        shortage: Shortage,
        vias: list[tuple[NodeSelf, int | None]],
    ) -> NodeId | None:
        """The Via that would help most, by what it says of itself.

        Among those that mend as much, one that somebody near is known to reach is the safer one.
        """
        copies = {way.peer for way in shortage.ways.values()}
        before = (len(shortage.bad), _excess(len(copies), shortage.max_copies))
        trials: list[tuple[tuple[int, int], bool, int, NodeId]] = []
        for via, rtt_us in vias:
            since = self._since.get(via.node_id)
            if since is not None and now >= since + self._settings.via_hold:
                continue
            trial = self._trial(scope, shortage, via, rtt_us)
            if trial is not None and trial[0] < before:
                faults, cost = trial
                trials.append((faults, rtt_us is None, cost, via.node_id))
        return min(trials)[-1] if trials else None

    def _trial(
        self, scope: str, shortage: Shortage, via: NodeSelf, rtt_us: int | None
    ) -> tuple[tuple[int, int], int] | None:
        """Faults and cost of a layout in which a Via gets all that it says it reaches."""
        leg = rtt_us
        if leg is None:
            first = self._nodes.best(via.node_id)
            leg = 0 if first is None else first.cost_us
        limit = self._ways.policy.limits(scope).max_rtt_us
        cost = bad = 0
        reached = {item.node_id: item.rtt_us + leg for item in via.reachable}
        copies: set[NodeId] = set()
        for target, way in shortage.ways.items():
            rtt = reached.get(target)
            if rtt is None or self._ways.refusal_of(scope, via.node_id, target) is not None:
                copies.add(way.peer)
                cost += way.cost_us
                bad += target in shortage.bad
            else:
                copies.add(via.node_id)
                cost += rtt
                bad += limit is not None and rtt > limit
        if via.node_id not in copies:
            return None
        faults = (bad, _excess(len(copies), shortage.max_copies))
        return faults, cost + COPY_PRICE_US * len(copies)


def _excess(copies: int, most: int | None) -> int:
    return 0 if most is None else max(0, copies - most)
