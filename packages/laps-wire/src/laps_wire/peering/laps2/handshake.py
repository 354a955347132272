"""The handshake of ``laps-2``: identification, proof, and negotiation of the mode.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_wire.errors import EncodeError
from laps_wire.fields import VARINT, Choice, Fixed, Prefixed
from laps_wire.layout import Layout
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.codepoints import AuthScheme, Direction, Mode
from laps_wire.peering.laps2.fields import (
    CONTACTS,
    FEATURES,
    REASON,
    SCHEMES,
    Ascending,
)
from laps_wire.peering.laps2.limits import (
    AUTH_CHALLENGE_BYTES,
    MAX_CREDENTIAL_BYTES,
    MAX_SIGNATURE_BYTES,
    MAX_VERSIONS,
)
from laps_wire.peering.laps2.node import NODE_INFO, NodeInfo
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, PARAMETERS, Parameters

__all__ = [
    "CHALLENGE",
    "CONNECT",
    "CONNECT_REFUSED",
    "CONNECT_RESPONSE",
    "EVIDENCE",
    "NO_EVIDENCE",
    "PROOF",
    "Challenge",
    "Connect",
    "ConnectRefused",
    "ConnectResponse",
    "Evidence",
    "Proof",
]


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
    """Signature or MAC over the transcript (:mod:`laps_wire.peering.laps2.transcript`)."""


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
    """The sender's :class:`~laps_wire.peering.laps2.settings.Settings`."""

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
    """The sender's :class:`~laps_wire.peering.laps2.settings.Settings`."""

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
