"""qlog files: one for each sampled connection, written when it ends.

Both libraries ask their configuration's logger for a trace when a connection begins and hand it
back when it ends. :class:`QlogWriter` is that logger. A connection that is not sampled gets no
trace, and the library then records nothing for it.
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
"""Events that one trace keeps; of a longer connection the newest."""
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
        """Traces that could not be written; ``last_error`` says why."""
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
        """Whether a connection gets a file; both of its ends choose the same."""
        # A client picks its first destination id, so it is hashed: it cannot pick a file too.
        return int.from_bytes(hashlib.sha256(odcid).digest()[:8]) < self._threshold

    # Called by the libraries.

    def start_trace(self, is_client: bool, odcid: bytes) -> Trace | None:
        """Begin a trace, or not."""
        return self._factory(is_client, odcid) if self.sampled(odcid) else None

    def end_trace(self, trace: Trace) -> None:
        """Write a trace. A full disk must not end other connections: it is counted."""
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
