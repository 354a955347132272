"""What is known of one ingress: who should get its data, who gets it how, and who does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import SnsRefusal

__all__ = [
    "Block",
    "EgressRow",
    "IngressRecord",
    "OutSet",
    "SetRow",
    "SetsCounters",
    "Taken",
    "Unserved",
]


class EgressRow(NamedTuple):
    """One of our sets."""

    egress: EgressSet
    targets: tuple[NodeId, ...]
    """Lowest first."""
    retired: bool
    """Whether only streams that are under way still use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow:
    """Where the data of one ingress goes."""

    ingress: Ingress
    key: int | None
    """Of a feed; None for a set of a peer."""
    hops: int
    """In the sets that we make of it."""
    scope: str
    local: bool
    """Whether our own clients get it."""
    targets: tuple[NodeId, ...]
    """All that it is for, lowest first."""
    egress: tuple[EgressRow, ...]
    unserved: tuple[tuple[NodeId, str], ...]
    """Targets that get nothing now, and why."""


@dataclass(slots=True)
class SetsCounters:
    """Since the start."""

    made: int = 0
    """Sets of ours that were advertised."""
    moved: int = 0
    """Sets that were retired because targets moved."""
    ended: int = 0
    """Sets of ours that were withdrawn, or ended with their session."""
    refused: int = 0
    """Targets of peers' sets that we refused."""
    refused_by_peers: int = 0
    """Targets of our sets that a peer refused."""
    unknown_by_peers: int = 0
    """Sets of ours that came too late for data that was before them."""


class OutSet:
    """One of our sets."""

    __slots__ = ("egress", "owner", "relays", "retired", "scope", "targets")

    def __init__(self, egress: EgressSet, targets: frozenset[NodeId], owner: IngressRecord) -> None:
        self.egress = egress
        self.targets = targets
        self.owner: IngressRecord | None = owner
        """The ingress whose data it carries; None if that has ended."""
        self.retired = False
        self.relays: dict[NodeId, tuple[NodeId, ...]] = {}
        """If it is retired: the ways that its targets had."""
        self.scope = owner.scope
        """If its ingress has ended: the class that its data had at last."""

    def orphan(self, scope: str) -> None:
        """Its ingress has ended; what is under way goes on, and policy holds for it as before."""
        self.owner = None
        self.scope = scope


class Block(NamedTuple):
    """A peer does not serve a target."""

    code: int
    tries: int
    """How often it has said so."""
    until: float
    """When it is tried again, if nothing changes before."""
    active: bool
    """False: it is being tried again."""
    length: int | None = None
    """How many relays its way to the target had then."""


class Unserved(NamedTuple):
    """A target that gets nothing now."""

    code: SnsRefusal
    """What the sender is told, if there is one."""
    reason: str
    due: float
    """When it is told: at once what will not heal; what may, a little later."""


class Taken(NamedTuple):
    """The way of a target of a peer's set."""

    peer: NodeId
    length: int
    """How many relays it had when it was taken; those behind the peer may have made it longer."""


class IngressRecord:
    """One ingress: a feed of our own clients, or a set of a peer."""

    __slots__ = (
        "arrived_on",
        "blocks",
        "current",
        "displaced",
        "home",
        "hops",
        "ingress",
        "installed",
        "key",
        "last",
        "refused_targets",
        "relays",
        "retired",
        "scope",
        "stretched",
        "taken",
        "targets",
        "unserved",
        "waits",
    )

    def __init__(
        self, ingress: Ingress, key: int | None, hops: int, scope: str, arrived_on: NodeId | None
    ) -> None:
        self.ingress = ingress
        self.key = key
        self.hops = hops
        self.scope = scope
        self.arrived_on = arrived_on
        self.stretched = False
        """Whether a set has got targets in place since its streams went on anew."""
        self.targets: frozenset[NodeId] = frozenset()
        """All targets, ourselves too."""
        self.home: dict[NodeId, int] = {}
        """Target to the session whose current set has it."""
        self.current: dict[int, OutSet] = {}
        """By session: the sets with which streams begin."""
        self.retired: dict[EgressSet, OutSet] = {}
        self.last: dict[NodeId, int] = {}
        """Target to the session that had it last, also of targets that have gone."""
        self.relays: dict[NodeId, tuple[NodeId, ...]] = {}
        """Target to the relays on its way, as its peer last told them."""
        self.taken: dict[NodeId, Taken] = {}
        """Target of a peer's set to the way that it got here."""
        self.waits: dict[NodeId, float] = {}
        """Those for which a longer way is better now, and when they get it."""
        self.displaced: set[NodeId] = set()
        """Targets that had a place, and have none now."""
        self.unserved: dict[NodeId, Unserved] = {}
        self.refused_targets: set[NodeId] = set()
        """Unserved targets of which the sender knows: it finds another way, so we do not.

        Some still have a place. Streams that began before may come late, and the sender takes a
        target out of a set, or withdraws it, when none is under way any more."""
        self.blocks: dict[NodeId, dict[NodeId, Block]] = {}
        """Target to peers that do not serve it."""
        self.installed: tuple[tuple[EgressSet, ...], bool] | None = None
        """What the plane has."""

    @property
    def is_feed(self) -> bool:
        """Whether the data enters the network here."""
        return self.ingress.session == LOCAL

    @property
    def spread(self) -> int:
        """By what its flows are spread over parallel sessions."""
        return self.ingress.set_id if self.key is None else self.key

    def has_moved(self, target: NodeId, session: int) -> bool:
        """Whether a target that comes to a session may count on streams that go elsewhere."""
        return target in self.displaced or self.last.get(target, session) != session

    def took(self, target: NodeId, peer: NodeId, length: int | None) -> None:
        """A target goes to a peer, or stays there."""
        taken = self.taken.get(target)
        if taken is None or taken.peer != peer:
            self.taken[target] = Taken(peer, length or 0)

    def avoided(self, target: NodeId) -> frozenset[NodeId]:
        """Peers that are not used for a target now."""
        blocks = self.blocks.get(target)
        if not blocks:
            return frozenset()
        return frozenset(peer for peer, block in blocks.items() if block.active)

    def forget(self, target: NodeId) -> None:
        """It is not wanted any more; its place is given up elsewhere."""
        self.displaced.discard(target)
        self.relays.pop(target, None)
        self.taken.pop(target, None)
        self.waits.pop(target, None)
        self.unserved.pop(target, None)
        self.refused_targets.discard(target)
        self.blocks.pop(target, None)

    def next_due(self) -> float | None:
        """When a refusal is to be sent, or a peer to be tried again."""
        times = list(self.waits.values())
        times += [
            block.until
            for blocks in self.blocks.values()
            for block in blocks.values()
            if block.active
        ]
        if not self.is_feed:
            times += [
                item.due for node, item in self.unserved.items() if node not in self.refused_targets
            ]
        return min(times, default=None)

    def row(self, local: NodeId) -> SetRow:
        """As it is now."""
        egress = (*(self.current[session] for session in sorted(self.current)),)
        retired = (*(self.retired[name] for name in sorted(self.retired)),)
        return SetRow(
            ingress=self.ingress,
            key=self.key,
            hops=self.hops,
            scope=self.scope,
            local=local in self.targets,
            targets=tuple(sorted(self.targets)),
            egress=tuple(
                EgressRow(item.egress, tuple(sorted(item.targets)), item.retired)
                for item in (*egress, *retired)
            ),
            unserved=tuple((t, self.unserved[t].reason) for t in sorted(self.unserved)),
        )
