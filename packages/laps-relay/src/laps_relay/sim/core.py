"""The cores that the simulator runs, and what its checks read from them.

:data:`RelayCore` is the core of a simulated process. :class:`Tables` is what invariants are checked
on; :mod:`laps_relay.sim.world.build` reads it from each kind of core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol, TypeAlias

from laps_relay.network.relay import NetworkRelay
from laps_relay.policy.interface import Policy
from laps_sdk.stub.relay import StubRelay
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["FibRow", "RelayCore", "SetOut", "SimStub", "Tables"]


class SimStub(StubRelay):
    """A Stub with a policy, which a server keeps beside it."""

    __slots__ = ("policy",)

    policy: Policy

    def set_policy(self, now: float, policy: Policy) -> None:
        """Another policy is in force from now on."""
        self.policy = policy
        self.set_peer_filter(now, policy.peer)

    def against(self, name: FullTrackName) -> str | None:
        """What policy has against a track for the Stub's clients."""
        refusal = self.policy.local_subscribe(name, self.info.node)
        return None if refusal is None else refusal.reason


RelayCore: TypeAlias = NetworkRelay | SimStub
"""What a process of the simulation runs: the core of a relay in the network, or of a Stub."""


class SetOut(NamedTuple):
    """One egress set of a flow."""

    peer: NodeId
    connection: int
    sns_id: int
    targets: frozenset[NodeId]


class FibRow(NamedTuple):
    """One FIB entry, with the sets behind it."""

    peer: NodeId | None
    """The peer that sends; None for a feed of the relay's own clients."""
    connection: int
    """Of the sender; 0 for a feed."""
    set_id: int
    key: int | None
    """The track of a feed."""
    targets: frozenset[NodeId]
    """Of the ingress set, or those that the o-relay serves."""
    egress: tuple[SetOut, ...]
    local: bool


class Tables(Protocol):
    """The inside of a relay."""

    def nodes(self) -> Sequence[NodeId]:
        """All nodes that it knows, itself left out."""

    def next_hop(self, node: NodeId) -> NodeId | None:
        """Where data for a node goes."""

    def metric(self, node: NodeId) -> tuple[int, int] | None:
        """Hops and cost of the best path."""

    def paths(self, node: NodeId) -> Sequence[tuple[NodeId, Sequence[NodeId]]]:
        """Return the paths to a node, the best first: (peer, relays on the path and the node)."""

    def adj_out(self) -> Sequence[tuple[NodeId, NodeId, Sequence[NodeId]]]:
        """Return what was advertised: (peer, node, relays on the path)."""

    def mentioned(self) -> AbstractSet[NodeId]:
        """Return all advertised nodes, and the relays on the paths to them."""

    def peers(self) -> Sequence[NodeId]:
        """Nodes with a control session."""

    def sessions(self, node: NodeId) -> Sequence[int]:
        """Established sessions with a node."""

    def types(self) -> Sequence[tuple[NodeId, RelayType]]:
        """All nodes that it knows, itself left out, and what they are."""

    def controlled(self) -> bool:
        """Whether every peer with a session has one for control."""

    def fib(self) -> Sequence[FibRow]:
        """The FIB."""

    def targets(self, connection: int, sns_id: int) -> frozenset[NodeId] | None:
        """Return the targets of a set on a connection; None if the set is no longer known."""

    def sizes(self) -> Mapping[str, int]:
        """Entries of all tables that must be empty without publishers and subscribers."""

    def subscribe_sources(self) -> Sequence[tuple[NodeId, int]]:
        """(source, key) of all usable subscribes."""

    def announce_sources(self) -> Sequence[tuple[NodeId, int]]:
        """(source, key) of all usable announces."""
