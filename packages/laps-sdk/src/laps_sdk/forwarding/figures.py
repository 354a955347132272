"""What the forwarding plane counts, and how it is taken: for the API, metrics and telemetry.

Counters grow for ever; what is *taken* is what happened since it was last taken, and who takes it
late loses nothing: what a track did is kept when the track is gone, once somebody counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from laps_sdk.forwarding.cache_figures import CacheTraffic
from laps_sdk.forwarding.clients import ClientTraffic, take_clients
from laps_sdk.forwarding.interfaces import Subscription, SubscriptionCounters, TrackCounters
from laps_sdk.forwarding.limits import PlaneCounters
from laps_sdk.forwarding.receiver import Receiver
from laps_sdk.forwarding.samples import Samples
from laps_sdk.forwarding.state import Session, State
from laps_sdk.forwarding.traffic import TrackTraffic

__all__ = ["PlaneFigures"]


class PlaneFigures:
    """The figures of a plane; :class:`~laps_sdk.forwarding.plane.Plane` moves the objects."""

    __slots__ = ("_sessions", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._sessions: dict[int, Session] = {}

    def track_counters(self, track: int) -> TrackCounters:
        """Of one track."""
        return self._state.tracks[track].counters()

    def subscription_counters(self, subscription: Subscription) -> SubscriptionCounters | None:
        """Of one receiver; None if there is no such."""
        receiver = self._receiver(subscription)
        return None if receiver is None else receiver.counters()

    def count_traffic(self) -> None:
        """Remember what tracks did that are no more; somebody must take it."""
        self._state.gone = self._state.gone or []

    def take_traffic(self, tracks: Iterable[int] | None = None) -> list[TrackTraffic]:
        """What some tracks did since the last time, and all that are no more; idle ones not."""
        known = self._state.tracks
        found: list[TrackTraffic] = []
        if self._state.gone:
            found, self._state.gone = self._state.gone, []
        for number in list(known) if tracks is None else tracks:
            if number in known:
                found.append(known[number].take_traffic())
        return [each for each in found if not each.is_idle]

    def take_cache(self) -> tuple[CacheTraffic, int]:
        """What the cache did since the last time, and how many bytes it holds."""
        cache = self._state.cache
        return cache.figures.take(), cache.bytes

    def take_clients(self) -> list[ClientTraffic]:
        """How clients were served since the last time."""
        return take_clients(self._sessions.values())

    def time_objects(self, samples: Samples | None) -> None:
        """Time some of the objects from now on; None: none."""
        self._state.samples = samples

    def counters(self) -> PlaneCounters:
        """What was given up, and why."""
        return self._state.counters()

    def _receiver(self, subscription: Subscription) -> Receiver | None:
        session = self._sessions.get(subscription.session)
        return None if session is None else session.receivers.get(subscription.request_id)
