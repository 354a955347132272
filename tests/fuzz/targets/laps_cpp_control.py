"""The C++ relay's control messages in both builds: one by one, and as a stream in two chunks."""

from __future__ import annotations

from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.names import Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.cpp import (
    DRAFT16,
    DRAFT18,
    AnnounceInfo,
    AnnounceInfoAdvertised,
    Build,
    Connect,
    ConnectResponse,
    Incoming,
    Message,
    MessageStream,
    NodeInfo,
    NodeInfoAdvertise,
    NodePathItem,
    NodeType,
    PeerMode,
    SubscribeInfo,
    SubscribeInfoWithdrawn,
    SubscribeNodeSetAdvertised,
    SubscribeNodeSetWithdrawn,
    decode,
    encode,
)
from laps_wire.peering.cpp.codepoints import HEADER_BYTES, VERSION


def one_input(data: bytes) -> None:
    for build in (DRAFT16, DRAFT18):
        whole, refused = _one_by_one(data, build)
        assert _streamed(data, build) == (whole, refused)


def _one_by_one(data: bytes, build: Build) -> tuple[list[Incoming], bool]:
    """Every message up to the end or the first fault."""
    found: list[Incoming] = []
    pos = 0
    while True:
        try:
            message, pos = decode(data, build, pos=pos)
        except IncompleteError:
            return found, False
        except RemoteError:
            return found, True
        again = encode(message, build)
        assert decode(again, build) == (message, len(again))
        found.append(message)


def _streamed(data: bytes, build: Build) -> tuple[list[Incoming], bool]:
    """The same out of a stream that was cut somewhere."""
    found: list[Incoming] = []
    stream = MessageStream(build)
    cut = data[0] if data else 0
    for chunk in (data[:cut], data[cut:]):
        stream.feed(chunk)
        try:
            while (message := stream.next_message()) is not None:
                found.append(message)
        except RemoteError:
            return found, True
    # A wrong version is seen at its first byte by decode(), but by a stream with its header.
    return found, 0 < stream.buffered < HEADER_BYTES and _rest(data, stream)[0] != VERSION


def _rest(data: bytes, stream: MessageStream) -> bytes:
    return data[len(data) - stream.buffered :]


def seeds() -> list[bytes]:
    node = NodeInfo(NodeId(5), NodeType.EDGE, b"relay-a")
    path = (NodePathItem(NodeId(7), 1500),)
    messages: list[Message] = [
        Connect(PeerMode.BOTH, node),
        ConnectResponse(0, node),
        ConnectResponse(2, None),
        NodeInfoAdvertise(NodeInfo(NodeId(6), NodeType.VIA, b"v" * 70, 1.5, -2.5, path)),
        SubscribeInfoWithdrawn(SubscribeInfo(1, NodeId(5), 2, 3, 4, b"\x00\x01\x01a\x01b\x00")),
        AnnounceInfoAdvertised(AnnounceInfo(NodeId(5), 9, Namespace.of(b"a", b"b"), b"c", 0)),
        SubscribeNodeSetAdvertised(2, 2, (NodeId(5), NodeId(6))),
        SubscribeNodeSetWithdrawn(2),
    ]
    both = [encode(message, build) for message in messages for build in (DRAFT16, DRAFT18)]
    return [*both, b"".join(both[::2]), bytes.fromhex("01000300000002abcd")]
