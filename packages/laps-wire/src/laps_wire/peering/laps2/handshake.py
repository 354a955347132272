"""The handshake of ``laps-2``: identification, proof, negotiation of the mode, and settings.

::

    dialler                                                  listener
       |  CONNECT            versions, features, mode, node     |
       |------------------------------------------------------->|
       |  CHALLENGE          version, features, nonce, node id  |
       |<-------------------------------------------------------|   now both sides know
       |  PROOF              mode asked for, credential, sig    |   the other's node ID
       |------------------------------------------------------->|
       |  CONNECT_RESPONSE   mode granted, node, proof          |
       |<-------------------------------------------------------|   or CONNECT_REFUSED, at any
       |  SYNC_BEGIN ...                       SYNC_BEGIN ...   |   point instead

All four messages are always sent, even if no proof is required (scheme 0). A dialler of an anycast
address learns the listener's node ID only from CHALLENGE. So PROOF asks for control and not
CONNECT, which allows one control connection per peer (docs/spec/laps-2.md, section 4.4).

**Settings.** Both sides send their :class:`Settings` as parameters of CONNECT and CONNECT_RESPONSE.
A setting states what its sender accepts or keeps, so it is not negotiated. Only the hold time is
common: the lower of both values. An absent parameter means the default. A value outside its range
is malformed.

**Transcripts** are the exact bytes that the two kinds of signatures cover. This module does not
sign. All numbers have a fixed width and are big endian, every part of variable size follows its
length, and each use has its own label. So different inputs give different bytes, and a signature
for one use is invalid for the other. The connect proof, in PROOF and in CONNECT_RESPONSE::

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
the dialler already covers the requested one. The self part of node information::

    u8 length, label      "laps-2 node self"
    u64                   scheme
    u8 length, bytes      key fingerprint (0 or 32 bytes)
    u32 length, bytes     NodeSelf as it is encoded
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Self

from laps_wire.buffer import Writer
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import (
    U8,
    U16,
    U32,
    U64,
    VARINT,
    Array,
    Choice,
    Fixed,
    Layout,
    Prefixed,
    readable,
)
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.codepoints import (
    AUTH_CHALLENGE_BYTES,
    FINGERPRINT_BYTES,
    MAX_CREDENTIAL_BYTES,
    MAX_FEATURES,
    MAX_MESSAGE_BYTES,
    MAX_SIGNATURE_BYTES,
    MAX_VERSIONS,
    MIN_MESSAGE_BYTES,
    SPKI_HASH_BYTES,
    AuthScheme,
    Direction,
    HashScheme,
    Mode,
    ParameterId,
)
from laps_wire.peering.laps2.fields import (
    CONTACTS,
    FEATURES,
    NO_PARAMETERS,
    PARAMETERS,
    REASON,
    SCHEMES,
    Ascending,
    Parameters,
)
from laps_wire.peering.laps2.information import (
    NODE_INFO,
    NODE_SELF,
    NodeInfo,
    NodeSelf,
    NodeSignature,
)

__all__ = [
    "CHALLENGE",
    "CONNECT",
    "CONNECT_REFUSED",
    "CONNECT_RESPONSE",
    "DIALLER_LABEL",
    "EVIDENCE",
    "HASH_CHECK_NAME",
    "LISTENER_LABEL",
    "NODE_LABEL",
    "NO_EVIDENCE",
    "PROOF",
    "Challenge",
    "Connect",
    "ConnectRefused",
    "ConnectResponse",
    "Evidence",
    "Proof",
    "Settings",
    "dialler_transcript",
    "listener_transcript",
    "node_transcript",
]

# Settings

HASH_CHECK_NAME: Final = ((b"laps-2",), b"check")
"""The full name (namespace fields, track name) whose hash both sides compare (HASH_CHECK)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one side, called the sender below."""

    unknown_sns_ms: int = 1_000
    """How long the sender keeps data with an unknown SNS ID."""
    unknown_sns_bytes: int = 1_048_576
    """How much of such data the sender keeps for this session; the oldest is dropped first."""
    max_message_size: int = MIN_MESSAGE_BYTES
    """The longest message body that the sender accepts."""
    hold_ms: int = 15_000
    """A session without received messages is closed after this time; 0: never."""
    max_sns_targets: int = 4_096
    """The largest subscriber node set that the sender serves."""
    max_sns_sets: int = 65_536
    """The most sets that the sender serves at a time in this session."""
    max_nodes: int = 65_536
    """The most nodes that the sender accepts from the peer."""
    max_announces: int = 1_048_576
    """The most announces that the sender accepts from the peer."""
    max_subscribes: int = 16_777_216
    """The most subscribes that the sender accepts from the peer."""
    hash_scheme: int = HashScheme.BLAKE2B_64
    """The hash scheme for names; must be the same on both sides."""
    batch_ms: int = 20
    """How long the sender collects changes before it sends them."""
    hash_check: int | None = None
    """The hash of :data:`HASH_CHECK_NAME`, 64 bits; it differs if the keys differ."""
    expected_node: int | None = None
    """In CONNECT: the node that the dialler intends to reach."""
    implementation: str = ""
    """Name and version of the software, for display only."""

    def __post_init__(self) -> None:
        for name, (_, minimum, maximum) in _NUMBERS.items():
            if not minimum <= getattr(self, name) <= maximum:
                raise EncodeError(f"{name}: {getattr(self, name)} is outside {minimum}..{maximum}")
        for name in ("hash_check", "expected_node"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1 << 64:
                raise EncodeError(f"{name}: {value} does not fit 64 bits")

    def hold_with(self, other: Settings) -> int:
        """Return the hold time of a session between both sides, in milliseconds; 0: none."""
        if 0 in (self.hold_ms, other.hold_ms):
            return max(self.hold_ms, other.hold_ms)
        return min(self.hold_ms, other.hold_ms)

    def to_parameters(self, others: Parameters = NO_PARAMETERS) -> Parameters:
        """Return the settings as parameters, added to ``others``; defaults are omitted."""
        parameters = others
        for name, (identifier, _, _) in _NUMBERS.items():
            value: int = getattr(self, name)
            if value != _DEFAULTS[name]:
                parameters = parameters.with_number(identifier, value)
        if self.hash_check is not None:
            parameters = parameters.with_bytes(
                ParameterId.HASH_CHECK, self.hash_check.to_bytes(8, "big")
            )
        if self.expected_node is not None:
            parameters = parameters.with_bytes(
                ParameterId.EXPECTED_NODE, self.expected_node.to_bytes(8, "big")
            )
        if self.implementation:
            parameters = parameters.with_bytes(
                ParameterId.IMPLEMENTATION, self.implementation.encode()
            )
        return parameters

    @classmethod
    def from_parameters(cls, parameters: Parameters) -> Self:
        """Return the settings in a peer's parameters; other parameters are ignored."""
        numbers = {name: parameters.number(entry[0]) for name, entry in _NUMBERS.items()}
        try:
            return cls(
                **{name: value for name, value in numbers.items() if value is not None},
                hash_check=_u64(parameters, ParameterId.HASH_CHECK),
                expected_node=_u64(parameters, ParameterId.EXPECTED_NODE),
                implementation=readable(parameters.get(ParameterId.IMPLEMENTATION) or b""),
            )
        except EncodeError as error:
            raise MalformedError(str(error), field="settings") from None


def _u64(parameters: Parameters, identifier: ParameterId) -> int | None:
    value = parameters.get(identifier)
    if value is None:
        return None
    if len(value) != 8:
        raise MalformedError(f"{len(value)} bytes where 8 belong", field=identifier.name)
    return int.from_bytes(value, "big")


_DAY_MS: Final = 86_400_000
_MANY: Final = (1 << 62) - 1

# Parameter, least value, greatest value.
_NUMBERS: Final[dict[str, tuple[ParameterId, int, int]]] = {
    "unknown_sns_ms": (ParameterId.UNKNOWN_SNS_MS, 0, 60_000),
    "unknown_sns_bytes": (ParameterId.UNKNOWN_SNS_BYTES, 0, 1 << 32),
    "max_message_size": (ParameterId.MAX_MESSAGE_SIZE, MIN_MESSAGE_BYTES, MAX_MESSAGE_BYTES),
    "hold_ms": (ParameterId.HOLD_MS, 0, _DAY_MS),
    "max_sns_targets": (ParameterId.MAX_SNS_TARGETS, 1, 65_536),
    "max_sns_sets": (ParameterId.MAX_SNS_SETS, 0, (1 << 32) - 1),
    "max_nodes": (ParameterId.MAX_NODES, 0, _MANY),
    "max_announces": (ParameterId.MAX_ANNOUNCES, 0, _MANY),
    "max_subscribes": (ParameterId.MAX_SUBSCRIBES, 0, _MANY),
    "hash_scheme": (ParameterId.HASH_SCHEME, 0, _MANY),
    "batch_ms": (ParameterId.BATCH_MS, 0, 10_000),
}
_DEFAULTS: Final = {field.name: field.default for field in fields(Settings)}


# Messages


def _direct(node_info: NodeInfo) -> None:
    if node_info.path:
        raise EncodeError("a node that speaks for itself has an empty path")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A credential, with a signature or MAC over the transcript that proves its possession."""

    scheme: int = AuthScheme.NONE
    credential: bytes = b""
    """The credential of the scheme: a token, the name of a key, or a certificate chain."""
    signature: bytes = b""
    """Signature or MAC over the transcript (see the module)."""


NO_EVIDENCE: Final = Evidence()
"""Scheme 0: no proof."""


@dataclass(frozen=True, slots=True)
class Connect:
    """The first message on a connection, from the dialler."""

    versions: tuple[int, ...]
    """All versions that the dialler supports, lowest first."""
    features: tuple[int, ...]
    """The features that the dialler supports."""
    mode: Mode
    """The widest mode that the dialler asks for; PROOF may ask for less."""
    direction: Direction
    challenge: bytes
    """32 random bytes, which the proof of the listener in CONNECT_RESPONSE covers."""
    schemes: tuple[int, ...]
    """The authentication schemes that the dialler can use and verify."""
    node_info: NodeInfo
    """The node information of the dialler, with an empty path."""
    parameters: Parameters = NO_PARAMETERS
    """The sender's :class:`~laps_wire.peering.laps2.handshake.Settings`."""

    def __post_init__(self) -> None:
        _direct(self.node_info)


@dataclass(frozen=True, slots=True)
class Challenge:
    """The listener's choice of version and features, and the challenge for the dialler."""

    version: int
    """The highest version that both sides support."""
    features: tuple[int, ...]
    """The features that both sides support: a subset of those in CONNECT."""
    node_id: NodeId
    """The listener's node ID."""
    challenge: bytes
    """32 random bytes, never used twice."""
    schemes: tuple[int, ...]
    """The schemes that the listener accepts: a subset of those in CONNECT."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class Proof:
    """The dialler's evidence, and the mode that it requests."""

    mode: Mode
    """The mode of CONNECT or a part of it: without control if another connection carries it."""
    direction: Direction
    """The direction of CONNECT, or UNIDIRECTIONAL."""
    evidence: Evidence
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class ConnectResponse:
    """The listener accepts; the session is established on sending and on receipt."""

    mode: Mode
    """The mode of the connection: that of PROOF or a part of it."""
    direction: Direction
    """The direction of PROOF, or UNIDIRECTIONAL."""
    node_info: NodeInfo
    """The node information of the listener, with an empty path and the node ID of CHALLENGE."""
    evidence: Evidence = NO_EVIDENCE
    """The listener's proof; scheme 0 or 1 if its TLS certificate is sufficient."""
    parameters: Parameters = NO_PARAMETERS
    """The sender's :class:`~laps_wire.peering.laps2.handshake.Settings`."""

    def __post_init__(self) -> None:
        _direct(self.node_info)


@dataclass(frozen=True, slots=True)
class ConnectRefused:
    """The listener refuses the session; the dialler closes the connection with the code."""

    code: int
    """A :class:`~laps_wire.peering.errors.CloseCode`, never 0."""
    reason: str = ""
    retry_after_ms: int = 0
    """How long to wait before dialling again, in milliseconds; 0: unspecified."""
    redirect: tuple[str, ...] = ()
    """Contacts to dial instead, the preferred one first."""
    parameters: Parameters = NO_PARAMETERS

    def __post_init__(self) -> None:
        if self.code == 0:
            raise EncodeError("a refusal needs a code other than 0")


_MODE: Final = Choice(VARINT, Mode)
_DIRECTION: Final = Choice(VARINT, Direction)
_CHALLENGE: Final = Fixed(AUTH_CHALLENGE_BYTES)

EVIDENCE: Final = Layout(
    Evidence,
    ("scheme", VARINT),
    ("credential", Prefixed(MAX_CREDENTIAL_BYTES)),
    ("signature", Prefixed(MAX_SIGNATURE_BYTES)),
)
CONNECT: Final = Layout(
    Connect,
    ("versions", Ascending(VARINT, MAX_VERSIONS, minimum=1)),
    ("features", FEATURES),
    ("mode", _MODE),
    ("direction", _DIRECTION),
    ("challenge", _CHALLENGE),
    ("schemes", SCHEMES),
    ("node_info", NODE_INFO),
    ("parameters", PARAMETERS),
)
CHALLENGE: Final = Layout(
    Challenge,
    ("version", VARINT),
    ("features", FEATURES),
    ("node_id", NODE_ID),
    ("challenge", _CHALLENGE),
    ("schemes", SCHEMES),
    ("parameters", PARAMETERS),
)
PROOF: Final = Layout(
    Proof,
    ("mode", _MODE),
    ("direction", _DIRECTION),
    ("evidence", EVIDENCE),
    ("parameters", PARAMETERS),
)
CONNECT_RESPONSE: Final = Layout(
    ConnectResponse,
    ("mode", _MODE),
    ("direction", _DIRECTION),
    ("node_info", NODE_INFO),
    ("evidence", EVIDENCE),
    ("parameters", PARAMETERS),
)
CONNECT_REFUSED: Final = Layout(
    ConnectRefused,
    ("code", VARINT),
    ("reason", REASON),
    ("retry_after_ms", VARINT),
    ("redirect", CONTACTS),
    ("parameters", PARAMETERS),
)


# Transcripts: the bytes that are signed

DIALLER_LABEL: Final = b"laps-2 connect proof dialler"
"""The label of a dialler's proof."""
LISTENER_LABEL: Final = b"laps-2 connect proof listener"
"""The label of a listener's proof."""
NODE_LABEL: Final = b"laps-2 node self"
"""The label of a signature over node information."""

_LABEL: Final = Prefixed(255, U8)
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
