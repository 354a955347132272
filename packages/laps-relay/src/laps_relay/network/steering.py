"""Steering: next hops of targets, Vias, and dynamic peerings (seed 000, Topologies).

::

    targets of a track, policy, plan
            |
            v
        Steering --Situation--> prefer           the Vias that help one track towards one region
            |                     |
            |  <----- Choice -----'
            |-- Assignment -----> Sets           target to next hop
            '-- PeeringDemand --> adjacency      relays to dial because a session would help

**Assignment.** Transit traffic takes the best path under policy, and so does an origin unless it
has a reason not to. An origin has two reasons: more copies towards one region than the maximum, and
paths that do not meet the limits of the track's class. Then a Via can be beneficial. A Via is
injected when it has been beneficial for ``via_hold`` without a break, and removed when it has not
been for as long::

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

**Peering demand**: the nodes with which a data session is needed. A track can lack three things for
want of a peer: a path to a target that lasts, a Via that a plan names, and a Via that would help.
Such a Via is known by its node information: which nodes it reaches, and how it is dialled. Probes
measure how far it is (:mod:`laps_relay.network.nodes.probing`). Whether it really helps shows when
it is a peer and has advertised these nodes.

One Via at a time is demanded for each track and region. A Via that did not become a peer within
``via_hold`` is left out for ``dynamic_idle``, so that others are tried.

**The choice of Vias** for one track towards one region is a pure function of what is known.
Hub-and-spoke is the rule. A Via is used only where it helps: where more copies would leave towards
the region than the maximum, or where a path breaks the limits of the class of service::

    plain: 4 copies                 one Via: 1 copy              two Vias: 2 copies

    o --> e1                        o --> V --> e1               o --> V --> e1
    o --> e2                              |---> e2                     |---> e2
    o --> e3                              |---> e3               o --> W --> e3
    o --> e4                              '---> e4                     '---> e4

A *pick* is a Via and the targets that it gets; a *choice* is a tuple of picks. :func:`apply_choice`
returns the path of each target under a choice, :func:`choose` finds a choice. The search is greedy:
the Via that helps most, then the next, as long as each one helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from laps_relay.network.nodes.nib import Nib, PathFinder
from laps_relay.network.nodes.node_table import LOAD_WEIGHTS, Candidate
from laps_relay.network.settings import NO_PLAN, NetworkSettings, Plan
from laps_relay.policy.interface import ClassLimits, Policy
from laps_sdk.peering.events import Refusal
from laps_sdk.timers import Timers, earliest
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeSelf, RelayType

__all__ = [
    "COPY_PRICE_US",
    "Assignment",
    "Choice",
    "LinkState",
    "PathDeficit",
    "PathDemand",
    "PeeringDemand",
    "Pick",
    "RegionChoice",
    "Score",
    "Situation",
    "SteeredTrack",
    "Steering",
    "apply_choice",
    "choose",
    "prefer",
    "score",
]

COPY_PRICE_US: Final = 20_000
"""The price of a copy, as delay of one target: a Via may add 4 ms for each of five targets."""

_BETTER: Final = 0.9
"""With equal faults another choice must cost less than this share of the current one."""


class Pick(NamedTuple):
    """A Via, and the targets that go through it."""

    via: NodeId
    only: frozenset[NodeId] | None = None
    """None: all targets that it reaches, also later ones."""


Choice: TypeAlias = "tuple[Pick, ...]"


class Situation(NamedTuple):
    """All inputs of a choice, for one track and one region."""

    plain: Mapping[NodeId, Candidate]
    """The best path to each target."""
    options: Mapping[NodeId, Mapping[NodeId, Candidate]]
    """By next hop and target: the paths that exist and that policy allows."""
    vias: frozenset[NodeId]
    """Next hops that may aggregate: Vias. Others only replace a path that breaks a limit."""
    burdened: frozenset[NodeId]
    """Next hops that get no more targets: overloaded relays."""
    is_bad: Callable[[Candidate], bool]
    """Whether a path breaks the limits of the class of service."""
    max_copies: int | None
    """Copies that may leave towards this region; None: any number."""


class Score(NamedTuple):
    """The cost of a layout. Less is better; the first difference decides."""

    bad: int
    """Targets whose path breaks a limit of their class."""
    excess: int
    """Copies above the maximum."""
    cost_us: int
    """Sum of the delays, plus the price of the copies."""

    @property
    def faults(self) -> tuple[int, int]:
        """What a Via must reduce. Cost alone is no reason to leave hub-and-spoke."""
        return self.bad, self.excess


def score(situation: Situation, paths: Mapping[NodeId, Candidate]) -> Score:
    """Return the score of a layout: one path for each target."""
    copies = len({path.peer for path in paths.values()})
    limit = copies if situation.max_copies is None else situation.max_copies
    return Score(
        bad=sum(map(situation.is_bad, paths.values())),
        excess=max(0, copies - limit),
        cost_us=sum(path.cost_us for path in paths.values()) + COPY_PRICE_US * copies,
    )


def apply_choice(situation: Situation, choice: Choice) -> dict[NodeId, Candidate]:
    """Return the path of each target under a choice; an earlier pick keeps its targets."""
    paths = dict(situation.plain)
    moved: set[NodeId] = set()
    for pick in choice:
        for target, path in situation.options.get(pick.via, {}).items():
            if target not in moved and (pick.only is None or target in pick.only):
                paths[target] = path
                moved.add(target)
    return paths


def choose(situation: Situation) -> Choice:
    """Return the choice that is best now, whatever was chosen before; () is hub-and-spoke."""
    choice: Choice = ()
    paths = apply_choice(situation, choice)
    now = score(situation, paths)
    while any(now.faults):
        trials: list[tuple[Score, NodeId, int, Choice]] = []
        for via in situation.options:
            if via not in situation.burdened and all(pick.via != via for pick in choice):
                for rank, pick in enumerate(_picks(situation, paths, via, now.excess)):
                    trial = (*choice, pick)
                    found = score(situation, apply_choice(situation, trial))
                    trials.append((found, via, rank, trial))
        if not trials:
            break
        found, _, _, trial = min(trials, key=lambda item: item[:3])
        if found.faults >= now.faults:
            break
        choice, now = trial, found
        paths = apply_choice(situation, choice)
    return choice


def _picks(
    situation: Situation, paths: Mapping[NodeId, Candidate], via: NodeId, excess: int
) -> list[Pick]:
    """Return the picks that could help with one next hop."""
    mend = frozenset(
        target
        for target, path in situation.options[via].items()
        if situation.is_bad(paths[target]) and not situation.is_bad(path)
    )
    picks = [Pick(via, mend)] if mend else []
    # A path within the limits stays, as long as there are not too many copies.
    if excess and via in situation.vias:
        picks.append(Pick(via))
    return picks


def prefer(situation: Situation, current: Choice) -> Choice:
    """Return the choice to aim at while ``current`` is in use.

    That is ``current`` unless another choice is clearly better. The result is stable: used as
    ``current`` with the same situation, it is returned again.
    """
    best = choose(situation)
    if current == best or any(pick.via in situation.burdened for pick in current):
        return best
    kept = score(situation, apply_choice(situation, current))
    if kept.faults >= score(situation, situation.plain).faults:
        return best
    new = score(situation, apply_choice(situation, best))
    worth = new.faults < kept.faults or (
        new.faults == kept.faults and new.cost_us < _BETTER * kept.cost_us
    )
    return best if worth else current


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


class LinkState(NamedTuple):
    """What is measured on our own sessions with a peer."""

    loss: float = 0.0
    """Share of packets lost, 0 to 1."""
    srtt_us: int = 0
    congested: bool = False
    """Whether more waits for this peer than its sessions can carry."""


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
