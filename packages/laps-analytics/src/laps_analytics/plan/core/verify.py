"""Whether a finished plan keeps every constraint: checked again from the raw network.

This shares nothing with the code that makes plans. It reads the document as a relay would, walks
every track to every target, and adds up what relays and links would carry. Loops and dictionaries,
no tables: it is to be right, not fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from laps_analytics.plan.core.demand import Track
from laps_analytics.plan.core.network import Network
from laps_wire.plan import ClassRule, Plan, PlanEntry

__all__ = ["Violation", "left_out", "verify"]

_RELAY_MS = 1.0
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint that does not hold."""

    constraint: str
    """latency, country, region, node, capacity, budget, disjoint or time."""
    where: str
    """Which entry, relay or link."""
    text: str


def verify(
    plan: Plan,
    network: Network,
    tracks: Iterable[Track],
    *,
    previous: Plan | None = None,
    edges_as_vias: bool = False,
) -> list[Violation]:
    """Everything that is wrong with a plan for this network and demand."""
    return _Verifier(plan, network, list(tracks), edges_as_vias).run(previous)


class _Verifier:
    def __init__(
        self, plan: Plan, network: Network, tracks: list[Track], edges_as_vias: bool
    ) -> None:
        self.plan = plan
        self.network = network
        self.tracks = tracks
        self.kinds = ("via", "edge") if edges_as_vias else ("via",)
        self.found: list[Violation] = []
        self.relays: dict[str, float] = {}
        self.links: dict[tuple[str, str], float] = {}

    def run(self, previous: Plan | None) -> list[Violation]:
        if self.plan.expires_us <= self.plan.made_us:
            self.say("time", "plan", "it expires before it is made")
        answers = _answers(self.plan)
        for track in self.tracks:
            self._walk(track, answers)
        self._carried()
        if previous is not None:
            self._changes(previous, answers)
        return self.found

    def say(self, constraint: str, where: str, text: str) -> None:
        violation = Violation(constraint, where, text)
        if violation not in self.found:
            self.found.append(violation)

    def _walk(self, track: Track, answers: Mapping[object, PlanEntry]) -> None:
        """One track to each of its targets, as the plan has it."""
        origin = self.network.nodes[track.origin]
        taken: set[str] = set()
        by_region: dict[str, list[int]] = {}
        for target in sorted(track.viewers):
            if target != track.origin:
                by_region.setdefault(self.network.nodes[target].region, []).append(target)
        for region, targets in by_region.items():
            entry = _answer(answers, origin.id, region, track)
            if entry is None:
                continue
            where = f"{origin.id} > {region} ({track.scope or 'no class'})"
            rule = self.plan.constraints.classes.get(track.scope, ClassRule())
            faults = self._faults(str(entry.via), track.origin, targets, rule)
            for constraint, text in faults:
                self.say(constraint, where, text)
            if entry.scope != track.scope:
                self.say("node", where, f"the entry is for the class {entry.scope!r}")
            if rule.disjoint:
                self._second(entry, track.origin, targets, rule, where)
            via = str(entry.via)
            if via not in taken:
                taken.add(via)
                self._carry(origin.id, via, track.rate_bps)
            for target in targets:
                self._carry(via, self.network.nodes[target].id, track.rate_bps)
                self.relays[via] = self.relays.get(via, 0.0) + track.rate_bps

    def _second(
        self, entry: PlanEntry, origin: int, targets: list[int], rule: ClassRule, where: str
    ) -> None:
        if entry.fallback is None or entry.fallback == entry.via:
            self.say("disjoint", where, "no second way")
            return
        for constraint, text in self._faults(str(entry.fallback), origin, targets, rule):
            self.say("disjoint", where, f"second way, {constraint}: {text}")

    def _faults(
        self, via: str, origin: int, targets: list[int], rule: ClassRule
    ) -> list[tuple[str, str]]:
        """What forbids a Via for some targets."""
        network = self.network
        if via not in network.index:
            return [("node", f"{via} is not there")]
        row = network.index[via]
        node = network.nodes[row]
        found = []
        if not node.usable or node.kind not in self.kinds or row == origin or row in targets:
            found.append(("node", f"{via} cannot be a Via here"))
        if rule.via_regions is not None and node.region not in rule.via_regions:
            found.append(("region", f"{via} stands in {node.region or 'no region'}"))
        if not _may_pass(frozenset({node.country}), rule):
            found.append(("country", f"{via} stands in {node.country or 'no country'}"))
        for target in targets:
            for a, b in ((origin, row), (row, target)):
                ends = {network.nodes[a].country, network.nodes[b].country}
                passed = network.path_countries(a, b) - ends
                if passed and not _may_pass(passed, rule):
                    names = ", ".join(sorted(passed))
                    link = f"{network.nodes[a].id} to {network.nodes[b].id}"
                    found.append(("country", f"{link} passes {names}"))
            direct = float(network.rtt_ms[origin, target])
            over = float(network.rtt_ms[origin, row] + network.rtt_ms[row, target]) + _RELAY_MS
            most = direct * (rule.slack_permille / 1000) + rule.extra_us / 1000
            if not over <= most + _TOLERANCE or over == float("inf"):
                way = f"{network.nodes[target].id} over {via}"
                found.append(("latency", f"{over:.1f} ms to {way}, at most {most:.1f}"))
        return found

    def _carry(self, a: str, b: str, rate: float) -> None:
        self.links[a, b] = self.links.get((a, b), 0.0) + rate

    def _carried(self) -> None:
        share = self.plan.constraints.headroom_permille / 1000
        network = self.network
        for name, rate in self.relays.items():
            if name in network.index:
                node = network.nodes[network.index[name]]
                total = rate + node.load_bps
                if total > node.capacity_bps * share * (1 + _TOLERANCE):
                    self.say("capacity", name, _of(total, node.capacity_bps))
        for (a, b), rate in self.links.items():
            if a in network.index and b in network.index:
                pair = network.index[a], network.index[b]
                total, room = rate + network.load_bps[pair], network.capacity_bps[pair]
                if total > room * share * (1 + _TOLERANCE):
                    self.say("capacity", f"{a} > {b}", _of(total, room))

    # Changes

    def _changes(self, previous: Plan, answers: Mapping[object, PlanEntry]) -> None:
        budget = self.plan.constraints.change_budget
        if budget is None:
            return
        before = _answers(previous)
        full = self._full_before(before)
        changed: set[object] = set()
        for track in self.tracks:
            origin = self.network.nodes[track.origin].id
            targets = tuple(sorted(t for t in track.viewers if t != track.origin))
            own = self.network.nodes[track.origin].region
            for region in {self.network.nodes[t].region for t in targets} - {own, ""}:
                old = _answer(before, origin, region, track)
                new = _answer(answers, origin, region, track)
                if (old and old.via) == (new and new.via):
                    continue
                if old is not None and self._must_go(old, track, region, full):
                    continue
                changed.add((origin, region, track.scope, targets))
        if len(changed) > budget:
            self.say("budget", "plan", f"{len(changed)} changes, and {budget} are allowed")

    def _must_go(self, old: PlanEntry, track: Track, region: str, full: set[str]) -> bool:
        rule = self.plan.constraints.classes.get(track.scope, ClassRule())
        targets = [
            t for t in track.viewers if t != track.origin and self.network.nodes[t].region == region
        ]
        return str(old.via) in full or bool(
            self._faults(str(old.via), track.origin, targets, rule)
            or (rule.disjoint and len(self._allowed(track.origin, targets, rule)) < 2)
        )

    def _allowed(self, origin: int, targets: list[int], rule: ClassRule) -> list[str]:
        return [
            node.id
            for node in self.network.nodes
            if not self._faults(node.id, origin, targets, rule)
        ]

    def _full_before(self, before: Mapping[object, PlanEntry]) -> set[str]:
        """Vias that could not carry today's demand if nothing were changed."""
        other = _Verifier(self.plan, self.network, self.tracks, edges_as_vias=True)
        for track in self.tracks:
            other._walk(track, before)
        other.found.clear()
        other._carried()
        return {name for found in other.found for name in found.where.split(" > ")}


def left_out(plan: Plan, network: Network, tracks: Iterable[Track]) -> list[tuple[int, str, int]]:
    """Tracks, regions, and how many copies: too many, and the plan says nothing about them.

    Relays choose by themselves there; it is no fault of the plan, and worth knowing.
    """
    answers = _answers(plan)
    found = []
    for track in tracks:
        origin = network.nodes[track.origin]
        copies: dict[str, int] = {}
        for target in track.viewers:
            region = network.nodes[target].region
            if target != track.origin and region and region != origin.region:
                copies[region] = copies.get(region, 0) + 1
        for region, count in sorted(copies.items()):
            many = count > plan.constraints.max_fanout
            if many and _answer(answers, origin.id, region, track) is None:
                found.append((track.key, region, count))
    return found


def _of(used: float, room: float) -> str:
    return f"{used / 1e9:.3f} Gbit/s of {room / 1e9:.3f}"


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


def _may_pass(countries: frozenset[str], rule: ClassRule) -> bool:
    if any(country in rule.deny_countries for country in countries):
        return False
    allowed = rule.allow_countries
    return allowed is None or all(country in allowed for country in countries)
