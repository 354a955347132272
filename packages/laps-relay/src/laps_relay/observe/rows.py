"""How one kind of event is shown: level, words, fields, and what is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from laps_relay.observe.metrics import Metrics
from laps_relay.observe.names import Names

__all__ = ["Fields", "Row", "row"]

_E = TypeVar("_E")
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """How one kind of event is shown."""

    level: str
    words: str
    fields: Callable[[Names, Any], Fields]
    count: Callable[[Metrics, Any], None] | None = None


def row(
    _kind: type[_E],
    level: str,
    words: str,
    fields: Callable[[Names, _E], Fields],
    count: Callable[[Metrics, _E], None] | None = None,
) -> Row:
    """Ties the two functions to the event's own type."""
    return Row(
        level,
        words,
        cast("Callable[[Names, Any], Fields]", fields),
        cast("Callable[[Metrics, Any], None] | None", count),
    )
