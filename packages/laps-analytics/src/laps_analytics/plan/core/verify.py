"""Verify that a finished plan keeps every constraint, from the raw network.

The verifier shares no code with the planner. It reads the plan as a relay would, follows every
track to every target, and adds up the load of relays and links. It uses loops and dictionaries, for
clarity instead of speed.

Missing entries are checked as well. Where hub and spoke is not allowed and an allowed Via has room,
the plan must name a Via, unless its change budget is used up. Hub and spoke is not allowed with too
many copies, a denied country on the path, or an overloaded link or relay. :func:`left_out` returns
the cells without an entry, and why the plan may omit them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from laps_analytics.plan.core.inputs import Network, Track
from laps_analytics.plan.core.revert import Part
from laps_wire.plan import ClassRule, Plan, PlanEntry

__all__ = ["LeftOut", "Violation", "check", "left_out", "verify"]

_TOLERANCE = 1e-6
_RELAY_MS = 1.0
"""Delay that a relay on the path adds to a round trip."""

Resource = tuple[str, ...]
"""The id of a relay, or the ids of both ends of a link."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint that the plan breaks."""

    constraint: str
    """latency, loss, country, region, node, fan-out, capacity, budget, disjoint or time."""
    where: str
    """Entry, relay or link."""
    text: str


class LeftOut(NamedTuple):
    """A track towards a region for which hub and spoke is not allowed and the plan has no entry."""

    track: int
    region: str
    copies: int
    constraint: str
    """Why hub and spoke is not allowed: fan-out, country or capacity."""
    reason: str
    """Why the plan may omit it; empty if it may not."""


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
    """Return the violations of a plan, and what it leaves out.

    The plan may omit entries in the parts of ``hold``. Classes in ``undeclared`` must not use links
    without declared countries.
    """
    verifier = _Verifier(plan, network, list(tracks), edges_as_vias, hold, undeclared)
    verifier.run(previous)
    return verifier.found, verifier.omitted


def verify(
    plan: Plan,
    network: Network,
    tracks: Iterable[Track],
    *,
    previous: Plan | None = None,
    edges_as_vias: bool = False,
) -> list[Violation]:
    """Return the violations of a plan."""
    return check(plan, network, tracks, previous=previous, edges_as_vias=edges_as_vias)[0]


def left_out(
    plan: Plan,
    network: Network,
    tracks: Iterable[Track],
    *,
    previous: Plan | None = None,
    edges_as_vias: bool = False,
) -> list[LeftOut]:
    """Return what a plan leaves to relays although hub and spoke is not allowed there."""
    return check(plan, network, tracks, previous=previous, edges_as_vias=edges_as_vias)[1]


class _Decision(NamedTuple):
    """Tracks with the same origin, class, s-relays and Vias in the plan in force."""

    origin: int
    scope: str
    targets: tuple[int, ...]
    before: tuple[str, ...]


class _Loads:
    """Load of each resource under a finished plan, and additional load if a Via fails."""

    def __init__(self, network: Network, share: float) -> None:
        self._network = network
        self._share = share
        self.loads: dict[Resource, float] = {}
        self.if_fails: dict[tuple[str, Resource], float] = {}
        """Load of fallbacks, by failing Via and resource."""
        self._at_most: dict[Resource, dict[str, float]] = {}
        """The same, including first legs that are already in use."""

    def send(self, a: str, b: str, rate: float) -> None:
        """Add a copy from one relay to another."""
        for resource in ((a,), (a, b)):
            self.loads[resource] = self.loads.get(resource, 0.0) + rate

    def take_over(
        self, failed: str, resources: Iterable[tuple[Resource, float]], *, counted: bool
    ) -> None:
        """Add the load of a fallback if a Via fails.

        With ``counted`` false only the upper bound grows, because the resource already carries the
        copy.
        """
        for resource, rate in resources:
            kept = self._at_most.setdefault(resource, {})
            kept[failed] = kept.get(failed, 0.0) + rate
            if counted:
                self.if_fails[failed, resource] = self.if_fails.get((failed, resource), 0.0) + rate

    def total(self, resource: Resource) -> float:
        """Return the load of a resource, with the load that no plan moves."""
        network = self._network
        rows = [network.index[name] for name in resource]
        fixed = network.nodes[rows[0]].load_bps if len(rows) == 1 else network.load_bps[tuple(rows)]
        return self.loads.get(resource, 0.0) + float(fixed)

    def capacity(self, resource: Resource) -> float:
        """Return the capacity of a resource."""
        network = self._network
        rows = [network.index[name] for name in resource]
        if len(rows) == 1:
            return network.nodes[rows[0]].capacity_bps
        return float(network.capacity_bps[tuple(rows)])

    def known(self, resource: Resource) -> bool:
        """Return whether all relays of a resource are in the network."""
        return all(name in self._network.index for name in resource)

    def is_over(self, resource: Resource) -> bool:
        """Return whether a resource carries more than headroom allows."""
        most = self.capacity(resource) * self._share * (1 + _TOLERANCE)
        return self.known(resource) and self.total(resource) > most

    def over(self) -> list[Resource]:
        """Return the resources that carry more than headroom allows."""
        return [
            resource for resource in self.loads if self.known(resource) and self.is_over(resource)
        ]

    def over_if_fails(self) -> list[tuple[str, Resource]]:
        """Return failing Vias with the resources that could not carry the fallbacks."""
        return [
            (failed, resource)
            for (failed, resource), rate in self.if_fails.items()
            if self.known(resource)
            and self.total(resource) + rate > self.capacity(resource) * (1 + _TOLERANCE)
        ]

    # What would fit beyond doubt

    def has_room(self, resources: Iterable[tuple[Resource, float]]) -> bool:
        """Return whether additional load fits, also beside the reserves of fallbacks."""
        return all(
            self.total(resource) + rate <= self.capacity(resource) * self._share * (1 - _TOLERANCE)
            and self.total(resource)
            + rate
            + max(self._at_most.get(resource, {}).values(), default=0.0)
            <= self.capacity(resource) * (1 - _TOLERANCE)
            for resource, rate in resources
        )

    def has_reserve(self, failed: str, resources: Iterable[tuple[Resource, float]]) -> bool:
        """Return whether additional load of a fallback fits if a Via fails."""
        return all(
            self.total(resource) + rate + self._at_most.get(resource, {}).get(failed, 0.0)
            <= self.capacity(resource) * (1 - _TOLERANCE)
            for resource, rate in resources
        )


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
        self.omitted: list[LeftOut] = []
        self.answers = _answers(plan)
        self.before: Mapping[object, PlanEntry] = {}
        self.full: set[Resource] = set()
        """Resources that would be overloaded without any change."""
        self.changes: set[tuple[_Decision, str]] | None = None
        """Changes that count; None without a budget."""
        self.loads = self._loads_of(self.answers)

    def run(self, previous: Plan | None) -> None:
        if self.plan.expires_us <= self.plan.made_us:
            self.report("time", "plan", "it expires before it is made")
        for track in self.tracks:
            self._check_track(track)
        self._capacity()
        if previous is not None:
            self.before = _answers(previous)
        if previous is not None and self.plan.constraints.change_budget is not None:
            self._changes(self.plan.constraints.change_budget)
        self._check_left_out()

    def report(self, constraint: str, where: str, text: str) -> None:
        violation = Violation(constraint, where, text)
        if violation not in self.found:
            self.found.append(violation)

    def name(self, row: int) -> str:
        return self.network.nodes[row].id

    def rule(self, scope: str) -> ClassRule:
        return self.plan.constraints.classes.get(scope, ClassRule())

    def regions(self, track: Track) -> dict[str, list[int]]:
        """Return the targets of a track by region."""
        found: dict[str, list[int]] = {}
        for target in sorted(track.viewers):
            if target != track.origin:
                found.setdefault(self.network.nodes[target].region, []).append(target)
        return found

    def faults(
        self, via: str, origin: int, targets: list[int], scope: str
    ) -> list[tuple[str, str]]:
        """Return the constraints that a Via breaks for some targets."""
        rule, strict = self.rule(scope), scope in self.undeclared
        return _via_faults(self.network, self.kinds, via, origin, targets, rule, strict)

    # Entries

    def _check_track(self, track: Track) -> None:
        """Check the entries of one track."""
        origin = self.name(track.origin)
        for region, targets in self.regions(track).items():
            entry = _answer(self.answers, origin, region, track)
            if entry is None:
                continue
            where = f"{origin} > {region} ({track.scope or 'no class'})"
            rule = self.rule(track.scope)
            for constraint, text in self.faults(str(entry.via), track.origin, targets, track.scope):
                self.report(constraint, where, text)
            if entry.scope != track.scope:
                self.report("node", where, f"the entry is for the class {entry.scope!r}")
            if entry.fallback is None or entry.fallback == entry.via:
                if rule.disjoint:
                    self.report("disjoint", where, "no second way")
                continue
            second = str(entry.fallback)
            for constraint, text in self.faults(second, track.origin, targets, track.scope):
                kind = "disjoint" if rule.disjoint else constraint
                self.report(kind, where, f"second way, {constraint}: {text}")

    # Loads

    def _loads_of(self, answers: Mapping[object, PlanEntry]) -> _Loads:
        """Return the load of relays and links: every copy, over a Via or direct."""
        loads = _Loads(self.network, self.plan.constraints.headroom_permille / 1000)
        for track in self.tracks:
            origin = self.name(track.origin)
            paths = {
                region: (_answer(answers, origin, region, track), targets)
                for region, targets in self.regions(track).items()
            }
            vias = {str(entry.via) for entry, _ in paths.values() if entry is not None}
            known = vias & self.network.index.keys()
            for via in sorted(known):
                loads.send(origin, via, track.rate_bps)
            legs: set[tuple[str, str]] = set()
            for entry, targets in paths.values():
                source = origin if entry is None else str(entry.via)
                if source not in self.network.index:
                    continue
                for target in targets:
                    loads.send(source, self.name(target), track.rate_bps)
                if entry is None or entry.fallback is None:
                    continue
                second = str(entry.fallback)
                if second in self.network.index:
                    leg, *rest = self._resources(second, track.origin, targets, track.rate_bps)
                    loads.take_over(source, rest, counted=True)
                    first = second not in known and (source, second) not in legs
                    loads.take_over(source, [leg], counted=first)
                    legs.add((source, second))
        return loads

    def _resources(
        self, via: str, origin: int, targets: Iterable[int], rate: float
    ) -> list[tuple[Resource, float]]:
        """Return the resources on a path over a Via, the first leg first, without the origin."""
        names = [self.name(target) for target in targets]
        return [
            ((self.name(origin), via), rate),
            ((via,), rate * len(names)),
            *(((via, name), rate) for name in names),
        ]

    def _capacity(self) -> None:
        """Check that the plan overloads nothing, and adds nothing to existing overload."""
        plain = self._loads_of({})
        for resource in self.loads.over():
            if self.loads.total(resource) > plain.total(resource) * (1 + _TOLERANCE):
                self.report("capacity", " > ".join(resource), self._used(resource, 0.0))
        for failed, resource in self.loads.over_if_fails():
            more = self.loads.if_fails[failed, resource]
            self.report(
                "capacity", " > ".join(resource), f"if {failed} fails, {self._used(resource, more)}"
            )

    def _used(self, resource: Resource, more: float) -> str:
        used, room = self.loads.total(resource) + more, self.loads.capacity(resource)
        return f"{used / 1e9:.3f} Gbit/s of {room / 1e9:.3f}"

    def _room(self, via: str, decision: _Decision, targets: list[int], rate: float) -> bool:
        """Return whether tracks fit on a Via, and on a fallback if they must have one."""
        rule = self.rule(decision.scope)
        if not self.loads.has_room(self._resources(via, decision.origin, targets, rate)):
            return False
        return not rule.disjoint or any(
            self.loads.has_reserve(via, self._resources(other, decision.origin, targets, rate))
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

    def _check_left_out(self) -> None:
        """Check the cells without an entry for which hub and spoke is not allowed."""
        for decision, tracks in self._decisions().items():
            origin = self.name(decision.origin)
            own = self.network.nodes[decision.origin].region
            for region, targets in self.regions(tracks[0]).items():
                if region in ("", own):
                    continue
                unplanned = [t for t in tracks if _answer(self.answers, origin, region, t) is None]
                constraint = self._direct_forbidden_by(decision, targets)
                if not unplanned or not constraint:
                    continue
                reason = self._reason_to_omit(decision, region, targets, unplanned)
                self.omitted += [
                    LeftOut(track.key, region, len(targets), constraint, reason)
                    for track in unplanned
                ]
                if not reason:
                    where = f"{origin} > {region} ({decision.scope or 'no class'})"
                    text = f"{len(targets)} copies, and a Via is allowed and has room"
                    self.report(constraint, where, text)

    def _direct_forbidden_by(self, decision: _Decision, targets: list[int]) -> str:
        """Return the constraint that forbids hub and spoke; empty if it is allowed."""
        if len(targets) > self.plan.constraints.max_fanout:
            return "fan-out"
        rule, strict = self.rule(decision.scope), decision.scope in self.undeclared
        if any(_denied_countries(self.network, decision.origin, t, rule, strict) for t in targets):
            return "country"
        origin = self.name(decision.origin)
        resources: list[Resource] = [
            (origin,),
            *((origin, self.name(target)) for target in targets),
        ]
        return "capacity" if any(self.loads.is_over(resource) for resource in resources) else ""

    def _reason_to_omit(
        self, decision: _Decision, region: str, targets: list[int], unplanned: list[Track]
    ) -> str:
        """Return why the plan may have no entry; empty if it may not."""
        rule = self.rule(decision.scope)
        allowed = self._allowed(decision.origin, targets, decision.scope)
        if len(allowed) < (2 if rule.disjoint else 1):
            return "no Via is allowed" if not allowed else "no second Via is allowed"
        rate = sum(track.rate_bps for track in unplanned)
        with_room = [via for via in allowed if self._room(via, decision, targets, rate)]
        if not with_room:
            return "no allowed Via has room"
        if any(part.has(region, decision.scope) for part in self.hold):
            return "it is held as it was"
        old = _answer(self.before, self.name(decision.origin), region, unplanned[0])
        if self.changes is None or (old is not None and str(old.via) in with_room):
            return ""
        budget = self.plan.constraints.change_budget or 0
        counted = (decision, region) in self.changes
        if (
            counted
            or len(self.changes) < budget
            or self._must_change(old, decision, targets, unplanned)
        ):
            return ""
        return "the budget of changes is used up"

    # Changes

    def _changes(self, budget: int) -> None:
        self.full = set(self._loads_of(self.before).over())
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
                    if not self._must_change(old, decision, targets, moved):
                        self.changes.add((decision, region))
        if len(self.changes) > budget:
            self.report("budget", "plan", f"{len(self.changes)} changes, and {budget} are allowed")

    def _must_change(
        self, old: PlanEntry | None, decision: _Decision, targets: list[int], tracks: list[Track]
    ) -> bool:
        """Return whether the entry of the plan in force cannot stay."""
        origin = self.name(decision.origin)
        if old is None:
            direct: list[Resource] = [
                (origin,),
                *((origin, self.name(target)) for target in targets),
            ]
            return any(resource in self.full for resource in direct)
        via, rule = str(old.via), self.rule(decision.scope)
        if self.faults(via, decision.origin, targets, decision.scope):
            return True
        if any(
            resource in self.full
            for resource, _ in self._resources(via, decision.origin, targets, 0.0)
        ):
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


def _via_faults(
    network: Network,
    kinds: Sequence[str],
    via: str,
    origin: int,
    targets: Sequence[int],
    rule: ClassRule,
    strict: bool = False,
) -> list[tuple[str, str]]:
    """Return the constraints that a path over a Via breaks, with explanations.

    With ``strict`` a link without declared countries breaks the country constraint.
    """
    if via not in network.index:
        return [("node", f"{via} is not there")]
    row = network.index[via]
    node = network.nodes[row]
    found = []
    if not node.usable or node.kind not in kinds or row == origin or row in targets:
        found.append(("node", f"{via} cannot be a Via here"))
    if rule.via_regions is not None and node.region not in rule.via_regions:
        found.append(("region", f"{via} stands in {node.region or 'no region'}"))
    if not _may_pass(frozenset({node.country}), rule):
        found.append(("country", f"{via} stands in {node.country or 'no country'}"))
    for target in targets:
        way = f"{network.nodes[target].id} over {via}"
        for a, b in ((origin, row), (row, target)):
            if names := _denied_countries(network, a, b, rule, strict):
                link = f"{network.nodes[a].id} to {network.nodes[b].id}"
                found.append(("country", f"{link} passes {names}"))
        direct = float(network.rtt_ms[origin, target])
        over = float(network.rtt_ms[origin, row] + network.rtt_ms[row, target]) + _RELAY_MS
        most = direct * (rule.slack_permille / 1000) + rule.extra_us / 1000
        if not over <= most + _TOLERANCE or over == float("inf"):
            found.append(("latency", f"{over:.1f} ms to {way}, at most {most:.1f}"))
        if rule.limit_loss_ppm is not None:
            first, second = float(network.loss[origin, row]), float(network.loss[row, target])
            lost = first + second - first * second
            bound = max(rule.limit_loss_ppm / 1e6, float(network.loss[origin, target]))
            if lost > bound + _TOLERANCE:
                found.append(("loss", f"{lost:.2%} to {way}, at most {bound:.2%}"))
    return found


def _denied_countries(
    network: Network, a: int, b: int, rule: ClassRule, strict: bool = False
) -> str:
    """Return the countries on the path of a link if one is denied; empty otherwise."""
    if strict and (a, b) not in network.countries and (b, a) not in network.countries:
        return "what nobody declared"
    ends = {network.nodes[a].country, network.nodes[b].country}
    passed = network.path_countries(a, b) - ends
    return "" if not passed or _may_pass(passed, rule) else ", ".join(sorted(passed))


def _may_pass(countries: frozenset[str], rule: ClassRule) -> bool:
    if any(country in rule.deny_countries for country in countries):
        return False
    allowed = rule.allow_countries
    return allowed is None or all(country in allowed for country in countries)
