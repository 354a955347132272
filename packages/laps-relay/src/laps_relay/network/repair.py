"""Repair: what a lost path took with it is sent again from the log of the o-relay (laps-2, 6.6).

::

    o-relay                                       s-relay
      log of the track                              log of the track
        | positions, twice in a hold                  ^ Writer: drops what it has
        | and when targets or paths change            |
        |-- POSITION ----------> relays ------------->| lacking: what is not here
        |<-- RESUME ------------ relays <-------------|
        |== streams, CONTINUED == to one egress set =>|
        '-- RESUME_RESPONSE ---> relays ------------->  given up: nobody has it

An s-relay asks only for what a POSITION has named, and repeats that while it is missing. So no
message needs an acknowledgement: each POSITION says all that has changed in the last holds, and
who lost one, or the answer to it, acts on the next. A relay in between keeps no state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from enum import Enum
from itertools import islice
from typing import Any, Final, TypeAlias

from laps_relay.network.nodes.nib import Nib
from laps_relay.network.origin_feeds import OriginFeeds
from laps_relay.network.sets.sets import Sets
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.subscriptions.origin_role import OriginRole
from laps_relay.peer_forwarding.forwarding import EgressSet
from laps_sdk.forwarding.interfaces import Point
from laps_sdk.peering.links import Links
from laps_sdk.timers import Timers
from laps_sdk.upstream.interfaces import RepairSide
from laps_wire.buffer import QUIC_MAX
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    Feature,
    Position,
    RepairRun,
    RepairTrack,
    Resume,
    ResumeResponse,
)
from laps_wire.peering.laps2.codepoints import MAX_BATCH, MAX_GROUPS, MAX_HOPS

__all__ = ["MAX_POINTS", "Repair", "RepairMessage", "points_of", "runs_of"]

RepairMessage: TypeAlias = Position | Resume | ResumeResponse

MAX_POINTS: Final = 4096
"""Places of one track in one message that are looked at ..."""
MAX_MESSAGE_POINTS: Final = 4 * MAX_POINTS
"""... and of all its tracks; a track counts once."""
_COVERED: Final = 4.0
"""A POSITION names what has changed in so many holds: who lost one has the next."""
BURST: Final = 500.0
"""Messages that one peer may send at once ..."""
RATE: Final = 200.0
"""... and in a second."""


def runs_of(points: Iterable[Point]) -> list[RepairRun]:
    """Return points in order as runs of groups that look alike.

    Draft 18 has larger ids than a run can hold; points with such ids are left out.
    """
    runs: list[RepairRun] = []
    last: dict[tuple[int, int, bool], int] = {}
    for group, subgroup, object_id, ended in points:
        if max(group, subgroup, object_id) > QUIC_MAX:
            continue
        shape = subgroup, object_id, ended
        at = last.get(shape)
        if at is not None:
            run = runs[at]
            if run.group + run.groups == group and run.groups < MAX_GROUPS:
                runs[at] = replace(run, groups=run.groups + 1)
                continue
        last[shape] = len(runs)
        runs.append(RepairRun(group, 1, subgroup, object_id, ended))
    return runs


def points_of(runs: Iterable[RepairRun]) -> list[Point]:
    """Return the points of some runs, at most :data:`MAX_POINTS`."""
    found = (
        Point(group, run.subgroup, run.object, run.ended)
        for run in runs
        for group in range(run.group, run.group + run.groups)
    )
    return list(islice(found, MAX_POINTS))


def _points_by_track(message: RepairMessage) -> Iterator[tuple[int, list[Point]]]:
    """Yield the tracks of a message with their points, each track once, up to the limit.

    A peer may name millions of points in one message: they are expanded only on demand.
    """
    left, seen = MAX_MESSAGE_POINTS, set[int]()
    for track in message.tracks:
        key = track.full_name_hash
        if key not in seen and left > 0:
            seen.add(key)
            points = points_of(track.runs)[:left]
            left -= len(points)
            yield key, points


def _batches(tracks: Iterable[tuple[int, list[Point]]]) -> Iterator[tuple[RepairTrack, ...]]:
    """Divide points among messages: no message has more than ``MAX_BATCH`` runs."""
    batch: list[RepairTrack] = []
    room = MAX_BATCH
    for key, points in tracks:
        runs = runs_of(points)
        while runs:
            taken, runs = runs[:room], runs[room:]
            batch.append(RepairTrack(key, tuple(taken)))
            room -= len(taken)
            if not room:
                yield tuple(batch)
                batch, room = [], MAX_BATCH
    if batch:
        yield tuple(batch)


class _Due(Enum):
    TICK = "all tracks"
    MOVED = "tracks whose targets or paths have changed"


class Repair:
    """Both ends of repair, and forwarding for other relays."""

    __slots__ = (
        "_budgets",
        "_feeds",
        "_links",
        "_local",
        "_lost_at",
        "_moved",
        "_nib",
        "_origin",
        "_send",
        "_serving",
        "_sets",
        "_settings",
        "_side",
        "_timers",
        "asked",
        "gone",
        "resumed",
    )

    def __init__(
        self,
        local: NodeId,
        settings: NetworkSettings,
        *,
        links: Links,
        nib: Nib,
        sets: Sets,
        feeds: OriginFeeds,
        origin: OriginRole,
        serving: Callable[[int], Collection[NodeId]],
        send: Callable[[float, int, Any], bool],
    ) -> None:
        """``serving`` returns the o-relays that have accepted our subscribe for a track.

        ``send`` returns whether there was a session to send a message over.
        """
        self._local = local
        self._settings = settings
        self._links = links
        self._nib = nib
        self._sets = sets
        self._feeds = feeds
        self._origin = origin
        self._serving = serving
        self._send = send
        self._side: RepairSide | None = None
        self._timers: Timers[_Due] = Timers()
        self._moved: dict[int, None] = {}
        """Tracks whose targets or paths have changed since the last POSITION."""
        self._lost_at = float("-inf")
        """When a session that brought data ended last."""
        self._budgets: dict[int, tuple[float, float]] = {}
        """By session: the messages left, and the time of that count."""
        self.asked = 0
        """Points that we asked for."""
        self.resumed = 0
        """Points that we resumed for others."""
        self.gone = 0
        """Points that others asked for and our logs do not have."""

    def attach(self, side: RepairSide) -> None:
        """Connect the logs of this relay."""
        self._side = side

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers, for one common deadline."""
        return (self._timers,)

    # The o-relay

    def targets_moved(self, now: float, key: int) -> None:
        """Tell the targets of a track soon what there is: they, or their paths, have changed."""
        if self._side is None:
            return
        self._moved[key] = None
        if self._timers.when(_Due.MOVED) is None:
            self._timers.set(_Due.MOVED, now + self._settings.batch)
        if self._timers.when(_Due.TICK) is None:
            self._timers.set(_Due.TICK, now + self._settings.hold / 2)

    def handle_timeout(self, now: float) -> None:
        """Send the POSITIONs that are due."""
        while (due := self._timers.pop(now)) is not None:
            if due is _Due.MOVED:
                moved, self._moved = self._moved, {}
                self._tell(now, moved)
            elif keys := self._feeds.keys():
                self._timers.set(_Due.TICK, now + self._settings.hold / 2)
                self._tell(now, keys)

    def _tell(self, now: float, keys: Iterable[int]) -> None:
        """Send each target of these tracks what the logs have."""
        side, since = self._side, now - _COVERED * self._settings.hold
        found: dict[NodeId, list[tuple[int, list[Point]]]] = {}
        for key in () if side is None else keys:
            targets = self._origin.targets(key) - {self._local}
            points = side.positions(key, since) if side is not None and targets else []
            if points:
                for target in sorted(targets):
                    found.setdefault(target, []).append((key, points[-MAX_POINTS:]))
        for target, tracks in found.items():
            for batch in _batches(tracks):
                self._route(now, Position(self._local, target, 0, batch))

    def _resume(self, now: float, message: Resume) -> None:
        """Send streams again to an s-relay, and tell it what is gone."""
        gone: list[tuple[int, list[Point]]] = []
        for key, points in _points_by_track(message):
            missing = self._resume_track(now, message.source, key, points)
            if missing is None:
                continue
            self.resumed += len(points) - len(missing)
            self.gone += len(missing)
            if missing:
                gone.append((key, missing))
        for batch in _batches(gone):
            self._route(now, ResumeResponse(self._local, message.source, 0, batch))

    def _resume_track(
        self, now: float, source: NodeId, key: int, points: list[Point]
    ) -> list[Point] | None:
        """Resume one track; return what is gone, or None if no path leads to the source."""
        ingress = self._feeds.ingress(key)
        if self._side is None or ingress is None or source not in self._origin.targets(key):
            return None
        egress: EgressSet | None = self._sets.egress_to(ingress, source)
        if egress is None:
            return None
        return self._side.resume_received(now, key, points, egress)

    # The s-relay

    def session_lost(self, now: float) -> None:
        """Note that a session that brought data has ended: what was on its way is lost."""
        self._lost_at = now

    def _compare(self, now: float, message: Position) -> None:
        """Ask for what the logs of an o-relay have, and ours have not."""
        hold = self._settings.hold
        lost = now - self._lost_at < 2 * hold
        due: list[tuple[int, list[Point]]] = []
        for key, points in _points_by_track(message):
            if self._side is None or message.source not in self._serving(key):
                continue
            lacking = self._side.position_received(now, key, points, hold, lost=lost)
            if lacking:
                due.append((key, lacking))
                self.asked += len(lacking)
        for batch in _batches(due):
            self._route(now, Resume(self._local, message.source, 0, batch))

    def _given_up(self, now: float, message: ResumeResponse) -> None:
        """Wait no longer for what an o-relay does not have."""
        for key, points in _points_by_track(message):
            if self._side is not None and message.source in self._serving(key):
                self._side.points_gone(now, key, points)

    # Messages

    def received(self, now: float, session: int, message: RepairMessage) -> None:
        """Handle a message of a peer: for this relay, or for another one."""
        if not self._spend(now, session):
            return  # a POSITION is repeated, and with it what follows
        if message.target != self._local:
            if message.hops < MAX_HOPS and message.source != self._local:
                parameters = message.parameters.carried()
                onward = replace(message, hops=message.hops + 1, parameters=parameters)
                self._route(now, onward, session)
            return
        match message:
            case Position():
                self._compare(now, message)
            case Resume():
                self._resume(now, message)
            case ResumeResponse():
                self._given_up(now, message)

    def session_gone(self, session: int) -> None:
        """Forget the budget of a session that has ended."""
        self._budgets.pop(session, None)

    def _spend(self, now: float, session: int) -> bool:
        left, when = self._budgets.get(session, (BURST, now))
        left = min(BURST, left + (now - when) * RATE)
        within = left >= 1
        self._budgets[session] = (left - within, now)
        return within

    def _route(self, now: float, message: RepairMessage, came_on: int | None = None) -> None:
        """Send a message to the best peer towards its target; drop it if there is none."""
        for path in self._nib.candidates(message.target):
            link = self._links.control(path.peer)
            if (
                link is not None
                and Feature.REPAIR in link.features
                and link.session != came_on
                and self._send(now, link.session, message)
            ):
                return
