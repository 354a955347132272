"""The control messages of ``laps-2``: the table of all messages, and their framing.

Every message is a frozen dataclass whose fields stand in wire order, and a ``Layout``; every one
ends with a parameter list. ``LAYOUTS`` ties types, classes and tables together::

    handshake       Connect  Challenge  Proof  ConnectResponse  ConnectRefused     handshake.py
    session         ControlLatch  Keepalive  Drain  Stay
    information     NodeAdvertise      NodeWithdraw                                information.py
                    AnnounceAdvertise  AnnounceWithdraw
                    SubscribeAdvertise SubscribeWithdraw  SubscribeResponse
    synchronising   SyncRequest  SyncBegin  SyncEnd
    forwarding      SnsAdvertise  SnsUpdate  SnsWithdraw  SnsRefused               forwarding.py
    fetching        FetchRequest  FetchResponse  FetchCancel
    repair          Position  Resume  ResumeResponse
    may be ignored  Probe  ProbeResponse

The frame of a message on the control stream::

    +----------+------------+-----------------------------------+
    | type (i) | length (i) | body (length bytes)               |
    +----------+------------+-----------------------------------+
      even: must be            fields in order, then parameters;
      understood               nothing may be left over
      odd: may be ignored

The frame is the same for all versions and all types, so a relay can skip an unknown message. It
does so only if the type is odd. An unknown even type may change the meaning of later messages, and
ends the session.

A FETCH that another relay answers (feature FETCHES) is forwarded hop by hop along the node paths.
Each of its messages is for one relay; relays on the path keep no state of it. The objects of the
response are ordinary data: one stream to a set whose only target is the s-relay. The stream has the
flag FETCH, and the ID of the FETCH as its data context::

    s-relay                   Via                    o-relay
       |  FETCH_REQUEST id 7   |                        |
       |---------------------->|----------------------->|
       |                       |  FETCH_RESPONSE id 7   |
       |<----------------------|<-----------------------|
       |      data: flag FETCH, context 7               |
       |<======================|<=======================|
       |  FETCH_CANCEL id 7    |                        |
       |---------------------->|----------------------->|  to cancel

Repair (feature REPAIR) is forwarded in the same way. All three messages have the same fields::

    o-relay                                          s-relay
       |  POSITION         what my logs have            |
       |----------------------------------------------->|  compares its own logs
       |  RESUME           send from here on            |
       |<-----------------------------------------------|
       |  RESUME_RESPONSE  what is gone                 |
       |----------------------------------------------->|
       |      data: streams with the flag CONTINUED     |
       |===============================================>|
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from laps_wire.buffer import ByteSource, Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.fields import BOOL8, U32, U64, VARINT, Array, Constrained, Layout, Prefixed
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.errors import MessageTooLargeError, UnknownMessageError
from laps_wire.peering.laps2.codepoints import (
    MAX_BATCH,
    MAX_GROUPS,
    MAX_HOPS,
    MAX_MESSAGE_BYTES,
    MAX_PADDING_BYTES,
    MIN_MESSAGE_BYTES,
    Bases,
    MessageType,
)
from laps_wire.peering.laps2.fields import (
    CONTACTS,
    ELEMENT_HASHES,
    LABELS,
    NO_PARAMETERS,
    PARAMETERS,
    REASON,
    Bits,
    Label,
    Maybe,
    Parameters,
)
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
    NO_DATA,
    NODE_ADVERTISE,
    NODE_WITHDRAW,
    SUBSCRIBE_ADVERTISE,
    SUBSCRIBE_DATA,
    SUBSCRIBE_RESPONSE,
    SUBSCRIBE_WITHDRAW,
    AnnounceAdvertise,
    AnnounceWithdraw,
    NodeAdvertise,
    NodeWithdraw,
    SubscribeAdvertise,
    SubscribeData,
    SubscribeResponse,
    SubscribeWithdraw,
)

__all__ = [
    "FETCH_CANCEL",
    "FETCH_ID",
    "FETCH_REQUEST",
    "FETCH_RESPONSE",
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
    "Incoming",
    "Keepalive",
    "Message",
    "NodeAdvertise",
    "NodeWithdraw",
    "Position",
    "Probe",
    "ProbeResponse",
    "Proof",
    "RepairRun",
    "RepairTrack",
    "Resume",
    "ResumeResponse",
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
    "UnknownMessage",
    "decode",
    "encode",
    "read_message",
    "write_message",
]

# Fetching


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """An s-relay requests objects that were published before."""

    source: NodeId
    """The s-relay, which gets the response."""
    target: NodeId
    """The relay that is to answer: an o-relay, or a control server that knows one."""
    fetch_id: int
    """A random number from the s-relay; a relay that does not know it cannot answer."""
    hops: int
    """0 from the s-relay; each relay that forwards the message adds 1."""
    element_hashes: tuple[int, ...]
    """The hash of each namespace tuple element, in order."""
    name_hash: int
    full_name_hash: int
    scope: tuple[Label, ...] = ()
    """The labels that policy may evaluate, as in a subscribe."""
    data: SubscribeData = NO_DATA
    """The FETCH with resolved locations: it names a track and a range, and has no token."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The result of a FETCH; the objects arrive separately, before or after it."""

    source: NodeId
    """The s-relay, which gets this message."""
    fetch_id: int
    responder: NodeId
    """The relay that answers: the target, or a relay on the path that does not forward."""
    hops: int
    code: int
    """A :class:`~laps_wire.peering.laps2.codepoints.SubscribeCode`; 0 is accepted."""
    reason: str = ""
    retry_after_ms: int = 0
    """How long to wait before a retry, in milliseconds; 0: unspecified."""
    data: SubscribeData = NO_DATA
    """The body of FETCH_OK, or of the publisher's error."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class FetchCancel:
    """An s-relay cancels the rest of a response."""

    source: NodeId
    target: NodeId
    fetch_id: int
    hops: int
    parameters: Parameters = NO_PARAMETERS


FETCH_ID: Final = Constrained(U32, 1, 0xFFFF_FFFF)
"""The ID of a FETCH: 32 bits, as the data context in data headers; 0 is not an ID."""

_HOPS: Final = Constrained(VARINT, 0, MAX_HOPS)

FETCH_REQUEST: Final = Layout(
    FetchRequest,
    ("source", NODE_ID),
    ("target", NODE_ID),
    ("fetch_id", FETCH_ID),
    ("hops", _HOPS),
    ("element_hashes", ELEMENT_HASHES),
    ("name_hash", U64),
    ("full_name_hash", U64),
    ("scope", LABELS),
    ("data", SUBSCRIBE_DATA),
    ("parameters", PARAMETERS),
)
FETCH_RESPONSE: Final = Layout(
    FetchResponse,
    ("source", NODE_ID),
    ("fetch_id", FETCH_ID),
    ("responder", NODE_ID),
    ("hops", _HOPS),
    ("code", VARINT),
    ("reason", REASON),
    ("retry_after_ms", VARINT),
    ("data", SUBSCRIBE_DATA),
    ("parameters", PARAMETERS),
)
FETCH_CANCEL: Final = Layout(
    FetchCancel,
    ("source", NODE_ID),
    ("target", NODE_ID),
    ("fetch_id", FETCH_ID),
    ("hops", _HOPS),
    ("parameters", PARAMETERS),
)


# Repair


@dataclass(frozen=True, slots=True)
class RepairRun:
    """The same place in consecutive groups: an object of a subgroup."""

    group: int
    groups: int
    """How many groups, 1 or more."""
    subgroup: int
    object: int
    """POSITION: the number behind the last object. RESUME: the first object that is missing."""
    ended: bool = False
    """POSITION: whether the subgroup is complete."""


@dataclass(frozen=True, slots=True)
class RepairTrack:
    """Places in the subgroups of one track."""

    full_name_hash: int
    runs: tuple[RepairRun, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """An o-relay says which objects its logs have."""

    source: NodeId
    """The o-relay."""
    target: NodeId
    """The s-relay, which compares its own logs."""
    hops: int
    """0 from the source; each relay that forwards the message adds 1."""
    tracks: tuple[RepairTrack, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class Resume:
    """An s-relay asks for subgroups from certain objects on."""

    source: NodeId
    """The s-relay, which gets the streams."""
    target: NodeId
    """The o-relay whose POSITION named the objects."""
    hops: int
    tracks: tuple[RepairTrack, ...]
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class ResumeResponse:
    """An o-relay names the places that it cannot resume."""

    source: NodeId
    """The o-relay."""
    target: NodeId
    """The s-relay that asked."""
    hops: int
    tracks: tuple[RepairTrack, ...]
    """What is gone: the log has let it go, or never had it."""
    parameters: Parameters = NO_PARAMETERS


_RUN: Final = Layout(
    RepairRun,
    ("group", VARINT),
    ("groups", Constrained(VARINT, 1, MAX_GROUPS)),
    ("subgroup", VARINT),
    ("object", VARINT),
    ("ended", BOOL8),
)
_TRACK_RUNS: Final = Layout(
    RepairTrack,
    ("full_name_hash", U64),
    ("runs", Array(_RUN, MAX_BATCH)),
)
_REPAIR: Final = (
    ("source", NODE_ID),
    ("target", NODE_ID),
    ("hops", _HOPS),
    ("tracks", Array(_TRACK_RUNS, MAX_BATCH)),
    ("parameters", PARAMETERS),
)


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
    MessageType.POSITION: Layout(Position, *_REPAIR),
    MessageType.RESUME: Layout(Resume, *_REPAIR),
    MessageType.RESUME_RESPONSE: Layout(ResumeResponse, *_REPAIR),
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
    | Position
    | Resume
    | ResumeResponse
    | Probe
    | ProbeResponse
)
"""Any message that this package knows."""


# Framing


@dataclass(frozen=True, slots=True)
class UnknownMessage:
    """A message of an unknown odd type, to be ignored; it can be encoded again unchanged."""

    message_type: int
    body: bytes

    def __post_init__(self) -> None:
        if self.message_type & 1 == 0:
            raise EncodeError(f"message type {self.message_type:#x} is even: it must be understood")


Incoming: TypeAlias = "Message | UnknownMessage"
"""The result of the decoder."""

_KNOWN = {int(kind): (kind.name, layout) for kind, layout in LAYOUTS.items()}


def read_message(reader: Reader, *, max_size: int = MIN_MESSAGE_BYTES) -> Incoming:
    """Read one message; ``max_size`` is the largest body that this side offered to accept."""
    message_type = reader.varint("type")
    known = _KNOWN.get(message_type)
    if known is None and message_type & 1 == 0:
        raise UnknownMessageError(message_type)
    size = reader.varint("length")
    if size > max_size:
        raise MessageTooLargeError(size, max_size)
    if known is None:
        return UnknownMessage(message_type, reader.take(size, "body"))
    name, layout = known
    body = reader.sub(size, name)
    message: Message = layout.read(body, name)
    body.expect_end(name)
    return message


def write_message(writer: Writer, message: Incoming, *, max_size: int = MAX_MESSAGE_BYTES) -> None:
    """Write one message; raise if its body is over ``max_size``, the limit of the peer."""
    if isinstance(message, UnknownMessage):
        message_type, body = message.message_type, message.body
    else:
        kind = TYPES[type(message)]
        inner = Writer()
        LAYOUTS[kind].write(inner, message, kind.name)
        message_type, body = int(kind), inner.getvalue()
    if len(body) > max_size:
        name = MessageType(message_type).name if message_type in _KNOWN else f"{message_type:#x}"
        writer.fail(name, f"a body of {len(body)} bytes is over the limit of {max_size}")
    writer.varint(message_type, "type")
    writer.varint(len(body), "length")
    writer.raw(body)


def encode(message: Incoming, *, max_size: int = MAX_MESSAGE_BYTES) -> bytes:
    """Return one message as bytes."""
    writer = Writer()
    write_message(writer, message, max_size=max_size)
    return writer.getvalue()


def decode(
    data: ByteSource, *, pos: int = 0, max_size: int = MIN_MESSAGE_BYTES
) -> tuple[Incoming, int]:
    """Return the message at ``pos`` of a stream's bytes, and the position after it."""
    reader = Reader(data, partial=True, pos=pos)
    message = read_message(reader, max_size=max_size)
    return message, reader.pos
