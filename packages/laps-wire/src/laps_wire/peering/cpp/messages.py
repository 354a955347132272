"""The messages of the C++ relay's peering protocol: dataclasses and their tables.

Every body is big endian except for the path items inside node information. Bodies end where the
common header says; bytes left over are refused::

    NodeInfo           node ID (64) | type (8) | contact length (i) | contact | longitude (f64) |
                       latitude (f64) | path items (128 each) to the end
    Connect            mode (8) | NodeInfo
    ConnectResponse    error (16) | NodeInfo, only if error is 0
    SubscribeInfo      sequence (16) | source node ID (64) | namespace hash (64) | name hash (64) |
                       full-name hash (64) | data length (32) | MoQT SUBSCRIBE body
    AnnounceInfo       source node ID (64) | full-name hash (64) | count (8) |
                       { length (16) | field } ... | name length (16) | name | flags (8)
    SNS advertised     SNS ID (32) | priority (8) | count (16) | node IDs (64 each)
    SNS withdrawn      SNS ID (32)

``(i)`` is the integer coding of the relay's build (:class:`~laps_wire.peering.cpp.Build`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.fields import F64, U8, U16, U32, U64, Choice, Prefixed
from laps_wire.layout import Layout, Many
from laps_wire.names import MAX_NAME_BYTES, FullTrackName, Namespace
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.cpp.codepoints import (
    MAX_CONTACT_BYTES,
    MAX_PATH_ITEMS,
    MAX_SUBSCRIBE_DATA_BYTES,
    ConnectError,
    MessageType,
    NodeType,
    PeerMode,
)
from laps_wire.peering.cpp.fields import NODE_SET, PATH_ITEM, SHORT_NAMESPACE, NodePathItem

__all__ = [
    "DEFAULT_SNS_PRIORITY",
    "FLAG_NAMESPACE",
    "LAYOUTS",
    "TYPES",
    "AnnounceInfo",
    "AnnounceInfoAdvertised",
    "AnnounceInfoWithdrawn",
    "Connect",
    "ConnectResponse",
    "Message",
    "NodeInfo",
    "NodeInfoAdvertise",
    "NodeInfoWithdrawn",
    "SubscribeInfo",
    "SubscribeInfoAdvertised",
    "SubscribeInfoWithdrawn",
    "SubscribeNodeSetAdvertised",
    "SubscribeNodeSetWithdrawn",
]

FLAG_NAMESPACE: Final = 0x01
"""Bit 0 of an announce's flags: a whole namespace is announced, not one track."""

DEFAULT_SNS_PRIORITY: Final = 2
"""What the C++ relay writes as the priority of every node set."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One relay of the network, and the way that this news of it took."""

    node_id: NodeId
    node_type: NodeType
    contact: bytes
    """The relay's endpoint id, such as ``relay-a``; bytes, because the C++ relay checks nothing."""
    longitude: float = 0.0
    """In degrees; always 0 from a C++ relay, which has no setting for it."""
    latitude: float = 0.0
    path: tuple[NodePathItem, ...] = ()
    """The relays that passed it on, the first one first."""


@dataclass(frozen=True, slots=True)
class Connect:
    """The first message of the relay that dials."""

    mode: PeerMode
    node_info: NodeInfo
    """The sender itself, without a path."""


@dataclass(frozen=True, slots=True)
class ConnectResponse:
    """The answer: who we are, or why not."""

    error: int
    """0 or a :class:`~laps_wire.peering.cpp.ConnectError`; unknown ones are refusals as well."""
    node_info: NodeInfo | None
    """The answering relay; there if and only if ``error`` is 0."""

    def __post_init__(self) -> None:
        if (self.error == ConnectError.NONE) is (self.node_info is None):
            raise EncodeError(f"CONNECT_RESPONSE: error {self.error} and node_info contradict")


@dataclass(frozen=True, slots=True)
class NodeInfoAdvertise:
    """A relay can be reached by way of the sender."""

    node_info: NodeInfo


@dataclass(frozen=True, slots=True)
class NodeInfoWithdrawn:
    """A relay can no longer be reached by way of the sender."""

    node_info: NodeInfo


@dataclass(frozen=True, slots=True)
class SubscribeInfo:
    """Somebody at ``source_node_id`` wants a track."""

    sequence: int
    """Not monotonic in C++ relays: an advertise and its withdraw can have the same number."""
    source_node_id: NodeId
    namespace_hash: int
    name_hash: int
    fullname_hash: int
    """The track's hash, by which data is labelled (:func:`laps_wire.hashing.track_hashes`)."""
    subscribe_data: bytes
    """The body of the MoQT SUBSCRIBE, without type and length, in the draft of the build."""


@dataclass(frozen=True, slots=True)
class SubscribeInfoAdvertised:
    """A subscription begins."""

    info: SubscribeInfo


@dataclass(frozen=True, slots=True)
class SubscribeInfoWithdrawn:
    """A subscription ends; the body is as full as that of the beginning."""

    info: SubscribeInfo


@dataclass(frozen=True, slots=True)
class AnnounceInfo:
    """Somebody at ``source_node_id`` publishes a track or a namespace; names are in the clear."""

    source_node_id: NodeId
    fullname_hash: int
    namespace: Namespace
    name: bytes
    """Empty if a namespace is announced."""
    flags: int
    """Bit 0 says namespace; the others are kept as they came."""

    def __post_init__(self) -> None:
        # The limit on both together is the full name's own.
        FullTrackName(self.namespace, self.name)

    @property
    def is_namespace(self) -> bool:
        """Whether a whole namespace is announced (PUBLISH_NAMESPACE) and not one track."""
        return bool(self.flags & FLAG_NAMESPACE)


@dataclass(frozen=True, slots=True)
class AnnounceInfoAdvertised:
    """A publication begins."""

    info: AnnounceInfo


@dataclass(frozen=True, slots=True)
class AnnounceInfoWithdrawn:
    """A publication ends."""

    info: AnnounceInfo


@dataclass(frozen=True, slots=True)
class SubscribeNodeSetAdvertised:
    """From now on, data labelled ``sns_id`` on this connection is for these nodes."""

    sns_id: int
    priority: int
    """2 from a C++ relay, which neither sets nor reads it."""
    nodes: tuple[NodeId, ...]
    """Ascending, each once."""

    def __post_init__(self) -> None:
        if any(left >= right for left, right in itertools.pairwise(self.nodes)):
            raise EncodeError("SUBSCRIBE_NODE_SET: nodes are not ascending, each once")


@dataclass(frozen=True, slots=True)
class SubscribeNodeSetWithdrawn:
    """``sns_id`` means nothing any more on this connection."""

    sns_id: int


Message: TypeAlias = (
    Connect
    | ConnectResponse
    | NodeInfoAdvertise
    | NodeInfoWithdrawn
    | SubscribeInfoAdvertised
    | SubscribeInfoWithdrawn
    | AnnounceInfoAdvertised
    | AnnounceInfoWithdrawn
    | SubscribeNodeSetAdvertised
    | SubscribeNodeSetWithdrawn
)

NODE_INFO: Final = Layout(
    NodeInfo,
    ("node_id", NODE_ID),
    ("node_type", Choice(U8, NodeType)),
    ("contact", Prefixed(MAX_CONTACT_BYTES)),
    ("longitude", F64),
    ("latitude", F64),
    ("path", Many(PATH_ITEM, MAX_PATH_ITEMS)),
)


@dataclass(frozen=True, slots=True)
class IfAccepted:
    """Node information up to the end of the message; absent where the message ends before it."""

    def read(self, reader: Reader, field: str) -> NodeInfo | None:
        """Read it."""
        return None if reader.at_end else NODE_INFO.read(reader, field)

    def write(self, writer: Writer, value: NodeInfo | None, field: str) -> None:
        """Write it."""
        if value is not None:
            NODE_INFO.write(writer, value, field)


SUBSCRIBE_INFO: Final = Layout(
    SubscribeInfo,
    ("sequence", U16),
    ("source_node_id", NODE_ID),
    ("namespace_hash", U64),
    ("name_hash", U64),
    ("fullname_hash", U64),
    ("subscribe_data", Prefixed(MAX_SUBSCRIBE_DATA_BYTES, U32)),
)

ANNOUNCE_INFO: Final = Layout(
    AnnounceInfo,
    ("source_node_id", NODE_ID),
    ("fullname_hash", U64),
    ("namespace", SHORT_NAMESPACE),
    ("name", Prefixed(MAX_NAME_BYTES, U16)),
    ("flags", U8),
)

LAYOUTS: Final[dict[MessageType, Layout[Any]]] = {
    MessageType.CONNECT: Layout(Connect, ("mode", Choice(U8, PeerMode)), ("node_info", NODE_INFO)),
    MessageType.CONNECT_RESPONSE: Layout(
        ConnectResponse, ("error", U16), ("node_info", IfAccepted())
    ),
    MessageType.NODE_INFO_ADVERTISE: Layout(NodeInfoAdvertise, ("node_info", NODE_INFO)),
    MessageType.NODE_INFO_WITHDRAWN: Layout(NodeInfoWithdrawn, ("node_info", NODE_INFO)),
    MessageType.SUBSCRIBE_INFO_ADVERTISED: Layout(
        SubscribeInfoAdvertised, ("info", SUBSCRIBE_INFO)
    ),
    MessageType.SUBSCRIBE_INFO_WITHDRAWN: Layout(SubscribeInfoWithdrawn, ("info", SUBSCRIBE_INFO)),
    MessageType.ANNOUNCE_INFO_ADVERTISED: Layout(AnnounceInfoAdvertised, ("info", ANNOUNCE_INFO)),
    MessageType.ANNOUNCE_INFO_WITHDRAWN: Layout(AnnounceInfoWithdrawn, ("info", ANNOUNCE_INFO)),
    MessageType.SUBSCRIBE_NODE_SET_ADVERTISED: Layout(
        SubscribeNodeSetAdvertised, ("sns_id", U32), ("priority", U8), ("nodes", NODE_SET)
    ),
    MessageType.SUBSCRIBE_NODE_SET_WITHDRAWN: Layout(SubscribeNodeSetWithdrawn, ("sns_id", U32)),
}
"""The table of every message type."""

TYPES: Final[dict[type, MessageType]] = {layout.cls: kind for kind, layout in LAYOUTS.items()}
"""The message type of every dataclass."""
