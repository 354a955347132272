"""What happens in the network, in logs, telemetry and metrics: one table, as for clients.

Sessions with peers are ``p<number>`` in telemetry, so that they are not taken for clients'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from laps_relay.core.network import events as core
from laps_relay.observe.logs import Logger
from laps_relay.observe.metrics import Metrics
from laps_relay.observe.names import Names
from laps_relay.observe.refusals import Refusals, advice
from laps_relay.observe.rows import Carried, Fields, Row, TableObserver, row
from laps_relay.observe.telemetry import TelemetryWriter
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, AnnounceKind
from laps_wire.telemetry import (
    AnnAdv,
    AnnWd,
    Body,
    NodeAdv,
    NodeWd,
    PathItem,
    SessionOpen,
    SnsAdv,
    SnsWd,
    SubAdv,
    SubWd,
    safe_text,
)

__all__ = ["NetworkObserver", "peer_session"]


def peer_session(number: int) -> str:
    """A peer's session as telemetry names it."""
    return f"p{number}"


def _hash(key: int) -> str:
    return f"{key:016x}"


def _node(node: NodeId | None) -> str | None:
    return None if node is None else str(node)


def _entry(
    _names: Names,
    event: core.AnnounceAdded | core.AnnounceGone | core.SubscribeAdded | core.SubscribeGone,
) -> Fields:
    entry = event.entry
    return {"track": _hash(entry.full_name_hash), "source": str(entry.source)}


def _advised(code: int | None, reason: str) -> Fields:
    words = advice(code, reason)
    return {"advice": words} if words else {}


_TABLE: Mapping[type, Row] = {
    core.PeerAdded: row(
        core.PeerAdded,
        "info",
        "peer connected",
        lambda _names, e: {
            "session": e.session,
            "node": str(e.node),
            "type": e.relay_type.name.lower(),
            "mode": e.mode,
            "alpn": e.alpn,
            "control": e.control,
            "dialled": e.dialled,
            "implementation": safe_text(e.implementation),
        },
        lambda m, e: m.peers_opened.labels(e.relay_type.name.lower()).inc(),
    ),
    core.PeerGone: row(
        core.PeerGone,
        "info",
        "peer gone",
        lambda _names, e: {
            "session": e.session,
            "node": _node(e.node),
            "code": int(e.code),
            "reason": safe_text(e.reason),
            "by_peer": e.by_peer,
        },
        lambda m, e: m.peers_closed.labels(f"{e.code:#x}").inc(),
    ),
    core.PeerTurnedDown: row(
        core.PeerTurnedDown,
        "warning",
        "peering refused",
        lambda _names, e: {
            "session": e.session,
            "node": _node(e.node),
            **({"contact": safe_text(e.contact)} if e.contact else {}),
            "code": int(e.code),
            "reason": safe_text(e.reason),
            **_advised(e.code, e.reason),
        },
        lambda m, e: m.peers_refused.labels(f"{e.code:#x}").inc(),
        about=lambda _e: None,
    ),
    core.PeerFaulted: row(
        core.PeerFaulted,
        "warning",
        "peer broke the protocol",
        lambda _names, e: {
            "session": e.session,
            "node": _node(e.node),
            "code": int(e.code),
            "reason": safe_text(e.reason),
        },
        lambda m, e: m.peers_faulted.labels(f"{e.code:#x}").inc(),
    ),
    core.PeerLeaving: row(
        core.PeerLeaving,
        "info",
        "peer draining",
        lambda _names, e: {
            "session": e.session,
            "node": str(e.node),
            "reason": safe_text(e.reason),
            "by_peer": e.by_peer,
        },
    ),
    core.Dialled: row(
        core.Dialled,
        "debug",
        "dialling",
        lambda _names, e: {
            "contact": safe_text(e.contact),
            "node": _node(e.node),
            "on_demand": e.dynamic,
            **({"failed": safe_text(e.failed)} if e.failed else {}),
        },
        lambda m, e: m.dials.labels("failed" if e.failed else "begun").inc(),
    ),
    core.NodeAdded: row(
        core.NodeAdded,
        "debug",
        "node advertised",
        lambda _names, e: {
            "node": str(e.info.node.node_id),
            "peer": _node(e.peer),
            "hops": len(e.info.path),
            "best": e.best,
        },
    ),
    core.NodeGone: row(
        core.NodeGone,
        "info",
        "node gone",
        lambda _names, e: {"node": str(e.node), "reason": e.reason},
    ),
    core.NodeSuspected: row(
        core.NodeSuspected,
        "warning",
        "node information not believed",
        lambda _names, e: {"node": str(e.node), "peer": str(e.peer), "reason": e.reason},
        lambda m, _e: m.nodes_suspected.inc(),
        about=lambda e: e.peer,
    ),
    core.RouteChanged: row(
        core.RouteChanged,
        "info",
        "route changed",
        lambda _names, e: {
            "node": str(e.node),
            "next_hop": _node(e.peer),
            "hops": e.hops,
            "cost_us": e.cost_us,
        },
        lambda m, _e: m.routes_changed.inc(),
    ),
    core.AnnounceAdded: row(core.AnnounceAdded, "debug", "announce advertised", _entry),
    core.AnnounceGone: row(core.AnnounceGone, "debug", "announce gone", _entry),
    core.SubscribeAdded: row(core.SubscribeAdded, "debug", "subscribe advertised", _entry),
    core.SubscribeGone: row(core.SubscribeGone, "debug", "subscribe gone", _entry),
    core.SubscribeRefused: row(
        core.SubscribeRefused,
        "info",
        "subscribe refused",
        lambda _names, e: {
            "track": _hash(e.key),
            "source": str(e.source),
            "code": int(e.code),
            "reason": safe_text(e.reason),
        },
        lambda m, e: m.subscribes_refused.labels(str(e.code)).inc(),
    ),
    core.SetChanged: row(
        core.SetChanged,
        "debug",
        "subscriber node set changed",
        lambda _names, e: {
            "session": e.session,
            "sns": e.sns_id,
            "incoming": e.incoming,
            "members": e.members,
        },
    ),
    core.SetGone: row(
        core.SetGone,
        "debug",
        "subscriber node set gone",
        lambda _names, e: {"session": e.session, "sns": e.sns_id, "incoming": e.incoming},
    ),
    core.SetRefused: row(
        core.SetRefused,
        "warning",
        "subscriber node set refused",
        lambda _names, e: {
            "session": e.session,
            "node": str(e.node),
            "sns": e.sns_id,
            "targets": e.targets,
            "reason": e.code.name.lower(),
        },
        lambda m, e: m.sets_refused.labels(e.code.name.lower()).inc(),
        about=lambda e: e.node,
    ),
    core.PolicyChanged: row(core.PolicyChanged, "info", "policy changed", lambda _names, _e: {}),
}


_UNREACHED: Final = row(
    core.Dialled,
    "warning",
    "relay not reached",
    lambda _names, e: {
        "contact": safe_text(e.contact),
        "reason": safe_text(e.failed),
        **_advised(None, e.failed),
    },
    lambda m, _e: m.dials.labels("failed").inc(),
)
"""For the log a :class:`Dialled` that is news to an operator."""


class NetworkObserver(TableObserver[core.NetworkEvent]):
    """Carries the network core's events to logs, telemetry and metrics."""

    def __init__(
        self,
        logger: Logger,
        names: Names,
        metrics: Metrics,
        telemetry: TelemetryWriter | None = None,
    ) -> None:
        super().__init__(_TABLE, logger, names, metrics, telemetry)
        self._refusals = Refusals()

    def shown(self, event: core.NetworkEvent) -> Row:
        """As the table says; what fails again and again is said once for each reason."""
        found = super().shown(event)
        match event:
            case core.PeerAdded():
                self._refusals.reached(event.contact)
            case core.PeerTurnedDown() if event.contact:
                if not self._refusals.news(event.contact, event.reason):
                    return replace(found, level="debug")
            case core.Dialled() if event.failed and not event.dynamic:
                if self._refusals.news(event.contact, event.failed):
                    return _UNREACHED
        return found

    def body(self, now: float, event: core.NetworkEvent, carried: Carried) -> Body | None:
        """Sessions, nodes, interest and sets that come, change and go."""
        match event:
            case core.PeerAdded():
                self.opened(now, event.session)
                return SessionOpen(
                    session_id=peer_session(event.session),
                    kind="peer",
                    direction="out" if event.dialled else "in",
                    alpn=event.alpn,
                    handshake_ms=event.handshake * 1000.0,
                    peer=str(event.node),
                )
            case core.PeerGone():
                return self.closed(
                    now,
                    event.session,
                    peer_session(event.session),
                    "peer",
                    carried,
                    code=event.code,
                    reason=event.reason,
                    by_peer=event.by_peer,
                )
            case core.NodeAdded() | core.NodeGone():
                return _node_body(event)
            case (
                core.AnnounceAdded()
                | core.AnnounceGone()
                | core.SubscribeAdded()
                | core.SubscribeGone()
            ):
                return _interest_body(event)
            case core.SetChanged():
                return SnsAdv(
                    session_id=peer_session(event.session),
                    sns_id=event.sns_id,
                    direction="in" if event.incoming else "out",
                    added=tuple(map(str, event.added)),
                    removed=tuple(map(str, event.removed)),
                    members=event.members,
                    track=None if event.key is None else _hash(event.key),
                )
            case core.SetGone():
                return SnsWd(
                    session_id=peer_session(event.session),
                    sns_id=event.sns_id,
                    direction="in" if event.incoming else "out",
                    removed=tuple(map(str, event.removed)),
                    track=None if event.key is None else _hash(event.key),
                )
            case _:
                return None


def _node_body(event: core.NodeAdded | core.NodeGone) -> Body:
    if isinstance(event, core.NodeGone):
        return NodeWd(node_id=str(event.node), reason="withdrawn")
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
        "track": _hash(entry.full_name_hash),
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
    if isinstance(event, core.SubscribeAdded):
        return SubAdv(**facts)
    return SubWd(**facts, delayed=True)
