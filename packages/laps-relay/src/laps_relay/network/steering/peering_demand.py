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

__all__ = ["PathDeficit", "PathDemand", "PeeringDemand"]


class PathDeficit(NamedTuple):
    """What the peers of now cannot mend, for one track and region."""

    paths: Mapping[NodeId, Candidate]
    """The best that can be done with them."""
    bad: frozenset[NodeId]
    """Targets whose way is not what the class asks for."""
    max_copies: int | None


@dataclass(slots=True)
class PathDemand:
    """What one track is short of."""

    scope: str
    lost: list[NodeId] = field(default_factory=list)
    """Targets without a way, or with none but over relays that go away."""
    vias: list[NodeId] = field(default_factory=list)
    """Next hops that are in use or about to be."""
    planned: list[tuple[NodeId, tuple[NodeId, ...]]] = field(default_factory=list)
    """Vias of a plan that cannot be followed now, and for whom."""
    deficits: list[PathDeficit] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.lost or self.vias or self.planned or self.deficits)


class PeeringDemand:
    """The needs of all tracks that originate here, and whom to dial for them."""

    __slots__ = (
        "_demands",
        "_due",
        "_nodes",
        "_paths",
        "_round_trips",
        "_settings",
        "_since",
        "_stale",
    )

    def __init__(
        self,
        paths: PathFinder,
        nodes: Nib,
        settings: NetworkSettings,
        round_trips: Callable[[], Mapping[NodeId, int]] = dict,
    ) -> None:
        """``round_trips``: how far nodes are that somebody near is known to reach, in us."""
        self._round_trips = round_trips
        self._paths = paths
        self._nodes = nodes
        self._settings = settings
        self._demands: dict[int, PathDemand] = {}
        self._since: dict[NodeId, float] = {}
        """When we began to wish for a Via that is not a peer yet."""
        self._due: float | None = None
        self._stale = False
        """Whether something that the answer depends on has happened since it was given."""

    def put(self, key: int, demand: PathDemand) -> None:
        """Replace what a track needs."""
        if not demand:
            self.forget(key)
        elif self._demands.get(key) != demand:
            self._demands[key] = demand
            self._stale = True

    def forget(self, key: int) -> None:
        """It needs nothing any more."""
        if self._demands.pop(key, None) is not None:
            self._stale = True

    def __contains__(self, key: int) -> bool:
        """Whether a track needs something."""
        return key in self._demands

    def invalidate(self) -> None:
        """Nodes, ways or policy are not what they were."""
        self._stale = self._stale or bool(self._demands)

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
        if not self._settings.dynamic_peering or not self._demands:
            self._since.clear()
            return []
        rested = now - self._settings.via_hold - self._settings.dynamic_idle
        self._since = {via: since for via, since in self._since.items() if since > rested}
        wanted: set[NodeId] = set()
        eligible: set[NodeId] = set()
        vias: list[tuple[NodeSelf, int | None]] | None = None
        for key in sorted(self._demands):
            demand = self._demands[key]
            wanted.update(demand.vias)
            wanted.update(node for node in demand.lost if self._may_dial(demand.scope, node))
            wanted.update(
                via
                for via, targets in demand.planned
                if any(self._may_dial(demand.scope, via, target) for target in targets)
            )
            for deficit in demand.deficits:
                wanted.update(
                    target
                    for target in deficit.bad
                    if deficit.paths[target].peer != target and self._may_dial(demand.scope, target)
                )
                if vias is None:
                    vias = self._vias()
                eligible.update(node.node_id for node, _ in vias)
                via = self._via_for(now, demand.scope, deficit, vias)
                if via is not None:
                    wanted.add(via)
                    self._since.setdefault(via, now)
        self._rest(now, eligible)
        return sorted(wanted)

    def _rest(self, now: float, eligible: set[NodeId]) -> None:
        """Forget who became a peer or is not wanted; say when somebody has waited enough."""
        hold, rest = self._settings.via_hold, self._settings.dynamic_idle
        for via, since in list(self._since.items()):
            if via not in eligible:
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
            and self._paths.refusal_of(scope, *relays) is None
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
                and all(path.peer != node for path in self._nodes.candidates(node))
            ):
                found.append((info.node, round_trips.get(node)))
        return found

    def _via_for(
        self,
        now: float,
        scope: str,
        deficit: PathDeficit,
        vias: list[tuple[NodeSelf, int | None]],
    ) -> NodeId | None:
        """The Via that would help most, by what it says of itself.

        Among those that mend as much, one that somebody near is known to reach is the safer one.
        """
        copies = {path.peer for path in deficit.paths.values()}
        before = (len(deficit.bad), _excess(len(copies), deficit.max_copies))
        trials: list[tuple[tuple[int, int], bool, int, NodeId]] = []
        for via, rtt_us in vias:
            since = self._since.get(via.node_id)
            if since is not None and now >= since + self._settings.via_hold:
                continue
            trial = self._trial(scope, deficit, via, rtt_us)
            if trial is not None and trial[0] < before:
                faults, cost = trial
                trials.append((faults, rtt_us is None, cost, via.node_id))
        return min(trials)[-1] if trials else None

    def _trial(
        self, scope: str, deficit: PathDeficit, via: NodeSelf, rtt_us: int | None
    ) -> tuple[tuple[int, int], int] | None:
        """Faults and cost of a layout in which a Via gets all that it says it reaches."""
        leg = rtt_us
        if leg is None:
            first = self._nodes.best(via.node_id)
            leg = 0 if first is None else first.cost_us
        limit = self._paths.policy.limits(scope).max_rtt_us
        cost = bad = 0
        reached = {item.node_id: item.rtt_us + leg for item in via.reachable}
        copies: set[NodeId] = set()
        for target, path in deficit.paths.items():
            rtt = reached.get(target)
            if rtt is None or self._paths.refusal_of(scope, via.node_id, target) is not None:
                copies.add(path.peer)
                cost += path.cost_us
                bad += target in deficit.bad
            else:
                copies.add(via.node_id)
                cost += rtt
                bad += limit is not None and rtt > limit
        if via.node_id not in copies:
            return None
        faults = (bad, _excess(len(copies), deficit.max_copies))
        return faults, cost + COPY_PRICE_US * len(copies)


def _excess(copies: int, most: int | None) -> int:
    return 0 if most is None else max(0, copies - most)
