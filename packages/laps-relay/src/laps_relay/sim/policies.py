"""Which policies a run sees, and the same policy in the words of the real engine.

A policy denies transit through relays or through a region, to everything or to one class, or leaves
the subscribers of a region out of a class. It may be loaded at any time, also between faults.

In every second seed with a policy relays ask ``RulePolicy`` (:mod:`laps_relay.core.policy`), built
from rules as an operator's file is, while invariants ask :class:`~laps_relay.sim.rules.SimPolicy`:
two readings of one text that share no code.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from laps_relay.core.network.interfaces import ClassLimits
from laps_relay.core.policy.patterns import NodePattern
from laps_relay.core.policy.rule_policy import RulePolicy
from laps_relay.core.policy.rules import Fence, Rules, ServiceClass, TrackRule
from laps_relay.sim.deed import Deed
from laps_relay.sim.rules import SimPolicy
from laps_relay.sim.topology import RelaySpec
from laps_relay.sim.tracks import HASHER
from laps_wire.names import Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

if TYPE_CHECKING:
    from laps_relay.sim.scenario import Scenario

__all__ = ["rule_policy", "with_policies"]

SHARE: Final = 0.3
"""Of the seeds, in which a policy is loaded where nobody has planned one."""
_PARTS: Final = ("north", "south", "west")


def with_policies(made: Scenario, draw: random.Random, start: float, end: float) -> Scenario:
    """Let the planned policies differ, and plan one more in some seeds."""
    planned = [deed for deed in made.deeds if deed.verb == "policy"]
    deeds = [deed for deed in made.deeds if deed.verb != "policy"]
    extra = draw.random() < SHARE
    when = draw.uniform(start, max(start + 1.0, end))
    if not extra and not planned:
        return made
    made = _with_regions(made, draw)
    if extra:
        planned.append(Deed(when, "policy"))
    deeds += [_vary(made, draw, deed) for deed in planned]
    return replace(
        made,
        deeds=tuple(sorted(deeds, key=lambda deed: deed.when)),
        healed=max(made.healed, *(deed.when + 1.0 for deed in planned)),
        rule_engine=made.seed % 2 == 1,
        policies=True,
    )


def _with_regions(made: Scenario, draw: random.Random) -> Scenario:
    """Give relays that are nowhere a region."""
    if any(relay.region for relay in made.topology.relays):
        return made

    def placed(relay: RelaySpec) -> RelaySpec:
        return replace(relay, region=draw.choice(_PARTS))

    relays = tuple(map(placed, made.topology.relays))
    spares = tuple(map(placed, made.spares))
    return replace(made, topology=replace(made.topology, relays=relays), spares=spares)


def _vary(made: Scenario, draw: random.Random, deed: Deed) -> Deed:
    relays = made.topology.relays
    vias = [relay.name for relay in relays if relay.relay_type is RelayType.VIA]
    regions = sorted({relay.region for relay in relays if relay.region})
    scope = deed.text or draw.choice(("", "t0", "t1", "t2"))
    form = draw.choice(("via", "vias", "region", "exclude", "exclude"))
    if form == "region" and len(regions) > 1:
        return deed._replace(who=(draw.choice(regions),), text=f"region {scope}")
    if form == "exclude" and regions:
        return deed._replace(who=(draw.choice(regions),), text=f"exclude {scope or 't1'}")
    who = draw.sample(vias, min(len(vias), 2 if form == "vias" else 1))
    return deed._replace(who=tuple(who), text=f"relay {scope}")


def rule_policy(policy: SimPolicy, local: NodeId) -> RulePolicy:
    """The same in rules, for one relay."""

    def fence(scope: str) -> Fence:
        return Fence(
            deny_nodes=tuple(
                NodePattern.parse(str(node)) for node in sorted(policy.denied.get(scope, ()))
            ),
            deny_regions=policy.regions.get(scope, frozenset()),
        )

    scopes = sorted({*policy.denied, *policy.regions, *policy.excluded} - {""})
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
        ),
        HASHER,
        local=local,
    )
