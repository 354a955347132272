"""Revert parts of a plan.

A part is the whole plan, a region, or a class of service in a region. Reverted parts get the
entries of an earlier plan, or none, so that relays choose. All other entries stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from laps_wire.plan import Plan, PlanEntry

__all__ = ["Part", "is_in", "reverted_plan", "widest"]


@dataclass(frozen=True, slots=True)
class Part:
    """Entries of a plan towards a region (None for all), of a class (None for any)."""

    region: str | None = None
    scope: str | None = None

    def __str__(self) -> str:
        if self.region is None:
            return "all"
        name = self.region or "(none)"
        return name if self.scope is None else f"{name}/{self.scope}"

    @classmethod
    def parse(cls, text: str) -> Part:
        """Parse ``all``, a region, or ``region/class``."""
        if text == "all":
            return cls()
        region, slash, scope = text.partition("/")
        return cls("" if region == "(none)" else region, scope if slash else None)

    def has(self, region: str, scope: str) -> bool:
        """Return whether a region and class are in this part."""
        return self.region in (None, region) and self.scope in (None, scope)

    def covers(self, other: Part) -> bool:
        """Return whether this part contains another one."""
        return self.region in (None, other.region) and self.scope in (None, other.scope)


def is_in(parts: Iterable[Part], region: str, scope: str) -> bool:
    """Return whether one of the parts has a region and class."""
    return any(part.has(region, scope) for part in parts)


def widest(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts that no other part covers, in order."""
    found = set(parts)
    kept = (one for one in found if not any(p.covers(one) for p in found - {one}))
    return tuple(sorted(kept, key=lambda part: (part.region or "", part.scope or "")))


def reverted_plan(current: Plan, earlier: Plan | None, parts: Collection[Part]) -> Plan:
    """Return the plan in force with the entries of an earlier one (None for none) in some parts."""
    kept = [entry for entry in current.entries if not is_in(parts, entry.region, entry.scope)]
    taken = {
        (entry.origin, entry.region, track)
        for entry in kept
        if entry.tracks is not None
        for track in entry.tracks
    }
    back: list[PlanEntry] = []
    for entry in () if earlier is None else earlier.entries:
        if not is_in(parts, entry.region, entry.scope):
            continue
        if entry.tracks is None:
            back.append(entry)
            continue
        # A track whose class is another one by now has an entry that stays: one answer is enough.
        tracks = tuple(t for t in entry.tracks if (entry.origin, entry.region, t) not in taken)
        if tracks:
            back.append(replace(entry, tracks=tracks))
    entries = sorted([*kept, *back], key=lambda e: (e.origin, e.region, e.scope, e.tracks or ()))
    return replace(current, entries=tuple(entries))
