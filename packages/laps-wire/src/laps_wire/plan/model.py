"""What a plan says: which Via the copies of a track, or of a class, take towards a region.

Numbers are integers throughout: a plan is signed, and two programs must not differ in how they
write a fraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from laps_wire.nodeid import NodeId

__all__ = [
    "FORMAT",
    "MAX_BYTES",
    "MAX_ENTRIES",
    "MAX_TEXT",
    "MAX_TRACKS",
    "ClassRule",
    "HardConstraints",
    "Plan",
    "PlanEntry",
    "SignedPlan",
]

FORMAT: Final = 1
"""The version of the format."""
MAX_BYTES: Final = 64 << 20
"""The largest text that is read."""
MAX_ENTRIES: Final = 200_000
MAX_TRACKS: Final = 1_000_000
"""Tracks in all entries together."""
MAX_TEXT: Final = 512
"""The longest name or reason, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """What the planner kept to for one class of service."""

    slack_permille: int = 1300
    """A way over a Via may take so much of the direct one, in thousandths, ..."""
    extra_us: int = 30_000
    """... and so much more."""
    limit_us: int | None = None
    """A round trip above this is too long for the class."""
    limit_loss_ppm: int | None = None
    """A way that loses more packets of a million is too lossy, unless the direct one is, too."""
    deny_countries: tuple[str, ...] = ()
    """Countries that data in transit does not pass, by relay or by declared IP path."""
    allow_countries: tuple[str, ...] | None = None
    """The only ones that it passes; None: any."""
    via_regions: tuple[str, ...] | None = None
    """Where Vias may stand; None: anywhere."""
    disjoint: bool = False
    """Whether every entry names a second way that shares no relay with the first."""


_DEFAULT: Final = ClassRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class HardConstraints:
    """What holds for every entry of the plan, as its maker saw the network."""

    max_fanout: int = 2
    """Copies of a track from its origin towards one region."""
    change_budget: int | None = None
    """Entries that may differ from the plan before; None: all."""
    headroom_permille: int = 800
    """How much of a relay's or link's capacity is planned for."""
    classes: Mapping[str, ClassRule] = field(default_factory=dict)
    """By class; "" is for tracks without one."""

    def rule(self, scope: str) -> ClassRule:
        """What holds for a class; for one that nobody named, what holds by default."""
        return self.classes.get(scope, _DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """One Via for copies from one relay towards one region."""

    origin: NodeId
    """The relay that the entry is for: that of the publisher."""
    region: str
    scope: str
    """The class of service; "" for none."""
    tracks: tuple[int, ...] | None
    """Keys of the tracks, ascending; None: every track of the class."""
    via: NodeId
    fallback: NodeId | None = None
    """What to take if the Via cannot be taken."""
    wan_saved_permille: int = 0
    """Expected: WAN cost that is saved, of what hub-and-spoke costs; below 0 it costs more."""
    delay_us: int = 0
    """Expected: change of the viewers' mean round trip; below 0 is shorter."""
    reason: str = ""
    """One sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan: what is signed."""

    id: str
    """Name of the series of plans; versions count within it."""
    version: int
    made_us: int
    """When it was made, microseconds since 1970."""
    expires_us: int
    """From then on nobody follows it."""
    based_on: str
    """SHA-256 of what the maker knew of network and demand, hexadecimal."""
    constraints: HardConstraints = field(default_factory=HardConstraints)
    entries: tuple[PlanEntry, ...] = ()

    def of(self, node: NodeId) -> tuple[PlanEntry, ...]:
        """The entries for one relay."""
        return tuple(entry for entry in self.entries if entry.origin == node)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPlan:
    """A plan with its signature, which nobody has checked yet."""

    plan: Plan
    key_id: str
    """Which key made it: see :func:`laps_wire.plan.key_id`."""
    signature: bytes
    """Ed25519, 64 bytes, over :func:`laps_wire.plan.signed_bytes`."""
