"""All fetches: those that the cache answers, and those that are passed on."""

from __future__ import annotations

from laps_sdk.forwarding.coding import CANCELLED
from laps_sdk.forwarding.fetch_answer import FetchAnswer, FetchOut
from laps_sdk.forwarding.fetch_plan import is_covered, items, plan
from laps_sdk.forwarding.fetch_relay import FetchOpening, FetchRelay
from laps_sdk.forwarding.interfaces import FetchOutcome, FetchRange, Subscription
from laps_sdk.forwarding.state import Handler, Session, State
from laps_sdk.forwarding.track import Track

__all__ = ["Fetches"]


class Fetches:
    """What is under way."""

    __slots__ = ("_outs", "_sessions", "_state")

    def __init__(self, state: State, sessions: dict[int, Session]) -> None:
        self._state = state
        self._sessions = sessions
        self._outs: dict[Subscription, tuple[FetchOut, FetchRelay | None]] = {}
        """Answers that are being sent, and where they come from if not from the cache."""

    # From the cache

    def covers(self, now: float, wanted: FetchRange) -> bool:
        """Whether the cache knows all of a range."""
        track = self._state.tracks.get(wanted.track)
        return track is not None and is_covered(plan(now, self._state.cache, track, wanted))

    def serve(
        self, now: float, subscription: Subscription, wanted: FetchRange, *, partial: bool
    ) -> FetchOutcome:
        """Answer from the cache."""
        track = self._state.tracks.get(wanted.track)
        if track is None:
            return FetchOutcome.GAPS
        spans = plan(now, self._state.cache, track, wanted)
        if not partial and not is_covered(spans):
            return FetchOutcome.GAPS
        out = FetchOut(self._sessions[subscription.session], subscription, wanted, self._over)
        self._outs[subscription] = (out, None)
        FetchAnswer(out, items(spans)).pump(now)
        return FetchOutcome.SERVED

    # Passed on

    def relay(
        self, session: int, request_id: int, subscription: Subscription, wanted: FetchRange
    ) -> None:
        """Expect an answer that goes on to a receiver."""
        sender = self._sessions[session]
        out = FetchOut(self._sessions[subscription.session], subscription, wanted, self._over)
        relay = FetchRelay(sender, request_id, self._state.tracks[wanted.track], wanted, out)
        sender.fetches[request_id] = relay
        self._outs[subscription] = (out, relay)

    def opening(self, session: Session, stream_id: int) -> Handler:
        """A fetch stream begins."""
        return FetchOpening(session, stream_id)

    # Ends

    def _over(self, subscription: Subscription) -> None:
        """An answer was sent, or will not be."""
        _, relay = self._outs.pop(subscription, (None, None))
        if relay is not None:
            relay.out = None
            if relay.stream_id is None:
                relay.forget()  # nobody waits for its stream any more

    def cancel(self, now: float, subscription: Subscription, reset_code: int) -> None:  # noqa: ARG002
        """A receiver gave up, or the upstream refused: nobody needs to be told."""
        out, relay = self._outs.pop(subscription, (None, None))
        if out is not None:
            out.reset(reset_code, tell=False)
        if relay is not None:
            self._stop(relay)

    def _stop(self, relay: FetchRelay) -> None:
        relay.forget()
        if relay.stream_id is not None:
            relay.session.stop(relay.stream_id, CANCELLED)

    def forget(self, now: float, session: int) -> None:
        """A session is gone, with what it asked for and what it was asked for."""
        for subscription, (out, relay) in tuple(self._outs.items()):
            if subscription.session == session:
                out.ended = True
                del self._outs[subscription]
                if relay is not None:
                    relay.out = None
            elif relay is not None and relay.session.number == session:
                relay.reset(now, CANCELLED)

    def forget_track(self, now: float, track: Track) -> None:
        """A track is gone."""
        for relay in tuple(track.relays):
            self._stop(relay)
            relay.reset(now, CANCELLED)
