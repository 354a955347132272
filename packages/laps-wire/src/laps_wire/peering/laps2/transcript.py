"""The exact bytes that the two kinds of ``laps-2`` signatures cover.

This module does not sign. All numbers have a fixed width and are big endian, every part of variable
size follows its length, and each use has its own label. So different inputs give different bytes,
and a signature for one use is invalid for the other.

Connect proof, in PROOF and in CONNECT_RESPONSE::

    u8 length, label      "laps-2 connect proof dialler" / "laps-2 connect proof listener"
    32 bytes              the listener's challenge (CHALLENGE)
    32 bytes              the dialler's challenge (CONNECT)
    u64                   the dialler's node ID
    u64                   the dialler's boot epoch
    u64                   the listener's node ID
    32 bytes              SHA-256 of the listener's TLS SubjectPublicKeyInfo (DER)
    u64                   version
    u16 count, u64 ...    features in use, ascending
    u8, u8                mode and direction, as asked (PROOF) or granted (CONNECT_RESPONSE)
    u64                   scheme of the evidence
    u32 length, bytes     credential of the evidence

The transcript includes the key of the TLS handshake. A man in the middle has another key, so a
proof that it forwards does not verify. The listener's transcript has the granted mode; the proof of
the dialler already covers the requested one.

Self part of node information::

    u8 length, label      "laps-2 node self"
    u64                   scheme
    u8 length, bytes      key fingerprint (0 or 32 bytes)
    u32 length, bytes     NodeSelf as it is encoded
"""

from __future__ import annotations

from typing import Final

from laps_wire.buffer import Writer
from laps_wire.fields import U8, U16, U32, U64, Fixed, Prefixed
from laps_wire.layout import Array
from laps_wire.peering.laps2.codepoints import Direction, Mode
from laps_wire.peering.laps2.handshake import (
    Challenge,
    Connect,
    ConnectResponse,
    Evidence,
    Proof,
)
from laps_wire.peering.laps2.limits import (
    AUTH_CHALLENGE_BYTES,
    FINGERPRINT_BYTES,
    MAX_CREDENTIAL_BYTES,
    MAX_FEATURES,
    MAX_MESSAGE_BYTES,
    SPKI_HASH_BYTES,
)
from laps_wire.peering.laps2.node import NODE_SELF, NodeSelf, NodeSignature

__all__ = [
    "DIALLER_LABEL",
    "LISTENER_LABEL",
    "NODE_LABEL",
    "dialler_transcript",
    "listener_transcript",
    "node_transcript",
]

DIALLER_LABEL: Final = b"laps-2 connect proof dialler"
"""The label of a dialler's proof."""
LISTENER_LABEL: Final = b"laps-2 connect proof listener"
"""The label of a listener's proof."""
NODE_LABEL: Final = b"laps-2 node self"
"""The label of a signature over node information."""

_LABEL: Final = Prefixed(255, U8)
_CHALLENGE: Final = Fixed(AUTH_CHALLENGE_BYTES)
_SPKI_HASH: Final = Fixed(SPKI_HASH_BYTES)
_FEATURES: Final = Array(U64, MAX_FEATURES, U16)
_CREDENTIAL: Final = Prefixed(MAX_CREDENTIAL_BYTES, U32)
_FINGERPRINT: Final = Prefixed(FINGERPRINT_BYTES, U8)
_SELF: Final = Prefixed(MAX_MESSAGE_BYTES, U32)


def dialler_transcript(
    connect: Connect, challenge: Challenge, proof: Proof, spki_hash: bytes
) -> bytes:
    """Return the bytes that the dialler signs for PROOF; ignores the signature in ``proof``."""
    return _connect(
        DIALLER_LABEL, connect, challenge, spki_hash, proof.mode, proof.direction, proof.evidence
    )


def listener_transcript(
    connect: Connect, challenge: Challenge, response: ConnectResponse, spki_hash: bytes
) -> bytes:
    """Return the bytes that the listener signs for CONNECT_RESPONSE; ignores its signature."""
    return _connect(
        LISTENER_LABEL,
        connect,
        challenge,
        spki_hash,
        response.mode,
        response.direction,
        response.evidence,
    )


def _connect(
    label: bytes,
    connect: Connect,
    challenge: Challenge,
    spki_hash: bytes,
    mode: Mode,
    direction: Direction,
    evidence: Evidence,
) -> bytes:
    dialler = connect.node_info.node
    writer = Writer()
    _LABEL.write(writer, label, "label")
    _CHALLENGE.write(writer, challenge.challenge, "listener challenge")
    _CHALLENGE.write(writer, connect.challenge, "dialler challenge")
    writer.u64(dialler.node_id, "dialler node id")
    writer.u64(dialler.stamp.epoch, "dialler epoch")
    writer.u64(challenge.node_id, "listener node id")
    _SPKI_HASH.write(writer, spki_hash, "spki hash")
    writer.u64(challenge.version, "version")
    _FEATURES.write(writer, challenge.features, "features")
    writer.u8(mode, "mode")
    writer.u8(direction, "direction")
    writer.u64(evidence.scheme, "scheme")
    _CREDENTIAL.write(writer, evidence.credential, "credential")
    return writer.getvalue()


def node_transcript(node: NodeSelf, signature: NodeSignature) -> bytes:
    """Return the bytes that a node signs; ignores the signature bytes in ``signature``."""
    inner = Writer()
    NODE_SELF.write(inner, node, "node")
    writer = Writer()
    _LABEL.write(writer, NODE_LABEL, "label")
    writer.u64(signature.scheme, "scheme")
    _FINGERPRINT.write(writer, signature.fingerprint, "fingerprint")
    _SELF.write(writer, inner.getvalue(), "node")
    return writer.getvalue()
