"""All tracks: how one comes to be known, and when it is forgotten.

::

    wanted or published --> live --its last source is gone--> stale: only its cache is left
                              |                                  |
                              '--no cache, or nobody fed it------'--> forgotten

A track number is never used twice; the number is also the alias that receivers know.
"""

from __future__ import annotations

from laps_sdk.edge.context import Context, Due
from laps_sdk.edge.events import TrackAdded, TrackRemoved
from laps_sdk.edge.records import Stage, Track
from laps_sdk.edge.tree import NamespaceTree
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName

__all__ = ["Tracks"]


class Tracks:
    """The table of tracks."""

    __slots__ = ("_context", "_next", "by_name", "by_number", "stale", "tree")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next = 1
        self.by_number: dict[int, Track] = {}
        """All of them."""
        self.by_name: dict[FullTrackName, Track] = {}
        """Those that have publishers, or receivers that wait for one."""
        self.stale: dict[FullTrackName, Track] = {}
        """Those of which only the cache is left, oldest first."""
        self.tree: NamespaceTree[Track] = NamespaceTree()
        """Those of ``by_name``, by namespace."""

    def get(self, number: int) -> Track | None:
        """The track with this number."""
        return self.by_number.get(number)

    def open(self, now: float, name: FullTrackName) -> Track | None:
        """The track of this name for a publisher or a subscriber; None if there is no room."""
        track = self.by_name.get(name)
        if track is None:
            if not self._room(now):
                return None
            track = Track(number=0, name=name)
            self._number(track)
            self.by_name[name] = track
            self.tree.add(name.namespace, track)
        return track

    def _number(self, track: Track) -> None:
        track.number = self._next
        self._next += 1
        self.by_number[track.number] = track

    def _room(self, now: float) -> bool:
        """Whether one more track fits; caches that nobody feeds make room."""
        while len(self.by_number) >= self._context.settings.max_tracks:
            oldest = next(iter(self.stale.values()), None)
            if oldest is None:
                return False
            self.forget(now, oldest)
        return True

    def known(self, name: FullTrackName) -> Track | None:
        """The track of this name that has objects: a live one, or what is left of one."""
        track = self.by_name.get(name)
        if track is not None and track.installed:
            return track
        return self.stale.get(name, track)

    def largest(self, track: Track) -> Location | None:
        """The largest location that is known of a track."""
        seen = self._context.plane.largest(track.number) if track.installed else None
        if seen is None or track.hint is None:
            return seen or track.hint
        return max(seen, track.hint)

    # In the forwarding plane

    def install(self, track: Track) -> None:
        """Let the plane know a track, before anything else about it."""
        if track.installed:
            return
        context = self._context
        milliseconds = track.facts.max_cache_duration
        max_age = None if milliseconds is None else milliseconds / 1000
        context.plane.add_track(track.number, track.name, max_age=max_age)
        track.installed = True
        context.events.append(TrackAdded(track=track.name, number=track.number))

    def _uninstall(self, now: float, track: Track) -> None:
        context = self._context
        del self.by_number[track.number]
        for job in list(track.fetches):
            reason = "the track is gone"
            context.fetches.fail(now, job, RequestErrorCode.DOES_NOT_EXIST, reason)
        for due in (Due.LINGER, Due.FINISH, Due.FORGET):
            context.timers.cancel((due, track))
        if track.installed:
            track.installed = False
            context.plane.remove_track(now, track.number)
            context.events.append(TrackRemoved(track=track.name, number=track.number))

    def renew(self, now: float, track: Track) -> None:
        """A track without a publisher gets one: forget what an earlier one published.

        A publisher that comes back may count its groups from 0 again, and all of them would look
        like old ones. Receivers that are still there bind the track to its past, and so do streams
        that may still be under way.
        """
        stale = self.stale.get(track.name)
        if stale is not None:
            self.forget(now, stale)
        bound = any(
            receiver.stage is Stage.ESTABLISHED for receiver in track.receivers.values()
        ) or any(source.stage is Stage.DONE for source in track.sources.values())
        if track.fed and not bound:
            self._uninstall(now, track)
            self._number(track)
            track.hint = track.final = track.group_asked = track.rank = None
            track.ranked = False
        track.fed = True

    # Housekeeping

    def settle(self, now: float, track: Track) -> None:
        """See whether a track is still wanted, still fed, or over."""
        context = self._context
        if self.by_number.get(track.number) is not track or track.stale:
            return
        linger = (Due.LINGER, track)
        if not any(source.unused for source in track.sources.values()):
            context.timers.cancel(linger)
        elif context.timers.when(linger) is None:
            context.timers.set(linger, now + context.settings.linger)
        if track.receivers:
            return
        if track.sources:
            context.sources.sync(track)
        elif not track.fetches:
            self._over(now, track)

    def _over(self, now: float, track: Track) -> None:
        """Nobody feeds, receives or fetches a track: keep its cache for a while, if it has one."""
        context = self._context
        keep = context.settings.cache_linger
        cached = track.installed and context.plane.track_counters(track.number).cached_objects
        if keep <= 0 or not cached:
            self.forget(now, track)
            return
        older = self.stale.get(track.name)
        if older is not None:
            self.forget(now, older)
        self._unlist(track)
        track.stale = True
        self.stale[track.name] = track
        context.timers.cancel((Due.LINGER, track))
        context.timers.set((Due.FORGET, track), now + keep)

    def _unlist(self, track: Track) -> None:
        if self.by_name.get(track.name) is track:
            del self.by_name[track.name]
            self.tree.remove(track.name.namespace, track)

    def forget(self, now: float, track: Track) -> None:
        """Forget a track that nobody feeds or receives."""
        if self.by_number.get(track.number) is not track:
            return
        self._uninstall(now, track)
        self._unlist(track)
        if self.stale.get(track.name) is track:
            del self.stale[track.name]
