"""Playback reports of players: limited, checked, and summed up in one window for each session.

::

    object of a report track --take--> rate --> codec --> plausible? --> the session's window
                                         '--------'-----------'--> refused: counted by its reason
    every sample: take_windows --> one row for each session, however many reports it sent

A player cannot report more time than has passed: its stalls count for no longer than its window was
by our clock. A second playback in a session replaces the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from laps_sdk.edge.admission import Admission
from laps_sdk.edge.authorization import Grant
from laps_sdk.edge.records import Client, Deposit, Load
from laps_sdk.edge.state import Due, State
from laps_sdk.edge.tracks import DONE_PATIENCE
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import Publish
from laps_wire.moqt.parameters import Parameters
from laps_wire.names import Namespace
from laps_wire.reports import (
    MAX_OBJECT,
    NAMESPACE,
    PlayerReport,
    ReportError,
    decode_reports,
)

__all__ = ["PlaybackReports", "PlayerWindow", "Refused", "ReportLimits", "ReportTracks"]

_SLACK: Final = 30.0
"""Seconds by which a player's sums may run ahead of our clock: its words come late."""
_GAPS: Final = 1000
"""Objects that may be missing in a second."""
_GONE: Final = 10_000
"""Windows kept of sessions that have ended since the last look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLimits:
    """Whether the relay accepts reports, in which namespace, and how many."""

    enabled: bool = False
    namespace: Namespace = NAMESPACE
    """Reserved even if reports are off: other clients must not receive data about a viewer."""
    rate: float = 1.0
    """Objects of a session in a second, over time."""
    burst: int = 20
    """Objects that it may send at once."""
    object_bytes: int = MAX_OBJECT


class Refused(NamedTuple):
    """Objects or records of a session that were refused for one reason."""

    session: int
    kind: str
    """``rate``, ``size``, ``streams``, ``form`` or ``value``."""
    reason: str
    """The reason of the last refusal; never text from the player."""
    times: int


class PlayerWindow(NamedTuple):
    """What a player reported for the time since its last window; None where it reported nothing."""

    session: int
    window: float
    """Seconds, by our clock."""
    records: int
    playback: str
    content: str | None
    state: str | None
    buffer_ms: int | None
    latency_ms: int | None
    startup_ms: int | None
    bitrate_kbps: int | None
    asked_kbps: int | None
    rate: float | None
    stalled: bool
    stall_ms: int | None
    gaps: int
    error: str | None


class _Player:
    """One session that reports."""

    __slots__ = (
        "credit",
        "credited",
        "gaps",
        "last",
        "missed",
        "records",
        "said",
        "since",
        "stall",
        "stalled",
        "started",
        "startup",
        "total",
    )

    def __init__(self, now: float, burst: float) -> None:
        self.credit = burst
        self.credited = now
        self.since = now
        """When its window began."""
        self.last: PlayerReport | None = None
        self.total: int | None = None
        """Its last sum of stalls."""
        self.missed = 0
        """Its last sum of gaps."""
        self.started = False
        """Whether its start-up was reported."""
        self._clear()

    def _clear(self) -> None:
        self.records = 0
        self.said: dict[str, object] = {}
        """The last value of each field in this window."""
        self.stall: int | None = None
        self.stalled = False
        self.gaps = 0
        self.startup: int | None = None

    # Records

    def take(self, now: float, report: PlayerReport) -> str | None:
        """Add a record to the window; return the reason if the record is implausible."""
        last = self.last
        new = last is None or last.session != report.session
        if not new and _is_behind(last, report):
            return "a sequence number that does not rise"
        # A playback that began at another relay brings sums that were reported there.
        fresh = new and not report.sequence
        total = (0 if fresh else report.stalled_ms) if new else self.total
        missed = (0 if fresh else report.gaps or 0) if new else self.missed
        stall = report.stall_ms or 0
        if report.stalled_ms is not None:
            stall = report.stalled_ms - (total or 0)
        gaps = 0 if report.gaps is None else report.gaps - missed
        if stall < 0 or gaps < 0:
            return "a sum that falls"
        elapsed = max(0.0, now - self.since)
        if (self.stall or 0) + stall > (elapsed + _SLACK) * 1000:
            return "stalls that took longer than the time that passed"
        if self.gaps + gaps > (elapsed + _SLACK) * _GAPS:
            return "more gaps than objects"
        self._add(report, stall, gaps, new=new)
        self.total = total if report.stalled_ms is None else report.stalled_ms
        self.missed = missed if report.gaps is None else report.gaps
        return None

    def _add(self, report: PlayerReport, stall: int, gaps: int, *, new: bool) -> None:
        if new:
            self.started = False
        self.last = report
        self.records += 1
        self.gaps += gaps
        if report.stalled_ms is not None or report.stall_ms is not None:
            self.stall = (self.stall or 0) + stall
        self.stalled |= bool(report.starved) or report.state == "r" or stall > 0
        if report.startup_ms is not None and not self.started:
            self.started = True
            self.startup = report.startup_ms
        for name in ("state", "buffer_ms", "latency_ms", "bitrate_kbps", "asked_kbps", "rate"):
            value = getattr(report, name)
            if value is not None:
                self.said[name] = value
        if report.errors:
            self.said["error"] = report.errors[0]

    def window(self, now: float, session: int) -> PlayerWindow | None:
        """Return the sums since the last call and reset them; None without a report."""
        last = self.last
        if not self.records or last is None:
            return None
        length = max(0.0, now - self.since)
        said: Callable[[str], object] = self.said.get
        window = PlayerWindow(
            session=session,
            window=length,
            records=self.records,
            playback=last.session,
            content=last.content,
            **{name: said(name) for name in _LAST},  # type: ignore[arg-type]
            startup_ms=self.startup,
            stalled=self.stalled,
            # A stall is never longer than the window.
            stall_ms=None if self.stall is None else min(self.stall, int(length * 1000)),
            gaps=self.gaps,
        )
        self.since = now
        self._clear()
        return window


_LAST: Final = (
    *("state", "buffer_ms", "latency_ms", "bitrate_kbps", "asked_kbps", "rate", "error"),
)


def _is_behind(last: PlayerReport | None, report: PlayerReport) -> bool:
    before = None if last is None else last.sequence
    return before is not None and report.sequence is not None and report.sequence <= before


class PlaybackReports:
    """The reports of the players of all sessions of an Edge."""

    __slots__ = ("_gone", "_players", "_taken", "limits", "refused")

    def __init__(self, limits: ReportLimits) -> None:
        self.limits = limits
        self._players: dict[int, _Player] = {}
        self._gone: list[PlayerWindow] = []
        self.refused: dict[tuple[int, str], tuple[str, int]] = {}
        """What was refused since the last :meth:`poll_refused`: reason and count."""
        self._taken = 0

    # Sessions

    def open(self, now: float, session: int) -> str | None:
        """Begin to accept reports of a session; return the reason if that is refused."""
        if not self.limits.enabled:
            return "this relay takes no reports"
        if session in self._players:
            return "a session has one track of reports"
        self._players[session] = _Player(now, self.limits.burst)
        return None

    def close(self, now: float, session: int) -> None:
        """End the reports of a session; its last window is kept until it is taken."""
        player = self._players.pop(session, None)
        window = None if player is None else player.window(now, session)
        if window is not None and len(self._gone) < _GONE:
            self._gone.append(window)

    # Objects

    def take(self, now: float, session: int, payload: bytes) -> None:
        """Decode an object of a session, and add its records to the window of the session."""
        player = self._players.get(session)
        if player is None:
            return  # it ended meanwhile
        limits = self.limits
        earned = max(0.0, now - player.credited) * limits.rate
        player.credit = min(player.credit + earned, float(limits.burst))
        player.credited = max(player.credited, now)
        if player.credit < 1:
            self.refuse(session, "rate", f"more than {limits.rate:g} objects a second")
            return
        player.credit -= 1
        if len(payload) > limits.object_bytes:
            self.refuse(session, "size", f"objects over {limits.object_bytes} bytes")
            return
        try:
            reports = decode_reports(payload)
        except ReportError as error:
            self.refuse(session, "form", str(error))
            return
        for report in reports:
            reason = player.take(now, report)
            if reason is None:
                self._taken += 1
            else:
                self.refuse(session, "value", reason)

    def refuse(self, session: int, kind: str, reason: str) -> None:
        """Count something of a session that is refused."""
        _, count = self.refused.get((session, kind), ("", 0))
        self.refused[session, kind] = reason, count + 1

    # Polls

    def poll_refused(self) -> list[Refused]:
        """Return what was refused since the last call."""
        if not self.refused:
            return []
        refused, self.refused = self.refused, {}
        return [
            Refused(session, kind, reason, count)
            for (session, kind), (reason, count) in refused.items()
        ]

    def take_windows(self, now: float) -> list[PlayerWindow]:
        """Return a window for each session that reported since the last call."""
        found, self._gone = self._gone, []
        for session, player in self._players.items():
            window = player.window(now, session)
            if window is not None:
                found.append(window)
        return found

    def take_count(self) -> int:
        """Return how many records were accepted since the last call."""
        count, self._taken = self._taken, 0
        return count


class ReportTracks:
    """The tracks on which players report to this relay.

    Their namespace is reserved. A track in it needs the grant of any PUBLISH, and goes to this
    relay alone: it is in no table of tracks, no session can subscribe to it, and the network does
    not learn of it. A relay that accepts no reports refuses such a track, so that it never becomes
    public.
    """

    __slots__ = ("_admission", "_desk", "_ending", "_state")

    def __init__(self, state: State, admission: Admission, desk: PlaybackReports | None) -> None:
        self._state = state
        self._admission = admission
        self._desk = desk
        self._ending: dict[int, Deposit] = {}
        """Behind PUBLISH_DONE, by session."""

    def reserves(self, client: Client, namespace: Namespace) -> bool:
        """Return whether a namespace is reserved for the reports of this session.

        Sessions with relays behind them do not report here: their clients report to their own
        relays.
        """
        desk = self._desk
        return (
            desk is not None
            and desk.limits.namespace.is_prefix_of(namespace)
            and not (client.info.upstream or client.info.peering)
        )

    def refuse(self, client: Client, request_id: int) -> None:
        """Reject a request about the reserved namespace that is no PUBLISH."""
        reason = "this namespace is for the reports of players"
        self._state.reject(client, request_id, RequestErrorCode.NOT_SUPPORTED, reason)

    def publish_received(self, now: float, client: Client, message: Publish, grant: Grant) -> None:
        """Accept a PUBLISH that is authorized, or reject it."""
        state, desk, request_id = self._state, self._desk, message.request_id
        if desk is None:
            raise AssertionError(message)  # nothing is reserved
        full = self._admission.full(client, Load.PUBLISHES)
        if full is not None:
            state.reject(client, request_id, RequestErrorCode.EXCESSIVE_LOAD, full, retry=1.0)
            return
        ending = self._ending.get(client.id)
        if ending is not None:
            self.gone(now, ending)  # the next playback has begun
        reason = desk.open(now, client.id)
        if reason is not None:
            state.reject(client, request_id, RequestErrorCode.NOT_SUPPORTED, reason)
            return
        expires = None if grant.expires is None else max(int((grant.expires - now) * 1000), 1)
        parameters = Parameters(forward=True, expires=expires)
        if not state.command(client, client.wire.accept, request_id, parameters):
            desk.close(now, client.id)
            return
        deposit = Deposit(
            client=client, request_id=request_id, alias=message.track_alias, grant=grant
        )
        state.add(deposit, Load.PUBLISHES)
        self._admission.hold(deposit)
        state.plane.add_intake(now, client.id, deposit.alias, desk, desk.limits.object_bytes)

    def publish_done_received(self, now: float, deposit: Deposit) -> None:
        """Wait for the last reports: the player sent PUBLISH_DONE."""
        state = self._state
        deposit.client.requests.pop(deposit.request_id, None)
        self._ending[deposit.client.id] = deposit
        delay = state.settings.done_delay * DONE_PATIENCE
        state.timers.set((Due.DONE, deposit), now + delay)

    def end(self, now: float, deposit: Deposit, code: int | None) -> None:
        """Cancel the PUBLISH of a track of reports, and remove the track."""
        client = deposit.client
        self._state.command(client, client.wire.cancel, deposit.request_id, code=code)
        self.gone(now, deposit)

    def gone(self, now: float, deposit: Deposit) -> None:
        """Remove a track of reports."""
        state, session = self._state, deposit.client.id
        state.drop(deposit, Load.PUBLISHES)
        state.plane.remove_intake(session, deposit.alias)
        self.session_left(now, session)

    def session_left(self, now: float, session: int) -> None:
        """End the reports of a session."""
        self._ending.pop(session, None)
        if self._desk is not None:
            self._desk.close(now, session)
