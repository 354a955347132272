"""Peering demand: the nodes with which a data session is needed (seed 000, Topologies).

A track can lack three things for want of a peer: a path to a target that lasts, a Via that a plan
names, and a Via that would help (:mod:`.via_choice`). Such a Via is known by its node information:
which nodes it reaches, and how it is dialled. Probes measure how far it is
(:mod:`laps_relay.network.nodes.probing`). Whether it really helps shows when it is a peer and has
advertised these nodes.

One Via at a time is demanded for each track and region. A Via that did not become a peer within
``via_hold`` is left out for ``dynamic_idle``, so that others are tried.
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
    """What the current peers cannot repair, for one track and region."""

    paths: Mapping[NodeId, Candidate]
    """The best paths with the current peers."""
    bad: frozenset[NodeId]
    """Targets whose path breaks a limit of the class."""
    max_copies: int | None


@dataclass(slots=True)
class PathDemand:
    """What one track lacks."""

    scope: str
    lost: list[NodeId] = field(default_factory=list)
    """Targets without a path, or only with paths over relays that drain."""
    vias: list[NodeId] = field(default_factory=list)
    """Next hops that are in use or pending."""
    planned: list[tuple[NodeId, tuple[NodeId, ...]]] = field(default_factory=list)
    """Vias of a plan that cannot be followed now, and their targets."""
    deficits: list[PathDeficit] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.lost or self.vias or self.planned or self.deficits)


class PeeringDemand:
    """The demand of all tracks that originate here, and the nodes to dial for it."""

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
        """``round_trips`` returns the known round trips of nodes, in microseconds."""
        self._round_trips = round_trips
        self._paths = paths
        self._nodes = nodes
        self._settings = settings
        self._demands: dict[int, PathDemand] = {}
        self._since: dict[NodeId, float] = {}
        """Since when a Via that is no peer yet is demanded."""
        self._due: float | None = None
        self._stale = False
        """Whether an input of :meth:`nodes` has changed since its last call."""

    def put(self, key: int, demand: PathDemand) -> None:
        """Replace the demand of a track."""
        if not demand:
            self.forget(key)
        elif self._demands.get(key) != demand:
            self._demands[key] = demand
            self._stale = True

    def forget(self, key: int) -> None:
        """Remove the demand of a track."""
        if self._demands.pop(key, None) is not None:
            self._stale = True

    def __contains__(self, key: int) -> bool:
        """Whether a track has a demand."""
        return key in self._demands

    def invalidate(self) -> None:
        """Search again: nodes, paths or policy have changed."""
        self._stale = self._stale or bool(self._demands)

    def is_due(self, now: float) -> bool:
        """Return whether :meth:`nodes` may return something else than the last time."""
        return self._stale or (self._due is not None and now >= self._due)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`nodes` gives up a Via, or tries one again."""
        return self._due

    def nodes(self, now: float) -> list[NodeId]:
        """Return the nodes that need a data session, in ascending order; some may be peers."""
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
        """Forget Vias that became peers or are not needed; set the next deadline."""
        hold, rest = self._settings.via_hold, self._settings.dynamic_idle
        for via, since in list(self._since.items()):
            if via not in eligible:
                del self._since[via]
            else:
                due = since + hold if now < since + hold else since + hold + rest
                self._due = due if self._due is None else min(self._due, due)

    def _may_dial(self, scope: str, *relays: NodeId) -> bool:
        """Return whether the first relay can be dialled, and policy allows this path."""
        info = self._nodes.info(relays[0])
        return (
            info is not None
            and bool(info.node.contacts)
            and info.node.relay_type in (RelayType.EDGE, RelayType.VIA)
            and info.node.load.load_class < LoadClass.DRAINING
            and self._paths.refusal_of(scope, *relays) is None
        )

    def _vias(self) -> list[tuple[NodeSelf, int | None]]:
        """Return the Vias that are no peers but could be, each with its round trip if known."""
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
        """Return the Via that would help most by its node information; None if none does.

        Of two that help equally, one with a measured round trip is preferred.
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
        """Return faults and cost if a Via gets all targets that it claims to reach."""
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
