"""Playing a plan: a network runs, gets the plan, follows it, and loses it again.

::

    boot -> clients -> at rest -> plan offered -> at rest -> a Via drains -> at rest -> it expires
                       |          to every relay  |                         |           |
                       paths before               paths are the planned     paths over  nothing
                                                  ones, copies, policy      fallbacks   was lost

Relays are the real core, and each loads the plan as a server does: a *keeper* checks signature,
time, version, Vias and policy (``laps_relay.server.plans``). Objects are counted from the first
subscriber on, through both changes. None may be lost, and none may come twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

from laps_relay.network.relay import NetworkRelay
from laps_relay.sim.checks.invariants import Checks
from laps_relay.sim.clients.ledger import FLIGHT, BreakError, Group
from laps_relay.sim.clients.publications import Publication, Style
from laps_relay.sim.net.messages import shared_messages
from laps_relay.sim.plans.rules import PlanPolicy, may_pass
from laps_relay.sim.plans.stage import Demand, PlanHasher, Stage, entry_for
from laps_relay.sim.scenarios.model import SETTINGS, Scenario
from laps_relay.sim.scenarios.steering import settling
from laps_relay.sim.world.actions import Actions
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.world import RelayProcess, World
from laps_sdk.upstream.interfaces import Answer
from laps_wire.peering.laps2 import AnnounceKind
from laps_wire.plan import ClassRule, PlanEntry, SignedPlan, dumps

__all__ = ["Fault", "Keeper", "KeeperMaker", "PlanVerdict", "play_plan"]


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
