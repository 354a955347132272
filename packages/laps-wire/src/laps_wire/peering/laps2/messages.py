"""The control messages of ``laps-2`` after the handshake, and the table of all messages.

Every message is a frozen dataclass whose fields stand in wire order, and a ``Layout``; every one
ends with a parameter list. ``LAYOUTS`` ties types, classes and tables together; reading and writing
whole messages is in :mod:`laps_wire.peering.laps2.framing`.

::

    handshake       Connect  Challenge  Proof  ConnectResponse  ConnectRefused
    session         ControlLatch  Keepalive  Drain  Stay
    information     NodeAdvertise      NodeWithdraw
                    AnnounceAdvertise  AnnounceWithdraw
                    SubscribeAdvertise SubscribeWithdraw  SubscribeResponse
    synchronising   SyncRequest  SyncBegin  SyncEnd
    forwarding      SnsAdvertise  SnsUpdate  SnsWithdraw  SnsRefused
    fetching        FetchRequest  FetchResponse  FetchCancel
    may be ignored  Probe  ProbeResponse
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from laps_wire.fields import U64, VARINT, Prefixed
from laps_wire.layout import Layout
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.codepoints import Bases, MessageType
from laps_wire.peering.laps2.fetching import (
    FETCH_CANCEL,
    FETCH_REQUEST,
    FETCH_RESPONSE,
    FetchCancel,
    FetchRequest,
    FetchResponse,
)
from laps_wire.peering.laps2.fields import CONTACTS, REASON, Bits, Maybe
from laps_wire.peering.laps2.forwarding import (
    SNS_ADVERTISE,
    SNS_REFUSED,
    SNS_UPDATE,
    SNS_WITHDRAW,
    SnsAdvertise,
    SnsRefused,
    SnsUpdate,
    SnsWithdraw,
)
from laps_wire.peering.laps2.handshake import (
    CHALLENGE,
    CONNECT,
    CONNECT_REFUSED,
    CONNECT_RESPONSE,
    PROOF,
    Challenge,
    Connect,
    ConnectRefused,
    ConnectResponse,
    Proof,
)
from laps_wire.peering.laps2.information import (
    ANNOUNCE_ADVERTISE,
    ANNOUNCE_WITHDRAW,
    NODE_ADVERTISE,
    NODE_WITHDRAW,
    SUBSCRIBE_ADVERTISE,
    SUBSCRIBE_RESPONSE,
    SUBSCRIBE_WITHDRAW,
    AnnounceAdvertise,
    AnnounceWithdraw,
    NodeAdvertise,
    NodeWithdraw,
    SubscribeAdvertise,
    SubscribeResponse,
    SubscribeWithdraw,
)
from laps_wire.peering.laps2.limits import (
    MAX_PADDING_BYTES,
)
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, PARAMETERS, Parameters

__all__ = [
    "LAYOUTS",
    "TYPES",
    "AnnounceAdvertise",
    "AnnounceWithdraw",
    "Challenge",
    "Connect",
    "ConnectRefused",
    "ConnectResponse",
    "ControlLatch",
    "Drain",
    "FetchCancel",
    "FetchRequest",
    "FetchResponse",
    "Keepalive",
    "Message",
    "NodeAdvertise",
    "NodeWithdraw",
    "Probe",
    "ProbeResponse",
    "Proof",
    "SnsAdvertise",
    "SnsRefused",
    "SnsUpdate",
    "SnsWithdraw",
    "Stay",
    "SubscribeAdvertise",
    "SubscribeResponse",
    "SubscribeWithdraw",
    "SyncBegin",
    "SyncEnd",
    "SyncRequest",
]


# Session


@dataclass(frozen=True, slots=True)
class ControlLatch:
    """The first message on a new control stream, which replaces the older one; that is reset."""

    generation: int
    """1 for the first replacement, plus 1 for each further one; the highest one wins."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Keeps the session alive when there is nothing to send; any other message does so too."""

    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class Drain:
    """The sender is about to stop: move traffic away from it, then close."""

    deadline_ms: int
    """The time until the sender closes the session, in milliseconds from now."""
    reason: str = ""
    alternates: tuple[str, ...] = ()
    """Contacts to dial instead, the preferred one first."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class Stay:
    """The sender revokes its DRAIN."""

    parameters: Parameters = NO_PARAMETERS


# Synchronising


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """Asks the peer to send these bases again, completely."""

    bases: Bases
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SyncBegin:
    """The sender sends all entries of these bases from here to SYNC_END."""

    bases: Bases
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SyncEnd:
    """The end of the entries: those not repeated since SYNC_BEGIN are removed."""

    bases: Bases
    parameters: Parameters = NO_PARAMETERS


# May be ignored


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks for the round-trip time to ``target``."""

    probe_id: int
    target: NodeId
    """The node to reach; the receiver's own ID measures this session."""
    timestamp: int
    """The sender's clock, 64 bits; the response returns it unchanged."""
    padding: bytes = b""
    """Arbitrary bytes, for measurements with larger messages."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """The answer to a probe."""

    probe_id: int
    target: NodeId
    timestamp: int
    """The timestamp of the probe, unchanged."""
    delay_us: int
    """The processing time of the responder, to be subtracted from the round trip."""
    rtt_us: int | None = None
    """The responder's round-trip time to ``target``; None if it does not reach the target."""
    padding: bytes = b""
    parameters: Parameters = NO_PARAMETERS


# The table

_BASES: Final = Bits(Bases, int(Bases.ALL))
_TAIL: Final = ("parameters", PARAMETERS)

LAYOUTS: Final[dict[MessageType, Layout[Any]]] = {
    MessageType.CONNECT: CONNECT,
    MessageType.CHALLENGE: CHALLENGE,
    MessageType.PROOF: PROOF,
    MessageType.CONNECT_RESPONSE: CONNECT_RESPONSE,
    MessageType.CONNECT_REFUSED: CONNECT_REFUSED,
    MessageType.CONTROL_LATCH: Layout(ControlLatch, ("generation", VARINT), _TAIL),
    MessageType.KEEPALIVE: Layout(Keepalive, _TAIL),
    MessageType.DRAIN: Layout(
        Drain, ("deadline_ms", VARINT), ("reason", REASON), ("alternates", CONTACTS), _TAIL
    ),
    MessageType.STAY: Layout(Stay, _TAIL),
    MessageType.NODE_ADVERTISE: NODE_ADVERTISE,
    MessageType.NODE_WITHDRAW: NODE_WITHDRAW,
    MessageType.ANNOUNCE_ADVERTISE: ANNOUNCE_ADVERTISE,
    MessageType.ANNOUNCE_WITHDRAW: ANNOUNCE_WITHDRAW,
    MessageType.SUBSCRIBE_ADVERTISE: SUBSCRIBE_ADVERTISE,
    MessageType.SUBSCRIBE_WITHDRAW: SUBSCRIBE_WITHDRAW,
    MessageType.SUBSCRIBE_RESPONSE: SUBSCRIBE_RESPONSE,
    MessageType.SYNC_REQUEST: Layout(SyncRequest, ("bases", _BASES), _TAIL),
    MessageType.SYNC_BEGIN: Layout(SyncBegin, ("bases", _BASES), _TAIL),
    MessageType.SYNC_END: Layout(SyncEnd, ("bases", _BASES), _TAIL),
    MessageType.SNS_ADVERTISE: SNS_ADVERTISE,
    MessageType.SNS_UPDATE: SNS_UPDATE,
    MessageType.SNS_WITHDRAW: SNS_WITHDRAW,
    MessageType.SNS_REFUSED: SNS_REFUSED,
    MessageType.FETCH_REQUEST: FETCH_REQUEST,
    MessageType.FETCH_RESPONSE: FETCH_RESPONSE,
    MessageType.FETCH_CANCEL: FETCH_CANCEL,
    MessageType.PROBE: Layout(
        Probe,
        ("probe_id", VARINT),
        ("target", NODE_ID),
        ("timestamp", U64),
        ("padding", Prefixed(MAX_PADDING_BYTES)),
        _TAIL,
    ),
    MessageType.PROBE_RESPONSE: Layout(
        ProbeResponse,
        ("probe_id", VARINT),
        ("target", NODE_ID),
        ("timestamp", U64),
        ("delay_us", VARINT),
        ("rtt_us", Maybe(VARINT)),
        ("padding", Prefixed(MAX_PADDING_BYTES)),
        _TAIL,
    ),
}
"""The layout of the body of each message type."""

TYPES: Final[dict[type, MessageType]] = {layout.cls: kind for kind, layout in LAYOUTS.items()}
"""The type of each message class."""

Message: TypeAlias = (
    Connect
    | Challenge
    | Proof
    | ConnectResponse
    | ConnectRefused
    | ControlLatch
    | Keepalive
    | Drain
    | Stay
    | NodeAdvertise
    | NodeWithdraw
    | AnnounceAdvertise
    | AnnounceWithdraw
    | SubscribeAdvertise
    | SubscribeWithdraw
    | SubscribeResponse
    | SyncRequest
    | SyncBegin
    | SyncEnd
    | SnsAdvertise
    | SnsUpdate
    | SnsWithdraw
    | SnsRefused
    | FetchRequest
    | FetchResponse
    | FetchCancel
    | Probe
    | ProbeResponse
)
"""Any message that this package knows."""
