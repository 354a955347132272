"""A node information base that holds what a test puts into it, and nodes made of few words."""

from __future__ import annotations

from collections.abc import Sequence

from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.node_table import Candidate, PathRule
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Label,
    Load,
    LoadClass,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    Reachable,
    RelayType,
    Stamp,
)

__all__ = ["Directory", "describe"]


def describe(
    node: int | str,
    relay_type: RelayType = RelayType.EDGE,
    *,
    region: str = "",
    labels: dict[str, str] | None = None,
    contacts: tuple[str, ...] = (),
    load: LoadClass = LoadClass.NORMAL,
    reachable: dict[int, int] | None = None,
) -> NodeSelf:
    """What a node says of itself."""
    return NodeSelf(
        node_id=NodeId.parse(node) if isinstance(node, str) else NodeId(node),
        relay_type=relay_type,
        stamp=Stamp(1, 1),
        region=region,
        contacts=contacts,
        load=Load(load),
        reachable=tuple(Reachable(NodeId(to), rtt) for to, rtt in (reachable or {}).items()),
        labels=tuple(Label(key, value) for key, value in (labels or {}).items()),
    )


class Directory(Nib):
    """What steering sees of the network; no part of the real base is in use."""

    def __init__(self, *nodes: NodeSelf) -> None:
        self.selves: dict[NodeId, NodeSelf] = {}
        self._paths: dict[NodeId, dict[NodeId, Candidate]] = {}
        self.put(*nodes)

    def put(self, *nodes: NodeSelf) -> None:
        """Let nodes be known, or say something else of themselves."""
        for node in nodes:
            self.selves[node.node_id] = node

    def path(
        self,
        target: int,
        *relays: int,
        rtt: int = 10_000,
        link: int = 10_000,
        forwards: bool = True,
        load: int = 0,
    ) -> None:
        """A way through these relays, the next hop first; ``rtt`` is between each two of them."""
        path = tuple(NodePathItem(NodeId(relay), rtt) for relay in reversed(relays))
        peer = NodeId(relays[0] if relays else target)
        info = NodeInfo(self.self_of(target), path=path)
        self._paths.setdefault(NodeId(target), {})[peer] = Candidate(
            NodeId(target), peer, info, link, forwards, load
        )

    def cut(self, target: int, peer: int) -> None:
        """That way is gone."""
        self._paths.get(NodeId(target), {}).pop(NodeId(peer), None)

    def self_of(self, node: int) -> NodeSelf:
        return self.selves.get(NodeId(node)) or describe(node)

    # As the base answers

    def info(self, node: NodeId) -> NodeInfo | None:
        found = self.selves.get(node)
        return None if found is None else NodeInfo(found)

    def advertised_by(self, node: NodeId, peer: NodeId) -> Candidate | None:
        return next((path for path in self.candidates(node) if path.peer == peer), None)

    def candidates(self, node: NodeId) -> Sequence[Candidate]:
        paths = [
            path._replace(info=NodeInfo(self.self_of(node), path=path.info.path))
            for path in self._paths.get(node, {}).values()
        ]
        return sorted(paths, key=self._order)

    def _order(self, path: Candidate) -> tuple[bool, int, int, int]:
        load = self.self_of(path.peer).load.load_class
        return load >= LoadClass.OVERLOADED, path.hops, path.cost_us, path.peer

    def best(self, node: NodeId, rule: PathRule | None = None) -> Candidate | None:
        for path in self.candidates(node):
            if path.forwards and (rule is None or rule(path)):
                return path
        return None

    def nodes(self) -> list[NodeId]:
        return sorted(self.selves)
