"""The peering protocol of the C++ LAPS relay.

::

    control stream     messages     dataclasses, their tables of fields, the common header
                          |
                       codepoints   numbers, limits, the two builds
                          |
    data               data_header  in front of a data stream or a datagram

Import the messages, the framing functions and the data headers from here. Two builds of the relay
are known: :data:`DRAFT16` and :data:`DRAFT18`.

``docs/spec/laps-cpp.md`` describes the bytes.
"""

from laps_wire.peering.cpp.codepoints import (
    DRAFT16,
    DRAFT18,
    Build,
    ConnectError,
    DataType,
    MessageType,
    NodeType,
    PeerMode,
)
from laps_wire.peering.cpp.data_header import (
    DatagramHeader,
    StreamHeader,
    decode_datagram_header,
    decode_stream_header,
    encode_datagram_header,
    encode_stream_header,
    rewrite_sns_id,
    sns_id_at,
    with_sns_id,
)
from laps_wire.peering.cpp.messages import (
    DEFAULT_SNS_PRIORITY,
    FLAG_NAMESPACE,
    AnnounceInfo,
    AnnounceInfoAdvertised,
    AnnounceInfoWithdrawn,
    Connect,
    ConnectResponse,
    Incoming,
    Message,
    MessageStream,
    NodeInfo,
    NodeInfoAdvertise,
    NodeInfoWithdrawn,
    NodePathItem,
    SubscribeInfo,
    SubscribeInfoAdvertised,
    SubscribeInfoWithdrawn,
    SubscribeNodeSetAdvertised,
    SubscribeNodeSetWithdrawn,
    UnknownMessage,
    decode,
    encode,
)

__all__ = [
    "DEFAULT_SNS_PRIORITY",
    "DRAFT16",
    "DRAFT18",
    "FLAG_NAMESPACE",
    "AnnounceInfo",
    "AnnounceInfoAdvertised",
    "AnnounceInfoWithdrawn",
    "Build",
    "Connect",
    "ConnectError",
    "ConnectResponse",
    "DataType",
    "DatagramHeader",
    "Incoming",
    "Message",
    "MessageStream",
    "MessageType",
    "NodeInfo",
    "NodeInfoAdvertise",
    "NodeInfoWithdrawn",
    "NodePathItem",
    "NodeType",
    "PeerMode",
    "StreamHeader",
    "SubscribeInfo",
    "SubscribeInfoAdvertised",
    "SubscribeInfoWithdrawn",
    "SubscribeNodeSetAdvertised",
    "SubscribeNodeSetWithdrawn",
    "UnknownMessage",
    "decode",
    "decode_datagram_header",
    "decode_stream_header",
    "encode",
    "encode_datagram_header",
    "encode_stream_header",
    "rewrite_sns_id",
    "sns_id_at",
    "with_sns_id",
]
