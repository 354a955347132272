"""Transcripts: the exact bytes, and that every field changes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from laps_wire.buffer import Writer
from laps_wire.errors import EncodeError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.codepoints import AuthScheme, Direction, Mode, RelayType
from laps_wire.peering.laps2.fields import Stamp
from laps_wire.peering.laps2.handshake import (
    Challenge,
    Connect,
    ConnectResponse,
    Evidence,
    Proof,
)
from laps_wire.peering.laps2.node import NODE_SELF, NodeInfo, NodeSelf, NodeSignature
from laps_wire.peering.laps2.transcript import (
    dialler_transcript,
    listener_transcript,
    node_transcript,
)

DIALLER = NodeInfo(NodeSelf(NodeId(0x0101), RelayType.EDGE, Stamp(0x0202, 1)))
LISTENER = NodeInfo(NodeSelf(NodeId(0x0303), RelayType.VIA, Stamp(5, 1)))
CONNECT = Connect(
    versions=(0x200,),
    features=(1, 4),
    mode=Mode.BOTH,
    direction=Direction.BIDIRECTIONAL,
    challenge=b"\xdd" * 32,
    schemes=(2,),
    node_info=DIALLER,
)
CHALLENGE = Challenge(0x200, (1, 4), NodeId(0x0303), b"\xcc" * 32, (2,))
EVIDENCE = Evidence(AuthScheme.CWT_SIGNATURE, b"token", b"ignored")
PROOF = Proof(Mode.BOTH, Direction.BIDIRECTIONAL, EVIDENCE)
RESPONSE = ConnectResponse(Mode.DATA, Direction.UNIDIRECTIONAL, LISTENER, EVIDENCE)
SPKI = b"\xee" * 32


def expected(label: bytes, mode: int, direction: int) -> bytes:
    return (
        bytes([len(label)])
        + label
        + b"\xcc" * 32
        + b"\xdd" * 32
        + bytes.fromhex("0000000000000101 0000000000000202 0000000000000303")
        + b"\xee" * 32
        + bytes.fromhex("0000000000000200")
        + bytes.fromhex("0002 0000000000000001 0000000000000004")
        + bytes([mode, direction])
        + bytes.fromhex("0000000000000002")
        + bytes.fromhex("00000005")
        + b"token"
    )


def test_the_diallers_bytes() -> None:
    transcript = dialler_transcript(CONNECT, CHALLENGE, PROOF, SPKI)
    assert transcript == expected(b"laps-2 connect proof dialler", 2, 1)
    assert len(transcript) == 1 + 28 + 64 + 24 + 32 + 8 + 18 + 2 + 8 + 9


def test_the_listeners_bytes() -> None:
    transcript = listener_transcript(CONNECT, CHALLENGE, RESPONSE, SPKI)
    assert transcript == expected(b"laps-2 connect proof listener", 1, 0)


def changed_node(**changes: Any) -> Connect:
    return replace(CONNECT, node_info=NodeInfo(replace(DIALLER.node, **changes)))


CHANGES: dict[str, tuple[Connect, Challenge, Proof, bytes]] = {
    "dialler challenge": (replace(CONNECT, challenge=bytes(32)), CHALLENGE, PROOF, SPKI),
    "dialler id": (changed_node(node_id=NodeId(9)), CHALLENGE, PROOF, SPKI),
    "dialler epoch": (changed_node(stamp=Stamp(9, 1)), CHALLENGE, PROOF, SPKI),
    "listener challenge": (CONNECT, replace(CHALLENGE, challenge=bytes(32)), PROOF, SPKI),
    "listener id": (CONNECT, replace(CHALLENGE, node_id=NodeId(9)), PROOF, SPKI),
    "version": (CONNECT, replace(CHALLENGE, version=0x201), PROOF, SPKI),
    "features": (CONNECT, replace(CHALLENGE, features=(1,)), PROOF, SPKI),
    "mode": (CONNECT, CHALLENGE, replace(PROOF, mode=Mode.DATA), SPKI),
    "direction": (CONNECT, CHALLENGE, replace(PROOF, direction=Direction.UNIDIRECTIONAL), SPKI),
    "scheme": (CONNECT, CHALLENGE, replace(PROOF, evidence=replace(EVIDENCE, scheme=3)), SPKI),
    "credential": (
        CONNECT,
        CHALLENGE,
        replace(PROOF, evidence=replace(EVIDENCE, credential=b"")),
        SPKI,
    ),
    "server key": (CONNECT, CHALLENGE, PROOF, bytes(32)),
}


def test_every_field_counts_and_no_two_inputs_are_alike() -> None:
    seen = {dialler_transcript(*change) for change in CHANGES.values()}
    seen.add(dialler_transcript(CONNECT, CHALLENGE, PROOF, SPKI))
    seen.add(listener_transcript(CONNECT, CHALLENGE, RESPONSE, SPKI))
    assert len(seen) == len(CHANGES) + 2


def test_the_signature_itself_does_not_count() -> None:
    unsigned = replace(PROOF, evidence=replace(EVIDENCE, signature=b""))
    assert dialler_transcript(CONNECT, CHALLENGE, unsigned, SPKI) == dialler_transcript(
        CONNECT, CHALLENGE, PROOF, SPKI
    )


def test_a_key_hash_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(EncodeError, match="spki hash: 20 bytes where exactly 32 belong"):
        dialler_transcript(CONNECT, CHALLENGE, PROOF, bytes(20))


def test_the_bytes_of_a_node() -> None:
    writer = Writer()
    NODE_SELF.write(writer, DIALLER.node, "node")
    inner = writer.getvalue()
    unsigned = node_transcript(DIALLER.node, NodeSignature())
    assert unsigned == (
        b"\x10laps-2 node self" + bytes(8) + b"\x00" + len(inner).to_bytes(4, "big") + inner
    )
    fingerprint = bytes(range(32))
    signed = node_transcript(DIALLER.node, NodeSignature(2, fingerprint, b"ignored"))
    assert signed == (
        b"\x10laps-2 node self"
        + bytes.fromhex("0000000000000002 20")
        + fingerprint
        + len(inner).to_bytes(4, "big")
        + inner
    )


def test_what_a_relay_on_the_way_adds_does_not_count() -> None:
    heard = DIALLER.passed_on(NodeId(7), 1000)
    assert node_transcript(heard.node, heard.signature) == node_transcript(
        DIALLER.node, DIALLER.signature
    )
