"""Two cores, random commands on both sides, random order and chunks of delivery.

What holds whatever happens: neither core ever sees a violation by the other, a command that raises
has done nothing, both agree on every request once all has arrived, and when all requests have ended
nothing is left over.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from laps_wire.errors import LocalError
from laps_wire.moqt.codepoints import GroupOrder, RequestErrorCode, SubscribeOptions
from laps_wire.moqt.messages import (
    AbsoluteJoiningFetch,
    FetchTarget,
    RelativeJoiningFetch,
    StandaloneFetch,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    Kind,
    RequestsBlockedError,
    Role,
    Session,
    SessionLimits,
    State,
    UpdateAccepted,
    UpdateReceived,
    UpdateRejected,
)
from laps_wire.moqt.structures import Location, Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_pair import Endpoint, Pair
from testkit.snapshot import snapshot

LIMITS = SessionLimits(max_requests=5, max_updates=3, max_namespaces=3, max_ended=4)
NAMES = [b"a", b"b", b"c"]
TRACKS = [FullTrackName(Namespace.of(b"t", name), name) for name in NAMES]
PREFIXES = [Namespace(), *(Namespace.of(name) for name in NAMES), Namespace.of(b"a", b"b")]
TOKENS = st.one_of(
    st.builds(Token.register, st.integers(1, 3), st.just(0), st.binary(max_size=8)),
    st.builds(Token.use_alias, st.integers(1, 3)),
    st.builds(Token.delete, st.integers(1, 3)),
    st.builds(Token.use_value, st.just(1), st.binary(max_size=4)),
)
SIDES = st.sampled_from(["client", "server"])
PICKS = st.integers(0, 30)


class SessionMachine(RuleBasedStateMachine):
    """Commands on both sides, deliveries in between."""

    draft: Draft

    def __init__(self) -> None:
        super().__init__()
        self.alias = 100
        self.data_ended: set[int] = set()
        self.updates: dict[Role, list[tuple[int, int]]] = {role: [] for role in Role}
        """By side: the updates that it sent, and the requests that they change."""

    @initialize()
    def start(self) -> None:
        self.pair = Pair(self.draft, client={"limits": LIMITS}, server={"limits": LIMITS})

    # Helpers

    def end(self, side: str) -> Endpoint:
        return self.pair.client if side == "client" else self.pair.server

    def attempt(self, side: str, command: Callable[[Session], Any]) -> None:
        """Do it, or find that it is not allowed; then nothing may have happened."""
        end = self.end(side)
        self.pair.transmit()
        before = snapshot(end.session)
        refused: LocalError | None = None
        try:
            command(end.session)
        except LocalError as error:
            refused = error
        if isinstance(refused, RequestsBlockedError):
            # The peer may be told of it, and nothing else happens.
            self.pair.transmit()
            if snapshot(end.session) == before:
                return
            before = snapshot(end.session)
            with pytest.raises(RequestsBlockedError):
                command(end.session)
        if refused is not None:
            assert snapshot(end.session) == before, refused

    def pick(self, side: str, number: int, *kinds: Kind) -> int:
        """One of the open requests, if there is one of these kinds; else an id of nothing."""
        session = self.end(side).session
        ids = [i for i in session.open_requests if not kinds or session.request_kind(i) in kinds]
        return ids[number % len(ids)] if ids else 1_000_000

    def some_parameters(self, tokens: list[Token]) -> Parameters:
        return Parameters(authorization_tokens=tuple(tokens))

    # Requests

    @rule(side=SIDES, track=st.sampled_from(TRACKS), tokens=st.lists(TOKENS, max_size=2))
    def subscribe(self, side: str, track: FullTrackName, tokens: list[Token]) -> None:
        self.attempt(side, lambda s: s.subscribe(track, self.some_parameters(tokens)))

    @rule(side=SIDES, track=st.sampled_from(TRACKS))
    def publish(self, side: str, track: FullTrackName) -> None:
        self.alias += 1
        self.attempt(side, lambda s: s.publish(track, self.alias))

    @rule(side=SIDES, number=PICKS, joining=st.integers(0, 2), tokens=st.lists(TOKENS, max_size=1))
    def fetch(self, side: str, number: int, joining: int, tokens: list[Token]) -> None:
        joined = self.pick(side, number, Kind.SUBSCRIBE, Kind.PUBLISH)
        targets: list[FetchTarget] = [
            StandaloneFetch(TRACKS[0], Location(0, 0), Location(3, 0)),
            RelativeJoiningFetch(joined, 1),
            AbsoluteJoiningFetch(joined, 0),
        ]
        target = targets[joining]
        self.attempt(side, lambda s: s.fetch(target, self.some_parameters(tokens)))

    @rule(side=SIDES, track=st.sampled_from(TRACKS))
    def track_status(self, side: str, track: FullTrackName) -> None:
        self.attempt(side, lambda s: s.track_status(track))

    @rule(side=SIDES, name=st.sampled_from(NAMES), tokens=st.lists(TOKENS, max_size=2))
    def publish_namespace(self, side: str, name: bytes, tokens: list[Token]) -> None:
        parameters = self.some_parameters(tokens)
        self.attempt(side, lambda s: s.publish_namespace(Namespace.of(name), parameters))

    @rule(side=SIDES, prefix=st.sampled_from(PREFIXES), tracks=st.booleans())
    def subscribe_prefix(self, side: str, prefix: Namespace, tracks: bool) -> None:
        if tracks and self.draft is Draft.D18:
            self.attempt(side, lambda s: s.subscribe_tracks(prefix))
        else:
            self.attempt(side, lambda s: s.subscribe_namespace(prefix, SubscribeOptions.NAMESPACE))

    @rule(side=SIDES, number=PICKS, forward=st.booleans(), prefix=st.sampled_from(PREFIXES))
    def update(self, side: str, number: int, forward: bool, prefix: Namespace) -> None:
        request_id = self.pick(side, number)
        kind = self.end(side).session.request_kind(request_id)
        parameters = NO_PARAMETERS
        if kind in (Kind.SUBSCRIBE, Kind.PUBLISH):
            parameters = Parameters(forward=forward)
        elif kind is Kind.FETCH:
            parameters = Parameters(subscriber_priority=3)
        elif kind in (Kind.SUBSCRIBE_NAMESPACE, Kind.SUBSCRIBE_TRACKS) and self.draft is Draft.D18:
            parameters = Parameters(track_namespace_prefix=prefix)
        end = self.end(side)

        def send(session: Session) -> None:
            self.updates[end.role].append((session.update(request_id, parameters), request_id))

        self.attempt(side, send)

    # Answers

    @rule(side=SIDES, number=PICKS)
    def accept(self, side: str, number: int) -> None:
        request_id = self.pick(side, number)
        kind = self.end(side).session.request_kind(request_id)
        self.alias += 1
        if kind is Kind.SUBSCRIBE:
            self.attempt(side, lambda s: s.accept_subscribe(request_id, self.alias))
        elif kind is Kind.FETCH:
            self.attempt(side, lambda s: s.accept_fetch(request_id, Location(3, 0)))
        elif kind is Kind.PUBLISH:
            parameters = Parameters(forward=True, group_order=GroupOrder.ASCENDING)
            self.attempt(side, lambda s: s.accept(request_id, parameters))
        else:
            self.attempt(side, lambda s: s.accept(request_id))

    @rule(side=SIDES, number=PICKS)
    def reject(self, side: str, number: int) -> None:
        request_id = self.pick(side, number)
        self.attempt(side, lambda s: s.reject(request_id, RequestErrorCode.NOT_SUPPORTED, "no"))

    @rule(side=SIDES, number=PICKS, yes=st.integers(0, 3))
    def answer_update(self, side: str, number: int, yes: int) -> None:
        received = [e for e in self.end(side).events if isinstance(e, UpdateReceived)]
        updates = [event.update_id for event in received[-4:]]
        if updates:
            update_id = updates[number % len(updates)]
            if yes:
                self.attempt(side, lambda s: s.accept(update_id))
            else:
                self.attempt(side, lambda s: s.reject(update_id, RequestErrorCode.INVALID_RANGE))

    # Ends

    @rule(side=SIDES, number=PICKS)
    def cancel(self, side: str, number: int) -> None:
        request_id = self.pick(side, number)
        self.attempt(side, lambda s: s.cancel(request_id))

    @rule(side=SIDES, number=PICKS)
    def publish_done(self, side: str, number: int) -> None:
        request_id = self.pick(side, number, Kind.SUBSCRIBE, Kind.PUBLISH)
        self.attempt(side, lambda s: s.publish_done(request_id, 0x2, 0, "over"))

    @rule(side=SIDES, number=PICKS)
    def fetch_ended(self, side: str, number: int) -> None:
        request_id = self.pick(side, number, Kind.FETCH)
        if self.end(side).session.request_kind(request_id) is Kind.FETCH:
            self.data_ended.add(request_id)
        self.attempt(side, lambda s: s.fetch_ended(request_id))

    # Namespaces

    @rule(side=SIDES, number=PICKS, name=st.sampled_from(NAMES), done=st.booleans())
    def namespace(self, side: str, number: int, name: bytes, done: bool) -> None:
        request_id = self.pick(side, number, Kind.SUBSCRIBE_NAMESPACE)
        suffix = Namespace.of(name)
        if done:
            self.attempt(side, lambda s: s.namespace_done(request_id, suffix))
        else:
            self.attempt(side, lambda s: s.namespace(request_id, suffix))

    @rule(side=SIDES, number=PICKS)
    def publish_blocked(self, side: str, number: int) -> None:
        request_id = self.pick(side, number, Kind.SUBSCRIBE_TRACKS)
        self.attempt(side, lambda s: s.publish_blocked(request_id, TRACKS[0]))

    @rule(side=SIDES, number=PICKS)
    def goaway_request(self, side: str, number: int) -> None:
        request_id = self.pick(side, number)
        self.attempt(side, lambda s: s.goaway_request(request_id))

    # The network

    @rule(
        steps=st.lists(
            st.tuples(PICKS, st.integers(1, 40), st.integers(0, 2)), min_size=1, max_size=12
        )
    )
    def deliver(self, steps: list[tuple[int, int, int]]) -> None:
        for choice, limit, what in steps:
            self.pair.deliver(choice, limit, what)

    @rule()
    def settle(self) -> None:
        """Everything arrives: now both sides must agree."""
        self.pair.settle()
        for request_id in list(self.data_ended):
            for end in (self.pair.client, self.pair.server):
                if end.session.request_state(request_id) not in (None, State.DATA_ENDED):
                    end.session.fetch_ended(request_id)
        self.pair.settle()
        client, server = self.pair.client.session, self.pair.server.session
        mine, theirs = self.states(client), self.states(server)
        assert mine == theirs
        self.check_agreement()

    def states(self, session: Session) -> dict[int, State | None]:
        """The state of every request that both sides can know to be open."""
        return {
            request: session.request_state(request)
            for request in session.open_requests
            # Draft 16 has no message that cancels a TRACK_STATUS: the responder does not know.
            if self.draft is Draft.D18 or session.request_kind(request) is not Kind.TRACK_STATUS
        }

    def check_agreement(self) -> None:
        """Beyond states: what one side may still say, the other side understands.

        A copy of the pair says all of it: answers to updates, namespaces, token aliases.
        """
        pair = copy.deepcopy(self.pair)
        for end in (pair.client, pair.server):
            session = end.session
            for event in list(end.events):
                if isinstance(event, UpdateReceived):
                    with suppress(LocalError):
                        session.accept(event.update_id)
            for request_id in session.open_requests:
                if session.request_kind(request_id) is Kind.SUBSCRIBE_NAMESPACE:
                    with suppress(LocalError):
                        session.accept(request_id)
                    for say in (session.namespace_done, session.namespace, session.namespace_done):
                        for name in NAMES:
                            with suppress(LocalError):
                                say(request_id, Namespace.of(name))
            for alias in range(1, 4):
                with suppress(LocalError):
                    used = self.some_parameters([Token.use_alias(alias)])
                    session.publish_namespace(Namespace.of(b"probe", bytes([alias])), used)
        pair.settle()
        assert pair.violations == []
        for end in (pair.client, pair.server):
            answered = {
                event.update_id
                for event in end.events
                if isinstance(event, (UpdateAccepted, UpdateRejected))
            }
            for update_id, request_id in self.updates[end.role]:
                over = end.session.request_state(request_id) is None
                assert update_id in answered or over, update_id

    @invariant()
    def no_violation(self) -> None:
        if hasattr(self, "pair"):
            assert self.pair.violations == []

    def teardown(self) -> None:
        """End everything: nothing may be left over."""
        if not hasattr(self, "pair"):
            return
        self.pair.settle()
        for _ in range(3):
            for end in (self.pair.client, self.pair.server):
                for request_id in end.session.open_requests:
                    self.finish(end.session, request_id)
            self.pair.settle()
        assert self.pair.violations == []
        for end in (self.pair.client, self.pair.server):
            assert end.session.open_requests == ()
            assert end.session.open_streams == (1 if self.draft is Draft.D16 else 2)
        self.check_credit()

    def check_credit(self) -> None:
        """All credit is back: each side takes as many requests and updates as at the beginning.

        In draft 16 updates are requests, and a new maximum is told in steps of half a window.
        """
        window = LIMITS.max_requests
        if self.draft is Draft.D16:
            requests, updates = window // 2 + 1, window // 2
        else:
            requests, updates = window, LIMITS.max_updates
        ends = (self.pair.client, self.pair.server)
        for number in range(window + 1):
            end, peer = ends if number % 2 else ends[::-1]
            ids = [
                end.session.publish_namespace(Namespace.of(b"again", bytes([each])))
                for each in range(requests - number % 4 // 2)
            ]
            self.pair.settle()
            assert set(ids) <= set(peer.session.open_requests)
            for request_id in ids:
                end.session.cancel(request_id)
            self.pair.settle()
            request_id = end.session.subscribe(TRACKS[0])
            self.pair.settle()
            peer.session.accept_subscribe(request_id, 1)
            self.pair.settle()
            for _ in range(updates):
                end.session.update(request_id, NO_PARAMETERS)
            self.pair.settle()
            assert end.session.request_state(request_id) is State.ESTABLISHED
            end.session.cancel(request_id)
            self.pair.settle()
        assert self.pair.violations == []

    def finish(self, session: Session, request_id: int) -> None:
        """End one request in whatever way is allowed to this side."""
        ways: list[Callable[[], None]] = [
            lambda: session.publish_done(request_id, 0x2, 0),
            lambda: session.cancel(request_id),
            lambda: session.reject(request_id, RequestErrorCode.NOT_SUPPORTED),
            # An accepted FETCH ends for its publisher with its data stream, in draft 16 only so.
            lambda: session.fetch_ended(request_id),
        ]
        for way in ways:
            try:
                way()
            except LocalError:
                continue
            return


class Machine16(SessionMachine):
    draft = Draft.D16


class Machine18(SessionMachine):
    draft = Draft.D18


TestSession16 = Machine16.TestCase
TestSession18 = Machine18.TestCase
TestSession16.settings = settings(stateful_step_count=60)
TestSession18.settings = settings(stateful_step_count=60)
