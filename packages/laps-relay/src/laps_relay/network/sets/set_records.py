"""The records of sets: the targets of one ingress, their sets, and the targets without data."""

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
    """One of our sets, as a row."""

    egress: EgressSet
    targets: tuple[NodeId, ...]
    """Lowest first."""
    retired: bool
    """Whether only streams that are under way still use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow:
    """Where the data of one ingress goes, as a row."""

    ingress: Ingress
    key: int | None
    """Of a feed; None for a set of a peer."""
    hops: int
    """The hop count in our sets for this ingress."""
    scope: str
    local: bool
    """Whether our own clients receive it."""
    targets: tuple[NodeId, ...]
    """All targets, lowest first."""
    egress: tuple[EgressRow, ...]
    unserved: tuple[tuple[NodeId, str], ...]
    """Targets without data now, and why."""


@dataclass(slots=True)
class SetsCounters:
    """Counters since the start."""

    made: int = 0
    """Our sets that were advertised."""
    moved: int = 0
    """Our sets that were retired because targets moved."""
    ended: int = 0
    """Our sets that were withdrawn, or ended with their session."""
    refused: int = 0
    """Targets of peers' sets that we refused."""
    refused_by_peers: int = 0
    """Targets of our sets that a peer refused."""
    unknown_by_peers: int = 0
    """Our sets that arrived too late for data that had overtaken them."""


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
        """Of a retired set: the relays on the paths of its targets."""
        self.scope = owner.scope
        """If its ingress has ended: the last class of its data."""

    def orphan(self, scope: str) -> None:
        """Mark that the ingress has ended; streams under way go on, under the same policy."""
        self.owner = None
        self.scope = scope


class Block(NamedTuple):
    """A peer that does not serve a target."""

    code: int
    tries: int
    """How often the peer has refused."""
    until: float
    """When the peer is tried again, if nothing changes before."""
    active: bool
    """False: the peer is being tried again."""
    length: int | None = None
    """How many relays the peer's path to the target had then."""


class Unserved(NamedTuple):
    """A target that gets no data now."""

    code: SnsRefusal
    """The code of the refusal to the sender, if there is one."""
    reason: str
    due: float
    """When the refusal is sent: at once if the fault is permanent, otherwise a little later."""


class Taken(NamedTuple):
    """The path of a target of a peer's set."""

    peer: NodeId
    length: int
    """How many relays the path had when it was taken; it may have become longer since."""


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
        """Whether targets were added to a set in place since its streams were last renewed."""
        self.targets: frozenset[NodeId] = frozenset()
        """All targets, this relay too."""
        self.home: dict[NodeId, int] = {}
        """Target to the session whose current set has it."""
        self.current: dict[int, OutSet] = {}
        """By session: the sets with which new streams begin."""
        self.retired: dict[EgressSet, OutSet] = {}
        self.last: dict[NodeId, int] = {}
        """Target to its last session, also of removed targets."""
        self.relays: dict[NodeId, tuple[NodeId, ...]] = {}
        """Target to the relays on its path, as its peer last advertised them."""
        self.taken: dict[NodeId, Taken] = {}
        """Target of a peer's set to the path that it got here."""
        self.waits: dict[NodeId, float] = {}
        """Targets for which a longer path is better now, and when they get it."""
        self.displaced: set[NodeId] = set()
        """Targets that had a session, and have none now."""
        self.unserved: dict[NodeId, Unserved] = {}
        self.refused_targets: set[NodeId] = set()
        """Unserved targets that were refused: the sender finds another path, so we do not.

        Some still have a session, because streams that began before may arrive late. The sender
        removes a target, or withdraws the set, after the last of those streams."""
        self.blocks: dict[NodeId, dict[NodeId, Block]] = {}
        """Target to peers that do not serve it."""
        self.installed: tuple[tuple[EgressSet, ...], bool] | None = None
        """The FIB entry that the plane has."""

    @property
    def is_feed(self) -> bool:
        """Whether the data enters the network here."""
        return self.ingress.session == LOCAL

    @property
    def spread(self) -> int:
        """The number by which an ingress is assigned to one of several parallel sessions."""
        return self.ingress.set_id if self.key is None else self.key

    def has_moved(self, target: NodeId, session: int) -> bool:
        """Return whether a target that comes to a session had another session before."""
        return target in self.displaced or self.last.get(target, session) != session

    def took(self, target: NodeId, peer: NodeId, length: int | None) -> None:
        """Record that a target goes to a peer, or stays there."""
        taken = self.taken.get(target)
        if taken is None or taken.peer != peer:
            self.taken[target] = Taken(peer, length or 0)

    def avoided(self, target: NodeId) -> frozenset[NodeId]:
        """Return the peers that are not used for a target now."""
        blocks = self.blocks.get(target)
        if not blocks:
            return frozenset()
        return frozenset(peer for peer, block in blocks.items() if block.active)

    def forget(self, target: NodeId) -> None:
        """Remove the state of a target that was removed; its set is changed elsewhere."""
        self.displaced.discard(target)
        self.relays.pop(target, None)
        self.taken.pop(target, None)
        self.waits.pop(target, None)
        self.unserved.pop(target, None)
        self.refused_targets.discard(target)
        self.blocks.pop(target, None)

    def next_due(self) -> float | None:
        """Return when a refusal must be sent or a peer tried again; None: never."""
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
        """Return the record as a row."""
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
