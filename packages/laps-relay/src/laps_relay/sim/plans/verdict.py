"""What is said of a plan that was played."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["Fault", "PlanVerdict"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong with a plan."""

    check: str
    """refused, way, copies, country, fallback, lost; or a rule of the simulator, as doubled."""
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
    """Ways from an origin to a subscriber's relay for which the plan names a Via, ..."""
    planned_ways: int
    """... and those that went over it."""
    fallbacks: int
    """Ways with a second Via whose first one drained, ..."""
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
