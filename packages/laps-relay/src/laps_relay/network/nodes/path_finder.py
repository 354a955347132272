"""The usable paths to a target: they forward, policy allows them, and they do not lead back.

A *path* is a candidate of the node information base. Policy sees it as the relays that data passes,
from us to the target::

    we  -- link -->  next hop  -- link -->  ...  -- link -->  target
    |                '------ transit relays ------'           |
    first                                                     last
"""

from __future__ import annotations

from typing import NamedTuple

from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.selection import Candidate
from laps_relay.policy.facts import stranger
from laps_relay.policy.interface import Policy
from laps_relay.policy.open_policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeSelf

__all__ = ["LinkState", "PathFinder"]


class LinkState(NamedTuple):
    """What is measured on our own sessions with a peer."""

    loss: float = 0.0
    """Share of packets lost, 0 to 1."""
    srtt_us: int = 0
    congested: bool = False
    """Whether more waits for this peer than its sessions can carry."""


class PathFinder:
    """The paths of the node information base that policy allows."""

    __slots__ = ("_is_open", "_local", "_nib", "_policy")

    def __init__(self, local: NodeId, nib: Nib, policy: Policy) -> None:
        self._local = local
        self._nib = nib
        self.policy = policy

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        # Most relays have no policy, and this is asked for every target of every set.
        self._is_open = type(policy) is OpenPolicy  # one that narrows may be made from it

    def self_of(self, node: NodeId) -> NodeSelf:
        """Return what is known of a node."""
        info = self._nib.info(node)
        return stranger(node) if info is None else info.node

    def relays(self, path: Candidate) -> list[NodeSelf]:
        """Return the relays on a path, this relay first."""
        # The last item of a path is the next hop (laps-2, 5.1).
        passed = [self.self_of(item.node_id) for item in reversed(path.info.path)]
        return [self.self_of(self._local), *passed, path.info.node]

    def refusal(self, scope: str, path: Candidate) -> Refusal | None:
        """Return why policy forbids a path for this class; None if it is allowed."""
        if self._is_open:
            return None
        return self._policy.path(scope, self.relays(path))

    def refusal_of(self, scope: str, *relays: NodeId) -> Refusal | None:
        """Return the same for a possible path: from this relay through these relays."""
        if self._is_open:
            return None
        return self._policy.path(
            scope, [self.self_of(self._local), *(self.self_of(relay) for relay in relays)]
        )

    def best(
        self, target: NodeId, scope: str, arrived_on: NodeId | None = None
    ) -> Candidate | None:
        """Return the best usable path that does not lead back to ``arrived_on``, or None."""
        if self._is_open and arrived_on is None:
            return self._nib.best(target)
        return self._nib.best(
            target,
            lambda path: not _passes(path, arrived_on) and self.refusal(scope, path) is None,
        )

    def through(
        self, target: NodeId, scope: str, peer: NodeId, arrived_on: NodeId | None = None
    ) -> Candidate | None:
        """Return the path that a peer advertises, if it may be used."""
        path = self._nib.advertised_by(target, peer)
        if path is None or not path.forwards or _passes(path, arrived_on):
            return None
        return path if self.refusal(scope, path) is None else None

    def allowed(self, target: NodeId, scope: str) -> list[Candidate]:
        """Return all usable paths, the best first."""
        return [
            path
            for path in self._nib.candidates(target)
            if path.forwards and self.refusal(scope, path) is None
        ]

    def why_none(self, target: NodeId, scope: str, arrived_on: NodeId | None = None) -> Refusal:
        """Return why :meth:`best` finds nothing: the reason of the nearest path."""
        paths = [path for path in self._nib.candidates(target) if path.forwards]
        for path in paths:
            if not _passes(path, arrived_on):
                refusal = self.refusal(scope, path)
                if refusal is not None:
                    return refusal
        if paths:
            return Refusal("", f"the only way to {target} leads back to {arrived_on}")
        return Refusal("", f"no way to {target}")


def _passes(path: Candidate, node: NodeId | None) -> bool:
    """Return whether data on a path would pass a node, and so come back to it."""
    if node is None:
        return False
    return path.node == node or any(item.node_id == node for item in path.info.path)
