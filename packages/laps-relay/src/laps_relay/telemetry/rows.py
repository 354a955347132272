"""How one kind of event is logged, counted and recorded.

::

    event  ->  log level, words and fields  |  telemetry record or none  |  what is counted
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from laps_relay.telemetry.logs import Logger
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.names import Names
from laps_relay.telemetry.telemetry import TelemetryWriter
from laps_wire.telemetry import Body, SessionClose, safe_text

__all__ = ["MOST_LINES", "MOST_RECORDS", "Carried", "Fields", "Row", "TableObserver", "row"]

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
