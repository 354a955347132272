"""What all parts of the control plane share: the tables, the plane, timers, events, commands.

The parts know each other through it::

    relay       dispatches events, notices and timers
    spaces      namespaces and prefixes          receivers   who receives a track
    sources     who feeds a track                fetches     FETCH and TRACK_STATUS
    grants      who may do what, and how long
    context     tables, commands to sessions     this module
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

from laps_relay.core.control.codes import request_code, shorten
from laps_relay.core.control.events import RelayEvent, RequestDenied, TrackAdded, TrackRemoved
from laps_relay.core.control.records import (
    Client,
    Load,
    Offer,
    Receiver,
    Record,
    Stage,
    Track,
    Watch,
)
from laps_relay.core.control.settings import EdgeSettings
from laps_relay.core.control.timers import Timers
from laps_relay.core.control.tree import NamespaceTree
from laps_relay.core.interfaces import ForwardingPlane
from laps_wire.errors import LocalError
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.session.ids import RequestsBlockedError
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName, Namespace

if TYPE_CHECKING:
    from laps_relay.core.control.fetches import Fetches
    from laps_relay.core.control.grants import Grants
    from laps_relay.core.control.receivers import Receivers
    from laps_relay.core.control.sources import Sources
    from laps_relay.core.control.spaces import Spaces

__all__ = ["Asked", "Context", "Due"]

P = ParamSpec("P")


class Due(Enum):
    """What a timer is for; its key is (this, the record)."""

    EXPIRY = "a grant ends"
    PATIENCE = "a SUBSCRIBE waited long enough"
    ANSWER = "a publisher should have answered"
    LINGER = "an upstream subscription has had no subscriber for a while"
    DONE = "streams behind PUBLISH_DONE should have arrived"
    FINISH = "a track that ended is done"
    FORGET = "a cache without a publisher is let go"
    FILL = "a FETCH waited long enough for a publisher"
    GOAWAY = "a session should have left"


class Asked(NamedTuple):
    """What became of a request of ours."""

    request_id: int | None
    blocked: bool = False
    """Whether it will be tried again when the peer allows more requests."""


class Context:
    """Tables and tools."""

    __slots__ = (
        "clients",
        "dirty",
        "draining",
        "events",
        "fetches",
        "grants",
        "next_track",
        "offers",
        "plane",
        "receivers",
        "settings",
        "sources",
        "spaces",
        "stale",
        "subscriptions",
        "timers",
        "track_tree",
        "tracks",
        "tracks_by_name",
        "watches",
    )

    grants: Grants
    sources: Sources
    receivers: Receivers
    spaces: Spaces
    fetches: Fetches

    def __init__(self, plane: ForwardingPlane, settings: EdgeSettings) -> None:
        self.plane = plane
        self.settings = settings
        self.timers: Timers[tuple[Due, object]] = Timers()
        self.events: list[RelayEvent] = []
        self.dirty: dict[int, None] = {}
        self.draining: str | None = None
        """Where clients shall go, once :meth:`EdgeRelay.drain` was called."""
        self.clients: dict[int, Client] = {}
        self.tracks: dict[int, Track] = {}
        """All tracks, by number."""
        self.tracks_by_name: dict[FullTrackName, Track] = {}
        """Those that have publishers, or receivers that wait for one."""
        self.stale: dict[FullTrackName, Track] = {}
        """Those of which only the cache is left."""
        self.track_tree: NamespaceTree[Track] = NamespaceTree()
        """Tracks that somebody PUBLISHed, by namespace."""
        self.offers: NamespaceTree[Offer] = NamespaceTree()
        self.watches: NamespaceTree[Watch] = NamespaceTree()
        self.subscriptions = 0
        """Receivers of all sessions."""
        self.next_track = 1

    # Commands to sessions

    def tell(
        self, client: Client, command: Callable[P, object], *args: P.args, **kwargs: P.kwargs
    ) -> bool:
        """Give a session a command; False if its state does not allow it (any more).

        That is no fault: the peer may have ended the request, or its session, a moment ago.
        """
        if client.closed:
            return False
        self.dirty[client.id] = None
        try:
            command(*args, **kwargs)
        except LocalError:
            return False
        return True

    def ask(
        self,
        client: Client,
        retry: Callable[[float], None],
        command: Callable[P, int],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Asked:
        """Make a request of ours; ``retry`` is called when one that was blocked can be made."""
        if client.closed or not client.ready:
            return Asked(None)
        self.dirty[client.id] = None
        try:
            return Asked(command(*args, **kwargs))
        except RequestsBlockedError:
            if len(client.blocked) >= self.settings.session_blocked:
                return Asked(None)
            client.blocked.append(retry)
            return Asked(None, blocked=True)
        except LocalError:
            return Asked(None)

    def reject(
        self,
        client: Client,
        request_id: int,
        code: RequestErrorCode,
        reason: str,
        *,
        retry: float | None = None,
    ) -> None:
        """Say REQUEST_ERROR; ``retry`` is after how many seconds another try makes sense."""
        number = request_code(client.draft, code)
        kind = client.wire.request_kind(request_id)
        interval = 0 if retry is None else int(retry * 1000) + 1
        if self.tell(
            client,
            client.wire.reject,
            request_id,
            number,
            shorten(reason),
            retry_interval=interval,
        ):
            self.events.append(
                RequestDenied(
                    session=client.id,
                    request_id=request_id,
                    kind=kind,
                    code=number,
                    reason=reason,
                )
            )

    # Admission

    def overloaded(
        self, now: float, client: Client, name: Namespace | FullTrackName | None
    ) -> tuple[str, float] | None:
        """Why a session may not make another request now, and when it may; None if it may."""
        settings = self.settings
        earned = (now - client.credited) * settings.request_rate
        client.credit = min(client.credit + earned, settings.request_burst)
        client.credited = now
        if client.credit < 1:
            return "too many requests at once", (1 - client.credit) / settings.request_rate
        client.credit -= 1
        if name is not None and name.size > settings.name_bytes:
            return f"names are limited to {settings.name_bytes} bytes here", 0.0
        return None

    def full(self, client: Client, load: Load) -> str | None:
        """Which cap forbids one more of something; None if none does."""
        settings = self.settings
        caps = {
            Load.SUBSCRIPTIONS: settings.session_subscriptions,
            Load.PUBLISHES: settings.session_publishes,
            Load.NAMESPACES: settings.session_namespaces,
            Load.PREFIXES: settings.session_prefixes,
            Load.FETCHES: settings.session_fetches,
            Load.OFFERS: settings.session_offers,
        }
        if client.load[load] >= caps[load]:
            return f"a session may have {caps[load]} {load.value}"
        if load in (Load.SUBSCRIPTIONS, Load.OFFERS):
            if self.subscriptions >= settings.max_subscriptions:
                return "the relay has as many subscriptions as it can"
        elif load is Load.NAMESPACES and len(self.offers) >= settings.max_namespaces:
            return "the relay has as many namespaces as it can"
        return None

    # Records

    def add(self, record: Record, load: Load | None) -> None:
        """Put a record into its session's table."""
        client = record.client
        if record.request_id is not None:
            client.requests[record.request_id] = record
        if load is not None:
            client.load[load] += 1
        if isinstance(record, Receiver):
            record.track.receivers[record.subscription] = record
            self.subscriptions += 1

    def drop(self, record: Record, load: Load | None) -> None:
        """Take it out, with its timers."""
        client = record.client
        if record.request_id is not None:
            client.requests.pop(record.request_id, None)
        if load is not None:
            client.load[load] -= 1
        if isinstance(record, Receiver):
            del record.track.receivers[record.subscription]
            self.subscriptions -= 1
        for due in (Due.EXPIRY, Due.PATIENCE, Due.ANSWER, Due.DONE, Due.FILL):
            self.timers.cancel((due, record))

    # Tracks

    def track(self, now: float, name: FullTrackName) -> Track | None:
        """The track of this name for a publisher or a subscriber; None if there is no room."""
        track = self.tracks_by_name.get(name)
        if track is None:
            if not self._room(now):
                return None
            track = Track(number=self.next_track, name=name)
            self.next_track += 1
            self.tracks[track.number] = track
            self.tracks_by_name[name] = track
        return track

    def _room(self, now: float) -> bool:
        """Whether one more track fits; caches that nobody feeds make room."""
        while len(self.tracks) >= self.settings.max_tracks:
            oldest = next(iter(self.stale.values()), None)
            if oldest is None:
                return False
            self.forget(now, oldest)
        return True

    def install(self, track: Track) -> None:
        """Let the plane know a track, before anything else about it."""
        if track.installed:
            return
        milliseconds = track.facts.max_cache_duration
        max_age = None if milliseconds is None else milliseconds / 1000
        self.plane.add_track(track.number, track.name, max_age=max_age)
        track.installed = True
        self.events.append(TrackAdded(track=track.name, number=track.number))

    def renew(self, now: float, track: Track) -> None:
        """A track without a publisher gets one: forget what an earlier one published.

        A publisher that comes back may count its groups from 0 again, and all of them would look
        like old ones. Receivers that are still there bind the track to its past.
        """
        stale = self.stale.get(track.name)
        if stale is not None:
            self.forget(now, stale)
        bound = any(receiver.stage is Stage.ESTABLISHED for receiver in track.receivers.values())
        if bound or not track.installed:
            return
        self._uninstall(now, track)
        track.number = self.next_track
        self.next_track += 1
        self.tracks[track.number] = track
        track.hint = track.final = track.group_asked = track.rank = None
        track.ranked = False

    def _uninstall(self, now: float, track: Track) -> None:
        for job in list(track.fetches):
            self.fetches.fail(now, job, RequestErrorCode.DOES_NOT_EXIST, "the track is gone")
        del self.tracks[track.number]
        for due in (Due.LINGER, Due.FINISH, Due.FORGET):
            self.timers.cancel((due, track))
        if track.installed:
            track.installed = False
            self.plane.remove_track(now, track.number)
            self.events.append(TrackRemoved(track=track.name, number=track.number))

    def forget(self, now: float, track: Track) -> None:
        """Forget a track that nobody feeds or receives."""
        if self.tracks.get(track.number) is not track:
            return
        self._uninstall(now, track)
        if self.tracks_by_name.get(track.name) is track:
            del self.tracks_by_name[track.name]
        if self.stale.get(track.name) is track:
            del self.stale[track.name]

    def largest(self, track: Track) -> Location | None:
        """The largest location that is known of a track."""
        seen = self.plane.largest(track.number) if track.installed else None
        if seen is None or track.hint is None:
            return seen or track.hint
        return max(seen, track.hint)
