"""Logging: one line for each event on standard error, and how names of tracks are shown.

Text that a peer chose (reasons, implementation strings) is escaped and shortened here, so that no
peer can forge a line or control a terminal. Warnings of libraries that use :mod:`logging` (asyncio,
uvicorn) are logged in the same form; their other lines only at the level ``debug``.

A line that cannot be written is lost: a full disk must not stop a relay.

Names in logs and telemetry are keyed hashes by default, so that they stay private. Relays with the
same key give a track the same hash. Without a configured key each start makes its own, and hashes
of different starts cannot be joined.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from hashlib import blake2b
from typing import Any, Final, Literal, TextIO, cast

import structlog

from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from laps_wire.reports import hashed_id
from laps_wire.telemetry import safe_text

__all__ = ["Logger", "Names", "configure", "set_level"]

Logger = structlog.typing.FilteringBoundLogger
Format = Literal["auto", "json", "console"]

_MAX_TEXT: Final = 512
_MAX_TRACE: Final = 8192
"""Characters of a traceback that are logged, from its end."""
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class _Output:
    """A stream that hides errors of writing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, and ignore a full disk or a closed stream."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, and ignore a full disk or a closed stream."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _Level:
    """The level of all loggers; a reload changes it while they exist."""

    now = logging.INFO


def configure(form: Format, level: str, stream: TextIO | None = None) -> Logger:
    """Set up logging and return the relay's logger."""
    out = sys.stderr if stream is None else stream
    as_json = form == "json" or (form == "auto" and not out.isatty())
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    set_level(level)
    logger = structlog.wrap_logger(
        structlog.PrintLogger(cast("TextIO", _Output(out))),
        processors=[
            _drop_below_level,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _escape,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for handler in [item for item in root.handlers if isinstance(item, _Bridge)]:
        root.removeHandler(handler)
    root.addHandler(_Bridge(logger))
    # The relay logs connections and starts itself.
    for chatty in ("uvicorn", "quic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    bound: Logger = logger
    return bound


def set_level(level: str) -> None:
    """Change the lowest level that is logged, at once."""
    _Level.now = _LEVELS[level]
    debugging = _Level.now == logging.DEBUG
    logging.getLogger().setLevel(logging.INFO if debugging else max(_Level.now, logging.WARNING))


def _drop_below_level(
    _logger: Any, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    if _LEVELS.get(method, logging.ERROR) < _Level.now:
        raise structlog.DropEvent
    return event


def _escape(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    trace = event.pop("exception", None)
    safe = {safe_text(str(name), 64): _safe(value) for name, value in event.items()}
    if trace is not None:
        safe["exception"] = safe_text(str(trace)[-_MAX_TRACE:], 2 * _MAX_TRACE)
    return safe


def _safe(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [_safe(item) for item in value]
    return safe_text(value if isinstance(value, bytes) else str(value), _MAX_TEXT)


class _Bridge(logging.Handler):
    """Passes records of :mod:`logging` to the relay's logger."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record under its library's name."""
        level = min(max(record.levelno, logging.DEBUG), logging.ERROR)
        fields: dict[str, Any] = {"library": record.name}
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        self._logger.log(level, record.getMessage(), **fields)


class Names:
    """Formats names for logs and telemetry as configured."""

    __slots__ = ("_hasher", "plain")

    def __init__(
        self,
        key: bytes | None = None,
        *,
        plain: bool = False,
        hasher: KeyedHasher | None = None,
    ) -> None:
        """``hasher`` is the network's: its relays name tracks alike without a key of their own."""
        # Any length of key will do: it is hashed to the length that the hasher takes.
        own = KeyedHasher(blake2b(key).digest() if key else os.urandom(32))
        self._hasher = own if key or hasher is None else hasher
        self.plain = plain
        """Whether logs show names as they are; telemetry never does."""

    def hashed(self, name: FullTrackName | Namespace) -> str:
        """Return 16 hex digits, as telemetry writes them."""
        if isinstance(name, FullTrackName):
            return f"{self._hasher.full_name(name.namespace.fields, name.name):016x}"
        return self._hasher.end_check(name.fields, b"").hex()[:16]

    def hashed_text(self, text: str) -> str:
        """Return the hash of an id that a player chose, such as that of its content."""
        return hashed_id(self._hasher, text)

    def logged(self, name: FullTrackName | Namespace) -> str:
        """Return the name for a log line: hashed, or plain if that is configured."""
        return str(name) if self.plain else self.hashed(name)
