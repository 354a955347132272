"""The handshake of ``laps-2``: who are you, prove it, and what shall we carry.

::

    dialler                                                  listener
       |  CONNECT            versions, features, mode, node     |
       |------------------------------------------------------->|
       |  CHALLENGE          version, features, nonce, node id  |
       |<-------------------------------------------------------|   from here on each knows
       |  PROOF              mode asked for, credential, sig    |   the other's node ID
       |------------------------------------------------------->|
       |  CONNECT_RESPONSE   mode granted, node, proof          |
       |<-------------------------------------------------------|   or CONNECT_REFUSED, at any
       |  SYNC_BEGIN ...                       SYNC_BEGIN ...   |   point instead

All four steps always happen, also where no proof is asked for (scheme 0). The dialler may have
dialled an anycast address: only CHALLENGE tells it whom it reached, so it is PROOF that asks for
control, and the rule of one control connection can be kept (docs/spec/laps-2.md, section 4.4).
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
    """A credential, and that its owner is here: a signature or MAC over the transcript."""

    scheme: int = AuthScheme.NONE
    credential: bytes = b""
    """What the scheme says: a token, the name of a key, a certificate chain."""
    signature: bytes = b""
    """Over the bytes of :func:`~laps_wire.peering.laps2.transcript.connect_transcript`."""


NO_EVIDENCE: Final = Evidence()
"""Scheme 0: nothing is proved here."""


@dataclass(frozen=True, slots=True)
class Connect:
    """The first message on a connection, from the dialler."""

    versions: tuple[int, ...]
    """Every version the dialler speaks, lowest first."""
    features: tuple[int, ...]
    """The features it would use."""
    mode: Mode
    """The most that it wants to carry; PROOF may ask for less."""
    direction: Direction
    challenge: bytes
    """32 random bytes; the listener proves itself over them in CONNECT_RESPONSE."""
    schemes: tuple[int, ...]
    """The authentication schemes in which it can prove itself and check a proof."""
    node_info: NodeInfo
    """The dialler itself, with an empty path."""
    parameters: Parameters = NO_PARAMETERS
    """Its :class:`~laps_wire.peering.laps2.settings.Settings`."""

    def __post_init__(self) -> None:
        _direct(self.node_info)


@dataclass(frozen=True, slots=True)
class Challenge:
    """The listener's choice, and what the dialler has to prove itself over."""

    version: int
    """The highest version that both speak."""
    features: tuple[int, ...]
    """The features that both named: a subset of CONNECT's."""
    node_id: NodeId
    """The listener's node ID."""
    challenge: bytes
    """32 random bytes, never used twice."""
    schemes: tuple[int, ...]
    """The schemes that the listener accepts, all of them from CONNECT's list."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class Proof:
    """The dialler's evidence, and what it finally asks for."""

    mode: Mode
    """CONNECT's mode or a part of it: without control, if it has control with this node already."""
    direction: Direction
    """CONNECT's direction, or the lesser one."""
    evidence: Evidence
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class ConnectResponse:
    """The listener accepts: the session is established, for it now, for the dialler on receipt."""

    mode: Mode
    """PROOF's mode or a part of it: what this connection carries."""
    direction: Direction
    """PROOF's direction, or the lesser one."""
    node_info: NodeInfo
    """The listener itself, with an empty path; its node ID is the one in CHALLENGE."""
    evidence: Evidence = NO_EVIDENCE
    """The listener's own proof; scheme 0 or 1 if its TLS certificate says enough."""
    parameters: Parameters = NO_PARAMETERS
    """Its :class:`~laps_wire.peering.laps2.settings.Settings`."""

    def __post_init__(self) -> None:
        _direct(self.node_info)


@dataclass(frozen=True, slots=True)
class ConnectRefused:
    """The listener does not want this session; the dialler closes the connection with the code."""

    code: int
    """A :class:`~laps_wire.peering.errors.CloseCode`, never 0."""
    reason: str = ""
    retry_after_ms: int = 0
    """Not to be dialled again before; 0 says nothing about it."""
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
