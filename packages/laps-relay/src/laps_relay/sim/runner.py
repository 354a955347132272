"""Running scenarios, one by one or in several processes, and the figures of many runs."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from laps_relay.sim.checks.convergence import ChurnBound, Convergence
from laps_relay.sim.checks.invariants import Checks
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.net.shortcuts import shared_messages
from laps_relay.sim.scenarios.model import Scenario
from laps_relay.sim.scenarios.scenario import LARGE, scenario
from laps_relay.sim.world.actions import Actions
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.world import Builder, World
from laps_wire.errors import LapsError

__all__ = [
    "Figures",
    "Outcome",
    "Run",
    "peak_memory",
    "program_memory",
    "run_seeds",
    "simulate",
    "simulate_seed",
    "uncollected",
]

STEP: Final = 0.5
"""How often the network is looked at while it runs, in virtual seconds."""
PATIENCE: Final = 60.0
"""How long a network may take to come to rest after everything is mended."""
BOOT_SPREAD: Final = 0.3
"""Seconds within which relays start; those of large networks start together.

A dial to a relay that has not started is repeated a second later. In a large network most of the
work would then be to find all paths twice.
"""
_MIB: Final = 1024.0 * 1024.0
_STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a run."""

    seed: int
    topology: str
    relays: int
    links: int
    rule: str = ""
    """Which invariant broke; empty: none."""
    problem: str = ""
    digest: str = ""
    virtual: float = 0.0
    cpu: float = 0.0
    events: int = 0
    actions: int = 0
    faults: int = 0
    published: int = 0
    deliveries: int = 0
    crossings: int = 0
    lost: int = 0
    undrained: int = 0
    """Streams that still went through a relay, or waited, when its time to drain was over."""
    loops: int = 0
    checks: int = 0
    changes: int = 0
    """Sessions that came or went, together if at once."""
    proven: int = 0
    """Changes that no other one followed within the bound: all tables were right then."""
    prompt: int = 0
    """Changes among them that were over after one trip from end to end."""
    late: int = 0
    """Losses after which paths still moved when the diameter's bound was over."""
    convergence: float = 0.0
    """The longest of them, from the change to the last route that moved."""
    bound: float = 0.0
    """The longest that any of them was granted (:mod:`laps_relay.sim.checks.convergence`)."""
    rest: float = 0.0
    """How long after the last action the network was at rest."""
    memory: float = 0.0
    """MiB that the process that played it has had at most, in this run and before."""
    program: float = 0.0
    """MiB of that process before its first run."""

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return not self.rule

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


class Run:
    """One run, step by step."""

    __slots__ = ("actions", "checks", "churn", "convergence", "rest", "scenario", "world")

    def __init__(self, made: Scenario, builder: Builder, *, tracing: bool = False) -> None:
        self.scenario = made
        self.world = World(made, builder, tracing=tracing)
        self.actions = Actions(self.world)
        self.checks = Checks(self.world, self.actions)
        self.rest = 0.0
        self.convergence = Convergence(self.world)
        self.churn = ChurnBound(self.world)

    def play(self) -> None:
        """From boot to the empty tables; raises :class:`BreakError`."""
        world, made = self.world, self.scenario
        spares = {spare.name for spare in made.spares}
        draw = world.rng.of("boot")
        spread = BOOT_SPREAD if len(world.processes) <= LARGE else 0.0
        for name, process in world.processes.items():
            if name not in spares:
                world.clock.at(draw.uniform(0.0, spread), process.start)
        self.actions.plan()
        self._run_to(made.healed + 0.01)
        self._come_to_rest()
        self.checks.at_rest()
        self.actions.bar()
        # Proof: all objects published from now on must reach all subscribers; no gap is excused.
        self._run_to(max(world.clock.now, world.ledger.mended + 0.01))
        proof, said = world.clock.now, world.control_messages
        self._run_to(proof + 2.5 * made.style.period + made.flight + 0.5)
        world.ledger.settle(world.clock.now)
        self.checks.chatter(proof, said)
        self.checks.at_rest()
        self.checks.vias_forget()
        # Withdrawal.
        world.ending = True
        settings = made.settings
        waits = settings.unsubscribe_delay + settings.want_linger
        self.actions.unsubscribe_all()
        if made.seed % 2:
            # Publishers stay for a while after the last subscriber has left.
            stays = settings.unsubscribe_delay + settings.set_linger + made.flight
            if world.moqt:
                # A refused client has no subscription to end: its relay retries that long.
                stays += settings.want_linger
            self._run_to(world.clock.now + stays + made.style.period)
            asked = self.checks.stubs.asked()
            self.checks.nobody_listens(but=asked)
            if asked:
                self._run_to(world.clock.now + waits)
                self.checks.nobody_listens()
        self.actions.unpublish_all()
        if self.checks.stubs.stubs():
            waits *= 2  # a parent begins to wait when its Stub has waited
        # A relay remembers its own withdrawals the longest.
        linger = settings.set_linger + waits + settings.hold + 2 * settings.convergence
        self._run_to(world.clock.now + made.flight + linger + 2.0)
        self.checks.empty()
        self._stubs_go()

    def _stubs_go(self) -> None:
        """At the end of all: Stubs vanish, and nothing of them stays."""
        stubs = self.checks.stubs.stubs()
        for process in stubs:
            process.crash()
        if stubs:
            self._run_to(self.world.clock.now + 3 * self.scenario.idle)
            self.checks.stubs.gone()

    def _run_to(self, until: float) -> None:
        clock = self.world.clock
        while clock.now < until:
            clock.run(min(until, clock.now + STEP))
            self.checks.loops()
            self.checks.stubs.unseen()
            self.checks.steering.look()
            self.actions.restarts.look()

    def _come_to_rest(self) -> None:
        """Until all links are up and nothing has changed for a while."""
        world, made = self.world, self.scenario
        clock = world.clock
        quiet = 1.0 + made.settings.metric_interval + 2 * made.settings.batch
        self._run_to(max(clock.now, made.healed + made.settings.origin_grace))
        while clock.now - made.healed < PATIENCE:
            self._run_to(clock.now + STEP)
            if clock.now - world.quiet_since > quiet and not self.checks.links_up():
                break
        else:
            why = self.checks.links_up() or f"routes changed {world.quiet_since:.3f}"
            raise BreakError("no rest", f"{PATIENCE:g} s after the last action: {why}", clock.now)
        self.rest = clock.now - made.healed
        self._run_to(clock.now + made.settle)

    def outcome(self, cpu: float, broken: BreakError | None) -> Outcome:
        """The figures."""
        world, made = self.world, self.scenario
        return Outcome(
            seed=made.seed,
            topology=made.topology.name,
            relays=len(made.topology.relays) + len(made.spares),
            links=len(made.topology.links) + len(made.spare_links),
            rule="" if broken is None else broken.rule,
            problem="" if broken is None else str(broken),
            digest=world.digest,
            virtual=world.clock.now,
            cpu=cpu,
            events=world.clock.events,
            actions=self.actions.done,
            faults=made.faults,
            published=world.ledger.published,
            deliveries=world.ledger.deliveries,
            crossings=world.ledger.crossings,
            lost=world.ledger.lost,
            undrained=self.checks.drops.undrained,
            loops=world.ledger.loops,
            checks=self.checks.made,
            changes=self.convergence.changes,
            proven=self.convergence.proven,
            prompt=self.convergence.prompt,
            late=self.convergence.late,
            convergence=self.convergence.longest,
            bound=self.convergence.bound,
            rest=self.rest,
            memory=peak_memory(),
            program=program_memory(),
        )


def simulate(made: Scenario, builder: Builder, *, tracing: bool = False) -> tuple[Outcome, Run]:
    """Play a scenario."""
    program_memory()
    started = time.process_time()
    run = Run(made, builder, tracing=tracing)
    broken: BreakError | None = None
    try:
        with shared_messages(not made.on_bytes) as shared:
            if shared is not None:
                run.world.network.digest.expand = shared.expand
            run.play()
    except BreakError as error:
        broken = error
    except (LapsError, ArithmeticError, AssertionError, AttributeError, LookupError,
            RuntimeError, TypeError, ValueError) as error:  # fmt: skip
        # A core must never raise: whatever it is, it is the finding of this seed.
        broken = BreakError("crash", f"{type(error).__name__}: {error}", run.world.clock.now)
        broken.__cause__ = error
    return run.outcome(time.process_time() - started, broken), run


def simulate_seed(
    seed: int, relays: int | None = None, topology: str | None = None, kind: str | None = None
) -> Outcome:
    """The run of a seed on the real core; what a worker process does."""
    made = scenario(seed, relays=relays, topology=topology, kind=kind)
    with uncollected():
        return simulate(made, network_relay)[0]


@contextmanager
def uncollected() -> Iterator[None]:
    """Let a run make its cycles without a search for them: tables are millions of live objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.collect(1)  # the whole run, and nothing of what was there before


def run_seeds(
    seeds: Sequence[int],
    play: Callable[[int], Outcome] = simulate_seed,
    *,
    jobs: int = 1,
) -> Iterator[Outcome]:
    """Play many seeds; the outcomes come in the order of the seeds."""
    if jobs <= 1:
        yield from map(play, seeds)
        return
    # Started anew, not forked: a copy of a large parent would count the parent's memory as its own.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(play, seeds, chunksize=1)


def peak_memory() -> float:
    """Return the most memory that this process has had so far, in MiB.

    Linux hands ``ru_maxrss`` on to the processes that a process starts, so a worker of a large
    program would seem large from its start. ``VmHWM`` belongs to the address space and starts anew.
    """
    if _STATUS.exists():
        line = next(row for row in _STATUS.read_text().splitlines() if row.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024.0
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (_MIB if sys.platform == "darwin" else 1024.0)


@cache
def program_memory() -> float:
    """:func:`peak_memory` at the first call, which is before the first run of the process."""
    return peak_memory()


@dataclass(slots=True, kw_only=True)
class Figures:
    """Sums over runs."""

    seeds: int = 0
    breaks: int = 0
    relays: int = 0
    actions: int = 0
    faults: int = 0
    published: int = 0
    deliveries: int = 0
    crossings: int = 0
    lost: int = 0
    undrained: int = 0
    loops: int = 0
    checks: int = 0
    events: int = 0
    virtual: float = 0.0
    cpu: float = 0.0
    changes: int = 0
    proven: int = 0
    prompt: int = 0
    late: int = 0
    convergence: float = 0.0
    bound: float = 0.0
    rest: float = 0.0
    memory: float = 0.0
    """MiB that one process has had at most."""
    grown: float = 0.0
    """The same, less what it had before its first run."""
    largest: int = 0
    """Relays of the largest network."""

    def add(self, outcome: Outcome) -> None:
        """One more run."""
        self.seeds += 1
        self.breaks += not outcome.ok
        for name in ("relays", "actions", "faults", "published", "deliveries", "crossings", "lost",
                     "undrained", "loops", "checks", "events", "virtual", "cpu", "changes",
                     "proven", "prompt", "late"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(outcome, name))
        self.convergence = max(self.convergence, outcome.convergence)
        self.bound = max(self.bound, outcome.bound)
        self.rest = max(self.rest, outcome.rest)
        self.memory = max(self.memory, outcome.memory)
        self.grown = max(self.grown, outcome.memory - outcome.program)
        self.largest = max(self.largest, outcome.relays)

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Figures:
        """Of all of them."""
        figures = cls()
        for outcome in outcomes:
            figures.add(outcome)
        return figures

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            **asdict(self),
            "events_per_second": round(self.events / max(self.cpu, 1e-9)),
            "cpu_per_relay": self.cpu_per_relay,
            "memory_per_relay": self.memory_per_relay,
        }

    @property
    def cpu_per_relay(self) -> float:
        """Seconds, over all runs."""
        return self.cpu / max(self.relays, 1)

    @property
    def memory_per_relay(self) -> float:
        """MiB; the largest network is the one that needed the most."""
        return self.grown / max(self.largest, 1)

    def rows(self) -> list[tuple[str, str]]:
        """For people."""
        cpu = max(self.cpu, 1e-9)
        return [
            ("seeds", f"{self.seeds:,}"),
            ("breaks", f"{self.breaks:,}"),
            ("relays", f"{self.relays:,}"),
            ("actions, faults among them", f"{self.actions:,}, {self.faults:,}"),
            ("objects published, delivered", f"{self.published:,}, {self.deliveries:,}"),
            ("streams and datagrams over links", f"{self.crossings:,}"),
            ("objects lost in faults", f"{self.lost:,}"),
            ("streams cut off when a drain was over", f"{self.undrained:,}"),
            ("looks at all tables", f"{self.checks:,}"),
            ("events, a CPU second", f"{self.events:,}, {self.events / cpu:,.0f}"),
            ("virtual time, CPU time", f"{self.virtual:,.0f} s, {self.cpu:,.1f} s"),
            ("CPU for each relay", f"{1000 * self.cpu_per_relay:.1f} ms"),
            ("session changes, bound proven", f"{self.changes:,}, {self.proven:,}"),
            ("of these, over as if nobody had batched", f"{self.prompt:,}"),
            ("losses later than the diameter's bound", f"{self.late:,}"),
            (
                "longest convergence, bound",
                f"{1000 * self.convergence:.0f} ms, {1000 * self.bound:.0f} ms",
            ),
            ("memory of a process at most", f"{self.memory:.0f} MiB"),
            ("memory for each relay", f"{1024 * self.memory_per_relay:.0f} KiB"),
        ]
