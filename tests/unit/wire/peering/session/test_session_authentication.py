"""Two relays prove who they are, and agree on the one connection that carries control."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from laps_wire.peering import laps2
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    AuthScheme,
    Evidence,
    Mode,
)
from laps_wire.peering.session import (
    Arbiter,
    AuthenticationRequired,
    AuthenticationStep,
    Closed,
    Established,
    Event,
    Grant,
    PeeringSession,
    Refused,
    Role,
    State,
)
from testkit.peering_pair import DIALLER, LISTENER, Pair, config, silent

# Authentication: the session asks, the application signs and verifies


class SharedKey:
    """An application that proves and checks scheme 3: HMAC-SHA256 with a key that both know."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def evidence(self, session: PeeringSession) -> Evidence:
        draft = Evidence(AuthScheme.SHARED_KEY, b"key 1")
        signature = hmac.digest(self.key, session.transcript(evidence=draft), hashlib.sha256)
        return Evidence(draft.scheme, draft.credential, signature)

    def __call__(self, session: PeeringSession, now: float, event: Event) -> None:
        if not isinstance(event, AuthenticationRequired):
            return
        if event.step is AuthenticationStep.SIGN:
            session.prove(now, evidence=self.evidence(session))
            return
        assert event.evidence is not None
        expected = hmac.digest(self.key, event.transcript, hashlib.sha256)
        if not hmac.compare_digest(expected, event.evidence.signature):
            session.refuse(now, CloseCode.NOT_AUTHORIZED, "the proof does not hold")
        elif session.state is State.VERIFYING and event.peer_info is not None:
            listener = session._config.role is Role.LISTENER
            evidence = self.evidence(session) if listener else laps2.NO_EVIDENCE
            session.accept(now, evidence=evidence)


def authenticated(one: SharedKey, other: SharedKey) -> Pair:
    schemes = (AuthScheme.SHARED_KEY,)
    pair = Pair(
        config(Role.DIALLER, schemes=schemes),
        config(Role.LISTENER, schemes=schemes),
        answer=lambda session, now, event: (one if session is pair.dialler else other)(
            session, now, event
        ),
    )
    pair.dialler.connect(pair.now)
    pair.run()
    return pair


def test_two_relays_that_share_a_key() -> None:
    pair = authenticated(SharedKey(b"secret"), SharedKey(b"secret"))
    assert pair.dialler.established
    assert pair.listener.established


def test_a_dialler_with_another_key_is_refused() -> None:
    pair = authenticated(SharedKey(b"guess"), SharedKey(b"secret"))
    assert pair.events[DIALLER][-2:] == [
        Refused(code=0x2, reason="the proof does not hold"),
        Closed(code=0x2, reason="the proof does not hold", by_peer=True),
    ]
    assert pair.events[LISTENER][-1] == Closed(
        code=0x2, reason="the proof does not hold", by_peer=True
    )


def test_a_listener_that_can_not_prove_itself_is_left() -> None:
    class Forgetful(SharedKey):
        def evidence(self, session: PeeringSession) -> Evidence:
            assert session.state is State.VERIFYING
            return Evidence(AuthScheme.SHARED_KEY, b"key 1", b"?")

    pair = authenticated(SharedKey(b"secret"), Forgetful(b"secret"))
    assert pair.events[DIALLER][-1] == Closed(code=0x2, reason="the proof does not hold")
    assert not any(isinstance(event, Established) for event in pair.events[DIALLER])
    assert pair.events[LISTENER][-1] == Closed(
        code=0x2, reason="the proof does not hold", by_peer=True
    )


def test_a_refusal_may_say_where_to_go() -> None:
    pair = Pair(answer=silent)
    pair.dialler.connect(pair.now)
    pair.run()
    pair.dialler.prove(pair.now)
    pair.run()
    pair.listener.refuse(
        pair.now, CloseCode.OVERLOADED, "full", retry_after_ms=5000, redirect=("edge-2",)
    )
    pair.run()
    assert pair.events[DIALLER][-2] == Refused(
        code=0xF, reason="full", retry_after_ms=5000, redirect=("edge-2",)
    )


# One control connection, with two real sessions


class Relay:
    """What a peer manager does with an arbiter and its sessions, for one peer."""

    def __init__(self, number: int, peer: int) -> None:
        self.arbiter: Arbiter[Pair] = Arbiter(number, peer)

    def answer(self, pair: Pair, session: PeeringSession, now: float, event: Event) -> None:
        if isinstance(event, Closed):
            self.arbiter.closed(pair)
        if not isinstance(event, AuthenticationRequired):
            return
        if event.step is AuthenticationStep.SIGN:
            ask = event.mode.control and self.arbiter.may_ask
            self.arbiter.dialled(pair, ask=ask)
            session.prove(now, mode=event.mode if ask else Mode.DATA)
            return
        assert event.peer_info is not None
        epoch = event.peer_info.node.stamp.epoch
        if session is pair.dialler:
            self.arbiter.answered(pair, control=event.mode.control, epoch=epoch)
            session.accept(now)
            return
        verdict = self.arbiter.answer(pair, ask=event.mode.control, epoch=epoch)
        session.accept(now, mode=event.mode if verdict.grant is Grant.CONTROL else Mode.DATA)


@pytest.mark.parametrize("slow", [0, 1])
def test_both_dial_at_once_and_the_lower_nodes_connection_carries_control(slow: int) -> None:
    relays = {10: Relay(10, 20), 20: Relay(20, 10)}
    pairs: list[Pair] = []
    for number, peer in ((10, 20), (20, 10)):
        pair = Pair(config(Role.DIALLER, number), config(Role.LISTENER, peer), answer=silent)

        def answer(session: PeeringSession, now: float, event: Event, pair: Pair = pair) -> None:
            relay = relays[int(session._config.node_info.node.node_id)]
            relay.answer(pair, session, now, event)

        pair.answer = answer
        pairs.append(pair)
    for pair in pairs:
        pair.dialler.connect(pair.now)
        pair.flush(DIALLER)
        pair.hop()
    for pair in pairs:
        pair.hop()  # CHALLENGE arrives: both have asked now
    for pair in (pairs[slow], pairs[1 - slow]):
        pair.run()
    modes = [pair.dialler.agreement.mode for pair in pairs if pair.dialler.agreement]
    assert modes == [Mode.BOTH, Mode.DATA]
    assert relays[10].arbiter.held is relays[20].arbiter.held is pairs[0]
    # The winner ends; nothing holds control, and the next one to dial gets it.
    pairs[0].dialler.close(pairs[0].now)
    pairs[0].run()
    assert [relay.arbiter.may_ask for relay in relays.values()] == [True, True]
