"""The policy of a network in which a plan is played: the constraints of the plan itself.

Relays refuse a plan that breaks its own constraints, as relays with the same policy would. Only
relays between the ends of a path are judged, because clients are at the ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from laps_relay.policy.interface import ClassLimits, NodeInfoLookup
from laps_relay.sim.scenarios.rules import SimPolicy
from laps_relay.sim.scenarios.topology import Topology
from laps_sdk.peering.events import Refusal
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodeSelf, RelayType
from laps_wire.plan import ClassRule, HardConstraints

__all__ = ["PlanPolicy", "class_field", "may_pass"]

_CLASS: Final = b"class "


def class_field(scope: str) -> bytes:
    """The first field of the names of a class's tracks."""
    return _CLASS + scope.encode()


def may_pass(countries: frozenset[str], rule: ClassRule) -> bool:
    """Whether data in transit may pass all of these countries."""
    if countries & set(rule.deny_countries):
        return False
    return rule.allow_countries is None or countries <= set(rule.allow_countries)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPolicy(SimPolicy):
    """Denied transit by class; the class "" is one as any other."""

    max_fanout: int = 2

    @classmethod
    def of(cls, constraints: HardConstraints, topology: Topology) -> PlanPolicy:
        """Return the policy for relays whose places are known."""
        closed = {}
        for scope, rule in constraints.classes.items():
            closed[scope] = frozenset(
                relay.node_id
                for relay in topology.relays
                if not may_pass(frozenset((relay.country,)), rule)
                or (
                    relay.relay_type is RelayType.VIA
                    and rule.via_regions is not None
                    and relay.region not in rule.via_regions
                )
            )
        return cls(no_transit=closed, max_fanout=constraints.max_fanout)

    def transit(self, scope: str, node: NodeId) -> bool:
        """Whether data of a class may pass through a relay."""
        return node not in self.no_transit.get(scope, ())

    def import_node(
        self,
        info: NodeInfo,  # noqa: ARG002
        peer: NodeSelf,  # noqa: ARG002
        lookup: NodeInfoLookup,  # noqa: ARG002
    ) -> Refusal | None:
        """Nothing is forbidden to all classes."""
        return None

    def scope(self, name: FullTrackName) -> str:
        """The first field of the namespace."""
        return name.namespace.fields[0].removeprefix(_CLASS).decode()

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """All relays between the ends are transit."""
        for node in nodes[1:-1]:
            if not self.transit(scope, node.node_id):
                return Refusal("no_transit", f"{node.node_id} is no transit for {scope!r}")
        return None

    def limits(self, scope: str) -> ClassLimits:  # noqa: ARG002
        """The plan's maximum of copies."""
        return ClassLimits(max_fanout=self.max_fanout)
