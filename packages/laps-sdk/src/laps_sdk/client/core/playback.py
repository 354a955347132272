"""The state of a playback and its records for the relay.

::

    started, stalled, resumed, failed --> a record at once   \
    measured, missed ---------------------------------------- > taken together, 16 at most
    the interval -----------------------> a record           /

Counters run from the begin of the playback, so that a lost record matters little. Time is an
argument: ``now`` is a monotonic clock, ``wall`` the time of the record.
"""

from __future__ import annotations

from collections import deque
from math import isnan
from typing import Final

from laps_wire.errors import EncodeError, StateError
from laps_wire.reports import (
    EVENT_ERROR,
    EVENT_INTERVAL,
    EVENT_STATE,
    MAX_RECORDS,
    STATES,
    PlayerReport,
    encode_reports,
)

__all__ = ["LONGEST", "Playback"]

LONGEST: Final = 86_400.0
"""The longest time in a record, in seconds; longer times are cut to it."""
_FAST: Final = 10_000_000
_MOST_GAPS: Final = 1_000_000_000
_MOST_STALLS: Final = 1_000_000


class Playback:
    """One playback: its state, its counters and its queued records."""

    __slots__ = (
        "_asked",
        "_bitrate",
        "_buffer",
        "_content",
        "_ended_stalls",
        "_gaps",
        "_latency",
        "_rate",
        "_sequence",
        "_stalled",
        "_stalls",
        "_startup",
        "_starved",
        "_waiting",
        "dropped",
        "ended",
        "session",
        "stalled_since",
        "state",
    )

    def __init__(self, session: str, content: str | None = None) -> None:
        # Check now: later errors are not reported.
        encode_reports([PlayerReport(at_ms=0, session=session, content=content)])
        self.session = session
        self._content = content
        self.state = "s"
        self.ended = False
        self.stalled_since: float | None = None
        self.dropped = 0
        """Records that were dropped because the queue was full."""
        self._waiting: deque[PlayerReport] = deque()
        self._sequence = 0
        self._buffer: int | None = None
        self._latency: int | None = None
        self._bitrate: int | None = None
        self._asked: int | None = None
        self._rate: float | None = None
        self._startup: int | None = None
        self._starved = False
        self._stalls = self._stalled = self._ended_stalls = self._gaps = 0

    # What happens

    def started(self, now: float, wall: float, startup: float) -> None:
        """Record the first frame and the startup time in seconds."""
        self._startup = _ms(startup, 3600.0)
        self._become(now, wall, "p")

    def measured(
        self,
        *,
        buffer: float | None = None,
        latency: float | None = None,
        bitrate: float | None = None,
        asked: float | None = None,
        rate: float | None = None,
    ) -> None:
        """Set measurements, in seconds and bits per second; None keeps the value."""
        if buffer is not None:
            self._buffer = _ms(buffer)
        if latency is not None:
            self._latency = _ms(latency)
        if bitrate is not None:
            self._bitrate = _clip(bitrate / 1000, _FAST)
        if asked is not None:
            self._asked = _clip(asked / 1000, _FAST)
        if rate is not None:
            self._rate = 0.0 if isnan(rate) else min(max(float(rate), 0.0), 100.0)

    def missed(self, objects: int) -> None:
        """Count missing objects."""
        self._gaps = min(self._gaps + max(0, objects), _MOST_GAPS)

    def stalled(self, now: float, wall: float) -> None:
        """Record the begin of a stall; ignored during a stall."""
        if self.stalled_since is not None:
            return
        self.stalled_since = now
        self._starved = True
        self._stalls = min(self._stalls + 1, _MOST_STALLS)
        self._become(now, wall, "r")

    def resumed(self, now: float, wall: float) -> None:
        """Record the end of a stall."""
        if self._stop_stall(now):
            self._become(now, wall, "p")

    def become(self, now: float, wall: float, state: str) -> None:
        """Record a state of CMCD; any state but a stall ends a stall."""
        if state not in STATES:
            raise EncodeError(f"state {state!r}: must be one of {' '.join(sorted(STATES))}")
        if state == "r":
            self.stalled(now, wall)
        elif state != self.state:
            self._stop_stall(now)
            self._become(now, wall, state)

    def failed(self, now: float, wall: float, code: str, *, fatal: bool) -> None:
        """Record an error; ``code`` is a word of the player."""
        if fatal:
            self._stop_stall(now)
            self.state = "f"
        try:
            self._record(now, wall, EVENT_ERROR, (code,))
        except EncodeError:
            raise EncodeError(
                f"code {code!r}: wants 1 to 32 letters, digits and . _ : -, such as 'decode'"
            ) from None

    def end(self, now: float, wall: float) -> None:
        """End the playback, with a last record unless its state is final already."""
        if self.ended:
            raise StateError("the playback has ended")
        if self.state not in "efq":
            self.become(now, wall, "q")
        self.ended = True

    def _stop_stall(self, now: float) -> bool:
        since, self.stalled_since = self.stalled_since, None
        if since is None:
            return False
        took = _ms(now - since)
        self._stalled += took
        self._ended_stalls += took
        return True

    def _become(self, now: float, wall: float, state: str) -> None:
        self.state = state
        self._record(now, wall, EVENT_STATE)

    # Records

    def tick(self, now: float, wall: float) -> None:
        """Queue a record at the end of an interval."""
        self._record(now, wall, EVENT_INTERVAL)

    def _record(self, now: float, wall: float, event: str, errors: tuple[str, ...] = ()) -> None:
        running = 0 if self.stalled_since is None else _ms(now - self.stalled_since)
        report = PlayerReport(
            at_ms=max(0, int(wall * 1000)),
            event=event,
            session=self.session,
            content=self._content,
            sequence=self._sequence,
            state=self.state,
            buffer_ms=self._buffer,
            latency_ms=self._latency,
            startup_ms=self._startup,
            bitrate_kbps=self._bitrate,
            asked_kbps=self._asked,
            rate=self._rate,
            starved=self._starved or self.stalled_since is not None,
            stall_ms=_clip(self._ended_stalls, int(LONGEST * 1000)) or None,
            stalled_ms=_clip(self._stalled + running, int(LONGEST * 7000)),
            stalls=self._stalls,
            gaps=self._gaps,
            errors=errors,
        )
        encode_reports([report])
        self._sequence += 1
        self._startup = None
        self._starved = False
        self._ended_stalls = 0
        if len(self._waiting) >= MAX_RECORDS:
            self._forget()
        self._waiting.append(report)

    def _forget(self) -> None:
        """Drop the oldest interval record, or else the oldest event record."""
        self.dropped += 1
        for index, report in enumerate(self._waiting):
            if report.event == EVENT_INTERVAL and report.startup_ms is None:
                del self._waiting[index]
                return
        self._waiting.popleft()

    @property
    def waiting(self) -> int:
        """The number of queued records."""
        return len(self._waiting)

    def take(self) -> bytes | None:
        """Return the next object with as many records as fit; None without records."""
        taken: list[PlayerReport] = []
        data: bytes | None = None
        while self._waiting:
            try:
                data = encode_reports([*taken, self._waiting[0]])
            except EncodeError:
                break  # full
            taken.append(self._waiting.popleft())
        return data


def _clip(value: float, most: int) -> int:
    # What is no number is no reason to stop a player.
    return 0 if isnan(value) else int(min(max(value, 0), most))


def _ms(seconds: float, most: float = LONGEST) -> int:
    return _clip(seconds * 1000, int(most * 1000))
