"""What many runs were, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from laps_relay.sim.runner import Outcome

__all__ = ["Figures"]


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
