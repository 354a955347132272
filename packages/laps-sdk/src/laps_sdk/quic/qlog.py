"""qlog files: one for each sampled connection, written when the connection ends.

Both libraries ask the logger in their configuration for a trace when a connection begins. They hand
the trace back when the connection ends. :class:`QlogWriter` is that logger::

    library --start_trace--> QlogWriter --sampled?--> trace, or None: nothing is recorded
    library --end_trace----> QlogWriter --> <first destination id>_<role>.qlog
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from laps_wire.errors import LocalError

__all__ = ["MAX_EVENTS", "QlogError", "QlogWriter", "Trace", "TraceFactory"]

MAX_EVENTS: Final = 100_000
"""The most events that one trace keeps; a longer connection keeps its newest ones."""
_QLOG_VERSION: Final = "0.3"


class QlogError(LocalError, ValueError):
    """The directory for qlog files cannot be used."""


class Trace(Protocol):
    """A trace of one connection: ``QuicLoggerTrace`` of aioquic, or that of qh3."""

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as a JSON object of qlog."""


TraceFactory: TypeAlias = Callable[[bool, bytes], Trace]
"""Begins a trace; called with ``is_client`` and the connection's first destination id."""


class QlogWriter:
    """Samples connections and writes their traces: ``<first destination id>_<role>.qlog``."""

    __slots__ = ("_directory", "_factory", "_threshold", "failed", "last_error", "written")

    def __init__(self, directory: str, sample: float, factory: TraceFactory) -> None:
        if not 0.0 <= sample <= 1.0:
            raise QlogError(f"qlog_sample is {sample}; it is a share from 0 to 1")
        self._directory = Path(directory)
        self._factory = factory
        self._threshold = int(sample * 2**64)
        self.written = 0
        self.failed = 0
        """Traces that could not be written; ``last_error`` has the last reason."""
        self.last_error = ""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            probe = self._directory / ".laps-qlog-probe"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise QlogError(
                f"qlog directory {directory}: cannot be written to: {error.strerror}"
            ) from error

    def sampled(self, odcid: bytes) -> bool:
        """Return whether a connection gets a file; both of its ends choose alike."""
        # A client picks its first destination id, so it is hashed: it cannot pick a file too.
        return int.from_bytes(hashlib.sha256(odcid).digest()[:8]) < self._threshold

    # Called by the libraries.

    def start_trace(self, is_client: bool, odcid: bytes) -> Trace | None:
        """Begin a trace; return None if the connection is not sampled."""
        return self._factory(is_client, odcid) if self.sampled(odcid) else None

    def end_trace(self, trace: Trace) -> None:
        """Write a trace. A failed write is counted, so that it ends no other connection."""
        content = trace.to_dict()
        name = f"{content['common_fields']['ODCID']}_{content['vantage_point']['type']}.qlog"
        document = {"qlog_format": "JSON", "qlog_version": _QLOG_VERSION, "traces": [content]}
        try:
            with (self._directory / name).open("w", encoding="utf-8") as file:
                json.dump(document, file)
        except OSError as error:
            self.failed += 1
            self.last_error = f"qlog file {name}: {error.strerror}"
        else:
            self.written += 1
