"""The events of the control plane: nodes, subscriptions, announcements and subscriber node sets.

Adverts and withdrawals are written when something changes, in the order in which the relay applied
them, so that the state at any time is the sum of the records before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, TypeAlias

from laps_wire.telemetry.schema import Column

__all__ = [
    "AnnAdv",
    "AnnWd",
    "Extra",
    "NodeAdv",
    "NodeWd",
    "PathItem",
    "SnsAdv",
    "SnsWd",
    "SubAdv",
    "SubWd",
]

Extra: TypeAlias = Mapping[str, object]
"""Fields of a later version, as JSON gave them."""


# Topology


@dataclass(frozen=True, slots=True)
class PathItem:
    """One relay on the way to a node."""

    node_id: Annotated[str, Column("The relay.")]
    srtt_us: Annotated[int, Column("Its smoothed round trip time to the one before it.")]
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdv:
    """Node information arrived, or this relay's own changed."""

    TYPE: ClassVar[str] = "node.adv"

    node_id: Annotated[str, Column("The node that is described.")]
    node_type: Annotated[str, Column("Its role.", values=("edge", "via", "stub", "control"))]
    path: Annotated[tuple[PathItem, ...], Column("The way to it, nearest relay last.")]
    sum_srtt_us: Annotated[int, Column("Sum of the round trip times of the path.")]
    best: Annotated[bool, Column("Whether this became the best way to the node.")]
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    longitude: Annotated[float | None, Column("Degrees east, if the node says.")] = None
    latitude: Annotated[float | None, Column("Degrees north, if the node says.")] = None
    load: Annotated[float | None, Column("Share of the node's capacity in use, 0 to 1.")] = None
    epoch: Annotated[int | None, Column("Boot epoch of the node; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence of the advert within the epoch.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWd:
    """Node information was withdrawn."""

    TYPE: ClassVar[str] = "node.wd"

    node_id: Annotated[str, Column("The node that is gone.")]
    reason: Annotated[
        str, Column("Why it is gone.", values=("withdrawn", "session_closed", "expired"))
    ]
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    epoch: Annotated[int | None, Column("Boot epoch of the node; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence of the withdrawal within the epoch.")] = None
    extra: Extra = field(default_factory=dict)


# Interest


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAdv:
    """A subscription of some node became known."""

    TYPE: ClassVar[str] = "sub.adv"

    track: Annotated[str, Column("Hash of the full track name.")]
    ns_depth: Annotated[int, Column("How many fields the namespace has.")]
    source_node: Annotated[str, Column("The node that has subscribers.")]
    epoch: Annotated[int | None, Column("Boot epoch of the source; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence within the epoch.")] = None
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubWd:
    """A subscription of some node ended."""

    TYPE: ClassVar[str] = "sub.wd"

    track: Annotated[str, Column("Hash of the full track name.")]
    ns_depth: Annotated[int, Column("How many fields the namespace has.")]
    source_node: Annotated[str, Column("The node that has no subscribers any more.")]
    delayed: Annotated[bool, Column("Whether it was held back first, in case one returns.")]
    epoch: Annotated[int | None, Column("Boot epoch of the source; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence within the epoch.")] = None
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnAdv:
    """A node announced a track or a namespace."""

    TYPE: ClassVar[str] = "ann.adv"

    scope: Annotated[str, Column("What was announced.", values=("track", "namespace"))]
    track: Annotated[str, Column("Hash of the full track name, or of the namespace.")]
    ns_depth: Annotated[int, Column("How many fields the namespace has.")]
    source_node: Annotated[str, Column("The node of the publisher.")]
    epoch: Annotated[int | None, Column("Boot epoch of the source; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence within the epoch.")] = None
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnWd:
    """An announcement ended."""

    TYPE: ClassVar[str] = "ann.wd"

    scope: Annotated[str, Column("What was announced.", values=("track", "namespace"))]
    track: Annotated[str, Column("Hash of the full track name, or of the namespace.")]
    ns_depth: Annotated[int, Column("How many fields the namespace has.")]
    source_node: Annotated[str, Column("The node of the publisher.")]
    epoch: Annotated[int | None, Column("Boot epoch of the source; null from older peers.")] = None
    seq: Annotated[int | None, Column("Sequence within the epoch.")] = None
    session_id: Annotated[str | None, Column("Where it came from; null for our own.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsAdv:
    """A subscriber node set was made or changed."""

    TYPE: ClassVar[str] = "sns.adv"

    session_id: Annotated[str, Column("The peer session that the set belongs to.")]
    sns_id: Annotated[int, Column("The set, unique within the session.")]
    direction: Annotated[str, Column("Whether the peer sent it or we did.", values=("in", "out"))]
    added: Annotated[tuple[str, ...], Column("Nodes that joined the set.")]
    removed: Annotated[tuple[str, ...], Column("Nodes that left the set.")]
    members: Annotated[int, Column("How many nodes the set has now.")]
    track: Annotated[str | None, Column("Hash of the full track name, where known.")] = None
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsWd:
    """A subscriber node set was withdrawn."""

    TYPE: ClassVar[str] = "sns.wd"

    session_id: Annotated[str, Column("The peer session that the set belonged to.")]
    sns_id: Annotated[int, Column("The set, unique within the session.")]
    direction: Annotated[str, Column("Whether the peer sent it or we did.", values=("in", "out"))]
    removed: Annotated[tuple[str, ...], Column("Nodes that were in the set.")]
    track: Annotated[str | None, Column("Hash of the full track name, where known.")] = None
    extra: Extra = field(default_factory=dict)
