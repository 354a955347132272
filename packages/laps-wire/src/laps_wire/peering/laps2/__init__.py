"""``laps-2``: the complete relay-to-relay peering protocol.

::

    control stream   framing        type, length, body
                        |
                     messages       the table of all messages
                        |
       handshake, settings          CONNECT, CHALLENGE, PROOF, RESPONSE and what they negotiate
       transcript                   the bytes that are signed
       information, node            node, announce and subscribe entries in batches
       forwarding, sns              subscriber node sets and their IDs
       fetching                     a FETCH that another relay answers
                        |
       fields, parameters, limits, codepoints

    data             data           the header of a data stream and of a datagram

Import messages, framing and data headers from here. Numbers that are not re-exported are in
``codepoints`` and ``limits``.

``docs/spec/laps-2.md`` specifies the protocol; a test compares its numbers with ``codepoints``.
"""

from laps_wire.peering.laps2.codepoints import (
    ALPN,
    VERSION_2_0,
    AnnounceKind,
    AuthScheme,
    Bases,
    DataKind,
    Direction,
    Feature,
    HashScheme,
    LoadClass,
    MessageType,
    Mode,
    ParameterId,
    PayloadFormat,
    RelayType,
    SnsRefusal,
    SubscribeCode,
)
from laps_wire.peering.laps2.data import (
    FLAG_CONTINUED,
    FLAG_FETCH,
    DataHeader,
    decode_data_header,
    encode_data_header,
    rewrite_sns_id,
    sns_id_at,
    split,
    with_sns_id,
)
from laps_wire.peering.laps2.fetching import FetchCancel, FetchRequest, FetchResponse
from laps_wire.peering.laps2.fields import Label, Stamp
from laps_wire.peering.laps2.forwarding import (
    SnsAdvertise,
    SnsRefused,
    SnsUpdate,
    SnsWithdraw,
    scope_parameters,
)
from laps_wire.peering.laps2.framing import Incoming, UnknownMessage, decode, encode
from laps_wire.peering.laps2.handshake import (
    NO_EVIDENCE,
    Challenge,
    Connect,
    ConnectRefused,
    ConnectResponse,
    Evidence,
    Proof,
)
from laps_wire.peering.laps2.information import (
    AnnounceAdvertise,
    AnnounceInfo,
    AnnounceWithdraw,
    AnnounceWithdrawal,
    NodeAdvertise,
    NodeWithdraw,
    SubscribeAdvertise,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdraw,
    SubscribeWithdrawal,
)
from laps_wire.peering.laps2.messages import (
    ControlLatch,
    Drain,
    Keepalive,
    Message,
    Probe,
    ProbeResponse,
    Stay,
    SyncBegin,
    SyncEnd,
    SyncRequest,
)
from laps_wire.peering.laps2.node import (
    UNSIGNED,
    Load,
    Location,
    NodeInfo,
    NodePathItem,
    NodeSelf,
    NodeSignature,
    Reachable,
)
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, Parameters
from laps_wire.peering.laps2.settings import Settings
from laps_wire.peering.laps2.transcript import (
    dialler_transcript,
    listener_transcript,
    node_transcript,
)

__all__ = [
    "ALPN",
    "FLAG_CONTINUED",
    "FLAG_FETCH",
    "NO_EVIDENCE",
    "NO_PARAMETERS",
    "UNSIGNED",
    "VERSION_2_0",
    "AnnounceAdvertise",
    "AnnounceInfo",
    "AnnounceKind",
    "AnnounceWithdraw",
    "AnnounceWithdrawal",
    "AuthScheme",
    "Bases",
    "Challenge",
    "Connect",
    "ConnectRefused",
    "ConnectResponse",
    "ControlLatch",
    "DataHeader",
    "DataKind",
    "Direction",
    "Drain",
    "Evidence",
    "Feature",
    "FetchCancel",
    "FetchRequest",
    "FetchResponse",
    "HashScheme",
    "Incoming",
    "Keepalive",
    "Label",
    "Load",
    "LoadClass",
    "Location",
    "Message",
    "MessageType",
    "Mode",
    "NodeAdvertise",
    "NodeInfo",
    "NodePathItem",
    "NodeSelf",
    "NodeSignature",
    "NodeWithdraw",
    "ParameterId",
    "Parameters",
    "PayloadFormat",
    "Probe",
    "ProbeResponse",
    "Proof",
    "Reachable",
    "RelayType",
    "Settings",
    "SnsAdvertise",
    "SnsRefusal",
    "SnsRefused",
    "SnsUpdate",
    "SnsWithdraw",
    "Stamp",
    "Stay",
    "SubscribeAdvertise",
    "SubscribeCode",
    "SubscribeData",
    "SubscribeInfo",
    "SubscribeResponse",
    "SubscribeWithdraw",
    "SubscribeWithdrawal",
    "SyncBegin",
    "SyncEnd",
    "SyncRequest",
    "UnknownMessage",
    "decode",
    "decode_data_header",
    "dialler_transcript",
    "encode",
    "encode_data_header",
    "listener_transcript",
    "node_transcript",
    "rewrite_sns_id",
    "scope_parameters",
    "sns_id_at",
    "split",
    "with_sns_id",
]
