"""How events and tables of the network are logged, counted and recorded.

::

    events ---------------> NetworkObserver --> log, metrics, records (record_of)
    tables, every interval -> NetworkSampler --> metrics, quic.sample

Sessions with peers are ``p<number>`` in telemetry, so that they differ from those of clients. Best
paths change often while a network starts or heals. So one record for each node is written when its
path has settled, with the number of changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from laps_relay.network import events as core
from laps_relay.network.views import PeerRow, TableSizes
from laps_relay.peer_forwarding.forwarding import PeerPlaneCounters
from laps_relay.telemetry.events import Carried, Fields, Row, TableObserver, row
from laps_relay.telemetry.logs import Logger, Names
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.sampler import quic_sample
from laps_relay.telemetry.telemetry import TelemetryWriter
from laps_sdk.peering import reports
from laps_sdk.quic.base import ConnectionStats
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
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
    PolicyChange,
    RouteChange,
    SessionOpen,
    SnsAdv,
    SnsRefuse,
    SnsWd,
    SubAdv,
    SubRefuse,
    SubWd,
    safe_text,
)

__all__ = [
    "SETTLE_TIME",
    "NetworkObserver",
    "NetworkSample",
    "NetworkSampler",
    "Refusals",
    "Routes",
    "advice",
    "hash_text",
    "node_text",
    "peer_session",
    "record_of",
]

SETTLE_TIME: Final = 1.0
"""Seconds for which changes of routes are collected."""
_NOTHING: Final = PeerPlaneCounters(*[0] * len(PeerPlaneCounters._fields))

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


class NetworkSample(NamedTuple):
    """The network's tables and counters at one time."""

    peers: Sequence[PeerRow]
    unreached: int
    """Configured contacts without a session."""
    sizes: TableSizes
    counters: PeerPlaneCounters
    collisions: int
    """Names that were refused because another name has the same hash."""
    connections: Mapping[int, ConnectionStats]


class NetworkSampler:
    """Turns samples into metrics and telemetry."""

    def __init__(self, metrics: Metrics, telemetry: TelemetryWriter | None = None) -> None:
        self._metrics = metrics
        self._telemetry = telemetry
        self._before = _NOTHING
        self._collisions = 0

    def take(self, sample: NetworkSample, *, telemetry: bool = True) -> None:
        """Count a sample; write telemetry records only if ``telemetry`` is set."""
        m = self._metrics
        m.peers.clear()
        kinds = Counter(row.relay_type for row in sample.peers if row.node is not None)
        for kind, count in kinds.items():
            m.peers.labels(kind).set(count)
        m.contacts_unreached.set(sample.unreached)
        sizes = sample.sizes
        m.sets.labels("in").set(sizes.sets_in)
        m.sets.labels("out").set(sizes.sets_out)
        m.nodes.set(sizes.nodes)
        m.network_announces.set(sizes.announces)
        m.network_subscribes.set(sizes.subscribes)
        m.fib_entries.set(sizes.fib)
        m.held_bytes.set(sample.counters.held_bytes)
        now, before = sample.counters, self._before
        self._before = now
        m.network_bytes.labels("in").inc(now.bytes_in - before.bytes_in)
        m.network_bytes.labels("out").inc(now.bytes_out - before.bytes_out)
        m.network_streams.labels("in").inc(now.streams_in - before.streams_in)
        m.network_streams.labels("out").inc(now.streams_out - before.streams_out)
        m.network_dropped.labels("unknown_set").inc(now.unknown_streams - before.unknown_streams)
        m.network_dropped.labels("slow_peer").inc(now.dropped_streams - before.dropped_streams)
        m.network_dropped.labels("session_ended").inc(now.unsent_streams - before.unsent_streams)
        lost = m.network_dropped_datagrams
        lost.labels("unknown_set").inc(now.unknown_datagrams - before.unknown_datagrams)
        lost.labels("too_large").inc(now.dropped_datagrams - before.dropped_datagrams)
        m.network_unknown_kinds.inc(now.unknown_kinds - before.unknown_kinds)
        m.hash_collisions.inc(sample.collisions - self._collisions)
        self._collisions = sample.collisions
        if telemetry and self._telemetry is not None:
            # Stubs have no name: one link to all of them would be measured.
            nodes = {row.session: node_text(row.node or None) for row in sample.peers}
            for session, stats in sample.connections.items():
                record = quic_sample(peer_session(session), stats, nodes.get(session))
                if record is not None:
                    self._telemetry.put(record)
