"""How each event of the network is logged, counted and recorded.

Sessions with peers are ``p<number>`` in telemetry, so that they differ from those of clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from laps_relay.network import events as core
from laps_relay.telemetry.logs import Logger
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.names import Names
from laps_relay.telemetry.network_records import (
    Routes,
    hash_text,
    node_text,
    peer_session,
    record_of,
)
from laps_relay.telemetry.rows import Carried, Fields, Row, TableObserver, row
from laps_relay.telemetry.telemetry import TelemetryWriter
from laps_sdk.peering import reports
from laps_wire.peering.errors import CloseCode
from laps_wire.telemetry import Body, PolicyChange, SessionOpen, safe_text

__all__ = ["NetworkObserver", "Refusals", "advice"]


_MOST: Final = 256
"""Contacts that are remembered; redirects of peers can add new ones."""

_ADVICE: Final = {
    CloseCode.NOT_AUTHORIZED: "compare network.key_file of both relays, or their certificates",
    CloseCode.HASH_MISMATCH: (
        "give both relays the same network.key_file, or a Stub the key of 'laps-relay stub-key'"
    ),
    CloseCode.NODE_ID_CONFLICT: "give one of the two relays another network.node_id",
    CloseCode.STALE_EPOCH: (
        "stop one of the two relays that have this key and node id; or, if there is only one,"
        " its clock went back and its state directory was lost: set the clock"
    ),
    CloseCode.MODE_REFUSED: "compare network.type of both relays",
    CloseCode.POLICY: "ask 'laps-relay policy explain' there",
}


def advice(code: int | None, reason: str) -> str:
    """Return what an operator can do about a refusal; empty if nothing is known."""
    if code in _ADVICE:
        return _ADVICE[CloseCode(code)]
    if "no protocol in common" in reason:
        return "name the port for peers of a relay (--peer-port there), not that for clients"
    if "not known" in reason or "name resolution" in reason:
        return "see that the host is spelt right, and that this machine resolves it"
    if code is None:
        return "see that a relay listens for peers there, and that its packets come through"
    return ""


def _entry(
    _names: Names,
    event: core.AnnounceAdded | core.AnnounceGone | core.SubscribeAdded | core.SubscribeGone,
) -> Fields:
    entry = event.entry
    return {"track": hash_text(entry.full_name_hash), "source": str(entry.source)}


def _advised(code: int | None, reason: str) -> Fields:
    words = advice(code, reason)
    return {"advice": words} if words else {}


_TABLE: Mapping[type, Row] = {
    reports.PeerAdded: row(
        reports.PeerAdded,
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
    reports.PeerGone: row(
        reports.PeerGone,
        "info",
        "peer gone",
        lambda _names, e: {
            "session": e.session,
            "node": node_text(e.node),
            "code": int(e.code),
            "reason": safe_text(e.reason),
            "by_peer": e.by_peer,
        },
        lambda m, e: m.peers_closed.labels(f"{e.code:#x}").inc(),
    ),
    reports.PeerTurnedDown: row(
        reports.PeerTurnedDown,
        "warning",
        "peering refused",
        lambda _names, e: {
            "session": e.session,
            "node": node_text(e.node),
            **({"contact": safe_text(e.contact)} if e.contact else {}),
            "code": int(e.code),
            "reason": safe_text(e.reason),
            **_advised(e.code, e.reason),
        },
        lambda m, e: m.peers_refused.labels(f"{e.code:#x}").inc(),
        about=lambda _e: None,
    ),
    reports.PeerFaulted: row(
        reports.PeerFaulted,
        "warning",
        "peer broke the protocol",
        lambda _names, e: {
            "session": e.session,
            "node": node_text(e.node),
            "code": int(e.code),
            "reason": safe_text(e.reason),
        },
        lambda m, e: m.peers_faulted.labels(f"{e.code:#x}").inc(),
    ),
    reports.PeerLeaving: row(
        reports.PeerLeaving,
        "info",
        "peer draining",
        lambda _names, e: {
            "session": e.session,
            "node": str(e.node),
            "reason": safe_text(e.reason),
            "by_peer": e.by_peer,
        },
    ),
    reports.PeerStays: row(
        reports.PeerStays,
        "info",
        "peer stays",
        lambda _names, e: {"session": e.session, "node": str(e.node)},
    ),
    reports.Dialled: row(
        reports.Dialled,
        "debug",
        "dialling",
        lambda _names, e: {
            "contact": safe_text(e.contact),
            "node": node_text(e.node),
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
            "peer": node_text(e.peer),
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
    reports.NodeSuspected: row(
        reports.NodeSuspected,
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
            "next_hop": node_text(e.peer),
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
            "track": hash_text(e.key),
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
    reports.KeyForgotten: row(
        reports.KeyForgotten,
        "warning",
        "key of a node forgotten",
        lambda _names, e: {"node": str(e.node)},
    ),
    core.PolicyChanged: row(core.PolicyChanged, "info", "policy changed", lambda _names, _e: {}),
}


_UNREACHED: Final = row(
    reports.Dialled,
    "warning",
    "relay not reached",
    lambda _names, e: {
        "contact": safe_text(e.contact),
        "reason": safe_text(e.failed),
        **_advised(None, e.failed),
    },
    lambda m, _e: m.dials.labels("failed").inc(),
)
"""Logs a failed :class:`Dialled` whose reason is new."""


class Refusals:
    """Why configured relays cannot be reached, by contact.

    They are dialled again and again. The first failure is a warning, and so is each other reason;
    a line for each attempt would hide everything else.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def news(self, contact: str, reason: str) -> bool:
        """Return whether this reason is new for the contact, and remember it."""
        if self._reasons.get(contact) == reason:
            return False
        if len(self._reasons) >= _MOST:
            self._reasons.clear()
        self._reasons[contact] = reason
        return True

    def reached(self, contact: str) -> None:
        """Note a session with the contact: its next failure is new again."""
        self._reasons.pop(contact, None)


class NetworkObserver(TableObserver[core.NetworkEvent]):
    """Passes events of the network to logs, telemetry and metrics."""

    def __init__(
        self,
        logger: Logger,
        names: Names,
        metrics: Metrics,
        telemetry: TelemetryWriter | None = None,
    ) -> None:
        super().__init__(_TABLE, logger, names, metrics, telemetry)
        self._refusals = Refusals()
        self._routes = Routes()
        self._policies = 0

    def shown(self, event: core.NetworkEvent) -> Row:
        """Return how an event is logged; a repeated failure is logged at ``debug``."""
        found = super().shown(event)
        match event:
            case reports.PeerAdded():
                self._refusals.reached(event.contact)
            case reports.PeerTurnedDown() if event.contact:
                if not self._refusals.news(event.contact, event.reason):
                    return replace(found, level="debug")
            case reports.Dialled() if event.failed and not event.dynamic:
                if self._refusals.news(event.contact, event.failed):
                    return _UNREACHED
        return found

    def observe(self, now: float, events: Iterable[core.NetworkEvent], carried: Carried) -> None:
        """Take the events of a turn."""
        self.settle(now)
        super().observe(now, events, carried)

    def settle(self, now: float, *, at_once: bool = False) -> None:
        """Write route changes that have settled, or with ``at_once`` all of them."""
        for record in self._routes.take() if at_once else self._routes.settled(now):
            if self._telemetry is not None:
                self._telemetry.put(record)

    def body(self, now: float, event: core.NetworkEvent, carried: Carried) -> Body | None:
        """Return the telemetry record of an event, or None."""
        match event:
            case reports.PeerAdded():
                self.opened(now, event.session)
                return SessionOpen(
                    session_id=peer_session(event.session),
                    kind="peer",
                    direction="out" if event.dialled else "in",
                    alpn=event.alpn,
                    handshake_ms=event.handshake * 1000.0,
                    peer=str(event.node),
                )
            case reports.PeerGone():
                closed = self.closed(
                    now,
                    event.session,
                    peer_session(event.session),
                    "peer",
                    carried,
                    code=event.code,
                    reason=event.reason,
                    by_peer=event.by_peer,
                )
                return replace(closed, peer=node_text(event.node))
            case core.RouteChanged():
                self._routes.changed(now, event)
                return None
            case core.PolicyChanged():
                self._policies += 1
                return PolicyChange(revision=self._policies)
            case _:
                return record_of(event)
