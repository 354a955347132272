"""mlog: qlog files of MoQT sessions, in the format of draft-pardue-moq-qlog-moq-events.

A thread writes one file for each sampled session when the session ends. The file holds the control
messages of the client, as parsed, and how the session ended. It holds no objects and no messages of
the relay, because tracing must not slow the hot path, and no tokens.

Names are not hashed: set ``observe.mlog_dir`` only where that is allowed.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from laps_sdk.edge.relay import EdgeRelay
from laps_wire.moqt import session as wire
from laps_wire.moqt.session import AuthToken
from laps_wire.moqt.structures import Token
from laps_wire.names import FullTrackName, Namespace
from laps_wire.telemetry import safe_text

__all__ = ["MAX_EVENTS", "MlogCounters", "MlogWriter", "TracedRelay"]

MAX_EVENTS: Final = 10_000
"""Events that are kept for one session; of a longer session the newest."""
_SCHEMA: Final = "urn:ietf:params:qlog:events:moqt-00"
_MAX_TEXT: Final = 1024


class MlogCounters(NamedTuple):
    """Traces that were written, and traces that were lost."""

    written: int
    failed: int
    last_error: str


class MlogWriter:
    """Collects the events of sampled sessions, and writes them when the sessions end."""

    def __init__(self, directory: Path, sample: float, *, boot: int) -> None:
        """Raises ``OSError`` if the directory cannot be made."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._threshold = int(sample * 2**64)
        self._boot = boot
        self._events: dict[int, deque[Mapping[str, Any]]] = {}
        self._began: dict[int, float] = {}
        # One thread: files are written one after the other, and never by the loop.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="laps-mlog")
        self._written = self._failed = 0
        self._error = ""

    @property
    def counters(self) -> MlogCounters:
        """The counters of this moment."""
        return MlogCounters(self._written, self._failed, self._error)

    def session_event(self, now: float, number: int, event: wire.Event) -> None:
        """Add a parsed event of a session; its SETUP begins the trace."""
        if isinstance(event, wire.SetupReceived) and self._is_sampled(number):
            self._events[number] = deque(maxlen=MAX_EVENTS)
            self._began[number] = now
        kept = self._events.get(number)
        if kept is None:
            return
        name, data = _described(event)
        kept.append({"time": (now - self._began[number]) * 1000.0, "name": name, "data": data})

    def session_over(self, number: int) -> None:
        """Write a session's file."""
        kept = self._events.pop(number, None)
        if kept is not None:
            began = self._began.pop(number)
            self._pool.submit(self._write, number, began, list(kept))

    def close(self) -> None:
        """Write all open traces and wait for it."""
        for number in list(self._events):
            self.session_over(number)
        self._pool.shutdown()

    def _is_sampled(self, number: int) -> bool:
        digest = blake2b(f"{self._boot}:{number}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self._threshold

    def _write(self, number: int, began: float, events: list[Mapping[str, Any]]) -> None:
        stem = f"{self._boot}-{number}_server"
        document = {
            "file_schema": "urn:ietf:params:qlog:file:contained",
            "serialization_format": "application/qlog+json",
            "title": "MoQT session at a LAPS relay",
            "traces": [
                {
                    "common_fields": {
                        "group_id": f"{self._boot}-{number}",
                        "time_format": "relative_to_epoch",
                        "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
                    },
                    "vantage_point": {"type": "server"},
                    "event_schemas": [_SCHEMA],
                    "description": f"began at {began:.6f} s of the relay's clock",
                    "events": events,
                }
            ],
        }
        path = self._directory / f"{stem}.qlog"
        beside = self._directory / f".{stem}.part"
        try:
            beside.write_text(json.dumps(document), encoding="utf-8")
            beside.replace(path)
            self._written += 1
        except OSError as error:
            self._failed += 1
            self._error = f"{self._directory}: {error.strerror or error}"


class TracedRelay(EdgeRelay):
    """A control plane that traces the events of its sessions."""

    __slots__ = ("trace", "trace_end")

    trace: Callable[[float, int, wire.Event], None]
    trace_end: Callable[[int], None]

    def handle_session_event(self, now: float, session: int, event: wire.Event) -> None:
        """Trace the event, then handle it."""
        self.trace(now, session, event)
        super().handle_session_event(now, session, event)

    def remove_session(self, now: float, session: int) -> None:
        """Remove the session, then end its trace."""
        super().remove_session(now, session)
        self.trace_end(session)


def _described(event: wire.Event) -> tuple[str, dict[str, Any]]:
    """Return the name and the data of an event."""
    message = getattr(event, "message", None)
    if message is not None:
        return "moqt:control_message_parsed", {
            "message": {"type": _snake(type(message).__name__), **_fields(message)}
        }
    if isinstance(event, wire.SetupReceived):
        return "moqt:control_message_parsed", {
            "message": {"type": "client_setup", **_fields(event.options)}
        }
    return f"laps:{_snake(type(event).__name__)}", _fields(event)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a message that are not empty."""
    found = {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    return {name: plain for name, plain in found.items() if plain not in (None, [], {})}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name.lower()
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Token | AuthToken):
        return "(token)"
    if isinstance(value, bytes):
        return {"value_bytes": value[:_MAX_TEXT].hex()}
    if isinstance(value, Namespace | FullTrackName):
        return str(value)
    if isinstance(value, tuple | list | frozenset):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return _fields(value)
    return safe_text(str(value), _MAX_TEXT)
