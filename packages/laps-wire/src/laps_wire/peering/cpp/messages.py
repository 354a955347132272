"""The control messages of the C++ relay: dataclasses, their tables, and the common header.

Bodies are big endian, except for the path items inside node information: the C++ code copies these
from memory. A body ends where the common header says; further bytes are refused::

    NodeInfo           node ID (64) | type (8) | contact length (i) | contact | longitude (f64) |
                       latitude (f64) | path items (128 each) to the end
    path item          node ID (64, little endian) | sRTT in us (64, little endian)
    Connect            mode (8) | NodeInfo
    ConnectResponse    error (16) | NodeInfo, only if error is 0
    SubscribeInfo      sequence (16) | source node ID (64) | namespace hash (64) | name hash (64) |
                       full-name hash (64) | data length (32) | MoQT SUBSCRIBE body
    AnnounceInfo       source node ID (64) | full-name hash (64) | count (8) |
                       { length (16) | field } ... | name length (16) | name | flags (8)
    SNS advertised     SNS ID (32) | priority (8) | count (16) | node IDs (64 each)
    SNS withdrawn      SNS ID (32)

``(i)`` is the integer coding of the relay's build (:class:`~laps_wire.peering.cpp.Build`). The
common header precedes each message on the control stream::

     0         1              3                          7
    +---------+--------------+--------------------------+---------------------+
    | version | type         | length                   | body                |
    | (8) = 1 | (16)         | (32), without this header| (length bytes)      |
    +---------+--------------+--------------------------+---------------------+

A message of an unknown type is returned as :class:`UnknownMessage`, so that the caller can count or
log it; the C++ relay skips it.

Two notes for a C++ relay as peer. It handles one message for each received chunk, so each message
should be sent in its own packet. If one message does not parse, it clears its whole buffer. Our
receiver accepts any number of messages in any number of chunks.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from laps_wire.buffer import ByteSource, Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.fields import F64, U8, U16, U32, U64, Array, Choice, Layout, Many, Prefixed
from laps_wire.names import MAX_FIELDS, MAX_NAME_BYTES, FullTrackName, Namespace
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.cpp.codepoints import (
    HEADER_BYTES,
    MAX_BODY_BYTES,
    MAX_CONTACT_BYTES,
    MAX_PATH_ITEMS,
    MAX_SNS_NODES,
    MAX_SUBSCRIBE_DATA_BYTES,
    VERSION,
    Build,
    ConnectError,
    MessageType,
    NodeType,
    PeerMode,
)

__all__ = [
    "DEFAULT_SNS_PRIORITY",
    "FLAG_NAMESPACE",
    "LAYOUTS",
    "NODE_SET",
    "PATH_ITEM",
    "SHORT_NAMESPACE",
    "TYPES",
    "AnnounceInfo",
    "AnnounceInfoAdvertised",
    "AnnounceInfoWithdrawn",
    "Connect",
    "ConnectResponse",
    "Incoming",
    "Message",
    "MessageStream",
    "NodeInfo",
    "NodeInfoAdvertise",
    "NodeInfoWithdrawn",
    "NodePathItem",
    "SubscribeInfo",
    "SubscribeInfoAdvertised",
    "SubscribeInfoWithdrawn",
    "SubscribeNodeSetAdvertised",
    "SubscribeNodeSetWithdrawn",
    "UnknownMessage",
    "decode",
    "encode",
    "read_message",
]

# Field codecs


@dataclass(frozen=True, slots=True)
class LittleEndian64:
    """An unsigned 64-bit integer, least significant byte first."""

    def read(self, reader: Reader, field: str) -> int:
        """Read it."""
        return int.from_bytes(reader.view(8, field), "little")

    def write(self, writer: Writer, value: int, field: str) -> None:
        """Write it."""
        if not 0 <= value < 1 << 64:
            writer.fail(field, f"{value} does not fit 8 unsigned byte(s)")
        writer.raw(value.to_bytes(8, "little"))


@dataclass(frozen=True, slots=True)
class LittleEndianNodeId:
    """A node ID, least significant byte first."""

    def read(self, reader: Reader, field: str) -> NodeId:
        """Read it."""
        return NodeId(LITTLE_ENDIAN_64.read(reader, field))

    def write(self, writer: Writer, value: NodeId, field: str) -> None:
        """Write it."""
        LITTLE_ENDIAN_64.write(writer, value, field)


LITTLE_ENDIAN_64: Final = LittleEndian64()


@dataclass(frozen=True, slots=True)
class NodePathItem:
    """One relay on the way that node information took."""

    node_id: NodeId
    srtt_us: int
    """The smoothed round-trip time of the session that it came in by, in microseconds."""


PATH_ITEM: Final = Layout(
    NodePathItem, ("node_id", LittleEndianNodeId()), ("srtt_us", LITTLE_ENDIAN_64)
)


@dataclass(frozen=True, slots=True)
class ShortNamespace:
    """A namespace with an 8-bit count and 16-bit lengths; MoQT's limits hold here as well."""

    def read(self, reader: Reader, field: str) -> Namespace:
        """Read it."""
        start = reader.pos
        fields = _SHORT_FIELDS.read(reader, field)
        try:
            return Namespace(fields)
        except ValueError as error:
            reader.fail(field, str(error), offset=start)

    def write(self, writer: Writer, value: Namespace, field: str) -> None:
        """Write it."""
        _SHORT_FIELDS.write(writer, value.fields, field)


_SHORT_FIELDS: Final = Array(Prefixed(MAX_NAME_BYTES, U16), MAX_FIELDS, U8)
SHORT_NAMESPACE: Final = ShortNamespace()


@dataclass(frozen=True, slots=True)
class NodeSet:
    """A 16-bit count and node IDs. Any order is read, for it is a set; ascending is written."""

    def read(self, reader: Reader, field: str) -> tuple[NodeId, ...]:
        """Read it."""
        return tuple(sorted(set(_NODES.read(reader, field))))

    def write(self, writer: Writer, value: tuple[NodeId, ...], field: str) -> None:
        """Write it."""
        _NODES.write(writer, value, field)


_NODES: Final = Array(NODE_ID, MAX_SNS_NODES, U16)
NODE_SET: Final = NodeSet()


# Messages

FLAG_NAMESPACE: Final = 0x01
"""Bit 0 of an announce's flags: a namespace is announced, not one track."""

DEFAULT_SNS_PRIORITY: Final = 2
"""The priority that the C++ relay writes in every node set."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One relay of the network, and the path of its advertisement."""

    node_id: NodeId
    node_type: NodeType
    contact: bytes
    """The relay's endpoint ID, such as ``relay-a``; bytes, because the C++ relay checks nothing."""
    longitude: float = 0.0
    """In degrees; always 0 from a C++ relay, which has no setting for it."""
    latitude: float = 0.0
    path: tuple[NodePathItem, ...] = ()
    """The relays that forwarded it, the first one first."""


@dataclass(frozen=True, slots=True)
class Connect:
    """The first message of the dialler."""

    mode: PeerMode
    node_info: NodeInfo
    """The node information of the sender, without a path."""


@dataclass(frozen=True, slots=True)
class ConnectResponse:
    """The answer to Connect: an acceptance with node information, or an error."""

    error: int
    """0 or a :class:`~laps_wire.peering.cpp.ConnectError`; unknown codes are refusals too."""
    node_info: NodeInfo | None
    """The node information of the listener; present if and only if ``error`` is 0."""

    def __post_init__(self) -> None:
        if (self.error == ConnectError.NONE) is (self.node_info is None):
            raise EncodeError(f"CONNECT_RESPONSE: error {self.error} and node_info contradict")


@dataclass(frozen=True, slots=True)
class NodeInfoAdvertise:
    """A relay can be reached through the sender."""

    node_info: NodeInfo


@dataclass(frozen=True, slots=True)
class NodeInfoWithdrawn:
    """A relay can no longer be reached through the sender."""

    node_info: NodeInfo


@dataclass(frozen=True, slots=True)
class SubscribeInfo:
    """A subscribe of relay ``source_node_id`` to a track."""

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
    """A subscribe is advertised."""

    info: SubscribeInfo


@dataclass(frozen=True, slots=True)
class SubscribeInfoWithdrawn:
    """A subscribe is withdrawn; the body has the same fields as the advertisement."""

    info: SubscribeInfo


@dataclass(frozen=True, slots=True)
class AnnounceInfo:
    """An announce of a track or namespace at ``source_node_id``, with plain names."""

    source_node_id: NodeId
    fullname_hash: int
    namespace: Namespace
    name: bytes
    """Empty if a namespace is announced."""
    flags: int
    """Bit 0: a namespace is announced. The other bits are kept unchanged."""

    def __post_init__(self) -> None:
        # The full name checks the common limit of both.
        FullTrackName(self.namespace, self.name)

    @property
    def is_namespace(self) -> bool:
        """Whether a namespace is announced (PUBLISH_NAMESPACE) and not one track."""
        return bool(self.flags & FLAG_NAMESPACE)


@dataclass(frozen=True, slots=True)
class AnnounceInfoAdvertised:
    """An announce is advertised."""

    info: AnnounceInfo


@dataclass(frozen=True, slots=True)
class AnnounceInfoWithdrawn:
    """An announce is withdrawn."""

    info: AnnounceInfo


@dataclass(frozen=True, slots=True)
class SubscribeNodeSetAdvertised:
    """A subscriber node set: data with ``sns_id`` on this connection is for these nodes."""

    sns_id: int
    priority: int
    """Always 2 from a C++ relay, which does not read it."""
    nodes: tuple[NodeId, ...]
    """Ascending, each once."""

    def __post_init__(self) -> None:
        if any(left >= right for left, right in itertools.pairwise(self.nodes)):
            raise EncodeError("SUBSCRIBE_NODE_SET: nodes are not ascending, each once")


@dataclass(frozen=True, slots=True)
class SubscribeNodeSetWithdrawn:
    """The subscriber node set ``sns_id`` of this connection ends."""

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
    """Optional node information up to the end of the message."""

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
"""The layout of the body of each message type."""

TYPES: Final[dict[type, MessageType]] = {layout.cls: kind for kind, layout in LAYOUTS.items()}
"""The type of each message class."""


# Framing


@dataclass(frozen=True, slots=True)
class UnknownMessage:
    """A message of an unknown type; it can be encoded again unchanged."""

    message_type: int
    body: bytes

    def __post_init__(self) -> None:
        if self.message_type in _KNOWN:
            raise EncodeError(f"message type {self.message_type} is known: use its own class")


Incoming: TypeAlias = "Message | UnknownMessage"
"""The result of the decoder."""

_KNOWN: Final = {int(kind): (kind.name, layout) for kind, layout in LAYOUTS.items()}


def encode(message: Incoming, build: Build) -> bytes:
    """Return one message with its common header."""
    body = Writer(integers=build.integers)
    if isinstance(message, UnknownMessage):
        message_type = message.message_type
        body.raw(message.body)
    else:
        kind = TYPES[type(message)]
        message_type = int(kind)
        LAYOUTS[kind].write(body, message, kind.name)
    writer = Writer()
    if len(body) > MAX_BODY_BYTES:
        writer.fail("length", f"{len(body)} bytes are over the limit of {MAX_BODY_BYTES}")
    writer.u8(VERSION, "version")
    writer.u16(message_type, "type")
    writer.u32(len(body), "length")
    writer.raw(body.getvalue())
    return writer.getvalue()


def read_message(reader: Reader) -> Incoming:
    """Read one message; the reader's integer coding must be that of the peer's build."""
    start = reader.pos
    version = reader.u8("version")
    if version != VERSION:
        reader.fail("version", f"{version} where only {VERSION} is known", offset=start)
    message_type = reader.u16("type")
    at = reader.pos
    size = reader.u32("length")
    if size > MAX_BODY_BYTES:
        reader.fail("length", f"{size} is over the limit of {MAX_BODY_BYTES}", offset=at)
    known = _KNOWN.get(message_type)
    if known is None:
        return UnknownMessage(message_type, reader.take(size, "body"))
    name, layout = known
    body = reader.sub(size, name)
    message: Message = layout.read(body, name)
    body.expect_end(name)
    return message


def decode(data: ByteSource, build: Build, *, pos: int = 0) -> tuple[Incoming, int]:
    """Return the message at ``pos`` of a stream's bytes, and the position after it."""
    reader = Reader(data, integers=build.integers, partial=True, pos=pos)
    message = read_message(reader)
    return message, reader.pos


class MessageStream:
    """The receiving side of the control stream, which assembles messages from chunks.

    ::

        stream.feed(chunk)
        while (message := stream.next_message()) is not None:
            ...

    The buffer holds at most one incomplete message, of limited size; a length over the limit is
    refused as soon as the header has arrived. A message that does not parse is removed from the
    buffer before its error is raised, so the caller can continue with the next message.
    """

    __slots__ = ("_buffer", "_build")

    def __init__(self, build: Build) -> None:
        self._build = build
        self._buffer = bytearray()

    @property
    def buffered(self) -> int:
        """The number of buffered bytes."""
        return len(self._buffer)

    def feed(self, chunk: ByteSource) -> None:
        """Append received bytes."""
        self._buffer += chunk

    def next_message(self) -> Incoming | None:
        """Return the next whole message; None if more bytes are needed."""
        if len(self._buffer) < HEADER_BYTES:
            return None
        size = HEADER_BYTES + int.from_bytes(self._buffer[3:HEADER_BYTES], "big")
        invalid = self._buffer[0] != VERSION or size > HEADER_BYTES + MAX_BODY_BYTES
        if len(self._buffer) < size and not invalid:
            return None
        # One copy for each message; an invalid header is refused without its body.
        frame = bytes(self._buffer[:size])
        del self._buffer[:size]
        return decode(frame, self._build)[0]
