"""Steering: which peer gets each target of a set, and which relays should be dialled for it.

Transit traffic takes the best path under policy, and so does an origin unless it has a reason not
to. An origin has two reasons: more copies towards one region than the maximum, and paths that do
not meet the limits of the track's class. Then a Via can be beneficial (:mod:`.via_choice`). A Via
is injected when it has been beneficial for ``via_hold`` without a break, and removed when it has
not been for as long::

                     another choice is better                via_hold has passed
      in use: A   ------------------------------>  pending: B  ------------->  in use: B
                  <------------------------------
                     B is no longer better; a better third choice begins its own wait

A Via that drains, is gone, or that policy forbids is left at once: policy is asked for every path
in every assignment. The same inputs always give the same assignment. Without new inputs an
assignment changes at most once, when a pending choice has waited long enough.

The hold time exists because every measurement can change what is best, and each change of a Via
moves streams. A plan is a preference, never a permission: steering follows it where the Via is a
peer, forwards, and policy allows the path now. Elsewhere steering chooses by itself.

Only paths that the node information base confirms are used: then the Via reaches the target, and
not through this relay. A Via that could be dialled becomes a demand; the assignment stays as it is
until the Via is a peer and has advertised the target itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.path_finder import LinkState, PathFinder
from laps_relay.network.nodes.selection import LOAD_WEIGHTS, Candidate
from laps_relay.network.settings import NO_PLAN, NetworkSettings, Plan
from laps_relay.network.steering.peering_demand import PathDeficit, PathDemand, PeeringDemand
from laps_relay.network.steering.via_choice import (
    Choice,
    Pick,
    Situation,
    apply_choice,
    prefer,
    score,
)
from laps_relay.policy.interface import ClassLimits, Policy
from laps_sdk.peering.events import Refusal
from laps_sdk.timers import Timers, earliest
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, RelayType

__all__ = [
    "Assignment",
    "LinkState",
    "RegionChoice",
    "SteeredTrack",
    "Steering",
]


class RegionChoice:
    """The choice of Vias for one track towards one region."""

    __slots__ = ("choice", "pending", "since")

    def __init__(self) -> None:
        self.choice: Choice = ()
        self.pending: Choice | None = None
        """The choice that has been better since ``since``, without a break."""
        self.since = 0.0

    def aim_at(self, now: float, aim: Choice, hold: float) -> None:
        """Let a choice wait, or use it if it has waited for ``hold`` seconds."""
        if aim == self.choice:
            self.pending = None
            return
        if self.pending is None or _vias(aim) != _vias(self.pending):
            self.since = now
        self.pending = aim
        if now >= self.since + hold:
            self.choice, self.pending = aim, None


def _vias(choice: Choice) -> list[NodeId]:
    return [pick.via for pick in choice]


class SteeredTrack:
    """A track that originates at this relay."""

    __slots__ = ("groups", "next_hop", "scope", "targets")

    def __init__(self) -> None:
        self.targets: tuple[NodeId, ...] = ()
        self.scope = ""
        self.groups: dict[str, RegionChoice] = {}
        self.next_hop: Mapping[NodeId, NodeId] = {}
        """The last assignment."""


class Assignment(NamedTuple):
    """The next hop of each target."""

    next_hop: Mapping[NodeId, NodeId]
    """Target to peer node."""
    unreachable: Mapping[NodeId, Refusal]
    """Targets without a path now, and why."""


class Steering:
    """Chooses next hops; remembers the choices for tracks that originate here."""

    __slots__ = (
        "_demand",
        "_dirty",
        "_links",
        "_local",
        "_nodes",
        "_paths",
        "_plan",
        "_scopes",
        "_settings",
        "_targets",
        "_timers",
        "_tracks",
    )

    def __init__(
        self,
        local: NodeId,
        nodes: Nib,
        policy: Policy,
        settings: NetworkSettings,
        *,
        round_trips: Callable[[], Mapping[NodeId, int]] = dict,
    ) -> None:
        """``round_trips`` returns the measured round trip to each node, in microseconds."""
        self._local = local
        self._nodes = nodes
        self._settings = settings
        self._paths = PathFinder(local, nodes, policy)
        self._plan: Plan = NO_PLAN
        self._links: dict[NodeId, LinkState] = {}
        self._tracks: dict[int, SteeredTrack] = {}
        self._targets: dict[NodeId, dict[int, None]] = {}
        """By target: the tracks that go there. A change of a path concerns only those."""
        self._timers: Timers[int] = Timers()
        self._dirty: dict[int, None] = {}
        self._scopes: dict[str, None] = {}
        """Classes of all tracks that originated here so far; at most as many as policy has."""
        self._demand = PeeringDemand(self._paths, nodes, settings, round_trips)

    # Inputs

    def sizes(self) -> tuple[int, int]:
        """Return how many tracks are steered, and how many targets they have."""
        return len(self._tracks), len(self._targets)

    def set_policy(self, policy: Policy) -> None:
        """Use another policy. Afterwards :meth:`reassess` returns what changes."""
        self._paths.policy = policy
        self.invalidate()

    def set_plan(self, plan: Plan) -> None:
        """Use another plan; :data:`~laps_relay.network.settings.NO_PLAN` for none."""
        self._plan = plan
        self.invalidate()

    def invalidate(self) -> None:
        """Reassess every track: an input of all of them has changed, such as our load."""
        self._dirty = dict.fromkeys(self._tracks)
        self._demand.invalidate()

    def paths_changed(self, nodes: Iterable[NodeId]) -> None:
        """Reassess the tracks that a change of a path concerns, other than the best path.

        These are tracks that do not take the best path to one of ``nodes``, and tracks with a
        demand. For all others only the best path counts; its change leads to a new assignment
        anyway.
        """
        for node in nodes if self._targets else ():
            keys = self._targets.get(node)
            if keys is None:
                continue
            best = self._nodes.best(node)
            peer = None if best is None else best.peer
            for key in keys:
                if key in self._demand or self._tracks[key].next_hop.get(node) != peer:
                    self._dirty[key] = None

    def nodes_changed(self) -> None:
        """Search again for relays to dial: nodes, or paths to them, have changed."""
        self._demand.invalidate()

    def links(self, node: NodeId, state: LinkState | None) -> None:
        """Set the measurements of the sessions with a peer; None after the last session ended."""
        before = self._links.pop(node, LinkState())
        if state is not None:
            self._links[node] = state
        after = state or LinkState()
        # Measurements come often and tracks are many: only a crossed limit counts.
        crossed = {
            scope
            for scope in self._scopes
            if before.congested != after.congested
            or _is_lossy(before, limits := self._paths.policy.limits(scope))
            != _is_lossy(after, limits)
        }
        if crossed:
            self._dirty |= {k: None for k, track in self._tracks.items() if track.scope in crossed}

    def release(self, key: int) -> None:
        """Forget a track after the last relay has unsubscribed."""
        track = self._tracks.pop(key, None)
        if track is not None:
            self._index(key, track, ())
        self._dirty.pop(key, None)
        self._timers.cancel(key)
        self._demand.forget(key)

    # Outputs

    def assign(
        self,
        now: float,
        key: int | None,
        targets: Iterable[NodeId],
        scope: str,
        *,
        arrived_on: NodeId | None,
    ) -> Assignment:
        """Return the next hop of each target.

        With a ``key`` the track originates here. Data that arrived from a peer is transit.
        """
        wanted = tuple(sorted(target for target in targets if target != self._local))
        if key is None or arrived_on is not None:
            return self._transit(wanted, scope, arrived_on)
        track = self._tracks.get(key)
        if track is None:
            track = self._tracks[key] = SteeredTrack()
        if track.targets != wanted:
            self._index(key, track, wanted)
        track.scope = scope
        self._scopes[scope] = None
        self._dirty.pop(key, None)
        assignment = self._origin(now, key, track)
        track.next_hop = assignment.next_hop
        return assignment

    def is_due(self, now: float) -> bool:
        """Return whether :meth:`reassess` may return a key."""
        return bool(self._dirty) or self._timers.is_due(now)

    def reassess(self, now: float) -> list[int]:
        """Return the keys whose assignment changes; the caller assigns them again."""
        if not self.is_due(now):
            return []
        keys = list(self._dirty)
        self._dirty.clear()
        while (due := self._timers.pop(now)) is not None:
            keys.append(due)
        return [
            key
            for key in sorted(set(keys))
            if (track := self._tracks.get(key)) is not None
            and self._origin(now, key, track).next_hop != track.next_hop
        ]

    def demanded_peers(self, now: float) -> list[NodeId]:
        """Return the nodes that need a data session, in ascending order; some may be peers."""
        return self._demand.nodes(now)

    def demand_due(self, now: float) -> bool:
        """Return whether :meth:`demanded_peers` may have changed; that method is a search."""
        return self._demand.is_due(now)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`reassess` or :meth:`demanded_peers` may have something new."""
        return earliest(self._timers.next(), self._demand.poll_timeout())

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers of :meth:`reassess`, for one common deadline."""
        return (self._timers,)

    @property
    def demand_at(self) -> float | None:
        """When :meth:`demanded_peers` changes if nothing happens until then."""
        return self._demand.poll_timeout()

    def vias(self, key: int) -> dict[str, tuple[NodeId, ...]]:
        """Return the Vias in use for a track, by region: for the admin pages and tests."""
        track = self._tracks.get(key)
        groups = {} if track is None else track.groups
        return {
            region: tuple(pick.via for pick in group.choice)
            for region, group in groups.items()
            if group.choice
        }

    def _index(self, key: int, track: SteeredTrack, targets: tuple[NodeId, ...]) -> None:
        for target in track.targets:
            keys = self._targets[target]
            del keys[key]
            if not keys:
                del self._targets[target]
        for target in targets:
            self._targets.setdefault(target, {})[key] = None
        track.targets = targets

    # Transit

    def _transit(
        self, targets: tuple[NodeId, ...], scope: str, arrived_on: NodeId | None
    ) -> Assignment:
        next_hop: dict[NodeId, NodeId] = {}
        unreachable: dict[NodeId, Refusal] = {}
        for target in targets:
            path = self._paths.best(target, scope, arrived_on)
            if path is None:
                unreachable[target] = self._paths.why_none(target, scope, arrived_on)
            else:
                next_hop[target] = path.peer
        return Assignment(next_hop, unreachable)

    # Origin

    def _origin(self, now: float, key: int, track: SteeredTrack) -> Assignment:
        plain: dict[NodeId, Candidate] = {}
        unreachable: dict[NodeId, Refusal] = {}
        regions: dict[str, list[NodeId]] = {}
        leaving: list[NodeId] = []
        for target in track.targets:
            path = self._paths.best(target, track.scope)
            if path is not None and self._will_be_lost(target, track.scope, path):
                leaving.append(target)
            if path is None:
                unreachable[target] = self._paths.why_none(target, track.scope)
            else:
                plain[target] = path
                region = self._paths.policy.region(path.info.node)
                regions.setdefault(region, []).append(target)
        for region in [region for region in track.groups if region not in regions]:
            del track.groups[region]
        demand = PathDemand(track.scope, lost=[*unreachable, *leaving])
        next_hop: dict[NodeId, NodeId] = {}
        for region, members in regions.items():
            group = {target: plain[target] for target in members}
            paths = self._steer(now, key, track, region, group, demand)
            next_hop |= {target: path.peer for target, path in paths.items()}
        self._demand.put(key, demand)
        due = [
            group.since + self._settings.via_hold
            for group in track.groups.values()
            if group.pending is not None
        ]
        if due:
            self._timers.set(key, min(due))
        else:
            self._timers.cancel(key)
        return Assignment({target: next_hop[target] for target in sorted(next_hop)}, unreachable)

    def _will_be_lost(self, target: NodeId, scope: str, best: Candidate) -> bool:
        """Return whether every path leads over relays that drain: another one is needed."""
        draining = LOAD_WEIGHTS[LoadClass.DRAINING]
        return best.load >= draining and all(
            path.load >= draining for path in self._paths.allowed(target, scope)
        )

    def _steer(
        self,
        now: float,
        key: int,
        track: SteeredTrack,
        region: str,
        plain: Mapping[NodeId, Candidate],
        demand: PathDemand,
    ) -> Mapping[NodeId, Candidate]:
        """Return the paths of one region's targets, and add what they lack to ``demand``."""
        planned = self._plan.via(key, track.scope, region)
        group = track.groups.get(region)
        situation = self._situation(track.scope, region, plain)
        if not any(score(situation, plain).faults) and planned is None and group is None:
            return plain
        situation = self._with_options(track.scope, situation)
        if group is None:
            group = track.groups[region] = RegionChoice()
        # A Via that is gone, drains or is forbidden is left at once.
        group.choice = tuple(pick for pick in group.choice if pick.via in situation.options)
        aim: Choice
        if planned is not None and planned in situation.options.keys() - situation.burdened:
            aim = (Pick(planned),)
        else:
            aim = prefer(situation, group.choice)
            if planned is not None:
                demand.planned.append((planned, tuple(plain)))
        group.aim_at(now, aim, self._settings.via_hold)
        if not group.choice and group.pending is None:
            del track.groups[region]
        demand.vias += [pick.via for pick in (*group.choice, *(group.pending or ()))]
        best = apply_choice(situation, aim)
        if any(score(situation, best).faults):
            bad = frozenset(target for target, path in best.items() if situation.is_bad(path))
            demand.deficits.append(PathDeficit(best, bad, situation.max_copies))
        return apply_choice(situation, group.choice)

    def _situation(self, scope: str, region: str, plain: Mapping[NodeId, Candidate]) -> Situation:
        limits = self._paths.policy.limits(scope)
        return Situation(
            plain=plain,
            options={},
            vias=frozenset(),
            burdened=frozenset(),
            is_bad=lambda path: self._is_bad(limits, path),
            max_copies=self._max_copies(limits, region),
        )

    def _max_copies(self, limits: ClassLimits, region: str) -> int | None:
        """Return how many copies may leave this region towards that one; None: any number.

        The rule is in docs/explanation/policy-and-steering.md. Within our own region, and to nodes
        without a region, there is nothing to save, unless this relay is overloaded. A relay that
        drains saves nothing either: what it sends ends soon, and should not move before that.
        """
        own = self._nodes.info(self._local)
        if own is not None and own.node.load.load_class is LoadClass.OVERLOADED:
            return 1
        if not region or (own is not None and self._paths.policy.region(own.node) == region):
            return None
        limit = limits.max_fanout
        return self._settings.max_fanout if limit is None else limit

    def _is_bad(self, limits: ClassLimits, path: Candidate) -> bool:
        """Return whether a path breaks the limits of the class, by all measurements."""
        link = self._links.get(path.peer)
        return (limits.max_rtt_us is not None and path.cost_us > limits.max_rtt_us) or (
            link is not None and (link.congested or _is_lossy(link, limits))
        )

    def _with_options(self, scope: str, situation: Situation) -> Situation:
        """Add every other path that the node information base confirms and policy allows."""
        options: dict[NodeId, dict[NodeId, Candidate]] = {}
        vias: set[NodeId] = set()
        burdened: set[NodeId] = set()
        for target in situation.plain:
            for path in self._paths.allowed(target, scope):
                if path.load >= LOAD_WEIGHTS[LoadClass.DRAINING]:
                    continue  # a relay on this path drains
                options.setdefault(path.peer, {}).setdefault(target, path)
        for peer in sorted(options):
            node = self._paths.self_of(peer)
            if node.load.load_class is LoadClass.DRAINING:
                del options[peer]
            elif node.load.load_class is LoadClass.OVERLOADED:
                burdened.add(peer)
            if node.relay_type is RelayType.VIA:
                vias.add(peer)
        return situation._replace(
            options={peer: options[peer] for peer in sorted(options)},
            vias=frozenset(vias),
            burdened=frozenset(burdened),
        )


def _is_lossy(link: LinkState, limits: ClassLimits) -> bool:
    return limits.max_loss is not None and link.loss > limits.max_loss
