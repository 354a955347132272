"""How events are logged, counted and recorded: the observer of a table, and that of the Edge.

::

    event  ->  log level, words and fields  |  telemetry record or none  |  what is counted

:mod:`laps_relay.telemetry.network` has the table of the network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from laps_relay.telemetry.logs import Logger, Names
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.telemetry import TelemetryWriter
from laps_sdk.edge import events as core
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import SubscriptionCounters
from laps_wire.errors import TextFormError
from laps_wire.telemetry import Body, SessionClose, SessionOpen, address_prefix, safe_text

__all__ = [
    "MOST_LINES",
    "MOST_RECORDS",
    "Carried",
    "EdgeObserver",
    "Fields",
    "Row",
    "TableObserver",
    "host_of",
    "row",
]

MOST_LINES: Final = 20
"""Log lines of one kind in a minute that one peer or client can cause."""
MOST_RECORDS: Final = 600
"""Telemetry records of one kind in a minute that one peer or client can cause."""

_E = TypeVar("_E")
Fields = Mapping[str, Any]
Carried: TypeAlias = "Callable[[int], tuple[int, int]]"
"""Returns the bytes that a session received and sent."""


@dataclass(frozen=True, slots=True)
class Row:
    """How one kind of event is logged and counted."""

    level: str
    words: str
    fields: Callable[[Names, Any], Fields]
    count: Callable[[Metrics, Any], None] | None = None
    about: Callable[[Any], Hashable] | None = None
    """Returns who caused the event, if that one can cause it at will. Its log lines are limited by
    :data:`MOST_LINES`; it is counted always."""


def row(
    _kind: type[_E],
    level: str,
    words: str,
    fields: Callable[[Names, _E], Fields],
    count: Callable[[Metrics, _E], None] | None = None,
    about: Callable[[_E], Hashable] | None = None,
) -> Row:
    """Return a row whose functions take the event's own type."""
    return Row(
        level,
        words,
        cast("Callable[[Names, Any], Fields]", fields),
        cast("Callable[[Metrics, Any], None] | None", count),
        cast("Callable[[Any], Hashable] | None", about),
    )


class TableObserver(ABC, Generic[_E]):
    """Passes events of a core to logs, telemetry and metrics, as a table says."""

    def __init__(
        self,
        table: Mapping[type, Row],
        logger: Logger,
        names: Names,
        metrics: Metrics,
        telemetry: TelemetryWriter | None = None,
    ) -> None:
        self._table = table
        self._logger = logger
        self._names = names
        self._metrics = metrics
        self._telemetry = telemetry
        self._opened: dict[int, float] = {}
        self._lines: Counter[Hashable] = Counter()
        """What was logged in this minute, by kind and doer."""
        self._minute = 0

    def observe(self, now: float, events: Iterable[_E], carried: Carried) -> None:
        """Take the events of a turn."""
        for event in events:
            shown = self.shown(event)
            lines = 1 if shown.about is None else self._line(now, shown, shown.about(event))
            if lines <= MOST_LINES:
                fields = dict(shown.fields(self._names, event))
                if lines == MOST_LINES:
                    fields["more"] = "not logged in this minute"
                getattr(self._logger, shown.level)(shown.words, **fields)
            if shown.count is not None:
                shown.count(self._metrics, event)
            body = self.body(now, event, carried)
            if body is not None and lines <= MOST_RECORDS and self._telemetry is not None:
                self._telemetry.put(body)

    def shown(self, event: _E) -> Row:
        """Return how an event is logged and counted."""
        return self._table[type(event)]

    def _line(self, now: float, shown: Row, doer: Hashable) -> int:
        """Count one more line of this kind and return how many there are in this minute."""
        minute = int(now // 60)
        if minute != self._minute:
            self._minute = minute
            self._lines.clear()
        self._lines[shown.words, doer] += 1
        return self._lines[shown.words, doer]

    @abstractmethod
    def body(self, now: float, event: _E, carried: Carried) -> Body | None:
        """Return the telemetry record of an event, or None."""

    def opened(self, now: float, session: int) -> None:
        """Note when a session began."""
        self._opened[session] = now

    def closed(
        self,
        now: float,
        session: int,
        shown: str,
        kind: str,
        carried: Carried,
        *,
        code: int,
        reason: str,
        by_peer: bool,
    ) -> SessionClose:
        """Return the record of a session's end."""
        began = self._opened.pop(session, now)
        received, sent = carried(session)
        return SessionClose(
            session_id=shown,
            kind=kind,
            duration_ms=(now - began) * 1000.0,
            closed_by="remote" if by_peer else "local",
            in_bytes=received,
            out_bytes=sent,
            close_code=code,
            close_space="application",
            reason=safe_text(reason) or None,
        )


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
