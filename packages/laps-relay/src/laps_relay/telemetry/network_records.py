"""The telemetry records of events of the network.

Best paths change often while a network starts or heals. So one record for each node is written when
its path has settled, with the number of changes.
"""

from __future__ import annotations

from typing import Any, Final

from laps_relay.network import events as core
from laps_sdk.peering import reports
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, AnnounceKind
from laps_wire.telemetry import (
    AnnAdv,
    AnnWd,
    Body,
    DialFail,
    NodeAdv,
    NodeSuspect,
    NodeWd,
    PathItem,
    PeerDrain,
    PeerFault,
    PeerRefuse,
    RouteChange,
    SnsAdv,
    SnsRefuse,
    SnsWd,
    SubAdv,
    SubRefuse,
    SubWd,
    safe_text,
)

__all__ = ["SETTLE_TIME", "Routes", "hash_text", "node_text", "peer_session", "record_of"]

SETTLE_TIME: Final = 1.0
"""Seconds for which changes of routes are collected."""


def peer_session(number: int) -> str:
    """Return the name of a peer's session in telemetry, which differs from those of clients."""
    return f"p{number}"


def hash_text(key: int) -> str:
    """Return the full-name hash of a track as text."""
    return f"{key:016x}"


def node_text(node: NodeId | None) -> str | None:
    """Return a node id as text; None if the node is not known."""
    return None if node is None else str(node)


def _phrase(text: str) -> str | None:
    return safe_text(text) or None


def record_of(event: core.NetworkEvent) -> Body | None:
    """Return the record of an event that depends on nothing but the event; None: there is none."""
    match event:
        case (
            reports.PeerTurnedDown()
            | reports.PeerFaulted()
            | reports.PeerLeaving()
            | reports.Dialled()
        ):
            return _peer_body(event)
        case core.NodeAdded() | core.NodeGone() | reports.NodeSuspected():
            return _node_body(event)
        case (
            core.AnnounceAdded()
            | core.AnnounceGone()
            | core.SubscribeAdded()
            | core.SubscribeGone()
        ):
            return _interest_body(event)
        case core.SubscribeRefused():
            return SubRefuse(
                track=hash_text(event.key),
                source_node=str(event.source),
                code=int(event.code),
                reason=_phrase(event.reason),
            )
        case core.SetChanged() | core.SetGone() | core.SetRefused():
            return _set_body(event)
        case _:
            return None


def _peer_body(
    event: reports.PeerTurnedDown | reports.PeerFaulted | reports.PeerLeaving | reports.Dialled,
) -> Body | None:
    match event:
        case reports.PeerTurnedDown():
            return PeerRefuse(
                session_id=peer_session(event.session),
                code=int(event.code),
                reason=_phrase(event.reason),
                peer=node_text(event.node),
                contact=_phrase(event.contact),
            )
        case reports.PeerFaulted():
            return PeerFault(
                session_id=peer_session(event.session),
                code=int(event.code),
                reason=_phrase(event.reason),
                peer=node_text(event.node),
            )
        case reports.PeerLeaving():
            return PeerDrain(
                session_id=peer_session(event.session),
                peer=str(event.node),
                by="remote" if event.by_peer else "local",
                reason=_phrase(event.reason),
            )
        case reports.Dialled():
            if not event.failed:
                return None
            return DialFail(
                contact=safe_text(event.contact),
                on_demand=event.dynamic,
                reason=_phrase(event.failed),
                peer=node_text(event.node),
            )


def _node_body(event: core.NodeAdded | core.NodeGone | reports.NodeSuspected) -> Body:
    match event:
        case core.NodeGone():
            return NodeWd(node_id=str(event.node), reason=event.reason)
        case reports.NodeSuspected():
            return NodeSuspect(
                node_id=str(event.node), peer=str(event.peer), reason=safe_text(event.reason)
            )
        case core.NodeAdded():
            node = event.info.node
            location = node.location
            return NodeAdv(
                node_id=str(node.node_id),
                node_type=node.relay_type.name.lower(),
                path=tuple(PathItem(str(item.node_id), item.srtt_us) for item in event.info.path),
                sum_srtt_us=event.info.sum_srtt_us,
                best=event.best,
                longitude=None if location is None else location.longitude,
                latitude=None if location is None else location.latitude,
                load=node.load.value / 1000,
                epoch=node.stamp.epoch,
                seq=node.stamp.sequence,
            )


def _interest_body(
    event: core.AnnounceAdded | core.AnnounceGone | core.SubscribeAdded | core.SubscribeGone,
) -> Body:
    entry = event.entry
    facts: dict[str, Any] = {
        "track": hash_text(entry.full_name_hash),
        "ns_depth": len(entry.element_hashes),
        "source_node": str(entry.source),
        "epoch": entry.stamp.epoch,
        "seq": entry.stamp.sequence,
    }
    session = getattr(event, "session", None)
    if session is not None:
        facts["session_id"] = peer_session(session)
    if isinstance(entry, AnnounceInfo):
        facts["scope"] = "track" if entry.kind is AnnounceKind.TRACK else "namespace"
        return AnnAdv(**facts) if isinstance(event, core.AnnounceAdded) else AnnWd(**facts)
    if isinstance(event, core.SubscribeGone):
        return SubWd(**facts, delayed=event.delayed)
    return SubAdv(**facts)


def _set_body(event: core.SetChanged | core.SetGone | core.SetRefused) -> Body:
    if isinstance(event, core.SetRefused):
        return SnsRefuse(
            session_id=peer_session(event.session),
            sns_id=event.sns_id,
            peer=str(event.node),
            targets=event.targets,
            reason=event.code.name.lower(),
        )
    facts: dict[str, Any] = {
        "session_id": peer_session(event.session),
        "sns_id": event.sns_id,
        "direction": "in" if event.incoming else "out",
        "removed": tuple(map(str, event.removed)),
        "track": None if event.key is None else hash_text(event.key),
    }
    if isinstance(event, core.SetGone):
        return SnsWd(**facts)
    return SnsAdv(**facts, added=tuple(map(str, event.added)), members=event.members)


class Routes:
    """Changes of routes, until they have settled."""

    def __init__(self) -> None:
        self._changes: dict[NodeId, tuple[core.RouteChanged, int]] = {}
        self._since = 0.0

    def changed(self, now: float, event: core.RouteChanged) -> None:
        """Note that the best path to a node has changed."""
        if not self._changes:
            self._since = now
        _, before = self._changes.pop(event.node, (event, 0))
        self._changes[event.node] = event, before + 1

    def settled(self, now: float) -> list[RouteChange]:
        """Return the records if :data:`SETTLE_TIME` has passed since the first change."""
        if not self._changes or now - self._since < SETTLE_TIME:
            return []
        return self.take()

    def take(self) -> list[RouteChange]:
        """Return the records at once."""
        taken, self._changes = self._changes, {}
        return [
            RouteChange(
                node_id=str(event.node),
                changes=changes,
                hops=event.hops,
                cost_us=event.cost_us,
                next_hop=node_text(event.peer),
            )
            for event, changes in taken.values()
        ]
