"""Which policies a run sees, and the same policy in the words of the real engine.

A policy denies transit through relays or through a region, to everything or to one class, or leaves
the subscribers of a region out of a class; it denies countries that links pass to a class, and has
filters of announces and subscribes. It may be loaded at any time, also between faults.

In every second seed with a policy relays ask ``RulePolicy`` (:mod:`laps_relay.policy`), built
from rules as an operator's file is, while invariants ask
:class:`~laps_relay.sim.scenarios.rules.SimPolicy`: two readings of one text that share no code.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from laps_relay.policy.interface import ClassLimits
from laps_relay.policy.patterns import NodePattern
from laps_relay.policy.rule_policy import RulePolicy
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link, Rules, ServiceClass, TrackRule
from laps_relay.sim.clients.tracks import HASHER
from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.rules import Border, SimPolicy
from laps_relay.sim.scenarios.topology import RelaySpec
from laps_wire.names import Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["rule_policy", "with_borders", "with_policies"]

SHARE: Final = 0.3
"""Share of the seeds in which a policy is loaded besides planned ones."""
COUNTRIES: Final = 0.2
"""Of the seeds, in which a link passes a country that a class must not."""
FILTERS: Final = 0.5
"""Share of the seeds with planned changes in which a filter comes at the end.

A filtered entry reaches fewer relays, so a relay that leaves may take it from others.
"""
_PARTS: Final = ("north", "south", "west")


def with_borders(made: Scenario, rng: Rng, kind: str) -> Scenario:
    """In some seeds links pass a country that a class must not, or a filter comes at the end."""
    draw = rng.of("countries")
    when = draw.uniform(6.0, max(7.0, made.healed))
    if draw.random() < COUNTRIES:
        link, scope = draw.choice(made.topology.links), draw.choice(("t0", "t1", "t2"))
        kinds = {made.topology.relay(name).relay_type for name in (link.a, link.b)}
        if RelayType.CONTROL not in kinds:
            made = _with_regions(made, draw)
            made = _and_policy(
                made, Action(when, "policy", (link.a, link.b), text=f"country {scope}")
            )
    draw = rng.of("filters")
    if any(relay.relay_type is RelayType.CONTROL for relay in made.topology.relays):
        return made  # control servers decide which relays get an entry
    if kind != "faults" and draw.random() < FILTERS:
        made = _with_regions(made, draw)
        region = draw.choice(sorted({relay.region for relay in made.topology.relays}))
        side, what = draw.choice(("import", "export")), draw.choice(("announce", "subscribe"))
        whose, scope = draw.choice(("peer", "source")), draw.choice(("t0", "t1", "t2"))
        if (side, what) == ("import", "subscribe"):
            # If only some peers refuse a subscribe, its source gets both answers in turn.
            whose = "source"
        text = f"filter {scope} {side} {what} {whose}"
        made = _and_policy(made, Action(made.healed + 3.0, "policy", (region,), text=text))
    return made


def _and_policy(made: Scenario, action: Action) -> Scenario:
    return replace(
        made,
        actions=tuple(sorted((*made.actions, action), key=lambda each: each.when)),
        healed=max(made.healed, action.when + 1.0),
        rule_engine=made.seed % 2 == 1,
        policies=True,
    )


def with_policies(made: Scenario, draw: random.Random, start: float, end: float) -> Scenario:
    """Let the planned policies differ, and plan one more in some seeds."""
    planned = [action for action in made.actions if action.verb == "policy"]
    actions = [action for action in made.actions if action.verb != "policy"]
    extra = draw.random() < SHARE
    when = draw.uniform(start, max(start + 1.0, end))
    if not extra and not planned:
        return made
    made = _with_regions(made, draw)
    if extra:
        planned.append(Action(when, "policy"))
    actions += [_vary(made, draw, action) for action in planned]
    return replace(
        made,
        actions=tuple(sorted(actions, key=lambda action: action.when)),
        healed=max(made.healed, *(action.when + 1.0 for action in planned)),
        rule_engine=made.seed % 2 == 1,
        policies=True,
    )


def _with_regions(made: Scenario, draw: random.Random) -> Scenario:
    """Put relays without a region into one."""
    if any(relay.region for relay in made.topology.relays):
        return made

    def placed(relay: RelaySpec) -> RelaySpec:
        return replace(relay, region=draw.choice(_PARTS))

    relays = tuple(map(placed, made.topology.relays))
    spares = tuple(map(placed, made.spares))
    return replace(made, topology=replace(made.topology, relays=relays), spares=spares)


def _vary(made: Scenario, draw: random.Random, action: Action) -> Action:
    relays = made.topology.relays
    vias = [relay.name for relay in relays if relay.relay_type is RelayType.VIA]
    regions = sorted({relay.region for relay in relays if relay.region})
    scope = action.text or draw.choice(("", "t0", "t1", "t2"))
    form = draw.choice(("via", "vias", "region", "exclude", "exclude"))
    if form == "region" and len(regions) > 1:
        return action._replace(who=(draw.choice(regions),), text=f"region {scope}")
    if form == "exclude" and regions:
        return action._replace(who=(draw.choice(regions),), text=f"exclude {scope or 't1'}")
    who = draw.sample(vias, min(len(vias), 2 if form == "vias" else 1))
    return action._replace(who=tuple(who), text=f"relay {scope}")


def _country(scope: str) -> str:
    """Each class has a country that it must not pass: X0 for t0."""
    return f"X{scope[1:]}"


def _filter_rule(border: Border) -> FilterRule:
    """As an operator writes it. Of its source an announce carries the id, and no region."""
    is_peer, is_announce = border.whose == "peer", border.what == "announce"
    region = frozenset({border.region})
    nodes = tuple(NodePattern.parse(str(node)) for node in sorted(border.nodes))
    return FilterRule(
        name=f"{border.scope} {border.region}",
        accept=False,
        peer_regions=region if is_peer else frozenset(),
        sources=nodes if is_announce and not is_peer else (),
        source_regions=frozenset() if is_announce or is_peer else region,
        namespace=Namespace.of(border.scope.encode()),
    )


def rule_policy(policy: SimPolicy, local: NodeId) -> RulePolicy:
    """The same in rules, for one relay."""

    def fence(scope: str) -> Fence:
        return Fence(
            deny_nodes=tuple(
                NodePattern.parse(str(node)) for node in sorted(policy.denied.get(scope, ()))
            ),
            deny_regions=policy.regions.get(scope, frozenset()),
            deny_countries=frozenset({_country(scope)} if scope in policy.links else ()),
        )

    def passing(side: str, what: str) -> Filter:
        return Filter(
            rules=tuple(
                _filter_rule(border)
                for border in policy.borders
                if (border.side, border.what) == (side, what)
            )
        )

    declared = [
        Link(
            name=f"{scope} {number}",
            between=(NodePattern.parse(str(one)), NodePattern.parse(str(other))),
            countries=("DE", _country(scope)),
        )
        for scope, links in sorted(policy.links.items())
        for number, (one, other) in enumerate(sorted(map(sorted, links)))
    ]
    scopes = sorted({*policy.denied, *policy.regions, *policy.excluded, *policy.links} - {""})
    limits = ClassLimits(max_loss=policy.max_loss)
    plain = {} if policy.max_loss is None else {"": ServiceClass(name="", limits=limits)}
    return RulePolicy(
        Rules(
            transit=fence(""),
            classes={
                **plain,
                **{
                    scope: ServiceClass(name=scope, limits=limits, transit=fence(scope))
                    for scope in scopes
                },
            },
            tracks=tuple(
                TrackRule(
                    name=scope,
                    namespace=Namespace.of(scope.encode()),
                    service_class=scope,
                    subscribers=Fence(deny_regions=policy.excluded.get(scope, frozenset())),
                )
                for scope in scopes
            ),
            links=tuple(declared),
            import_announce=passing("import", "announce"),
            import_subscribe=passing("import", "subscribe"),
            export_announce=passing("export", "announce"),
            export_subscribe=passing("export", "subscribe"),
        ),
        HASHER,
        local=local,
    )
