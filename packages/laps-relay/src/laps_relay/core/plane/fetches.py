"""All fetches: those that the cache answers, and those that are passed on."""

from __future__ import annotations

from laps_relay.core.interfaces import FetchOutcome, FetchRange, Subscription
from laps_relay.core.plane.state import Handler, Session, State
from laps_relay.core.plane.track import Track

__all__ = ["Fetches"]


class Fetches:
    """What is under way."""

    __slots__ = ("_sessions", "_state")

    def __init__(self, state: State, sessions: dict[int, Session]) -> None:
        self._state = state
        self._sessions = sessions

    def covers(self, now: float, wanted: FetchRange) -> bool:
        """Whether the cache knows all of a range."""
        return False

    def serve(
        self, now: float, subscription: Subscription, wanted: FetchRange, *, partial: bool
    ) -> FetchOutcome:
        """Answer from the cache."""
        return FetchOutcome.GAPS

    def relay(
        self, session: int, request_id: int, subscription: Subscription, wanted: FetchRange
    ) -> None:
        """Expect an answer that goes on to a receiver."""

    def opening(self, session: Session, stream_id: int) -> Handler:
        """A fetch stream begins."""
        raise AssertionError(session, stream_id)

    def cancel(self, now: float, subscription: Subscription, reset_code: int) -> None:
        """A receiver gave up."""

    def forget(self, now: float, session: int) -> None:
        """A session is gone."""

    def forget_track(self, now: float, track: Track) -> None:
        """A track is gone."""
