"""The events of peering: ways that change, relays that refuse or leave, and what is turned down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from laps_wire.telemetry.schema import Column
from laps_wire.telemetry.topology import Extra

__all__ = [
    "DialFail",
    "NodeSuspect",
    "PeerDrain",
    "PeerFault",
    "PeerRefuse",
    "PolicyChange",
    "RouteChange",
    "SnsRefuse",
    "SubRefuse",
    "TypeChange",
]

_NEW: Final = "1.1"
_LATER: Final = "1.3"


# Peers


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRefuse:
    """A handshake with a relay did not come to its end: one side refused, or said nothing."""

    TYPE: ClassVar[str] = "peer.refuse"
    SINCE: ClassVar[str] = _NEW

    session_id: Annotated[str, Column("The session that was to be.", _NEW)]
    code: Annotated[int, Column("Code of the refusal (laps-2).", _NEW)]
    reason: Annotated[str | None, Column("Reason phrase, escaped and cut.", _NEW)] = None
    peer: Annotated[str | None, Column("Node id, if it was said.", _NEW)] = None
    contact: Annotated[str | None, Column("Where it was dialled; null if it came.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFault:
    """A peer broke the protocol; its session is closed for that."""

    TYPE: ClassVar[str] = "peer.fault"
    SINCE: ClassVar[str] = _NEW

    session_id: Annotated[str, Column("The session.", _NEW)]
    code: Annotated[int, Column("Code with which it is closed (laps-2).", _NEW)]
    reason: Annotated[str | None, Column("What was wrong, escaped and cut.", _NEW)] = None
    peer: Annotated[str | None, Column("Node id of the peer.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDrain:
    """A relay leaves in good order: what goes through it is moved away."""

    TYPE: ClassVar[str] = "peer.drain"
    SINCE: ClassVar[str] = _NEW

    session_id: Annotated[str, Column("The session.", _NEW)]
    peer: Annotated[str, Column("Node id of the peer.", _NEW)]
    by: Annotated[str, Column("Who leaves.", _NEW, values=("local", "remote"))]
    reason: Annotated[str | None, Column("Reason phrase, escaped and cut.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialFail:
    """A connection to a relay could not be had; it is tried again."""

    TYPE: ClassVar[str] = "dial.fail"
    SINCE: ClassVar[str] = _NEW

    contact: Annotated[str, Column("Where it was dialled.", _NEW)]
    on_demand: Annotated[bool, Column("Whether traffic asked for it, not configuration.", _NEW)]
    reason: Annotated[str | None, Column("Why, escaped and cut.", _NEW)] = None
    peer: Annotated[str | None, Column("Node id that was expected there.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


# Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSuspect:
    """A peer said something of a node that is not believed."""

    TYPE: ClassVar[str] = "node.suspect"
    SINCE: ClassVar[str] = _NEW

    node_id: Annotated[str, Column("The node.", _NEW)]
    peer: Annotated[str, Column("Who said it.", _NEW)]
    reason: Annotated[str, Column("What speaks against it.", _NEW)]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChange:
    """The best way to a node is another one; written when it has settled."""

    TYPE: ClassVar[str] = "route.change"
    SINCE: ClassVar[str] = _NEW

    node_id: Annotated[str, Column("The node.", _NEW)]
    changes: Annotated[int, Column("How many changes this record stands for.", _NEW)]
    hops: Annotated[int, Column("Relays between it and us now; 0 without a way.", _NEW)]
    cost_us: Annotated[int, Column("Cost of the way now; 0 without one.", _NEW)]
    next_hop: Annotated[str | None, Column("The next relay now; null: no way.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


# What is turned down, and by which rules


@dataclass(frozen=True, slots=True, kw_only=True)
class SubRefuse:
    """Policy, a publisher or a collision said no to a subscription."""

    TYPE: ClassVar[str] = "sub.refuse"
    SINCE: ClassVar[str] = _NEW

    track: Annotated[str, Column("Hash of the full track name.", _NEW)]
    source_node: Annotated[str, Column("The node that has subscribers.", _NEW)]
    code: Annotated[int, Column("Code of the response (laps-2).", _NEW)]
    reason: Annotated[str | None, Column("Reason phrase, escaped and cut.", _NEW)] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsRefuse:
    """Targets of a peer's subscriber node set are not served."""

    TYPE: ClassVar[str] = "sns.refuse"
    SINCE: ClassVar[str] = _NEW

    session_id: Annotated[str, Column("The peer session that the set belongs to.", _NEW)]
    sns_id: Annotated[int, Column("The set, unique within the session.", _NEW)]
    peer: Annotated[str, Column("Node id of the peer.", _NEW)]
    targets: Annotated[int, Column("How many nodes are not served.", _NEW)]
    reason: Annotated[str, Column("Why, as laps-2 names it.", _NEW)]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """Another policy is in force at this relay."""

    TYPE: ClassVar[str] = "policy.change"
    SINCE: ClassVar[str] = _NEW

    revision: Annotated[int, Column("How many there were since the start, with this one.", _NEW)]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeChange:
    """This relay is another type of relay from now on; its peers connect anew."""

    TYPE: ClassVar[str] = "type.change"
    SINCE: ClassVar[str] = _LATER

    old: Annotated[str, Column("What it was: edge, via, stub or control.", _LATER)]
    new: Annotated[str, Column("What it is.", _LATER)]
    extra: Extra = field(default_factory=dict)
