"""How each event of the Edge is logged, counted and recorded."""

from __future__ import annotations

from collections.abc import Mapping

from laps_relay.telemetry.logs import Logger
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.names import Names
from laps_relay.telemetry.rows import Carried, Fields, Row, TableObserver, row
from laps_relay.telemetry.telemetry import TelemetryWriter
from laps_sdk.edge import events as core
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import SubscriptionCounters
from laps_wire.errors import TextFormError
from laps_wire.telemetry import Body, SessionOpen, address_prefix

__all__ = ["EdgeObserver", "host_of"]


def _kind_name(event: core.RequestDenied) -> str:
    return "update" if event.kind is None else event.kind.name.lower()


_TABLE: Mapping[type, Row] = {
    core.SessionOpened: row(
        core.SessionOpened,
        "info",
        "session opened",
        lambda _names, e: {
            "session": e.session,
            "network": _prefix(e.info),
            "draft": e.info.draft.alpn,
            "webtransport": e.info.webtransport,
            "implementation": e.implementation,
        },
        lambda m, e: m.sessions_opened.labels(e.info.draft.alpn).inc(),
    ),
    core.SessionClosed: row(
        core.SessionClosed,
        "info",
        "session closed",
        lambda _names, e: {
            "session": e.session,
            "code": e.code,
            "reason": e.reason,
            "by_peer": e.by_peer,
        },
        lambda m, e: m.sessions_closed.labels("peer" if e.by_peer else "relay").inc(),
    ),
    core.SessionFaulted: row(
        core.SessionFaulted,
        "warning",
        "session broke the protocol",
        lambda _names, e: {"session": e.session, "code": e.code, "reason": e.reason},
        lambda m, e: m.sessions_faulted.labels(f"{e.code:#x}").inc(),
    ),
    core.SessionLeaving: row(
        core.SessionLeaving,
        "info",
        "session leaving",
        lambda _names, e: {"session": e.session, "by_peer": e.by_peer},
    ),
    core.NamespaceAdded: row(
        core.NamespaceAdded,
        "info",
        "namespace published",
        lambda names, e: {"session": e.session, "namespace": names.logged(e.namespace)},
    ),
    core.NamespaceGone: row(
        core.NamespaceGone,
        "info",
        "namespace gone",
        lambda names, e: {"session": e.session, "namespace": names.logged(e.namespace)},
    ),
    core.PrefixAdded: row(
        core.PrefixAdded,
        "info",
        "prefix subscribed",
        lambda names, e: {
            "session": e.session,
            "prefix": names.logged(e.prefix),
            "namespaces": e.namespaces,
            "tracks": e.tracks,
            "top_n": e.top_n,
        },
    ),
    core.PrefixGone: row(
        core.PrefixGone,
        "info",
        "prefix gone",
        lambda names, e: {"session": e.session, "prefix": names.logged(e.prefix)},
    ),
    core.TrackAdded: row(
        core.TrackAdded,
        "info",
        "track added",
        lambda names, e: {"track": names.logged(e.track), "number": e.number},
    ),
    core.TrackRemoved: row(
        core.TrackRemoved,
        "info",
        "track removed",
        lambda names, e: {"track": names.logged(e.track), "number": e.number},
    ),
    core.PublisherAdded: row(
        core.PublisherAdded,
        "info",
        "publisher added",
        lambda names, e: {
            "session": e.session,
            "track": names.logged(e.track),
            "pushed": e.pushed,
        },
        lambda m, _e: m.publishers.inc(),
    ),
    core.PublisherGone: row(
        core.PublisherGone,
        "info",
        "publisher gone",
        lambda names, e: {
            "session": e.session,
            "track": names.logged(e.track),
            "reason": e.reason,
        },
    ),
    core.SubscriberAdded: row(
        core.SubscriberAdded,
        "debug",
        "subscriber added",
        lambda names, e: {
            "session": e.session,
            "request": e.request_id,
            "track": names.logged(e.track),
            "pushed": e.pushed,
        },
        lambda m, _e: m.subscribers.inc(),
    ),
    core.SubscriberGone: row(
        core.SubscriberGone,
        "debug",
        "subscriber gone",
        lambda names, e: {
            "session": e.session,
            "request": e.request_id,
            "track": names.logged(e.track),
            "reason": e.reason,
            **_delivered(e.counters),
        },
    ),
    core.RequestDenied: row(
        core.RequestDenied,
        "info",
        "request denied",
        lambda _names, e: {
            "session": e.session,
            "request": e.request_id,
            "kind": _kind_name(e),
            "code": e.code,
            "reason": e.reason,
        },
        lambda m, e: m.requests_denied.labels(_kind_name(e), f"{e.code:#x}").inc(),
    ),
    core.FetchServed: row(
        core.FetchServed,
        "debug",
        "fetch served from the cache",
        lambda names, e: {
            "session": e.session,
            "track": names.logged(e.track),
            "complete": e.complete,
        },
        lambda m, _e: m.fetches.labels("served").inc(),
    ),
    core.FetchRelayed: row(
        core.FetchRelayed,
        "debug",
        "fetch relayed",
        lambda names, e: {
            "session": e.session,
            "track": names.logged(e.track),
            "publisher": e.publisher,
        },
        lambda m, _e: m.fetches.labels("relayed").inc(),
    ),
    core.FetchFailed: row(
        core.FetchFailed,
        "info",
        "fetch failed",
        lambda names, e: {
            "session": e.session,
            "track": names.logged(e.track),
            "reason": e.reason,
        },
        lambda m, _e: m.fetches.labels("failed").inc(),
    ),
    core.ReportsRefused: row(
        core.ReportsRefused,
        "info",
        "reports of a player refused",
        lambda _names, e: {
            "session": e.session,
            "kind": e.kind,
            "reason": e.reason,
            "count": e.count,
        },
        lambda m, e: m.reports_refused.labels(e.kind).inc(e.count),
        about=lambda e: e.session,
    ),
}


def _delivered(counters: SubscriptionCounters) -> Fields:
    return {
        "objects": counters.objects,
        "bytes": counters.bytes,
        "dropped_streams": counters.dropped_streams,
        "dropped_datagrams": counters.dropped_datagrams,
    }


def _prefix(info: SessionInfo) -> str | None:
    try:
        return address_prefix(host_of(info))
    except TextFormError:
        return None


def host_of(info: SessionInfo) -> str:
    """Return the host of a session's address, without its port."""
    return info.peer_address.rpartition(":")[0].strip("[]")


class EdgeObserver(TableObserver[core.RelayEvent]):
    """Passes the Edge's events to logs, telemetry and metrics."""

    def __init__(
        self,
        logger: Logger,
        names: Names,
        metrics: Metrics,
        telemetry: TelemetryWriter | None = None,
    ) -> None:
        super().__init__(_TABLE, logger, names, metrics, telemetry)

    def body(self, now: float, event: core.RelayEvent, carried: Carried) -> Body | None:
        """Return the record of a session that begins or ends."""
        if isinstance(event, core.SessionOpened):
            self.opened(now, event.session)
            return SessionOpen(
                session_id=str(event.session),
                kind="client",
                direction="in",
                alpn="h3" if event.info.webtransport else event.info.draft.alpn,
                handshake_ms=0.0,
                draft=int(event.info.draft.alpn.rpartition("-")[2]),
                addr_prefix=_prefix(event.info),
            )
        if isinstance(event, core.SessionClosed):
            return self.closed(
                now,
                event.session,
                str(event.session),
                "client",
                carried,
                code=event.code,
                reason=event.reason,
                by_peer=event.by_peer,
            )
        return None
