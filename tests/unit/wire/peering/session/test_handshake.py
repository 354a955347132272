"""The laps-2 handshake: what is chosen, asked and granted, and one case for each refusal."""

from __future__ import annotations

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
    HashMismatchError,
    ModeRefusedError,
    NodeIdConflictError,
    NotAuthorizedError,
    VersionMismatchError,
    WrongNodeError,
)
from laps_wire.peering.laps2 import (
    NO_EVIDENCE,
    AuthScheme,
    Direction,
    Evidence,
    Mode,
    ParameterId,
    Parameters,
    RelayType,
    Settings,
)
from laps_wire.peering.session.events import AuthenticationRequired, AuthenticationStep
from laps_wire.peering.session.handshake import Laps2Handshake
from laps_wire.peering.session.state import Role
from testkit.peering_pair import config, node

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
