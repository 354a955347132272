"""Whether a finished plan keeps every constraint: checked again from the raw network.

This shares nothing with the code that makes plans. It reads the document as a relay would, walks
every track to every target, and adds up what relays and links would carry. Loops and dictionaries,
no tables: it is to be right, not fast.

Silence is judged, too. Where hub and spoke is not allowed (too many copies, a denied country on the
way, a link or relay that is full) and an allowed Via has room, a plan must name one, unless its
budget of changes is used up. :func:`left_out` names what was left to relays, and why it may be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from laps_analytics.plan.core.carried import Carried, Spot
from laps_analytics.plan.core.demand import Track
from laps_analytics.plan.core.forbidden import faults, passes
from laps_analytics.plan.core.network import Network
from laps_analytics.plan.core.revert import Part
from laps_wire.plan import ClassRule, Plan, PlanEntry

__all__ = ["LeftOut", "Violation", "check", "left_out", "verify"]

_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint that does not hold."""

    constraint: str
    """latency, loss, country, region, node, fan-out, capacity, budget, disjoint or time."""
    where: str
    """Which entry, relay or link."""
    text: str


class LeftOut(NamedTuple):
    """What hub and spoke is not allowed for, and a plan says nothing about."""

    track: int
    region: str
    copies: int
    constraint: str
    """What speaks against hub and spoke: fan-out, country or capacity."""
    reason: str
    """Why the plan may be silent; empty if it may not."""


def check(
    plan: Plan,
    network: Network,
    tracks: Iterable[Track],
    *,
    previous: Plan | None = None,
    edges_as_vias: bool = False,
    hold: Collection[Part] = (),
    undeclared: Collection[str] = (),
) -> tuple[list[Violation], list[LeftOut]]:
    """Everything that is wrong with a plan for this network and demand, and what it leaves out.

    Of parts to ``hold`` somebody decided that relays may choose: a plan may be silent there. For
    classes in ``undeclared`` a link whose countries nobody declared passes a denied one.
    """
    verifier = _Verifier(plan, network, list(tracks), edges_as_vias, hold, undeclared)
    verifier.run(previous)
    return verifier.found, verifier.silent


def verify(
    plan: Plan,
    network: Network,
    tracks: Iterable[Track],
    *,
    previous: Plan | None = None,
    edges_as_vias: bool = False,
) -> list[Violation]:
    """Everything that is wrong with a plan."""
    return check(plan, network, tracks, previous=previous, edges_as_vias=edges_as_vias)[0]


def left_out(
    plan: Plan,
    network: Network,
    tracks: Iterable[Track],
    *,
    previous: Plan | None = None,
    edges_as_vias: bool = False,
) -> list[LeftOut]:
    """What a plan leaves to relays although hub and spoke is not allowed there."""
    return check(plan, network, tracks, previous=previous, edges_as_vias=edges_as_vias)[1]


class _Decision(NamedTuple):
    """Tracks with the same origin, class and s-relays that the plan before treated alike."""

    origin: int
    scope: str
    targets: tuple[int, ...]
    before: tuple[str, ...]


class _Verifier:
    def __init__(
        self,
        plan: Plan,
        network: Network,
        tracks: list[Track],
        edges_as_vias: bool,
        hold: Collection[Part],
        undeclared: Collection[str],
    ) -> None:
        self.plan = plan
        self.network = network
        self.tracks = tracks
        self.kinds = ("via", "edge") if edges_as_vias else ("via",)
        self.hold = hold
        self.undeclared = undeclared
        self.found: list[Violation] = []
        self.silent: list[LeftOut] = []
        self.answers = _answers(plan)
        self.before: Mapping[object, PlanEntry] = {}
        self.full: set[Spot] = set()
        """What would carry too much if nothing were changed."""
        self.changes: set[tuple[_Decision, str]] | None = None
        """Changes that count; None without a budget."""
        self.carried = self._carry(self.answers)

    def run(self, previous: Plan | None) -> None:
        if self.plan.expires_us <= self.plan.made_us:
            self.say("time", "plan", "it expires before it is made")
        for track in self.tracks:
            self._walk(track)
        self._capacity()
        if previous is not None:
            self.before = _answers(previous)
        if previous is not None and self.plan.constraints.change_budget is not None:
            self._changes(self.plan.constraints.change_budget)
        self._silence()

    def say(self, constraint: str, where: str, text: str) -> None:
        violation = Violation(constraint, where, text)
        if violation not in self.found:
            self.found.append(violation)

    def name(self, row: int) -> str:
        return self.network.nodes[row].id

    def rule(self, scope: str) -> ClassRule:
        return self.plan.constraints.classes.get(scope, ClassRule())

    def regions(self, track: Track) -> dict[str, list[int]]:
        """Its targets by region."""
        found: dict[str, list[int]] = {}
        for target in sorted(track.viewers):
            if target != track.origin:
                found.setdefault(self.network.nodes[target].region, []).append(target)
        return found

    def faults(
        self, via: str, origin: int, targets: list[int], scope: str
    ) -> list[tuple[str, str]]:
        """What forbids a Via for some targets."""
        rule, strict = self.rule(scope), scope in self.undeclared
        return faults(self.network, self.kinds, via, origin, targets, rule, strict)

    # Entries

    def _walk(self, track: Track) -> None:
        """One track to each of its targets, as the plan has it."""
        origin = self.name(track.origin)
        for region, targets in self.regions(track).items():
            entry = _answer(self.answers, origin, region, track)
            if entry is None:
                continue
            where = f"{origin} > {region} ({track.scope or 'no class'})"
            rule = self.rule(track.scope)
            for constraint, text in self.faults(str(entry.via), track.origin, targets, track.scope):
                self.say(constraint, where, text)
            if entry.scope != track.scope:
                self.say("node", where, f"the entry is for the class {entry.scope!r}")
            if entry.fallback is None or entry.fallback == entry.via:
                if rule.disjoint:
                    self.say("disjoint", where, "no second way")
                continue
            second = str(entry.fallback)
            for constraint, text in self.faults(second, track.origin, targets, track.scope):
                kind = "disjoint" if rule.disjoint else constraint
                self.say(kind, where, f"second way, {constraint}: {text}")

    # Loads

    def _carry(self, answers: Mapping[object, PlanEntry]) -> Carried:
        """What relays and links carry: every copy, over a Via or not."""
        carried = Carried(self.network, self.plan.constraints.headroom_permille / 1000)
        for track in self.tracks:
            origin = self.name(track.origin)
            ways = {
                region: (_answer(answers, origin, region, track), targets)
                for region, targets in self.regions(track).items()
            }
            vias = {str(entry.via) for entry, _ in ways.values() if entry is not None}
            known = vias & self.network.index.keys()
            for via in sorted(known):
                carried.send(origin, via, track.rate_bps)
            legs: set[tuple[str, str]] = set()
            for entry, targets in ways.values():
                source = origin if entry is None else str(entry.via)
                if source not in self.network.index:
                    continue
                for target in targets:
                    carried.send(source, self.name(target), track.rate_bps)
                if entry is None or entry.fallback is None:
                    continue
                second = str(entry.fallback)
                if second in self.network.index:
                    leg, *rest = self._spots(second, track.origin, targets, track.rate_bps)
                    carried.take_over(source, rest, counted=True)
                    first = second not in known and (source, second) not in legs
                    carried.take_over(source, [leg], counted=first)
                    legs.add((source, second))
        return carried

    def _spots(
        self, via: str, origin: int, targets: Iterable[int], rate: float
    ) -> list[tuple[Spot, float]]:
        """What a way over a Via uses, the first leg first; but not the origin, which sends less."""
        names = [self.name(target) for target in targets]
        return [
            ((self.name(origin), via), rate),
            ((via,), rate * len(names)),
            *(((via, name), rate) for name in names),
        ]

    def _capacity(self) -> None:
        """A plan makes nothing too full; what demand alone makes too full, it does not add to."""
        plain = self._carry({})
        for spot in self.carried.over():
            if self.carried.total(spot) > plain.total(spot) * (1 + _TOLERANCE):
                self.say("capacity", " > ".join(spot), self._used(spot, 0.0))
        for failed, spot in self.carried.over_if_fails():
            more = self.carried.if_fails[failed, spot]
            self.say("capacity", " > ".join(spot), f"if {failed} fails, {self._used(spot, more)}")

    def _used(self, spot: Spot, more: float) -> str:
        used, room = self.carried.total(spot) + more, self.carried.capacity(spot)
        return f"{used / 1e9:.3f} Gbit/s of {room / 1e9:.3f}"

    def _room(self, via: str, decision: _Decision, targets: list[int], rate: float) -> bool:
        """Whether tracks that have no Via would fit on one; and on a second one if they must."""
        rule = self.rule(decision.scope)
        if not self.carried.has_room(self._spots(via, decision.origin, targets, rate)):
            return False
        return not rule.disjoint or any(
            self.carried.has_reserve(via, self._spots(other, decision.origin, targets, rate))
            for other in self._allowed(decision.origin, targets, decision.scope)
            if other != via
        )

    # Silence

    def _decisions(self) -> dict[_Decision, list[Track]]:
        found: dict[_Decision, list[Track]] = {}
        for track in self.tracks:
            regions = self.regions(track)
            origin = self.name(track.origin)
            old = [_answer(self.before, origin, region, track) for region in sorted(regions)]
            before = tuple(
                ""
                if entry is None
                else via
                if (via := str(entry.via)) in self.network.index
                else "-"
                for entry in old
            )
            targets = tuple(sorted(t for group in regions.values() for t in group))
            if targets:
                key = _Decision(track.origin, track.scope, targets, before)
                found.setdefault(key, []).append(track)
        return found

    def _silence(self) -> None:
        """Where the plan names no Via, although hub and spoke is not allowed."""
        for decision, tracks in self._decisions().items():
            origin = self.name(decision.origin)
            own = self.network.nodes[decision.origin].region
            for region, targets in self.regions(tracks[0]).items():
                if region in ("", own):
                    continue
                mute = [t for t in tracks if _answer(self.answers, origin, region, t) is None]
                constraint = self._against_direct(decision, targets)
                if not mute or not constraint:
                    continue
                reason = self._excuse(decision, region, targets, mute)
                self.silent += [
                    LeftOut(track.key, region, len(targets), constraint, reason) for track in mute
                ]
                if not reason:
                    where = f"{origin} > {region} ({decision.scope or 'no class'})"
                    text = f"{len(targets)} copies, and a Via is allowed and has room"
                    self.say(constraint, where, text)

    def _against_direct(self, decision: _Decision, targets: list[int]) -> str:
        """What speaks against hub and spoke; empty if nothing does."""
        if len(targets) > self.plan.constraints.max_fanout:
            return "fan-out"
        rule, strict = self.rule(decision.scope), decision.scope in self.undeclared
        if any(passes(self.network, decision.origin, t, rule, strict) for t in targets):
            return "country"
        origin = self.name(decision.origin)
        spots: list[Spot] = [(origin,), *((origin, self.name(target)) for target in targets)]
        return "capacity" if any(self.carried.is_over(spot) for spot in spots) else ""

    def _excuse(
        self, decision: _Decision, region: str, targets: list[int], mute: list[Track]
    ) -> str:
        """Why a plan may say nothing here; empty if it may not."""
        rule = self.rule(decision.scope)
        allowed = self._allowed(decision.origin, targets, decision.scope)
        if len(allowed) < (2 if rule.disjoint else 1):
            return "no Via is allowed" if not allowed else "no second Via is allowed"
        rate = sum(track.rate_bps for track in mute)
        roomy = [via for via in allowed if self._room(via, decision, targets, rate)]
        if not roomy:
            return "no allowed Via has room"
        if any(part.has(region, decision.scope) for part in self.hold):
            return "it is held as it was"
        old = _answer(self.before, self.name(decision.origin), region, mute[0])
        if self.changes is None or (old is not None and str(old.via) in roomy):
            return ""
        budget = self.plan.constraints.change_budget or 0
        counted = (decision, region) in self.changes
        if counted or len(self.changes) < budget or self._must_go(old, decision, targets, mute):
            return ""
        return "the budget of changes is used up"

    # Changes

    def _changes(self, budget: int) -> None:
        self.full = set(self._carry(self.before).over())
        self.changes = set()
        for decision, tracks in self._decisions().items():
            origin = self.name(decision.origin)
            own = self.network.nodes[decision.origin].region
            for region, targets in self.regions(tracks[0]).items():
                if region in ("", own):
                    continue
                moved = []
                for track in tracks:
                    old = _answer(self.before, origin, region, track)
                    new = _answer(self.answers, origin, region, track)
                    if (old and old.via) != (new and new.via):
                        moved.append(track)
                if moved:
                    old = _answer(self.before, origin, region, moved[0])
                    if not self._must_go(old, decision, targets, moved):
                        self.changes.add((decision, region))
        if len(self.changes) > budget:
            self.say("budget", "plan", f"{len(self.changes)} changes, and {budget} are allowed")

    def _must_go(
        self, old: PlanEntry | None, decision: _Decision, targets: list[int], tracks: list[Track]
    ) -> bool:
        """Whether what the plan before said cannot stay."""
        origin = self.name(decision.origin)
        if old is None:
            direct: list[Spot] = [(origin,), *((origin, self.name(target)) for target in targets)]
            return any(spot in self.full for spot in direct)
        via, rule = str(old.via), self.rule(decision.scope)
        if self.faults(via, decision.origin, targets, decision.scope):
            return True
        if any(spot in self.full for spot, _ in self._spots(via, decision.origin, targets, 0.0)):
            return True
        if not rule.disjoint:
            return False
        if len(self._allowed(decision.origin, targets, decision.scope)) < 2:
            return True
        # It had to have a second way, and what is planned now leaves no room for that.
        return not self._room(via, decision, targets, sum(track.rate_bps for track in tracks))

    def _allowed(self, origin: int, targets: list[int], scope: str) -> list[str]:
        return [
            node.id
            for node in self.network.nodes
            if node.kind in self.kinds and not self.faults(node.id, origin, targets, scope)
        ]


def _answers(plan: Plan) -> dict[object, PlanEntry]:
    found: dict[object, PlanEntry] = {}
    for entry in plan.entries:
        for key in (entry.scope,) if entry.tracks is None else entry.tracks:
            found[str(entry.origin), entry.region, key] = entry
    return found


def _answer(
    answers: Mapping[object, PlanEntry], origin: str, region: str, track: Track
) -> PlanEntry | None:
    found = answers.get((origin, region, track.key))
    return answers.get((origin, region, track.scope)) if found is None else found
