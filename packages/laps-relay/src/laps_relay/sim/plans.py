"""A plan of peerings, played on a simulated network before relays get it.

::

    Stage (topology, demands) --.
    SignedPlan -----------------+--> play_plan() --> PlanVerdict (faults found, or none)

**Playing**: a network runs, gets the plan, follows it, and loses it again::

    boot -> clients -> at rest -> plan offered -> at rest -> a Via drains -> at rest -> it expires
                       |          to every relay  |                         |           |
                       paths before               paths are the planned     paths over  nothing
                                                  ones, copies, policy      fallbacks   was lost

Relays are the real core, and each loads the plan as a server does: a *keeper* checks signature,
time, version, Vias and policy (``laps_relay.server.plans``). Objects are counted from the first
subscriber on, through both changes. None may be lost, and none may come twice.

**A stage** has relays, links, and subscribers of tracks. It comes from a file with the relays and
links of a topology (:mod:`laps_relay.sim.scenarios.topology`) and with the demand::

    [[demand]]
    track = "00000000000000ff"   # the hash of its name, as plans have it; or none:
    class = "gold"               # any track of this class
    origin = "nyc1"              # the relay of the publisher
    at = ["lon1", "par1"]        # the relays of the subscribers

    [[link]]
    a = "nyc1"
    b = "lon1"
    delay_ms = 38.5
    countries = ["IE"]           # which the IP path passes, besides those of its ends

Without a file the stage is made from the plan alone. Each region that an entry names gets one relay
more than copies are allowed, with a link to the Via, to the fallback, and to the origin.

**The policy** of its relays is :class:`PlanPolicy`: the constraints of the plan itself. Relays
refuse a plan that breaks its own constraints, as relays with the same policy would. Only relays
between the ends of a path are judged, because clients are at the ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from laps_relay.network.relay import NetworkRelay
from laps_relay.policy.interface import ClassLimits, NodeInfoLookup
from laps_relay.sim.checks.invariants import Checks
from laps_relay.sim.clients.clients import Publication, Style
from laps_relay.sim.clients.ledger import FLIGHT, BreakError, Group
from laps_relay.sim.net.clock import Rng
from laps_relay.sim.net.shortcuts import shared_messages
from laps_relay.sim.scenarios.features import settling
from laps_relay.sim.scenarios.model import SETTINGS, Scenario
from laps_relay.sim.scenarios.policies import SimPolicy
from laps_relay.sim.scenarios.topology import (
    LinkSpec,
    RelaySpec,
    Topology,
    TopologyError,
    read_document,
    topology_of,
)
from laps_relay.sim.world.actions import Actions
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.world import RelayProcess, World
from laps_sdk.peering.events import Refusal
from laps_sdk.upstream.interfaces import Answer
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceKind, NodeInfo, NodeSelf, RelayType
from laps_wire.plan import ClassRule, HardConstraints, Plan, PlanEntry, SignedPlan, dumps

__all__ = [
    "Demand",
    "Fault",
    "Keeper",
    "KeeperMaker",
    "PlanHasher",
    "PlanPolicy",
    "PlanVerdict",
    "Stage",
    "class_field",
    "entry_for",
    "made_up",
    "may_pass",
    "play_plan",
    "read_stage",
    "sampled",
]

_CLASS: Final = b"class "


def class_field(scope: str) -> bytes:
    """The first field of the names of a class's tracks."""
    return _CLASS + scope.encode()


def may_pass(countries: frozenset[str], rule: ClassRule) -> bool:
    """Whether data in transit may pass all of these countries."""
    if countries & set(rule.deny_countries):
        return False
    return rule.allow_countries is None or countries <= set(rule.allow_countries)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPolicy(SimPolicy):
    """Denied transit by class; the class "" is one as any other."""

    max_fanout: int = 2

    @classmethod
    def of(cls, constraints: HardConstraints, topology: Topology) -> PlanPolicy:
        """Return the policy for relays whose places are known."""
        closed = {}
        for scope, rule in constraints.classes.items():
            closed[scope] = frozenset(
                relay.node_id
                for relay in topology.relays
                if not may_pass(frozenset((relay.country,)), rule)
                or (
                    relay.relay_type is RelayType.VIA
                    and rule.via_regions is not None
                    and relay.region not in rule.via_regions
                )
            )
        return cls(no_transit=closed, max_fanout=constraints.max_fanout)

    def transit(self, scope: str, node: NodeId) -> bool:
        """Whether data of a class may pass through a relay."""
        return node not in self.no_transit.get(scope, ())

    def import_node(
        self,
        info: NodeInfo,  # noqa: ARG002
        peer: NodeSelf,  # noqa: ARG002
        lookup: NodeInfoLookup,  # noqa: ARG002
    ) -> Refusal | None:
        """Nothing is forbidden to all classes."""
        return None

    def scope(self, name: FullTrackName) -> str:
        """The first field of the namespace."""
        return name.namespace.fields[0].removeprefix(_CLASS).decode()

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """All relays between the ends are transit."""
        for node in nodes[1:-1]:
            if not self.transit(scope, node.node_id):
                return Refusal("no_transit", f"{node.node_id} is no transit for {scope!r}")
        return None

    def limits(self, scope: str) -> ClassLimits:  # noqa: ARG002
        """The plan's maximum of copies."""
        return ClassLimits(max_fanout=self.max_fanout)


_NEAR: Final = 0.004
_FAR: Final = 0.040
"""Seconds one way, within a region and between regions, where nothing was measured."""
_STRANGERS: Final = 0xFF_FFFE_0000_0000
"""Node IDs of relays that are made up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The relays that subscribe to one track, or to one track of a class."""

    origin: str
    scope: str
    track: int | None
    at: tuple[str, ...]

    @property
    def name(self) -> FullTrackName:
        """The name of the track here: its class, and its hash if the plan has the hash."""
        last = b"any" if self.track is None else f"{self.track:016x}".encode()
        return FullTrackName(Namespace.of(class_field(self.scope), self.origin.encode()), last)

    def key(self, hasher: KeyedHasher) -> int:
        """Return the key of the track at relays."""
        return hasher.full_name(self.name.namespace.fields, self.name.name)


class PlanHasher(KeyedHasher):
    """Maps tracks of a stage to their hashes in the plan."""

    def full_name(self, fields: Iterable[bytes], name: bytes) -> int:
        """The number that the name is, if it is one."""
        if len(name) == 16:
            return int(name, 16)
        return KeyedHasher.full_name(self, fields, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Relays, links, demand."""

    topology: Topology
    demands: tuple[Demand, ...]
    passed: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict)
    """By the names of both ends of a link: countries that its IP path passes."""
    is_real: bool = True
    """Whether places of relays are known; otherwise rules about places do not apply."""


def entry_for(plan: Plan, origin: NodeId, region: str, demand: Demand) -> PlanEntry | None:
    """Return the entry of a plan for a track: its own, or that of its class."""
    found = None
    for entry in plan.entries:
        if entry.origin == origin and entry.region == region:
            if entry.tracks is None:
                found = entry if entry.scope == demand.scope and found is None else found
            elif demand.track in entry.tracks:
                return entry
    return found


def sampled(stage: Stage, groups: int, seed: int) -> Stage:
    """The same with at most so many demands, drawn from a seed."""
    if len(stage.demands) <= groups:
        return stage
    chosen = Rng(seed).of("demands").sample(range(len(stage.demands)), groups)
    return Stage(
        topology=stage.topology,
        demands=tuple(stage.demands[number] for number in sorted(chosen)),
        passed=stage.passed,
        is_real=stage.is_real,
    )


# From a file


def read_stage(file: Path) -> Stage:
    """Read a stage from a TOML or JSON file; raises :class:`TopologyError`."""
    data = read_document(file)
    topology = topology_of(file, data)
    names = {relay.name for relay in topology.relays}
    demands = tuple(_demand(file, row, names) for row in data.get("demand", []))
    if not demands:
        raise TopologyError(f"{file}: no [[demand]]: who publishes what, and who wants it?")
    passed = {
        frozenset((str(row["a"]), str(row["b"]))): frozenset(map(str, row["countries"]))
        for row in data.get("link", [])
        if "countries" in row
    }
    return Stage(topology=topology, demands=demands, passed=passed)


def _demand(file: Path, row: Mapping[str, Any], names: set[str]) -> Demand:
    strange = sorted(set(row) - {"track", "class", "origin", "at"})
    if strange:
        raise TopologyError(f"{file}: demand: unknown key {strange[0]!r}")
    origin, at = row.get("origin"), row.get("at")
    if not isinstance(at, list) or not at or not {origin, *at} <= names:
        raise TopologyError(
            f"{file}: demand: origin and at are names of relays: {origin!r}, {at!r}"
        )
    track = row.get("track")
    try:
        key = None if track is None else int(track, 16)
    except (TypeError, ValueError):
        raise TopologyError(f"{file}: demand: {track!r} is not 16 hexadecimal digits") from None
    return Demand(
        origin=str(origin),
        scope=str(row.get("class", "")),
        track=key,
        at=tuple(str(name) for name in at if name != origin),
    )


# From the plan alone


def made_up(plan: Plan, groups: int, seed: int) -> Stage:
    """A stage for some of a plan's entries, drawn from a seed."""
    chosen = plan.entries
    if len(chosen) > groups:
        numbers = Rng(seed).of("entries").sample(range(len(chosen)), groups)
        chosen = tuple(chosen[number] for number in sorted(numbers))
    if not chosen:
        raise TopologyError("the plan has no entries: there is nothing to play")
    origins = {entry.origin: None for entry in chosen}
    # A relay refuses a plan with a Via that it does not know, also for what is not played.
    vias: dict[NodeId, None] = {}
    for entry in plan.entries:
        if entry.origin in origins:
            vias |= {via: None for via in (entry.via, entry.fallback) if via is not None}
    relays = {
        node: RelaySpec(
            name=str(node),
            node_id=node,
            relay_type=RelayType.EDGE if node in origins else RelayType.VIA,
        )
        for node in (*origins, *vias)
    }
    ends: dict[str, list[RelaySpec]] = {}
    for entry in chosen:
        ends.setdefault(entry.region, [])
    for number, region in enumerate(ends):
        ends[region] = [
            RelaySpec(
                name=f"{region} {which + 1}",
                node_id=NodeId(_STRANGERS + number * 0x1_0000 + which),
                region=region,
            )
            for which in range(plan.constraints.max_fanout + 1)
        ]
    links: dict[frozenset[str], LinkSpec] = {}

    def join(a: RelaySpec, b: RelaySpec, delay: float) -> None:
        if a is not b:
            links.setdefault(frozenset((a.name, b.name)), LinkSpec(a=a.name, b=b.name, delay=delay))

    for entry in plan.entries:
        if entry.origin not in origins:
            continue
        for via in (entry.via, entry.fallback):
            if via is not None:
                join(relays[entry.origin], relays[via], _FAR)
                for end in ends.get(entry.region, ()):
                    join(relays[via], end, _NEAR)
    for entry in chosen:
        for end in ends[entry.region]:
            join(relays[entry.origin], end, _FAR)
    return Stage(
        topology=Topology(
            name=plan.id,
            relays=(*relays.values(), *(end for group in ends.values() for end in group)),
            links=tuple(links.values()),
        ),
        demands=tuple(_wanted(chosen, ends)),
        is_real=False,
    )


def _wanted(entries: Iterable[PlanEntry], ends: Mapping[str, list[RelaySpec]]) -> Iterable[Demand]:
    """One track of each entry; entries for one track are one demand."""
    found: dict[tuple[NodeId, str, int | None], list[str]] = {}
    for entry in entries:
        track = None if entry.tracks is None else entry.tracks[0]
        places = found.setdefault((entry.origin, entry.scope, track), [])
        places += [end.name for end in ends[entry.region]]
    for (origin, scope, track), places in found.items():
        yield Demand(origin=str(origin), scope=scope, track=track, at=tuple(places))


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong with a plan."""

    check: str
    """refused, way, copies, country, fallback, lost; or a rule of the simulator, such as doubled.
    """
    where: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanVerdict:
    """What became of a plan."""

    plan: str
    version: int
    seed: int
    relays: int
    links: int
    demands: int
    subscribers: int
    entries: int
    """Entries of the plan that what was played asks about."""
    accepted: int
    """Relays that took the plan."""
    ways: int
    """Paths from an origin to a subscriber's relay for which the plan names a Via, ..."""
    planned_ways: int
    """... and those that went over it."""
    fallbacks: int
    """Paths with a second Via whose first one drained, ..."""
    taken_fallbacks: int
    """... and those that went over the second."""
    copies_before: int
    """Copies that origins sent towards the regions of entries, before the plan and with it."""
    copies_with: int
    most_copies: int
    """Of one track towards one region, with the plan."""
    published: int
    delivered: int
    lost: int
    virtual_s: float
    cpu_s: float
    faults: tuple[Fault, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {"ok": self.ok, **asdict(self)}


STEP: Final = 0.5
PATIENCE: Final = 60.0
"""Virtual seconds in which a network must come to rest."""
LOOK: Final = 5.0
"""Seconds between two checks of the plan in a relay, as in a server."""
LASTING: Final = 600.0
"""How long a Via drains: to the end."""
_STYLE: Final = Style(period=0.5, objects=3, gap=0.05)
_HASHER: Final = PlanHasher(b"a network that plays a plan")


class Keeper(Protocol):
    """What loads plans into one relay."""

    def offer(self, now: float, wall_us: int, text: str | bytes, source: str) -> str | None:
        """Follow this plan, or return the reason for not following it."""

    def tick(self, now: float, wall_us: int) -> float | None:
        """Drop what has expired, take fallbacks where Vias are gone."""


KeeperMaker = Callable[[NetworkRelay], Keeper]


class _Cell:
    """A track towards a region for which the plan names a Via."""

    __slots__ = ("demand", "entry", "members")

    def __init__(self, demand: Demand, entry: PlanEntry, members: tuple[str, ...]) -> None:
        self.demand = demand
        self.entry = entry
        self.members = members


_Way: TypeAlias = tuple[_Cell, str, tuple[str, ...], bool]
"""The cell, the s-relay, the relays on the path in use, and whether the path is the planned one."""


class _Play:
    def __init__(self, signed: SignedPlan, stage: Stage, make_keeper: KeeperMaker, seed: int):
        plan = signed.plan
        self.plan = plan
        self.text = dumps(signed)
        self.stage = stage
        self.make_keeper = make_keeper
        settings = replace(
            SETTINGS,
            max_fanout=plan.constraints.max_fanout,
            dynamic_peering=True,
            via_hold=0.7,
            dynamic_idle=1.5,
        )
        made = Scenario(
            seed=seed,
            topology=stage.topology,
            settings=settings,
            exact=False,
            on_bytes=False,
            style=_STYLE,
            policies=True,
        )
        self.world = World(made, partial(network_relay, hasher=_HASHER))
        if stage.is_real:
            self.world.policy = PlanPolicy.of(plan.constraints, stage.topology)
        else:
            self.world.policy = PlanPolicy(max_fanout=plan.constraints.max_fanout)
        self.checks = Checks(self.world, Actions(self.world))
        self.settled = settling(settings)
        self.keepers: dict[str, Keeper] = {}
        self.wall_us = plan.made_us
        self.faults: list[Fault] = []
        self.accepted = 0
        self.cells = self._cells()
        self.judged: list[_Way] = []
        """The path in use for each planned path."""
        self.second: list[_Way] = []
        """The paths that were planned over a Via, while that Via drains."""
        self.copies = [0, 0, 0]
        """Before the plan, with it, and the most of one cell."""

    def _cells(self) -> list[_Cell]:
        found = []
        for demand in self.stage.demands:
            origin = self.world.processes[demand.origin].spec
            regions: dict[str, list[str]] = {}
            for name in demand.at:
                regions.setdefault(self.world.processes[name].spec.region, []).append(name)
            for region, members in regions.items():
                entry = entry_for(self.plan, origin.node_id, region, demand)
                if entry is not None and region != origin.region:
                    found.append(_Cell(demand, entry, tuple(members)))
        return found

    # The run

    def play(self) -> None:
        self._boot()
        self._clients()
        self.copies[0] = sum(len(hops) for hops in self._first_hops(self._last_groups()).values())
        self._offer()
        self._follow()
        self._judge()
        self._drain()
        self.wall_us = self.plan.expires_us
        self._tick()
        self._run_to(self.world.clock.now + self.settled)
        for process in self.world.processes.values():
            for publication in list(process.clients.publications):
                process.clients.unpublish(publication)
        self._run_to(self.world.clock.now + FLIGHT + 1.0)

    def _boot(self) -> None:
        world = self.world
        draw = world.rng.of("boot")
        for process in world.processes.values():
            world.clock.at(draw.uniform(0.0, 0.3), process.start)
        quiet = 1.0 + SETTINGS.metric_interval + 2 * SETTINGS.batch
        while world.clock.now < PATIENCE:
            self._run_to(world.clock.now + STEP)
            if world.clock.now - world.quiet_since > quiet and not self.checks.links_up():
                return
        raise BreakError("no rest", self.checks.links_up() or "routes move", world.clock.now)

    def _clients(self) -> None:
        """Start publishers, then subscribers, and wait until all subscriptions are served."""
        world = self.world
        now = world.clock.now
        draw = world.rng.of("clients")
        for demand in self.stage.demands:
            publication = Publication(AnnounceKind.TRACK, demand.name, demand.scope, _STYLE)
            clients = world.processes[demand.origin].clients
            world.clock.at(now + draw.uniform(0.0, 0.5), clients.publish, publication)
            for name in demand.at:
                clients = world.processes[name].clients
                when = now + draw.uniform(1.0, 2.0)
                world.clock.at(when, clients.subscribe, demand.key(_HASHER), demand.name)
        self._run_to(now + 2.0)
        while missing := self._unanswered():
            if world.clock.now > now + PATIENCE:
                raise BreakError("no answer", missing, world.clock.now)
            self._run_to(world.clock.now + STEP)
        self._run_to(world.clock.now + self.settled)

    def _unanswered(self) -> str:
        for demand in self.stage.demands:
            for name in demand.at:
                want = self.world.processes[name].clients.wants.get(demand.key(_HASHER))
                if want is None or want.answer is not Answer.ACCEPTED:
                    return f"{name} gets nothing of what {demand.origin} publishes"
        return ""

    def _offer(self) -> None:
        """Relays get the plan one after the other, as a fleet does."""
        world = self.world
        draw = world.rng.of("plan")
        for process in world.processes.values():
            world.clock.after(draw.uniform(0.0, 1.0), self._offer_to, process)
        self._run_to(world.clock.now + 1.0)

    def _offer_to(self, process: RelayProcess) -> None:
        relay = process.core
        if not isinstance(relay, NetworkRelay):
            raise TypeError("only whole relays follow plans")
        keeper = self.keepers[process.contact] = self.make_keeper(relay)
        refused: list[str | None] = []
        process.call(
            lambda now: refused.append(keeper.offer(now, self.wall_us, self.text, "simulator"))
        )
        if refused[0] is None:
            self.accepted += 1
        else:
            self.faults.append(Fault("refused", process.contact, refused[0]))

    def _tick(self) -> None:
        for name, keeper in self.keepers.items():
            self.world.processes[name].call(
                lambda now, keeper=keeper: keeper.tick(now, self.wall_us)  # type: ignore[misc]
            )

    def _follow(self, without: RelayProcess | None = None) -> list[_Way]:
        """Return the paths as soon as they are the planned ones, or after a long time."""
        world = self.world
        began = world.clock.now
        ticked = began
        while True:
            self._run_to(world.clock.now + self.settled)
            if world.clock.now - ticked >= LOOK:
                self._tick()
                ticked = world.clock.now
            ways = self._ways(self._last_groups(), without)
            if all(right for *_, right in ways) or world.clock.now - began > PATIENCE:
                return ways

    def _drain(self) -> None:
        """One of the Vias that has a second goes: who went over it goes over the second."""
        nodes = self.world.by_node()
        places = {name for each in self.stage.demands for name in (each.origin, *each.at)}
        seconds = {cell.entry.via for cell in self.cells if cell.entry.fallback is not None}
        going = sorted(
            nodes[via].contact
            for via in seconds
            if via in nodes and nodes[via].contact not in places
        )
        if self.faults or not going:
            return
        via = self.world.processes[self.world.rng.of("drain").choice(going)]
        via.draining = True
        self.world.disturbed()
        via.call(lambda now: via.core.drain(now, LASTING))
        self.second = self._follow(via)
        for cell, member, way, right in self.second:
            if not right:
                where = f"{cell.demand.origin} > {cell.entry.region}"
                text = f"{member} gets it over {' > '.join(way)}, and not over"
                text += f" {cell.entry.fallback}, while {via.spec.node_id} drains"
                self.faults.append(Fault("fallback", where, text))

    def _run_to(self, until: float) -> None:
        clock = self.world.clock
        while clock.now < until:
            clock.run(min(until, clock.now + STEP))
            self.checks.loops()

    # Judging

    def _last_groups(self) -> dict[int, Group]:
        """By track: the last group that has arrived wherever it goes, if anybody gets it."""
        found: dict[int, Group] = {}
        for flow in self.world.ledger.flows.all.values():
            for group in flow.groups.values():
                before = found.get(flow.key)
                late = self.world.clock.now - group.ended < 1.0
                if not late and (before is None or group.began > before.began):
                    found[flow.key] = group
        return found

    def _way(self, groups: dict[int, Group], demand: Demand, target: str) -> tuple[str, ...]:
        """The relays that a group passed to a target, both ends included."""
        group = groups.get(demand.key(_HASHER))
        sender = {} if group is None else {there: here for here, there, *_ in group.links}
        way = [target]
        while way[-1] != demand.origin and way[-1] in sender and len(way) <= len(sender) + 1:
            way.append(sender[way[-1]])
        return tuple(reversed(way))

    def _ways(self, groups: dict[int, Group], without: RelayProcess | None = None) -> list[_Way]:
        """Return the path in use of each cell and s-relay, and whether it follows the plan.

        With ``without``, return only paths that were planned over that Via and have a second Via.
        """
        names = {node: process.contact for node, process in self.world.by_node().items()}
        found = []
        for cell in self.cells:
            via = cell.entry.via
            if without is not None:
                if via != without.spec.node_id or cell.entry.fallback is None:
                    continue
                via = cell.entry.fallback
            for member in cell.members:
                way = self._way(groups, cell.demand, member)
                right = way[0] == cell.demand.origin and way[1:2] == (names.get(via),)
                found.append((cell, member, way, right))
        return found

    def _first_hops(self, groups: dict[int, Group]) -> dict[_Cell, set[str]]:
        hops: dict[_Cell, set[str]] = {}
        for cell, _, way, _ in self._ways(groups):
            hops.setdefault(cell, set()).update(way[1:2])
        return hops

    def _judge(self) -> None:
        groups = self._last_groups()
        self.judged = self._ways(groups)
        hops = self._first_hops(groups)
        self.copies[1] = sum(map(len, hops.values()))
        self.copies[2] = max(map(len, hops.values()), default=0)
        for cell, member, way, right in self.judged:
            where = f"{cell.demand.origin} > {cell.entry.region}"
            if not right:
                text = f"{member} gets it over {' > '.join(way)}, and not over {cell.entry.via}"
                self.faults.append(Fault("way", where, text))
            self._countries(cell, way, where)
        for cell, over in hops.items():
            if len(over) > self.plan.constraints.max_fanout:
                where = f"{cell.demand.origin} > {cell.entry.region}"
                most = self.plan.constraints.max_fanout
                text = f"{len(over)} copies, and {most} is the maximum"
                self.faults.append(Fault("copies", where, text))

    def _countries(self, cell: _Cell, way: tuple[str, ...], where: str) -> None:
        rule = self.plan.constraints.classes.get(cell.demand.scope, ClassRule())
        for one, other in pairwise(way):
            ends = {self.world.processes[name].spec.country for name in (one, other)}
            passed = self.stage.passed.get(frozenset((one, other)), frozenset()) - ends
            if passed and not may_pass(passed, rule):
                text = f"the link {one} - {other} passes {', '.join(sorted(passed))}"
                fault = Fault("country", where, text)
                if fault not in self.faults:
                    self.faults.append(fault)

    def losses(self) -> int:
        """Return how many objects were lost; adds the first of them to the faults."""
        lost = 0
        for group, interval, count, _ in self.world.ledger.missing(self.world.clock.now):
            if not lost:
                text = f"{interval.contact} missed {count} of {group.sent} objects of a group"
                where = f"{group.flow.contact}, {group.began:.1f} s"
                self.faults.append(Fault("lost", where, text))
            lost += count
        return lost


def play_plan(
    signed: SignedPlan, stage: Stage, make_keeper: KeeperMaker, *, seed: int = 1
) -> PlanVerdict:
    """Play a plan on a stage."""
    started = time.process_time()
    run = _Play(signed, stage, make_keeper, seed)
    with shared_messages(True):
        try:
            run.play()
        except BreakError as error:
            run.faults.append(Fault(error.rule, f"{error.when:.1f} s", error.text))
    lost = run.losses()
    ledger = run.world.ledger
    return PlanVerdict(
        plan=run.plan.id,
        version=run.plan.version,
        seed=seed,
        relays=len(stage.topology.relays),
        links=len(stage.topology.links),
        demands=len(stage.demands),
        subscribers=sum(len(demand.at) for demand in stage.demands),
        entries=len({id(cell.entry) for cell in run.cells}),
        accepted=run.accepted,
        ways=sum(len(cell.members) for cell in run.cells),
        planned_ways=sum(right for *_, right in run.judged),
        fallbacks=len(run.second),
        taken_fallbacks=sum(right for *_, right in run.second),
        copies_before=run.copies[0],
        copies_with=run.copies[1],
        most_copies=run.copies[2],
        published=ledger.published,
        delivered=ledger.deliveries,
        lost=lost,
        virtual_s=round(run.world.clock.now, 3),
        cpu_s=round(time.process_time() - started, 3),
        faults=tuple(run.faults),
    )
