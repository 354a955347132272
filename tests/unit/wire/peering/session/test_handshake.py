"""The handshake of laps-2: offers, choices, proofs, refusals."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from laps_wire.errors import (
    EncodeError,
    MalformedError,
    ProtocolViolation,
    RemoteError,
    StateError,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering import laps2
from laps_wire.peering.errors import (
    CloseCode,
    HashMismatchError,
    MessageTooLargeError,
    ModeRefusedError,
    NodeIdConflictError,
    NotAuthorizedError,
    VersionMismatchError,
    WrongNodeError,
)
from laps_wire.peering.laps2 import (
    NO_EVIDENCE,
    AuthScheme,
    Bases,
    Direction,
    Evidence,
    Mode,
    ParameterId,
    Parameters,
    RelayType,
    Settings,
    SnsRefusal,
    Stamp,
)
from laps_wire.peering.laps2.messages import LAYOUTS
from laps_wire.peering.session import (
    LAPS2,
    Arbiter,
    AuthenticationRequired,
    AuthenticationStep,
    Closed,
    Dialect,
    Established,
    Event,
    Grant,
    Kind,
    PeeringSession,
    Refused,
    Role,
    State,
    events,
)
from laps_wire.peering.session.dialect import (
    SnsChange,
    SnsDescription,
    SnsDiff,
    SnsEnd,
    SnsRejection,
    SnsSet,
)
from laps_wire.peering.session.laps2 import Laps2Handshake
from laps_wire.peering.session.state import Shape
from testkit.peering_pair import DIALLER, LISTENER, Pair, config, node, silent

# The laps-2 handshake: what is chosen, asked and granted, and one case for each refusal


ONE_WAY, BOTH_WAYS = Direction.UNIDIRECTIONAL, Direction.BIDIRECTIONAL
CWT = Evidence(AuthScheme.CWT_SIGNATURE, b"token", b"signature")


def dialler(**changes: Any) -> Laps2Handshake:
    return Laps2Handshake(config(Role.DIALLER, **changes))


def listener(**changes: Any) -> Laps2Handshake:
    return Laps2Handshake(config(Role.LISTENER, **changes))


# The whole way


def test_the_whole_handshake() -> None:
    schemes = (AuthScheme.NONE, AuthScheme.CWT_SIGNATURE)
    one = dialler(
        features=(1, 3, 5),
        versions=(0x0200, 0x0201),
        schemes=schemes,
        settings=Settings(hold_ms=6_000, max_message_size=100_000, hash_check=7),
    )
    other = listener(
        features=(3, 4, 5),
        versions=(0x0100, 0x0200),
        schemes=(AuthScheme.CWT_SIGNATURE, AuthScheme.SHARED_KEY),
        settings=Settings(hold_ms=4_500, hash_check=7),
    )
    connect = one.connect()
    assert connect.node_info.node.node_id == 10
    challenge = other.on_connect(connect)
    assert challenge == laps2.Challenge(
        version=0x0200,
        features=(3, 5),
        node_id=NodeId(20),
        challenge=b"\x15" * 32,
        schemes=(AuthScheme.CWT_SIGNATURE,),
    )
    assert one.on_challenge(challenge) == AuthenticationRequired(
        step=AuthenticationStep.SIGN,
        peer=NodeId(20),
        peer_info=None,
        mode=Mode.BOTH,
        direction=BOTH_WAYS,
        schemes=(AuthScheme.CWT_SIGNATURE,),
    )
    to_sign = one.transcript(Mode.BOTH, ONE_WAY, CWT)
    proof = one.prove(Mode.BOTH, ONE_WAY, CWT)
    asked = other.on_proof(proof)
    assert asked == AuthenticationRequired(
        step=AuthenticationStep.VERIFY,
        peer=NodeId(10),
        peer_info=connect.node_info,
        mode=Mode.BOTH,
        direction=ONE_WAY,
        evidence=CWT,
        transcript=to_sign,
        features=frozenset({3, 5}),
    )
    listeners = Evidence(AuthScheme.CWT_SIGNATURE, b"other token", b"other signature")
    listener_to_sign = other.transcript(Mode.DATA, ONE_WAY, listeners)
    response = other.respond(Mode.DATA, ONE_WAY, listeners)
    granted = one.on_response(response)
    assert granted.step is AuthenticationStep.VERIFY
    assert granted.peer_info == node(20)
    assert (granted.mode, granted.direction) == (Mode.DATA, ONE_WAY)
    assert granted.evidence == listeners
    assert granted.transcript == listener_to_sign != to_sign
    assert granted.features == {3, 5}
    mine, theirs = one.agreement(), other.agreement()
    assert mine.peer == node(20)
    assert theirs.peer == node(10)
    assert theirs.peer_settings.max_message_size == 100_000
    assert mine.peer_settings.hold_ms == 4_500
    for agreement in (mine, theirs):
        assert (agreement.mode, agreement.direction) == (Mode.DATA, ONE_WAY)
        assert (agreement.version, agreement.features) == (0x0200, frozenset({3, 5}))
        assert agreement.hold_seconds == 4.5


def test_the_transcript_does_not_look_at_its_own_signature() -> None:
    one, other = dialler(), listener()
    one.on_challenge(other.on_connect(one.connect()))
    unsigned = replace(CWT, signature=b"")
    assert one.transcript(Mode.BOTH, BOTH_WAYS, CWT) == one.transcript(
        Mode.BOTH, BOTH_WAYS, unsigned
    )
    assert one.transcript(Mode.DATA, BOTH_WAYS, CWT) != one.transcript(Mode.BOTH, BOTH_WAYS, CWT)


def test_a_man_in_the_middle_changes_the_transcript() -> None:
    one, other = dialler(spki_hash=b"\x66" * 32), listener()
    one.on_challenge(other.on_connect(one.connect()))
    signed = one.transcript(Mode.BOTH, BOTH_WAYS, NO_EVIDENCE)
    assert other.on_proof(one.prove(Mode.BOTH, BOTH_WAYS, NO_EVIDENCE)).transcript != signed


# The listener refuses

Change = Callable[[laps2.Connect], laps2.Connect]


def with_node(info: laps2.NodeInfo) -> Change:
    return lambda connect: replace(connect, node_info=info)


def with_settings(**values: Any) -> Change:
    return lambda connect: replace(connect, parameters=Settings(**values).to_parameters())


@pytest.mark.parametrize(
    ("change", "error", "code", "why"),
    [
        (
            lambda c: replace(c, versions=(0x0300,)),
            VersionMismatchError,
            0x4,
            "no protocol version",
        ),
        (lambda c: replace(c, schemes=(3,)), NotAuthorizedError, 0x2, "no authentication scheme"),
        (with_node(node(20)), NodeIdConflictError, 0x5, "our own node ID"),
        (with_settings(hash_scheme=0), HashMismatchError, 0x7, "with scheme 0"),
        (with_settings(hash_check=8), HashMismatchError, 0x7, "another key"),
        (with_settings(expected_node=21, hash_check=7), WrongNodeError, 0x13, "not the one"),
        (with_node(node(0)), ProtocolViolation, 0x3, "0 is for Stubs"),
        (with_node(node(7, RelayType.STUB)), ProtocolViolation, 0x3, "all Stubs have it"),
        (
            lambda c: replace(c, node_info=node(0, RelayType.STUB), mode=Mode.DATA),
            ModeRefusedError,
            0x8,
            "a Stub peers in mode both",
        ),
        (
            lambda c: replace(c, node_info=node(9, RelayType.CONTROL), mode=Mode.DATA),
            ModeRefusedError,
            0x8,
            "carries no data",
        ),
        (
            lambda c: replace(c, parameters=Parameters(((int(ParameterId.HOLD_MS), b""),))),
            MalformedError,
            0x3,
            "not one varint",
        ),
    ],
)
def test_connect_that_is_refused(
    change: Change, error: type[RemoteError], code: int, why: str
) -> None:
    with pytest.raises(error, match=why) as caught:
        listener().on_connect(change(dialler().connect()))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "change",
    [
        with_settings(expected_node=20),
        with_settings(hash_check=7),
        with_settings(),  # no check value: nothing to compare
        with_node(node(0, RelayType.STUB)),
        with_node(node(9, RelayType.CONTROL)),  # mode both may still become control
        with_node(node(9, RelayType.VIA)),
    ],
)
def test_connect_that_is_not_refused(change: Change) -> None:
    assert listener().on_connect(change(dialler().connect())).node_id == 20


def test_a_stub_accepts_nobody() -> None:
    with pytest.raises(ModeRefusedError, match="accepts no connections"):
        listener(node_info=node(0, RelayType.STUB)).on_connect(dialler().connect())


@pytest.mark.parametrize(
    ("proof", "error", "why"),
    [
        (
            laps2.Proof(Mode.BOTH, ONE_WAY, NO_EVIDENCE),
            ProtocolViolation,
            "BOTH asked for after DATA",
        ),
        (laps2.Proof(Mode.CONTROL, ONE_WAY, NO_EVIDENCE), ProtocolViolation, "CONTROL asked for"),
        (
            laps2.Proof(Mode.DATA, BOTH_WAYS, NO_EVIDENCE),
            ProtocolViolation,
            "BIDIRECTIONAL asked for after UNIDIRECTIONAL",
        ),
        (laps2.Proof(Mode.DATA, ONE_WAY, CWT), NotAuthorizedError, "scheme 2 was not accepted"),
    ],
)
def test_proof_that_is_refused(proof: laps2.Proof, error: type[RemoteError], why: str) -> None:
    other = listener()
    other.on_connect(dialler(mode=Mode.DATA, direction=ONE_WAY).connect())
    with pytest.raises(error, match=why):
        other.on_proof(proof)


def test_proof_that_the_relay_types_forbid() -> None:
    other = listener()
    other.on_connect(dialler(node_info=node(9, RelayType.CONTROL)).connect())
    with pytest.raises(ModeRefusedError, match="carries no data"):
        other.on_proof(laps2.Proof(Mode.BOTH, BOTH_WAYS, NO_EVIDENCE))
    other.on_proof(laps2.Proof(Mode.CONTROL, BOTH_WAYS, NO_EVIDENCE))


# The dialler refuses


@pytest.mark.parametrize(
    ("changes", "error", "code", "why"),
    [
        ({"version": 0x0300}, ProtocolViolation, 0x3, "chose version 0x300: not offered"),
        ({"features": (9,)}, ProtocolViolation, 0x3, "features that CONNECT does not have"),
        ({"schemes": (3,)}, ProtocolViolation, 0x3, "schemes that CONNECT does not have"),
        ({"node_id": NodeId(10)}, NodeIdConflictError, 0x5, "our own node ID"),
        ({"node_id": NodeId(0)}, ProtocolViolation, 0x3, "0 is for Stubs"),
        ({"node_id": NodeId(21)}, WrongNodeError, 0x13, "reached node 0.0:0.21"),
    ],
)
def test_challenge_that_is_refused(
    changes: dict[str, Any], error: type[RemoteError], code: int, why: str
) -> None:
    one = dialler(settings=Settings(expected_node=20))
    challenge = replace(listener(settings=Settings()).on_connect(one.connect()), **changes)
    with pytest.raises(error, match=why) as caught:
        one.on_challenge(challenge)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"node_info": node(21)}, ProtocolViolation, "different node IDs"),
        ({"mode": Mode.BOTH}, ProtocolViolation, "mode BOTH granted after DATA"),
        ({"mode": Mode.CONTROL}, ProtocolViolation, "mode CONTROL granted after DATA"),
        ({"direction": BOTH_WAYS}, ProtocolViolation, "BIDIRECTIONAL granted"),
        ({"node_info": node(20, RelayType.CONTROL)}, ModeRefusedError, "carries no data"),
        (
            {"parameters": Settings(hash_check=9).to_parameters()},
            HashMismatchError,
            "another key",
        ),
        ({"evidence": CWT}, NotAuthorizedError, "scheme 2 was not offered"),
    ],
)
def test_response_that_is_refused(
    changes: dict[str, Any], error: type[RemoteError], why: str
) -> None:
    one, other = dialler(), listener()
    one.on_challenge(other.on_connect(one.connect()))
    other.on_proof(one.prove(Mode.DATA, ONE_WAY, NO_EVIDENCE))
    response = other.respond(Mode.DATA, ONE_WAY, NO_EVIDENCE)
    with pytest.raises(error, match=why):
        one.on_response(replace(response, **changes))


@pytest.mark.parametrize("scheme", [AuthScheme.NONE, AuthScheme.TLS, AuthScheme.SHARED_KEY])
def test_schemes_in_which_a_listener_may_prove_itself(scheme: AuthScheme) -> None:
    """NONE and TLS always: its certificate has been looked at before (docs/spec/laps-2.md, 4.1)."""
    schemes = (AuthScheme.SHARED_KEY,)
    one, other = dialler(schemes=schemes), listener(schemes=schemes)
    one.on_challenge(other.on_connect(one.connect()))
    other.on_proof(one.prove(Mode.DATA, ONE_WAY, Evidence(AuthScheme.SHARED_KEY, b"k", b"s")))
    with pytest.raises(StateError, match="scheme 2 was not offered"):
        other.respond(Mode.DATA, ONE_WAY, CWT)
    evidence = Evidence(scheme)
    assert one.on_response(other.respond(Mode.DATA, ONE_WAY, evidence)).evidence == evidence


# Our own mistakes


@pytest.mark.parametrize("info", [node(0), node(7, RelayType.STUB)])
def test_node_ids_of_our_own(info: laps2.NodeInfo) -> None:
    with pytest.raises(EncodeError, match="0 is for Stubs"):
        dialler(node_info=info)


def test_proof_misuse_is_local() -> None:
    one, other = dialler(mode=Mode.DATA, direction=ONE_WAY), listener()
    with pytest.raises(StateError, match="not come that far"):
        one.prove(Mode.DATA, ONE_WAY, NO_EVIDENCE)
    one.on_challenge(other.on_connect(one.connect()))
    with pytest.raises(StateError, match="mode BOTH asked for after DATA"):
        one.prove(Mode.BOTH, ONE_WAY, NO_EVIDENCE)
    with pytest.raises(StateError, match="BIDIRECTIONAL asked for"):
        one.prove(Mode.DATA, BOTH_WAYS, NO_EVIDENCE)
    with pytest.raises(StateError, match="does not accept scheme 2"):
        one.prove(Mode.DATA, ONE_WAY, CWT)


def test_response_misuse_is_local() -> None:
    one, other = dialler(node_info=node(0, RelayType.STUB)), listener()
    one.on_challenge(other.on_connect(one.connect()))
    other.on_proof(one.prove(Mode.BOTH, BOTH_WAYS, NO_EVIDENCE))
    with pytest.raises(StateError, match="a Stub peers in mode both"):
        other.respond(Mode.DATA, BOTH_WAYS, NO_EVIDENCE)
    with pytest.raises(StateError, match="not come that far"):
        other.agreement()
    other.respond(Mode.BOTH, BOTH_WAYS, NO_EVIDENCE)
    assert other.agreement().peer.node.relay_type is RelayType.STUB


def test_granting_more_than_was_asked_for_is_local() -> None:
    one, other = dialler(), listener()
    one.on_challenge(other.on_connect(one.connect()))
    other.on_proof(one.prove(Mode.DATA, ONE_WAY, NO_EVIDENCE))
    with pytest.raises(StateError, match="mode CONTROL granted after DATA"):
        other.respond(Mode.CONTROL, ONE_WAY, NO_EVIDENCE)


# Two relays prove who they are, and agree on the one connection that carries control


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


# The laps-2 dialect: a kind for every message, an event for every one that informs


A, B, C = NodeId(1), NodeId(2), NodeId(3)
DIALECT: Dialect = LAPS2  # it has everything that a dialect needs


def test_what_it_is() -> None:
    assert DIALECT.alpn == "laps-2"
    assert DIALECT.shape is Shape.PROVED
    assert not DIALECT.single_stream
    assert not DIALECT.single_messages
    assert DIALECT.checks_types
    assert DIALECT.ordered_sns
    assert DIALECT.first_sns_id == 1
    assert isinstance(DIALECT.handshake(config(Role.DIALLER)), Laps2Handshake)


def test_every_message_has_a_kind() -> None:
    blank: Any
    for layout in LAYOUTS.values():
        blank = object.__new__(layout.cls)
        assert isinstance(DIALECT.kind(blank), Kind), layout.cls
    assert DIALECT.kind(laps2.UnknownMessage(0x21, b"")) is Kind.IGNORED
    assert DIALECT.kind(object()) is None


def test_every_kind_of_message_exists() -> None:
    kinds = {DIALECT.kind(object.__new__(layout.cls)) for layout in LAYOUTS.values()}
    assert kinds == set(Kind) - {Kind.IGNORED, Kind.ACCEPTED}


RESPONSE = laps2.SubscribeResponse(A, 5, Stamp(1, 2), B, 0)
FETCHES = (
    laps2.FetchRequest(A, B, 7, 0, (1,), 2, 3),
    laps2.FetchResponse(A, 7, B, 0, 0),
    laps2.FetchCancel(A, B, 7, 0),
)
PROBE = laps2.Probe(1, A, 2)
ANSWER = laps2.ProbeResponse(1, A, 2, 3)
SUBSCRIBE = laps2.SubscribeInfo(A, Stamp(1, 1), (1,), 2, 3)
SUBSCRIBE_END = laps2.SubscribeWithdrawal(A, Stamp(1, 2), 3)
ANNOUNCE = laps2.AnnounceInfo(A, Stamp(1, 1), laps2.AnnounceKind.NAMESPACE, (1,), None, 3)
ANNOUNCE_END = laps2.AnnounceWithdrawal(A, Stamp(1, 2), laps2.AnnounceKind.NAMESPACE, 3)


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (
            laps2.ConnectRefused(5, "no", 100, ("other",)),
            events.Refused(code=5, reason="no", retry_after_ms=100, redirect=("other",)),
        ),
        (laps2.NodeAdvertise((node(1),)), events.NodesAdvertised(nodes=(node(1),))),
        (laps2.NodeWithdraw((A, B)), events.NodesWithdrawn(nodes=(A, B))),
        (
            laps2.AnnounceAdvertise((ANNOUNCE,)),
            events.AnnouncesAdvertised(announces=(ANNOUNCE,)),
        ),
        (
            laps2.AnnounceWithdraw((ANNOUNCE_END,)),
            events.AnnouncesWithdrawn(announces=(ANNOUNCE_END,)),
        ),
        (
            laps2.SubscribeAdvertise((SUBSCRIBE,)),
            events.SubscribesAdvertised(subscribes=(SUBSCRIBE,)),
        ),
        (
            laps2.SubscribeWithdraw((SUBSCRIBE_END,)),
            events.SubscribesWithdrawn(subscribes=(SUBSCRIBE_END,)),
        ),
        (RESPONSE, events.SubscribeAnswered(response=RESPONSE)),
        (laps2.SyncRequest(Bases.NODES), events.SyncRequested(bases=Bases.NODES)),
        (laps2.SyncBegin(Bases.SNS), events.SyncBegan(bases=Bases.SNS)),
        (laps2.SyncEnd(Bases.ALL), events.SyncEnded(bases=Bases.ALL)),
        (
            laps2.SnsRefused(7, 2, 1, (A,)),
            events.SnsRefusedByPeer(sns_id=7, version=2, code=1, targets=(A,)),
        ),
        *((message, events.FetchReceived(message=message)) for message in FETCHES),
        (PROBE, events.ProbeReceived(probe=PROBE)),
        (ANSWER, events.ProbeAnswered(response=ANSWER)),
        (
            laps2.Drain(2500, "upgrade", ("edge-2",)),
            events.Draining(deadline=102.5, reason="upgrade", alternates=("edge-2",)),
        ),
        (laps2.Stay(), events.Staying()),
        (laps2.Keepalive(), None),
        (laps2.UnknownMessage(0x21, b""), None),
    ],
)
def test_events(message: Any, event: events.Event | None) -> None:
    assert DIALECT.event(100.0, message) == event


def test_messages_of_the_session_itself() -> None:
    assert DIALECT.refusal(5, "no", 10, ("x",)) == laps2.ConnectRefused(5, "no", 10, ("x",))
    assert DIALECT.keepalive() == laps2.Keepalive()
    assert DIALECT.latch(3) == laps2.ControlLatch(3)
    assert DIALECT.generation(laps2.ControlLatch(3)) == 3
    assert DIALECT.generation(laps2.Keepalive()) is None
    assert DIALECT.drain(1.5, "why", ("x",)) == laps2.Drain(1500, "why", ("x",))
    assert DIALECT.drain(-1.0, "", ()) == laps2.Drain(0)
    assert DIALECT.stay() == laps2.Stay()
    assert DIALECT.sync(Bases.SNS, begin=True) == laps2.SyncBegin(Bases.SNS)
    assert DIALECT.sync(Bases.SNS, begin=False) == laps2.SyncEnd(Bases.SNS)


def test_bytes() -> None:
    data = DIALECT.encode(laps2.Keepalive(), 65_536)
    assert data == bytes.fromhex("0e0100")
    assert DIALECT.decode(b"x" + data + b"rest", 1, 65_536) == (laps2.Keepalive(), 4)
    with pytest.raises(MessageTooLargeError):
        DIALECT.decode(data, 0, 0)


def test_reading_sets() -> None:
    assert list(DIALECT.read_sns(laps2.SnsAdvertise(7, 1, 2, (A, B)))) == [
        SnsDescription(7, 1, (A, B), 2)
    ]
    with_class = laps2.SnsAdvertise(7, 1, 2, (A,), laps2.scope_parameters("gold"))
    assert list(DIALECT.read_sns(with_class)) == [SnsDescription(7, 1, (A,), 2, "gold")]
    steps = (SnsDiff(7, 1, (A,)),)
    now = SnsSet(7, 1, frozenset({A}), hops=2, scope="gold")
    assert list(DIALECT.write_sns(steps, now, whole=True)) == [with_class]
    assert list(DIALECT.read_sns(laps2.SnsUpdate(7, 2, (C,), (A,)))) == [
        SnsChange(7, 2, (C,), (A,))
    ]
    assert list(DIALECT.read_sns(laps2.SnsWithdraw((7, 9)))) == [SnsEnd(7), SnsEnd(9)]


def test_writing_sets() -> None:
    steps = (SnsDiff(7, 1, (A, B)), SnsDiff(7, 2, (C,)))
    now = SnsSet(7, 2, frozenset({A, B, C}), hops=4)
    assert list(DIALECT.write_sns(steps, now, whole=True)) == [
        laps2.SnsAdvertise(7, 1, 4, (A, B)),
        laps2.SnsUpdate(7, 2, (C,)),
    ]
    change = (SnsDiff(7, 3, (), (A,)),)
    assert list(DIALECT.write_sns(change, now, whole=False)) == [laps2.SnsUpdate(7, 3, (), (A,))]
    assert DIALECT.write_sns_end(7) == laps2.SnsWithdraw((7,))
    assert DIALECT.write_sns_refusal(
        SnsRejection(7, 3, SnsRefusal.TOO_MANY_SETS)
    ) == laps2.SnsRefused(7, 3, SnsRefusal.TOO_MANY_SETS)
    assert DIALECT.write_sns_refusal(
        SnsRejection(7, 3, SnsRefusal.NOT_ADVERTISED, targets=(A, C))
    ) == laps2.SnsRefused(7, 3, SnsRefusal.NOT_ADVERTISED, (A, C))
